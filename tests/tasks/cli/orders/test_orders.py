"""`desk orders` and `desk audit`: all there is to know of an order, on one screen each."""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from sqlmodel import Session, select

from chordesk.models.database.lookup import by_prefix
from chordesk.models.database.store import Store
from chordesk.models.settings import Settings
from chordesk.models.states import ApprovalState, OrderState, StepKind, StepState
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.orders import Approval, Fill, Order, Preview
from chordesk.models.tables.runs import Candidate, CandidateHit, Report, Run, ScreenHit, Verdict, VerdictReport
from chordesk.tasks.cli.show.orders import order_history, order_list, order_report
from chordesk.tasks.reading.orders import list_orders, order_view
from chordesk.tools.orders.audit import log_path, record
from chordesk.tools.orders.audit_reading import check_logs, entries_of
from tests.builders import MARKET_NOW, a_step, a_turn
from tests.databases import make_database
from tests.tasks.cli.running import desk
from tests.tasks.views.chain import Chain, a_chain

WIDTH, HEIGHT = 80, 24


class Floor:
    """A data folder with the chain of ACME in its database and its log."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.settings = Settings(home=home)
        make_database(self.settings.database)
        self.store = Store(self.settings.database)
        with self.store.session() as session:
            self.chain: Chain = a_chain(session)
        self.order_id = self.chain.order_id

    def record(self, kind: str, **facts: Any) -> None:
        with self.store.session() as session:
            record(session, self.settings, kind, order=self.order_id, **facts)

    def fullest(self, fills: int) -> None:
        """The order with all that one can have: four lenses and four roles, a person's yes, and many fills."""
        with self.store.session() as session:
            order = session.get_one(Order, self.order_id)
            order.state, order.fence, order.broker_order_id = OrderState.FILLED.value, 3, "paper-1"
            order.message, order.order_type, order.limit_price = "a note " * 40, "limit", 101.5
            session.add(order)
            self._approved(session)
            for number in range(fills):
                session.add(a_fill(order, number))
            self._researched(session)
        self.record("drafted", symbol="ACME", action="open", side="buy", notional=5000.0)
        self.record("previewed", payload="{}", payload_hash=self.chain.preview_hash)
        self.record("approval_asked", notional=5000.0)
        self.record("approval_decided", by="ann@desk", state="approved", why="it is " + "good " * 60)
        self.record("submitting", fence=3)
        self.record("answer", state="filled")
        for number in range(fills):
            self.record("fill", quantity=1.0, price=100.0 + number)

    def _approved(self, session: Session) -> None:
        session.add(
            Approval(
                order_id=self.order_id,
                payload_hash=self.chain.preview_hash,
                notional=5000.0,
                state=ApprovalState.APPROVED,
                expires_at=utcnow(),
                decided_at=utcnow(),
                decided_by="ann@desk",
                why="it is good " * 20,
            )
        )

    def _researched(self, session: Session) -> None:
        run = session.get_one(Run, self.chain.run_id)
        verdict = session.get_one(Verdict, self.chain.verdict_id)
        verdict.summary = "many words " * 40
        for lens in ("fundamental", "options"):
            step = a_step(session, run, kind=StepKind.SCREEN_SHARD, role=f"screener_{lens}", state=StepState.DONE)
            turn = a_turn(session, step, thread_id=f"thread-{lens}")
            hit = ScreenHit(
                run_id=run.id, step_id=step.id, turn_id=turn.id, lens=lens, symbol="ACME", instrument="equity",
                confidence="low", thesis="a long thesis " * 20,
            )  # fmt: skip
            session.add(hit)
            session.flush()
            session.add(CandidateHit(candidate_id=verdict.candidate_id, hit_id=hit.id))
        for role in ("fundamentals", "catalyst"):
            step = a_step(session, run, subject="ACME", role=role, state=StepState.DONE)
            turn = a_turn(session, step, thread_id=f"thread-{role}")
            report = Report(
                run_id=run.id, step_id=step.id, candidate_id=verdict.candidate_id, turn_id=turn.id, symbol="ACME",
                role=role, status="no_data", reason="no data from symbol_overview " * 9, author="rulebook",
                market_at=MARKET_NOW,
            )  # fmt: skip
            session.add(report)
            session.flush()
            session.add(VerdictReport(verdict_id=verdict.id, report_id=report.id))

    def view(self) -> dict[str, Any]:
        with self.store.read() as session:
            return order_view(session, by_prefix(session, Order, self.order_id))

    def log(self) -> list[Any]:
        return entries_of(check_logs(self.store, self.settings), self.order_id)


