"""What the commands show on a terminal of 80 columns: one expected text each, in `shown/`.

`python -m tests.tasks.cli.test_shown` writes them anew; read the difference before you keep it.
"""

from __future__ import annotations

import datetime as dt
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Group, RenderableType
from sqlmodel import Session, select

from chordesk.agents.thesis_pooling import StatedThesis, pool
from chordesk.models.database.store import Store, every_table
from chordesk.models.events import DESK, EventType, event
from chordesk.models.settings import Settings
from chordesk.models.states import ApprovalState, OrderState, StepKind, StepState
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.orders import Approval, Fill, Order
from chordesk.models.tables.runs import (
    Analysis,
    BacktestSession,
    CandidateHit,
    Report,
    Run,
    ScreenHit,
    Step,
    Turn,
    Verdict,
    VerdictReport,
)
from chordesk.models.tables.runtime import RuntimeConversation
from chordesk.models.thesis import Invalidation, KeptThesis, Point
from chordesk.tasks.cli.show.amount_text import size_text
from chordesk.tasks.cli.show.order_display import lineage_report, order_history, order_list, order_report, terms_text
from chordesk.tasks.cli.show.results import analyses_report
from chordesk.tasks.cli.show.run_display import (
    attempts_report,
    conversations_report,
    progress_line,
    progress_panel,
    run_list,
    run_report,
)
from chordesk.tasks.cli.show.status_display import event_line
from chordesk.tasks.reading.chain import chain
from chordesk.tasks.reading.order_history import list_orders, order_detail
from chordesk.tasks.reading.report_view import AnalysisRow
from chordesk.tasks.reading.run_details import TimelineAttempt, TimelineStep
from chordesk.tasks.reading.run_list import RunFilter, run_page
from chordesk.tasks.reading.runs import Portfolio, Progress, view
from chordesk.tools.orders.audit import record
from chordesk.tools.orders.audit_reading import check_logs, entries_of
from tests.agents.verdicts.analysis_kit import PUT, options
from tests.builders import MARKET_NOW, a_candidate, a_run, a_step, a_turn
from tests.databases import make_database
from tests.parts import needs, of_feature
from tests.tasks.cli.console import rendered
from tests.tasks.views.chain import Chain, a_chain

EXPECTED = Path(__file__).with_name("shown")
WIDTH, HEIGHT = 80, 24
AT = dt.datetime(2010, 8, 12, 12, 0, 5, tzinfo=dt.UTC)
CALL = "HAL100917C00030000"
_NOW = re.compile(r"\b20[23]\d-\d\d-\d\d( \d\d:\d\d(:\d\d)?)?")


