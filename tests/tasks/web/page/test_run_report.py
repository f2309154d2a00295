"""The report of a run as a file: saved from the page, and as a browser shows it without the desk."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from tests.browser.kit import DeskPage, overflow, short, violations
from tests.tasks.documents.reading import read


def test_a_report_is_saved_from_the_view_of_a_run(page: Page, desk_page: DeskPage) -> None:
    desk_page.open(page, f"/runs/{desk_page.run}")
    with page.expect_download() as saving:
        page.get_by_role("button", name="Save the report").click()
    assert saving.value.suggested_filename == f"screen-{short(desk_page.run)}.html"
    found = read(Path(saving.value.path()).read_text(encoding="utf-8"))
    assert f"{desk_page.url}/#/runs/{desk_page.run}" in found.links


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_report_is_accessible_and_loads_nothing(
    browser: Browser, desk_page: DeskPage, tmp_path: Path, theme: str
) -> None:
    file = tmp_path / "report.html"
    with desk_page.service.client() as client:
        file.write_text(client.get(f"/runs/{desk_page.run}/report").text, encoding="utf-8")
    context = browser.new_context(color_scheme=theme)  # type: ignore[arg-type]
    try:
        page = context.new_page()
        asked: list[str] = []
        complaints: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.on("console", lambda message: complaints.append(message.text))
        page.goto(file.as_uri())
        page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true })")
        assert violations(page) == []
        for width in (360, 2560):
            page.set_viewport_size({"width": width, "height": 900})
            assert overflow(page) <= 0, f"at {width} px"
        assert page.locator("svg.chart").count() > 0
        assert asked == [file.as_uri()]
        assert complaints == []
    finally:
        context.close()
