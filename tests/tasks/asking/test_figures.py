"""Questions as people write them, over a home of some weeks: each figure is that of the database, read here by SQL of
its own, and what is another question is not answered."""

from __future__ import annotations

import datetime as dt
import random
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from chordesk.models.database.store import Store
from chordesk.models.errors import MarketError
from chordesk.models.settings import Settings
from chordesk.models.states import RunState
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.orders import Account, EquityMark, Fill, Position
from chordesk.models.tables.runs import Decision, Verdict
from chordesk.tasks.asking.answers import Answer
from chordesk.tasks.asking.lookup import PROPOSE, answer
from chordesk.tools.market.protocol import MarketData
from tests.builders import MARKET_NOW, a_candidate, a_run, a_step, a_turn, a_verdict_on
from tests.databases import template
from tests.tasks.views.chain import an_order

SYMBOLS = ("ED", "CF", "PM", "SO", "BRK.B", "T")
STATES = ("filled", "filled", "filled", "denied", "cancelled", "submitted")
EASTERN = ZoneInfo("America/New_York")
NOW = dt.datetime.now(EASTERN)
MIDNIGHT = NOW.replace(hour=0, minute=0, second=0, microsecond=0)


def before(days: int) -> str:
    """Midnight of so many days ago in New York, as the database keeps times."""
    day = (MIDNIGHT - dt.timedelta(days=days)).date()
    return dt.datetime(day.year, day.month, day.day, tzinfo=EASTERN).astimezone(dt.UTC).strftime("%Y-%m-%d %H:%M:%S")


MONDAY, TODAY, YESTERDAY = before(NOW.weekday()), before(0), before(1)
THURSDAY = (NOW.weekday() - 3) % 7
Sql = Callable[..., object]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Store, Settings, sqlite3.Connection]]:
    """Forty runs of the last weeks with orders, fills, verdicts and turns; a seed makes it the same each time."""
    folder = tmp_path_factory.mktemp("aged")
    path = Path(shutil.copy(template(), folder / "desk.db"))
    store, dice = Store(f"sqlite:///{path}"), random.Random(52)
    with store.session() as session:
        session.add(Account(name="paper", cash=41_234.56, opening_cash=100_000.0))
        for back in range(40, -1, -1):
            _a_day(session, dice, utcnow() - dt.timedelta(hours=11 * back, minutes=7))
        for symbol in SYMBOLS[1:4]:
            held = {"quantity": float(dice.randrange(10, 90)), "average_cost": dice.randrange(2_000, 9_000) / 100}
            session.add(Position(account="paper", symbol=symbol, filled_at=MARKET_NOW, **held))
        for back in range(20, -1, -1):
            day, last = (utcnow() - dt.timedelta(days=back)), 100_000 + dice.randrange(-500_000, 500_000) / 100
            session.add(
                EquityMark(
                    account="paper", day=day.date(), opening=100_000.0, last=last, high_water=106_000.0, updated_at=day
                )
            )
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    yield store, Settings(home=folder, market="replay"), connection
    connection.close()
    store.close()


def _a_day(session, dice: random.Random, at: dt.datetime) -> None:  # type: ignore[no-untyped-def]
    kind, state = dice.choice(("screen", "screen", "research")), dice.choice(list(RunState)[2:])
    run = a_run(session, kind=kind, state=state, created_at=at, finished_at=at)
    step = a_step(session, run, role="quick")
    about = {"run_id": run.id, "account": "paper", "author": "rules", "status": "completed"}
    decision = Decision(**about, step_id=step.id, turn_id=None, actions=[], reasoning="")
    session.add(decision)
    session.flush()
    for place, symbol in enumerate(dice.sample(SYMBOLS, 3)):
        a_turn(session, step, subject=symbol, ordinal=place, total_tokens=dice.randrange(9_000), finished_at=at)
        rating = dice.choice(("BUY", "HOLD", "CAUTION"))
        verdict: Verdict = a_verdict_on(session, a_candidate(session, run, symbol).id, rating=rating, created_at=at)
        given = {"state": dice.choice(STATES), "side": dice.choice(("buy", "sell")), "created_at": at}
        code = {"denial_code": "cooldown", "denial_reason": "too soon"} if given["state"] == "denied" else {}
        quantity, price = float(dice.randrange(1, 90)), dice.randrange(1_000, 9_000) / 100
        order = an_order(session, run, decision, verdict, place, quantity=quantity, **given, **code)
        if given["state"] == "filled":
            filled = {"symbol": symbol, "side": given["side"], "quantity": quantity, "price": price, "commission": 0.25}
            session.add(Fill(order_id=order.id, account="paper", filled_at=MARKET_NOW, created_at=at, **filled))


