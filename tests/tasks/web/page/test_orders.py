"""Orders, threads, accounts, the fleet and the record, as a person reads them."""

from __future__ import annotations

import re

from playwright.sync_api import Locator, Page, expect

from tests.browser.kit import DeskPage, short


def panel(page: Page, name: str) -> Locator:
    return page.locator(f'section[aria-label="{name}"]')


def waiting_order(desk: DeskPage) -> str:
    """The id of the order that waits for a person."""
    with desk.service.client() as client:
        return str(client.get("/orders", params={"state": "approval_pending"}).json()[0]["order"]["id"])


def filled_order(desk: DeskPage) -> str:
    with desk.service.client() as client:
        return str(client.get("/orders", params={"state": "filled", "run": desk.run}).json()[0]["order"]["id"])


def test_the_tool_answers_of_the_risk_role_are_three_clicks_away(page: Page, desk_page: DeskPage) -> None:
    order = waiting_order(desk_page)
    page.get_by_role("navigation", name="Views").get_by_role("link", name="Orders").click()
    page.locator("main").get_by_role("link", name=short(order)).first.click()
    expect(panel(page, "Why it was made")).to_contain_text("the verdict is BUY")
    risk = page.locator("#part-reports tbody tr").filter(has_text="risk")
    risk.get_by_role("link", name=re.compile(r"^\d+ tool answer")).click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("risk")
    expect(panel(page, "Prompt")).to_contain_text("The subject, as data")
    expect(page.get_by_label("Answer of signals_get").first).to_contain_text('"asOf": "2010-08-12')


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


def test_an_order_that_is_filled_shows_its_answer_its_fill_and_its_log(page: Page, desk_page: DeskPage) -> None:
    desk_page.open(page, f"/orders/{filled_order(desk_page)}")
    expect(page.locator("#part-answer")).to_contain_text("Ann via the API")
    expect(page.locator("#part-fills tbody tr")).to_have_count(1)
    expect(page.locator("#part-log tbody tr", has_text="submitting")).to_have_count(1)
    checks = page.locator("#part-checks")
    expect(checks).to_contain_text("passed all 31 rules when it was last checked")
    expect(checks.locator("tr", has_text="share per symbol")).to_contain_text("%")


def test_the_orders_are_filtered_by_the_address_and_the_log_is_whole(page: Page, desk_page: DeskPage) -> None:
    desk_page.open(page, f"/orders?state=filled&run={desk_page.run}")
    rows = panel(page, "All orders").locator("tbody tr")
    expect(rows).to_have_count(1)
    expect(panel(page, "Audit log")).to_contain_text("whole")
    symbol = page.get_by_label("Symbol", exact=True)
    symbol.fill("ZZZZ")
    # The view renders anew, as it does when an event of the desk arrives.
    page.get_by_label("State").select_option("denied")
    expect(symbol).to_have_value("ZZZZ")
    symbol.press("Enter")
    expect(page.get_by_text("No order is like that")).to_be_visible()
    expect(page).to_have_url(re.compile(r"symbol=ZZZZ"))


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


def test_the_account_shows_its_books(page: Page, desk_page: DeskPage) -> None:
    desk_page.open(page, "/account")
    expect(page.get_by_role("heading", level=1)).to_contain_text("active")
    held = panel(page, "Positions").locator("tbody tr")
    expect(held).to_have_count(1)
    expect(held.get_by_role("link", name="KO")).to_be_visible()
    expect(panel(page, "Exposure by sector")).to_contain_text("Consumer Staples")
    expect(panel(page, "Comparison with the broker")).to_contain_text("the books agree")
    expect(panel(page, "Movements").locator("tbody tr")).to_have_count(1)


def test_the_fleet_the_settings_and_the_doctor_are_tables(page: Page, desk_page: DeskPage) -> None:
    desk_page.open(page, "/fleet")
    workers = panel(page, "Workers")
    for name in ("ops@", "research@", "trade@"):
        expect(workers.locator("tbody tr", has_text=name)).to_have_count(1)
    expect(panel(page, "App-servers").locator("tbody tr").first).to_be_visible()
    expect(panel(page, "Steps")).to_contain_text("The oldest step")
    desk_page.open(page, "/settings?q=replay_date")
    row = panel(page, "Settings").locator("tbody tr")
    expect(row).to_have_count(1)
    expect(row).to_contain_text("2010-08-12")
    expect(row).to_contain_text("environment")
    page.get_by_role("button", name="Limits").click()
    expect(panel(page, "Rules in force")).to_contain_text("notional_per_order")
    page.get_by_role("button", name="Doctor").click()
    expect(panel(page, "Doctor")).to_contain_text("audit log")


def test_the_record_has_questions_of_the_verdicts(page: Page, desk_page: DeskPage) -> None:
    desk_page.open(page, "/scores?show=scores")
    expect(page.get_by_text("No forecast of a resolved question to score yet")).to_be_visible()
    page.get_by_role("button", name="Questions").click()
    page.get_by_role("link", name=re.compile("^Will KO .* after 2010-08-12")).first.click()
    verdicts = panel(page, "Verdicts that it scores")
    expect(verdicts.get_by_role("link", name="BUY")).to_be_visible()
