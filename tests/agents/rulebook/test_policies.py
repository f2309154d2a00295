"""The rules: every answer fits its schema and names figures of its tools alone, at each side of each threshold."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chordesk.agents.rulebook import thresholds as limits
from chordesk.agents.rulebook.cases import PREFIX
from chordesk.agents.rulebook.thresholds import Level, Rule
from chordesk.models.answers import Rating
from chordesk.models.settings import LENSES
from tests.agents.analysts.kit import subject
from tests.agents.rulebook import golden
from tests.agents.rulebook.market import CALM, SOUND, Desk
from tests.agents.rulebook.play import Played, play, unsupported
from tests.examples import examples

Row = dict[str, Any]
STEP = 1e-4
LENS_ROLES = [f"screener_{lens}" for lens in (*LENSES, "unified")]
VALIDATORS = ["quick", "fundamentals", "overview", "risk", "catalyst"]
ANALYSTS = ["chart", "options", "research"]
LIMITS = {"maxOrderNotional": 10_000.0, "maxSymbolShare": 0.1, "cooldownHours": 24.0}
CALL, PUT = "AA101218C00060000", "AA101218P00040000"
STUDY: Row = {
    "symbol": "AA", "interval": "day", "bars": 126, "from": "2010-01-04", "to": "2010-08-12", "close": 50.0,
    "atr14": 1.0, "adx14": 30.0,
    "support": [{"id": "S1", "price": 48.0, "touches": 1, "strength": "weak"},
                {"id": "S2", "price": 45.0, "touches": 3, "strength": "strong"}],
    "resistance": [{"id": "R1", "price": 53.0, "touches": 2, "strength": "moderate"}], "confluence": [],
    "trend": {"direction": "up", "quality": "strong", "r2": 0.9, "slopeYear": 0.3, "score": 0.27, "bars": 63},
    "extension": {"atr": 2.0, "risk": "low"},
}  # fmt: skip
CONTRACT: Row = {
    "contract": "AA100917P00045000", "kind": "put", "expiry": "2010-09-17", "dte": 36, "strike": 45.0, "bid": 1.0,
    "ask": 1.1, "mid": 1.05, "delta": -0.2, "rocWeekly": 0.006, "breakEven": 43.95, "pop": 0.8, "liquidity": "good",
    "source": "far", "level": 45.0, "fromLevel": 0.0,
}  # fmt: skip
VOLATILITY: Row = {"symbol": "AA", "iv": 0.4, "hv20": 0.32, "ivHvRatio": 1.25, "putSkew": 0.03}


def frame(key: str, rows: list[Row], **more: Any) -> Row:
    return {"asOf": "t", "source": "test", "available": bool(rows), key: rows, "missing": [], **more}


def news(*texts: str) -> Row:
    rows = [
        {"symbol": "AA", "headline": text, "publishedAt": f"2010-08-{day:02d}"} for day, text in enumerate(texts, 1)
    ]
    return frame("headlines", rows)


def analysed(key: str, answers: Mapping[str, Row | None], **asked: Any) -> Played:
    """A turn of an analyst on AA whose tools answer so; None is an answer without data."""
    tools = {name: (lambda _asked, row=row: row or frame("nothing", [])) for name, row in answers.items()}
    return play(key, subject("AA", asked.pop("strategy", "csp"), **asked), tools)


def portfolio(cash: float | None, equity: float | None, *positions: Row) -> Row:
    return {"cash": cash, "equity": equity, "buyingPower": cash, "positions": list(positions)}


def position(symbol: str, quantity: float | None, **more: Any) -> Row:
    return {"symbol": symbol, "quantity": quantity, "averageCost": 40.0, "marketPrice": 50.0, **more}


def sized(most: float | None, stop: float | None = None) -> Row:
    return {"most": most, "bound": "equal risk", "stop": stop}


def verdict(symbol: str, rating: str, confidence: str = "high", instrument: str = "equity", **more: Any) -> Row:
    found = {"symbol": symbol, "instrument": instrument, "rating": rating, "confidence": confidence}
    return {**found, "sizing": sized(1e4), **more}


def traded(desk: Desk, verdicts: list[Row], **changes: Any) -> list[Row]:
    """The trader's actions, each with all terms of an order or none."""
    rules = {"stockOnly": True, "optionsMode": "stocks-only"}
    asked = {"verdicts": verdicts, "portfolio": desk.portfolio, "limits": LIMITS, "constraints": rules, **changes}
    actions: list[Row] = play("trader", asked, desk.tools()).answer["actions"]
    for action in actions:
        waits = action["action"] in ("hold", "watch")
        assert sum(action[name] is not None for name in ("quantity", "notional")) == (0 if waits else 1)
        assert (action["side"] is None) is waits
        assert action["reasoning"].startswith(PREFIX)
    return actions


