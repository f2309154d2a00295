"""The policy of retention: how long each table's rows are kept, by which setting, and which run owns a row."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    ForeignKey,
    FromClause,
    LargeBinary,
    Select,
    Table,
    cast,
    func,
    literal_column,
    select,
    text,
)
from sqlalchemy.exc import OperationalError
from sqlmodel import Session

from chordesk.agents.runtime import ROLLOUT_DAYS
from chordesk.models.database.blobs import stored_files
from chordesk.models.database.store import Store, every_table, rules
from chordesk.models.settings import Settings

HOUR, DAY = dt.timedelta(hours=1), dt.timedelta(days=1)
# A blob is stored before the row that names it.
UNNAMED = HOUR
# A file without a row may be one that a running turn has just been given.
LEAST_PICTURE_AGE = DAY
# Runs that ended less long ago may be looked at, traded on or gone on with at any moment.
LEAST_RUN_AGE = DAY
EVENTS_PER_RUN = 50_000
ROLLOUTS_KEPT = 2  # of each thread

# Rows that belong to one run and go with it, or with it and its last trace.
RUN = frozenset({
    "run", "step", "turn", "screen_hit", "candidate", "candidate_hit", "report", "verdict", "verdict_report",
    "analysis", "decision", "trader_note", "event_batch", "event_head", "run_document_copy",
})  # fmt: skip
# How a run came to its results. It goes also from a run that is kept for its scores alone.
EVIDENCE = frozenset({
    "tool_call", "artifact", "report_basis", "shard_basis", "attempt", "conversation", "runtime_turn", "runtime_item",
    "runtime_approval", "masked_turn", "graph_checkpoint", "graph_part", "graph_write",
})  # fmt: skip
# Scores are made of these, together with the reports, hits and verdicts of their run.
SCORES = frozenset({
    "verdict_question", "thesis_question", "episode_question", "signal", "signal_citation", "forecast", "karma_entry",
    "episode", "event_position", "backtest_session",
})  # fmt: skip
# A run with one of these is kept whole, with every run that it rests on.
ORDERS = frozenset({"order", "preview", "order_check", "fill", "approval"})
# Deleted by an age or a number of their own.
OF_THREADS = frozenset({"rollout", "blob"})
# Deleted with events, by their own age.
OF_EVENTS = frozenset({"notice", "notification", "notification_part"})
# Of no run: money, mandates, halts, anchors of the audit log, questions and what the desk has learned.
LASTING = frozenset({
    "account", "position", "settlement", "submitter", "trading", "mandate", "equity_mark", "reconciliation",
    "audit_anchor", "question", "question_pair", "calibration", "option_mark", "role_schedule", "thread", "sweep",
    "notification_channel", "notification_sender", "api_token", "identity", "process", "books_mark", "score_mark",
    "kept_answer", "graph_memory", "cassette_part", "cassette_turn", "schedule_entry", "lens_trial",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Policy:
    """The limits as of `now`: what ended or was last used before a moment goes; None keeps all."""

    now: dt.datetime
    events_before: dt.datetime
    events_per_run: int  # newest events that a run keeps
    threads_before: dt.datetime
    copies: int  # newest copies that a thread keeps
    blobs_before: dt.datetime
    pictures_before: dt.datetime | None
    runs_before: dt.datetime | None
    rows_before: Mapping[str, dt.datetime] = field(default_factory=dict)  # by table of a feature


def policy_of(settings: Settings, now: dt.datetime, older_than: dt.timedelta | None = None) -> Policy:
    def age(days: float) -> dt.timedelta:
        return dt.timedelta(days=days) if older_than is None else older_than

    def before(days: float, least: dt.timedelta) -> dt.datetime | None:
        return now - max(age(days), least) if days or older_than is not None else None

    return Policy(
        now=now,
        events_before=now - age(settings.event_days),
        events_per_run=EVENTS_PER_RUN,
        threads_before=now - age(ROLLOUT_DAYS),
        copies=ROLLOUTS_KEPT,
        blobs_before=now - UNNAMED,
        pictures_before=before(settings.keep_artifact_days, LEAST_PICTURE_AGE),
        runs_before=before(settings.keep_run_days, LEAST_RUN_AGE),
        rows_before={name: now - age(days) for name, days in _ages(settings).items()},
    )


def _ages(settings: Settings) -> dict[str, float]:
    """Return the days after which rows of features' tables go, by table; those that stay are not among them."""
    found = {}
    for name, (feature, keep) in rules().items():
        days = getattr(settings, feature.prefix + keep.days) if isinstance(keep.days, str) else keep.days
        if keep.at and days:
            found[name] = float(days)
    return found


