"""What a site allows and asks of programs that read it: its robots.txt (RFC 9309)."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple
from urllib.parse import quote, unquote_to_bytes

from chordesk.tools.pages.targets import PageError, Target
from chordesk.tools.pages.wire import AGENT, PageReply

PATH = "/robots.txt"
_ANY = "*"


class PathRule(NamedTuple):
    """A path with `*` for any letters, and `$` at its end for the end of the path; whether it may be read."""

    pattern: str
    allows: bool

    def matches(self, path: str) -> bool:
        whole = self.pattern.endswith("$")
        first, *parts = self.pattern.removesuffix("$").split(_ANY)
        if not path.startswith(first):
            return False
        place = len(first)
        if not parts:
            return not whole or place == len(path)
        for part in parts[:-1]:
            if (found := path.find(part, place)) < 0:
                return False
            place = found + len(part)
        last = parts[-1]
        return path.endswith(last) and len(path) - len(last) >= place if whole else path.find(last, place) >= 0


class Robots:
    """What one site allows, from the reply to its robots.txt. A site without one allows everything."""

    def __init__(self, target: Target, read: Callable[[str], PageReply]) -> None:
        """read: returns the reply at a URL. Raises PageError when the site's rules cannot be known."""
        reply = read(f"{target.origin}{PATH}")
        if reply.status >= 500 or reply.status == 429:
            raise PageError(f"{PATH} of {target.host} answers with {reply.status}, so its rules are not known")
        self._rules = rules_of(reply.body.decode("utf-8-sig", "replace"), AGENT) if reply.status == 200 else []

    def check(self, target: Target) -> None:
        """Raise PageError for a page that the site asks programs not to read."""
        path = _plain(target.path)
        # The most specific rule holds, which is the longest; of two as long the one that allows.
        found = max((rule for rule in self._rules if rule.matches(path)), key=_weight, default=None)
        if found is not None and not found.allows:
            raise PageError(f"{PATH} of {target.host} asks programs not to read {target.path[:200]}")


def rules_of(text: str, agent: str) -> list[PathRule]:
    """Return the rules for a program: those of all groups that name it, else those for any program."""
    groups: dict[str, list[PathRule]] = {}
    named: set[str] = set()
    began = False  # the group has a rule, so that a further name begins another group
    for line in text.splitlines():
        key, _, value = line.partition("#")[0].partition(":")
        key, value = key.strip().lower(), value.strip()
        if key == "user-agent":
            named, began = (set() if began else named) | {value.lower()}, False
            groups.setdefault(value.lower(), [])
        elif key in ("allow", "disallow"):
            began = True
            if value:
                for name in named:
                    groups[name].append(PathRule(_plain(value), key == "allow"))
    return groups.get(agent.lower(), groups.get(_ANY, []))


def _weight(rule: PathRule) -> tuple[int, bool]:
    return len(rule.pattern), rule.allows


def _plain(path: str) -> str:
    """Return a path in one form of percent-encoding."""
    return quote(unquote_to_bytes(path), safe="/?=&;,:@!$'()*+~-._")