class Books:
    """A data folder with the chain of ACME in its database and its log."""

    def __init__(self, home: Path) -> None:
        self.settings = Settings(home=home)
        make_database(self.settings.database)
        self.store = Store(self.settings.database)
        with self.store.session() as session:
            self.chain: Chain = a_chain(session)

    @contextmanager
    def order(self) -> Iterator[tuple[Session, Order]]:
        with self.store.session() as session:
            order = session.get_one(Order, self.chain.order_id)
            yield session, order
            session.add(order)

    def fullest(self, fills: int) -> None:
        """The order with all that one can have: four lenses and four roles, a person's yes, and fills."""
        with self.order() as (session, order):
            order.state, order.fence, order.broker_order_id = OrderState.FILLED.value, 3, "paper-1"
            order.message, order.order_type, order.limit_price = "a note " * 40, "limit", 101.5
            answer = {"state": ApprovalState.APPROVED, "decided_by": "ann@desk", "why": "it is good " * 20}
            times = {"expires_at": utcnow(), "decided_at": utcnow(), "payload_hash": self.chain.preview_hash}
            session.add(Approval(order_id=order.id, notional=5000.0, **times, **answer))
            for number in range(fills):
                at = MARKET_NOW + dt.timedelta(seconds=number)
                about = {"order_id": order.id, "account": order.account, "symbol": order.symbol, "side": "buy"}
                session.add(Fill(**about, quantity=1.0, price=100.0 + number, commission=0.01, filled_at=at))
            self._researched(session)
        self.record("drafted", symbol="ACME", action="open", side="buy", notional=5000.0)
        self.record("approval_decided", by="ann@desk", state="approved", why="it is " + "good " * 60)
        for number in range(fills):
            self.record("fill", quantity=1.0, price=100.0 + number)

    def _researched(self, session: Session) -> None:
        run = session.get_one(Run, self.chain.run_id)
        verdict = session.get_one(Verdict, self.chain.verdict_id)
        verdict.summary = "many words " * 40
        for lens in ("fundamental", "options"):
            step = a_step(session, run, kind=StepKind.SCREEN_SHARD, role=f"screener_{lens}", state=StepState.DONE)
            about = {"run_id": run.id, "step_id": step.id, "turn_id": a_turn(session, step).id, "symbol": "ACME"}
            hit = ScreenHit(
                **about, lens=lens, instrument="equity", confidence="low", thesis="a long thesis " * 20,
                market_at=run.market_now,
            )  # fmt: skip
            session.add(hit)
            session.flush()
            session.add(CandidateHit(candidate_id=verdict.candidate_id, hit_id=hit.id))
        for role in ("fundamentals", "catalyst"):
            step = a_step(session, run, subject="ACME", role=role, state=StepState.DONE)
            about = {"run_id": run.id, "step_id": step.id, "turn_id": a_turn(session, step).id, "symbol": "ACME"}
            report = Report(
                **about, candidate_id=verdict.candidate_id, role=role, status="no_data", author="rulebook",
                reason="no data from company_get " * 9, market_at=MARKET_NOW,
            )  # fmt: skip
            session.add(report)
            session.flush()
            session.add(VerdictReport(verdict_id=verdict.id, report_id=report.id))

    def record(self, kind: str, **facts: Any) -> None:
        with self.store.session() as session:
            record(session, self.settings, kind, order=self.chain.order_id, **facts)

    def shown_order(self) -> tuple[RenderableType, RenderableType]:
        """The order as it stands, and its history."""
        with self.store.read() as session:
            found = order_detail(session, session.get_one(Order, self.chain.order_id))
        log = entries_of(check_logs(self.store, self.settings), self.chain.order_id)
        return order_report(found, len(log)), order_history(found, log)


def runs(books: Books) -> RenderableType:
    """A run that goes on, with an order that waits and roles of another model; then its end, and the list."""
    with books.store.session() as session:
        run = session.get_one(Run, books.chain.run_id)
        for verdict in session.exec(select(Verdict).where(Verdict.run_id == run.id)):
            verdict.missing = ["fundamentals: failed (" + "x" * 500 + ")"]
        for turn in session.exec(select(Turn).where(Turn.run_id == run.id, Turn.role == "quick")):
            turn.model = "codex:gpt-5.6"
        session.get_one(Order, books.chain.order_id).state = OrderState.APPROVAL_PENDING.value
        going = run_report(view(session, run))
        run.state, run.notes = "failed", ["every report failed"]
        run.summary = {
            "seconds": 12.34, "turns": 7, "tokens": 2400, "live": False, "orders": {"denied": 1, "previewed": 1},
            "denials": {"no_verdict": 1},
            "cost": {"usd": 1.5, "unpriced": ["big"], "uncounted": 2}, "lenses": {"technical": 2}, "tools": {},
            "budgets": [{"scope": "run", "setting": "s", "used": 2400, "limit": 3_000_000}],
            "verdicts": {"BUY": 2},
        }  # fmt: skip
        bought = {"symbol": "ACME", "quantity": 1200.0, "average_cost": 20.5}
        portfolio = Portfolio.model_validate({"cash": 1234.5, "positions": [bought]})
        ended = run_report(view(session, run).model_copy(update={"portfolio": portfolio}))
        session.flush()
        return Group(going, "", ended, "", run_list(run_page(session, books.settings, RunFilter(None, None), 5).runs))


def lineages(books: Books) -> RenderableType:
    """From the order down to the hit, of an option too; and a candidate without a verdict, a stance or a hit."""
    with books.store.session() as session:
        run = session.get_one(Run, books.chain.run_id)
        _state_theses(session, run)
        whole = lineage_report(chain(session, run, "ACME"))
        order = session.get_one(Order, books.chain.order_id)
        order.contract, order.side, order.quantity = "ACME101016P00060000", "sell", 2.0
        session.flush()
        short = chain(session, run, "ACME")
        nodes = [node for node in short.nodes if node.kind not in ("report", "hit")]
        option = lineage_report(short.model_copy(update={"nodes": nodes}))
        other = a_run(session)
        a_candidate(session, other, "GE", origin="manual")
        reasons = {"quick": ("no_data", "no data from signals_get"), "risk": ("failed", "deadline: too slow")}
        for report in session.exec(select(Report).where(Report.run_id == run.id, Report.symbol == "ACME")):
            report.status, report.reason = reasons[report.role]
            report.verdict, report.confidence, report.summary = None, None, "word " * 60
        session.flush()
        without = lineage_report(chain(session, run, "ACME"))
        return Group(whole, "", option, "", lineage_report(chain(session, other, "GE")), "", without)


