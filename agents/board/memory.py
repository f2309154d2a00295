"""A voice's memory: what code kept of it, as text of a bounded length for its prompt."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from chordesk.agents.board.texts import outside, percent, quoted
from chordesk.models.board.karma import KarmaSum
from chordesk.tools.scoring.errors import DatedMean

MOST_CHARS = 2_400
MOST_POSITIONS, QUESTION_CHARS = 12, 140
MOST_TOOLS = 12


@dataclass(frozen=True, slots=True)
class PastRecord:
    """A voice's scores over resolved questions; None before the first."""

    brier: DatedMean | None = None
    alpha: DatedMean | None = None


@dataclass(frozen=True, slots=True)
class PastPosition:
    """A last forecast of an earlier episode. known_at: market time from which the outcome is known, None while the
    question is open or void."""

    question: str
    probability: float
    baseline: float
    at: dt.datetime
    outcome: float | None = None
    known_at: dt.datetime | None = None


def voice_memory(
    record: PastRecord,
    last_positions: Iterable[PastPosition],
    karma: Mapping[KarmaSum, float],
    *,
    now: dt.datetime,
    unused: Sequence[str] = (),
) -> str:
    """Return a voice's memory: its record, karma, last positions newest first, and tools that no voice used last time.

    now: market time. A position taken, or an outcome known, later than that is left out, so that a replay of an earlier
    day has none of them. Empty before a first position, karma or record.
    """
    past = sorted((one for one in last_positions if one.at <= now), key=lambda one: (one.at, one.question))
    sums = {one: karma[one] for one in KarmaSum if one in karma}
    if not past and not sums and record.brier is None and not unused:
        return ""
    lines = [_record(record), _karma(sums)]
    if unused:
        lines.append("No voice used last time: " + ", ".join(outside(one, 40) for one in unused[:MOST_TOOLS]) + ".")
    length = sum(map(len, lines)) + len(lines)
    shown = past[: -MOST_POSITIONS - 1 : -1]
    if shown:
        lines.append("Last positions:")
        length += len(lines[-1]) + 1
    for one in shown:
        line = _position(one, now)
        if length + len(line) + 1 > MOST_CHARS:
            break
        lines.append(line)
        length += len(line) + 1
    return "\n".join(lines)


def _record(record: PastRecord) -> str:
    if record.brier is None or record.alpha is None:
        return "Record: no resolved question yet."
    return (
        f"Record: {record.brier.n} resolved questions on {record.brier.dates} dates, Brier {record.brier.mean:.3f}, "
        f"alpha {_signed(record.alpha.mean)} ({_error(record.alpha)}). Above 0 beats the baseline."
    )


def _error(alpha: DatedMean) -> str:
    return "its error is not known yet" if alpha.error is None else f"standard error {alpha.error:.4f}"


def _karma(sums: Mapping[KarmaSum, float]) -> str:
    if not sums:
        return "Karma: none booked yet."
    return "Karma: " + ", ".join(f"{one.value} {value:+.2f}" for one, value in sums.items()) + "."


def _position(one: PastPosition, now: dt.datetime) -> str:
    known = one.outcome is not None and one.known_at is not None and one.known_at <= now
    end = f"outcome {percent(one.outcome)}" if known else "open"
    return (
        f"- {one.at:%Y-%m-%d} {quoted(one.question, QUESTION_CHARS)}: {percent(one.probability)} "
        f"against {percent(one.baseline)}, {end}"
    )


def _signed(value: float) -> str:
    return f"{value:+.4f}"
