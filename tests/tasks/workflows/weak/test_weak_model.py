"""A model without sense on a desk that may trade: no order passes that a grounded report does not support.

Whole screens with their trader, through the runner and the steps of a worker, in this process: some 150 candidates take
seconds. The broker is paper, and the limits are wide, so that nothing else stops an order.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import pytest
from celery import Celery
from sqlmodel import select

from chordesk.agents.roles import SKEPTIC
from chordesk.models import event_log
from chordesk.models.database.store import Store
from chordesk.models.states import RUN_FINAL, OrderState, StepState
from chordesk.models.tables.orders import Order, Position
from chordesk.models.tables.runs import Decision, Report, Run, Step, Verdict
from chordesk.models.tables.runtime import Notice
from chordesk.tasks.engine import kinds
from chordesk.tasks.worker.app import create_app
from chordesk.tasks.worker.work import work
from chordesk.tasks.workflows.screen import open_screen
from chordesk.tools import rogue_calls
from chordesk.tools.market.universe import resolve_universe
from tests.fakes.random_model import RandomModel, Temper, symbols_of
from tests.stack import processes

pytestmark = pytest.mark.long

REQUIRED = "risk"
SYMBOLS = 60  # of one screen
CANDIDATES = 40
HONEST_CANDIDATES = 24
ENVIRON = {
    "DESK_PROVIDER": "endpoint", "DESK_PROVIDER_URL": "http://127.0.0.1:9/v1", "TRADER_LIVE": "1",
    "DESK_COOLDOWN_HOURS": "0", "DESK_MAX_TRADES_PER_DAY": "10000", "DESK_MAX_ORDERS_PER_MINUTE": "10000",
    "DESK_STARTING_CASH": "10000000", "DESK_MAX_GROSS_NOTIONAL": "10000000", "DESK_MAX_SECTOR_SHARE": "1",
    "DESK_RESEARCH_ROLES": "quick,fundamentals,risk,catalyst,skeptic",
    "DESK_MAX_SYMBOL_SHARE": "1", "DESK_MAX_DRAWDOWN": "1", "DESK_MAX_DAILY_LOSS": "1",
}  # fmt: skip
# The ways in which small models fail: by lot alone; agreeing with whatever comes first; without figures; copying some.
WEAK = {
    "by lot": Temper(),
    "agreeing": Temper(agrees=0.95),
    "without figures": Temper(agrees=0.95, figures=0.1, calls=0.9),
    "copying a few": Temper(agrees=0.95, figures=1.0, copies=0.6, calls=0.9, strays=0.0),
}
HONEST = Temper(agrees=1.0, figures=1.0, copies=1.0, honest=1.0, calls=0.9, strays=0.0)
ROGUE = replace(HONEST, rogue=0.1)


@dataclass(slots=True)
class Screened:
    """One screen that has ended, with what it left."""

    run: Run
    steps: Sequence[Step]
    reports: Sequence[Report]
    verdicts: Mapping[str, Verdict]
    decision: Decision | None
    orders: Sequence[Order]

    def report(self, symbol: str, role: str) -> Report | None:
        return next((one for one in self.reports if (one.symbol, one.role) == (symbol, role)), None)

    @property
    def sent(self) -> list[Order]:
        """The orders that no rule denied: a broker got them, or may get them yet."""
        return [one for one in self.orders if one.state != OrderState.DENIED]


@dataclass(slots=True)
class Floor:
    """A desk of this process that a model without sense plays on."""

    app: Celery
    model: RandomModel
    screens: dict[str, Screened] = field(default_factory=dict)

    @property
    def store(self) -> Store:
        return self.app.desk.store

    def screen(self, name: str, temper: Temper, seed: int, symbols: Sequence[str]) -> Screened:
        self.model.seed, self.model.temper = seed, temper
        honest = temper in (HONEST, ROGUE)
        self.model.trades = partial(trades, kinds=("open",)) if honest else trades
        run = open_screen(self.app, ",".join(symbols), max_candidates=HONEST_CANDIDATES if honest else CANDIDATES)
        assert run is not None
        self._work(run.id)
        self.screens[name] = self._left(run.id)
        return self.screens[name]

    def hold(self, symbols: Iterable[str]) -> None:
        with self.store.session() as session:
            at = self.app.desk.market.clock.now()
            for symbol in symbols:
                session.add(Position(account="paper", symbol=symbol, quantity=10, average_cost=10.0, filled_at=at))

    def _work(self, run_id: str) -> None:
        """Do a run's steps, one after the other, until it has ended."""
        while True:
            with self.store.read() as session:
                if session.get_one(Run, run_id).state in RUN_FINAL:
                    return
                due = select(Step.id, Step.kind).where(Step.run_id == run_id, Step.state == StepState.READY)
                ready = session.exec(due).all()
            assert ready, f"run {run_id} has no step to do and has not ended"
            for step_id, kind in ready:
                spec = kinds.find_step(kind)
                assert spec is not None
                work(self.app, step_id, spec.handler)

    def _left(self, run_id: str) -> Screened:
        with self.store.read() as session:
            steps = session.exec(select(Step).where(Step.run_id == run_id)).all()
            reports = session.exec(select(Report).where(Report.run_id == run_id)).all()
            orders = session.exec(select(Order).where(Order.run_id == run_id)).all()
            verdicts = session.exec(select(Verdict).where(Verdict.run_id == run_id)).all()
            decision = session.exec(select(Decision).where(Decision.run_id == run_id)).first()
            run = session.get_one(Run, run_id)
        return Screened(run, steps, reports, {one.symbol: one for one in verdicts}, decision, orders)


