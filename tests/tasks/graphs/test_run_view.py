"""The graphs of a run in its written report: texts of models stay text, and what did not end is named."""

from __future__ import annotations

from chordesk.tasks.graphs.run_view import GraphRow, unfinished
from chordesk.tasks.reports import formats

ROWS = [
    GraphRow(graph="<b>", state="done", reason=None, chapters=2, turns=3, output={"rating": "<i>"}),
    GraphRow(graph="KO", state="failed", reason="lost", chapters=1, turns=0, output=None),
]


def test_a_report_has_each_graph_with_its_output_as_text() -> None:
    made = formats.in_template(formats._html_environment(), "graphs/graphs.html", {"one": ROWS, "found": 0, "pages": 0})
    assert "&lt;b&gt;: done</h3><p>3 turns in 2 chapters.</p>" in made
    assert "<b>" not in made
    assert "<i>" not in made
    assert "KO: failed</h3><p>0 turns in 1 chapters. lost</p>" in made
    assert list(unfinished(ROWS)) == [{"what": "graph", "reason": "KO: lost"}]
