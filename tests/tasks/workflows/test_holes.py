"""Verdicts with a hole: no current price, no required report, no data."""

from __future__ import annotations

from sqlmodel import col, select

from chordesk.models.tables.runs import Report, Turn
from tests.fakes.responses import Text
from tests.tasks.views.chain import parts
from tests.tasks.workflows.conftest import Floor
from tests.tasks.workflows.scripted import action

NO_BAR = "no bar of 2010-08-12, the market's latest session; the last is of 2010-08-11"


def reports(floor: Floor, run_id: str) -> list[Report]:
    with floor.store.read() as session:
        return list(session.exec(select(Report).where(Report.run_id == run_id).order_by(col(Report.symbol))).all())


def test_a_candidate_without_a_current_price_costs_no_turn(floor: Floor) -> None:
    """WYNN has no bar of the replay's day: it is neither judged nor traded, whatever a lens or the trader wants."""
    floor.model.hits = {"technical": ["IBM", "WYNN"]}
    floor.model.actions = [action("WYNN")]
    found = floor.json("screen", "--universe", "IBM,WYNN", "--lens", "technical")
    wynn = next(row for row in found["candidates"] if row["symbol"] == "WYNN")
    assert (wynn["verdict"], wynn["tools"], wynn["tokens"]) == ("INSUFFICIENT", {}, 0)
    assert wynn["missing"] == [f"quick: no_data ({NO_BAR})"]
    (report,) = [row for row in reports(floor, found["run_id"]) if row.symbol == "WYNN"]
    assert (report.role, report.status, report.reason) == ("quick", "no_data", NO_BAR)
    with floor.store.read() as session:
        assert session.get_one(Turn, report.turn_id).status == "skipped"
    (order,) = found["actions"]
    assert (order["symbol"], order["action"], order["state"]) == ("WYNN", "watch", None)
    assert found["state"] == "done"


def test_without_the_risk_report_no_verdict_is_buy(floor: Floor) -> None:
    floor.model.instead = {"risk": Text("I'm sorry, I cannot help with that.")}
    found = floor.json("research", "IBM")
    (ibm,) = found["candidates"]
    assert (ibm["verdict"], ibm["confidence"]) == ("HOLD", None)
    assert ibm["missing"][-1].startswith("risk: refused")
    lineage = floor.json("runs", "show", found["run_id"], "--lineage", "IBM")
    assert "Not BUY: no completed report of risk" in parts(lineage, "verdict")[0]["summary"]
    chosen = floor.desk("research", "IBM", "--json", DESK_REQUIRED_ROLES="none")
    assert [row["verdict"] for row in chosen.json["candidates"]] == ["BUY"]
    wrong = floor.desk("research", "IBM", DESK_RESEARCH_ROLES="quick,catalyst")
    assert (wrong.code, wrong.out) == (2, "")
    assert wrong.err.splitlines() == [
        "error: required_roles (DESK_REQUIRED_ROLES) has 'risk', which does not research: no verdict could be BUY",
        "remedy: choose among quick, catalyst (DESK_RESEARCH_ROLES), or none",
    ]


def test_a_report_without_data_keeps_its_answer_and_has_no_stance(floor: Floor) -> None:
    run_id = floor.research("IBM")
    (row,) = [row for row in reports(floor, run_id) if row.role == "fundamentals"]
    assert (row.status, row.verdict, row.confidence) == ("no_data", None, None)
    judged = {"verdict": "CONFIRMED", "confidence": "high", "summary": "It is steady.", "key_risks": []}
    assert judged.items() <= row.answer.items()
    assert (row.answer_schema, row.summary) == ("ValidatorOutput", "It is steady.")


def test_an_action_is_no_more_confident_than_its_verdict(floor: Floor) -> None:
    source = floor.research("IBM")
    floor.model.actions = [action("IBM", confidence="high")]
    found = floor.json("trade", source)
    (ibm,) = found["candidates"]
    (order,) = found["actions"]
    assert ibm["verdict_confidence"] == order["confidence"] == "medium"
    assert "(The confidence was high; that of the verdict BUY is medium.)" in order["reasoning"]
