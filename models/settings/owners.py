"""The owner of each setting: the one rule by which a second terminal, a run and a worker come to the same value.

`Settings` marks each of its fields with one of these makers; the table of docs/reference shows the owners.
"""

from __future__ import annotations

from enum import StrEnum
from functools import partial
from typing import Any

from pydantic import Field

MARK = "belongs_to"


class Owner(StrEnum):
    """The owner of a setting. All but `process` are the running desk's: a terminal that differs is refused."""

    RUN = "run"  # kept with each run: its steps use the run's value
    ORDERS = (
        "orders"  # kept with each run; the trade worker's value decides, and no order of a run that differs is sent
    )
    DESK = "desk"  # each process of the desk uses its own, which is the running desk's
    PROCESS = "process"  # each process has its own


def _field(owner: Owner, *arguments: Any, **options: Any) -> Any:
    """Return pydantic's field of a setting with its owner."""
    return Field(*arguments, json_schema_extra={MARK: owner.value}, **options)


of_run = partial(_field, Owner.RUN)
of_orders = partial(_field, Owner.ORDERS)
of_desk = partial(_field, Owner.DESK)
of_process = partial(_field, Owner.PROCESS)
