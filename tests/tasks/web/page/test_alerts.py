"""Alerts on the page: made by pointing at a price of a chart, switched, and listed with what fired."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect

from tests.browser.kit import DeskPage
from tests.parts import needs

pytestmark = needs("alerts")


def test_an_alert_is_made_by_pointing_at_a_price_of_a_chart(page: Page, desk_page: DeskPage) -> None:
    desk_page.open(page, "/symbols/IBM", None)
    chart = page.get_by_role("img", name=re.compile(r"^IBM: \d+ bars"))
    expect(chart.locator("canvas").first).to_be_visible()
    page.get_by_role("button", name="Alert at a price…").click()
    box = chart.bounding_box()
    assert box is not None
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 4)
    dialog = page.get_by_role("dialog", name="Add an alert")
    expect(dialog.get_by_label("When")).to_have_value(re.compile(r"^price (above|below) \d+\.\d\d$"))
    expect(dialog.get_by_label("On:")).to_have_value("IBM")
    expect(dialog).to_contain_text("crosses a price")
    written = dialog.get_by_label("When").input_value()
    dialog.get_by_label("When").fill("price above")
    dialog.get_by_role("button", name="Add", exact=True).click()
    expect(dialog.get_by_role("alert")).to_contain_text("write price above|below PRICE")
    dialog.get_by_label("When").fill(written)
    dialog.get_by_role("button", name="Add", exact=True).click()
    row = page.get_by_role("group", name="Alerts", exact=True).get_by_role("row").filter(has_text=written)
    expect(row).to_contain_text("not looked at yet")
    row.get_by_role("button", name="Off").click()
    expect(row).to_contain_text("off")
    row.get_by_role("button", name="Remove…").click()
    page.get_by_role("dialog").get_by_role("button", name="Remove…").click()
    expect(row).to_have_count(0)
    expect(page.get_by_role("region", name="What fired")).to_contain_text("Nothing has fired yet")
