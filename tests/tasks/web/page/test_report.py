"""The views of a report and of a verdict: each figure leads to the tool answer that it comes from."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect

from tests.browser.kit import DeskPage, overflow, short, violations


def test_from_a_verdict_to_the_answer_of_a_tool(page: Page, desk_page: DeskPage) -> None:
    with desk_page.service.client() as client:
        row = client.get(f"/runs/{desk_page.run}/table").json()["rows"][0]
        report = client.get(f"/reports/{row['cells']['risk']['report_id']}").json()
    desk_page.open(page, f"/verdicts/{row['verdict']['id']}", None)
    expect(page.get_by_role("heading", level=1)).to_contain_text(row["verdict"]["rating"])
    expect(page.get_by_text(row["rule"], exact=True)).to_be_visible()
    page.get_by_role("group", name="Reports", exact=True).get_by_role("link", name="risk").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text(f"risk on {row['candidate']['symbol']}")
    first = report["cited"][0]
    page.get_by_role("link", name=first["figure"], exact=True).first.click()
    expect(page).to_have_url(re.compile(r"figure=1$"))
    expect(page.get_by_role("status")).to_contain_text(first["path"])
    expect(page.locator("mark.now")).to_have_text(f"{first['value']:g}")
    expect(page.locator("mark.now")).to_be_in_viewport()
    page.locator("main").focus()
    page.keyboard.press("n")
    expect(page).to_have_url(re.compile(r"figure=2"))
    expect(page.get_by_role("status")).to_contain_text(report["cited"][1]["path"])
    for theme, width in (("light", 360), ("dark", 2560)):
        page.emulate_media(color_scheme=theme)  # type: ignore[arg-type]
        page.set_viewport_size({"width": width, "height": 900})
        assert violations(page) == []
        assert overflow(page) <= 0
    thread = page.get_by_role("link", name=short(report["turn"]["thread_id"]))
    expect(thread).to_have_attribute("href", f"#/threads/{report['turn']['thread_id']}")
