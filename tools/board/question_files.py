"""Questions of files: ForecastBench's question sets, JSON of Metaculus and Manifold, and the desk's own CSV.

What cannot be a question is set aside with its file, its row and the reason; the others are imported.
"""

from __future__ import annotations

import csv
import datetime as dt
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel, ValidationError
from sqlmodel import Session

from chordesk.models.answers import Frozen
from chordesk.models.board.forecasts import VENUES
from chordesk.models.database.store import Store, transact
from chordesk.models.errors import DeskError, UsageError
from chordesk.models.outside import Oversized, held
from chordesk.models.questions import PEOPLES, QUESTION_FINAL, ByPerson, ByVenue, QuestionSource, QuestionState
from chordesk.models.tables.board import Question
from chordesk.models.text import csv_cell, from_csv_cell, new_york, one_line
from chordesk.tools.board.question_sets import (
    MARKETS,
    RESOLUTIONS,
    BenchQuestion,
    Outcome,
    Series,
    number,
    resolutions_in,
)
from chordesk.tools.board.venue_questions import import_markets, unfit
from chordesk.tools.board.venues.manifold import BINARY, ManifoldMarket, market_of
from chordesk.tools.board.venues.markets import VenueMarket
from chordesk.tools.market.universe import is_symbol
from chordesk.tools.questions.asking import (
    EVEN,
    EVEN_ODDS,
    MOST_TEXT,
    detail,
    question_row,
    store_questions,
    stored_questions,
)
from chordesk.tools.questions.person import moment_of, outcome_of, question_key, question_text, symbols_of
from chordesk.tools.questions.stored_questions import FROM_FILE, known_at

BATCH = 500  # questions of one transaction
PATIENCE_SECONDS = 60.0
KINDS = (".json", ".csv")
COLUMNS = (
    "question", "closes", "source", "id", "opens", "baseline", "baseline_source", "about", "criteria", "background",
    "url", "event", "state", "outcome", "resolved",
)  # fmt: skip
_NEEDED = COLUMNS[:2]
# What a later file can change of an open question; when it was first asked stays.
_CHANGING = ("text", "closes_at", "baseline", "baseline_source", "subjects", "criteria", "background", "url", "event")
_ENDING = ("state", "outcome", "resolved_at", "resolved_by", "evidence")


class SetAside(Frozen):
    """What was not imported. row: in a CSV its line, in JSON its place from 1; 0 for the whole file."""

    file: str
    row: int
    reason: str


Came = Literal["new", "changed", "same"]


class FolderReport(Frozen):
    """Questions by what came of them: new; changed: they were open, and a file states something else of them; same."""

    files: int
    new: int
    changed: int
    same: int
    set_aside: tuple[SetAside, ...]


class _Unfit(Exception):
    """Why a row cannot be a question."""


class _Read(NamedTuple):
    file: str
    row: int
    asked: Question | VenueMarket

    @property
    def key(self) -> tuple[str, str]:
        if isinstance(self.asked, Question):
            return self.asked.source, self.asked.external_id
        return self.asked.venue, self.asked.id


@dataclass(frozen=True, slots=True)
class Importing:
    """now: market time, at which what states no opening opens; real: of the prices of venues. outcomes: of question
    sets, by the set's day."""

    by: str
    now: dt.datetime
    real: dt.datetime
    outcomes: Mapping[dt.date, Mapping[Series, Sequence[Outcome]]] = field(default_factory=dict)


def import_files(store: Store, path: Path, asked: Importing) -> FolderReport:
    """Import a file, or all files of a folder and below. Of rows on the same question the first counts. Raises
    UsageError where there is no .json and no .csv."""
    files = [path] if path.is_file() else sorted(one for one in path.rglob("*") if _kind(one) in KINDS)
    if not files:
        raise UsageError(f"{path} has no .json and no .csv", remedy="name a file or a folder with question sets")
    first: dict[tuple[str, str], _Read] = {}
    aside: list[SetAside] = []
    named = {file: str(file.relative_to(path)) if path.is_dir() else file.name for file in files}
    asked = replace(asked, outcomes=_outcomes(named, aside))
    for file in files:
        name = named[file]
        for found in _rows(file, name, asked) if not _has_outcomes(file) else ():
            if isinstance(found, SetAside):
                aside.append(found)
            elif (other := first.setdefault(found.key, found)) is not found:
                reason = f"the same question is in {other.file}, row {other.row}"
                aside.append(SetAside(file=found.file, row=found.row, reason=reason))
    came = dict.fromkeys(("new", "changed", "same"), 0)
    rows = list(first.values())
    for start in range(0, len(rows), BATCH):
        for each in transact(store, partial(_write, batch=rows[start : start + BATCH], by=asked.by), PATIENCE_SECONDS):
            if isinstance(each, SetAside):
                aside.append(each)
            else:
                came[each] += 1
    return FolderReport(files=len(files), set_aside=tuple(aside), **came)


