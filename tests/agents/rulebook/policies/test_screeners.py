"""The lenses: each bound takes a symbol out when its figure leaves it, and nothing is put forward without data."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from chordesk.agents.rulebook import thresholds as limits
from chordesk.agents.rulebook.thresholds import Bound
from chordesk.models.answers import ScreenOutput, output_schema
from chordesk.models.market import SymbolSignals
from chordesk.tools.market.yahoo.wire import section_of
from tests.agents.rulebook.market import CALM, SOUND, Desk
from tests.agents.rulebook.turns import Turn, ask, converse

STOCKS = {"stockOnly": True, "optionsMode": "stocks-only"}


def screen(http: httpx.Client, lens: str, desk: Desk, symbols: list[str], *tools: str, **constraints: Any) -> Turn:
    subject = {"lens": lens, "shard": 0, "symbols": symbols, "constraints": {**STOCKS, **constraints}}
    turn = converse(http, f"screener_{lens}", [ask(subject)], desk.tools(*tools), output_schema(ScreenOutput))
    for candidate in ScreenOutput.model_validate(turn.answer).candidates:
        assert candidate.thesis.startswith("Rule, not a model: ")
        assert candidate.symbol in symbols
    return turn


def named(turn: Turn) -> list[str]:
    return [row["symbol"] for row in turn.answer["candidates"]]


def sides(bounds: tuple[Bound, ...]) -> list[Any]:
    """Each closed side of each bound: the edge value, which holds, and one beyond it, which does not."""
    found = []
    for bound in bounds:
        for edge, beyond in ((bound.low, -0.001), (bound.high, 0.001)):
            if edge is not None:
                found.append(pytest.param(bound.field, edge, edge + beyond, id=f"{bound.field}-{edge}"))
    return found


@pytest.mark.parametrize(("field", "edge", "beyond"), sides(limits.TECHNICAL_BOUNDS))
def test_technical_bounds(http: httpx.Client, field: str, edge: float, beyond: float) -> None:
    desk = Desk()
    desk.signals = {"AA": CALM, "BB": {**CALM, field: edge}}
    assert sorted(named(screen(http, "technical", desk, ["AA", "BB"]))) == ["AA", "BB"]
    for value in (beyond, None):
        desk.signals["BB"] = {**CALM, field: value}
        assert named(screen(http, "technical", desk, ["AA", "BB"])) == ["AA"]


@pytest.mark.parametrize(("field", "edge", "beyond"), sides(limits.OPTIONS_BOUNDS))
def test_options_bounds(http: httpx.Client, field: str, edge: float, beyond: float) -> None:
    desk = Desk()
    desk.signals = {"AA": CALM, "BB": {**CALM, field: edge}}
    assert sorted(named(screen(http, "options", desk, ["AA", "BB"]))) == ["AA", "BB"]
    for value in (beyond, None):
        desk.signals["BB"] = {**CALM, field: value}
        assert named(screen(http, "options", desk, ["AA", "BB"])) == ["AA"]


@pytest.mark.parametrize(("field", "edge", "beyond"), sides(limits.FUNDAMENTAL_BOUNDS))
def test_fundamental_bounds(http: httpx.Client, field: str, edge: float, beyond: float) -> None:
    desk = Desk()
    desk.overviews = {"AA": {"fundamentals": SOUND}, "BB": {"ratings": {**SOUND, field: edge}}}
    assert sorted(named(screen(http, "fundamental", desk, ["AA", "BB"]))) == ["AA", "BB"]
    desk.overviews["BB"] = {"ratings": {**SOUND, field: beyond}}
    assert named(screen(http, "fundamental", desk, ["AA", "BB"])) == ["AA"]


@pytest.mark.parametrize("trigger", limits.CATALYST_TRIGGERS, ids=lambda bound: bound.field)
def test_each_catalyst_alone_puts_its_symbol_forward(http: httpx.Client, trigger: Bound) -> None:
    assert trigger.low is not None
    desk = Desk()
    desk.signals = {"AA": CALM, "BB": {**CALM, trigger.field: trigger.low - 0.001}}
    assert named(screen(http, "catalyst", desk, ["AA", "BB"])) == []
    desk.signals["BB"] = {**CALM, trigger.field: trigger.low}
    turn = screen(http, "catalyst", desk, ["AA", "BB"])
    assert named(turn) == ["BB"]
    assert turn.answer["candidates"][0]["confidence"] == "speculative"


def test_a_spike_on_a_falling_day_is_no_catalyst_to_buy(http: httpx.Client) -> None:
    desk = Desk()
    desk.signals = {"AA": {**CALM, "volumeRatio": 4.0, "change": -0.03}}
    assert named(screen(http, "catalyst", desk, ["AA"])) == []


def test_a_leading_gainer_weighs_more(http: httpx.Client) -> None:
    desk = Desk()
    desk.signals = {"AA": {**CALM, "change": 0.03}}
    desk.movers["up"] = [{"symbol": "AA", "close": 50.0, "change": 0.03, "gap": None, "volumeRatio": None}]
    turn = screen(http, "catalyst", desk, ["AA"])
    assert [name for name, _ in turn.calls] == ["signals_get", "sp500_movers"]
    assert turn.answer["candidates"][0]["confidence"] == "medium"


@pytest.mark.parametrize("lens", ["technical", "catalyst", "options", "unified"])
def test_a_split_like_move_keeps_a_symbol_out(http: httpx.Client, lens: str) -> None:
    desk = Desk()
    desk.signals = {"AA": {**CALM, "volumeRatio": 2.0}, "BB": {**CALM, "volumeRatio": 2.0}}
    desk.missing = [{"symbol": "BB", "what": "split adjustment", "reason": "close moved +110%"}]
    assert named(screen(http, lens, desk, ["AA", "BB"])) == ["AA"]


@pytest.mark.parametrize("lens", ["technical", "fundamental", "catalyst", "options", "unified"])
def test_no_data_no_candidates(http: httpx.Client, lens: str) -> None:
    for tools in ((), ("news_list",)):
        turn = screen(http, lens, Desk(), ["AA", "BB"], *tools)
        assert turn.answer == {"candidates": []}
    assert converse(http, f"screener_{lens}", [ask({"symbols": []})], {}).answer == {"candidates": []}


@pytest.mark.parametrize("lens", ["technical", "fundamental", "catalyst", "options", "unified"])
def test_a_shard_gives_at_most_six_and_only_its_own(http: httpx.Client, lens: str) -> None:
    desk = Desk()
    symbols = [f"S{number:03}" for number in range(131)]
    desk.signals = {
        symbol: {**CALM, "momentum20": 0.02 + place / 1000, "momentum60": 0.06 + place / 1000, "volumeRatio": 2.0}
        for place, symbol in enumerate(symbols)
    }
    desk.overviews = {symbol: {"fundamentals": SOUND} for symbol in symbols}
    desk.signals["ZZ"] = CALM
    turn = screen(http, lens, desk, symbols)
    assert len(named(turn)) == limits.HITS_PER_LENS == 6
    assert len(set(named(turn))) == 6
    assert len(turn.calls) <= 2
    if lens == "technical":
        assert named(turn) == symbols[:-7:-1]


def test_the_unified_screener_counts_the_views_that_hold(http: httpx.Client) -> None:
    """CALM holds for the technical and the options rules; a strong day adds the catalyst's, sound figures the last."""
    desk = Desk()
    desk.signals = {"AA": CALM, "BB": {**CALM, "change": 0.03}, "CC": {**CALM, "rsi14": 80.0}, "DD": CALM}
    desk.overviews = {"DD": {"fundamentals": SOUND}, "BB": {"fundamentals": SOUND}}
    turn = screen(http, "unified", desk, list(desk.signals))
    assert [name for name, _ in turn.calls] == ["signals_get", "symbol_overview"]
    assert turn.calls[1][1]["symbols"] == ["BB", "AA", "DD"]
    found = {row["symbol"]: row for row in turn.answer["candidates"]}
    assert list(found) == ["BB", "DD", "AA"]
    assert [row["confidence"] for row in found.values()] == ["high", "high", "medium"]
    assert "the views technical, catalyst, options, fundamental hold" in found["BB"]["thesis"]
    assert "price to earnings missing" in found["AA"]["thesis"]


