"""The wishes of a site about programs that read it: its robots.txt (RFC 9309)."""

from __future__ import annotations

from collections.abc import Callable
from urllib.robotparser import RobotFileParser

from tools.pages.targets import PageError, Target
from tools.pages.wire import AGENT, PageReply

PATH = "/robots.txt"


class Robots:
    """What one site allows, from the reply to its robots.txt. A site without one allows everything."""

    def __init__(self, target: Target, read: Callable[[str], PageReply]) -> None:
        """read: returns the reply at a URL. Raises PageError when the site's rules cannot be known."""
        reply = read(f"{target.origin}{PATH}")
        self._rules = RobotFileParser()
        if reply.status >= 500:
            raise PageError(f"{PATH} of {target.host} answers with {reply.status}, so its rules are not known")
        lines = reply.body.decode("utf-8-sig", "replace").splitlines() if reply.status == 200 else []
        self._rules.parse(lines)

    def check(self, target: Target) -> None:
        """Raise PageError for a page that the site asks programs not to read."""
        if not self._rules.can_fetch(AGENT, target.url):
            raise PageError(f"{PATH} of {target.host} asks programs not to read {target.path[:200]}")