def trades(
    lot: random.Random, subject: Mapping[str, Any], kinds: Sequence[str] = ("open", "add", "reduce", "close", "hold")
) -> list[dict[str, Any]]:
    """Return an action on each symbol that is judged or held, and on one that nobody knows. The figures of its reasons
    have so many digits that no source has them by chance."""
    found = []
    for symbol in dict.fromkeys([*symbols_of(subject), "FAKE"]):
        kind = lot.choice(kinds)
        side = {"open": "buy", "add": "buy", "reduce": "sell", "close": "sell"}.get(kind)
        size = {"quantity": float(lot.randint(1, 3)) if side else None, "notional": None}
        terms = {"orderType": "market" if side else None, "limitPrice": None, "stopPrice": None, "trailPercent": None}
        why = lot.choice(("It is a buy.", f"It will move by {lot.uniform(1e5, 9e5):.3f}.", "I like it."))
        rest = {"timeInForce": None, "contract": None, "legs": None, "confidence": "high", "reasoning": why}
        found.append({"symbol": symbol, "action": kind, "side": side, **size, **terms, **rest})
    return found


@pytest.fixture(scope="module")
def floor() -> Iterator[Floor]:
    """Six screens, the first two by a model that quotes its tools and buys, and in the first one calls foreign tools in
    10 % of its turns: the account holds shares of the second after it."""
    with processes(True, **ENVIRON) as desk:
        app = create_app(desk.settings, "weak")
        try:
            found = Floor(app, RandomModel(0))
            app.desk._parts["runtime"] = found.model
            symbols = resolve_universe("sp500", app.desk.market)
            found.screen("rogue", ROGUE, 0, symbols[-SYMBOLS:])
            for at, (name, temper) in enumerate({"honest": HONEST, **WEAK}.items()):
                found.screen(name, temper, at, symbols[SYMBOLS * at : SYMBOLS * (at + 1)])
                if temper is HONEST:
                    found.hold(order.symbol for order in found.screens[name].sent)
            yield found
        finally:
            app.desk.close()
            app.close()


@pytest.fixture(params=WEAK)
def screened(request: pytest.FixtureRequest, floor: Floor) -> Screened:
    return floor.screens[request.param]


def test_orders_that_a_grounded_report_supports_pass(floor: Floor) -> None:
    """Or the tests below would hold on a desk that sends nothing at all."""
    honest = floor.screens["honest"]
    assert len(honest.sent) >= 3
    assert all(supported(honest, order) for order in honest.sent)


def test_there_are_enough_candidates(floor: Floor) -> None:
    assert sum(len(floor.screens[name].verdicts) for name in WEAK) >= 120


def test_no_order_is_sent_that_a_grounded_report_does_not_support(screened: Screened) -> None:
    asked = ("(open was asked for", "(add was asked for")
    wanted = (
        one["action"] in ("open", "add") or any(a in one["reasoning"] for a in asked) for one in actions_of(screened)
    )
    assert any(wanted), "it wanted to buy"
    unsupported = [order for order in screened.sent if not supported(screened, order)]
    assert [(one.symbol, one.action, one.state) for one in unsupported] == []


def actions_of(screened: Screened) -> Sequence[Mapping[str, Any]]:
    assert screened.decision is not None
    return screened.decision.actions