OF_RUNS = RUN | EVIDENCE | ORDERS | SCORES


def with_features(part: frozenset[str]) -> frozenset[str]:
    """Return RUN or EVIDENCE with the tables of features whose rules put them there."""
    run = {RUN: "results", EVIDENCE: "evidence"}[part]
    return part | {name for name, (_, keep) in rules().items() if keep.run == run}


def of_runs() -> frozenset[str]:
    return OF_RUNS | with_features(RUN) | with_features(EVIDENCE)


class Owned(NamedTuple):
    """Rows of a table with the run that they belong to: `source` joins what leads there, `run` is the column."""

    source: FromClause
    run: ColumnElement[str]


@cache
def owned(name: str) -> Owned:
    table = every_table()[name]
    if name == "run":
        return Owned(table, table.c.id)
    if "run_id" in table.c:
        return Owned(table, table.c.run_id)
    key = _owner(table)
    above = owned(key.column.table.name)
    return Owned(above.source.join(table, key.parent == key.column), above.run)


def _owner(table: Table) -> ForeignKey:
    """Return the foreign key to the row that a row belongs to: of those to rows of runs, the first."""
    keys = (key for column in table.columns for key in column.foreign_keys)
    return next(key for key in keys if key.column.table.name in of_runs())


def rows_of(name: str, run_ids: Collection[str]) -> ColumnElement[bool]:
    """Return the condition that a row of a table belongs to one of these runs, for a statement on the table alone."""
    table = every_table()[name]
    if name == "run":
        return table.c.id.in_(run_ids)
    if "run_id" in table.c:
        return table.c.run_id.in_(run_ids)
    key = _owner(table)
    return key.parent.in_(select(key.column).where(rows_of(key.column.table.name, run_ids)))


def references() -> Iterator[Select[Any]]:
    """Yield statements of (run, other run) where a row of the one refers to a row of the other."""
    for name in sorted(of_runs()):
        for key in sorted(every_table()[name].foreign_keys, key=lambda key: key.parent.name):
            if key.column.table.name in of_runs():
                statement = _reference(name, key)
                if statement is not None:
                    yield statement


def _reference(name: str, key: Any) -> Select[Any] | None:
    here, parent = owned(name), key.column.table
    if parent.name == "run":
        return _pairs(here.source, here.run, key.parent) if key.parent is not here.run else None
    apart = parent.alias("other")
    if "run_id" not in apart.c:
        return None
    return _pairs(here.source.join(apart, key.parent == apart.c[key.column.name]), here.run, apart.c.run_id)


def _pairs(source: FromClause, run: ColumnElement[str], other: ColumnElement[str]) -> Select[Any]:
    pairs: Any = select(run, other).select_from(source).where(other != run)
    found: Select[Any] = pairs.distinct()
    return found


@dataclass(frozen=True, slots=True)
class Amount:
    """Rows, events or files of one kind, and the bytes of their content, without indexes and the pages' free space."""

    rows: int = 0
    bytes: int = 0

    def __add__(self, other: Amount) -> Amount:
        return Amount(self.rows + other.rows, self.bytes + other.bytes)


Amounts = dict[str, Amount]  # by table, or by the name of what are files


def added(*parts: Amounts) -> Amounts:
    """Return the sum of amounts by their names, without empty ones."""
    found: Amounts = {}
    for part in parts:
        for name, amount in part.items():
            found[name] = found.get(name, Amount()) + amount
    return {name: amount for name, amount in found.items() if amount.rows or amount.bytes}


def total(amounts: Iterable[Amount]) -> Amount:
    return sum(amounts, Amount())


def content(table: Table, sqlite: bool) -> ColumnElement[Any]:
    if not sqlite:
        return func.coalesce(func.sum(func.pg_column_size(literal_column(f'"{table.name}".*'))), 0)
    sizes = [func.coalesce(func.length(cast(column, LargeBinary)), 0) for column in table.columns]
    return cast(func.coalesce(func.sum(sum(sizes[1:], sizes[0])), 0), BigInteger)


