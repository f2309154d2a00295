"""The trader's rules: what is opened, sold, held and watched, and how much."""

from __future__ import annotations

from typing import Any

import httpx
import jsonschema
import pytest
from pydantic import ValidationError

from chordesk.agents.rulebook import thresholds as limits
from chordesk.models.answers import Rating, TraderOutput, output_schema
from tests.agents.rulebook.market import CALM, Desk
from tests.agents.rulebook.turns import Turn, ask, converse

SCHEMA = output_schema(TraderOutput)
CALL, PUT = "AA101218C00060000", "AA101218P00040000"
LIMITS = {"maxOrderNotional": 10_000.0, "maxSymbolShare": 0.1, "cooldownHours": 24.0}


def verdict(symbol: str, rating: str, confidence: str = "high", instrument: str = "equity") -> dict[str, Any]:
    text = {"summary": "s", "keyRisks": [], "missing": []}
    return {"symbol": symbol, "instrument": instrument, "rating": rating, "confidence": confidence, **text}


def position(symbol: str, quantity: float) -> dict[str, Any]:
    return {"symbol": symbol, "quantity": quantity, "averageCost": 40.0, "marketPrice": 50.0}


def portfolio(cash: float | None, equity: float | None, *positions: dict[str, Any]) -> dict[str, Any]:
    return {"cash": cash, "equity": equity, "buyingPower": cash, "positions": list(positions)}


def trade(http: httpx.Client, desk: Desk, verdicts: list[dict[str, Any]], *tools: str, **changes: Any) -> Turn:
    subject = {
        "account": "paper",
        "verdicts": verdicts,
        "portfolio": desk.portfolio,
        "limits": LIMITS,
        "constraints": {"stockOnly": True, "optionsMode": "stocks-only"},
        **changes,
    }
    turn = converse(http, "trader", [ask(subject)], desk.tools(*tools), SCHEMA)
    jsonschema.Draft7Validator(SCHEMA).validate(turn.answer)
    output = TraderOutput.model_validate(turn.answer)
    assert all(
        text.startswith("Rule, not a model: ") for text in [output.reasoning, *(a.reasoning for a in output.actions)]
    )
    for action in output.actions:
        sized = sum(size is not None for size in (action.quantity, action.notional))
        assert sized == (0 if action.action in ("hold", "watch") else 1)
        assert (action.side is None) == (action.action in ("hold", "watch"))
    return turn


def actions(turn: Turn) -> dict[str, str]:
    return {row["symbol"]: row["action"] for row in turn.answer["actions"]}


def sized(turn: Turn) -> dict[str, float | None]:
    return {row["symbol"]: row["notional"] or row["quantity"] for row in turn.answer["actions"]}


def priced(*symbols: str) -> Desk:
    desk = Desk()
    desk.signals = dict.fromkeys(symbols, CALM)
    desk.portfolio = portfolio(100_000.0, 100_000.0)
    return desk


@pytest.mark.parametrize(
    ("rating", "held", "action"),
    [
        ("BUY", False, "open"),
        ("HOLD", False, "watch"),
        ("CAUTION", False, "watch"),
        ("PASS", False, None),
        ("INSUFFICIENT", False, None),
        ("BUY", True, "hold"),
        ("HOLD", True, "hold"),
        ("CAUTION", True, "reduce"),
        ("PASS", True, "close"),
        ("INSUFFICIENT", True, "hold"),
    ],
)
def test_each_verdict_has_its_action(http: httpx.Client, rating: str, held: bool, action: str | None) -> None:
    desk = priced("AA")
    desk.portfolio = portfolio(100_000.0, 100_500.0, *([position("AA", 10)] if held else []))
    assert actions(trade(http, desk, [verdict("AA", rating)])).get("AA") == action


