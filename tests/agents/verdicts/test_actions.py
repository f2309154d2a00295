"""A trader's actions as they count: what a verdict, a report or a figure supports, and what becomes no order."""

from __future__ import annotations

from typing import Any

import pytest

from chordesk.agents.verdicts.research_verdict import BAND, ground_decision, kept_because, note, supported_actions
from chordesk.models.answers import TraderAction
from chordesk.models.thesis import Pooled

HELD = {"symbol": "IBM", "quantity": 15.0, "averageCost": 128.1, "marketPrice": 127.87, "share": 0.0192}
SUBJECT: dict[str, Any] = {
    "portfolio": {"cash": 98_000.0, "equity": 100_000.0, "positions": [HELD]},
    "limits": {"maxOrderNotional": 10_000.0},
    "constraints": {},
    # Other models' words are no source.
    "verdicts": [{"symbol": "IBM", "summary": "It fell 37.7 % to 79.66."}],
}


def action(kind: str, reasoning: str, symbol: str = "IBM", **changes: Any) -> dict[str, Any]:
    made = TraderAction.model_validate(
        {
            "symbol": symbol, "action": kind, "side": "sell" if kind in ("close", "reduce") else "buy", "quantity": 15,
            "notional": None, "orderType": "market", "limitPrice": None, "confidence": "high", "reasoning": reasoning,
        }
    )  # fmt: skip
    return {**made.model_dump(mode="json"), **changes}


def counted(
    *actions: dict[str, Any], ratings: dict[str, str] | None = None, against: tuple[str, ...] = (), whole: str = "Well."
) -> list[dict[str, Any]]:
    found = ground_decision({"actions": actions, "reasoning": whole}, [], SUBJECT)
    return supported_actions(actions, ratings or {}, against, {"IBM"}, found)


@pytest.mark.parametrize("kind", ["open", "add"])
@pytest.mark.parametrize(
    ("rating", "passes"),
    [("BUY", True), ("HOLD", False), ("CAUTION", False), ("PASS", True), ("INSUFFICIENT", True), (None, True)],
)
def test_a_model_takes_exposure_on_on_a_buy(kind: str, rating: str | None, passes: bool) -> None:
    """What the risk rules deny, with a code of their own, is left to them."""
    asked = action(kind, "It is good.", "GE")
    (found,) = counted(asked, ratings={"GE": rating} if rating else {})
    if passes:
        assert found == asked
        return
    assert (found["action"], found["side"], found["quantity"], found["order_type"]) == ("watch", None, None, None)
    assert found["reasoning"] == f"It is good. ({kind} was asked for; a verdict of {rating} supports none.)"
    assert TraderAction.model_validate(found)
    (held,) = counted(action(kind, "It is good."), ratings={"IBM": str(rating)})
    assert held["action"] == "hold"


def test_a_buy_is_no_reason_to_sell_short() -> None:
    short, put = action("open", "It is good.", "GE", side="sell"), "GE101218P00015000"
    (found,) = counted(short, ratings={"GE": "BUY"})
    assert (found["action"], found["side"]) == ("watch", None)
    (written,) = counted({**short, "contract": put}, ratings={"GE": "BUY"})
    assert (written["action"], written["contract"]) == ("open", put)


@pytest.mark.parametrize(
    ("reasoning", "passes"),
    [
        ("All 15 shares are to go.", True),
        ("At 127.87 it is below its cost of 128.10.", True),
        ("I do not like it.", False),
        ("It fell 37.7 % to 79.66.", False),
        ("Of its 15 shares, 37.7 % lost 79.66 or 12.12.", False),
    ],
)
@pytest.mark.parametrize("kind", ["close", "reduce"])
def test_what_is_held_is_given_back_for_a_figure_of_the_account(kind: str, reasoning: str, passes: bool) -> None:
    (found,) = counted(action(kind, reasoning))
    assert found["action"] == (kind if passes else "hold")
    if not passes:
        assert f"({kind} was asked for; no report with figures speaks against it" in found["reasoning"]


