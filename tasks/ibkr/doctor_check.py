"""The check of IB Gateway for `desk doctor`. Counts alone: the doctor's lines are sent to others."""

from __future__ import annotations

import os

from chordesk.models.errors import DeskError
from chordesk.models.settings.variables import broker_keys
from chordesk.tasks.doctor.check import Check, CheckContext, CheckEntry, fail, ok, warn
from chordesk.tools.ibkr.feature import FEATURE


def gateway(context: CheckContext) -> Check:
    """Connect as any process of the desk does: the trade worker leaves the connection for a moment."""
    name = context.settings.broker
    if name not in FEATURE.brokers:
        return ok(f"not used: DESK_BROKER={name}")
    try:
        broker_keys(name, os.environ)
    except DeskError as error:
        if not context.embedded:  # the services run, and the trade worker has it
            return ok("the Gateway was not asked: IBKR_ACCOUNT is the trade worker's, and not in this process")
        return warn(f"{error.args[0]}; the Gateway was not asked", error.remedy)
    try:
        state = context.desk.broker.state()
    except DeskError as error:
        return fail(str(error.args[0]), error.remedy)
    held = f"{len(state.positions)} positions, {len(state.open_orders)} open orders"
    if state.blocked:
        return warn(f"{state.blocked}; {held}", "give the desk an account of its own, in US dollars")
    return ok(f"the Gateway answers: {held}")


CHECK = CheckEntry("ibkr", gateway, 60)