def test_the_fundamental_lens_stops_asking_a_source_that_has_nothing(http: httpx.Client) -> None:
    symbols = [f"S{number:03}" for number in range(131)]
    assert len(screen(http, "fundamental", Desk(), symbols).calls) == 1
    desk = Desk()
    desk.overviews = {symbols[0]: {"fundamentals": SOUND}, symbols[60]: {"fundamentals": SOUND}}
    turn = screen(http, "fundamental", desk, symbols)
    assert named(turn) == [symbols[0], symbols[60]]
    assert [len(asked["symbols"]) for _, asked in turn.calls] == [limits.OVERVIEW_BATCH] * 2


def test_the_rules_read_the_names_that_the_tools_write() -> None:
    """Every figure a rule or bound names is one of a payload: a name that drifted would read as missing for ever."""
    info = {
        "trailingPE": 1.0,
        "profitMargins": 0.1,
        "revenueGrowth": 0.1,
        "debtToEquity": 1.0,
        "recommendationMean": 2.0,
    }
    sections = [section_of(info, section) or {} for section in ("fundamentals", "ratings")]
    company = {name for section in sections for name, value in section.items() if value is not None}
    rules = [rule.field for rule in limits.FUNDAMENTAL_RULES.values()]
    assert {*rules, *(bound.field for bound in limits.FUNDAMENTAL_BOUNDS)} <= company
    prices = {field.alias for field in SymbolSignals.model_fields.values()} | {"splitLike"}
    bounds = [*limits.TECHNICAL_BOUNDS, *limits.TECHNICAL_STRONG, *limits.CATALYST_TRIGGERS, *limits.OPTIONS_BOUNDS]
    assert {rule.field for rule in limits.SIGNAL_RULES.values()} <= prices
    assert {bound.field for bound in (*bounds, limits.CATALYST_CHANGE, limits.UNSPLIT)} <= prices


