"""(q) the lists of the page in a browser: how soon each shows its content, with many runs and events."""

from __future__ import annotations

import datetime as dt
import itertools

from playwright.sync_api import Page, expect

from chordesk.models import event_log
from chordesk.models.database.store import Store
from chordesk.models.states import OrderState, RunState, StepState
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.runs import Decision, Verdict
from chordesk.tasks.web.page.sessions import new_code
from chordesk.tools.ledger import ensure_account
from tests.bench.page.cost import events_of
from tests.browser.browser import launched
from tests.builders import a_candidate, a_run, a_step, a_turn
from tests.patience import PATIENCE
from tests.tasks.views.chain import a_preview, an_action, an_order
from tests.tasks.web.kit import Service, service

RUNS, EVENTS_A_RUN, CASH = 500, 10, 100_000.0
WAYS = (
    "/", "/runs", "/symbols", "/orders", "/account", "/threads", "/scores", "/scores?show=questions", "/fleet",
    "/settings", "/approvals",
)  # fmt: skip
# Noted by the page: when its heading and all that it loads first were in the document, ms after it was asked for.
_FIRST = """
new MutationObserver((_, seen) => {
  if (!document.querySelector('main h1') || document.querySelector('main .loading')) return;
  document.documentElement.dataset.first = performance.now();
  seen.disconnect();
}).observe(document, { childList: true, subtree: true });
"""


def list_times() -> dict[str, float]:
    """Return the seconds until each view shows its content, the second time that the service is asked for it."""
    with service() as running, launched() as browser:
        _fill(running.store)
        context = browser.new_context(viewport={"width": 1440, "height": 900})
        context.set_default_timeout(PATIENCE * 1000)
        page = context.new_page()
        page.goto(f"{running.url}/#{_code(running)}/settings")
        expect(page.get_by_role("navigation", name="Views")).to_be_visible()
        page.add_init_script(_FIRST)
        found = {}
        for way in WAYS:
            for _ in range(2):
                found[way] = _first(page, running, way)
        context.close()
    return found


def _code(running: Service) -> str:
    return new_code(running.processes.environ["DESK_REDIS_URL"], "bench")


def _first(page: Page, running: Service, way: str) -> float:
    page.goto(f"{running.url}/#{way}")
    page.reload(wait_until="commit")
    expect(page.locator("html[data-first]")).to_be_attached(timeout=PATIENCE * 1000)
    return float(page.evaluate("document.documentElement.dataset.first")) / 1000


def _fill(store: Store) -> None:
    """Store runs of a symbol each, with a turn, a verdict, an order and some events."""
    began = utcnow() - dt.timedelta(days=2)
    for number in range(RUNS):
        with store.session() as session:
            ensure_account(session, "paper", CASH)
            at = began + dt.timedelta(minutes=5 * number)
            run = a_run(
                session, state=RunState.DONE, created_at=at, finished_at=at + dt.timedelta(minutes=4),
                params={"symbols": [f"S{number}"]}, settings={"event_deltas": False},
            )  # fmt: skip
            candidate = a_candidate(session, run, f"S{number}")
            step = a_step(session, run, role="risk", subject=f"S{number}", state=StepState.DONE, started_at=at)
            turn = a_turn(session, step, thread_id=f"thread-{number}", started_at=at, total_tokens=5000)
            verdict = Verdict(
                run_id=run.id, candidate_id=candidate.id, symbol=f"S{number}", rating="BUY", confidence="medium",
                summary="a summary", completed=["risk"],
            )  # fmt: skip
            decision = Decision(
                run_id=run.id, step_id=step.id, turn_id=turn.id, account="paper", status="completed",
                actions=[an_action(f"S{number}")], reasoning="good", author="a model",
            )  # fmt: skip
            session.add_all([verdict, decision])
            session.flush()
            a_preview(session, an_order(session, run, decision, verdict, 0, state=OrderState.PREVIEWED))
            event_log.append(session, list(itertools.islice(events_of(run.id), EVENTS_A_RUN)))