ORDERS = "select count(*) from \"order\" where account = 'paper' and "
FILLS = "select count(*) from fill where account = 'paper' and "
RUNS = "select count(*) from run where "
TOKENS = "select coalesce(sum(total_tokens), 0) from turn where "
SINCE, WITHIN = "created_at >= ?", "created_at >= ? and created_at < ?"
# What is asked, the SQL of its figure, what the SQL is given, and the figure in words.
FIGURES: list[tuple[str, str, tuple[str, ...], str]] = [
    ("how many orders have there been?", ORDERS + "1", (), "{} order"),
    ("Which orders were denied, and why?", ORDERS + "state = 'denied'", (), "{} denied"),
    ("orders that were not filled", ORDERS + "state <> 'filled'", (), "{} order"),
    ("sell orders since Monday", ORDERS + "side = 'sell' and " + SINCE, (MONDAY,), "{} order"),
    ("Orders yesterday", ORDERS + WITHIN, (YESTERDAY, TODAY), "{} order"),
    ("orders on thursday", ORDERS + WITHIN, (before(THURSDAY), before(THURSDAY - 1)), "{} order"),
    ("orders of last week", ORDERS + WITHIN, (before(NOW.weekday() + 7), MONDAY), "{} order"),
    ("orders before Thursday", ORDERS + "created_at < ?", (before(THURSDAY),), "{} order"),
    ("how many orders for cf, pm and so were cancelled",
     ORDERS + "symbol in ('CF', 'PM', 'SO') and state = 'cancelled'", (), "{} cancelled"),
    ("the orders from yesterday", ORDERS + WITHIN, (YESTERDAY, TODAY), "{} order"),
    ("trades in BRK.B", FILLS + "symbol = 'BRK.B'", (), "{} fill"),
    ("what did we buy this week", FILLS + "side = 'buy' and " + SINCE, (MONDAY,), "{} fill"),
    ("what have we sold in ed in the last two weeks", FILLS + "symbol = 'ED' and side = 'sell' and " + SINCE,
     (before(14),), "{} fill"),
    ("how many trades did we make since " + before(5)[:10], FILLS + SINCE, (before(5),), "{} fill"),
    ("how much commission did we pay", "select sum(commission) from fill", (), "commission {:,.2f} USD"),
    ("which runs failed?", RUNS + "state = 'failed'", (), "{} failed"),
    ("how many screens ran this week", RUNS + "kind = 'screen' and " + SINCE, (MONDAY,), "{} run"),
    ("runs of the last 3 days", RUNS + SINCE,
     ((NOW - dt.timedelta(days=3)).astimezone(dt.UTC).strftime("%Y-%m-%d %H:%M:%S"),), "{} run"),
    ("what did the last screen cost",
     TOKENS + "run_id = (select id from run where kind = 'screen' order by created_at desc limit 1)", (),
     "{:,} tokens"),
    ("what was spent on screens since Monday",
     TOKENS + "run_id in (select id from run where kind = 'screen') and finished_at >= ?", (MONDAY,), "{:,} tokens"),
    ("tokens yesterday", TOKENS + "finished_at >= ? and finished_at < ?", (YESTERDAY, TODAY), "{:,} tokens"),
    ("how many tokens did we spend in total", TOKENS + "1", (), "{:,} tokens"),
    ("what did research on PM cost since Monday", TOKENS + "subject = 'PM' and finished_at >= ?", (MONDAY,),
     "{:,} tokens"),
    ("whats our cash", "select cash from account", (), "cash {:,.2f} USD"),
    ("do we hold pm", "select quantity from position where symbol = 'PM'", (), "PM: {:g} at"),
    ("biggest position", "select symbol from position order by quantity * average_cost desc", (), "1. {}: "),
    ("equity", "select last from equity_mark order by day desc", (), "equity {:,.2f} USD"),
    ("P&L since Monday",
     "select (select last from equity_mark order by day desc limit 1) - coalesce((select last from equity_mark where "
     "updated_at < ? order by day desc limit 1), 100000)", (MONDAY,), "{:+,.2f} from"),
    ("rating of SO", "select rating from verdict where symbol = 'SO' order by created_at desc", (), "SO: {} ("),
    ("how many BUY verdicts this week", "select count(*) from verdict where rating = 'BUY' and " + SINCE, (MONDAY,),
     "{} BUY"),
    ("are we halted", "select count(*) from trading", (), "active"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "sql", "given", "words"), FIGURES, ids=[one[0] for one in FIGURES])