def a_fill(order: Order, number: int) -> Fill:
    return Fill(
        order_id=order.id, account=order.account, symbol=order.symbol, side="buy", quantity=1.0, price=100.0 + number,
        commission=0.01, filled_at=MARKET_NOW + dt.timedelta(seconds=number),
    )  # fmt: skip


@pytest.fixture
def floor(tmp_path: Path) -> Iterator[Floor]:
    made = Floor(tmp_path / "home")
    yield made
    made.store.close()


def rendered(what: Any) -> list[str]:
    with open("/dev/null", "w") as nowhere:
        console = Console(width=WIDTH, no_color=True, highlight=False, record=True, file=nowhere)
        console.print(what)
        return console.export_text().splitlines()


@pytest.mark.parametrize("fills", [0, 1, 50])
def test_each_of_the_two_fits_one_screen(floor: Floor, fills: int) -> None:
    floor.fullest(fills)
    found, log = floor.view(), floor.log()
    assert len(log) == 6 + fills
    for shown in (rendered(order_report(found, len(log))), rendered(order_history(found, log))):
        assert max(len(line) for line in shown) <= WIDTH
        assert len(shown) < HEIGHT, "\n".join(shown)


def test_the_order_as_it_stands(floor: Floor) -> None:
    floor.fullest(6)
    shown = "\n".join(rendered(order_report(floor.view(), 12)))
    for expected in (
        f"order {floor.order_id}  open buy 50 ACME: filled",
        "account paper, limit order at 101.50, 2010-08-12 15:55 EDT",
        "preview 5,000.00 at 100.00",
        floor.chain.preview_hash,
        "approval approved by ann@desk",
        "sent once, under fence 3; the broker's id: paper-1",
        "fill 1 at 100.00, commission 0.01, 2010-08-12 15:55 EDT",
        "and 3 more fills, 6 in all",
        "trader, rulebook (rules, no model): ACME is good",
        "thread thread-trader",
        "verdict BUY (medium): many words",
        "report fundamentals no_data: no data from",
        "hit technical (high): [bold]technical[/] likes ACME",
        "desk audit show --order",
    ):
        assert expected in shown


def test_a_denied_order_names_the_measured_figure(floor: Floor) -> None:
    with floor.store.session() as session:
        order = session.exec(select(Order).where(Order.symbol == "IBM").where(Order.denial_code == "cooldown")).one()
        order.measured, order.limit_text = "3 hours", "24 hours"
        session.add(order)
        floor.order_id = order.id
    shown = "\n".join(rendered(order_report(floor.view(), 0)))
    assert "denied, cooldown: too soon" in shown
    assert "measured: 3 hours; limit: 24 hours" in shown
    assert "preview: none" in shown
    assert "sent: no" in shown


def test_the_story_goes_from_the_hit_to_the_fill(floor: Floor) -> None:
    floor.fullest(1)
    shown = "\n".join(rendered(order_history(floor.view(), floor.log())))
    marks = (
        "hit catalyst", "report quick", "verdict BUY", "trader rulebook", "drafted ", "previewed ", "approval_asked ",
        "approval_decided ", "submitting ", "answer ", "fill ",
    )  # fmt: skip
    places = [shown.find(mark) for mark in marks]
    assert -1 not in places, marks[places.index(-1)]
    assert places == sorted(places)


def test_a_long_log_is_cut_in_the_middle_and_reports_it(floor: Floor) -> None:
    floor.fullest(50)
    shown = rendered(order_history(floor.view(), floor.log()))
    assert any("45 lines of the log left out" in line for line in shown)
    assert "price 149" in shown[-1]