def _has_outcomes(path: Path) -> bool:
    return path.name.endswith(RESOLUTIONS)


def _outcomes(named: Mapping[Path, str], aside: list[SetAside]) -> dict[dt.date, Mapping[Series, Sequence[Outcome]]]:
    """Return the outcomes of the files that have them beside their question set; the others are set aside."""
    found: dict[dt.date, Mapping[Series, Sequence[Outcome]]] = {}
    sets = {file.name for file in named}
    for file, name in named.items():
        if not _has_outcomes(file):
            continue
        try:
            day, outcomes = resolutions_in(file)
        except (UsageError, OSError) as error:
            aside.append(SetAside(file=name, row=0, reason=_reason(error)))
            continue
        if f"{day}-llm.json" in sets:
            found[day] = outcomes
        else:
            aside.append(SetAside(file=name, row=0, reason=f"it has outcomes of {day}-llm.json, which is not here"))
    return found


def _kind(path: Path) -> str:
    return path.suffix.lower()


def _write(session: Session, batch: Sequence[_Read], by: str) -> list[Came | SetAside]:
    rows = {one.key: (one, one.asked) for one in batch if isinstance(one.asked, Question)}
    came: list[Came | SetAside] = []
    for source in dict.fromkeys(source for source, _ in rows):
        of_source = {key: found for (its, key), found in rows.items() if its == source}
        stored = stored_questions(session, [source], "", list(of_source))
        store_questions(session, [row for key, (_, row) in of_source.items() if key not in stored])
        for key, (read, row) in of_source.items():
            came.append(_changed(session, stored[key], row, read) if key in stored else "new")
    markets = [one.asked for one in batch if isinstance(one.asked, VenueMarket)]
    for line in import_markets(session, markets, by):
        came.append("new" if line.came == "new" else "same" if line.came in ("same", "ended") else "changed")
    return came


def _changed(session: Session, stored: Question, given: Question, read: _Read) -> Came | SetAside:
    if stored.state in QUESTION_FINAL:
        return "same"
    if given.closes_at <= stored.opens_at:
        reason = f"it closes at {new_york(given.closes_at)}, and is a question that opened {new_york(stored.opens_at)}"
        return SetAside(file=read.file, row=read.row, reason=reason)
    for name in (*_CHANGING, *(_ENDING if given.state in QUESTION_FINAL else ())):
        setattr(stored, name, getattr(given, name))
    return "changed" if session.is_modified(stored) else "same"


Row = Iterator[_Read | SetAside]


def _rows(file: Path, name: str, asked: Importing) -> Row:
    """Yield the questions of a file, and what of it cannot be one."""
    try:
        with file.open("rb") as opened:
            text = held(name, opened).decode("utf-8-sig", errors="surrogateescape")
        numbered = _csv_rows(text) if _kind(file) == ".csv" else _json_rows(text)
        for row, given in numbered:
            try:
                for one in _questions(given, asked):
                    yield _Read(name, row, one)
            except (_Unfit, DeskError, ValidationError, ValueError, OverflowError) as error:
                yield SetAside(file=name, row=row, reason=_reason(error))
    except (_Unfit, OSError, Oversized) as error:
        yield SetAside(file=name, row=0, reason=_reason(error))


def _reason(error: Exception) -> str:
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the row"
        return one_line(f"{where}: {first['msg']}, not {first['input']!r}", 200)
    if isinstance(error, UnicodeError):
        return "it is not in UTF-8"
    return one_line(str(error), 200)


