"""Errors of the client."""

from typing import Any

import httpx

PROBLEM = "urn:encke:problem:"
"""What the type of a problem begins with (RFC 9457)."""


class EnckeError(Exception):
    """A server refused a request. The message is the server's sentence."""

    def __init__(self, message: str, status: int | None = None, type: str | None = None):
        super().__init__(message)
        self.status = status
        """Status of the answer (RFC 9110, section 15)."""
        self.type = type
        """Type of the problem, which programs may compare, such as `key-in-use`; `docs/PROBLEMS.md` lists them. `None` if the
        answer has none: then the status says all."""


class Refused(EnckeError):
    """A stream that the server will not open, however often it is asked."""


def error_of(answer: httpx.Response) -> EnckeError:
    """Makes the error of an answer that has been read and is not the one that was wanted."""
    problem: Any = None
    if is_json(answer):
        try:
            problem = answer.json()
        except ValueError:
            pass
    if not isinstance(problem, dict):
        problem = {}
    kind = content_type(answer)
    if answer.is_success:
        found = f"the server answered {answer.status_code} with {kind or 'no Content-Type'}"
        message = f"{found}, as Encke never does here: is the address right, or is something between?"
        return EnckeError(message, answer.status_code)
    text = answer.text.strip() if kind == "text/plain" else ""
    message = problem.get("detail") or text or f"the server answered {answer.status_code}"
    type = str(problem.get("type", ""))
    return EnckeError(message, answer.status_code, type.removeprefix(PROBLEM) if type.startswith(PROBLEM) else None)


def is_json(answer: httpx.Response) -> bool:
    """Returns whether the content of an answer says that it is JSON."""
    return content_type(answer) in ("application/json", "application/problem+json")


def content_type(answer: httpx.Response) -> str:
    """Returns the media type of an answer, without parameters."""
    return answer.headers.get("Content-Type", "").partition(";")[0].strip().lower()
