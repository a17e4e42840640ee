"""Notices of presence, as a client understands them."""


class Known:
    """What a client knows of who is online. A snapshot that says the same once more is no news: one may come at any time,
    and one does when a subscription was made just before the login."""

    def __init__(self):
        self.online = None

    def is_news(self, kind, data):
        """Takes a notice. Returns whether it changes anything."""
        before = self.online
        match kind:
            case "presence":
                online = set(map(str, data["online"]))
                self.online = online if data["first"] else (before or set()) | online
                return before != self.online or data["more"] or not data["first"]
            case "online":
                self.online = (before or set()) | {str(data["id"])}
            case "offline":
                self.online = (before or set()) - {str(data["id"])}
        return True