def supported(screened: Screened, order: Order) -> bool:
    """Entries rest on a BUY, on a required report with figures of its tools that rejects nothing, and on a thesis of a
    report with such figures that says up; exits on a report with such figures that rejects the symbol, or whose thesis
    says down, or that is cautious and states no probability."""
    reports = [one for one in screened.reports if one.symbol == order.symbol]
    if order.action in ("open", "add"):
        verdict, report = screened.verdicts.get(order.symbol), screened.report(order.symbol, REQUIRED)
        if verdict is None or verdict.rating != "BUY" or report is None or report.verdict == "REJECT":
            return False
        up = (one for one in reports if one.verdict != "REJECT" and one.thesis and one.thesis["direction"] == "up")
        return founded(report) >= 2 and any(founded(one) >= 2 and one.thesis["probability"] > 0.5 for one in up)
    return any(founded(one) >= 1 and says_down(one) for one in reports)


def says_down(report: Report) -> bool:
    chance = report.thesis["probability"] if report.thesis else None
    return report.verdict == "REJECT" or (report.verdict == "CAUTION" if chance is None else chance < 0.5)


def founded(report: Report) -> int:
    """Return how many figures of a completed report are its tools', 0 where most are of no source."""
    if report.status != "completed" or report.grounding is None:
        return 0
    found = report.grounding
    return int(found["sourced"]) if 2 * found["supported"] >= found["figures"] else 0


def test_each_buy_was_argued_against(floor: Floor) -> None:
    screened = floor.screens["honest"]
    argued = {one.symbol: one for one in screened.reports if one.role == SKEPTIC}
    bought = [one for one in screened.verdicts.values() if one.rating == "BUY"]
    assert bought
    assert argued.keys() >= {one.symbol for one in bought}
    for verdict in bought:
        assert verdict.pooled is not None
        assert {row["role"] for row in verdict.pooled["rows"]} >= {REQUIRED, SKEPTIC}


def test_every_figure_without_a_source_is_counted_and_the_report_says_so_in_one_line(screened: Screened) -> None:
    for report in screened.reports:
        if report.status != "completed":
            assert report.reason
            continue
        assert report.grounding is not None
        assert report.answer is not None
        lacking = report.grounding["figures"] - report.grounding["supported"]
        if not lacking:
            assert (report.reason, report.confidence) == (None, report.answer["confidence"])
            continue
        assert report.confidence != "high"
        assert str(report.reason).startswith(f"{lacking} of {report.grounding['figures']} figures ha")
        assert "\n" not in str(report.reason)
        if lacking > 1 and 2 * report.grounding["supported"] < report.grounding["figures"]:
            assert report.verdict != "CONFIRMED"
            if report.answer["verdict"] == "CONFIRMED":
                assert str(report.reason).endswith("so its CONFIRMED counts as CAUTION")


def test_each_rogue_call_is_on_record_and_the_orders_that_rest_on_it_wait_for_a_person(floor: Floor) -> None:
    screened = floor.screens["rogue"]
    run_id = screened.run.id
    with floor.store.read() as session:
        rows = rogue_calls.of_run(session, run_id)
        events = [one for one in event_log.read(session, run_id, 0, 100_000) if one.type == "tool.rogue"]
        notices = session.exec(select(Notice).where(Notice.kind == "rogue_call", Notice.run_id == run_id)).all()
        resting = {one.id: rogue_calls.of_order(session, one) for one in screened.orders}
    made = sorted(floor.model.rogue)
    assert len(made) >= 5
    assert sorted((one.role, one.subject) for one in rows) == made
    assert sorted(str(one.payload["call"]) for one in events) == sorted(one.id for one in rows)
    assert len(notices) == len(made)
    for report in screened.reports:
        if (report.role, report.symbol) in made and report.status == "completed":
            assert report.confidence == "low"
            assert str(report.reason).startswith("rogue calls: orders_submit (unknown)")
            verdict = screened.verdicts[report.symbol]
            assert verdict.confidence == "low"
            assert f"{report.role} called orders_submit" in verdict.summary
    held = [one for one in screened.sent if resting[one.id]]
    assert {one.state for one in held} == {OrderState.APPROVAL_PENDING}
    assert all("waits for a person: rogue calls" in str(one.message) for one in held)
    assert not any(one.state == OrderState.APPROVAL_PENDING for one in screened.sent if not resting[one.id])