def _csv_rows(text: str) -> Iterator[tuple[int, Any]]:
    reader = csv.DictReader(text.splitlines(keepends=True), strict=True)
    try:
        names = list(reader.fieldnames or ())
    except csv.Error as error:
        raise _Unfit(f"its first line cannot be read: {error}") from None
    if missing := [one for one in _NEEDED if one not in names]:
        raise _Unfit(f"it has no column {missing[0]}: a file of questions has {', '.join(_NEEDED)}")
    if unknown := [one for one in names if one not in COLUMNS]:
        raise _Unfit(f"its column {unknown[0]!r} is not known; known are {', '.join(COLUMNS)}")
    line = reader.line_num
    while True:
        try:
            given: Any = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            given = _Unfit(f"it cannot be read: {error}")
        yield line + 1, given
        line = reader.line_num


def _json_rows(text: str) -> Iterator[tuple[int, Any]]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _Unfit(f"it is no JSON: {error}") from None
    rows, due = found, None
    if isinstance(found, dict):
        if "resolutions" in found:
            raise _Unfit(f"it has outcomes, and no questions: name it DATE{RESOLUTIONS}, beside DATE-llm.json")
        due = found.get("forecast_due_date") if "questions" in found else None
        rows = found.get("questions", found.get("results", [found]))
    if not isinstance(rows, list):
        raise _Unfit("its questions are no list")
    for row, given in enumerate(rows, start=1):
        yield row, _Bench(due, given) if due is not None else given


class _Bench(NamedTuple):
    due: Any
    given: Any


def _questions(given: Any, asked: Importing) -> Iterable[Question | VenueMarket]:
    if isinstance(given, _Unfit):
        raise given
    json.dumps(given, ensure_ascii=False).encode()  # raises for half a character, which no database takes
    if isinstance(given, _Bench):
        return _of_bench(given, asked)
    if not isinstance(given, dict):
        raise _Unfit(f"it is no question, but {type(given).__name__}")
    if given.keys() & {"closes", None}:
        return [_of_line(given, asked)]
    if "outcomeType" in given:
        return [_of_manifold(given, asked)]
    if given.keys() & {"possibilities", "question", "group_of_questions"} and "title" in given:
        return [_of_metaculus(one, asked) for one in _asked_of_post(given)]
    raise _Unfit("it is neither a question of Metaculus nor of Manifold")


def _row(asked: Importing, source: QuestionSource, key: str, text: str, **values: Any) -> Question:
    rule = ByVenue.model_validate({"venue": source.value, "id": key}) if source in VENUES else ByPerson()
    shown = one_line(text, MOST_TEXT)
    if not shown:
        raise _Unfit("it has no text")
    if not one_line(key):
        raise _Unfit("it has no id")
    opens = values.pop("opens_at", None)
    row = question_row(
        source=source, market="", external_id=key, text=shown, rule=rule.model_dump(mode="json"), author=asked.by,
        opens_at=opens or asked.now, **{"subjects": [], **values},
    )  # fmt: skip
    if row.closes_at <= row.opens_at:
        what = "opens" if opens else "it is"
        raise _Unfit(f"it closes at {new_york(row.closes_at)}, and {what} {new_york(row.opens_at)}")
    return row


def _ended(outcome: float | None, known: dt.datetime, where: str) -> dict[str, Any]:
    """Return the values of a question with its outcome. known: market time, before which nobody is shown it."""
    return {
        "state": QuestionState.VOID if outcome is None else QuestionState.RESOLVED,
        "outcome": outcome,
        "resolved_at": known,
        "resolved_by": FROM_FILE,
        "evidence": {"source": where, "as_of": known.isoformat()},
    }


_NOTHING = ("", "N/A")


def _midnight(day: dt.date) -> dt.datetime:
    return dt.datetime.combine(day, dt.time(), dt.UTC)


