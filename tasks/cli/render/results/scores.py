"""Terminal output of scores and calibrations."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from chordesk.tasks.cli.output import table
from chordesk.tasks.views.scores import KINDS, BucketRow, MeanRow, PartRow, ScoreBoard, ScoreRow
from chordesk.tools.scoring.verdict_calibration import LEAST_DATES, VerdictOdds
from chordesk.tools.scoring.voices import LEAST_RESOLVED

_TITLES = {
    "voice": "Voices, by their last position",
    "tool": "Tools, by what their signals implied",
    "lens": "Lenses, by their record up to each day",
    "role": "Roles, by their record up to each day",
    "rating": "Verdicts, by their record up to each day",
}
_COLUMNS = ("Questions", "Dates", "Brier", "Log", "Alpha")


def score_report(board: ScoreBoard, *, in_detail: bool = False) -> RenderableType:
    """Return the scores by kind, or all that is known of a single source."""
    states = ", ".join(f"{count} {state}" for state, count in board.questions.items()) or "none yet"
    head = [Text(f"Account {board.account}. Questions: {states}.")]
    if not board.rows:
        return Group(*head, Text("No forecast of a resolved question to score yet."))
    parts: list[RenderableType] = [*head]
    for kind in KINDS:
        if rows := [row for row in board.rows if row.kind == kind]:
            parts += ["", _table(_TITLES[kind], "Name", ((row.name, row) for row in rows))]
    if board.crowd:
        parts += ["", _table("All voices together, same questions", "Round", _named(board.crowd.rounds))]
        parts.append(Text(f"Round 2 gained {_signed(board.crowd.gain)}; round {board.crowd.better_round} is used."))
    if in_detail:
        parts += [part for row in board.rows for part in _detail(row)]
    parts += [
        "",
        Text(f"Alpha is against the baseline, above 0 is skill; .018 shows from {LEAST_RESOLVED} questions on."),
    ]
    return Group(*parts)


def odds_report(found: Sequence[VerdictOdds], least: int) -> RenderableType:
    """Return a line for each model, rating and confidence: its probability, or how far it is from enough."""
    if not found:
        return Text(f"not enough: 0 of {least} resolved questions on verdicts")
    return Group(*(Text(f"{one.author}: {one.rating} {one.confidence}: {_odds(one, least)}") for one in found))


def _odds(one: VerdictOdds, least: int) -> str:
    left_out = f"; {one.contaminated} before the model's cutoff left out" if one.contaminated else ""
    if one.probability is None or one.low is None or one.high is None:
        return f"not enough: {one.n} of {least} resolved questions, {one.dates} of {LEAST_DATES} dates{left_out}"
    interval = f"{one.low:.0%} to {one.high:.0%}"
    return f"{one.probability:.0%} beat the median ({interval}), {one.n} questions on {one.dates} dates{left_out}"


def _named(parts: Iterable[PartRow]) -> Iterable[tuple[str, PartRow]]:
    return ((part.name, part) for part in parts)


def _table(title: str, first: str, rows: Iterable[tuple[str, ScoreRow | PartRow]]) -> Table:
    cells = [(name, str(row.brier.n), str(row.brier.dates), *_points(row)) for name, row in rows]
    return table((first, *_COLUMNS), cells, title=title)


def _points(row: ScoreRow | PartRow) -> tuple[str, str, str]:
    if isinstance(row, ScoreRow) and row.unrecorded == row.forecasts:
        return "-", "-", "no record yet"
    return f"{row.brier.mean:.4f}", f"{row.log.mean:.3f}", _signed(row.alpha)


def _detail(row: ScoreRow) -> Iterable[RenderableType]:
    if row.karma:
        yield Text(f"\nKarma: conduct {row.karma.conduct:+.1f}, skill {row.karma.skill:+.1f}")
    if row.rounds:
        yield ""
        yield _table("By round", "Round", _named(row.rounds))
    if row.revision:
        yield Text(f"Round 2 gained {_signed(row.revision)} over {row.revision.n} questions.")
    yield ""
    yield _table("By the model's cutoff", "Side", _named(row.sides))
    if row.labels:
        yield ""
        yield _table("By judgement", "Judgement", _named(row.labels))
        cells = [(one.name, str(one.rate.n), str(one.rate.dates), _share(one.rate)) for one in row.labels]
        yield ""
        yield table(("Judgement", "Questions", "Dates", "Came true"), cells)
    if row.unrecorded:
        yield Text(f"{row.unrecorded} of {row.forecasts} came before their label had a record: worth the baseline.")
    buckets = [
        (f"{one.low:.0%}-{one.high:.0%}", str(one.n), f"{one.forecast:.1%}", f"{one.rate:.1%}", _interval(one))
        for one in row.calibration
    ]
    yield ""
    yield table(("Forecast", "Questions", "Mean", "Came true", "95 %"), buckets, title="Calibration")


def _interval(one: BucketRow) -> str:
    return f"{one.least:.0%} to {one.most:.0%}"


def _signed(found: MeanRow) -> str:
    return f"{found.mean:+.4f} ± {found.error:.4f}" if found.error is not None else f"{found.mean:+.4f}, no error yet"


def _share(found: MeanRow) -> str:
    return f"{found.mean:.1%} ± {found.error:.1%}" if found.error is not None else f"{found.mean:.1%}, no error yet"
