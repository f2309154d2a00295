"""A whole slow screen, watched at five frames a second: no counter goes back, none contradicts another, and none is
older than what the desk itself says."""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, expect

from chordesk.models.states import RUN_FINAL
from chordesk.tasks.workflows.screen import open_screen
from tests.browser import kit
from tests.browser.kit import SYMBOLS, DeskPage, short
from tests.parts import needs
from tests.patience import PATIENCE
from tests.stack import processes
from tests.tasks.web.kit import Service, start

pytestmark = pytest.mark.long

LATENCY = 1.2  # seconds of each of the model's answers, of which a turn takes several
STALE = 2.0  # seconds
FINAL = {str(state) for state in RUN_FINAL}

# What a view shows, as a person reads it: five times a second, by the page's own clock.
WATCH = """read => {
  const look = eval(read);
  window.frames_ = [];
  performance.setResourceTimingBufferSize(10_000);
  let before = Date.now();
  setInterval(() => {
    const at = Date.now();
    window.frames_.push({ at: at / 1000, late: (at - before - 200) / 1000, ...look() });
    before = at;
  }, 200);
}"""
# How long the desk's answers took the page, in seconds of the clock: [asked, answered].
ANSWERS = """() => performance.getEntriesByType('resource').filter((one) => !one.name.includes('/events'))
  .map((one) => [one.startTime, one.responseEnd].map((at) => (performance.timeOrigin + at) / 1000))"""
PARTS = """
  const text = (one) => one?.innerText.replaceAll(',', '') ?? '';
  const numbers = (one) => (text(one).match(/\\d+/g) ?? []).map(Number);
  const panel = (name) => document.querySelector(`section[aria-label="${name}"]`);
"""
RUN = f"""() => {{ {PARTS}
  const fact = (name) => [...document.querySelectorAll('.head dt')].find((one) => one.innerText === name)
    ?.nextElementSibling;
  const stages = Object.fromEntries([...document.querySelectorAll('.funnel .stage')]
    .map((one) => [one.children[1].innerText, numbers(one)[0]]));
  const rows = [...document.querySelectorAll('[aria-label="Table of candidates"] tbody tr')];
  return {{
    lead: text(document.querySelector('.lead')), steps: numbers(fact('Steps')), turns: numbers(fact('Turns')),
    tokens: Number(fact('Tokens')?.firstElementChild.title.replaceAll(',', '') ?? 0), took: text(fact('Took')), stages,
    flying: [...document.querySelectorAll('.in-flight li')].filter((one) => !/ of /.test(one.innerText)).length,
    rows: rows.length, rated: rows.filter((one) => !/not yet/.test(one.children[1].innerText)).length,
    struck: rows.filter((one) => /not yet/.test(one.children[1].innerText)).flatMap((row) =>
      [...row.querySelectorAll('a')].filter((one) => /line-through/.test(getComputedStyle(one).textDecoration))).length,
  }};
}}"""
DESK = f"""() => {{ {PARTS}
  const row = panel('Runs now')?.querySelector('tbody tr');
  return {{
    steps: row ? numbers(row.children[1]) : [], turns: row ? numbers(row.children[2]).reverse() : [],
    badge: numbers(document.querySelector('.standing a[href="#/approvals"]'))[0] ?? 0,
    cards: document.querySelectorAll('.waiting > li').length,
    waiting: Number(/(\\d+) wait for you/.exec(text(document.querySelector('.lead')))?.[1] ?? 0),
  }};
}}"""
GROWING = ("ended", "turns", "tokens", "hits", "candidates", "verdicts", "orders", "waiting")


@pytest.fixture(scope="module")
def slow_desk(browser: Browser) -> Iterator[DeskPage]:
    with processes(TRADER_LIVE="1", DESK_APPROVAL="manual", DESK_REPLAY_DATE="2010-08-12") as desk:
        desk.rulebook(LATENCY)
        desk.workers("research", "ops", "trade")
        url, token = start(desk)
        yield DeskPage(Service(desk, desk.app.desk.store, url, token), "", "")


def test_a_slow_screen_is_shown_as_it_is(browser: Browser, slow_desk: DeskPage) -> None:
    screen = open_screen(slow_desk.service.processes.app, SYMBOLS, max_candidates=3)
    assert screen is not None
    with kit.logged_in(browser, slow_desk) as front:
        run = front.context.new_page()
        slow_desk.open(run, f"/runs/{screen.id}", f"Run {short(screen.id)}")
        expect(run.locator(".head")).to_be_visible()
        expect(front.get_by_role("region", name="Runs now")).to_be_visible()
        for page, read in ((run, RUN), (front, DESK)):
            page.evaluate(WATCH, read)
        said = list(_said(slow_desk, screen.id))
        expect(run.get_by_role("heading", level=1)).to_contain_text("done")
        expect(front.get_by_role("region", name="Waits for a person").locator("li").first).to_be_visible()
        frames = {name: page.evaluate("window.frames_") for name, page in (("run", run), ("front", front))}
        answers = [(one["at"], one["at"] + one["took"]) for one in said]
        answers += [tuple(one) for page in (run, front) for one in page.evaluate(ANSWERS)]
    assert slow_desk.complaints == []
    assert len({one["ended"] for one in said}) > 5, "the desk was watched while it worked"
    wrong = [
        f"{name} at {frame['at'] - said[0]['at']:.1f} s: {fault}"
        for name, found in frames.items()
        for before, frame in itertools.pairwise(found)
        for fault in (*_contradictions(frame), *_steps_back(before, frame), *_stale(frame, found, said, answers))
    ]
    assert wrong == [], "\n".join(wrong)


