"""A board on a terminal: signals, questions, forecasts with citations, voices, the tally's content."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from chordesk.tasks.cli.output import inert, paragraph, table
from chordesk.tasks.cli.render.indented import Indented
from chordesk.tasks.views.board.board_view import (
    BoardView,
    ShownCitation,
    ShownForecast,
    ShownQuestion,
    ShownSignal,
    TallyView,
)
from chordesk.tasks.views.board.voices import VoiceRow

_STATES = {"live": "green", "offline": "red", "dormant": "dim"}


def board_report(found: BoardView) -> RenderableType:
    """Return all of a board. What voices, tools and venues wrote cannot steer the terminal."""
    parts: list[RenderableType] = [Text(f"Board of run {found.run_id}, {found.state}", style="bold")]
    parts += [Text("\nSignals", style="bold"), *(line for row in found.signals for line in _signal(row))]
    parts += [Text("\nQuestions", style="bold"), *(line for row in found.questions for line in _question(row))]
    for number in sorted({row.round for row in found.forecasts}):
        parts.append(Text(f"\nForecasts of round {number}", style="bold"))
        parts += [line for row in found.forecasts if row.round == number for line in _forecast(row)]
    if found.positions:
        parts += [Text("\nPlay money", style="bold")]
        parts += [
            Text(f"  {one.question} {one.side}: {one.shares:g} shares at {one.price:.2f}, cost {one.cost:.2f}")
            for one in found.positions
        ]
    if (voices := voices_report(found.voices)) is not None:
        parts += ["", voices]
    if found.tally is not None:
        parts += ["", tally_report(found.tally)]
    return Group(*parts)


def tally_report(found: TallyView) -> RenderableType:
    """Return the content of a tally, as it was written."""
    return Text(inert(found.content).rstrip())


def voices_report(rows: Sequence[VoiceRow]) -> RenderableType | None:
    """Return each voice in each round with its conversation and what came of it; None without any."""
    if not rows:
        return None
    cells = [
        (
            str(row.round),
            row.voice,
            "running" if row.running else row.status or row.state,
            str(row.forecasts),
            row.thread or "-",
            row.turn or "-",
        )
        for row in rows
    ]
    whole = table(("Round", "Voice", "State", "Forecasts", "Thread", "Turn"), cells)
    reasons = [
        Text(f"  {row.voice}, round {row.round}: {paragraph(why)}", style="dim")
        for row in rows
        for why in (*([row.reason] if row.reason else []), *row.left_out)
    ]
    return Group(Text("Voices", style="bold"), whole, *reasons)


def _signal(row: ShownSignal) -> Iterable[RenderableType]:
    confidence = f", confidence {row.confidence:.2f}" if row.confidence is not None else ""
    yield Text.assemble(
        f"  {inert(row.label)} ",
        (row.state.value, _STATES.get(row.state.value, "")),
        f" {row.direction}{confidence}, of {row.owner}" if row.state.value == "live" else "",
    )
    yield Indented(Text(paragraph(row.headline)), 4)


def _question(row: ShownQuestion) -> Iterable[RenderableType]:
    baseline = f"{row.baseline:.0%}" if row.baseline is not None else "none, not forecast"
    outcome = f", outcome {row.outcome:g}" if row.outcome is not None else ""
    yield Text(f"  {row.label} {paragraph(row.text)}")
    yield Indented(Text(f"baseline {baseline}, closes {row.closes_at:%Y-%m-%d}, {row.state}{outcome}", style="dim"), 4)


def _forecast(row: ShownForecast) -> Iterable[RenderableType]:
    chain = f", chain {' + '.join(map(inert, row.chain))}" if row.chain else ""
    yield Text(f"  {row.question} {row.voice}: {row.probability:.1%}, stake {row.stake:.2f}{chain}")
    yield Indented(Text(paragraph(row.because), style="dim"), 4)
    for one in row.citations:
        yield Indented(_citation(one), 4)


def _citation(one: ShownCitation) -> Text:
    counts = "not judged yet" if one.counts is None else "counts" if one.counts else "void"
    style = "green" if one.counts else "dim" if one.counts is None else "yellow"
    why = f" ({paragraph(one.reason)})" if one.reason else ""
    return Text.assemble(f"{inert(one.label)} {one.stance} ", (counts, style), f"{why}: {paragraph(one.claim)}")
