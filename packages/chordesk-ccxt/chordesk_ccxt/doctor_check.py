"""The check of the venue for `desk doctor`. Counts alone: the doctor's lines are sent to others."""

from __future__ import annotations

import os

from chordesk.plugins import (
    Check,
    CheckContext,
    CheckEntry,
    DeskError,
    broker_keys,
    fail,
    ok,
    own_settings,
    plain,
    warn,
)

from . import FEATURE
from .settings import CcxtSettings
from .venue import Pair, Venue


def venue(context: CheckContext) -> Check:
    market, broker = context.settings.market, context.settings.broker
    found = [
        made(context) for uses, made in ((market == "ccxt", _market), (broker in FEATURE.brokers, _broker)) if uses
    ]
    if not found:
        return ok(f"not used: DESK_MARKET={market}, DESK_BROKER={broker}")
    worst = max(found, key=lambda check: ("ok", "warn", "fail").index(check.status))
    if worst.status != "ok":
        return worst
    return ok("; ".join(check.detail for check in found))


def _market(context: CheckContext) -> Check:
    own = own_settings(context.settings, CcxtSettings)
    asked = Venue(own.venue, url=own.url)
    try:
        asked.require_clock()
        pairs = asked.pairs()
    except DeskError as error:
        return fail(str(error.args[0]), error.remedy)
    first = next((pairs[one] for one in context.settings.universe.upper().split(",") if one in pairs), None)
    terms = "" if first is None else f"; {_terms(first)}"
    return ok(f"{asked.title} has {len(pairs):,} pairs, and the time of this machine{terms}")


def _terms(pair: Pair) -> str:
    fees = [f"{name} {fee:.2%}" for name, fee in (("maker", pair.maker), ("taker", pair.taker)) if fee is not None]
    steps = [
        f"{name} {plain(value)}"
        for name, value in (("price step", pair.price_step), ("step", pair.quantity_step), ("least", pair.least))
        if value is not None
    ]
    return f"{pair.symbol}: {', '.join((*steps, *fees))}"


def _broker(context: CheckContext) -> Check:
    name = context.settings.broker
    try:
        broker_keys(name, os.environ)
    except DeskError as error:
        if not context.embedded:  # the services run, and the trade worker has it
            return ok("the account was not asked: its keys are the trade worker's, and not in this process")
        return warn(f"{error.args[0]}; the account was not asked", error.remedy)
    try:
        state = context.desk.broker.state()
    except DeskError as error:
        return fail(str(error.args[0]), error.remedy)
    if state.blocked:
        return warn(state.blocked, "give the desk an account and a key of its own")
    return ok(f"the account answers: {len(state.positions)} positions, {len(state.open_orders)} open orders")


CHECK = CheckEntry("ccxt", venue, 90)