def test_an_order_without_research_has_a_story_too(floor: Floor) -> None:
    with floor.store.session() as session:
        for candidate in session.exec(select(Candidate).where(Candidate.symbol == "ACME")):
            candidate.symbol = "OTHER"
            session.add(candidate)
    shown = "\n".join(rendered(order_history(floor.view(), floor.log())))
    assert "hit: none" in shown
    assert "the log has no line on this order" in shown


def test_text_of_a_model_or_a_broker_cannot_steer_the_terminal(floor: Floor) -> None:
    with floor.store.session() as session:
        order = session.get_one(Order, floor.order_id)
        order.message, order.broker_order_id = "a\x1b[2Jb", "x\x07y"
        order.denial_code, order.denial_reason = "collar", "c\x1b[2Jd"
        session.add(order)
    floor.record("answer", answer="e\x1b[2Jf")
    found = floor.view()
    shown = "\n".join(rendered(order_report(found, 1)) + rendered(order_history(found, floor.log())))
    assert "\x1b" not in shown
    assert "\x07" not in shown


def test_a_list_is_of_what_was_asked_for(floor: Floor) -> None:
    with floor.store.read() as session:
        every = list_orders(session, None, None, None, 10)
        assert {order.symbol for order, _ in every} == {"ACME", "IBM"}
        ((order, preview),) = list_orders(session, floor.chain.run_id, "ACME", "previewed", 10)
        assert (order.id, isinstance(preview, Preview)) == (floor.order_id, True)
        assert list_orders(session, "another", None, None, 10) == []
        assert len(list_orders(session, None, None, None, 1)) == 1
        shown = rendered(order_list(every))
    assert max(len(line) for line in shown) <= WIDTH
    assert any("5,000" in line and "previewed" in line for line in shown)
    assert any("denied cooldown" in line for line in shown)


def test_the_commands(floor: Floor) -> None:
    floor.fullest(2)
    short = floor.order_id[:8]
    assert short in desk(floor.home, "orders", "list", "--symbol", "acme").stdout
    assert json.loads(desk(floor.home, "orders", "list", "--state", "rejected", "--json").stdout) == []
    assert "open buy 50 ACME: filled" in desk(floor.home, "orders", "show", short).stdout
    whole = json.loads(desk(floor.home, "orders", "show", short, "--json").stdout)
    assert len(whole["log"]) == 8
    history = desk(floor.home, "audit", "show", "--order", short).stdout
    assert "approval_decided" in history
    assert re.search(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d +\d+ drafted", history, re.MULTILINE), "a history spans days"
    lines = desk(floor.home, "audit", "show", "--last", "3").stdout.splitlines()
    assert [line.split()[4] for line in lines] == ["answer", "fill", "fill"]
    wrong = desk(floor.home, "orders", "show", "ffff-none")
    assert (wrong.returncode, "desk orders list" in wrong.stderr) == (2, True)


def test_verify_confirms_a_whole_log_and_names_the_faults_of_another(floor: Floor) -> None:
    empty = desk(floor.home, "audit", "verify")
    assert (empty.returncode, empty.stdout) == (0, "nothing is on record yet\n")
    floor.fullest(2)
    whole = desk(floor.home, "audit", "verify")
    assert (whole.returncode, "9 lines anchored, whole" in whole.stdout) == (0, True)
    path = log_path(floor.settings)
    path.write_bytes(path.read_bytes().replace(b'"by":"ann@desk"', b'"by":"bob@desk"'))
    altered = desk(floor.home, "audit", "verify")
    assert (altered.returncode, "NOT WHOLE" in altered.stdout) == (1, True)
    assert "line 5: its content is not what its hash was made of: altered" in altered.stdout
    shown = desk(floor.home, "audit", "show", "--order", floor.order_id)
    assert "the log is not whole" in shown.stderr
    assert json.loads(desk(floor.home, "audit", "verify", "--json").stdout)[0]["whole"] is False
    missing = desk(floor.home, "audit", "verify", "--with", str(floor.home / "none.jsonl"))
    assert (missing.returncode, "cannot be read" in missing.stderr) == (2, True)
