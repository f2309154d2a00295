"""A trader's sizes as they count: none above what code worked out, each with the whole plan of its position."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from chordesk.agents.verdicts.research_verdict import untraded
from chordesk.models.answers import ActionKind, ActionPlan
from chordesk.models.errors import MarketError
from chordesk.models.market import parse_leg, wrong_legs
from chordesk.models.plans import PositionPlan, Sizing
from chordesk.models.thesis import Pooled
from chordesk.tools.decimals import exact
from chordesk.tools.market.clock import ExchangeHours, hours_of
from chordesk.tools.portfolio.size_bounds import BY_RISK, Standing, sizing
from chordesk.tools.risk.exposure import unit_exposure, worst_case

HORIZON = 20  # sessions, of a position whose trader and theses name none
_ENTRIES = (ActionKind.OPEN, ActionKind.ADD)
Action = Mapping[str, Any]


def bounded_actions(
    actions: Iterable[Action], concluded: Mapping[str, Pooled], now: Standing, day: dt.date
) -> list[dict[str, Any]]:
    """Return the actions with what opens or adds at most as large as its bound, and with its whole plan. Each is
    bounded by what those before it leave; an order with legs by the room under each limit, which its worst loss takes.
    Actions without a verdict are left to the risk rules, and so are legs that make no order.

    concluded: what each candidate's theses came to, by symbol; day: of the exchange, today.
    """
    found = []
    for action in actions:
        if action["action"] not in _ENTRIES or action["symbol"] not in concluded:
            found.append({**action, "plan": None})
            continue
        pooled = concluded[action["symbol"]]
        kept, spent = _bounded_legs(action, pooled, now) if action.get("legs") else _bounded(action, pooled, now, day)
        found.append(kept)
        if spent:
            now = now.after(action["symbol"], spent if kept["side"] == "buy" else -spent)
    return found


def _bounded(action: Action, pooled: Pooled, now: Standing, day: dt.date) -> tuple[dict[str, Any], float]:
    """Return an action as it counts, and the money that it takes."""
    plan, symbol = ActionPlan.model_validate(action.get("plan") or {}), action["symbol"]
    size = sizing(symbol, pooled, now)
    price, long = size.price, action["side"] != "sell"
    if price is not None and plan.stop is not None:
        size = _at_stop(size, plan.stop if long else 2 * price - plan.stop, pooled, now)
    if price is None or size.most is None:
        return untraded(action, now.held, f"no bound of its size is known: {'; '.join(size.missing)}"), 0.0
    unit = _unit(action, price) * (1.0 if size.currency is None else size.rate or 0.0)
    if not unit:  # a call against shares that are held takes no money
        return {**action, "plan": None}, 0.0
    asked = float(action.get("notional") or (action.get("quantity") or 0.0) * unit)
    lot = 1.0 if action.get("contract") else size.lot
    if size.most / unit < lot:
        what = "contract" if action.get("contract") else "share" if lot == 1 else f"lot of {lot:g} shares"
        why = f"at most {now.money(size.most)} by {size.bound} is less than one {what} at {now.money(unit * lot)}"
        return untraded(action, now.held, why), 0.0
    kept = dict(action)
    if asked > size.most:
        kept |= (
            {"notional": size.most} if action.get("notional") else {"quantity": float(size.most // (unit * lot) * lot)}
        )
        kept["reasoning"] += f" ({now.money(asked)} was asked for; at most {now.money(size.most)} by {size.bound}.)"
    whole = _whole(plan, pooled, size, action, asked if asked > size.most else None, day)
    kept["plan"] = whole.model_dump(mode="json", exclude_none=True)
    return kept, min(asked, size.most)


def _bounded_legs(action: Action, pooled: Pooled, now: Standing) -> tuple[dict[str, Any], float]:
    """Return an order with legs as it counts, and its worst loss, of which a stop of the share says nothing."""
    legs = [leg for leg in map(parse_leg, action["legs"]) if leg is not None]
    kept, units = {**action, "plan": None}, action.get("quantity")
    if wrong_legs(action["symbol"], legs) or not units or not action.get("limit_price") or not action.get("side"):
        return kept, 0.0
    unit = float(worst_case(legs, action["side"], exact(1), exact(action["limit_price"])))
    rooms = [one for one in sizing(action["symbol"], pooled, now).bounds if one.rule not in BY_RISK]
    least = min((one for one in rooms if one.most is not None), key=lambda one: one.most or 0.0)
    most = math.floor((least.most or 0.0) / unit) if unit > 0 else units
    text = f"at most {now.money(least.most or 0.0)} by {least.rule}"
    if most < 1:
        return untraded(action, now.held, f"{text} is less than the worst loss of one unit, {now.money(unit)}"), 0.0
    if units > most:
        kept |= {"quantity": float(most)}
        kept["reasoning"] += f" ({units:g} units were asked for, of a worst loss of {now.money(unit)} each; {text}.)"
    return kept, min(units, most) * unit


def _at_stop(size: Sizing, stop: float, pooled: Pooled, now: Standing) -> Sizing:
    """Return the size for a trader's own stop, where that is further away: more is lost there."""
    if size.stop is not None and stop >= size.stop:
        return size
    own = {"invalidation_price": max(stop, 0.0), "invalidation_source": "the trader's plan"}
    return sizing(size.symbol, pooled.model_copy(update=own), now)


def _unit(action: Action, price: float) -> float:
    """Return the money that one share or contract of an action counts as."""
    asked = max(action.get("limit_price") or 0.0, action.get("stop_price") or 0.0)
    if not action.get("contract"):
        return max(asked, price)
    return float(unit_exposure(action["contract"], action["side"] or "", exact(asked)))


def _whole(
    plan: ActionPlan, pooled: Pooled, size: Sizing, action: Action, asked: float | None, day: dt.date
) -> PositionPlan:
    """Return the plan with what its trader left out: the stop of the bound, the theses' horizon, a review half-way. An
    option's stop and horizon are no plan for its shares."""
    entry = action.get("limit_price") or size.price
    bound = PositionPlan(entry=entry, most=size.most, bound=size.bound, asked=asked)
    if action.get("contract"):
        return bound
    stop = size.stop
    if stop is not None and action["side"] == "sell" and size.price is not None:
        stop = 2 * size.price - stop
    horizon = plan.horizon or pooled.horizon or HORIZON
    after = partial(_after, hours_of(action["symbol"]), day)
    filled = {"stop": plan.stop or stop, "horizon": horizon, "review": plan.review or after(max(horizon // 2, 1))}
    by_code = [name for name, value in filled.items() if getattr(plan, name) is None and value is not None]
    source = size.stop_source if filled["stop"] == stop else "the trader's plan"
    more = {"target": plan.target, "ends": after(horizon), "stop_source": source, "by_code": by_code}
    return PositionPlan.model_validate({**bound.model_dump(), **filled, **more})


def _after(hours: ExchangeHours, day: dt.date, sessions: int) -> str | None:
    """Return the session so many after a day; None where the calendar ends before it."""
    try:
        last = next(reversed(hours.between(day - dt.timedelta(days=10), day)), day)
        return hours.after(last, sessions).isoformat()
    except MarketError:
        return None
