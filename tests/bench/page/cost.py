"""(q) the view of a run in a browser: how soon it shows something, what it costs the browser's main thread, and how
many elements it is; for a run with many events, and for one that goes on."""

from __future__ import annotations

import datetime as dt
import itertools
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from playwright.sync_api import Browser, CDPSession, Page, expect
from sqlmodel import Session

from chordesk.models import event_log
from chordesk.models.database.store import Store
from chordesk.models.events import Envelope, EventType, event
from chordesk.models.states import AttemptEnd, RunState, StepKind, StepState
from chordesk.models.tables.columns import new_id, utcnow
from chordesk.models.tables.runs import (
    Attempt,
    Candidate,
    CandidateHit,
    Report,
    Run,
    ScreenHit,
    Step,
    Turn,
    Verdict,
    VerdictReport,
)
from chordesk.tasks.web.page.sessions import new_code
from tests.browser.browser import launched
from tests.builders import MARKET_NOW, a_candidate, a_run, a_step, a_turn
from tests.patience import PATIENCE
from tests.tasks.web.kit import Service, service

CANDIDATES, STEPS, ROLES = 20, 500, ("quick", "fundamentals", "risk", "catalyst")
GROUNDED = {"figures": 7, "supported": 7, "share": 1.0, "citations": [], "unsupported": []}
PACE, SECONDS, BATCHES = 200, 10, 10  # events a second, for so long, in so many transactions a second
# Noted by the page itself: the time at which its first count was in the document, ms after it was asked for.
_FIRST = """
new MutationObserver((_, seen) => {
  if (!document.querySelector('.funnel .count')) return;
  document.documentElement.dataset.first = performance.now();
  seen.disconnect();
}).observe(document, { childList: true, subtree: true });
"""


@dataclass(frozen=True, slots=True)
class PageCost:
    """first: seconds until the first count is shown; shown: until all events are listed; cpu: seconds of the main
    thread until then; elements: of the document; live_cpu: of the main thread for `PACE` events a second over
    `SECONDS`; live_elements: after them."""

    events: int
    steps: int
    first: float
    shown: float
    cpu: float
    elements: int
    live_cpu: float
    live_elements: int


def page_cost(events: int) -> PageCost:
    """Measure the view of a finished run of so many events, then that of one that gets more of them."""
    with service() as running, launched() as browser:
        ended, going = _run(running.store, events, ended=True), _run(running.store, events, ended=False)
        _loaded(browser, running, ended, events)  # the service's own first answer is not the page's
        with _view(browser, running, ended) as (page, clock):
            shown, cpu = _shown(page, clock, events)
            first = float(page.evaluate("document.documentElement.dataset.first")) / 1000
            elements = page.evaluate("document.querySelectorAll('*').length")
        with _view(browser, running, going) as (page, clock):
            _shown(page, clock, events)
            live_cpu = _followed(page, clock, running.store, going, events)
            live_elements = page.evaluate("document.querySelectorAll('*').length")
    return PageCost(events, STEPS, first, shown, cpu, elements, live_cpu, live_elements)


def _loaded(browser: Browser, running: Service, run_id: str, events: int) -> None:
    with _view(browser, running, run_id) as (page, clock):
        _shown(page, clock, events)


@contextmanager
def _view(browser: Browser, running: Service, run_id: str) -> Iterator[tuple[Page, CDPSession]]:
    """A tab that is logged in and loads the view of a run anew."""
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    context.set_default_timeout(PATIENCE * 1000)
    try:
        page = context.new_page()
        page.goto(f"{running.url}/#{new_code(running.processes.environ['DESK_REDIS_URL'], 'bench')}/settings")
        expect(page.get_by_role("navigation", name="Views")).to_be_visible()
        page.add_init_script(_FIRST)
        page.goto(f"{running.url}/#/runs/{run_id}")
        clock = context.new_cdp_session(page)
        clock.send("Performance.enable", {"timeDomain": "threadTicks"})
        page.reload(wait_until="commit")
        yield page, clock
    finally:
        context.close()


def _shown(page: Page, clock: CDPSession, events: int) -> tuple[float, float]:
    """Wait until all events are listed; return the seconds since the page was asked for, and of the main thread."""
    last = page.locator(f".virtual.events li[aria-setsize='{events}'][aria-posinset='{events}']")
    expect(last).to_be_visible(timeout=PATIENCE * 1000)
    expect(page.locator(".lanes path.bar.done")).to_have_count(1)
    shown = page.evaluate("performance.now()") / 1000
    page.wait_for_timeout(500)  # what it still does by itself belongs to it
    return shown, _cpu(clock)


def _cpu(clock: CDPSession) -> float:
    metrics = {one["name"]: one["value"] for one in clock.send("Performance.getMetrics")["metrics"]}
    return float(metrics["TaskDuration"])


