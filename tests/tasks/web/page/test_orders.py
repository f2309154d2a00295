"""Orders, threads, accounts, the fleet and the record, as a person reads them."""

from __future__ import annotations

import re

from playwright.sync_api import Locator, Page, expect

from tests.browser.kit import DeskPage


def panel(page: Page, name: str) -> Locator:
    return page.locator(f'section[aria-label="{name}"]')


def waiting_order(desk: DeskPage) -> str:
    """The id of the order that waits for a person."""
    with desk.service.client() as client:
        return str(client.get("/orders", params={"state": "approval_pending"}).json()[0]["order"]["id"])


def test_an_order_shows_its_checks_its_preview_and_its_lineage(page: Page, desk_page: DeskPage) -> None:
    order = waiting_order(desk_page)
    desk_page.open(page, f"/orders/{order}")
    expect(page.get_by_role("heading", level=1)).to_contain_text("waits for a person")
    lineage = page.get_by_label("What the order rests on, and what became of it")
    for node in ("Verdict: BUY", "Reports: risk, CONFIRMED", "Decision: trader", "Preview: $"):
        expect(lineage.get_by_role("link", name=re.compile(re.escape(node)))).to_have_count(1)
    expect(lineage).to_contain_text("not sent")
    checks = page.locator("#part-checks")
    expect(checks).to_contain_text("passes all")
    expect(checks.locator("tr", has_text="share per symbol")).to_contain_text("DESK_MAX_SYMBOL_SHARE")
    checks.get_by_role("button", name=re.compile(r"All \d+ rules")).click()
    expect(checks.locator("tr", has_text="long only")).to_be_visible()
    since = page.get_by_role("group", name="Changes since the preview")
    expect(since).to_contain_text("as they were checked")
    expect(page.locator("#part-log tbody tr").first).to_contain_text("drafted")
    page.get_by_role("link", name=re.compile("Preview: ")).click()
    expect(page).to_have_url(re.compile(r"part=preview$"))
    expect(page.locator("#part-preview")).to_be_in_viewport()


def test_missing_things_are_named_in_a_plain_error(page: Page, desk_page: DeskPage) -> None:
    for way, text in (
        ("/orders/ffffffff-0000", "there is no order"),
        ("/threads/ffffffff-0000", "no thread with the id"),
        ("/turns/ffffffff-0000", "there is no turn"),
        ("/accounts/nobody", "there is no account"),
        ("/scores/voice/nobody", "has no voice"),
        ("/questions/ffffffff-0000", "question"),
    ):
        desk_page.open(page, way)
        alert = page.get_by_role("alert")
        expect(alert).to_contain_text(text)
        expect(alert.get_by_role("button", name="Try again")).to_be_visible()
