"""The view of a symbol: its chart with what the desk did, and everything known of it across runs."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect

from tests.browser.kit import DeskPage


def test_a_symbol_shows_prices_and_all_that_the_desk_did_with_it(page: Page, desk_page: DeskPage) -> None:
    with desk_page.service.client() as client:
        (fill, *_) = client.get("/orders", params={"run": desk_page.run, "state": "filled"}).json()
        symbol = fill["order"]["symbol"]
        known = client.get(f"/symbols/{symbol}").json()
    assert {one["id"]: one["price"] for one in known["plan"]}.items() <= fill["order"]["plan"].items()
    assert known["plan"]
    desk_page.open(page, f"/symbols/{symbol}", None)
    expect(page.get_by_role("heading", level=1)).to_contain_text(symbol)
    chart = page.get_by_role("img", name=re.compile(rf"^{symbol}: \d+ bars"))
    expect(chart.locator("canvas").first).to_be_visible()
    expect(chart).to_have_attribute("aria-label", re.compile(r"last close [\d.]+, [SR]1 [\d.]+"))
    expect(page.locator(".bar-facts")).to_contain_text("buy")
    expect(page.locator(".bar-facts")).to_contain_text("relative")
    expect(page.get_by_text(f"Plan: {', '.join(known['plan_notes'])}.")).to_be_visible()
    for name in ("Verdicts", "Reports", "Fills", "Hits", "The trader's notes"):
        expect(page.get_by_role("group", name=f"{name}, as a table").locator("tbody tr").first).to_be_visible()
    expect(page.get_by_role("region", name="Position")).to_contain_text("sell stop gtc")
    expect(page.get_by_label("Memory", exact=True).last).to_have_text(known["memory"])
    expect(page.get_by_role("link", name="TradingView")).to_be_visible()
    page.get_by_role("button", name="MACD").click()
    expect(page).to_have_url(re.compile("macd"))
    expect(page.locator(".bar-facts")).to_contain_text("macd signal")
    page.get_by_role("button", name="fills").click()
    expect(page).to_have_url(re.compile("hide=fills"))
    page.get_by_role("button", name="Log", exact=True).click()
    expect(page).to_have_url(re.compile("scale=log"))
    page.get_by_text("As a table").click()
    bars = page.get_by_role("group", name="Bars", exact=True)
    expect(bars.locator("tbody tr").first).to_contain_text("2010-08-13")
