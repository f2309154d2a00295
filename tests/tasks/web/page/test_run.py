"""The view of a run: its funnel, its timeline, its candidates, and what happens while it runs."""

from __future__ import annotations

import re

from playwright.sync_api import Locator, Page, expect

from chordesk.models import event_log
from chordesk.models.events import EventType
from chordesk.tasks.workflows.research import open_research
from tests.browser.hostile import SHOWN, a_hostile_run
from tests.browser.kit import DeskPage, short
from tests.stack import wait_for


def panel(page: Page, name: str) -> Locator:
    """The panel with this heading."""
    return page.locator("section.panel").filter(has=page.get_by_role("heading", level=2, name=name, exact=True))


def test_a_count_of_the_funnel_filters_the_candidates(page: Page, desk_page: DeskPage) -> None:
    with desk_page.service.client() as client:
        stages = {one["stage"]: one for one in client.get(f"/runs/{desk_page.run}/funnel").json()["stages"]}
        rows = client.get(f"/runs/{desk_page.run}/table").json()["rows"]
    desk_page.open(page, f"/runs/{desk_page.run}", f"Run {short(desk_page.run)}")
    table = page.get_by_role("group", name="Table of candidates").locator("tbody tr")
    expect(table).to_have_count(len(rows))
    for name, stage in stages.items():
        expect(page.get_by_role("button", name=re.compile(rf"^{stage['count']} {name}"))).to_be_visible()
    page.get_by_role("button", name=re.compile("fills")).first.click()
    expect(page).to_have_url(re.compile(r"stage=fills"))
    expect(table).to_have_count(stages["fills"]["symbols"])
    filled = stages["fills"]["items"][0]["symbol"]
    # The address is enough: another tab, or a colleague, sees the same.
    page.reload()
    expect(table).to_have_count(stages["fills"]["symbols"])
    expect(table.get_by_role("link", name=filled, exact=True)).to_be_visible()
    expect(table.get_by_role("link", name=re.compile("filled"))).to_have_attribute("href", re.compile("^#/orders/"))
    page.get_by_role("button", name=re.compile("universe")).click()
    expect(page.get_by_role("group", name="Symbols of the universe").get_by_role("link", name="GE")).to_be_visible()
    page.keyboard.press("c")
    expect(table).to_have_count(len(rows))


def test_a_run_that_goes_on_is_followed_and_stopped(page: Page, desk_page: DeskPage) -> None:
    running = desk_page.service.processes
    run = open_research(running.app, ["XOM"]).id
    wait_for(lambda: EventType.TURN_STARTED in _types(desk_page, run), "a turn is in flight")
    desk_page.open(page, f"/runs/{run}", f"Run {short(run)}")
    expect(page.get_by_role("heading", level=1)).to_contain_text("receiving")
    bars = page.get_by_role("group", name=re.compile("^Timeline of steps")).locator(".bar.running")
    expect(bars).to_have_count(1)
    expect(panel(page, "Timeline").get_by_text("running", exact=True)).to_be_visible()
    page.get_by_label("show it while it is written").check()
    expect(page.get_by_text("This desk does not send it")).to_be_visible()
    page.get_by_role("button", name="Stop the run").click()
    expect(page.get_by_role("dialog")).to_contain_text("none of its orders is submitted")
    page.get_by_role("dialog").get_by_role("button", name="Stop the run").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("stopped")
    expect(page.get_by_role("button", name="Stop the run")).to_have_count(0)
    expect(bars).to_have_count(0)


def test_a_run_that_is_deleted_while_it_is_seen_stays_as_it_was_with_a_notice(page: Page, desk_page: DeskPage) -> None:
    run = desk_page.add_run("screen", symbols=["KO", "GE"])
    desk_page.open(page, f"/runs/{run}", f"Run {short(run)}")
    expect(page.get_by_role("heading", level=1)).to_contain_text("receiving")
    rows = page.get_by_role("group", name="Table of candidates").locator("tbody tr")
    expect(rows).to_have_count(2)
    desk_page.remove_run(run)
    alert = page.get_by_role("alert").filter(has_text="This run was deleted")
    expect(alert.get_by_role("link", name="All runs")).to_be_visible()
    expect(rows).to_have_count(2)
    expect(page.get_by_role("button", name="Stop the run")).to_have_count(0)
    page.reload()
    # Until the run itself is known to be gone, each of its parts says so.
    expect(page.get_by_role("alert").first).to_contain_text(f"there is no run '{run}'")


def _types(desk: DeskPage, run: str) -> list[EventType]:
    with desk.service.store.read() as session:
        return [one.type for one in event_log.read(session, run, 0, 1000)]


def test_markup_in_a_run_is_text(page: Page, desk_page: DeskPage) -> None:
    found = a_hostile_run(desk_page.service.store)
    desk_page.open(page, f"/runs/{found.run}", f"Run {short(found.run)}")
    expect(page.get_by_text(SHOWN).first).to_be_visible()
    lanes = page.get_by_role("group", name=re.compile("^Timeline of steps"))
    lanes.focus()
    page.keyboard.press("End")
    expect(panel(page, "Timeline").locator(".chosen-bar")).to_contain_text("taken over")
    expect(panel(page, "Timeline").locator(".chosen-bar")).to_contain_text(SHOWN)
    expect(lanes.locator(".bar.lost")).to_have_count(1)
    events = page.get_by_role("group", name="List of events")
    expect(events.locator("li")).to_have_count(3)
    for way, name in ((f"/reports/{found.report}", "risk on"), (f"/verdicts/{found.verdict}", "Verdict on")):
        page.goto(f"{desk_page.url}/#{way}")
        expect(page.get_by_role("heading", level=1)).to_contain_text(name)
        expect(page.get_by_text(SHOWN).first).to_be_visible()
    page.goto(f"{desk_page.url}/#/reports/{found.report}?figure=1")
    expect(page.locator("mark.now")).to_have_text("31.5")
    page.get_by_role("link", name="99.9?").click()
    expect(page.get_by_role("status")).to_contain_text("no source")
    expect(page.locator("main img, main script, main b:text-is('x')")).to_have_count(0)
    expect(page).to_have_title(re.compile("Chordesk$"))
