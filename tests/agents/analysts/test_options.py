"""An options answer: the figures of the contract that it names, and every contract that it may not name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from chordesk.agents.analysts import NEEDED, complete_options, has_chain
from chordesk.agents.turn_answers import AnswerError, RecordedCall
from chordesk.models.analysis import OptionsAnalysis, OptionsOutput
from tests.agents.analysts.kit import altered, recorded, subject
from tests.tools.options.chains import fair_chain, known_bars, market, row

PUT, NEXT, CALL = "MSFT240405P00335000", "MSFT240405P00330000", "MSFT240405C00380000"
LIMITS = {"min_weekly_roc": 0.003}
MSFT = [
    row(PUT, 3.85, 3.95, volume=60.0, open_interest=700.0),
    row(NEXT, 3.0, 3.1),
    row(CALL, 3.8, 3.9),
    row("MSFT240405P00325000", None, None),
    row("MSFT240405P00355000", 11.1, 11.3),
    row("MSFT240405C00355000", 13.1, 13.3),
]
FAR = market(
    {"MSFT": MSFT, "AAA": fair_chain()}, spots={"MSFT": 356.77, "AAA": 100.0}, histories={"MSFT": known_bars("MSFT")},
    dividend_yield=0.009,
)  # fmt: skip
WIDE = {"dteMin": 0, "dteMax": 400, "deltaMin": 0.0, "deltaMax": 1.0}
CHAIN = ("option_chain_get", {"symbols": ["MSFT", "AAA"], "limit": 50, **WIDE})
CALLS = ("option_chain_get", {"symbols": ["MSFT"], "kind": "call", **WIDE})
UNQUOTED = ("option_greeks_get", {"contracts": ["MSFT240405P00325000"]})
VOLATILITY = ("volatility_get", {"symbols": ["MSFT"]})


def answer(**changes: Any) -> dict[str, Any]:
    found = {
        "recommendation": "select", "confidence": "medium", "contract": PUT, "alternatives": [], "summary": "It pays.",
        "premiumQuality": "fair", "keyRisks": [],
    }  # fmt: skip
    return OptionsOutput.model_validate({**found, **changes}).model_dump(mode="json")


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory) -> list[RecordedCall]:
    home = Path(tmp_path_factory.mktemp("home"))
    return recorded(FAR, home, "options", CHAIN, CALLS, UNQUOTED, VOLATILITY)


def test_the_contract_has_the_figures_of_the_chain(calls: list[RecordedCall]) -> None:
    """Golden values of the put at 335, 21 days before its expiry."""
    found = complete_options(answer(alternatives=[NEXT]), subject("MSFT", **LIMITS), calls)
    assert OptionsAnalysis.model_validate(found).model_dump(mode="json") == found
    of_symbol = [found.pop(name) for name in ("iv_hv_ratio", "put_skew", "term_slope", "iv_rank")]
    others = found.pop("alternative_strikes")
    del found["thesis"]
    assert found == {
        "recommendation": "select", "verdict": "CONFIRMED", "confidence": "medium", "summary": "It pays.",
        "key_risks": [], "symbol": "MSFT", "strategy": "csp", "contract": PUT, "best_strike": 335.0,
        "best_expiration": "2024-04-05", "dte": 21, "premium": 3.9, "bid": 3.85, "ask": 3.95, "roc": 0.01164,
        "weekly_roc": 0.00388, "annualized_roc": 0.2023, "delta": -0.2136, "gamma": 0.00946, "theta": -0.2063,
        "vega": 0.249, "iv": 0.3596, "break_even": 331.1, "pop": 0.8004, "liquidity_score": "good", "source": "far",
        "greeks": "computed", "premium_quality": "fair",
    }  # fmt: skip
    (volatility,) = calls[-1].answer.payload["volatilities"]
    assert of_symbol == [volatility[name] for name in ("ivHvRatio", "putSkew", "termSlope", "ivRank")]
    assert [(one["contract"], one["strike"], one["premium"]) for one in others] == [(NEXT, 330.0, 3.05)]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"contract": None}, "contract: null with the recommendation select: name the contract to write, or reject"),
        ({"contract": "MSFT 335P"}, "contract: 'MSFT 335P' is no OCC symbol, such as"),
        ({"contract": "MSFT240405P00332500"}, "no option answer of this turn has MSFT240405P00332500"),
        ({"contract": "AAA240419P00090000"}, "AAA240419P00090000 is on AAA, and the subject is MSFT"),
        ({"contract": CALL}, f"{CALL} is a call; csp writes a put"),
        ({"contract": "MSFT240301P00335000"}, "MSFT240301P00335000 expired on 2024-03-01; today is 2024-03-15"),
        ({"contract": "MSFT240405P00325000"}, "MSFT240405P00325000 has no bid, ask, mid, delta, rocWeekly, breakEven"),
        ({"alternatives": ["MSFT240405P00332500"]}, "no option answer of this turn has MSFT240405P00332500"),
    ],
)
def test_a_contract_that_cannot_be_written_is_refused(
    calls: list[RecordedCall], changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(AnswerError, match=message):
        complete_options(answer(**changes), subject("MSFT", **LIMITS), calls)


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"max_delta": 0.2}, r"\|delta\| of MSFT240405P00335000 is 0.2136, and maxDelta is 0.2$"),
        ({"min_weekly_roc": 0.004}, "rocWeekly of MSFT240405P00335000 is 0.00388, and minWeeklyRoc is 0.004$"),
        ({"min_days": 30}, "dte of MSFT240405P00335000 is 21, and dteMin is 30$"),
        ({"max_days": 20}, "dte of MSFT240405P00335000 is 21, and dteMax is 20$"),
    ],
)
def test_a_contract_outside_a_limit_is_refused(calls: list[RecordedCall], limits: Any, message: str) -> None:
    with pytest.raises(AnswerError, match=message):
        complete_options(answer(), subject("MSFT", **{**LIMITS, **limits}), calls)


def test_limits_hold_at_their_boundary(calls: list[RecordedCall]) -> None:
    exact = subject("MSFT", max_delta=0.2136, min_weekly_roc=0.00388, min_days=21, max_days=21)
    assert complete_options(answer(), exact, calls)["contract"] == PUT


def test_a_covered_call_writes_a_call(calls: list[RecordedCall]) -> None:
    asked = subject("MSFT", "covered_call", **LIMITS)
    assert complete_options(answer(contract=CALL.lower()), asked, calls)["best_strike"] == 380.0
    with pytest.raises(AnswerError, match=f"{PUT} is a put; covered_call writes a call"):
        complete_options(answer(), asked, calls)


def test_shares_alone_have_no_contract(calls: list[RecordedCall]) -> None:
    asked = subject("MSFT", "equity")
    found = complete_options(answer(contract=None), asked, calls)
    assert (found["verdict"], found["contract"], found["premium"]) == ("CONFIRMED", None, None)
    assert found["iv_hv_ratio"] is not None
    with pytest.raises(AnswerError, match="the strategy equity writes none: answer null"):
        complete_options(answer(), asked, calls)


def test_a_rejection_has_no_contract_whatever_it_names(calls: list[RecordedCall]) -> None:
    for named in (PUT, "MSFT240405P00332500", None):
        found = complete_options(answer(recommendation="reject", contract=named), subject("MSFT"), calls)
        assert (found["verdict"], found["contract"], found["best_strike"]) == ("REJECT", None, None)
        assert found["alternative_strikes"] == []


@pytest.mark.parametrize("field", NEEDED)
def test_a_contract_without_a_figure_that_a_choice_needs_is_refused(calls: list[RecordedCall], field: str) -> None:
    with pytest.raises(AnswerError, match=f"{PUT} has no {field}"):
        complete_options(answer(), subject("MSFT", **LIMITS), altered(calls, blank(field)))


def blank(field: str) -> Any:
    def change(payload: dict[str, Any]) -> None:
        for one in payload.get("contracts", ()):
            one[field] = None

    return change


def test_a_turn_without_a_chain_has_nothing_to_judge_by(calls: list[RecordedCall], tmp_path: Path) -> None:
    assert has_chain(subject("MSFT"), calls)
    assert not has_chain(subject("IBM"), calls)
    none = recorded(FAR, tmp_path, "options", ("option_chain_get", {"symbols": ["NOPE"]}))
    assert not has_chain(subject("NOPE"), none)
    found = complete_options(answer(recommendation="reject", contract=None), subject("NOPE"), none)
    assert found["iv_hv_ratio"] is None
    with pytest.raises(AnswerError, match="no option answer of this turn has"):
        complete_options(answer(), subject("MSFT", **LIMITS), none)
