"""Fixtures of the page's tests: `page`, logged in, and `desk_page`, the desk behind it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page

from tests.browser import kit
from tests.browser.browser import launched
from tests.browser.kit import DeskPage


# Playwright leaves an event loop running in its thread as long as it is started, and no other test could
# have one of its own. It ends with the folder, in which no test has one: those of the sessions are in the folder above.
@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    with launched() as found:
        yield found


@pytest.fixture(scope="package")
def shared_desk(browser: Browser) -> Iterator[DeskPage]:
    with kit.desk_page(recorded=True) as found:
        yield found


@pytest.fixture
def desk_page(shared_desk: DeskPage) -> Iterator[DeskPage]:
    """The desk behind the page, one for all tests. At the end nothing was asked of another server, and no browser
    complained."""
    shared_desk.requests.clear()
    shared_desk.complaints.clear()
    yield shared_desk
    assert shared_desk.complaints == []
    foreign = [url for url in shared_desk.requests if not url.startswith((f"{shared_desk.url}/", "blob:"))]
    assert foreign == []


@pytest.fixture
def page(browser: Browser, desk_page: DeskPage) -> Iterator[Page]:
    """A page that is logged in, in a browser context of its own."""
    with kit.logged_in(browser, desk_page) as found:
        yield found
        found.unroute_all(behavior="ignoreErrors")  # an answer on its way would fail the next test


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "browser" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.browser)
            item.add_marker(pytest.mark.process)
