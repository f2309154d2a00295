"""The modes in which the desk works: a role, a step and a run are each of one, and a thread's limits hang on it."""

from __future__ import annotations

from typing import Literal, get_args

RunMode = Literal["screener", "research", "trader"]
Mode = RunMode | Literal["other"]  # other: of a role that is none of the desk's own
MODES: tuple[RunMode, ...] = get_args(RunMode)
