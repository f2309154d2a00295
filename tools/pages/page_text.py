"""The text of a page, without markup, menus and hidden parts: extracted in a process of its own, which is ended when
its time is up."""

from __future__ import annotations

import base64
import importlib
import importlib.util
import json
import logging
import os
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

from chordesk.models.errors import NotConfigured
from chordesk.models.features import require_source
from chordesk.models.text import inert
from chordesk.tools.pages.page_reader import PageError, RawPage

_TITLE_CHARS, _AUTHOR_CHARS = 300, 200
# The style in small letters without space: translate() drops the signs that have none to stand for them, the last ones.
_STYLE = "translate(@style, 'ABCDEFGHIJKLMNOPQRSTUVWXYZ \t\n\r', 'abcdefghijklmnopqrstuvwxyz')"
# Parts that a browser does not show: a text for programs alone, and the usual place of instructions to a model.
_HIDDEN = [
    "//*[@hidden]",
    "//template",
    "//*[@aria-hidden='true']",
    f"//*[contains({_STYLE}, 'display:none')]",
    f"//*[contains({_STYLE}, 'visibility:hidden')]",
    *(
        f"//*[contains({_STYLE}, '{name}:0') and not(contains({_STYLE}, '{name}:0.'))]"
        for name in ("font-size", "opacity")
    ),
]


@dataclass(frozen=True, slots=True)
class PageText:
    """Clean text of a page and what it states about itself; published is a day."""

    title: str | None
    author: str | None
    published: str | None
    text: str


def text_of(body: bytes, *, html: bool, charset: str | None) -> PageText:
    """Return the text of a page, empty where it has none. charset: as the server states it. Raises NotConfigured
    without the library."""
    if not html:
        return PageText(None, None, None, clean(_decoded(body, charset)))
    # Bytes: it finds the charset of the markup by itself. No URL: a date in it would go before a stated one.
    document = _library().bare_extraction(
        _decoded(body, charset) if charset else body,
        with_metadata=True,
        include_comments=False,
        prune_xpath=_HIDDEN,
        date_extraction_params={"extensive_search": False, "original_date": True},
    )
    return _found(document)


def clean(text: str) -> str:
    """Return the text without control characters and signs that are not seen; lines stay."""
    return "\n".join(seen for line in text.splitlines() if (seen := inert(line, instead="").strip()))


def _found(document: Any) -> PageText:
    if document is None:
        return PageText(None, None, None, "")
    title, author = _short(document.title, _TITLE_CHARS), _short(document.author, _AUTHOR_CHARS)
    return PageText(title, author, document.date or None, clean(document.text or ""))


def _short(text: str | None, limit: int) -> str | None:
    return clean(text or "").replace("\n", " ")[:limit] or None


def _decoded(body: bytes, charset: str | None) -> str:
    try:
        return body.decode(charset or "utf-8", "replace")
    except (LookupError, ValueError):  # no charset of texts, such as Python's own `undefined` and `idna`
        return body.decode("utf-8", "replace")


@cache
def _library() -> Any:
    require_source("pages")
    for name in ("trafilatura", "htmldate"):
        logging.getLogger(name).setLevel(logging.CRITICAL)  # a page without text is an answer here, and no trouble
    return importlib.import_module("trafilatura")


# Extraction of a page's text in a process of its own, which is ended when its time is up.
#
# The extraction of some markup takes long: a thread could not be stopped, and would take the place of other tools.

# Nothing of a key or a setting: the page is from outside.
_ENVIRON = ("PATH", "LANG", "LC_ALL", "VIRTUAL_ENV", "TMPDIR")
_EMPTY = 3  # exit code for a page without text


def text_within(page: RawPage, until: float) -> PageText:
    """Return the text of a page. until: time.monotonic() by which it is there. Raises PageError for a page without
    text, and for one that takes longer."""
    sent = {"body": base64.b64encode(page.body).decode(), "html": page.html, "charset": page.charset}
    environ = {name: os.environ[name] for name in _ENVIRON if name in os.environ}
    seconds = max(until - time.monotonic(), 0.0)
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-m", __name__], input=json.dumps(sent).encode(), capture_output=True, env=environ,
            timeout=seconds,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise PageError(
            f"the text of {page.target.url} was not found in {seconds:.0f} s: its markup is too odd"
        ) from None
    if done.returncode == _EMPTY:
        raise PageError(f"{page.target.url} has no text: it may need a browser that runs its scripts")
    if done.returncode:
        reason = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:]
        raise PageError(
            f"the text of {page.target.url} could not be read: {''.join(reason)[:200] or 'no reason given'}"
        )
    return PageText(**json.loads(done.stdout))


def main() -> int:
    """Read a page from the standard input and write its text; return the exit code."""
    given = json.load(sys.stdin.buffer)
    found = text_of(base64.b64decode(given["body"]), html=given["html"], charset=given["charset"])
    if not found.text:
        return _EMPTY
    sys.stdout.write(json.dumps(asdict(found)))
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except NotConfigured as error:
        sys.exit(str(error))