def _followed(page: Page, clock: CDPSession, store: Store, run_id: str, before: int) -> float:
    """Write events at the pace; return the seconds of the main thread until all of them are listed."""
    started, made = _cpu(clock), events_of(run_id)
    begun = time.monotonic()
    for number in range(SECONDS * BATCHES):
        with store.session() as session:
            event_log.append(session, list(itertools.islice(made, PACE // BATCHES)))
        time.sleep(max(begun + (number + 1) / BATCHES - time.monotonic(), 0.0))
    _shown(page, clock, before + PACE * SECONDS)
    return _cpu(clock) - started


def _run(store: Store, events: int, *, ended: bool) -> str:
    """Store a run of 20 candidates and 500 steps, with so many events."""
    began = utcnow() - dt.timedelta(seconds=120)
    with store.session() as session:
        run = a_run(
            session, state=RunState.RUNNING, created_at=began, params={"symbols": [f"S{n}" for n in range(500)]},
            settings={"event_deltas": False},
        )  # fmt: skip
        for number in range(CANDIDATES):
            _candidate(session, run, number, began)
        for number in range(STEPS - CANDIDATES * len(ROLES)):
            _tried(session, run, began, number, kind=StepKind.SCREEN_SHARD, role=f"screener_{number % 4}")
        made = events_of(run.id)
        last = [event(EventType.RUN_COMPLETED, run.id, kind="screen", state="done", notes=[])] if ended else []
        event_log.append(session, [*itertools.islice(made, events - len(last)), *last])
        if ended:
            run.state, run.finished_at = RunState.DONE, utcnow()
            session.add(run)
        return run.id


def _candidate(session: Session, run: Run, number: int, began: dt.datetime) -> None:
    symbol = f"S{number}"
    candidate: Candidate = a_candidate(session, run, symbol, rank=number + 1)
    verdict = Verdict(
        run_id=run.id, candidate_id=candidate.id, symbol=symbol, rating="BUY", confidence="medium", summary="a summary",
        completed=list(ROLES),
    )  # fmt: skip
    session.add(verdict)
    session.flush()
    for place, role in enumerate(ROLES):
        step, turn = _tried(session, run, began, 200 + number + place * 40, role=role, subject=symbol)
        report = Report(
            run_id=run.id, step_id=step.id, candidate_id=candidate.id, turn_id=turn.id, symbol=symbol, role=role,
            status="completed", verdict="CONFIRMED", confidence="high", summary="steady", author="a model",
            market_at=MARKET_NOW, grounding=GROUNDED,
        )  # fmt: skip
        hit = ScreenHit(
            run_id=run.id, step_id=step.id, turn_id=turn.id, lens=role, symbol=symbol, instrument="equity",
            confidence="high", thesis="it rises",
        )  # fmt: skip
        session.add_all([report, hit])
        session.flush()
        session.add(VerdictReport(verdict_id=verdict.id, report_id=report.id))
        session.add(CandidateHit(candidate_id=candidate.id, hit_id=hit.id))


def _tried(session: Session, run: Run, began: dt.datetime, number: int, **values: object) -> tuple[Step, Turn]:
    """A step with its attempts; each tenth was taken over from a worker that was lost."""
    at = began + dt.timedelta(seconds=number * 0.2)
    step = a_step(session, run, **{"subject": new_id(), **values}, state=StepState.DONE, started_at=at, attempt=1)
    turn = a_turn(session, step, started_at=at, finished_at=at + dt.timedelta(seconds=6), total_tokens=5000)
    ends = [AttemptEnd.LOST, AttemptEnd.DONE] if number % 10 == 0 else [AttemptEnd.DONE]
    for attempt, outcome in enumerate(ends, start=1):
        owner, begun = f"research@host:{number % 3}", at + dt.timedelta(seconds=4 * (attempt - 1))
        end = begun + dt.timedelta(seconds=4)
        session.add(
            Attempt(step_id=step.id, attempt=attempt, owner=owner, outcome=outcome, started_at=begun, ended_at=end)
        )
    return step, turn


def events_of(run_id: str) -> Iterator[Envelope]:
    """Yield what turns write, for ever: in the proportions of a real screen, with texts of their length."""
    answer = json.dumps({"signals": [{"symbol": "S1", "close": 31.14, "rsi14": 60.07}] * 6})[:450]
    for number in itertools.count():
        ids = {"thread_id": f"thread-{number}", "turn_id": f"turn-{number}"}
        step = {"step": new_id(), "kind": "report", "subject": f"S{number % 20}", "role": "risk", "attempt": 1}
        made = (
            (EventType.STATUS_STARTED, {**step, "owner": "research@host:1"}),
            (EventType.TURN_STARTED, {"role": "risk", "subject": f"S{number % 20}"}),
            (EventType.ITEM_COMPLETED, {"type": "userMessage", "text": "Judge this candidate. " * 20}),
            (EventType.TOOL_STARTED, {"tool": "signals_get", "arguments": '{"symbols":["S1"]}'}),
            (EventType.TOOL_COMPLETED, {"tool": "signals_get", "success": True, "answer": answer}),
            (EventType.TURN_USAGE, {"total_tokens": 4300}),
            (EventType.ITEM_COMPLETED, {"type": "agentMessage", "text": answer}),
            (EventType.TURN_COMPLETED, {"role": "risk", "ms": 1769}),
            (EventType.STATUS_ENDED, {**step, "state": "done", "why": None}),
        )
        for kind, payload in made:
            yield event(kind, run_id, **ids, **payload)
