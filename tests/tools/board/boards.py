"""Boards for tests: questions about symbols, and what a harvester finds on a market."""

from __future__ import annotations

import dataclasses
import datetime as dt
import re
from typing import Any

import orjson

from chordesk.agents.board.citations import unsupported
from chordesk.models.board.forecasts import MAX_FINDINGS, Harvest
from chordesk.models.questions import BoardQuestion, SignalState
from chordesk.models.tables.board import Signal, SignalFinding
from chordesk.tools.board.harvest_context import HarvestContext, symbols_of
from chordesk.tools.board.harvesters import HARVESTERS, MAX_DATA_BYTES, Tombstone, run_harvester
from chordesk.tools.registry import ToolContext

SECONDS = 60.0  # of a harvester, where a test is not about its limit
_FIGURE = re.compile(r"[+-]?\d+(?:,\d{3})*(?:\.\d+)?%?")


def question(label: str, *symbols: str, **changes: Any) -> BoardQuestion:
    values = {
        "label": label,
        "id": f"id-{label}",
        "text": f"{' '.join(symbols)}?",
        "subjects": symbols,
        "baseline": 0.5,
        "baseline_source": "even",
        "closes_at": dt.datetime(2030, 1, 1, tzinfo=dt.UTC),
    }
    return BoardQuestion(**{**values, **changes})


def board(tool: ToolContext, *symbols: str, **changes: Any) -> HarvestContext:
    """A question a symbol."""
    questions = tuple(question(f"Q{place}", symbol) for place, symbol in enumerate(symbols, 1))
    return dataclasses.replace(HarvestContext(tool, questions, symbols_of(questions), SECONDS), **changes)


def ended(tool: str, context: HarvestContext) -> Harvest | Tombstone:
    """What the harvester ends with, checked for what holds for each of them."""
    found = run_harvester(HARVESTERS[tool], context)
    if isinstance(found, Harvest):
        assert len(found.findings) <= MAX_FINDINGS
        assert bool(found.findings) != bool(found.dormant)
        for finding in found.findings:
            check(finding, context)
    return found


def harvested(tool: str, context: HarvestContext) -> tuple[SignalFinding, ...]:
    """The findings of a harvester that must not fail."""
    found = ended(tool, context)
    assert isinstance(found, Harvest), found
    return found.findings


def dormant(tool: str, context: HarvestContext) -> str:
    found = ended(tool, context)
    assert isinstance(found, Harvest), found
    assert found.dormant is not None
    return found.dormant


def check(finding: SignalFinding, context: HarvestContext) -> None:
    assert finding.headline
    assert finding.basis
    assert finding.source
    assert finding.as_of <= context.tool.clock.now()
    written = orjson.dumps(finding.data)
    assert len(written) <= MAX_DATA_BYTES
    assert orjson.loads(written) == finding.data, "nothing in it is lost as JSON: no NaN, no date"
    assert unsourced(finding.headline, finding.data) == []
    signal = Signal(
        **{**dict(finding), "headline": ""}, label="tool-1", id="1", tool="tool", owner="desk", state=SignalState.LIVE
    )
    assert unsupported(finding.headline, signal, question("Q", text="?", baseline=None), 0.5, []) == [], (
        "a voice may cite each figure of a headline"
    )


def unsourced(headline: str, data: dict[str, Any]) -> list[str]:
    """The figures of a headline that stand nowhere in the data, in their own unit and rounding."""
    texts = " ".join(one for one in leaves(data) if isinstance(one, str))
    numbers = [float(one) for one in leaves(data) if isinstance(one, (int, float)) and not isinstance(one, bool)]
    for text in sorted({one for one in leaves(data) if isinstance(one, str) and one}, key=len, reverse=True):
        headline = headline.replace(text, " ")
    return [figure for figure in _FIGURE.findall(headline) if figure not in texts and not _stands(figure, numbers)]


def _stands(figure: str, numbers: list[float]) -> bool:
    scale = 100 if figure.endswith("%") else 1
    digits = figure.rstrip("%").replace(",", "")
    step = 10.0 ** -len(digits.partition(".")[2])
    return any(abs(abs(number * scale) - abs(float(digits))) <= step / 2 * (1 + 1e-9) for number in numbers)


def leaves(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [leaf for one in value.values() for leaf in leaves(one)]
    if isinstance(value, list):
        return [leaf for one in value for leaf in leaves(one)]
    return [value]
