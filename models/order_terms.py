"""Terms of an order besides side and size: type, time in force, prices, and the rule that protects the position."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal, NamedTuple

OrderType = Literal["market", "limit", "stop", "stop_limit", "trailing_stop"]
TimeInForce = Literal["day", "gtc", "ioc", "opg", "cls"]

# Times in force by order type, of shares: a broker takes these, or says in its feature which of them. An option order
# is of the day.
TIMES_IN_FORCE: Mapping[OrderType, tuple[TimeInForce, ...]] = {
    "market": ("day", "gtc", "ioc", "opg", "cls"),
    "limit": ("day", "gtc", "ioc", "opg", "cls"),
    "stop": ("day", "gtc"),
    "stop_limit": ("day", "gtc"),
    "trailing_stop": ("day", "gtc"),
}
OPTION_TYPES: tuple[OrderType, ...] = ("market", "limit")
OPTION_TIMES: tuple[TimeInForce, ...] = ("day",)

# What the desk sends of its own accord: exits, and the stop that protects a position.
_NEEDED: Mapping[OrderType, TimeInForce] = {"market": "day", "limit": "day", "stop": "gtc"}
TRAILING: tuple[OrderType, TimeInForce] = ("trailing_stop", "gtc")  # a protective order of the rule trail:N%

# The prices that a type of order has, and no other.
_FIELDS: Mapping[OrderType, tuple[str, ...]] = {
    "market": (),
    "limit": ("limit price",),
    "stop": ("stop price",),
    "stop_limit": ("limit price", "stop price"),
    "trailing_stop": ("trail percent",),
}


def misfit(
    order_type: OrderType, limit_price: float | None, stop_price: float | None, trail_percent: float | None
) -> tuple[str, str, str] | None:
    """Return (reason, figure given, what is needed) when the prices are not those of the order type, else None."""
    given = {"limit price": limit_price, "stop price": stop_price, "trail percent": trail_percent}
    for name, value in given.items():
        if name in _FIELDS[order_type] and value is None:
            return f"a {shown(order_type)} order without a {name}", f"{name} none", f"a {name} above 0"
        if name not in _FIELDS[order_type] and value is not None:
            return f"a {shown(order_type)} order with a {name}", f"{name} {value}", f"no {name}"
    return None


def wrong_terms(takes: Mapping[str, tuple[str, ...]]) -> str | None:
    """Return what is wrong with the terms that a broker takes, after its name; None where nothing is."""
    known: dict[str, tuple[str, ...]] = {str(name): tuple(map(str, times)) for name, times in TIMES_IN_FORCE.items()}
    for order_type, times in takes.items():
        if order_type not in known:
            return f"takes orders of type {order_type!r}: choose among {', '.join(known)}"
        for time in times:
            if time not in known[order_type]:
                of = f"{shown(order_type)} orders that are {time!r}"
                return f"takes {of}: choose among {', '.join(known[order_type])}"
    for needed, at in _NEEDED.items():
        if at not in takes.get(needed, ()):
            return f"takes no {shown(needed)} order that is {at}, and the desk sends such exits and stops"
    return None


def not_taken(
    broker: str, takes: Mapping[str, tuple[str, ...]], order_type: str, time_in_force: str
) -> tuple[str, str, str] | None:
    """As `unsupported`, of an order of shares at one broker. takes: as of its feature."""
    if not takes or time_in_force in takes.get(order_type, ()):
        return None
    if times := takes.get(order_type):
        reason = f"the broker {broker} takes no {shown(order_type)} order that is {time_in_force}"
        return reason, f"time in force {time_in_force}", f"time in force {' or '.join(times)}"
    allowed = f"order type {' or '.join(takes)}"
    return f"the broker {broker} takes no {shown(order_type)} order", f"order type {order_type}", allowed


def unsupported(order_type: OrderType, time_in_force: TimeInForce, option: bool) -> tuple[str, str, str] | None:
    """Return (reason, value, what is allowed) when no broker takes the type or the time in force, else None."""
    types = OPTION_TYPES if option else tuple(TIMES_IN_FORCE)
    if order_type not in types:
        allowed = " or ".join(types)
        reason = f"a {shown(order_type)} order is for shares: order an option with a limit price"
        return reason, f"order type {order_type}", f"order type {allowed}"
    times = OPTION_TIMES if option else TIMES_IN_FORCE[order_type]
    if time_in_force in times:
        return None
    kind = "an option order" if option else f"a {shown(order_type)} order"
    allowed = " or ".join(times)
    reason = f"{kind} cannot be {time_in_force}: set the time in force to {allowed}"
    return reason, f"time in force {time_in_force}", f"time in force {allowed}"


def shown(order_type: str) -> str:
    return order_type.replace("_", " ")


LEAST_PERCENT, MOST_PERCENT = 0.1, 50.0
_RULE = re.compile(r"(stop|trail):(\d+(?:\.\d+)?)%")
_ALLOWED = f"allowed are none, stop:N% and trail:N% with N from {LEAST_PERCENT} to {MOST_PERCENT:g}, such as stop:8%"


class Protection(NamedTuple):
    """A rule of DESK_PROTECT. percent: of the price that it is measured from."""

    kind: Literal["stop", "trail"]
    percent: float


def parse_protection(rule: str) -> Protection | None:
    """Return the rule of a setting's text, None for `none`. Raises ValueError for anything else."""
    if rule == "none":
        return None
    found = _RULE.fullmatch(rule)
    if found is None:
        raise ValueError(_ALLOWED)
    percent = float(found[2])
    if not LEAST_PERCENT <= percent <= MOST_PERCENT:
        raise ValueError(f"{found[2]}% is out of range: {_ALLOWED}")
    return Protection("stop" if found[1] == "stop" else "trail", percent)


def require_protection(rule: str) -> str:
    parse_protection(rule)
    return rule


def follows_dividends(side: str | None, order_type: str | None) -> bool:
    """Return whether a resting order's prices fall with a dividend on its day: those below the market do, buy limits
    and stops that sell (FINRA Rule 5330). The dividend alone would reach them otherwise."""
    return order_type == "limit" if side == "buy" else order_type in ("stop", "stop_limit", "trailing_stop")
