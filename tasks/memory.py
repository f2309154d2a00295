"""What a fresh thread is told of a symbol when the old one was too long to go on with: a short summary of the desk's
own reports, as far as the market clock has come."""

from __future__ import annotations

from typing import Any

from tools.registry import ToolContext
from tools.reports import ReportArguments, report_latest

MEMORY_CHARS = 2000
_SUMMARY_CHARS = 240
_RISKS = 3


def memory_of(context: ToolContext, symbol: str) -> str | None:
    """The newest verdict and each role's newest report on a symbol, one line each; None when the desk has none."""
    found = report_latest(context, ReportArguments(symbols=[symbol]))
    lines = [_line("desk", row["rating"], row) for row in found["verdicts"]]
    lines += [_line(row["role"], row["verdict"], row) for row in found["reports"]]
    text = "\n".join(lines)
    return _cut(text, MEMORY_CHARS) or None


def _line(who: str, said: str, row: dict[str, Any]) -> str:
    risks = "; ".join(row["keyRisks"][:_RISKS])
    summary = _cut(" ".join(row["summary"].split()), _SUMMARY_CHARS)
    return f"{row['marketAt'][:10]} {who}: {said} ({row['confidence']}). {summary}" + (
        f" Risks: {risks}" if risks else ""
    )


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
