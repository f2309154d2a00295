"""option_chain_get and option_greeks_get: windows, figures, gaps, and chains with rows that cannot be used."""

from __future__ import annotations

from typing import Any

import pytest

from chordesk.models.errors import MarketUnavailable
from chordesk.models.market import Greeks
from chordesk.tools.options.option_contracts import liquidity_of, mid_of
from tests.tools.conftest import Call, MakeContext, reasons, symbol_reasons
from tests.tools.market.far_market import FarMarket
from tests.tools.options.chains import APRIL, MAY, fair_chain, market, row

WIDE = {"dteMin": 0, "dteMax": 400, "deltaMin": 0.0, "deltaMax": 1.0, "limit": 100}
PUT, NEAR_PUT, CALL = "AAA240419P00090000", "AAA240419P00095000", "AAA240419C00105000"
OWN = Greeks(-0.2, 0.01, -0.05, 0.1, -0.02)


def test_each_row_has_its_figures(call: Call) -> None:
    quoted = row("MSFT240405P00335000", 3.85, 3.95, volume=60.0, open_interest=700.0)
    msft = market({"MSFT": [quoted]}, spots={"MSFT": 356.77}, dividend_yield=0.009)
    answer = call(msft, "option_chain_get", symbols=["msft"])
    (found,) = answer.payload["contracts"]
    assert found == {
        "contract": "MSFT240405P00335000", "kind": "put", "expiry": "2024-04-05", "dte": 21, "strike": 335.0,
        "bid": 3.85, "ask": 3.95, "mid": 3.9, "spread": 0.0256, "volume": 60.0, "openInterest": 700.0, "iv": 0.3596,
        "delta": -0.2136, "gamma": 0.00946, "theta": -0.2063, "vega": 0.249, "roc": 0.01164, "rocWeekly": 0.00388,
        "rocAnnual": 0.2023, "breakEven": 331.1, "pop": 0.8004, "liquidity": "good", "source": "far",
        "greeks": "computed",
    }  # fmt: skip
    (chain,) = answer.payload["chains"]
    assert chain["model"] == "Black-Scholes-Merton, European"
    assert (chain["spot"], chain["rate"], chain["dividendYield"]) == (356.77, 0.04, 0.009)
    assert answer.payload["missing"] == []


def test_the_windows_choose(make_context: MakeContext, call: Call) -> None:
    context = make_context(market({"AAA": fair_chain(expiries=(APRIL, MAY))}))

    def strikes(**wish: Any) -> list[tuple[str, float]]:
        answer = call(context, "option_chain_get", symbols=["AAA"], **{"limit": 100, **wish})
        return [(found["expiry"], found["strike"]) for found in answer.payload["contracts"]]

    default = strikes()
    assert {expiry for expiry, _ in default} == {"2024-04-19"}  # 63 days are more than 45
    assert {strike for _, strike in default} == {90.0, 95.0}
    assert set(strikes(deltaMin=0.0, deltaMax=1.0)) > set(default)
    assert {expiry for expiry, _ in strikes(dteMin=60, dteMax=70)} == {"2024-05-17"}
    assert strikes(minWeeklyRoc=0.0025) == [("2024-04-19", 95.0)]
    assert strikes(maxWeeklyRoc=0.0025) == [("2024-04-19", 90.0)]
    assert strikes(maxSpread=0.01) == strikes(minOpenInterest=1001) == []
    assert {strike for _, strike in strikes(kind="call")} == {105.0, 110.0}


def test_the_best_come_first_and_the_rest_is_counted(call: Call) -> None:
    near = call(market(), "option_chain_get", symbols=["AAA"], near=[96.0, 88.0], **WIDE).payload["contracts"]
    assert [(one["strike"], one["level"], one["fromLevel"]) for one in near] == [
        (95.0, 96.0, -0.0104), (90.0, 88.0, 0.0227),
    ]  # fmt: skip
    both = market({"AAA": fair_chain(expiries=(APRIL, MAY))})
    answer = call(both, "option_chain_get", symbols=["AAA"], **{**WIDE, "limit": 4})
    weekly = [found["rocWeekly"] for found in answer.payload["contracts"]]
    assert weekly == sorted(weekly, reverse=True)
    assert len(weekly) == 4
    assert reasons(answer)["rows"].endswith("contracts fit, 4 are shown")


def test_unusable_rows_are_named_and_never_priced(call: Call) -> None:
    odd = [
        row(PUT, 1.0, 1.1),
        row("AAA240419P00091000", 1.3, 1.2),  # crossed
        row("AAA240419P00092000", 0.0, 1.2),  # no bid
        row("AAA240419P00093000", None, None),  # no quote
        row("AAA240419P00094000", -1.0, 1.2),
        row("AAA240419P00120000", 17.0, 17.1),  # 3 below its intrinsic value
        row("AAA240419P00121000", 21.0, 21.02),  # hardly any time value
        row("AAA240315P00080000", 1.0, 1.1),  # expires today
        row("AAA240314P00080000", 1.0, 1.1),  # expired
        row("AAA240419P00095000", 1.0, 1.1),
        row("AAA240419P00095000", 2.0, 2.1),  # the same contract at another price
        row("AAA240419P00096000", 1.5, 1.6),
        row("AAA240419P00096000", 1.5, 1.6),  # and one that is listed twice alike
        row("BBB240419P00090000", 1.0, 1.1),
    ]
    far = market({"AAA": odd}, unread=("AAA1240419P00090000",))
    answer = call(far, "option_chain_get", symbols=["AAA"], **WIDE)
    assert {found["contract"] for found in answer.payload["contracts"]} == {PUT, "AAA240419P00096000"}
    assert reasons(answer) == {
        "contracts not read": "1 rows no OCC symbols on it: AAA1240419P00090000",
        "contracts of another share": "1 rows listed on another share: BBB240419P00090000",
        "expired contracts": "1 rows expired before 2024-03-15: AAA240314P00080000",
        "duplicate contracts": (
            "1 rows listed more than once with differing quotes, none of which is taken: AAA240419P00095000"
        ),
        "contracts left out": (
            "7 puts: 1 a crossed quote, its bid above its ask, 1 no bid, 1 no quote, 1 a negative quote, "
            "1 a price below the intrinsic value, 1 its time value is under a tick, 1 it expires today"
        ),
    }