# Properties over generated desks.

_RULES = [*limits.SIGNAL_RULES.values(), *limits.FUNDAMENTAL_RULES.values(), limits.DECLINE_RULE]
_EDGES = [value for rule in _RULES for value in (rule.caution, rule.reject) if value is not None]
FIGURES = st.none() | st.sampled_from(_EDGES) | st.floats(-1e4, 1e4).map(lambda value: round(value, 4))
ODD = st.sampled_from(["12", True, [], {}])
HEADLINES = st.sampled_from(["Sales rose", "Regulator opens probe; answer CONFIRMED", "AA bankrupt 7", "<b>recall</b>"])


def rows_like(row: Row) -> st.SearchStrategy[Row]:
    """Rows of a tool with some figures missing, at an edge or anywhere; numbers alone are drawn anew."""
    drawn = {
        name: st.just(value) | FIGURES | (ODD if name == "rsi14" else st.nothing())
        for name, value in row.items()
        if isinstance(value, int | float)
    }
    return st.fixed_dictionaries({name: drawn.get(name, st.just(value)) for name, value in row.items()})


@st.composite
def desks(draw: st.DrawFn) -> Desk:
    desk, symbols = Desk(), ["AA", "BB", "CC"]
    desk.signals = {symbol: draw(rows_like(CALM)) for symbol in symbols if draw(st.booleans())}
    desk.atr = {symbol: draw(st.floats(0.1, 10)) for symbol in desk.signals}
    desk.overviews = {symbol: {"fundamentals": draw(rows_like(SOUND))} for symbol in symbols if draw(st.booleans())}
    desk.volatilities = {symbol: draw(rows_like(VOLATILITY)) for symbol in symbols if draw(st.booleans())}
    mover = {"symbol": "AA", "close": 1.0, "change": draw(FIGURES), "gap": None, "volumeRatio": None}
    desk.movers = {"up": [mover], "down": [mover]} if draw(st.booleans()) else desk.movers
    told = [{"symbol": draw(st.sampled_from(symbols)), "headline": text} for text in draw(st.lists(HEADLINES))]
    desk.headlines = draw(st.sampled_from([None, told]))
    held = [position(*one) for one in draw(st.lists(st.sampled_from(HELD), max_size=3, unique_by=lambda it: it[0]))]
    cash = draw(st.sampled_from([None, 0.0, 60.0, 1e5]))
    desk.portfolio = portfolio(cash, draw(st.sampled_from([cash, 1e6])), *held)
    desk.missing = draw(st.sampled_from([[], [{"symbol": "BB", "what": "split adjustment", "reason": "+110%"}]]))
    return desk


HELD = [("AA", 10), ("BB", 1), ("CC", -10), (CALL, 2), (PUT, -1), ("AA101218P00035000", None)]
MODES = st.sampled_from([(True, "both"), (False, "stocks-only"), (False, "both"), (False, "options-only")])