def test_a_figure_is_the_databases(home, text: str, sql: str, given: tuple[str, ...], words: str) -> None:  # type: ignore[no-untyped-def]
    (value,) = home[2].execute(sql, given).fetchone()
    wanted = words.format(value) if value != 0 or "tokens" in words else "0 " if "order" in words else ""
    assert wanted in asked(home, text).text


@pytest.mark.parametrize("symbol", SYMBOLS)
def test_the_gain_of_sales_is_that_of_the_average_cost(home, symbol: str) -> None:  # type: ignore[no-untyped-def]
    rows = home[2].execute("select side, quantity, price from fill where symbol = ? order by created_at, id", (symbol,))
    held = cost = gained = 0.0  # cost: of all that is held, negative when short
    for side, quantity, price in rows:
        signed = quantity if side == "buy" else -quantity
        if held * signed >= 0:
            held, cost = held + signed, cost + signed * price
            continue
        closed = min(abs(held), quantity) * (1 if held > 0 else -1)
        each, rest = cost / held, signed + closed
        gained, held, cost = gained + closed * (price - each), held - closed, cost - closed * each
        held, cost = held + rest, cost + rest * price
    found = asked(home, f"what did we lose on {symbol}")
    assert found.facts[symbol]["realised"] == pytest.approx(gained, abs=1e-6)


@pytest.mark.parametrize(
    "text",
    [
        "sell everything", "stop trading", "please halt", "can you buy ED", "approve all orders", "run a screen",
        "should we sell ED", "will ED go up", "what is the price of ED", "holdings except PM", "positions over 10%",
        "how much did we make per month", "orders since the last run", "cost tomorrow", "holdings last week",
        "trades next week", "which sector is biggest", "what was our best day", "why was it bought",
        "why did you buy Apple", "if ED falls, sell it", "orders in October 2010", "average return",
        "orders since the third", "more than 5 trades", "largest trade", "most expensive run", "oldest position",
            "first trade", "how many trades won", "realized profit this week", "how many times were we halted",
            "what is on my mind", "do we hold any tech",
    ],
)  # fmt: skip
def test_what_no_rule_reads_wholly_is_not_answered_as_something_else(home, text: str) -> None:  # type: ignore[no-untyped-def]
    assert asked(home, text).intent in ("", PROPOSE)  # which changes nothing


def asked(home: tuple[Store, Settings, sqlite3.Connection], text: str) -> Answer:
    return answer(home[1], home[0], _away, text)


def _away() -> MarketData:
    raise MarketError("the market is away")
