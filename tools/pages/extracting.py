"""Extraction of a page's text in a process of its own, which is ended when its time is up.

The extraction of some markup takes long: a thread could not be stopped, and would take the place of other tools.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import time
from dataclasses import asdict

from chordesk.models.errors import NotConfigured
from chordesk.tools.pages.reader import RawPage
from chordesk.tools.pages.targets import PageError
from chordesk.tools.pages.text import PageText, text_of

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