def test_or_for_a_report_that_speaks_against_it() -> None:
    (found,) = counted(action("close", "I do not like it."), against=("IBM",))
    assert found["action"] == "close"


def test_an_exit_of_what_is_not_held_is_left_to_the_risk_rules() -> None:
    (found,) = counted(action("close", "I do not like it.", "GE"))
    assert found["action"] == "close"


def test_figures_of_the_order_itself_are_not_made_up_and_no_reason_for_it() -> None:
    asked = action("close", "Sell 7 of them.", quantity=7.0)
    found = ground_decision({"actions": [asked], "reasoning": "Sold."}, [], SUBJECT)
    assert (found.figures, found.share) == (0, None)
    assert supported_actions([asked], {}, (), {"IBM"}, found)[0]["action"] == "hold"


def test_a_decision_of_invented_figures_is_of_low_confidence_and_says_so() -> None:
    asked = action("open", "It gained 37.7 % and 79.66 is next.", "GE")
    found = ground_decision({"actions": [asked], "reasoning": "Since 12.12 fell."}, [], SUBJECT)
    assert supported_actions([asked], {"GE": "BUY"}, (), (), found)[0]["confidence"] == "low"
    assert note(found) == " (3 of 3 figures have no source in its tool answers: 37.7 %, 79.66, 12.12.)"
    quiet = ground_decision({"actions": [asked | {"reasoning": "It gained."}], "reasoning": "Well."}, [], SUBJECT)
    assert note(quiet) == ""


@pytest.mark.parametrize(
    ("rating", "move", "rejected", "reduced_at", "kept"),
    [
        ("PASS", 0.02, False, None, None),
        ("CAUTION", -0.02, False, None, None),
        ("CAUTION", -0.0005, False, None, "its expected move of -0.05% is not below the 0.10% that a sale costs"),
        ("CAUTION", 0.02, False, None, "its expected move of +2.00% is not below the 0.10% that a sale costs"),
        ("CAUTION", None, False, None, "no thesis or base rate states an expected move"),
        ("HOLD", 0.02, True, None, None),
        ("CAUTION", -0.02, False, 0.48, "it was reduced at 0.480, and 0.470 is not 0.05 below"),
        ("HOLD", 0.02, True, 0.48, "it was reduced at 0.480, and 0.470 is not 0.05 below"),
        ("CAUTION", -0.02, False, 0.47 + BAND, None),
        ("PASS", -0.02, True, 0.47, None),
        (None, None, False, None, None),
    ],
)
def test_a_holding_is_sold_for_a_reason_and_once_for_the_same(
    rating: str | None, move: float | None, rejected: bool, reduced_at: float | None, kept: str | None
) -> None:
    pooled = Pooled(probability=0.47, move=move, cost=0.001)
    assert kept_because(rating, pooled, rejected, reduced_at) == kept
    asked = action("reduce", "It fell to 127.87.", quantity=7)
    found = ground_decision({"actions": [asked], "reasoning": "Well."}, [], SUBJECT)
    (counts,) = supported_actions([asked], {"IBM": str(rating)}, (), {"IBM"}, found, {"IBM": kept} if kept else {})
    assert (counts["action"] == "hold") == (kept is not None)
    assert kept is None or kept in counts["reasoning"]


def test_a_verdict_of_stances_keeps_nothing() -> None:
    assert kept_because("CAUTION", Pooled(), False, None) is None
    assert kept_because("CAUTION", None, False, None) is None


def test_what_the_subject_and_the_decision_count_themselves_are_sources() -> None:
    verdicts = [{"symbol": "GE", "rating": "HOLD", "pooled": {"probability": 0.512}, "summary": "It fell 37.7 %."}] * 18
    asked = [action("watch", "Pooled 0.512 is too little.", "GE", side=None, quantity=None)] * 18
    told = {"actions": asked, "reasoning": "18 HOLD lead to 18 watch; it fell 37.7 %."}
    found = ground_decision(told, [], {**SUBJECT, "verdicts": verdicts})
    assert [one.figure for one in found.unsupported] == ["37.7 %"], "another model's words are no source"
