"""The frame around the views."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from tests.tasks.web.page.kit import DeskPage, short


def test_the_desk_shows_what_runs_and_what_waits(page: Page, desk_page: DeskPage) -> None:
    expect(page.get_by_role("heading", level=1, name="Desk")).to_be_visible()
    runs = page.get_by_role("region", name="Runs now")
    expect(runs.get_by_role("link", name=short(desk_page.flying))).to_be_visible()


def test_the_runs_are_filtered_by_the_address(page: Page, desk_page: DeskPage) -> None:
    desk_page.open(page, "/runs?kind=screen", "Runs")
    table = page.get_by_role("region", name="Runs")
    expect(table.get_by_role("link", name=short(desk_page.run))).to_be_visible()
    expect(table.get_by_role("link", name=short(desk_page.flying))).to_have_count(0)
