"""A trader's plan: what contradicts itself is refused, and no size is above its bound."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chordesk.agents.roles import complete_plan
from chordesk.agents.turn_answers import AnswerError
from chordesk.agents.verdicts.trader_sizes import bounded_actions
from chordesk.models.answers import TraderAction
from chordesk.models.plans import DecidedAction
from chordesk.models.thesis import Pooled
from tests.tools.portfolio.test_size_bounds import EQUITY, standing

DAY = dt.date(2010, 8, 12)
SUBJECT: dict[str, Any] = {
    "day": DAY.isoformat(),
    "verdicts": [
        {"symbol": "UA", "sizing": {"price": 50.0, "company": "under armour"}},
        {"symbol": "UAA", "sizing": {"price": 51.0, "company": "under armour"}},
        {"symbol": "HAL", "sizing": {"price": 28.43, "company": "halliburton"}},
    ],
}


def action(symbol: str = "HAL", side: str = "buy", kind: str = "open", **changes: Any) -> dict[str, Any]:
    made = TraderAction.model_validate(
        {
            "symbol": symbol, "action": kind, "side": side, "quantity": None, "notional": 5_000.0,
            "orderType": "market", "limitPrice": None, "confidence": "high", "reasoning": "It is good.", **changes,
        }
    )  # fmt: skip
    return made.model_dump(mode="json")


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ([action(plan={"stop": 40.72})], "HAL: the stop 40.72 is not below its entry of 28.43"),
        ([action(plan={"stop": 28.43})], "is not below"),
        ([action(orderType="limit", limitPrice=27.0, plan={"stop": 27.5})], "not below its entry of 27"),
        ([action(plan={"target": 20.0})], "the target 20 is not above its entry"),
        ([action(side="sell", plan={"stop": 20.0})], "is not above"),
        ([action(plan={"review": "2010-08-11"})], "the review 2010-08-11 is before today"),
        ([action(plan={"review": "2010-13-01"})], "is no day"),
        ([action("UA"), action("UAA")], "UA and UAA are listings of one company"),
    ],
)
def test_a_plan_that_contradicts_itself_is_refused(asked: list[dict[str, Any]], why: str) -> None:
    with pytest.raises(AnswerError, match=why):
        complete_plan({"actions": asked, "reasoning": ""}, SUBJECT, [])


def test_a_plan_that_does_not_is_left_as_it_is() -> None:
    asked = [
        action(plan={"stop": 27.0, "target": 33.0, "review": "2010-08-12"}), action("UA"),
        action("UAA", "sell", "close"),
    ]  # fmt: skip
    answer = {"actions": asked, "reasoning": ""}
    assert complete_plan(answer, SUBJECT, []) == answer


def test_a_size_above_its_bound_becomes_the_bound_and_says_so() -> None:
    """An ATR of 4.1 % of 50: 2 of them are 8.2 %, and a quarter of a per cent of 100,000 over that is 3,048.78."""
    now = standing({}, {"CF": 0.041}, {})
    pooled = {"CF": Pooled(horizon=10)}
    (cut,) = bounded_actions([action("CF", notional=7_350.0)], pooled, now, DAY)
    assert cut["notional"] == 3_048.78
    assert cut["reasoning"].endswith("(7,350.00 was asked for; at most 3,048.78 by equal risk.)")
    plan = DecidedAction.model_validate(cut).plan
    assert plan is not None
    assert (plan.asked, plan.bound, plan.stop, plan.horizon) == (7_350.0, "equal risk", 45.9, 10)
    assert (plan.ends, plan.review) == (dt.date(2010, 8, 26), "2010-08-19")
    assert plan.by_code == ["stop", "horizon", "review"]
    (less,) = bounded_actions([action("CF", notional=1_000.0, plan={"stop": 48.0})], pooled, now, DAY)
    assert (less["notional"], less["plan"]["stop"], less["plan"]["stop_source"]) == (1_000.0, 48.0, "the trader's plan")
    (wider,) = bounded_actions([action("CF", quantity=100, notional=None, plan={"stop": 40.0})], pooled, now, DAY)
    assert wider["quantity"] == 25, "a stop at 20 % below leaves 1,250"
    (short,) = bounded_actions([action("CF", "sell", notional=1_000.0)], pooled, now, DAY)
    assert short["plan"]["stop"] == 54.1


def test_what_has_no_bound_or_no_room_is_not_traded() -> None:
    now = standing({}, {"CF": 0.041}, {})
    (unknown,) = bounded_actions([action("XX")], {"XX": Pooled()}, now, DAY)
    assert (unknown["action"], unknown["notional"]) == ("watch", None)
    assert "no bound of its size is known" in unknown["reasoning"]
    (even,) = bounded_actions([action("CF")], {"CF": Pooled(probability=0.5, low=0.4, high=0.6)}, now, DAY)
    assert even["action"] == "watch"
    assert "at most 0.00 by Kelly is less than one share" in even["reasoning"]
    (unjudged,) = bounded_actions([action("CF")], {}, now, DAY)
    assert unjudged["action"] == "open", "the rules deny it for want of a verdict"


def test_a_coin_above_its_bound_is_bought_in_part_and_a_share_is_not() -> None:
    """A bound of 3,048.78 beside a price of 60,000 is 0.05 of a coin."""
    now = standing({}, {"BTC-USD": 0.041, "CF": 0.041}, {})
    now = replace(now, heat=replace(now.heat, closes=dict.fromkeys(now.heat.closes, 60_000.0)))
    coin, share = bounded_actions(
        [action(name, notional=7_350.0) for name in ("BTC-USD", "CF")],
        {"BTC-USD": Pooled(horizon=10), "CF": Pooled(horizon=10)}, now, DAY,
    )  # fmt: skip
    assert (coin["action"], coin["notional"], share["action"]) == ("open", 3_048.78, "watch")
    assert "is less than one share at 60,000.00" in share["reasoning"]


@given(st.lists(st.floats(1, 1e6), min_size=1, max_size=6), st.floats(0, EQUITY))
def test_orders_of_one_plan_share_the_cash(asked: list[float], cash: float) -> None:
    atrs = {f"N{place}": 0.02 for place in range(len(asked))}
    now = standing({}, atrs, {}, cash)
    actions = [action(name, notional=money) for name, money in zip(atrs, asked, strict=True)]
    found = bounded_actions(actions, dict.fromkeys(atrs, Pooled()), now, DAY)
    taken = [one["notional"] for one in found if one["action"] == "open"]
    assert sum(taken) <= cash + 1e-6
    assert all(one["notional"] is None or one["notional"] <= money for one, money in zip(found, asked, strict=True))


def test_legs_are_bounded_by_their_worst_loss() -> None:
    """A put spread 5 wide for a credit of 1.20: its worst loss is 380, or 500 before the credit is paid."""
    spread = {"legs": ["sell CF100917P00050000", "buy CF100917P00045000"], "limitPrice": 1.2, "orderType": "limit"}
    now = standing({}, {"CF": 0.041}, {}, 2_200.0)
    asked = action("CF", "sell", notional=None, quantity=9.0, **spread)
    (cut,) = bounded_actions([asked], {"CF": Pooled()}, now, DAY)
    assert (cut["action"], cut["quantity"], cut["plan"]) == ("open", 4.0, None)
    assert "9 units were asked for, of a worst loss of 500.00 each; at most" in cut["reasoning"]
    (few,) = bounded_actions([{**asked, "quantity": 2.0}], {"CF": Pooled()}, now, DAY)
    assert (few["quantity"], few["reasoning"]) == (2.0, asked["reasoning"])
    (none,) = bounded_actions([asked], {"CF": Pooled()}, standing({}, {"CF": 0.041}, {}, 400.0), DAY)
    assert none["action"] == "watch"
    assert "by buying power is less than the worst loss of one unit, 500.00" in none["reasoning"]
