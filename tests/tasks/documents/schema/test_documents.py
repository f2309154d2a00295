"""JSON documents fit their models, and a symbol's file has the names that aggregators of research use."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path

from chordesk.models.tables.board import SignalCitation
from chordesk.models.tables.orders import Order
from chordesk.models.tables.runs import Run
from chordesk.tasks.bootstrap import Desk
from chordesk.tasks.reports.documents import day_document, run_document, symbol_document
from chordesk.tasks.reports.formats import rendered
from chordesk.tasks.reports.report_files import write_run
from chordesk.tasks.reports.report_schema import DayDocument, SymbolDocument, SymbolFile, run_document_type
from tests.browser.hostile import a_hostile_run
from tests.parts import needs
from tests.tasks.documents.building.test_building import add_fill
from tests.tasks.views.board_rows import a_forecast, a_question, a_signal
from tests.tasks.views.chain import Chain

DAY = dt.date(2010, 8, 12)


@needs("board")
def test_each_document_is_read_back_as_it_was(desk: Desk, chained: Chain) -> None:
    a_hostile_run(desk.store)
    with desk.store.session() as session:
        run, order = session.get_one(Run, chained.run_id), session.get_one(Order, chained.order_id)
        add_fill(session, order)
        signal, question = a_signal(session, run, "momentum-1"), a_question(session, run, "Q1", "ACME")
        for voice in ("weaver", "sizer"):
            forecast = a_forecast(session, run, question, voice, 0.7)
        decided = {"label": "momentum-1", "stance": "build", "claim": "it counts", "counts": True}
        cited = SignalCitation(run_id=run.id, forecast_id=forecast.id, signal_id=signal.id, ordinal=0, **decided)
        session.add(cited)
    made = (run_document(desk, chained.run_id), day_document(desk, DAY), symbol_document(desk, "ACME"))
    for found, model in zip(made, (run_document_type(), DayDocument, SymbolDocument), strict=True):
        text = rendered(found, "json")
        assert list(json.loads(text))[:2] == ["format", "version"]
        again = model.model_validate_json(text)
        assert json.loads(again.model_dump_json()) == json.loads(found.model_dump_json())
    html = rendered(made[0], "html")
    assert "Q1 weaver, round 1: 70.00%" in html
    assert "[momentum-1 build: it counts]" in html
    assert "buy 50 at 99.5, 2010-08-12" in html


def test_a_symbols_file_has_reports_verdict_and_lineage(desk: Desk, chained: Chain, tmp_path: Path) -> None:
    place = write_run(desk, str(tmp_path), chained.run_id)
    assert place == str(tmp_path / chained.run_id)
    found = sorted(path.relative_to(place).as_posix() for path in Path(place).rglob("*.*"))
    assert found == ["report.html", "report.json", "report.md", "symbols/ACME.json", "symbols/IBM.json"]
    file = SymbolFile.model_validate_json((Path(place) / "symbols" / "ACME.json").read_text())
    one = file.dossier
    assert (file.run_id, one.symbol, one.combined_rating, one.combined_confidence) == (
        chained.run_id, "ACME", "BUY", "medium",
    )  # fmt: skip
    assert [(row.report.role, row.report.verdict, row.thread_id, len(row.tools)) for row in one.artifacts] == [
        ("quick", "CONFIRMED", "thread-ACME-quick", 2), ("risk", "CONFIRMED", "thread-ACME-risk", 1),
    ]  # fmt: skip
    steps = [step.kind for step in one.lineage]
    assert steps == ["hit", "hit", "candidate", "report", "report", "verdict", "decision", "order", "preview"]
    made_by_turns = [step for step in one.lineage if step.kind in ("hit", "report", "decision")]
    assert all(step.turn_id and step.thread_id and step.page for step in made_by_turns)
    assert one.decision_log == ["open ACME: previewed"]
    assert one.summary_markdown.startswith("ACME: **BUY** (medium)\n")
    assert len(one.prior_artifacts) == 2, "of the older run"
    assert {row.run_id for row in one.prior_artifacts} != {chained.run_id}
    assert {mark.kind for mark in one.prices.marks} == {"hit", "verdict", "order"}