HELD: dict[str, list[dict[str, Any]]] = {
    "nothing": [],
    "shares": [position("AA", 10)],
    "one share": [position("AA", 1)],
    "a short": [position("AA", -10)],
    "shares of which some are bound": [{**position("AA", 150), "boundByCalls": 100}, position(CALL, -1)],
    "shares that are bound": [{**position("AA", 100), "boundByCalls": 100}, position(CALL, -1)],
    "a bought call": [position(CALL, 2)],
    "a written put": [position(PUT, -1)],
    "a contract without a count": [{**position(PUT, 0), "quantity": None}],
}
MODES = [(True, "stocks-only"), (False, "both"), (False, "options-only")]


def test_every_action_fits_the_schema_with_all_its_order_terms(http: httpx.Client) -> None:
    """Every rating on every kind of holding, in every mode, with money and without: `trade` validates each answer."""
    kinds, sales = set(), set()
    for name, held in HELD.items():
        for stock_only, mode in MODES:
            for cash in (100_000.0, 60.0, 0.0, None):
                desk = priced(*(f"A{rating[:2]}" for rating in Rating), "AA")
                desk.portfolio = portfolio(cash, cash, *held)
                # One verdict on the holding, and a fresh name with each rating, as shares and as an option.
                for rating in Rating:
                    fresh = [verdict(f"A{other[:2]}", other, instrument="equity") for other in Rating]
                    option = verdict("AO", rating, instrument="option")
                    rules = {"stockOnly": stock_only, "optionsMode": mode}
                    turn = trade(http, desk, [verdict("AA", rating), *fresh, option], constraints=rules)
                    rows = turn.answer["actions"]
                    assert all(set(row) == set(SCHEMA["properties"]["actions"]["items"]["properties"]) for row in rows)
                    kinds |= {row["action"] for row in rows}
                    sales |= {(name, row["side"], row["contract"]) for row in rows if row["symbol"] == "AA"}
    assert kinds == {"open", "reduce", "close", "hold", "watch"}
    assert {("a bought call", "sell", CALL), ("a written put", "buy", PUT)} <= sales
    assert {("shares", "sell", None), ("shares of which some are bound", "buy", CALL)} <= sales


TERMS: list[tuple[dict[str, Any], bool]] = [
    ({"orderType": "stop", "stopPrice": 45.0, "timeInForce": "gtc"}, True),
    ({"orderType": "stop_limit", "stopPrice": 45.0, "limitPrice": 44.0, "timeInForce": "day"}, True),
    ({"orderType": "trailing_stop", "trailPercent": 5.0, "timeInForce": "gtc"}, True),
    ({"orderType": "market", "timeInForce": "opg"}, True),
    ({"orderType": "limit", "limitPrice": 1.2, "legs": [f"sell 1 {PUT}", "buy 1 AA101218P00035000"]}, True),
    ({"orderType": "limit", "limitPrice": 1.2, "contract": PUT, "timeInForce": "day"}, True),
    ({"orderType": "stop_loss"}, False),
    ({"timeInForce": "gtd"}, False),
    ({"legs": [{"contract": PUT}]}, False),
    ({"takeProfit": 60.0}, False),
]


@pytest.mark.parametrize(("terms", "fits"), TERMS)
def test_the_schema_takes_the_order_terms_and_no_others(http: httpx.Client, terms: dict[str, Any], fits: bool) -> None:
    turn = trade(http, priced("AA"), [verdict("AA", "BUY")])
    (action,) = turn.answer["actions"]
    answer = {**turn.answer, "actions": [{**action, **terms}]}
    wrong = list(jsonschema.Draft7Validator(SCHEMA).iter_errors(answer))
    assert (wrong == []) == fits, wrong
    if fits:
        (parsed,) = TraderOutput.model_validate(answer).actions
        sent = parsed.model_dump(mode="json", by_alias=True)
        assert {name: sent[name] for name in terms} == terms
    else:
        with pytest.raises(ValidationError):
            TraderOutput.model_validate(answer)


def test_changed_verdict_or_holding_changes_that_symbol_alone(http: httpx.Client) -> None:
    desk = priced("AA", "BB")
    before = actions(trade(http, desk, [verdict("AA", "BUY"), verdict("BB", "BUY")]))
    after = actions(trade(http, desk, [verdict("AA", "HOLD"), verdict("BB", "BUY")]))
    assert (before, after) == ({"AA": "open", "BB": "open"}, {"AA": "watch", "BB": "open"})


