"""Questions that a person asks, and outcomes that a person enters."""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Sequence

from sqlmodel import Session

from chordesk.models.answers import spelled
from chordesk.models.errors import UsageError
from chordesk.models.questions import PEOPLES, ByPerson, QuestionSource, QuestionState
from chordesk.models.tables.board import Question
from chordesk.models.text import NEW_YORK, new_york, one_line, utc
from chordesk.tools.market.universe import SYMBOL_RULE, is_symbol
from chordesk.tools.questions.asking import MOST_TEXT, ask_once, question_row
from chordesk.tools.questions.medians import Resolved

CLOSING_TIME = dt.time(16)  # of a day given without a time, in New York
_VOID = "void"
_OUTCOMES = {"yes": 1.0, "no": 0.0, _VOID: None}


def add_question(
    session: Session,
    text: str,
    closes_at: dt.datetime,
    by: str,
    now: dt.datetime,
    *,
    opens_at: dt.datetime | None = None,
    baseline: float | None = None,
    about: Sequence[str] = (),
) -> Question:
    """now: market time, and its opening unless given; baseline: 0.5 unless given. Raises UsageError for an invalid
    question."""
    asked, opens = question_text(text), opens_at or now
    if closes_at <= now:
        reason = f"--closes {_shown(closes_at)} has passed: it is {_shown(now)}"
        raise UsageError(reason, remedy="give a time to come; in a replay the time is that of its day")
    if closes_at <= opens:
        reason = f"it would close at {_shown(closes_at)}, and opens at {_shown(opens)}"
        raise UsageError(reason, remedy="give a --closes after --opens")
    if baseline is not None and not 0 < baseline < 1:
        raise UsageError(f"--baseline {baseline:g} is no probability to beat", remedy="give one between 0 and 1")
    row = question_row(
        source=QuestionSource.PERSON,
        market="",
        external_id=question_key(asked, closes_at),
        text=asked,
        rule=ByPerson().model_dump(mode="json"),
        subjects=symbols_of(about),
        opens_at=opens,
        closes_at=closes_at,
        baseline=0.5 if baseline is None else baseline,
        baseline_source="even odds" if baseline is None else f"given by {by}",
        author=by,
    )
    stored = ask_once(session, row)
    if stored.id != row.id:
        raise UsageError(
            f"it was asked already, as {stored.id} by {stored.author}", remedy="change its text or closing"
        )
    return stored


def question_key(text: str, closes_at: dt.datetime) -> str:
    """Return what distinguishes a person's question: the same text and closing are the same question."""
    return hashlib.sha256(f"{text.casefold()}\n{closes_at.astimezone(dt.UTC).isoformat()}".encode()).hexdigest()[:32]


def moment_of(option: str, text: str, *, at: dt.time = CLOSING_TIME) -> dt.datetime:
    """at: the time of a day without one; New York unless the text has an offset. Raises UsageError."""
    try:
        if len(text.strip()) == len("2010-08-12"):
            found = dt.datetime.combine(dt.date.fromisoformat(text.strip()), at, NEW_YORK)
        else:
            found = dt.datetime.fromisoformat(text.strip())
        found = found if found.tzinfo is not None else found.replace(tzinfo=NEW_YORK)
        # At either end of the calendar a time can have no equal in another zone.
        for zone in (dt.UTC, NEW_YORK):
            found.astimezone(zone)
    except (ValueError, OverflowError):
        raise UsageError(
            f"{option} {text!r} is no time", remedy="write 2026-12-01, or 2026-12-01T15:30 in New York's time"
        ) from None
    return found


def outcome_of(text: str) -> float | None:
    """Return the outcome that a person gives: yes, no, 0 to 1, or None for void. Raises UsageError."""
    given = text.strip().lower()
    if given in _OUTCOMES:
        return _OUTCOMES[given]
    try:
        value = float(given)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:  # a NaN, too
        raise UsageError(f"--outcome {text!r} is no outcome", remedy="give yes, no, void, or 0 to 1")
    return value


def entered(question: Question, outcome: float | None, why: str, by: str, now: dt.datetime) -> Resolved:
    """Return the outcome that a person enters, with its evidence. now: market time. A question that code or a venue
    resolves can only be declared void, once its deadline has passed without data. Raises UsageError for another, and
    for a question that has ended: it resolves once."""
    if question.state != QuestionState.OPEN:
        raise UsageError(f"question {question.id} {ended_text(question)}", remedy="a question resolves once")
    if question.source not in PEOPLES and outcome is not None:
        reason = f"question {question.id} is resolved by {_resolver(question)}, not by a person"
        raise UsageError(reason, remedy="leave --outcome out, or give void if it can never have one")
    if question.source not in PEOPLES and question.closes_at > now:
        reason = f"question {question.id} closes at {_shown(question.closes_at)}, and it is {_shown(now)}"
        raise UsageError(reason, remedy="wait until it has closed")
    return Resolved(outcome, {"source": f"a person, {by}", "why": why, "as_of": now.isoformat()})


def ended_text(question: Question) -> str:
    """Return how and when a question that has ended did so, and by which hand."""
    what = "is void" if question.outcome is None else f"was resolved to {question.outcome:g}"
    when = f", {utc(question.resolved_at)}" if question.resolved_at is not None else ""
    return f"{what} by {question.resolved_by}{when}"


def _resolver(question: Question) -> str:
    return f"the bars of the {question.market} market" if question.market else question.source


def question_text(text: str) -> str:
    asked = one_line(text)
    if not asked or len(asked) > MOST_TEXT:
        raise UsageError(f"a question of {len(asked)} characters", remedy=f"give 1 to {MOST_TEXT}")
    return asked


def symbols_of(about: Sequence[str]) -> list[str]:
    symbols = list(dict.fromkeys(spelled(one) for one in about if one.strip()))
    for one in symbols:
        if not is_symbol(one):
            raise UsageError(f"--about {one[:40]!r} is no symbol", remedy=f"a symbol is {SYMBOL_RULE}")
    return symbols


def _shown(moment: dt.datetime) -> str:
    return new_york(moment)
