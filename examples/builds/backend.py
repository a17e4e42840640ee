#!/usr/bin/env python3
"""Backend of build notifications: takes builds from the continuous integration, and lets developers watch projects."""

import hmac
import http.server
import json
import os

import encke
import httpx

BODY_MAX = 10_000
KEY = os.environ["CI_KEY"]
# Where streams are, as watchers see it.
PUBLIC = os.environ.get("ENCKE_PUBLIC", "http://localhost:8000/")
control = encke.Control(os.environ.get("ENCKE_CONTROL", "http://127.0.0.1:8001"))


class Backend(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        length = int(self.headers.get("Content-Length") or 0)
        if length > BODY_MAX:
            return self.send_error(413)
        said = json.loads(self.rfile.read(length))
        try:
            match self.path.split("/"):
                case ["", "builds", project]:
                    self.build(project, said)
                case ["", "watch"]:
                    self.watch(said)
                case _:
                    self.send_error(404)
        except encke.EnckeError as error:
            self.send_error(error.status or 502, str(error))
        except httpx.HTTPError as error:
            self.send_error(503, str(error))

    def build(self, project, said):
        key = self.headers.get("Authorization", "")
        if not hmac.compare_digest(key.encode(), f"Bearer {KEY}".encode()):
            return self.send_error(401)
        # Continuous integration tries again when it got no answer.
        once = f"{project}/{said['number']}/{said['status']}"
        headers = {"Idempotency-Key": f'"{once}"'}
        self.answer(control.publish(f"build:{project}", said, type="build", headers=headers))

    def watch(self, said):
        """A ticket for a developer, who watches these projects from now on."""
        developer = f"dev:{said['developer']}"
        control.subscribe_many((developer, f"build:{project}") for project in said["projects"])
        ticket, cursor = control.ticket([developer]), control.cursor()
        self.answer({"ticket": ticket, "cursor": cursor, "encke": PUBLIC})

    def answer(self, value):
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


if __name__ == "__main__":
    server = http.server.ThreadingHTTPServer(("127.0.0.1", int(os.environ.get("PORT", "3000"))), Backend)
    print(f"http://localhost:{server.server_port}/", flush=True)
    server.serve_forever()
