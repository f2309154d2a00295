"""The lineage of a symbol as text."""

from __future__ import annotations

from sqlmodel import Session

from chordesk.models.tables.runs import Run
from chordesk.tasks.cli.show.orders import lineage_report
from chordesk.tasks.reading.orders import lineage
from tests.builders import a_candidate, a_run
from tests.tasks.cli.render.console import rendered
from tests.tasks.views.chain import Chain


def test_it_reads_from_the_order_down_to_the_hit(session: Session, chain: Chain) -> None:
    shown = rendered(lineage_report(lineage(session, session.get_one(Run, chain.run_id), "ACME")))
    marks = (
        f"order {chain.order_id}: open buy 50 shares, previewed",
        "preview 5,000.00 at 100.00",
        chain.preview_hash,
        f"decision {chain.decision_id}: completed, by rulebook",
        f"verdict {chain.verdict_id}: BUY (medium)",
        "report quick: completed CONFIRMED (high), by rulebook",
        "of thread thread-ACME-quick",
        "screen hit catalyst (high), by rulebook",
        "[bold]catalyst[/] likes ACME",
        "of thread thread-catalyst",
    )
    places = [shown.find(mark) for mark in marks]
    assert -1 not in places, marks[places.index(-1)]
    assert places == sorted(places)
    assert max(len(line) for line in shown.splitlines()) <= 80


def test_a_candidate_without_a_verdict_yet_is_shown_as_such(session: Session) -> None:
    run = a_run(session)
    a_candidate(session, run, "GE", origin="manual")
    shown = rendered(lineage_report(lineage(session, run, "GE")))
    assert "verdict: none yet" in shown
    assert "screen hit: none, the candidate's origin is manual" in shown


def test_a_missing_stance_is_shown_by_its_reason_and_one_call_is_singular() -> None:
    report = {
        "role": "quick", "status": "no_data", "verdict": None, "confidence": None, "run": "r", "tools": 1, "tokens": 7,
        "reason": "no data from signals_get", "author": "m", "summary": "word " * 60, "turn": None,
    }  # fmt: skip
    found = {"symbol": "GE", "run": "r", "source_run": None, "orders": [], "verdict": None, "hits": []}
    both = [report, {**report, "role": "risk", "status": "failed", "reason": "deadline: too slow"}]
    shown = rendered(lineage_report({**found, "reports": both}), width=200)
    assert "  report quick: no data from signals_get, by m\n" in shown
    assert "  report risk: failed: deadline: too slow, by m\n" in shown
    assert "    1 tool call, 7 tokens\n" in shown
    assert [line for line in shown.splitlines() if line != line.rstrip()] == []
