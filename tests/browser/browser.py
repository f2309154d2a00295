"""The headless browser of the tests: which one, and where none is, the remedy."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, sync_playwright

# Of the tests alone: the desks under test refuse variables of their prefix that they do not know.
_NAMED = os.environ.pop("DESK_TEST_BROWSER", None)
_REQUIRED = bool(os.environ.pop("DESK_TEST_BROWSER_REQUIRED", None))

NAMES = (
    "chromium", "chromium-browser", "chromium-headless-shell", "google-chrome", "google-chrome-stable",
    "microsoft-edge",
)  # fmt: skip
REMEDY = "install chromium-headless-shell or Chromium, or name a browser in DESK_TEST_BROWSER"


def find() -> str | None:
    """Return the path of DESK_TEST_BROWSER, else of the first Chromium on the PATH; None without any."""
    if _NAMED:
        return shutil.which(_NAMED)
    return next((path for name in NAMES if (path := shutil.which(name))), None)


@contextmanager
def launched() -> Iterator[Browser]:
    """A browser; without one the test is skipped, or failed where DESK_TEST_BROWSER_REQUIRED is set."""
    path = find()
    if path is None:
        outcome = pytest.fail if _REQUIRED else pytest.skip
        outcome(f"no browser: {REMEDY}")
    # Chromium's sandbox does not work as root.
    flags = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=flags)
        try:
            yield browser
        finally:
            browser.close()