def test_one_known_figure_is_not_enough(http: httpx.Client) -> None:
    desk = Desk()
    desk.overviews = {"AA": {"fundamentals": {"trailingPE": 15.0}}}
    assert named(screen(http, "fundamental", desk, ["AA"])) == []


def test_realised_volatility_is_labelled_a_stand_in(http: httpx.Client) -> None:
    desk = Desk()
    desk.signals = {"AA": CALM}
    row = screen(http, "options", desk, ["AA"]).answer["candidates"][0]
    assert (row["instrument"], row["confidence"]) == ("equity", "speculative")
    assert "realised volatility 25.0% stands in for implied volatility, which is missing" in row["thesis"]


@pytest.mark.parametrize(("implied", "confidence"), [(0.30, "high"), (0.25, "high"), (0.21, "medium")])
def test_implied_volatility_is_used_where_it_is_known(http: httpx.Client, implied: float, confidence: str) -> None:
    desk = Desk()
    desk.signals = {"AA": CALM}
    desk.volatilities = {"AA": {"iv": implied, "hv20": 0.25}}
    turn = screen(http, "options", desk, ["AA"])
    row = turn.answer["candidates"][0]
    assert [name for name, _ in turn.calls] == ["signals_get", "volatility_get"]
    assert row["confidence"] == confidence
    assert f"implied volatility {implied:.1%} against realised 25.0%" in row["thesis"]


@pytest.mark.parametrize(
    ("constraints", "instrument"),
    [
        ({"stockOnly": True, "optionsMode": "both"}, "equity"),
        ({"stockOnly": False, "optionsMode": "stocks-only"}, "equity"),
        ({"stockOnly": False, "optionsMode": "both"}, "option"),
        ({"stockOnly": False, "optionsMode": "options-only"}, "option"),
    ],
)
def test_the_options_lens_keeps_to_the_constraints(
    http: httpx.Client, constraints: dict[str, Any], instrument: str
) -> None:
    desk = Desk()
    desk.signals = {"AA": CALM}
    turn = screen(http, "options", desk, ["AA"], **constraints)
    assert turn.answer["candidates"][0]["instrument"] == instrument