@pytest.mark.parametrize(("confidence", "share"), limits.SIZE_BY_CONFIDENCE.items())
def test_size_follows_confidence_below_both_limits(http: httpx.Client, confidence: str, share: float) -> None:
    desk = priced("AA")
    desk.portfolio = portfolio(100_000.0, 80_000.0)
    turn = trade(http, desk, [verdict("AA", "BUY", confidence)])
    assert sized(turn) == {"AA": pytest.approx(0.1 * 80_000 * limits.SHARE_MARGIN * share, abs=0.01)}
    desk.portfolio = portfolio(1_000_000.0, 1_000_000.0)
    turn = trade(http, desk, [verdict("AA", "BUY", confidence)])
    assert sized(turn) == {"AA": pytest.approx(10_000 * share, abs=0.01)}


def test_buying_power_runs_out_in_the_order_of_confidence(http: httpx.Client) -> None:
    desk = priced("AA", "BB", "CC")
    desk.portfolio = portfolio(10_100.0, 1_000_000.0)
    verdicts = [verdict("AA", "BUY", "low"), verdict("BB", "BUY", "high"), verdict("CC", "BUY", "high")]
    turn = trade(http, desk, verdicts)
    assert actions(turn) == {"BB": "open", "CC": "watch", "AA": "watch"}
    reasons = {row["symbol"]: row["reasoning"] for row in turn.answer["actions"]}
    assert "no cash is left" in reasons["CC"]
    assert "0.00" not in reasons["CC"]
    assert sized(turn)["BB"] == pytest.approx(10_100 * (1 - limits.CASH_RESERVE), abs=0.01)
    assert sum(row["notional"] or 0 for row in turn.answer["actions"]) <= 10_100


def test_equal_confidence_keeps_the_order_of_the_desk(http: httpx.Client) -> None:
    turn = trade(http, priced("AA", "BB"), [verdict("BB", "BUY"), verdict("AA", "BUY")])
    assert [row["symbol"] for row in turn.answer["actions"]] == ["BB", "AA"]


def test_less_than_one_share_is_not_opened(http: httpx.Client) -> None:
    desk = priced("AA")
    desk.signals = {"AA": {**CALM, "close": 9_800.0}}
    assert actions(trade(http, desk, [verdict("AA", "BUY")])) == {"AA": "open"}
    desk.signals = {"AA": {**CALM, "close": 9_800.01}}
    turn = trade(http, desk, [verdict("AA", "BUY")])
    assert actions(turn) == {"AA": "watch"}
    assert "buys no share" in turn.answer["actions"][0]["reasoning"]


@pytest.mark.parametrize(
    ("money", "bounds", "signals"),
    [
        (portfolio(None, 100_000.0), LIMITS, True),
        (portfolio(100_000.0, None), LIMITS, True),
        (portfolio(100_000.0, 100_000.0), {"maxSymbolShare": 0.1}, True),
        (portfolio(100_000.0, 100_000.0), {"maxOrderNotional": 1e4}, True),
        (portfolio(100_000.0, 100_000.0), LIMITS, False),
    ],
)
def test_an_unknown_figure_opens_nothing(
    http: httpx.Client, money: dict[str, Any], bounds: dict[str, Any], signals: bool
) -> None:
    desk = priced(*(["AA"] if signals else []))
    desk.portfolio = money
    turn = trade(http, desk, [verdict("AA", "BUY")], limits=bounds)
    assert actions(turn) == {"AA": "watch"}


