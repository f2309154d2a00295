"""The page's header: whether money can move, real or not, and whether anything is halted."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, Page, expect

from tests.browser.kit import DeskPage, logged_in, violations
from tests.constants import constants
from tests.fakes.alpaca import KEY, SECRET, Alpaca, serving
from tests.tasks.web.kit import service

RED = "getComputedStyle(document.querySelector('header.top')).borderTopColor"


@contextmanager
def seen(browser: Browser, **environ: str) -> Iterator[tuple[DeskPage, Page]]:
    """A service with these settings and its page, logged in."""
    with service(**environ) as running:
        desk = DeskPage(running, "", "")
        with logged_in(browser, desk) as page:
            yield desk, page
        assert desk.complaints == []


def test_a_desk_that_can_move_real_money_is_red_in_every_view(browser: Browser) -> None:
    with serving(Alpaca()) as alpaca:
        far = {**constants(ALPACA=alpaca.url), "ALPACA_API_KEY": KEY, "ALPACA_SECRET_KEY": SECRET}
        desk_of_money = {"TRADER_LIVE": "1", "DESK_BROKER": "alpaca-live", "DESK_MARKET": "yahoo"}
        model = {"DESK_PROVIDER": "endpoint", "DESK_PROVIDER_URL": "http://127.0.0.1:9/v1"}
        with seen(browser, **far, **desk_of_money, **model) as (desk, page):
            for way, name in (("/", "Desk"), ("/runs", "Runs"), ("/orders", "Orders"), ("/settings", "Settings")):
                desk.open(page, way, name)
                banner = page.get_by_role("banner")
                expect(banner).to_contain_text("LIVE, REAL MONEY")
                assert "real" in (banner.get_attribute("class") or "")
                assert page.evaluate(RED) == "rgb(179, 38, 30)"
            for theme in ("light", "dark"):
                page.emulate_media(color_scheme=theme)  # type: ignore[arg-type]
                assert violations(page) == []
            desk.open(page, "/settings?show=limits")
            expect(page.get_by_text("none in force").first).to_be_visible()
            assert not [url for url in desk.requests if not url.startswith(desk.url)]


def test_a_preview_is_calm_and_a_halt_is_named_with_its_reason(browser: Browser) -> None:
    with seen(browser) as (desk, page):
        banner = page.get_by_role("banner")
        expect(banner).to_contain_text("preview")
        expect(banner).not_to_contain_text("live")
        assert "real" not in (banner.get_attribute("class") or "").split()
        with desk.service.client() as client:
            assert client.post("/halt", json={"by": "Ann", "why": "a fire drill"}).is_success
        page.reload()
        expect(banner).to_contain_text("halted")
        expect(banner.get_by_text("halted")).to_have_attribute("title", re.compile("^a fire drill"))
        assert violations(page) == []


NEWS = """async () => {
  const { news } = await import('/page/lib/notify.js');
  const desk = (ids, accounts) => ({ waiting: ids.map((id) => ({ approval: { id } })),
    database: { halts: accounts.map((account) => ({ account, why: 'a test' })) } });
  return [news(desk(['a'], ['x']), desk(['a'], ['x'])), news(desk(['a'], []), desk(['a', 'b', 'c'], ['paper']))];
}"""


def test_a_notification_is_of_what_is_new(page: Page, desk_page: DeskPage) -> None:
    desk_page.open(page, "/", re.compile("Desk"))
    assert page.evaluate(NEWS) == [[], ["2 things wait for you", "paper is halted: a test"]]
    assert page.evaluate("async () => (await (await fetch('/page/manifest.json')).json()).display") == "standalone"
