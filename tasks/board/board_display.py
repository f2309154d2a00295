"""Boards of runs on a terminal: signals, questions, forecasts with their citations, voices and the tally."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.text import Text

from chordesk.models.text import inert
from chordesk.tasks.cli.output import Indented, paragraph, state, table

if TYPE_CHECKING:
    from chordesk.models.tables.board import Episode, Forecast, Signal, SignalCitation
    from chordesk.tasks.board.board_view import BoardView, ShownQuestion, VoiceRow


def board_report(found: BoardView) -> RenderableType:
    parts: list[RenderableType] = [Text(f"Board of run {found.run_id}, {found.state}", style="bold")]
    parts += [Text("\nSignals", style="bold"), *(line for row in found.signals for line in _signal(row))]
    parts += [Text("\nQuestions", style="bold"), *(line for row in found.questions for line in _question(row))]
    labels = {row.id: row.label for row in found.questions}
    for number in sorted({row.round for row in found.forecasts}):
        parts.append(Text(f"\nForecasts of round {number}", style="bold"))
        for row in found.forecasts:
            if row.round == number:
                judged = [one for one in found.citations if one.forecast_id == row.id]
                parts += _forecast(labels[row.question_id], row, judged)
    if found.positions:
        parts += [Text("\nPlay money", style="bold")]
        parts += [
            Text(
                f"  {labels[one.question_id]} {one.side}: {one.shares:g} shares at {one.price:.2f}, cost {one.cost:.2f}"
            )
            for one in found.positions
        ]
    if (voices := voices_report(found.voices)) is not None:
        parts += ["", voices]
    if found.tally is not None:
        parts += ["", tally_report(found.tally)]
    return Group(*parts)


def tally_report(found: Episode) -> RenderableType:
    return Text(inert(found.content).rstrip())


def voices_report(rows: Sequence[VoiceRow]) -> RenderableType | None:
    if not rows:
        return None
    whole = table(_VOICES, rows)
    reasons = [
        Text(f"  {row.voice}, round {row.round}: {paragraph(why)}", style="dim")
        for row in rows
        for why in (*([row.reason] if row.reason else []), *row.left_out)
    ]
    return Group(Text("Voices", style="bold"), whole, *reasons)


_VOICES: dict[str, Callable[[VoiceRow], str]] = {
    "Round": lambda row: str(row.round),
    "Voice": lambda row: row.voice,
    "State": lambda row: "running" if row.running else row.status or row.state,
    "Forecasts": lambda row: str(row.forecasts),
    "Thread": lambda row: row.thread or "-",
    "Turn": lambda row: row.turn or "-",
}


def _signal(row: Signal) -> Iterable[RenderableType]:
    confidence = f", confidence {row.confidence:.2f}" if row.confidence is not None else ""
    yield Text.assemble(
        f"  {inert(row.label)} ",
        state(row.state),
        f" {row.direction}{confidence}, of {row.owner}" if row.state == "live" else "",
    )
    yield Indented(Text(paragraph(row.headline)), 4)


def _question(row: ShownQuestion) -> Iterable[RenderableType]:
    baseline = f"{row.baseline:.0%}" if row.baseline is not None else "none, not forecast"
    outcome = f", outcome {row.outcome:g}" if row.outcome is not None else ""
    yield Text(f"  {row.label} {paragraph(row.text)}")
    yield Indented(Text(f"baseline {baseline}, closes {row.closes_at:%Y-%m-%d}, {row.state}{outcome}", style="dim"), 4)


def _forecast(label: str, row: Forecast, judged: Sequence[SignalCitation]) -> Iterable[RenderableType]:
    chain = f", chain {' + '.join(map(inert, row.chain))}" if row.chain else ""
    yield Text(f"  {label} {row.voice}: {row.probability:.1%}, stake {row.stake:.2f}{chain}")
    yield Indented(Text(paragraph(row.because), style="dim"), 4)
    if row.change is not None:
        yield Indented(Text(f"wrong if: {paragraph(row.change)}", style="dim"), 4)
    for one in judged:
        word, style = ("counts", "green") if one.counts else ("void", "yellow")
        yield Indented(_citation(one.label, one.stance, (word, style), one.reason, one.claim), 4)
    for cited in () if judged else row.citations:
        waiting = ("not judged yet", "dim")
        yield Indented(_citation(cited["signal"], cited["stance"], waiting, None, cited["claim"]), 4)


def _citation(label: str, stance: str, decided: tuple[str, str], reason: str | None, claim: str) -> Text:
    why = f" ({paragraph(reason)})" if reason else ""
    return Text.assemble(f"{inert(label)} {stance} ", decided, f"{why}: {paragraph(claim)}")