def _state_theses(session: Session, run: Run) -> None:
    """One report's thesis says up, the other's evidence decides nothing."""
    up = KeptThesis(
        direction="up", horizon=20, probability=0.58, invalidation=Invalidation(level="sma50"),
        invalidation_price=94.25, close=100.0,
        points_for=[Point(text="it rises", source="kqz-a")],
        points_against=[Point(text="RSI-14 of 71", source="kqz-b")],
    )  # fmt: skip
    theses = {"quick": up, "risk": KeptThesis(invalidation=Invalidation(event="results", day="2010-09-10"))}
    for report in session.exec(select(Report).where(Report.run_id == run.id, Report.symbol == "ACME")):
        report.thesis = theses[report.role].model_dump(mode="json")
    pooled = pool([StatedThesis(role, thesis) for role, thesis in theses.items()], {"quick": 1.12})
    verdict = session.exec(select(Verdict).where(Verdict.run_id == run.id, Verdict.symbol == "ACME")).one()
    verdict.pooled = pooled.model_dump(mode="json")
    session.flush()


def orders(books: Books) -> RenderableType:
    books.fullest(6)
    with books.store.session() as session:
        denied = session.exec(select(Order).where(Order.denial_code == "cooldown")).one()
        denied.measured, denied.limit_text = "3 hours", "24 hours"
        session.flush()
        listed = order_list(list_orders(session, None, None, None, 10))
        refused = order_report(order_detail(session, denied), 0)
    kinds: list[dict[str, Any]] = [
        {"order_type": "market"}, {"order_type": None}, {"order_type": "limit", "limit_price": 99.5},
        {"order_type": "stop", "stop_price": 92, "time_in_force": "gtc"},
        {"order_type": "stop_limit", "stop_price": 92, "limit_price": 91, "time_in_force": "gtc"},
        {"order_type": "trailing_stop", "stop_price": 95, "trail_percent": 5.0},
    ]  # fmt: skip
    sizes = [(1e6, None), (1.0, None), (0.5, None), (12.0, "AN101016C00062500"), (2.0, "no contract")]
    words = [terms_text(Order(**kind)) for kind in kinds] + [size_text(*size) for size in sizes]
    stands, history = books.shown_order()
    return Group(listed, "", stands, "", history, "", refused, "", *words)


def _analysis(**changes: Any) -> AnalysisRow:
    order = {"id": "o1", "state": "denied", "side": "sell", "quantity": 1.0, "limit_price": 0.68}
    made: dict[str, Any] = {
        "run_id": "r", "candidate_id": "c", "verdict_id": "v", "symbol": "HAL", "strategy": "csp", "rating": "CAUTION",
        "recommendation": "select", "confidence": "low", "contract": PUT,
        "figures": {"contract": options(source="modelled")},
        "checks": [{"id": "source", "state": "warn", "text": "the quotes are modelled"}], "reasons": [],
        "key_risks": [f"risk {number}" for number in range(9)], "headline": "Sell it.", "summary": "It holds.",
        "author": "codex:gpt-5.5",
    }  # fmt: skip
    found: dict[str, Any] = {
        "texts": [], "picture": f"artifacts/{'ab' * 32}.png", "digest": "ab" * 32,
        "order": Order(**order, denial_reason="the desk trades stocks only"),
    }  # fmt: skip
    found |= {name: changes.pop(name) for name in found if name in changes}
    return AnalysisRow(analysis=Analysis(**{**made, **changes}), **found)


