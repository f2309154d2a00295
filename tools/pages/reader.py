"""Reading of one page: its robots.txt, its redirects, its content type."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from urllib.parse import urljoin

from chordesk.models.page_hosts import PageHost
from chordesk.tools.pages.robots import Robots
from chordesk.tools.pages.targets import PageError, Target, target_of
from chordesk.tools.pages.wire import PageReply, get

MOST_REDIRECTS = 5
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_HTML = frozenset({"text/html", "application/xhtml+xml"})
_TEXT = frozenset({"text/plain"})
_BINARY_SIGN, _HEAD_BYTES = b"\x00", 1024
_MARKS = (b"\xff\xfe", b"\xfe\xff")  # of UTF-16, whose letters have such bytes


@dataclass(frozen=True, slots=True)
class RawPage:
    """A page as it came. charset: as the server states it."""

    target: Target
    body: bytes
    html: bool
    charset: str | None
    fetched_at: dt.datetime


def read_page(url: str, hosts: Sequence[PageHost], until: float, robots_of: Callable[..., Robots] = Robots) -> RawPage:
    """Return the page of a URL, after redirects within the allowed hosts.

    until: time.monotonic() by which it is there. robots_of: returns what a target's site allows, as Robots does.
    Raises PageError.
    """

    def rules(target: Target) -> Robots:
        return robots_of(target, lambda path: _follow(path, hosts, until, lambda _target: None)[1])

    target, reply = _follow(url, hosts, until, lambda target: rules(target).check(target))
    if reply.status != 200:
        raise PageError(f"{target.url} answers with {reply.status}")
    kind = reply.headers.get_content_type() if reply.headers.get("Content-Type") else "none"
    if kind == "application/pdf":
        raise PageError(f"{target.url} is a PDF, which is not supported")
    if kind not in _HTML | _TEXT:
        raise PageError(f"{target.url} is no page: its content type is {kind[:80]}")
    if _BINARY_SIGN in reply.body[:_HEAD_BYTES] and not reply.body.startswith(_MARKS):
        raise PageError(f"{target.url} is no page: it is binary, whatever its content type states")
    charset = reply.headers.get_content_charset()
    return RawPage(target, reply.body, kind in _HTML, charset, dt.datetime.now(dt.UTC))


def _follow(
    url: str, hosts: Sequence[PageHost], until: float, check: Callable[[Target], None]
) -> tuple[Target, PageReply]:
    """Return the last target and its reply. check: raises PageError for a target that may not be read."""
    target = target_of(url, hosts)
    for _ in range(MOST_REDIRECTS + 1):
        check(target)
        reply = get(target, until)
        if reply.status not in _REDIRECTS or not (place := reply.headers.get("Location")):
            return target, reply
        try:
            target = target_of(urljoin(target.url, place), hosts)
        except PageError as error:
            raise PageError(
                f"{target.url[:200]} leads to another page, and {error.args[0]}", remedy=error.remedy
            ) from None
    raise PageError(f"{url[:200]} leads from page to page more than {MOST_REDIRECTS} times")