@needs("measure")
def test_a_backtest_is_started_and_followed_to_its_end_over_a_restart_of_the_service(
    browser: Browser, slow_desk: DeskPage
) -> None:
    with kit.logged_in(browser, slow_desk) as page:
        page.get_by_role("navigation", name="Start a run").get_by_role("link", name="backtest").click()
        dialog = page.get_by_role("dialog", name="Start a run")
        for label, value in (("First", "2010-08-09"), ("Last", "2010-08-11"), ("Symbols", "IBM KO")):
            dialog.get_by_label(label).fill(value)
        dialog.get_by_role("button", name="Start", exact=True).click()
        sessions = page.get_by_role("group", name="Sessions").locator("tbody tr")
        expect(page.get_by_role("heading", level=1)).to_contain_text("receiving")
        expect(sessions.first).to_contain_text("2010-08-09")
        # Of a busy machine it may have ended by now.
        expect(page.locator("main .lead")).to_contain_text("3 sessions")
        slow_desk.service.processes.end("api")
        expect(page.get_by_role("heading", level=1)).to_contain_text("no connection")
        expect(sessions.first).to_contain_text("2010-08-09")
        start(slow_desk.service.processes)
        expect(sessions).to_have_count(3)
        expect(page.get_by_role("heading", level=1)).to_contain_text("done")
        expect(page.locator("main .lead")).to_contain_text(
            re.compile("Played 3 sessions.*%, against .* bought and held")
        )
        expect(page.get_by_role("region", name="Conclusion")).to_be_visible()


def _said(desk: DeskPage, run_id: str) -> Iterator[dict[str, Any]]:
    """What the desk itself says of the run until it has ended: of the moment `at`, and how long it took to say it."""
    with desk.service.client() as client:
        until = time.monotonic() + PATIENCE
        ended = False
        while not ended:
            assert time.monotonic() < until, "the screen does not end"
            asked = time.time()
            course, waiting = (_got(client, path) for path in (f"/runs/{run_id}/course", "/approvals"))
            found = course["run"]["progress"]
            ended = course["run"]["state"] in FINAL
            yield {
                "at": asked, "took": (time.time() - asked) / 2, "ended": sum(one for one, _ in found["steps"].values()),
                "turns": found["turns"], "tokens": found["tokens"], "waiting": len(waiting),
                **{one["stage"]: one["count"] for one in course["funnel"]["stages"]},
            }  # fmt: skip
            time.sleep(0.2)


def _got(client: httpx.Client, path: str) -> Any:
    answer = client.get(path)
    assert answer.status_code == 200, answer.text
    return answer.json()


def _counters(frame: dict[str, Any]) -> dict[str, int]:
    shown = {**frame.get("stages", {})}
    for name in ("tokens", "waiting"):
        if name in frame:
            shown[name] = frame[name]
    for name, field in (("ended", "steps"), ("turns", "turns")):
        if frame[field]:
            shown[name] = frame[field][0]
    return shown


def _contradictions(frame: dict[str, Any]) -> Iterator[str]:
    if len(frame["steps"]) == 2 and frame["steps"][0] > frame["steps"][1]:
        yield f"{frame['steps'][0]} steps have ended, of {frame['steps'][1]}"
    if "badge" in frame and not frame["badge"] == frame["cards"] == frame["waiting"]:
        yield f"{frame['badge']} wait, or {frame['cards']}, or {frame['waiting']}"
    if stages := frame.get("stages"):
        flying = sum(frame["turns"][1:2])
        if frame["flying"] != flying:
            yield f"{flying} turns are in flight, and {frame['flying']} of them are named"
        if (frame["rows"], frame["rated"]) != (stages["candidates"], stages["verdicts"]):
            yield f"{stages} beside {frame['rows']} candidates with {frame['rated']} verdicts"
        if stages["candidates"] and f"{stages['candidates']} candidate" not in frame["lead"]:
            yield f"{stages['candidates']} candidates, and it says {frame['lead']}"
        if frame["struck"]:
            yield f"{frame['struck']} finished reports are struck through"


def _steps_back(before: dict[str, Any], frame: dict[str, Any]) -> Iterator[str]:
    now = _counters(frame)
    yield from (
        f"{name} was {was} and is {now[name]}" for name, was in _counters(before).items() if now.get(name, was) < was
    )


def _stale(
    frame: dict[str, Any], frames: list[dict[str, Any]], said: list[dict[str, Any]],
    answers: list[tuple[float, float]],
) -> Iterator[str]:  # fmt: skip
    """A page may be as late as the desk's own answers and as its own clock beside the 2 s: on a busy machine these are
    slow, and the page is not."""
    at = frame["at"]
    late = max(one["late"] for one in frames if at - 5 * STALE <= one["at"] <= at)
    slow = max((end - begin for begin, end in answers if begin <= at and end >= at - 5 * STALE), default=0.0)
    known = next((one for one in reversed(said) if one["at"] <= at - STALE - late - 2 * slow), None)
    for name, shown in _counters(frame).items() if known else ():
        if name in GROWING and shown < known[name]:
            yield f"{name} is {shown}, and was {known[name]} {at - known['at']:.1f} s before"