def analyses(_books: Books) -> RenderableType:
    """A selection with all it has, a call with the break-even of the call alone, a rejection, and missing research."""
    made = {"run_id": "r", "symbol": "HAL", "turn_id": "t", "market_at": AT, "author": "codex:gpt-5.5"}
    text = Report(**made, role="chart", status="completed", verdict="REJECT", confidence="high", summary="It falls.")
    lost = Report(**made, role="options", status="failed", reason="timeout")
    bare: dict[str, Any] = {"order": None, "headline": None, "picture": None, "key_risks": [], "checks": []}
    call = {"contract": options(contract=CALL, break_even=30.7, pop=0.9)}
    missing = {**bare, "recommendation": "incomplete", "reasons": ["research: no_data (no data from news_list)"]}
    rows = [
        _analysis(), _analysis(**bare, strategy="covered_call", contract=CALL, figures=call),
        _analysis(**bare, recommendation="reject", reasons=["chart rejected it"], texts=[text, lost]),
        _analysis(**missing), _analysis(**{**missing, "strategy": "equity"}),
    ]  # fmt: skip
    return analyses_report(rows, Path("/desk"))


def backtests(_books: Books) -> RenderableType:
    """With scored voices beside forecasts that wait; then without voices, and with voices that forecast nothing."""
    shares = {"desk": 0.01, "held": 0.02, "equal_weight": None}
    rate = {
        "group": "BUY",
        "n": 4,
        "dates": 2,
        "share": 0.5,
        "effective": None,
        "low": None,
        "high": None,
        "told": False,
    }
    voice = {"voice": "sizer", "questions": 4, "dates": 2, "brier": 0.25, "alpha": 0.0, "low": None}
    steps = np.random.default_rng(1).normal(0.001, 0.01, (2, 60))
    figures = of_feature("chordesk.tools.measure.backtest_performance")
    course = figures.Course(
        steps[0], steps[1], steps[1], np.full(60, 0.5), np.full(60, 0.1), np.full(60, 0.0001), 252.0
    )
    drawn = figures.RandomEntry(4, 120.0, 3.0, -90.0, 95.0, 0.98)
    whole: dict[str, Any] = {
        "sessions": 1, "performance": asdict(figures.performance(course, drawn, [], [steps[1]])),
        "returns": shares, "drawdown": shares, "turnover": 0.1, "exposure": 0.5,
        "position_risk": 0.0025,
        "costs": "5 basis points", "turns": 1, "tokens": 2, "question": "beats the median", "ratings": [rate],
        "lenses": [], "roles": [], "voices": [], "conclusion": "Nothing can be concluded.",
    }  # fmt: skip
    day: dict[str, Any] = {
        "day": dt.date(2010, 6, 29), "state": "done", "reason": None, "screen_run_id": "s", "trade_run_id": "t",
        "cash": 1.0, "equity": 2.0, "exposure": 0.5, "traded": 0.0, "orders": {"filled": 1}, "denials": {},
        "verdicts": {}, "unpriced": ["GONE"], "stale": ["AAPL", "CSCO"],
    }  # fmt: skip
    rows = [BacktestSession(**day), BacktestSession(**{**day, "state": "missing", "reason": "lost", "equity": None})]
    about: dict[str, Any] = {"backtest_id": "b", "resumed": None, "scored": "b", "parallel": False, "sessions": 2}
    results = [{**whole, "rounds": 2, "voices": [voice], "forecasts_waiting": 3}, whole, {**whole, "rounds": 1}]
    backtest_report = of_feature("chordesk.tasks.measure.run_display:backtest_report")
    view_type = of_feature("chordesk.tasks.measure.run_view:BacktestView")
    first, *others = (backtest_report(view_type(**about, rows=rows, result=result)) for result in results)
    return Group(first, *(text for other in others for text in ("", _last_lines(other, 3))))


def _last_lines(what: RenderableType, count: int) -> str:
    return "\n".join(rendered(what, WIDTH).splitlines()[-count:])