def _of_bench(given: _Bench, asked: Importing) -> Iterator[Question]:
    found, due = BenchQuestion.model_validate(given.given), dt.date.fromisoformat(given.due)
    if isinstance(found.id, list):
        raise _Unfit("it is a combination of questions")
    value = number(found.freeze_datetime_value)
    notes = [f"At the freeze, {found.freeze_datetime.date()}: {found.freeze_datetime_value}."]
    notes += [one for one in (found.freeze_datetime_value_explanation,) if one not in _NOTHING]
    rules = [one for one in (found.resolution_criteria, found.market_info_resolution_criteria) if one not in _NOTHING]
    is_market = found.source in MARKETS
    outcomes = asked.outcomes.get(due, {}).get(Series(found.source, found.id), ())
    if is_market:
        closings, ends = {"": _utc(found.market_info_close_datetime)}, {"": outcomes[-1]} if outcomes else {}
    else:
        days = found.resolution_dates if isinstance(found.resolution_dates, list) else []
        ends = {f" {one.day}": one for one in outcomes}
        closings = {f" {day}": _midnight(day) for day in sorted({*days, *(one.day for one in outcomes)})}
    if not closings:
        raise _Unfit("it has no resolution_dates")
    for suffix, closes_at in closings.items():
        words = {"{forecast_due_date}": str(due), "{resolution_date}": suffix.strip()}
        text = _filled(found.question, words)
        criteria = rules if len(one_line(text)) <= MOST_TEXT else [text, *rules]
        price = (value if value is not None and 0 <= value <= 1 else None) if is_market else EVEN
        # What a day came to is known after it.
        came = ends.get(suffix)
        ended = _ended(came.value, _midnight(came.day) + dt.timedelta(days=1), found.url) if came else {}
        yield _row(
            asked, QuestionSource.FORECASTBENCH, f"{due} {found.source} {found.id}{suffix}", text,
            subjects=[found.id] if found.source == "yfinance" and is_symbol(found.id) else [],
            opens_at=_aware(found.freeze_datetime), closes_at=closes_at,
            baseline=price, baseline_source=_priced(price, f"{found.source} at the freeze") if is_market else EVEN_ODDS,
            criteria=detail(_filled("\n".join(criteria), words)),
            background=detail(_filled("\n".join([*notes, found.background]), words)),
            url=found.url or None, **ended,
        )  # fmt: skip


def _filled(text: str, words: dict[str, str]) -> str:
    for name, value in words.items():
        text = text.replace(name, value) if value else text
    return text


def _priced(price: float | None, where: str) -> str:
    return f"no price: {where}" if price is None else where


def _aware(moment: dt.datetime) -> dt.datetime:
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=dt.UTC)


def _utc(text: str | None) -> dt.datetime:
    if not text or text in _NOTHING:
        raise _Unfit("it has no closing time, or with its outcome no time of opening or of resolution")
    try:
        return _aware(dt.datetime.fromisoformat(text)).astimezone(dt.UTC)
    except (ValueError, OverflowError):
        raise _Unfit(f"its {text[:40]!r} is no time") from None


def _of_manifold(given: dict[str, Any], asked: Importing) -> VenueMarket:
    found = ManifoldMarket.model_validate(given)
    if found.outcomeType != BINARY:
        raise _Unfit(f"it has other outcomes than YES and NO: {found.outcomeType}")
    market = market_of(found, asked.real)
    if (why := unfit(market)) is not None:
        priced = ": what Manifold says of it now is no price of before" if market.state == "resolved" else ""
        raise _Unfit(f"it is {why}{priced}")
    if not one_line(market.question):
        raise _Unfit("it has no text")
    return market


class _Metaculus(BaseModel):
    """A question, as both forms of the site's API have it."""

    id: int
    title: str
    kind: str
    closes: str | None
    resolution: str | int | float | None
    opens: str | None
    resolved: str | None
    criteria: str | None
    fine_print: str | None
    background: str | None
    price: float | None
    page: int


def _asked_of_post(post: dict[str, Any]) -> list[_Metaculus]:
    if "possibilities" in post:
        price = _at(post, "community_prediction", "full", "q2")
        kind = _at(post, "possibilities", "type")
        return [_metaculus(post, post.get("id"), kind, post.get("close_time"), price)]
    group = _at(post, "group_of_questions", "questions")
    found = []
    for one in group if isinstance(group, list) else [post.get("question")]:
        if not isinstance(one, dict):
            raise _Unfit("its question cannot be read")
        centers = _at(one, "aggregations", "recency_weighted", "latest", "centers")
        price = centers[0] if isinstance(centers, list) and centers else None
        closes = one.get("actual_close_time") or one.get("scheduled_close_time")
        found.append(_metaculus({"title": post["title"], **one}, post.get("id"), one.get("type"), closes, price))
    return found


def _at(value: Any, *names: str) -> Any:
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _metaculus(one: dict[str, Any], page: Any, kind: Any, closes: Any, price: Any) -> _Metaculus:
    texts = {"criteria": one.get("resolution_criteria"), "background": one.get("description")}
    same = {name: one.get(name) for name in ("id", "title", "resolution", "fine_print")}
    times = {"opens": one.get("open_time"), "resolved": one.get("actual_resolve_time") or one.get("resolve_time")}
    given = {"page": page, "kind": kind, "closes": closes, "price": price}
    return _Metaculus.model_validate({**same, **texts, **times, **given})