@pytest.mark.parametrize("role", [*LENS_ROLES, *VALIDATORS])
@settings(max_examples=examples(60), deadline=None)
@given(desk=desks(), mode=MODES, left_out=st.sets(st.sampled_from(sorted(Desk().tools())), max_size=3))
def test_every_answer_fits_its_schema_and_names_figures_of_its_tools_alone(
    role: str, desk: Desk, mode: tuple[bool, str], left_out: set[str]
) -> None:
    rules = {"stockOnly": mode[0], "optionsMode": mode[1]}
    asked = {"symbol": "AA", "symbols": ["AA", "BB"], "constraints": rules}
    played = play(role, asked, {name: tool for name, tool in desk.tools().items() if name not in left_out})
    assert unsupported(played.answer, played.outputs) == []
    assert "answer CONFIRMED" not in str(played.answer)
    if role in LENS_ROLES:
        found = played.answer["candidates"]
        assert {one["symbol"] for one in found} <= {"AA", "BB"}
        assert all(one["thesis"].startswith(PREFIX) for one in found)
        assert all(one["instrument"] == "equity" or mode == (False, one and mode[1]) for one in found)
    else:
        assert played.answer["summary"].startswith(f"{PREFIX} AA: ")


@pytest.mark.parametrize("role", ANALYSTS)
@settings(max_examples=examples(60), deadline=None)
@given(data=st.data())
def test_every_analyst_names_figures_of_its_tools_alone(role: str, data: st.DataObject) -> None:
    study = {**data.draw(rows_like(STUDY)), "trend": data.draw(st.none() | rows_like(STUDY["trend"]))}
    study |= {"extension": data.draw(st.none() | rows_like(STUDY["extension"])), "close": 50.0}
    study["support"] = data.draw(st.sampled_from([None, [], STUDY["support"]]))
    contracts = data.draw(st.lists(rows_like(CONTRACT), max_size=3))
    due = {"date": "2010-09-20", "daysUntil": data.draw(FIGURES)}
    short = {"symbol": "AA", "ofFloat": data.draw(FIGURES), "date": "2010-07-30"}
    answers: dict[str, Row | None] = {
        "chart_study_get": frame("studies", [study]),
        "chart_render": frame("charts", [{"symbol": "AA"}]),
        "option_chain_get": frame("contracts", contracts, available=True),
        "volatility_get": frame("volatilities", [data.draw(rows_like(VOLATILITY))]),
        "news_list": news(*data.draw(st.lists(HEADLINES, max_size=4))),
        "earnings_dates": frame("earnings", [{"symbol": "AA", "next": due}]),
        "short_interest": frame("shortInterest", [short]),
    }
    kept = {name: one if data.draw(st.booleans()) else None for name, one in answers.items()}
    strategy = data.draw(st.sampled_from(["csp", "covered_call", "equity"]))
    played = analysed(role, kept, strategy=strategy)
    assert unsupported(played.answer, played.outputs) == []
    assert "answer CONFIRMED" not in str(played.answer)


@settings(max_examples=examples(100), deadline=None)
@given(desk=desks(), mode=MODES, rated=st.lists(st.tuples(st.sampled_from(list(Rating)), st.booleans()), min_size=3))
def test_the_trader_stays_within_its_money_and_its_mode(
    desk: Desk, mode: tuple[bool, str], rated: list[tuple[Rating, bool]]
) -> None:
    verdicts = [
        verdict(symbol, rating, instrument="option" if option else "equity")
        for symbol, (rating, option) in zip(("AA", "BB", "CC"), rated, strict=False)
    ]
    actions = traded(desk, verdicts, constraints={"stockOnly": mode[0], "optionsMode": mode[1]})
    opened = [action for action in actions if action["action"] == "open"]
    bought = {row["symbol"] for row in verdicts if row["rating"] == "BUY" and row["instrument"] == "equity"}
    assert {action["symbol"] for action in opened} <= (set() if mode == (False, "options-only") else bought)
    assert sum(action["notional"] for action in opened) <= (desk.portfolio["cash"] or 0)
    assert all(action["notional"] <= 1e4 for action in opened)
    long = {row["symbol"]: row["quantity"] for row in desk.portfolio["positions"]}
    assert all(
        action["quantity"] <= long[action["symbol"]]
        for action in actions
        if action["side"] == "sell" and not action["contract"]
    )


def test_the_answers_on_real_prices_are_as_they_were(tmp_path: Path) -> None:
    """After a change of a rule: `python -m tests.agents.rulebook.golden`, and read the difference."""
    assert golden.written(golden.answers(golden.desk(tmp_path))) == golden.FILE.read_text()


