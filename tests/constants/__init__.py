"""Constants of the desk with other values in a test's processes: shorter pauses, and addresses of stand-ins."""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

VARIABLE = "TEST_CONSTANTS"  # JSON
HERE = Path(__file__).parent
PLACES = {
    "ALPACA": ("chordesk.tools.brokers.alpaca", "ADDRESSES"),
    "ANSWER_SECONDS": ("chordesk.agents.rulebook.server", "ANSWER_SECONDS"),
    "ORDERS_SECONDS": ("chordesk.tools.orders.submitting", "ORDERS_SECONDS"),
    "REQUEST_SECONDS": ("chordesk.tools.market.fetching", "REQUEST_SECONDS"),
    "STEP_ATTEMPTS": ("chordesk.tasks.engine.policy", "STEP_ATTEMPTS"),
    "SWEEP_SECONDS": ("chordesk.tasks.engine.leases", "SWEEP_SECONDS"),
    "VENUES": ("chordesk.tools.board.venues.named_venues", "ADDRESSES"),
    "WINDOW_SECONDS": ("chordesk.tasks.notifications.sender", "WINDOW_SECONDS"),
}


def constants(before: Mapping[str, str] = {}, /, **values: Any) -> dict[str, str]:
    """Return the variables of a process in which these constants have these values, beside those of `before`. ALPACA
    and VENUES: the address that stands for all of them."""
    given = {**json.loads(before.get(VARIABLE, "{}")), **values}
    paths = [str(HERE), str(HERE.parents[1]), *filter(None, [before.get("PYTHONPATH")])]
    return {VARIABLE: json.dumps(given), "PYTHONPATH": os.pathsep.join(paths)}


def apply(environ: Mapping[str, str]) -> None:
    """Set the constants of an environment in this process, in each module that has imported them."""
    for key, value in json.loads(environ.get(VARIABLE, "{}")).items():
        place, name = PLACES[key]
        old = getattr(importlib.import_module(place), name)
        for module in [*sys.modules.values()]:
            if vars(module).get(name) is old:
                setattr(module, name, dict.fromkeys(old, value) if isinstance(old, dict) else value)
