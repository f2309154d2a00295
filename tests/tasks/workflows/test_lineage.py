"""Lineage by SQL, on a database made by hand: nothing of another run, symbol or order gets in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console
from sqlmodel import Session, col, delete, select

from models.database.store import Store
from models.errors import UsageError
from models.tables.orders import Preview
from models.tables.runs import Run, Verdict, VerdictReport
from tasks.cli.render.lineage import lineage_report
from tasks.cli.render.runs import paragraph, run_report
from tasks.views.lineage import lineage
from tasks.views.run_view import find_run, view
from tests.builders import a_candidate, a_run
from tests.databases import make_database
from tests.tasks.workflows.chain import Chain, a_chain, a_trade


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    url = f"sqlite:///{tmp_path / 'desk.db'}"
    make_database(url)
    store = Store(url)
    with store.session() as opened:
        yield opened
    store.close()


@pytest.fixture
def chain(session: Session) -> Chain:
    return a_chain(session)


def run_of(session: Session, chain: Chain) -> Run:
    return session.get_one(Run, chain.run_id)


def test_the_whole_chain_and_nothing_else(session: Session, chain: Chain) -> None:
    found = lineage(session, run_of(session, chain), " acme ")
    assert chain.ids_of(found) == chain.expected()
    assert (found["run"], found["source_run"], found["symbol"]) == (chain.run_id, None, "ACME")
    assert {row["spoken_by"] for row in (*found["orders"], *found["reports"], *found["hits"])} == {
        "rulebook (rules, no model)"
    }


def test_an_order_that_was_denied_has_no_preview(session: Session, chain: Chain) -> None:
    (order,) = lineage(session, run_of(session, chain), "IBM")["orders"]
    assert (order["denial_code"], order["payload_hash"]) == ("cooldown", None)


def test_of_a_trade_the_order_is_its_own_and_the_research_is_the_sources(session: Session, chain: Chain) -> None:
    trade = a_trade(session, chain.run_id, chain.verdict_id)
    found = lineage(session, trade, "ACME")
    expected = chain.expected()
    own = chain.ids_of(found)
    assert {key: own[key] for key in ("verdict", "reports", "hits")} == {
        key: expected[key] for key in ("verdict", "reports", "hits")
    }
    (order,) = found["orders"]
    assert order["order"] != chain.order_id
    assert (order["verdict"], found["source_run"]) == (chain.verdict_id, chain.run_id)


def test_a_broken_link_shows(session: Session, chain: Chain) -> None:
    """Each table is really followed: without its rows the chain ends there."""
    session.exec(delete(Preview).where(col(Preview.order_id) == chain.order_id))
    session.exec(delete(VerdictReport).where(col(VerdictReport.verdict_id) == chain.verdict_id))
    found = lineage(session, run_of(session, chain), "ACME")
    assert found["orders"][0]["payload_hash"] is None
    assert found["reports"] == []
    assert found["hits"]


def test_a_candidate_without_a_verdict_yet(session: Session) -> None:
    run = a_run(session)
    a_candidate(session, run, "GE", origin="manual")
    found = lineage(session, run, "GE")
    assert (found["verdict"]["verdict"], found["reports"], found["hits"], found["orders"]) == (None, [], [], [])
    shown = rendered(lineage_report(found))
    assert "verdict: none yet" in shown
    assert "screen hit: none, the candidate's origin is manual" in shown


def test_a_symbol_the_run_never_saw_is_refused_by_name(session: Session, chain: Chain) -> None:
    with pytest.raises(UsageError, match="has no candidate GE"):
        lineage(session, run_of(session, chain), "GE")


def test_it_reads_from_the_order_down_to_the_hit(session: Session, chain: Chain) -> None:
    shown = rendered(lineage_report(lineage(session, run_of(session, chain), "ACME")))
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


def test_the_report_of_a_run_fits_a_narrow_terminal_and_says_who_spoke(session: Session, chain: Chain) -> None:
    run = run_of(session, chain)
    for verdict in session.exec(select(Verdict).where(Verdict.run_id == run.id)):
        verdict.missing = ["fundamentals: failed (" + "x" * 500 + ")"]
    shown = rendered(run_report(view(session, run)))
    assert max(len(line) for line in shown.splitlines()) <= 80
    assert "Verdicts, model rulebook (rules, no model)" in shown
    assert "Trader (rulebook (rules, no model)): completed. both are good" in shown
    assert "suppressed: too soon" in shown
    assert "2 of 2 verdicts" in shown or "…" in shown
    assert "Gate" not in shown, "a run that goes on has no figures yet"


def test_a_run_is_found_by_the_beginning_of_its_id(session: Session, chain: Chain) -> None:
    assert find_run(session, chain.run_id[:24]).id == chain.run_id
    with pytest.raises(UsageError, match=f"more than one run begins with '{chain.run_id[:2]}'"):
        find_run(session, chain.run_id[:2])
    for wrong in ("%", "_" * 32, "x"):
        with pytest.raises(UsageError, match="there is no run"):
            find_run(session, wrong)


def test_what_a_model_wrote_cannot_steer_the_terminal() -> None:
    assert paragraph("a\x1b[2Jb\r\n\x07c\u202ed") == "a [2Jb c d"
    assert paragraph(None) == ""
    assert paragraph("x" * 400) == "x" * 319 + "…"


def rendered(what: object) -> str:
    console = Console(width=80, no_color=True, highlight=False, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(what)
    return console.export_text()