_RESOLUTIONS = {"yes": 1.0, "no": 0.0, "ambiguous": None, "annulled": None, "1": 1.0, "0": 0.0, "-1": None, "-2": None}


def _of_metaculus(found: _Metaculus, asked: Importing) -> Question:
    if found.kind != "binary":
        raise _Unfit(f"it has other outcomes than yes and no: {found.kind}")
    ended: dict[str, Any] = {}
    if found.resolution is not None:
        outcome = str(found.resolution).lower().removesuffix(".0")
        if outcome not in _RESOLUTIONS:
            raise _Unfit(f"its resolution {found.resolution!r} is not known")
        ended = {"opens_at": _utc(found.opens), **_ended(_RESOLUTIONS[outcome], _utc(found.resolved), "metaculus")}
    price = found.price if found.price is not None and 0 <= found.price <= 1 else None
    return _row(
        asked, QuestionSource.METACULUS, str(found.id), found.title,
        closes_at=_utc(found.closes), baseline=price, baseline_source=_priced(price, "metaculus: the community"),
        criteria=detail("\n".join(one for one in (found.criteria, found.fine_print) if one)),
        background=detail(found.background or ""), url=f"https://www.metaculus.com/questions/{found.page}/", **ended,
    )  # fmt: skip


def _of_line(given: dict[str | None, Any], asked: Importing) -> Question:
    if None in given or None in given.values():
        raise _Unfit("it has more or fewer fields than the first line")
    line = {str(name): from_csv_cell(str(value).strip()) for name, value in given.items()}
    text, closes_at = question_text(line["question"]), moment_of("closes", line["closes"])
    source = line.get("source") or QuestionSource.PERSON
    if source not in (*PEOPLES, *VENUES):
        raise _Unfit(f"source {source!r}: only those of {', '.join((*PEOPLES, *VENUES))} can be imported")
    opens = moment_of("opens", line["opens"], at=dt.time()) if line.get("opens") else None
    outcome, ended = line.get("outcome") or ("void" if line.get("state") == QuestionState.VOID else ""), {}
    if outcome and source in VENUES:
        raise _Unfit(f"it has its outcome, and that of {source} comes from there")
    if outcome:
        known = moment_of("resolved", line["resolved"]) if line.get("resolved") else closes_at
        ended = _ended(outcome_of(outcome), known, f"a file of {asked.by}")
    price = float(line["baseline"]) if line.get("baseline") else None
    if price is not None and not 0 <= price <= 1:
        raise _Unfit(f"baseline {price:g} is no probability")
    given_by = line.get("baseline_source") or f"given by {asked.by}"
    even = price is None and source == QuestionSource.PERSON
    return _row(
        asked, QuestionSource(source), line.get("id") or question_key(text, closes_at), text,
        opens_at=opens, closes_at=closes_at,
        baseline=EVEN if even else price, baseline_source=EVEN_ODDS if even else given_by,
        subjects=symbols_of(line.get("about", "").split(",")),
        criteria=detail(line.get("criteria", "")), background=detail(line.get("background", "")),
        url=line.get("url") or None, event=line.get("event") or None, **ended,
    )  # fmt: skip


def export_csv(questions: Iterable[Question], into: Path) -> int:
    """Write questions as the desk's own CSV, which `import_files` reads; return how many. Raises UsageError where it
    cannot be written."""
    lines = [_line(row) for row in questions]
    try:
        with into.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS)
            writer.writeheader()
            writer.writerows({name: csv_cell(value) for name, value in line.items()} for line in lines)
    except OSError as error:
        reason = f"{into} cannot be written: {error.strerror}"
        raise UsageError(reason, remedy="name a file in a folder that is there") from None
    return len(lines)


def _line(row: Question) -> dict[str, Any]:
    same = ("source", "baseline", "baseline_source", "criteria", "background", "url", "event", "state", "outcome")
    return {
        **{name: getattr(row, name) for name in same},
        "question": row.text,
        "id": row.external_id,
        "closes": row.closes_at.isoformat(),
        "opens": row.opens_at.isoformat(),
        "about": ",".join(row.subjects),
        "resolved": None if row.state == QuestionState.OPEN else known_at(row).isoformat(),
    }
