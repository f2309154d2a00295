"""Questions on a terminal: a list, one question, a pass of resolution, an import."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any
from zoneinfo import ZoneInfo

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from chordesk.models.tables.board import Question
from chordesk.tasks.cli.output import paragraph
from chordesk.tasks.cli.render.runs import SHORT_ID
from chordesk.tools.questions.importing import ImportReport
from chordesk.tools.questions.resolving import NotedLine, ResolveReport

# Of an id, enough to be the only one that begins so among thousands of the same millisecond.
SHORT_QUESTION = 20
MOST_LINES = 10  # of one kind; --json has all
_NEW_YORK = ZoneInfo("America/New_York")
_STYLES = {"resolved": "green", "void": "yellow"}
Row = Mapping[str, Any]


def question_list(rows: Sequence[Question]) -> Table:
    """Return a table with one line a question; ids are cut to what `desk questions show` needs."""
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    for name in ("Question", "Source", "Closes", "Baseline", "State"):
        table.add_column(name, no_wrap=True)
    table.add_column("Text", no_wrap=True, overflow="ellipsis")
    for row in rows:
        table.add_row(
            row.id[:SHORT_QUESTION],
            row.source,
            _time(row.closes_at),
            _probability(row.baseline),
            Text(state_text(row.model_dump()), style=_STYLES.get(row.state, "")),
            paragraph(row.text),
        )
    return table


def state_text(row: Row) -> str:
    """Return a question's state with its outcome, and a mark where there is a note on it."""
    outcome = f" {row['outcome']:g}" if row["outcome"] is not None else ""
    return f"{row['state']}{outcome}{'*' if row['note'] else ''}"


def question_report(found: Row) -> RenderableType:
    """Return a question with its rule, its outcome and the evidence, and what it scores."""
    row = found["question"]
    lines = [Text.assemble(("question ", "bold"), f"{row['id']}: ", (state_text(row), _STYLES.get(row["state"], "")))]
    lines.append(Text(paragraph(row["text"])))
    lines.append(Text(f"asked by {paragraph(row['author'])}, {row['source']}{_of_market(row)}"))
    lines.append(Text(f"open from {_time(row['opens_at'])} to {_time(row['closes_at'])} New York"))
    lines.append(Text(f"baseline {_probability(row['baseline'])}, {paragraph(row['baseline_source'])}"))
    lines.append(Text(f"rule: {_rule(row['rule'])}"))
    lines += [Text(f"page: {paragraph(row['url'])}")] if row["url"] else []
    lines += [Text(f"note: {paragraph(row['note'])}", style="yellow")] if row["note"] else []
    lines += [*_outcome(row), *_scored(found)]
    return Group(*lines)


def _of_market(row: Row) -> str:
    return f", resolved from bars of the {row['market']} market" if row["market"] else ""


def _rule(rule: Row) -> str:
    if rule["kind"] == "beats_median":
        whole = paragraph(rule["universe"], 60)
        return (
            f"yes when the return of {rule['symbol']} from the close of {rule['day']}, {rule['sessions']} sessions on, "
            f"is above the median of {whole}; half when it equals it"
        )
    if rule["kind"] == "venue":
        return f"the outcome that {rule['venue']} gives its market {paragraph(rule['id'])}"
    return "the outcome that a person enters"


def _outcome(row: Row) -> Iterator[Text]:
    if row["resolved_at"] is None:
        return
    what = "void" if row["outcome"] is None else f"outcome {row['outcome']:g}"
    yield Text(f"{what}, by {paragraph(row['resolved_by'])} at {row['resolved_at']:%Y-%m-%d %H:%M:%S} UTC")
    for name, value in (row["evidence"] or {}).items():
        yield Text(f"  {name}: {_shown(value)}", style="dim")


def _scored(found: Row) -> Iterator[Text]:
    for row in found["verdicts"]:
        yield Text(f"verdict {row['rating']} ({row['confidence']}) of run {row['run_id'][:SHORT_ID]}")
    for row in found["forecasts"][:MOST_LINES]:
        yield Text(
            f"forecast {_probability(row['probability'])} of {row['voice']}, round {row['round']}, "
            f"{_time(row['market_at'])}, run {row['run_id'][:SHORT_ID]}: {paragraph(row['because'], 120)}"
        )
    if (more := len(found["forecasts"]) - MOST_LINES) > 0:
        yield Text(f"  and {more} more forecasts (--json has them)")
    for row in found["positions"]:
        ended = f", paid {row['payout']:g}" if row["payout"] is not None else ""
        yield Text(f"play money: {row['shares']:g} shares of {row['side']} for {row['cost']:g}{ended}")


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_shown(each)}" for name, each in value.items())
    if isinstance(value, list):
        return "; ".join(map(_shown, value))
    return paragraph(str(value))


def resolve_report(report: ResolveReport) -> RenderableType:
    """Return what came of each question that was due."""
    resolved = [f"{_ended(row.outcome):>4}  {row.id}  {paragraph(row.text)}" for row in report.resolved]
    lines = [
        f"{report.market} at {_time(report.as_of)} New York: {len(report.resolved)} resolved, "
        f"{len(report.waiting)} past their deadline and still open",
        *_most(resolved),
        *_most(_noted("open", report.waiting)),
        *_most(_noted("kept", report.changed)),
    ]
    if report.late:
        lines.append(f"booked for this account on {report.late} that had ended before")
    return Group(*(Text(line) for line in lines))


def _ended(outcome: float | None) -> str:
    return "void" if outcome is None else f"{outcome:g}"


def _noted(what: str, rows: Iterable[NotedLine]) -> list[str]:
    return [f"{what}  {row.id}  {paragraph(row.text)}: {paragraph(row.note)}" for row in rows]


def _most(lines: Sequence[str]) -> list[str]:
    more = len(lines) - MOST_LINES
    return [*lines[:MOST_LINES], *([f"and {more} more (--json has them)"] if more > 0 else [])]


def import_report(report: ImportReport) -> RenderableType:
    """Return what came of each of a venue's markets, and what was left out."""
    lines = [f"{report.venue}: {len(report.questions)} questions"]
    for row in report.questions:
        price = _probability(row.baseline) if row.baseline is not None else "not forecast"
        closes = f"closes {_time(row.closes_at)}"
        lines.append(f"{row.came:<9}  {row.id}  {price}, {paragraph(row.source)}, {closes}: {paragraph(row.text)}")
    lines += [f"left out: {count} {why}" for why, count in report.left_out.items()]
    if report.unpriced:
        lines.append(f"{report.unpriced} without a price are not forecast until they have one")
    if not report.whole:
        lines.append("the venue has more; --limit asks for them")
    return Group(*(Text(line) for line in lines))


def _probability(value: float | None) -> str:
    return f"{value:.3f}" if value is not None else "-"


def _time(moment: dt.datetime) -> str:
    return f"{moment.astimezone(_NEW_YORK):%Y-%m-%d %H:%M}"
