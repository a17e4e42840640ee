#!/usr/bin/env python3
"""Backend of a feed of friends: log-in, friendships, posts, and a ticket for each stream."""

import http.cookies
import http.server
import json
import os
import pathlib
import secrets

import encke
import httpx

HERE = pathlib.Path(__file__).resolve().parent
FILES = {
    "/": (HERE / "index.html", "text/html; charset=utf-8"),
    "/encke.js": (HERE.parents[1] / "clients" / "js" / "encke.js", "text/javascript"),
}
BODY_MAX = 10_000

# Where streams are, as browsers see it.
PUBLIC = os.environ.get("ENCKE_PUBLIC", "http://localhost:8000/")
control = encke.Control(os.environ.get("ENCKE_CONTROL", "http://127.0.0.1:8001"))
users = {}  # by their sessions


class Backend(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path == "/config":
            return self.answer({"encke": PUBLIC})
        if self.path == "/friends":
            return self.of_user(lambda user: {"friends": list(control.subscriptions(user))})
        path, kind = FILES.get(self.path, (None, None))
        if path is None:
            return self.send_error(404)
        self.send(path.read_bytes(), kind)

    def do_POST(self):
        # A page of another origin cannot send this type without asking.
        length = int(self.headers.get("Content-Length") or 0)
        if self.headers.get("Content-Type") != "application/json" or length > BODY_MAX:
            return self.send_error(400)
        said = json.loads(self.rfile.read(length))
        match self.path:
            case "/login":
                self.login(said["user"])
            case "/ticket":
                self.of_user(lambda user: {"ticket": control.ticket([user])})
            case "/befriend":
                self.of_user(lambda user: self.befriend(user, said["friend"]))
            case "/post":
                self.of_user(lambda user: control.publish(user, {"text": said["text"]}, type="post"))
            case _:
                self.send_error(404)

    def login(self, user):
        session = secrets.token_urlsafe()
        users[session] = user
        self.answer({"user": user}, {"Set-Cookie": f"session={session}; HttpOnly; SameSite=Strict"})

    def befriend(self, user, friend):
        return control.subscribe_many([(user, friend), (friend, user)])

    def of_user(self, act):
        """Answers what `act` returns for the user of this request."""
        cookies = http.cookies.SimpleCookie(self.headers.get("Cookie"))
        user = users.get(cookies["session"].value) if "session" in cookies else None
        if user is None:
            return self.send_error(401)
        try:
            self.answer(act(user))
        except encke.EnckeError as error:
            self.send_error(error.status or 502, str(error))
        except httpx.HTTPError as error:
            self.send_error(503, str(error))

    def answer(self, value, headers=None):
        self.send(json.dumps(value).encode(), "application/json", {"Cache-Control": "no-store", **(headers or {})})

    def send(self, body, kind, headers=None):
        self.send_response(200)
        for name, value in {"Content-Type": kind, "Content-Length": len(body), **(headers or {})}.items():
            self.send_header(name, str(value))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


if __name__ == "__main__":
    server = http.server.ThreadingHTTPServer(("127.0.0.1", int(os.environ.get("PORT", "3000"))), Backend)
    print(f"http://localhost:{server.server_port}/", flush=True)
    server.serve_forever()