def chosen(session: Session, table: Table, which: ColumnElement[bool]) -> Amount:
    size = content(table, session.get_bind().dialect.name == "sqlite")
    rows, found = session.execute(select(func.count(), size).select_from(table).where(which)).one()
    return Amount(int(rows), int(found))


# Without those of events, which are counted one by one.
_UNITS = {
    "turn": ("turn", "tool_call"), "tool call": ("tool_call",), "report": ("report",), "step": ("step", "attempt"),
    "checkpoint": ("graph_checkpoint", "graph_part", "graph_write"),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class TableSize:
    """Rows of a table, the bytes of their content, and those that the table takes with its indexes; None where the
    database does not report them."""

    name: str
    rows: int
    bytes: int
    stored: int | None


@dataclass(frozen=True, slots=True)
class UnitSize:
    """The bytes of content of one of a kind, on average over `count` of them. note: what they include."""

    name: str
    count: int
    bytes: int
    note: str

    @property
    def each(self) -> int | None:
        return round(self.bytes / self.count) if self.count else None


@dataclass(frozen=True, slots=True)
class Sizes:
    """database: bytes of the database in all, None where it does not report them."""

    database: int | None
    tables: list[TableSize]
    units: list[UnitSize]


def measure(store: Store, home: Path) -> Sizes:
    """Return the sizes of a database and of the pictures in a data folder. It reads each table once."""
    with store.read() as session:
        stored = _stored(session)
        found = [_table(session, table, stored) for table in every_table().values()]
        units = [*_runs(session), *_units({one.name: one for one in found}), _events(session)]
    files = [path.stat().st_size for path, _, _ in stored_files(home)]
    units.append(UnitSize("picture", len(files), sum(files), "the file"))
    database = sum(stored.values()) if stored else None
    return Sizes(database, sorted(found, key=lambda one: -one.bytes), units)


def _table(session: Session, table: Table, stored: dict[str, int]) -> TableSize:
    size = content(table, _is_sqlite(session))
    rows, found = session.execute(select(func.count(), size).select_from(table)).one()
    return TableSize(table.name, int(rows), int(found), stored.get(table.name))


def _stored(session: Session) -> dict[str, int]:
    if not _is_sqlite(session):
        sizes = text("select relname, pg_total_relation_size(oid) from pg_class where relkind = 'r'")
        return {name: int(size) for name, size in session.execute(sizes) if name in every_table()}
    pages = text(
        "select m.tbl_name, sum(s.pgsize) from dbstat s join sqlite_schema m on m.name = s.name group by m.tbl_name"
    )
    try:
        return {name: int(size) for name, size in session.execute(pages)}
    except OperationalError:
        return {}


def _runs(session: Session) -> list[UnitSize]:
    kind = every_table()["run"].c.kind
    counts = {name: int(count) for name, count in session.execute(select(kind, func.count()).group_by(kind))}
    sizes = dict.fromkeys(counts, 0)
    for name in sorted(of_runs()):
        rows, table = owned(name), every_table()[name]
        run = every_table()["run"].alias("of")
        source = rows.source.join(run, run.c.id == rows.run)
        size = content(table, _is_sqlite(session))
        for of, found in session.execute(select(run.c.kind, size).select_from(source).group_by(run.c.kind)):
            sizes[of] += int(found)
    return [UnitSize(f"{name} run", counts[name], sizes[name], "all its rows") for name in sorted(counts)]


def _units(found: dict[str, TableSize]) -> list[UnitSize]:
    units = [
        UnitSize(name, found[parts[0]].rows, sum(found[part].bytes for part in parts), _with(parts))
        for name, parts in _UNITS.items()
    ]
    blobs = found["blob"]
    return [*units, UnitSize("rollout", blobs.rows, blobs.bytes, "one copy, compressed, in the database")]


def _with(parts: tuple[str, ...]) -> str:
    return f"with its rows in {', '.join(parts[1:])}" if parts[1:] else "the row"


def _events(session: Session) -> UnitSize:
    batches = every_table()["event_batch"].c
    count, size = session.execute(
        select(func.sum(batches.last - batches.first + 1), func.sum(func.length(batches.events)))
    ).one()
    return UnitSize("event", int(count or 0), int(size or 0), "its share of the batch")


def _is_sqlite(session: Session) -> bool:
    return session.get_bind().dialect.name == "sqlite"
