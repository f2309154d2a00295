"""A page of an allowed host, read once by each run: its text, and its picture where a browser is there."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from chordesk.models.settings import Settings
from chordesk.models.urls import PageHost
from chordesk.tools.market.fetching import Once
from chordesk.tools.pages.browser import find_browser, picture_of
from chordesk.tools.pages.page_reader import PageError, RawPage, Robots, Target, read_page
from chordesk.tools.pages.page_text import PageText, text_within
from chordesk.tools.registry import ToolImage

# Shares of a tool call's time by which the page, and then its picture, have to be there.
_PAGE_SHARE, _TEXT_SHARE, _PICTURE_SHARE = 0.5, 0.7, 0.85


@dataclass(frozen=True, slots=True)
class ReadPage:
    """A page that was read. picture: the image, or why there is none."""

    raw: RawPage
    content: PageText
    picture: ToolImage | str


_pages: Once[ReadPage] = Once(64)
_robots: Once[Robots] = Once(256)


def page_of_run(url: str, hosts: Sequence[PageHost], settings: Settings, run: str | None) -> ReadPage:
    """Raises PageError. A run reads each URL once, in each worker process."""
    return _pages.get(run and (run, url), partial(_fetch, url, hosts, settings, run))


def _fetch(url: str, hosts: Sequence[PageHost], settings: Settings, run: str | None) -> ReadPage:
    began = time.monotonic()

    def rules(target: Target, read: Callable[[str], Any]) -> Robots:
        return _robots.get(run and (run, target.origin), lambda: Robots(target, read))

    raw = read_page(url, hosts, began + settings.tool_seconds * _PAGE_SHARE, rules)
    content = text_within(raw, began + settings.tool_seconds * _TEXT_SHARE)
    try:
        browser = find_browser(settings.page_browser)
        picture = picture_of(browser, raw.target, hosts, began + settings.tool_seconds * _PICTURE_SHARE)
    except PageError as error:
        return ReadPage(raw, content, str(error))
    return ReadPage(raw, content, picture)