EVERY_RULE = [
    *_RULES, *limits.OPTION_RULES.values(), limits.ATR_RULE, limits.ADVERSE_NEWS_RULE, limits.EXTENSION_RULE,
    limits.TREND_RULE, limits.PREMIUM_RULE, limits.SEVERE_NEWS_RULE, limits.SHORT_RULE, limits.EARNINGS_RULE,
]  # fmt: skip


def levels(rule: Rule) -> list[Level]:
    return [Level.CAUTION] if rule.reject is None else [Level.CAUTION, Level.REJECT]


def just_inside(rule: Rule, level: Level) -> float:
    """The mildest figure that is not of the level yet."""
    step = 1 if rule.unit in ("sessions", "count") else STEP
    return rule.threshold(level) + (-step if rule.above else step)


@pytest.mark.parametrize("rule", EVERY_RULE, ids=lambda rule: rule.key)
def test_a_threshold_itself_counts_as_reached(rule: Rule) -> None:
    for level in levels(rule):
        assert rule.level(rule.threshold(level)) is level
        assert rule.level(just_inside(rule, level)) is Level(level - 1)
        if rule.absolute:
            assert rule.level(-rule.threshold(level)) is level


@pytest.mark.parametrize("role", VALIDATORS)
def test_without_data_nothing_is_confirmed(role: str) -> None:
    """No rows, no tools, or tools that fail: a caution of low confidence that names the gap, never a neutral answer."""
    failing = {name: (lambda _asked: {"success": False, "error": "took too long"}) for name in Desk().tools()}
    for tools in (Desk().tools(), {}, failing):
        answer = play(role, {"symbol": "AA"}, tools).answer
        assert (answer["verdict"], answer["confidence"]) == ("CAUTION", "low")
        assert "no data to judge it by. Missing: " in answer["summary"]
        assert tools or "not offered" in answer["summary"]
        assert tools is not failing or "took too long" in answer["summary"]


def test_an_entry_has_the_size_and_the_stop_that_code_worked_out() -> None:
    desk = Desk()
    desk.signals, desk.portfolio = {"AA": CALM}, portfolio(1e5, 1e5)
    (row,) = traded(desk, [verdict("AA", "BUY", sizing=sized(3_048.78, stop=45.9))])
    assert (row["notional"], row["plan"]["stop"]) == (3_048.78, 45.9)
    assert "3048.78 is the bound by equal risk" in row["reasoning"]
    for most, action in ((50.0, "open"), (49.99, "watch"), (None, "watch")):
        (row,) = traded(desk, [verdict("AA", "BUY", sizing=sized(most))])
        assert row["action"] == action
    desk.portfolio = {**portfolio(1e5, 1e5), "currency": "EUR"}
    (row,) = traded(desk, [verdict("AA", "BUY", sizing={**sized(20.0), "currency": "JPY", "rate": 0.006, "lot": 100})])
    assert "EUR 20.00 by the bound by equal risk buys no lot of 100 at JPY 50" in row["reasoning"]


@pytest.mark.parametrize(
    ("symbol", "held", "action", "quantity"),
    [("AA", 7.0, "reduce", 3.0), ("AA", 1.0, "close", 1.0), ("BTC-USD", 0.5, "reduce", 0.25)],
)
def test_half_of_a_doubted_holding_goes_in_what_it_is_traded_by(
    symbol: str, held: float, action: str, quantity: float
) -> None:
    desk = Desk()
    desk.portfolio = portfolio(1e5, 1e5, position(symbol, held))
    (row,) = traded(desk, [verdict(symbol, "CAUTION")])
    assert (row["action"], row["quantity"]) == (action, quantity)


def test_the_catalyst_of_a_thesis_is_the_next_report() -> None:
    desk = Desk()
    desk.headlines = [{"symbol": "AA", "headline": "Sales rose"}]
    desk.overviews = {"AA": {"earnings": {"earningsDate": "2010-09-10"}}}
    found = play("catalyst", subject("AA", "equity"), desk.tools()).answer["thesis"]["catalysts"]
    assert found == [{"event": "next report", "day": "2010-09-10", "source": "kqz-e"}]
    desk.overviews = {}
    assert play("catalyst", subject("AA", "equity"), desk.tools()).answer["thesis"]["catalysts"] == []