@pytest.mark.parametrize(
    ("stock_only", "mode", "opened"),
    [
        (True, "both", {"equity"}),
        (False, "stocks-only", {"equity"}),
        (False, "both", {"equity"}),
        (False, "options-only", set()),
    ],
)
def test_only_instruments_that_may_be_traded_are_opened(
    http: httpx.Client, stock_only: bool, mode: str, opened: set[str]
) -> None:
    for instrument in ("equity", "option"):
        constraints = {"stockOnly": stock_only, "optionsMode": mode}
        turn = trade(http, priced("AA"), [verdict("AA", "BUY", instrument=instrument)], constraints=constraints)
        assert actions(turn) == {"AA": "open" if instrument in opened else "watch"}


@pytest.mark.parametrize(("quantity", "action", "sold"), [(10, "reduce", 5), (3, "reduce", 1), (1, "close", 1)])
def test_caution_sells_half_in_whole_shares(http: httpx.Client, quantity: int, action: str, sold: int) -> None:
    desk = priced()
    desk.portfolio = portfolio(0.0, 500.0, position("AA", quantity))
    row = trade(http, desk, [verdict("AA", "CAUTION")]).answer["actions"][0]
    assert (row["action"], row["side"], row["quantity"]) == (action, "sell", sold)


def test_pass_sells_all(http: httpx.Client) -> None:
    desk = priced()
    desk.portfolio = portfolio(0.0, 500.0, position("AA", 7.5))
    row = trade(http, desk, [verdict("AA", "PASS")]).answer["actions"][0]
    assert (row["action"], row["quantity"]) == ("close", 7.5)


def test_a_short_holding_is_left_alone(http: httpx.Client) -> None:
    desk = priced()
    desk.portfolio = portfolio(0.0, 500.0, position("AA", -7))
    assert actions(trade(http, desk, [verdict("AA", "PASS")])) == {"AA": "hold"}


def test_a_written_call_is_bought_back_before_its_shares_are_sold(http: httpx.Client) -> None:
    desk = priced()
    shares = {**position("AA", 150), "boundByCalls": 100.0}
    desk.portfolio = portfolio(0.0, 500.0, shares, position("AA101016C00060000", -1))
    turn = trade(http, desk, [verdict("AA", "PASS")])
    found = {
        row["contract"]: (row["symbol"], row["action"], row["side"], row["quantity"]) for row in turn.answer["actions"]
    }
    assert found == {None: ("AA", "close", "sell", 50), "AA101016C00060000": ("AA", "close", "buy", 1)}
    desk.portfolio = portfolio(0.0, 500.0, {**shares, "quantity": 100}, position("AA101016C00060000", -1))
    kept = trade(http, desk, [verdict("AA", "PASS")]).answer["actions"][0]
    assert (kept["action"], "cover written calls" in kept["reasoning"]) == ("hold", True)


def test_a_holding_without_verdict_is_held(http: httpx.Client) -> None:
    desk = priced()
    desk.portfolio = portfolio(0.0, 500.0, position("AA", 7))
    assert actions(trade(http, desk, [])) == {"AA": "hold"}


def test_the_tool_knows_better_than_the_subject(http: httpx.Client) -> None:
    """The portfolio may have changed since the subject was written; without the tool the subject is all there is."""
    desk = priced("AA")
    desk.portfolio = portfolio(0.0, 500.0, position("AA", 7))
    stale = portfolio(100_000.0, 100_000.0)
    assert actions(trade(http, desk, [verdict("AA", "PASS")], portfolio=stale)) == {"AA": "close"}
    assert actions(trade(http, desk, [verdict("AA", "PASS")], "signals_get", portfolio=stale)) == {}


def test_prices_are_asked_for_buys_alone(http: httpx.Client) -> None:
    desk = priced("AA")
    turn = trade(http, desk, [verdict("AA", "BUY"), verdict("BB", "HOLD")])
    assert turn.calls == [("portfolio_get", {}), ("signals_get", {"symbols": ["AA"]})]
    assert [name for name, _ in trade(http, desk, [verdict("BB", "HOLD")]).calls] == ["portfolio_get"]


def test_nothing_to_do_is_reported(http: httpx.Client) -> None:
    turn = trade(http, priced(), [])
    assert turn.answer["actions"] == []
    assert "no verdict lead to no action" in turn.answer["reasoning"]
