"""A researched run in which every text that a model, a tool or a person wrote is markup."""

from __future__ import annotations

import json
from dataclasses import dataclass

from chordesk.models import event_log
from chordesk.models.database.store import Store
from chordesk.models.events import EventType, event
from chordesk.models.states import AttemptEnd, RunState, StepState
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.runs import Attempt, CandidateHit, Report, ScreenHit, ToolCall, Verdict, VerdictReport
from tests.builders import MARKET_NOW, a_candidate, a_run, a_step, a_turn

MARKUP = '<img src=/page/icon.svg onerror="document.title=1"><script>document.title=2</script><b>x</b>\u202e'
SHOWN = MARKUP.replace("\u202e", "\u25af")
SYMBOL = "HOST"


@dataclass(frozen=True, slots=True)
class Hostile:
    run: str
    report: str
    verdict: str


def a_hostile_run(store: Store) -> Hostile:
    """An ended run of an account of its own: one candidate, one report, one verdict, events, and a worker that was
    lost."""
    with store.session() as session:
        run = a_run(
            session, state=RunState.DONE, account="hostile", model=MARKUP, notes=[MARKUP], finished_at=utcnow(),
            params={"symbols": [SYMBOL]}, summary={"model": MARKUP},
        )  # fmt: skip
        candidate = a_candidate(session, run, SYMBOL, origin=MARKUP)
        step = a_step(
            session, run, subject=SYMBOL, role="risk", state=StepState.DONE, started_at=run.created_at, attempt=2,
            finished_at=utcnow(),
        )  # fmt: skip
        turn = a_turn(session, step, thread_id="thread-hostile", model=MARKUP, attempt=2, total_tokens=10)
        for number, outcome in enumerate((AttemptEnd.LOST, AttemptEnd.DONE), start=1):
            session.add(
                Attempt(
                    step_id=step.id, attempt=number, owner=f"{MARKUP}{number}", started_at=run.created_at,
                    ended_at=utcnow(), outcome=outcome, reason=MARKUP,
                )
            )  # fmt: skip
        call = ToolCall(
            turn_id=turn.id, ordinal=0, tool="signals_get", arguments={"symbols": [MARKUP]}, success=True,
            has_data=True, seconds=0.1,
            output=json.dumps({"close": 31.5, "missing": [{"what": MARKUP, "reason": MARKUP}], "text": MARKUP}),
        )  # fmt: skip
        session.add(call)
        text = f"{MARKUP} closes at 31.5, not at 99.9"
        found = {"text": "summary", "figure": "31.5", "start": text.index("31.5"), "end": text.index("31.5") + 4}
        none = {"text": "summary", "figure": "99.9", "start": text.index("99.9"), "end": text.index("99.9") + 4}
        source = {"source": "tool", "call": 0, "tool": "signals_get", "path": "/close", "value": 31.5}
        report = Report(
            run_id=run.id, step_id=step.id, candidate_id=candidate.id, turn_id=turn.id, symbol=SYMBOL, role="risk",
            status="completed", verdict="CAUTION", confidence="low", summary=text, key_risks=[MARKUP], author=MARKUP,
            market_at=MARKET_NOW, answer={"verdict": "CAUTION", "confidence": "high", "headline": MARKUP},
            answer_schema="ValidatorOutput",
            grounding={
                "figures": 2, "supported": 1, "share": 0.5, "citations": [{**found, **source}], "unsupported": [none],
            },
        )  # fmt: skip
        verdict = Verdict(
            run_id=run.id, candidate_id=candidate.id, symbol=SYMBOL, rating="HOLD", confidence="low", summary=MARKUP,
            key_risks=[MARKUP], missing=[MARKUP], completed=["risk"], market_at=MARKET_NOW,
        )  # fmt: skip
        hit = ScreenHit(
            run_id=run.id, step_id=step.id, turn_id=turn.id, lens="technical", symbol=SYMBOL, instrument="equity",
            confidence="high", thesis=MARKUP, market_at=MARKET_NOW,
        )  # fmt: skip
        session.add_all([report, verdict, hit])
        session.flush()
        session.add(VerdictReport(verdict_id=verdict.id, report_id=report.id))
        session.add(CandidateHit(candidate_id=candidate.id, hit_id=hit.id))
        events = [
            event(EventType.TOOL_COMPLETED, run.id, tool="signals_get", success=True, answer=MARKUP),
            event(EventType.STATUS_AGAIN, run.id, kind=MARKUP, subject=MARKUP, outcome="lost", why=MARKUP, attempt=1),
            event(EventType.RUN_COMPLETED, run.id, kind="screen", state="done", notes=[MARKUP]),
        ]
        event_log.append(session, events)
        return Hostile(run.id, report.id, verdict.id)
