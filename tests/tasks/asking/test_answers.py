"""Answers from rows: every figure of a text is one of the rows', and what is not there is said to be missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from chordesk.agents.grounding.report import ground
from chordesk.models.database.store import Store
from chordesk.models.errors import MarketError, NotFound
from chordesk.models.settings import Settings
from chordesk.models.states import OrderState, RunState
from chordesk.models.tables.orders import Account, EquityMark, Fill, Order, Position
from chordesk.models.tables.runs import Run
from chordesk.tasks.asking.answers import Answer
from chordesk.tasks.asking.lookup import answer
from chordesk.tools.market.protocol import MarketData
from tests.builders import MARKET_NOW
from tests.tasks.views.chain import a_chain


def away() -> MarketData:
    raise MarketError("the market is away")


@pytest.fixture
def asked(store: Store, tmp_path: Path):  # type: ignore[no-untyped-def]
    with store.session() as session:
        chain = a_chain(session)
        run = session.get_one(Run, chain.run_id)
        run.state = RunState.DONE
        session.get_one(Order, chain.order_id).state = OrderState.FILLED
        session.add(Account(name="paper", cash=99_000.0, opening_cash=100_000.0))
        held = {"quantity": 3.0, "average_cost": 10.5, "filled_at": MARKET_NOW}
        session.add(Position(account="paper", symbol="ACME", **held))
        fill = {"symbol": "ACME", "side": "buy", "quantity": 3.0, "price": 10.5, "commission": 0.0}
        session.add(Fill(order_id=chain.order_id, account="paper", filled_at=MARKET_NOW, **fill))
        session.add(EquityMark(account="paper", day=MARKET_NOW.date(), opening=1e5, last=99_950.25, high_water=1e5))
    settings = Settings(home=tmp_path, market="replay")
    return lambda text: answer(settings, store, away, text)


@pytest.mark.parametrize(
    ("text", "intent", "said"),
    [
        ("why was ACME bought", "why", "verdict: BUY (medium)"),
        ("why was ACME sold", "why", "no sale of ACME"),
        ("how many verdicts were BUY", "verdict", "2 rated BUY"),
        ("how many backtest verdicts were BUY", "verdict", "0 verdicts of the kind backtest"),
        ("how many shares did we buy in total", "fills", "bought 3 in all for 31.50 USD"),
        ("why was IBM denied", "why", "cooldown"),
        ("verdict on ACME", "verdict", "ACME: BUY (medium"),
        ("what did we buy", "fills", "bought 3 ACME at 10.5"),
        ("denied orders", "orders", "1 order: 1 denied"),
        ("equity", "equity", "99,950.25 USD"),
        ("do we hold ACME", "holdings", "ACME: 3 at 10.5"),
        ("do we hold KO", "holdings", "paper holds no KO"),
        ("status", "status", "does not run"),
        ("runs", "runs", "Screened"),
        ("what waits for me", "waiting", "nothing waits"),
        ("schedule", "schedule", "a screen at"),
        ("setting DESK_PROTECT", "setting", "DESK_PROTECT: none"),
        ("cost today", "cost", "tokens of"),
        ("why was ZZZZ bought", "why", "no run of paper had ZZZZ"),
        ("thesis of ACME", "thesis", "no report on ACME has a thesis"),
        ("plan of ACME", "plan", "no position with a plan"),
    ],
)
def test_a_question_is_answered_from_the_rows(asked, text: str, intent: str, said: str) -> None:  # type: ignore[no-untyped-def]
    found: Answer = asked(text)
    assert found.intent == intent
    assert said in found.text
    assert found.tokens == 0


@pytest.mark.parametrize("text", ["what did we buy", "equity", "do we hold ACME", "denied orders"])
def test_no_figure_of_a_text_is_of_its_own_making(asked, text: str) -> None:  # type: ignore[no-untyped-def]
    found: Answer = asked(text)
    grounding = ground({"answer": found.text}, [("rows", {}, found.facts)], {})
    assert grounding.unsupported == []


def test_without_a_market_the_prices_are_missing_and_the_shares_are_told(asked) -> None:  # type: ignore[no-untyped-def]
    found: Answer = asked("my weakest holdings")
    assert found.missing[0] == "prices: the market is away"
    assert "1. ACME: BUY" in found.text
    assert "gain not known" in found.text


def test_what_is_not_understood_says_what_can_be_asked_and_an_unknown_run_is_named(asked) -> None:  # type: ignore[no-untyped-def]
    assert asked("what is the meaning of life").intent == ""
    assert "why was ED bought" in asked("sing").text
    with pytest.raises(NotFound, match="00000000ffff"):
        asked("what did run 00000000ffff do")