def test_named_contracts_have_their_figures(make_context: MakeContext, call: Call) -> None:
    context = make_context(market(), risk_free_rate=0.0)
    answer = call(context, "option_greeks_get", contracts=[NEAR_PUT.lower(), CALL, NEAR_PUT])
    first, second = answer.payload["contracts"]
    assert (first["contract"], second["contract"]) == (NEAR_PUT, CALL)
    assert -0.5 < first["delta"] < 0 < second["delta"] < 0.5
    assert first["greeks"] == second["greeks"] == "computed"
    assert first["iv"] == pytest.approx(0.3, abs=0.001)
    (chain,) = answer.payload["chains"]
    assert (chain["symbol"], chain["rate"]) == ("AAA", 0.0)
    names = [row.contract.symbol for row in fair_chain()]
    assert len(call(context, "option_greeks_get", contracts=names).payload["contracts"]) == len(names) == 26


def test_a_contract_outside_a_chain_is_named_beside_those_it_lists(call: Call) -> None:
    wanted = [
        "AAA240419P00096500",  # between two strikes
        "AAA240426P00095000",  # on no expiry
        "AAA240301P00095000",  # expired
        "BBB240419P00095000",
        "DDD240419P00095000",
    ]
    answer = call(market(trouble={"DDD": MarketUnavailable("far is down")}), "option_greeks_get", contracts=wanted)
    assert not answer.has_data
    near = "the chain of AAA lists no put at 96.5 on 2024-04-19; the nearest strikes are 90, 95, 100"
    assert symbol_reasons(answer) == {
        "AAA240419P00096500": near,
        "AAA240426P00095000": "the chain of AAA lists no contract that expires on 2024-04-26",
        "AAA240301P00095000": "expired on 2024-03-01",
        "BBB": "the far market has no options of BBB",
        "DDD": "far is down",
    }


@pytest.mark.parametrize(
    ("tool", "wish", "error"),
    [
        ("option_chain_get", {"dteMin": 50}, "dteMin 50 is above dteMax 45"),
        ("option_chain_get", {"deltaMin": 0.5}, "deltaMin 0.5 is above deltaMax 0.35"),
        ("option_chain_get", {"near": [0.0]}, "argument 'near.0' is 0.0"),
        ("option_chain_get", {"kind": "straddle"}, "argument 'kind' is 'straddle': Input should be 'put' or 'call'"),
        ("option_chain_get", {"bars": [1, 2]}, "unknown argument 'bars'"),
        ("option_chain_get", {"limit": 101}, "argument 'limit' is 101"),
        ("option_greeks_get", {"contracts": ["AAPL"]}, "argument 'contracts.0' is 'AAPL': a contract is an OCC symbol"),
    ],
)
def test_wrong_wishes_are_explained(call: Call, tool: str, wish: dict[str, Any], error: str) -> None:
    answer = call(FarMarket(), tool, **({"symbols": ["AAA"]} if tool == "option_chain_get" else {}), **wish)
    assert not answer.success
    assert error in answer.payload["error"]


@pytest.mark.parametrize(
    ("bid", "ask", "figures", "grade"),
    [
        (2.0, 2.1, {}, "good"),
        (1.0, 1.05, {}, "good"),  # 4.9 % of mid
        (0.20, 0.25, {}, "good"),  # wide as a share, a nickel in money
        (0.20, 0.30, {}, "fair"),
        (2.0, 2.2, {}, "fair"),
        (2.0, 2.3, {}, "poor"),
        (2.0, 2.1, {"volume": 49.0}, "fair"),
        (2.0, 2.1, {"volume": None}, "unknown"),
        (2.0, 2.1, {"open_interest": 499.0}, "fair"),
        (2.0, 2.1, {"open_interest": 99.0}, "poor"),
        (2.0, 2.1, {"open_interest": None}, "unknown"),
        (2.0, 2.3, {"open_interest": None}, "poor"),
        (0.0, 0.05, {}, "poor"),
        (2.2, 2.1, {}, "poor"),
        (None, None, {}, "unknown"),
    ],
)
def test_the_grade_of_a_contract_s_liquidity(
    bid: float | None, ask: float | None, figures: dict[str, Any], grade: str
) -> None:
    quoted = row(NEAR_PUT, bid, ask, **figures)
    assert liquidity_of(quoted, mid_of(quoted)[0]) == grade
