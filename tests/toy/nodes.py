"""The nodes of the graph `research` of tests/toy/graphs.py, which a tree without graphs cannot load."""

from __future__ import annotations

ANALYSTS = ("market", "news", "social", "fundamentals")
DEBATE = ("bull", "bear")
RISK = ("risky", "safe", "neutral")
NODES = (
    *(name for analyst in ANALYSTS for name in (analyst, f"{analyst}_tools", analyst, f"{analyst}_clear")),
    *DEBATE, "manager", "trader", *RISK, "judge",
)  # fmt: skip
TURNS = [name for name in NODES if not name.endswith(("_tools", "_clear"))]