def steps(_books: Books) -> RenderableType:
    """Attempts of which one was lost, conversations of which one goes on, and progress in a line and in a panel."""

    def step(*outcomes: str, reason: str | None = None) -> TimelineStep:
        ended_at = AT + dt.timedelta(seconds=1.5)
        tries = [
            TimelineAttempt(
                attempt=number, worker="w@h:1:a", started_at=AT, ended_at=ended_at, outcome=outcome,
                reason=None if outcome == "done" else reason, waited=None, taken_over=False, turns=[],
            )
            for number, outcome in enumerate(outcomes, start=1)
        ]  # fmt: skip
        row = Step(run_id="r", kind="report", role="risk", subject="IBM", state="done", max_attempts=3)
        return TimelineStep(step=row, attempts=tries)

    conversation = RuntimeConversation(
        run_id="r", thread_id="t1", active_turn_id="u1", runtime_kind="codex", step_id="s", role="risk",
        subject="IBM", thread_reason="resumed", kept=True, worker="w", opened_at=AT, closed_at=None,
    )  # fmt: skip
    seen = Progress(
        run_id="0" * 32, kind="screen", state="running", begun=True, model="rules", candidates={"BUY": 1, "waiting": 2},
        steps={StepKind.SCREEN_SHARD: (1, 4), StepKind.REPORT: (2, 3)}, turns_in_flight=3, phases={"reasoning": 2},
        turns=5, tokens=12_000, seconds=3.25, final=False,
    )  # fmt: skip
    days = {StepKind.BACKTEST_SESSION: (2, 6)}
    walk = seen.model_copy(update={"kind": "backtest", "steps": days, "seconds": 100.0, "candidates": {}})
    episode = seen.model_copy(update={"kind": "episode", "candidates": {}, "steps": {}})
    assert attempts_report([step("done"), step("stopped", reason="quick rejected it")]) is None
    lost = attempts_report([step("lost", "done", reason="no renewal"), step("stopped")])
    talks = conversations_report([conversation] * 14)
    assert lost is not None
    assert talks is not None
    lines = [progress_line(one) for one in (seen, walk, episode)]
    return Group(lost, talks, *lines, *(progress_panel(one) for one in (seen, walk, episode)))


def events(_books: Books) -> RenderableType:
    def line(type_: EventType, run_id: str = "0" * 32, *, with_run: bool = False, **payload: object) -> RenderableType:
        one = event(type_, run_id, **payload)  # type: ignore[arg-type]
        one = one.model_copy(update={"sequence": 7, "occurred_at": AT})
        return event_line(one, with_run=with_run)[10:]  # without the local time

    ended = {"step": "abc", "why": None, "attempt": 2, "state": "done", "role": "quick", "subject": "IBM"}
    return Group(
        line(EventType.STATUS_ENDED, **ended),
        line(EventType.RUN_STARTED, with_run=True),
        line(EventType.ORDER_TRADING, DESK, with_run=True),
        line(EventType.ITEM_COMPLETED, type="agentMessage", text="a\nb" + "c" * 500),
    )


SCENES = {each.__name__: each for each in (runs, lineages, orders, analyses, backtests, steps, events)}


def text_of(name: str, books: Books) -> str:
    """What is shown, with a sign in place of each id and of each time of this day."""
    shown = rendered(SCENES[name](books), WIDTH)
    with books.store.read() as session:
        columns = [column for table in every_table().values() for column in table.primary_key.columns]
        keys = [key for column in columns for key in session.execute(select(column)).scalars()]
    ids = [key for key in keys if isinstance(key, str) and len(key) > 20]
    for length in (36, 32, 20, 16, 8):
        for each in ids:
            shown = shown.replace(each[:length], "#" * len(each[:length]))
    shown = _NOW.sub(lambda found: re.sub(r"\d", "#", found[0]), shown)
    return "".join(f"{line.rstrip()}\n" for line in shown.splitlines())


# The line of a run's steps names those of a backtest.
NAMES = [pytest.param(one, marks=needs("measure")) if one == "steps" else one for one in SCENES]


@pytest.mark.parametrize("name", NAMES)
def test_what_is_shown_is_what_is_expected(name: str, tmp_path: Path) -> None:
    shown = text_of(name, Books(tmp_path))
    assert shown == (EXPECTED / f"{name}.txt").read_text(encoding="utf-8"), "see the top of this module"


@pytest.mark.parametrize("fills", [0, 1, 50])
def test_an_order_and_its_history_fit_one_screen_each(fills: int, tmp_path: Path) -> None:
    books = Books(tmp_path)
    books.fullest(fills)
    for what in books.shown_order():
        lines = rendered(what, WIDTH).splitlines()
        assert max(map(len, lines)) <= WIDTH
        assert len(lines) < HEIGHT, "\n".join(lines)
    assert fills < 50 or ("lines of the log left out" in "\n".join(lines) and "price 149" in lines[-1])


if __name__ == "__main__":
    for scene in SCENES:
        with tempfile.TemporaryDirectory() as folder:
            (EXPECTED / f"{scene}.txt").write_text(text_of(scene, Books(Path(folder))), encoding="utf-8")
