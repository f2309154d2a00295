"""Questions on a terminal: lists, resolutions, imports, pairs, positions, and scores over those that resolved."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from chordesk.models.exchanges import at_listing
from chordesk.models.text import NEW_YORK, SHORT_ID, new_york, utc_seconds
from chordesk.tasks.cli.output import bounded, facts, paragraph, state, table
from chordesk.tools.board.event_positions import MOST_HEAT, EventLedger, HeldEvent
from chordesk.tools.scoring.inference import LEAST_SPANS, Estimate, reach_text
from chordesk.tools.scoring.verdict_calibration import LEAST_DATES, VerdictOdds
from chordesk.tools.scoring.voice_scores import LEAST_RESOLVED

if TYPE_CHECKING:
    from chordesk.models.tables.board import Forecast, Question
    from chordesk.tasks.reading.scores import PartRow, QuestionDetail, ScoreBoard, ScoreRow
    from chordesk.tools.board.question_files import FolderReport
    from chordesk.tools.board.venue_questions import ImportReport
    from chordesk.tools.board.venues.pairs import Comparison, PairedQuestions, PairSurvey
    from chordesk.tools.questions.resolving import ResolveReport
    from chordesk.tools.scoring.statistics import CalibrationRow

# Of an id, enough to be the only one that begins so among thousands of the same millisecond.
SHORT_QUESTION = 20
MOST_DETAIL = 600  # characters of criteria and background
MOST_LINES = 10  # of one kind; --json has all


def question_list(rows: Sequence[Question]) -> Table:
    """Return a table with one line a question; ids are cut to what `desk questions show` needs."""
    return table(_QUESTIONS, rows, narrow="Text")


_QUESTIONS: dict[str, Callable[[Question], str | Text]] = {
    "Question": lambda row: row.id[:SHORT_QUESTION],
    "Source": lambda row: row.source,
    "Closes": lambda row: _time(row.closes_at),
    "Baseline": lambda row: _probability(row.baseline),
    "State": lambda row: state(row.state, state_text(row)),
    "Text": lambda row: paragraph(row.text),
}


def state_text(row: Question) -> str:
    outcome = f" {row.outcome:g}" if row.outcome is not None else ""
    return f"{row.state}{outcome}{'*' if row.note else ''}"


def question_report(found: QuestionDetail) -> RenderableType:
    row = found.question
    pairs: list[tuple[str, str | Text]] = [
        ("asked by", f"{paragraph(row.author)}, {row.source}{_of_market(row)}"),
        ("open", f"from {_time(row.opens_at)} to {_closing(row)}"),
        ("baseline", f"{_probability(row.baseline)}, {paragraph(row.baseline_source)}"),
        ("rule", _rule(row.rule)),
        *([("page", paragraph(row.url))] if row.url else []),
        *([("criteria", paragraph(row.criteria, MOST_DETAIL))] if row.criteria else []),
        *([("background", paragraph(row.background, MOST_DETAIL))] if row.background else []),
        *([("note", Text(paragraph(row.note), style="yellow"))] if row.note else []),
    ]
    head = Text.assemble(("question ", "bold"), f"{row.id}: ", state(row.state, state_text(row)))
    return Group(head, Text(paragraph(row.text)), facts(pairs), *_outcome(row), *_scored(found))


def _of_market(row: Question) -> str:
    return f", resolved from bars of the {row.market} market" if row.market else ""


def _rule(rule: Mapping[str, Any]) -> str:
    if rule["kind"] == "beats_median":
        whole = paragraph(rule["universe"], 60)
        return (
            f"yes when the return of {rule['symbol']} from the close of {rule['day']}, {rule['sessions']} sessions on, "
            f"is above the median of {whole}; half when it equals it"
        )
    if rule["kind"] == "venue":
        return f"the outcome that {rule['venue']} gives its market {paragraph(rule['id'])}"
    return "the outcome that a person enters"


def _outcome(row: Question) -> Iterator[Text]:
    if row.resolved_at is None:
        return
    what = "void" if row.outcome is None else f"outcome {row.outcome:g}"
    yield Text(f"{what}, by {paragraph(row.resolved_by)} at {utc_seconds(row.resolved_at)}")
    for name, value in (row.evidence or {}).items():
        yield Text(f"  {name}: {_shown(value)}", style="dim")


def _scored(found: QuestionDetail) -> Iterator[RenderableType]:
    for row in found.verdicts:
        yield Text(f"verdict {row.rating} ({row.confidence}) of run {row.run_id[:SHORT_ID]}")
    yield from bounded(found.forecasts, MOST_LINES, _forecast, " forecasts")
    for held in found.positions:
        ended = f", paid {held.payout:g}" if held.payout is not None else ""
        yield Text(f"play money: {held.shares:g} shares of {held.side} for {held.cost:g}{ended}")


def _forecast(row: Forecast) -> Text:
    return Text(
        f"forecast {_probability(row.probability)} of {row.voice}, round {row.round}, "
        f"{_time(row.market_at)}, run {row.run_id[:SHORT_ID]}: {paragraph(row.because, 120)}"
    )


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_shown(each)}" for name, each in value.items())
    if isinstance(value, list):
        return "; ".join(map(_shown, value))
    return paragraph(str(value))


def resolve_report(report: ResolveReport) -> RenderableType:
    head = (
        f"{report.market} at {new_york(report.as_of)}: {len(report.resolved)} resolved, "
        f"{len(report.waiting)} past their deadline and still open"
    )
    resolved = [f"{_ended(row.outcome):>4}  {row.id}  {paragraph(row.text)}" for row in report.resolved]
    parts = (resolved, _noted("open", report.waiting), _noted("kept", report.changed))
    late = [Text(f"booked for this account on {report.late} that had ended before")] if report.late else []
    return Group(Text(head), *(line for part in parts for line in bounded(part, MOST_LINES, Text)), *late)


def _ended(outcome: float | None) -> str:
    return "void" if outcome is None else f"{outcome:g}"


def _noted(what: str, rows: Iterable[Question]) -> list[str]:
    return [f"{what}  {row.id}  {paragraph(row.text)}: {paragraph(row.note)}" for row in rows]


def import_report(report: ImportReport) -> RenderableType:
    lines = [f"{report.venue}: {len(report.questions)} questions"]
    for line in report.questions:
        row = line.question
        price = _probability(row.baseline) if row.baseline is not None else "not forecast"
        source, closes = paragraph(row.baseline_source), f"closes {_time(row.closes_at)}"
        lines.append(f"{line.came:<9}  {row.id}  {price}, {source}, {closes}: {paragraph(row.text)}")
    lines += [f"left out: {count} {why}" for why, count in report.left_out.items()]
    if report.unpriced:
        lines.append(f"{report.unpriced} without a price are not forecast until they have one")
    if not report.whole:
        lines.append("the venue has more; --limit asks for them")
    return Group(*(Text(line) for line in lines))


def folder_report(report: FolderReport) -> RenderableType:
    lines = [
        f"{report.files} files: {report.new:,} new questions, {report.changed:,} changed, {report.same:,} the same, "
        f"{len(report.set_aside):,} rows set aside"
    ]
    aside = [f"{one.file}, {f'row {one.row}' if one.row else 'whole'}: {one.reason}" for one in report.set_aside]
    return Group(*map(Text, lines), *bounded(aside, MOST_LINES, lambda line: Text(paragraph(line))))


def _closing(row: Question) -> str:
    return at_listing(row.closes_at, str(row.rule.get("symbol", "")))


def _probability(value: float | None) -> str:
    return f"{value:.3f}" if value is not None else "-"


def _time(moment: dt.datetime) -> str:
    return f"{moment.astimezone(NEW_YORK):%Y-%m-%d %H:%M}"


_PAIR_TITLE = 100


def pairs_report(found: Sequence[PairedQuestions]) -> str:
    if not found:
        return "No pairs. `desk questions pairs --suggest` looks for likely ones among the open questions of venues."
    return "\n\n".join(pair_line(one) for one in found)


def pair_line(paired: PairedQuestions) -> str:
    return "\n".join(_lines(paired))


def survey_report(survey: PairSurvey) -> str:
    parts = ["\n".join([*_lines(one.paired), f"  {_difference(one.comparison)}"]) for one in survey.compared]
    parts += [f"{pair}: {paragraph(reason)}" for pair, reason in survey.failed.items()]
    return "\n\n".join(parts) or pairs_report([])


def _lines(paired: PairedQuestions) -> Iterable[str]:
    row = paired.pair
    decided = f" by {paragraph(row.decided_by)} on {row.decided_at:%Y-%m-%d}" if row.decided_at else ""
    inverse = ", one the inverse of the other" if row.inverse else ""
    why = f": {paragraph(row.why)}" if row.why else ""
    yield f"{row.state}{decided}{inverse}{why} (titles {row.score:.0f} % alike)"
    for question in (paired.first, paired.second):
        yield _question(question)


def _question(question: Question) -> str:
    text = paragraph(question.text, _PAIR_TITLE)
    return f"  {question.id}  {question.source:<10}  closes {question.closes_at:%Y-%m-%d %H:%M}  {text}"


def _difference(comparison: Comparison) -> str:
    gap = "no price on a side" if comparison.gap is None else f"gap {comparison.gap:+.3f}"
    sure = f", confidence {comparison.confidence:.2f}" if comparison.confidence is not None else ""
    return f"{comparison.kind}, {gap}: {comparison.basis}{sure}"


_POSITION_TITLE = 60


def ledger_report(ledger: EventLedger) -> RenderableType:
    share = ledger.staked / ledger.bankroll if ledger.bankroll > 0 else 1.0
    head = (
        f"Account {ledger.account}: play money of {ledger.bankroll:,.2f}, {ledger.start:,.2f} at the start and "
        f"{ledger.realised:+,.2f} realised; {ledger.staked:,.2f} staked, {share:.0%} of at most {MOST_HEAT:.0%}."
    )
    if not ledger.positions:
        return Group(Text(head), Text("No event position."))
    return Group(Text(head), "", table(_POSITIONS, ledger.positions))


_POSITIONS: dict[str, Callable[[HeldEvent], str]] = {
    "Opened": lambda held: f"{held.position.opened_at:%Y-%m-%d}",
    "Venue": lambda held: held.question.source,
    "Question": lambda held: paragraph(held.question.text, _POSITION_TITLE),
    "Side": lambda held: held.position.side,
    "Believed": lambda held: f"{held.position.probability:.3f}",
    "Shares": lambda held: f"{held.position.shares:,.2f}",
    "Price": lambda held: f"{held.position.price:.3f}",
    "Fee": lambda held: f"{held.position.fee:.2f}",
    "Cost": lambda held: f"{held.position.cost:.2f}",
    "Paid out": lambda held: "open" if held.position.payout is None else f"{held.position.payout:.2f}",
}


_TITLES = {
    "voice": "Voices, by their last position",
    "tool": "Tools, by what their signals implied",
    "lens": "Lenses, by their record up to each day",
    "role": "Roles, by their record up to each day",
    "rating": "Verdicts, by their record up to each day",
    "thesis": "Theses, by the probability that they state",
}
_SCORE_COLUMNS = ("Questions", "Effective", "Dates", "Brier", "Log", "Alpha")


def score_report(board: ScoreBoard, *, in_detail: bool = False) -> RenderableType:
    from chordesk.tasks.reading.scores import KINDS

    states = ", ".join(f"{count} {state}" for state, count in board.questions.items()) or "none yet"
    head = [Text(f"Account {board.account}. Questions: {states}.")]
    if not board.rows:
        return Group(*head, Text(f"Nothing to score: {board.lacking or 'nothing of this kind'}."))
    parts: list[RenderableType] = [*head]
    if board.since is not None:
        parts.append(Text(f"Scored are those that closed from {board.since:%Y-%m-%d} on; --ever scores all."))
    for kind in KINDS:
        if rows := [row for row in board.rows if row.kind == kind]:
            parts += ["", _table(_TITLES[kind], "Name", ((row.name, row) for row in rows))]
    if board.crowd:
        parts += ["", _table("All voices together, same questions", "Round", _named(board.crowd.rounds))]
        parts.append(Text(f"Round 2 gained {_signed(board.crowd.gain)}; round {board.crowd.better_round} is used."))
    if board.published:
        parts += ["", _table("What the episodes published", "Forecast", _named([board.published]))]
    if in_detail:
        parts += [part for row in board.rows for part in _detail(row)]
    parts += [
        "",
        Text(
            f"Alpha is against the baseline, above 0 is skill; .018 shows from {LEAST_RESOLVED} questions on. ± is "
            "half of the 95 % interval: so many independent questions as are effective would have it. * is told from 0 "
            "among all of its kind."
        ),
    ]
    return Group(*parts)


def odds_report(found: Sequence[VerdictOdds], least: int) -> RenderableType:
    """Return a line for each model, rating and confidence: its probability, or how far it is from enough."""
    if not found:
        return Text(f"not enough: 0 of {least} resolved questions on verdicts")
    return Group(*(Text(f"{one.author}: {one.rating} {one.confidence}: {_odds(one, least)}") for one in found))


def _odds(one: VerdictOdds, least: int) -> str:
    left_out = f"; {one.contaminated} before the model's cutoff left out" if one.contaminated else ""
    if (odds := one.found) is None:
        return (
            f"not enough: {one.n} of {least} resolved questions, {one.dates} of {LEAST_DATES} dates, "
            f"{one.spans:.1f} of {LEAST_SPANS} horizons without overlap{left_out}"
        )
    interval = f"{odds.low:.0%} to {odds.high:.0%}"
    return f"{odds.probability:.0%} beat the median ({interval}), {one.n} questions on {one.dates} dates{left_out}"


def _named(parts: Iterable[PartRow]) -> Iterable[tuple[str, PartRow]]:
    return ((part.name, part) for part in parts)


def _table(title: str, first: str, rows: Iterable[tuple[str, ScoreRow | PartRow]]) -> Table:
    cells = [(name, str(row.alpha.n), _effective(row.alpha), str(row.alpha.dates), *_points(row)) for name, row in rows]
    return table((first, *_SCORE_COLUMNS), cells, title=title)


def _points(row: ScoreRow | PartRow) -> tuple[str, str, str]:
    from chordesk.tasks.reading.scores import ScoreRow

    if isinstance(row, ScoreRow) and row.unrecorded == row.forecasts:
        return "-", "-", "no record yet"
    told = "*" if isinstance(row, ScoreRow) and row.told else ""
    return f"{row.brier.mean:.4f}", f"{row.log.mean:.3f}", _signed(row.alpha) + told


def _detail(row: ScoreRow) -> Iterable[RenderableType]:
    if row.karma is not None:
        yield Text(f"\nKarma: {row.karma:+.1f}")
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
    if row.crossed is not None:
        yield Text(f"{_share(row.crossed)} of {row.crossed.n} with a level reached their invalidation first.")
    if row.unrecorded:
        yield Text(f"{row.unrecorded} of {row.forecasts} came before their label had a record: worth the baseline.")
    buckets = [
        (f"{one.low:.0%}-{one.high:.0%}", str(one.n), f"{one.forecast:.1%}", f"{one.rate:.1%}", _interval(one))
        for one in row.calibration
    ]
    yield ""
    yield table(("Forecast", "Questions", "Mean", "Came true", "95 %"), buckets, title="Calibration")


def _interval(one: CalibrationRow) -> str:
    return "too few" if one.least is None or one.most is None else f"{one.least:.0%} to {one.most:.0%}"


def _signed(found: Estimate) -> str:
    return f"{found.mean:+.4f} {reach_text(found)}"


def _share(found: Estimate) -> str:
    return f"{found.mean:.1%} {reach_text(found, '.1%')}"


def _effective(found: Estimate) -> str:
    return "-" if found.effective is None else f"{found.effective:.0f}"
