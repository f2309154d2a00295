"""Terminal output of pairs of questions. What venues wrote cannot steer the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from chordesk.models.tables.board import Question
from chordesk.tasks.cli.output import paragraph
from chordesk.tools.venues.pairs import Comparison, PairedQuestions, PairSurvey

_TITLE = 100


def pairs_report(found: Sequence[PairedQuestions]) -> str:
    """Return each pair with its questions."""
    if not found:
        return "No pairs. `desk questions pairs --suggest` looks for likely ones among the open questions of venues."
    return "\n\n".join(pair_line(one) for one in found)


def pair_line(paired: PairedQuestions) -> str:
    """Return a pair: its state, and a line for each question."""
    return "\n".join(_lines(paired))


def survey_report(survey: PairSurvey) -> str:
    """Return each pair with how it differs now, and why others were not compared."""
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
    text = paragraph(question.text, _TITLE)
    return f"  {question.id}  {question.source:<10}  closes {question.closes_at:%Y-%m-%d %H:%M}  {text}"


def _difference(comparison: Comparison) -> str:
    gap = "no price on a side" if comparison.gap is None else f"gap {comparison.gap:+.3f}"
    sure = f", confidence {comparison.confidence:.2f}" if comparison.confidence is not None else ""
    return f"{comparison.kind}, {gap}: {comparison.basis}{sure}"
