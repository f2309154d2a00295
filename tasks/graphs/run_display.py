"""The graphs of a run on a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import orjson
from rich.console import Group, RenderableType
from rich.text import Text

from chordesk.models.text import inert

if TYPE_CHECKING:
    from chordesk.tasks.graphs.run_view import GraphRow

MOST_CHARS = 1200  # --json has the whole output


def graphs_report(rows: Sequence[GraphRow]) -> RenderableType:
    return Group(*(line for row in rows for line in _graph(row)))


def _graph(row: GraphRow) -> list[Text]:
    chapters = f"{row.chapters} chapter{'s' if row.chapters != 1 else ''}"
    lines = [Text(f"graph {inert(row.graph)}: {row.state}, {chapters}, {row.turns} turns", style="bold")]
    if row.reason:
        lines.append(Text(inert(row.reason), style="yellow"))
    if (signal := _signal(row.output)) is not None:
        return [*lines, *signal]
    if row.output is not None:
        text = orjson.dumps(row.output, option=orjson.OPT_INDENT_2).decode()
        cut = f"{text[:MOST_CHARS]} ... ({len(text):,} characters; --json has all)" if len(text) > MOST_CHARS else text
        lines.append(Text(inert(cut)))
    return lines


def _signal(output: Any) -> list[Text] | None:
    """Return the lines of a signal, which has a rating and the desk's stance for it; None for another output."""
    if not isinstance(output, dict) or not {"rating", "verdict", "confidence", "summary"} <= output.keys():
        return None
    head = f"{output['rating']}: {output['verdict']}, confidence {output['confidence']}"
    found = [Text(inert(head)), Text(inert(str(output["summary"])[:MOST_CHARS]))]
    ends = (("target", output.get("priceTarget")), ("horizon", output.get("timeHorizon")))
    return [*found, *(Text(inert(f"{name} {text}"), style="dim") for name, text in ends if text)]
