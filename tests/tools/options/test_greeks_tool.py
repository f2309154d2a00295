"""option_greeks_get: named contracts, and names that no chain lists."""

from __future__ import annotations

import pytest

from chordesk.models.contracts import Greeks
from chordesk.models.errors import MarketUnavailable
from chordesk.tools.market.replay.market import ReplayMarket
from tests.tools.conftest import Call, MakeContext
from tests.tools.options.chains import fair_chain, market, row

PUT, CALL = "AAA240419P00095000", "AAA240419C00105000"


def test_named_contracts_have_their_figures(make_context: MakeContext, call: Call) -> None:
    answer = call(make_context(market(), risk_free_rate=0.0), "option_greeks_get", contracts=[PUT.lower(), CALL, PUT])
    first, second = answer.payload["contracts"]
    assert (first["contract"], second["contract"]) == (PUT, CALL)
    assert -0.5 < first["delta"] < 0 < second["delta"] < 0.5
    assert first["greeks"] == second["greeks"] == "computed"
    assert first["iv"] == pytest.approx(0.3, abs=0.001)
    (chain,) = answer.payload["chains"]
    assert (chain["symbol"], chain["model"], chain["rate"]) == ("AAA", "Black-Scholes-Merton, European", 0.0)


def test_a_market_s_own_greeks_are_labelled(make_context: MakeContext, call: Call) -> None:
    own = Greeks(-0.2, 0.01, -0.05, 0.1, -0.02)
    context = make_context(market({"AAA": [row(PUT, 1.0, 1.1, iv=0.4, greeks=own)]}))
    (found,) = call(context, "option_greeks_get", contracts=[PUT]).payload["contracts"]
    assert (found["greeks"], found["iv"], found["theta"]) == ("market", 0.4, -0.05)


def test_a_contract_outside_a_chain_is_named_beside_those_it_lists(make_context: MakeContext, call: Call) -> None:
    context = make_context(market(trouble={"DDD": MarketUnavailable("far is down")}))
    wanted = [
        "AAA240419P00096500",  # between two strikes
        "AAA240426P00095000",  # on no expiry
        "AAA240301P00095000",  # expired
        "BBB240419P00095000",
        "DDD240419P00095000",
    ]
    answer = call(context, "option_greeks_get", contracts=wanted)
    assert not answer.has_data
    assert {gap["symbol"]: gap["reason"] for gap in answer.payload["missing"]} == {
        "AAA240419P00096500": (
            "the chain of AAA lists no put at 96.5 on 2024-04-19; the nearest strikes are 90, 95, 100"
        ),
        "AAA240426P00095000": "the chain of AAA lists no contract that expires on 2024-04-26",
        "AAA240301P00095000": "expired on 2024-03-01",
        "BBB": "the far market has no options of BBB",
        "DDD": "far is down",
    }


@pytest.mark.parametrize(
    ("quote", "problem"),
    [
        ((1.2, 1.1), "a crossed quote, its bid above its ask"),
        ((0.0, 1.1), "no bid"),
        ((None, None), "no quote"),
        ((0.001, 0.002), "its time value is under a tick"),
        ((94.99, 95.05), "its price 95.02 is more than any volatility gives"),
    ],
)
def test_a_contract_without_greeks_has_the_reason(
    make_context: MakeContext, call: Call, quote: tuple[float | None, float | None], problem: str
) -> None:
    context = make_context(market({"AAA": [row(PUT, *quote)]}))
    (found,) = call(context, "option_greeks_get", contracts=[PUT]).payload["contracts"]
    assert (found["iv"], found["delta"], found["pop"], found["problem"]) == (None, None, None, problem)


def test_a_contract_that_expires_today_has_no_greeks(make_context: MakeContext, call: Call) -> None:
    today = "AAA240315P00105000"
    context = make_context(market({"AAA": [row(today, 5.1, 5.3)]}))
    (found,) = call(context, "option_greeks_get", contracts=[today]).payload["contracts"]
    assert (found["dte"], found["mid"], found["roc"], found["problem"]) == (0, 5.2, None, "it expires today")


def test_a_name_that_is_no_contract_is_refused(call: Call) -> None:
    answer = call(market(), "option_greeks_get", contracts=["AAPL"])
    assert not answer.success
    assert "argument 'contracts.0' is 'AAPL': a contract is an OCC symbol" in answer.payload["error"]


def test_a_market_without_chains_is_one_gap(call: Call, market: ReplayMarket) -> None:
    answer = call(market, "option_greeks_get", contracts=["AAPL100917P00240000", "MSFT100917P00024000"])
    assert not answer.has_data
    assert [gap["what"] for gap in answer.payload["missing"]] == ["option chain"]


def test_an_answer_of_fifty_contracts_fits(call: Call) -> None:
    names = [row.contract.symbol for row in fair_chain()]
    answer = call(market(), "option_greeks_get", contracts=names)
    assert len(answer.payload["contracts"]) == len(names) == 26
