"""Errors of the client."""


class EnckeError(Exception):
    """A server refused a request. The message is the server's sentence."""

    def __init__(self, message: str, status: int | None = None):
        super().__init__(message)
        self.status = status
        """Status of the answer (RFC 9110, section 15)."""


class Refused(EnckeError):
    """A stream that the server will not open, however often it is asked."""
