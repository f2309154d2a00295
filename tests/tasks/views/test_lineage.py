"""Lineage by SQL, on a database made by hand: nothing of another run, symbol or order gets in."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest
from sqlmodel import Session, col, delete, select

from chordesk.models.errors import UsageError
from chordesk.models.tables.orders import Preview
from chordesk.models.tables.runs import Artifact, Run, Step, ToolCall, Turn, VerdictReport
from chordesk.tasks.cli.show.order_display import lineage_report
from chordesk.tasks.cli.show.run_display import artifacts_report
from chordesk.tasks.reading.chain import chain as read_chain
from chordesk.tasks.reading.run_details import artifacts
from tests.builders import a_run, a_turn
from tests.tasks.cli.console import rendered
from tests.tasks.views.chain import Chain, a_trade, parts


def run_of(session: Session, chain: Chain) -> Run:
    return session.get_one(Run, chain.run_id)


def test_the_whole_chain_and_nothing_else(session: Session, chain: Chain) -> None:
    found = read_chain(session, run_of(session, chain), " acme ")
    assert chain.ids_of(found) == chain.expected()
    assert (found.run_id, found.source_run, found.symbol) == (chain.run_id, None, "ACME")
    made = [row for kind in ("decision", "report", "hit") for row in parts(found, kind)]
    assert {row["author"] for row in made} == {"rulebook (rules, no model)"}
    assert [(row["kind"], row["label"]) for row in made[:2]] == [
        ("decision", "completed by rulebook (rules, no model): ACME is good"), ("report", "quick: CONFIRMED (high)"),
    ]  # fmt: skip
    ids = {node.id for node in found.nodes}
    assert all({edge.source, edge.target} <= ids for edge in found.edges)
    causes = {node.id: {edge.source for edge in found.edges if edge.target == node.id} for node in found.nodes}
    (candidate,), reports = parts(found, "candidate"), parts(found, "report")
    assert causes[candidate["id"]] == {row["id"] for row in parts(found, "hit")}
    assert causes[chain.verdict_id] == {row["id"] for row in reports}
    assert causes[chain.order_id] == {chain.decision_id}


def test_a_report_names_the_pictures_that_its_turns_were_given(session: Session, chain: Chain) -> None:
    """Those of all turns of its step, a repair's too, each file once; another report's are not among them."""
    found = read_chain(session, run_of(session, chain), "ACME")
    assert [row["pictures"] for row in parts(found, "report")] == [[], []]
    turn = session.get_one(Turn, parts(found, "report")[0]["turn_id"])
    earlier = a_turn(session, session.get_one(Step, turn.step_id), thread_id="t", ordinal=1)
    for place, (owner, digest) in enumerate(((turn, "ab"), (turn, "ab"), (earlier, "cd"))):
        a_picture(session, chain.run_id, owner, digest * 32, place)
    found = read_chain(session, run_of(session, chain), "ACME")
    pictures = [row["pictures"] for row in parts(found, "report")]
    assert pictures == [[f"artifacts/{'ab' * 32}.png", f"artifacts/{'cd' * 32}.png"], []]
    shown = rendered(lineage_report(found)).splitlines()
    assert f"artifacts/{'cd' * 32}.png" in shown
    rows = artifacts(session, chain.run_id)
    assert [(row.path, row.tool, row.role, row.turn_id) for row in rows[:2]] == [
        (f"artifacts/{'ab' * 32}.png", "signals_get", "quick", turn.id)
    ] * 2
    text = artifacts_report(rows, Path("/home/desk"))
    assert text is not None
    assert rendered(text).splitlines()[:3] == [
        "Pictures in the data folder, /home/desk:",
        "  ACME quick: signals_get, 2 KB",
        f"artifacts/{'ab' * 32}.png",
    ]
    assert artifacts_report(artifacts(session, a_run(session).id), Path("/home/desk")) is None


def a_picture(session: Session, run_id: str, turn: Turn, digest: str, place: int) -> None:
    call = session.exec(select(ToolCall)).first()
    assert call is not None
    at = turn.started_at + dt.timedelta(seconds=place)
    session.add(
        Artifact(
            run_id=run_id, turn_id=turn.id, call_id=call.id, kind="image/png", digest=digest, size=2048, created_at=at
        )
    )
    session.flush()


def test_of_a_trade_the_order_is_its_own_and_the_research_is_the_sources(session: Session, chain: Chain) -> None:
    trade = a_trade(session, chain.run_id, chain.verdict_id)
    found = read_chain(session, trade, "ACME")
    expected = chain.expected()
    own = chain.ids_of(found)
    assert {key: own[key] for key in ("verdict", "reports", "hits")} == {
        key: expected[key] for key in ("verdict", "reports", "hits")
    }
    (order,) = parts(found, "order")
    assert order["id"] != chain.order_id
    assert (order["verdict_id"], found.source_run) == (chain.verdict_id, chain.run_id)


def test_a_broken_link_shows(session: Session, chain: Chain) -> None:
    """Each table is really followed: without its rows the chain ends there."""
    session.exec(delete(Preview).where(col(Preview.order_id) == chain.order_id))
    session.exec(delete(VerdictReport).where(col(VerdictReport.verdict_id) == chain.verdict_id))
    found = read_chain(session, run_of(session, chain), "ACME")
    assert parts(found, "preview") == parts(found, "report") == []
    assert parts(found, "hit")


def test_a_symbol_the_run_never_saw_is_refused_by_name(session: Session, chain: Chain) -> None:
    with pytest.raises(UsageError, match="has no candidate GE"):
        read_chain(session, run_of(session, chain), "GE")
