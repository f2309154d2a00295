"""A run's trace: its id is the run's own 128 bits, so that whatever is done for a run joins its trace without being
told of it. Plain arithmetic: who only sends messages loads no tracing library for this."""

from __future__ import annotations

import re

_RUN = re.compile(r"[0-9a-f]{32}")
HEADER = "traceparent"  # of W3C Trace Context


def trace_of(run_id: str) -> tuple[int, int] | None:
    """(trace id, id of the run's own span, which is the root); None for what is no run."""
    if _RUN.fullmatch(run_id) is None or int(run_id, 16) == 0:
        return None
    return int(run_id, 16), int(run_id[16:], 16) or 1


def headers_of(run_id: str) -> dict[str, str]:
    """What a message carries to be a child of the run's span; nothing for what is no run."""
    found = trace_of(run_id)
    return {HEADER: f"00-{found[0]:032x}-{found[1]:016x}-01"} if found is not None else {}
