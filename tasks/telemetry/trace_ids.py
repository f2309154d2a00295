"""Trace ids of runs: the run's own 128 bits, so that all work for a run joins its trace without further data.

Plain arithmetic: a process that only sends messages loads no tracing library.
"""

from __future__ import annotations

import re

_RUN = re.compile(r"[0-9a-f]{32}")
HEADER = "traceparent"  # of W3C Trace Context


def trace_of(run_id: str) -> tuple[int, int] | None:
    """Return (trace id, id of the run's root span); None for an id that is no run's."""
    if _RUN.fullmatch(run_id) is None or int(run_id, 16) == 0:
        return None
    return int(run_id, 16), int(run_id[16:], 16) or 1


def headers_of(run_id: str) -> dict[str, str]:
    """Return the headers that make a message a child of the run's span; none for an id that is no run's."""
    found = trace_of(run_id)
    return {HEADER: f"00-{found[0]:032x}-{found[1]:016x}-01"} if found is not None else {}
