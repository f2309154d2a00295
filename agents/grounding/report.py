"""The grounding of a report: each figure of its texts with its source, and the figures that have none."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from chordesk.agents.grounding.figure_sources import (
    Datum,
    Mentions,
    NamedRows,
    Place,
    Row,
    index_of,
    mentions,
    places,
    symbol_of,
)
from chordesk.agents.grounding.figures import MOST_FIGURES, PartialDate, Reading, months_in, read
from chordesk.agents.grounding.matching import (
    CONTRADICTED,
    NAMED,
    ROW_CHANCE,
    SENTENCE_CHANCE,
    Fit,
    Matcher,
    comparable,
    days_between,
    derive,
    fit,
    part_of,
)
from chordesk.agents.turn_answers import RecordedCall
from chordesk.models.answers import Citation, Completed, Confidence, Grounding, Outcome, Stance, Unsupported

# Figures that a text names by their row and by no term: those of a row that its sentence cites or names, those of a
# symbol's only row of a table, those that no other row has, and the money that a contract's row stands for.

# Most probable chance fit among the single rows of a symbol, and among all rows.
SINGLE_CHANCE, UNIQUE_CHANCE = 0.08, 0.02
# A figure of three digits is seldom in two rows by chance, one of four hardly ever.
THREE_DIGITS, FOUR_DIGITS = 100, 1000
# Shares of a listed option, by which its prices are quoted.
MULTIPLIER = 100.0
_MOST_NAMED = 2
_LONGEST_MONTH = 10
_MONTH_BEFORE = re.compile(r"[A-Z][a-z]{2,8}\.? ?$")
_OPTION_AFTER = re.compile(r"\s?(?:s|puts?|calls?|lines?|strikes?|contracts?|options?)\b")
_COUNTS = ("count", "size", "days")


def cited_rows(places: Sequence[Place], sources: Sequence[Sequence[Datum]]) -> list[Row]:
    found: dict[int, Row] = {}
    for place, data in zip(places, sources, strict=True):
        rows = {one.row.number: one.row for one in data if one.origin.source == "tool"}
        if len(rows) == 1 and _digits(place, THREE_DIGITS):
            found.update(rows)
    return list(found.values())


def by_row(matcher: Matcher, place: Place, cited: Sequence[Row], known: NamedRows) -> list[Datum]:
    expiring = _expiring(matcher, place)
    if expiring or place.figure.date is not None:
        return expiring
    rows = [*cited, *_contracts(matcher, known)]
    data = {id(datum): datum for row in rows for datum in matcher.index.by_row[row.number]}
    own = [one for datum in data.values() for one in comparable(datum, place, named=False, idiom=True)]
    most = SINGLE_CHANCE * (CONTRADICTED if matcher.names_a_field(place) else 1.0)
    countable = place.figure.unit == "plain" and place.figure.step >= 1
    long = _digits(place, FOUR_DIGITS) and place.figure.unit != "days"
    around = [one for one in matcher.around(place, idiom=True) if _read(one.datum) and known.level(one.datum.row)]
    single = [one for one in around if one.datum.kind not in _COUNTS and matcher.index.single(one.datum.row)]
    return (
        fit(place.figure, own, ROW_CHANCE, alone=True)
        or (fit(place.figure, single, most) if not countable else [])
        or (fit(place.figure, around, UNIQUE_CHANCE) if long else [])
    )


def product(matcher: Matcher, place: Place, cited: Sequence[Row], known: NamedRows) -> tuple[Datum, str] | None:
    """Return the unit price if the sum of money is that of one contract, or of a hundred shares."""
    if place.figure.unit != "money":
        return None
    rows = [one for one in cited if "contract" in one.names] + _contracts(matcher, known, most=len(matcher.index.data))
    data = [datum for row in rows for datum in matcher.index.by_row[row.number]] + matcher.reference()
    pool = [Fit(datum, abs(datum.value) * MULTIPLIER) for datum in data if datum.kind == "price"]
    found = fit(place.figure, pool, SENTENCE_CHANCE)
    return (found[0], f"{MULTIPLIER:g} a") if found else None


def _contracts(matcher: Matcher, known: NamedRows, most: int = _MOST_NAMED) -> list[Row]:
    strikes = (one for one in matcher.index.by_concept.get("strike", ()) if "contract" in one.row.names)
    rows = {one.row.number: one.row for one in strikes if known.level(one.row) == NAMED and _struck(one.row, known)}
    return list(rows.values()) if len(rows) <= most else []


def _expiring(matcher: Matcher, place: Place) -> list[Datum]:
    """The expiry in "the Jul 16 put", which is not a strike; the strike in "the July 29 line", which is not a date."""
    figure, date = place.figure, place.figure.date
    if date is not None:
        if figure.text[0].isdigit() or not _OPTION_AFTER.match(place.after):
            return []
        strikes = (one for one in matcher.index.by_concept.get("strike", ()) if "contract" in one.row.names)
        return [one for one in strikes if date.year is None and one.value == date.day and _month(one) == date.month]
    months = list(months_in(place.before[-_LONGEST_MONTH:])) if _MONTH_BEFORE.search(place.before) else []
    if not months or figure.unit != "plain" or figure.step != 1:
        return []
    day = PartialDate(None, months[-1], int(figure.value))
    return [one for one in matcher.index.dates if "expiry" in one.concepts and one.date and day.fits(one.date)]


def _month(datum: Datum) -> int | None:
    expiry = datum.row.names.get("expiry")
    return expiry.month if expiry else None


def _struck(row: Row, known: NamedRows) -> bool:
    names = ((name, row.names[name]) for name in ("strike", "contract") if name in row.names)
    return any(value in one.of(known.index, row.table, name) for name, value in names for one in known.stretches)


def _read(datum: Datum) -> bool:
    return datum.origin.source == "tool" and not datum.step


def _digits(place: Place, cells: int) -> bool:
    return abs(place.figure.value) >= cells * place.figure.step


# Citations and unsupported figures that a report keeps; their numbers are always of all.
KEPT = 100
LEAST_SHARE = 0.7
_LISTED = 4  # unsupported figures in a line
REFUTING = 2
_LONGEST = 80
_MOST_REFUTED = 16  # figures of a sentence
_CONFIDENCES = (Confidence.LOW, Confidence.MEDIUM, Confidence.HIGH)


Calls = Iterable[tuple[str, Mapping[str, Any], Mapping[str, Any]]]


def ground(texts: Mapping[str, str], calls: Calls, question: Mapping[str, Any]) -> Grounding:
    """Return the grounding of texts by name. calls: tool, arguments and answer of each call of the turn; question: the
    turn's subject. With n figures in the sources and k in the texts the index takes n log n, and a figure at most n, of
    which it looks at those of its field or size."""
    readings: dict[str, Reading] = {}
    left = MOST_FIGURES
    for name, text in texts.items():
        readings[name] = read(text, left)
        left -= len(readings[name].figures)
    figures = sum(len(reading.figures) + reading.more for reading in readings.values())
    if not figures:
        return Grounding(figures=0, supported=0, share=None, citations=[], unsupported=[], sourced=0)
    calls = list(calls)
    citations: list[Citation] = []
    unsupported: list[Unsupported] = []
    subject = symbol_of(question)
    matcher = Matcher(index_of(calls, question), subject)
    for name, reading in readings.items():
        for found in _text(matcher, name, places(reading)):
            (citations if isinstance(found, Citation) else unsupported).append(found)  # type: ignore[arg-type]
    return Grounding(
        figures=figures,
        supported=len(citations),
        share=round(len(citations) / figures, 4),
        citations=citations[:KEPT],
        unsupported=unsupported[:KEPT],
        sourced=sum(_is_sourced(one, calls, subject) for one in citations),
    )


def capped(confidence: str | None, grounding: Grounding | None) -> str | None:
    """With an unsupported figure at most medium, with a share below `LEAST_SHARE` low."""
    if confidence is None or grounding is None or grounding.share is None or grounding.supported == grounding.figures:
        return confidence
    most = Confidence.LOW if grounding.share < LEAST_SHARE else Confidence.MEDIUM
    return min(Confidence(confidence), most, key=_CONFIDENCES.index)


def counted(stance: str | None, *, is_grounded: bool) -> str | None:
    """Return a report's stance as it counts: invented figures confirm nothing. They reject as they did, for to leave a
    candidate out takes no risk."""
    return Stance.CAUTION if stance == Stance.CONFIRMED and not is_grounded else stance


def lack(grounding: Grounding | None) -> str | None:
    """Return in one line how many figures have no source, and the first of them; None where each has one."""
    if grounding is None or grounding.supported == grounding.figures:
        return None
    lacking = grounding.figures - grounding.supported
    named = ", ".join(one.figure for one in grounding.unsupported[:_LISTED])
    more = f" and {lacking - _LISTED} more" if lacking > _LISTED else ""
    have = "has" if lacking == 1 else "have"
    return f"{lacking} of {grounding.figures} figures {have} no source in its tool answers: {named}{more}"


def _is_sourced(one: Citation, calls: Sequence[tuple[str, Any, Any]], subject: str | None) -> bool:
    if one.call is None or one.source == "question" or one.path.startswith("/arguments"):
        return False
    value, symbol = calls[one.call][2], None
    for part in one.path.split("/")[1:]:
        if isinstance(value, Mapping):
            symbol, value = value.get("symbol", symbol), value.get(part)
        elif isinstance(value, Sequence) and not isinstance(value, str) and part.isdigit() and int(part) < len(value):
            value = value[int(part)]
    if isinstance(value, Mapping):
        symbol = value.get("symbol", symbol)
    return subject is None or symbol in (None, subject)


def _text(matcher: Matcher, name: str, found: Sequence[Place]) -> list[Unsupported]:
    carried = Mentions()
    done: list[Unsupported] = []
    for whole in _sentences(found):
        sentence = mentions(whole[0].whole.text, whole[0].whole.figures)
        rows = _rows(matcher, whole, sentence, carried)
        first = _sources(matcher, whole, rows)
        sources = _refuted(matcher, whole, list(first), carried)
        cited_in = cited_rows(whole, sources)
        for at, place in enumerate(whole):
            if not first[at] and not sources[at]:
                sources[at] = by_row(matcher, place, cited_in, rows[at][0])
        cited = [one[0] for one in sources if one]
        fitting = [one for each in sources for one in each]
        for at, place in enumerate(whole):
            source = (matcher.date(place, fitting) if place.figure.date else None) or _first(sources[at])
            if source is not None:
                done.append(_cited(name, place, source.origin.source, source))
                continue
            money = product(matcher, place, cited_in, rows[at][0])
            if money is not None:
                done.append(_cited(name, place, "derived", money[0], operation=money[1]))
                continue
            following = (whole[at + 1], _first(sources[at + 1])) if at + 1 < len(whole) else (None, None)
            done.append(_derived(matcher, name, place, cited, rows[at][1], *following))
        carried.add(sentence)
    return done


def _rows(
    matcher: Matcher, whole: Sequence[Place], sentence: Mentions, carried: Mentions
) -> list[tuple[NamedRows, NamedRows]]:
    """Return for each figure what names its row: the terms beside it and its sentence, and also the text before."""
    stretches = ((Mentions(), sentence), (Mentions(), sentence, carried))
    plain = [NamedRows(matcher.index, one, matcher.subject) for one in stretches]
    found = []
    for place in whole:
        beside = mentions(f"{place.before} {place.after}", [place.figure])
        if beside:
            one = NamedRows(matcher.index, (beside, sentence), matcher.subject)
            found.append((one, NamedRows(matcher.index, (beside, sentence, carried), matcher.subject)))
        else:
            found.append((plain[0], plain[1]))
    return found


def _sources(
    matcher: Matcher, whole: Sequence[Place], rows: Sequence[tuple[NamedRows, NamedRows]]
) -> list[list[Datum]]:
    pairs = zip(whole, rows, strict=True)
    return [[] if one.figure.date else matcher.match(one, *known) for one, known in pairs]


def _refuted(
    matcher: Matcher, whole: Sequence[Place], sources: list[list[Datum]], carried: Mentions
) -> list[list[Datum]]:
    """Without one strike or date if that gives `REFUTING` figures a source: that strike or date then has none."""
    lacking = sum(not one and place.figure.date is None for one, place in zip(sources, whole, strict=True))
    if lacking < REFUTING or len(whole) > _MOST_REFUTED:
        return sources
    for left_out in whole:
        if left_out.figure.date is None and left_out.figure.unit not in ("plain", "money"):
            continue
        others = [one for one in whole if one is not left_out]
        sentence = mentions(left_out.whole.text, [one.figure for one in others])
        found = _sources(matcher, others, _rows(matcher, others, sentence, carried))
        before = sum(bool(one) for one, place in zip(sources, whole, strict=True) if place is not left_out)
        if sum(map(bool, found)) - before >= REFUTING:
            found.insert(whole.index(left_out), [])
            return found
    return sources


def _derived(
    matcher: Matcher, name: str, place: Place, cited: Sequence[Datum], known: NamedRows,
    following: Place | None, count: Datum | None,
) -> Unsupported:  # fmt: skip
    date = days_between(matcher, place)
    if date is not None:
        return _cited(name, place, "derived", date, operation="days between asOf and this date")
    if count is not None and part_of(place, following, count):
        return _cited(name, place, "derived", count, operation="part of this count")
    found = derive(matcher, place, cited, known)
    if found is None:
        figure = place.figure
        return Unsupported(text=name, figure=figure.text[:_LONGEST], start=figure.start, end=figure.end)
    return _cited(
        name, place, "derived", found.match.datum, operation=found.operation, other_call=found.other.origin.call,
        other_path=found.other.path, other_value=_value(found.other),
    )  # fmt: skip


def _first(found: Sequence[Datum]) -> Datum | None:
    return found[0] if found else None


def _cited(name: str, place: Place, source: Any, datum: Datum, **more: Any) -> Citation:
    figure, origin = place.figure, datum.origin
    return Citation(
        text=name, figure=figure.text[:_LONGEST], start=figure.start, end=figure.end, source=source, call=origin.call,
        tool=origin.tool, path=datum.path, value=_value(datum), **more,
    )  # fmt: skip


def _value(datum: Datum) -> float | str:
    if datum.date is None:
        return datum.value
    return "-".join(f"{part:02d}" for part in datum.date if part is not None)


def _sentences(found: Sequence[Place]) -> Iterable[list[Place]]:
    group: list[Place] = []
    for place in found:
        if group and group[0].whole is not place.whole:
            yield group
            group = []
        group.append(place)
    if group:
        yield group


_TEXTS = ("summary", "headline", "reasoning", "thesis")
_LISTS = ("key_risks",)


class EndedRole(Protocol):
    """What is asked of a role's result, `agents.runner.RoleRun`: the figures of a board have no use for the runner."""

    @property
    def outcome(self) -> Outcome: ...

    @property
    def has_data(self) -> bool: ...

    @property
    def recorded(self) -> Sequence[RecordedCall]: ...

    @property
    def question(self) -> Mapping[str, Any]: ...


# Of a thesis: what it expects is no figure of a source, what it rests on is.
_POINTS = ("points_for", "points_against")


def texts_of(value: Mapping[str, Any]) -> dict[str, str]:
    """Return an answer's texts by path, without the values that code filled in."""
    found = {name: value[name] for name in _TEXTS if isinstance(value.get(name), str)}
    for name in _LISTS:
        found |= {f"{name}/{at}": text for at, text in enumerate(value.get(name) or ()) if isinstance(text, str)}
    thesis = value.get("thesis") or {}
    for name in _POINTS:
        found |= {f"thesis/{name}/{at}": one["text"] for at, one in enumerate(thesis.get(name) or ())}
    return found


def grounding_of(run: EndedRole) -> Grounding | None:
    """None where there is none, or it rests on no data. A role without tools has its question alone."""
    if not isinstance(run.outcome, Completed) or not run.has_data:
        return None
    calls = [(call.answer.tool, call.arguments, call.answer.payload) for call in run.recorded]
    return ground(texts_of(run.outcome.value), calls, run.question)
