"""Age a home: its real runs are copied over the years before them, with ids, times and an audit chain of their own.

`python -m tests.ordeal.age HOME --screens 1000` ages the home of a desk that is not up. The database does the copying:
each text of the runs holds a mark in place of what differs between copies, and one statement a table replaces it.
"""

from __future__ import annotations

import argparse
import datetime as dt
import hashlib
import json
import os
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import (
    JSON,
    Boolean,
    Column,
    ColumnElement,
    Connection,
    Date,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    case,
    cast,
    delete,
    func,
    insert,
    literal,
    literal_column,
    select,
    type_coerce,
    update,
)
from sqlmodel import col
from sqlmodel.sql.sqltypes import AutoString

from chordesk.models.database.store import Store, every_table
from chordesk.models.settings import Settings
from chordesk.models.settings.sources import load_settings
from chordesk.models.states import ORDER_NEXT, RUN_FINAL, OrderState, RunKind
from chordesk.models.tables.columns import Utc
from chordesk.models.tables.orders import Account, AuditAnchor, Fill, Position
from chordesk.tools.books import books_of
from chordesk.tools.market.clock import ReplayClock
from chordesk.tools.market.factory import build_market
from chordesk.tools.market.protocol import RecordedSessions
from chordesk.tools.orders.audit import FIRST_PREV, chain_of, log_path, seal
from chordesk.tools.questions.resolving import resolve_due
from tests.parts import of_feature

# Copies of each kind of run, one to so many screens: each a multiple of the one before it, so that what a rarer one
# refers to is there. Runs within another, such as a backtest's, go with that one.
EVERY = {
    RunKind.SCREEN: 1,
    RunKind.RESEARCH: 4,
    RunKind.ANALYZE: 8,
    RunKind.EPISODE: 16,
    RunKind.TRADE: 16,
    RunKind.BACKTEST: 48,
}
AT_ONCE = 200  # copies a transaction

# What a copy has in place of these. They occur in no text of a desk.
_TIME = "0a5e0a5e0a5e"  # first half of each id
_DASHED = f"{_TIME[:8]}-{_TIME[8:]}"
_SYMBOL, _VOICE = "\ue001", "\ue002"

_ID = re.compile(r"[0-9a-f]{32}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")

# Rows of the desk, and not of a run; positions are made from the fills.
_NOT_COPIED = {
    "account", "api_token", "audit_anchor", "blob", "books_mark", "calibration", "cassette_part", "cassette_turn",
    "equity_mark", "kept_answer", "mandate", "notification", "notification_channel",
    "notification_part", "notification_sender", "option_mark",
    "position", "question_pair", "reconciliation", "role_schedule", "schedule_entry", "score_mark", "settlement",
    "submitter", "sweep", "trading",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Aging:
    """How old a home gets. screens: copies of its screens; symbols, voices: sets of names that the copies use in turn,
    1 for the same in all; fills: least number of the account's, 0 for those that the copies have."""

    screens: int
    symbols: int = 1
    voices: int = 1
    fills: int = 0
    years: float = 2.0


def age(settings: Settings, aging: Aging) -> None:
    """Age the home of settings: its database, then its audit log. Nothing may be at work in it."""
    with closing(Store(settings.database)) as store:
        resolve_all(store, settings)
        template = read_template(store)
        copies = template.copies(aging)
        with store.writer.begin() as connection:
            staged = template.stage(connection)
        for first in range(0, aging.screens, AT_ONCE):
            with store.writer.begin() as connection:
                _copy(connection, staged, [one for one in copies if first <= one["number"] < first + AT_ONCE])
        with store.writer.begin() as connection:
            for table in (*staged.values(), COPY):
                table.drop(connection)
        if aging.fills:
            _split_fills(store, settings.account, aging.fills)
        _book(store)
        _age_log(store, settings, template, copies)


def resolve_all(store: Store, settings: Settings) -> None:
    """Resolve what has come true by the last day of the data, as an episode of that day would."""
    market = build_market(settings)
    if isinstance(market, RecordedSessions):
        last = market.on(ReplayClock(market.recorded()[-1]))
        resolve_due(
            store, last, settings.account, on_resolved=of_feature("chordesk.tasks.board.episode.tally:ON_RESOLVED")
        )


@dataclass(slots=True)
class Template:
    """The rows to copy, by table, with the marks in them; `aging_part` of each: its tree of runs. kinds: of these
    trees, by number. ids: the mark of each id. newest: when the last run was opened."""

    tables: dict[str, Table]
    rows: dict[str, list[dict[str, Any]]]
    kinds: list[str]
    ids: dict[str, str]
    newest: dt.datetime

    def marked(self, found: str) -> str:
        """Return a text with a mark in place of each id of a copied row."""
        return _ID.sub(lambda one: self.ids.get(one[0], one[0]), found)

    def copies(self, aging: Aging) -> list[dict[str, Any]]:
        """Return a row for each tree of runs and each copy of it."""
        found, apart = [], dt.timedelta(days=365 * aging.years) / aging.screens
        for number in range(aging.screens):
            back = apart * (aging.screens - number)
            begin = f"{int((self.newest - back).timestamp() * 1000):012x}"
            for part, kind in enumerate(self.kinds):
                every = EVERY[RunKind(kind)]
                pair, sells = divmod(number // every, 2)
                alone = not sells and number + every >= aging.screens  # nothing sells what it buys
                if number % every == 0:
                    found.append(
                        {
                            "number": number,
                            "part": part,
                            "time": begin,
                            "dashed": f"{begin[:8]}-{begin[8:]}",
                            "seconds": int(back.total_seconds()),
                            "symbol": _suffix(0 if alone else pair % aging.symbols),
                            "voice": _suffix(number % aging.voices),
                            "sells": bool(sells),
                        }
                    )
        return found

    def stage(self, connection: Connection) -> dict[str, Table]:
        """Write the rows into tables of their own."""
        COPY.create(connection)
        staged = {}
        for name, rows in self.rows.items():
            columns = [Column(one.name, one.type) for one in self.tables[name].columns]
            staged[name] = Table(f"aging_{name}", MetaData(), *columns, Column("aging_part", Integer))
            staged[name].create(connection)
            connection.execute(insert(staged[name]), rows)
        return staged


COPY = Table(
    "aging_copy",
    MetaData(),
    *(Column(name, Integer) for name in ("number", "part", "seconds")),
    *(Column(name, String) for name in ("time", "dashed", "symbol", "voice")),
    Column("sells", Boolean),
)


def _suffix(number: int) -> str:
    return str(number) if number else ""


def read_template(store: Store) -> Template:
    tables = {name: table for name, table in every_table().items() if name not in _NOT_COPIED}
    with store.engine.connect() as connection:
        whole = {
            name: [dict(row) for row in connection.execute(select(table)).mappings()] for name, table in tables.items()
        }
    roots = _roots(whole["run"])
    kinds = {row["id"]: row["kind"] for row in whole["run"]}
    trees = sorted(
        (one for one in set(roots.values()) if kinds[one] in EVERY), key=lambda one: (EVERY[RunKind(kinds[one])], one)
    )
    parts = _parts(tables, whole, {run: trees.index(root) for run, root in roots.items() if root in trees})
    rows = {name: [row for row in found if "aging_part" in row] for name, found in parts.items()}
    newest = max(row["created_at"] for row in whole["run"])
    template = Template(tables, {name: found for name, found in rows.items() if found}, [], {}, newest)
    template.kinds = [kinds[one] for one in trees]
    template.ids = _marks(template)
    symbols = {row["symbol"] for row in rows["candidate"]}
    for name, found in template.rows.items():
        for row in found:
            for column in tables[name].columns:
                row[column.name] = _value(template, column, row[column.name], symbols)
    return template


def _roots(runs: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return of each run that has ended the run at the top of its tree."""
    parent = {row["id"]: row["parent_run_id"] for row in runs}
    found = {}
    for row in runs:
        one = row["id"]
        while parent[one]:
            one = parent[one]
        found[row["id"]] = one
    left = {found[row["id"]] for row in runs if row["state"] not in RUN_FINAL}
    return {run: root for run, root in found.items() if root not in left}


def _parts(
    tables: Mapping[str, Table], whole: dict[str, list[dict[str, Any]]], of_run: Mapping[str, int]
) -> dict[str, list[dict[str, Any]]]:
    """Note in each row of a copied run which tree of runs it belongs to."""
    part: dict[tuple[str, Any], int] = {("run", run): number for run, number in of_run.items()}
    for name in ("verdict_question", "episode_question"):
        for row in whole[name]:
            owner = part.get(("run", row["run_id"])) if "run_id" in row else None
            if owner is None and "verdict_id" in row:
                run = next(one["run_id"] for one in whole["verdict"] if one["id"] == row["verdict_id"])
                owner = of_run.get(run)
            if owner is not None:
                key = ("question", row["question_id"])
                part[key] = min(owner, part.get(key, owner))
    for name in ("conversation", "turn"):
        for row in whole[name]:
            if row["run_id"] in of_run and row["thread_id"]:
                part.setdefault(("thread", row["thread_id"]), of_run[row["run_id"]])
    for name, table in tables.items():
        for row in whole[name]:
            found = _part_of(table, row, part, of_run)
            if found is not None:
                row["aging_part"] = found
                if "id" in row:
                    part[name, row["id"]] = found
    return whole


def _part_of(table: Table, row: Mapping[str, Any], part: Mapping[Any, int], of_run: Mapping[str, int]) -> int | None:
    if "run_id" in row:
        return of_run.get(row["run_id"])
    if table.name in ("run", "question"):
        return part.get((table.name, row["id"]))
    if table.name in ("thread", "rollout"):
        return part.get(("thread", row["thread_id"]))
    owners = [part.get((key.column.table.name, row[key.parent.name])) for key in table.foreign_keys]
    return max((one for one in owners if one is not None), default=None)


def _marks(template: Template) -> dict[str, str]:
    """Return the mark of each id: its first half is the same in all, the rest begins with its place in their order."""
    ids = {
        row[column.name]
        for name, rows in template.rows.items()
        for row in rows
        for column in template.tables[name].columns
        if (column.name == "id" or column.name.endswith("_id"))
        if isinstance(row[column.name], str) and _ID.fullmatch(row[column.name])
    }
    return {one: _mark(one, place) for place, one in enumerate(sorted(ids, key=lambda one: one.replace("-", "")))}


def _mark(one: str, place: int) -> str:
    tail = f"{place:06x}{hashlib.sha256(one.encode()).hexdigest()[:14]}"
    return f"{_DASHED}-{tail[:4]}-{tail[4:8]}-{tail[8:]}" if "-" in one else _TIME + tail


def _value(template: Template, column: Column[Any], found: Any, symbols: set[str]) -> Any:
    if found is None or not isinstance(column.type, (AutoString, String, JSON)):
        return found
    if isinstance(column.type, JSON):
        if column.name == "subjects":
            return [f"{one}{_SYMBOL}" if one in symbols else one for one in found]
        return json.loads(template.marked(json.dumps(found)))
    if column.name in ("symbol", "subject") and found in symbols:
        return found + _SYMBOL
    if column.name == "voice":
        return found + _VOICE
    if column.name in ("external_id", "key"):  # unique over all runs
        return f"{template.marked(found)} {_TIME}"
    return template.marked(found)


def _copy(connection: Connection, staged: Mapping[str, Table], copies: Sequence[Mapping[str, Any]]) -> None:
    connection.execute(delete(COPY))
    connection.execute(insert(COPY), copies)
    for name, source in staged.items():
        table = every_table()[name]
        values = [_copied(connection, source.c[one.name]) for one in table.columns]
        rows = (
            select(*values).select_from(COPY.join(source, source.c.aging_part == COPY.c.part)).order_by(COPY.c.number)
        )
        connection.execute(insert(table).from_select([one.name for one in table.columns], rows))


def _copied(connection: Connection, column: Column[Any]) -> ColumnElement[Any]:
    """Return the expression of a column's value in a copy."""
    sqlite = connection.dialect.name == "sqlite"
    table, kind = column.table.name.removeprefix("aging_"), column.type
    if isinstance(kind, Utc):
        if not sqlite:
            return column - COPY.c.seconds * literal_column("interval '1 second'")
        moved = func.strftime("%Y-%m-%d %H:%M:%f", column, literal("-").concat(COPY.c.seconds).concat(" seconds"))
        return type_coerce(moved.concat("000"), String)
    if isinstance(kind, Date):
        days = cast(COPY.c.seconds // 86400, Integer)
        return func.date(column, literal("-").concat(days).concat(" days")) if sqlite else column - days
    if isinstance(kind, JSON):
        replaced = _replaced(type_coerce(column, Text) if sqlite else cast(column, Text), (_SYMBOL, COPY.c.symbol))
        return type_coerce(replaced, Text) if sqlite else cast(replaced, JSON)
    if table == "episode" and column.name == "number":
        return column + (COPY.c.number + 1) * 1000  # those of an account are unique
    if not isinstance(kind, (AutoString, String)):
        return column
    if column.name == "side" and table in ("order", "fill"):
        other = case({"buy": "sell", "sell": "buy"}, value=column)
        return case((COPY.c.sells, other), else_=column)
    if table == "order" and column.name == "state":
        return case((column.in_(_ENDED), column), else_=literal(OrderState.CANCELLED.value))
    return _replaced(column, (_SYMBOL, COPY.c.symbol), (_VOICE, COPY.c.voice))


_ENDED = [state.value for state, after in ORDER_NEXT.items() if not after]


def _replaced(value: ColumnElement[Any], *pairs: tuple[str, ColumnElement[Any]]) -> ColumnElement[Any]:
    for mark, own in ((_TIME, COPY.c.time), (_DASHED, COPY.c.dashed), *pairs):
        value = func.replace(value, mark, own)
    return value


def _split_fills(store: Store, account: str, least: int) -> None:
    """Make each fill of an account several of a part of its shares, so that it has at least so many."""
    with store.session() as session:
        mine = select(col(Fill.id)).where(col(Fill.account) == account, col(Fill.quantity) >= 2)
        count = session.execute(select(func.count()).select_from(mine.subquery())).scalar_one()
        for fill in session.execute(select(Fill).where(col(Fill.id).in_(mine))).scalars().all():
            pieces = min(-(-least // max(count, 1)), int(fill.quantity))
            each = fill.quantity // pieces
            parts = [
                {**fill.model_dump(), "id": f"{fill.id[:28]}{place:04x}", "quantity": each, "commission": 0.0}
                for place in range(1, pieces)
            ]
            if parts:
                fill.quantity -= each * len(parts)
                session.execute(insert(every_table()["fill"]), parts)


def _book(store: Store) -> None:
    """Make cash and positions of each account what its fills come to."""
    with store.session() as session:
        for account in session.execute(select(Account)).scalars().all():
            books = books_of(session, account.name, account.opening_cash)
            account.cash = float(books.cash)
            last = select(col(Fill.symbol), func.max(col(Fill.filled_at))).where(col(Fill.account) == account.name)
            at = dict(session.execute(last.group_by(col(Fill.symbol))).all())
            session.execute(delete(Position).where(col(Position.account) == account.name))
            for symbol, (quantity, cost) in books.held.items():
                row = Position(
                    account=account.name,
                    symbol=symbol,
                    quantity=float(quantity),
                    average_cost=float(cost),
                    filled_at=at.get(symbol) or account.opened_at,
                )
                session.add(row)


def _age_log(store: Store, settings: Settings, template: Template, copies: Sequence[Mapping[str, Any]]) -> None:
    """Write the audit log anew: the lines of the copies before those of the runs that they are copies of."""
    path = log_path(settings)
    if not path.exists():
        return
    first, *rest = [json.loads(line) for line in path.read_bytes().splitlines()]
    of_part: dict[int, list[tuple[str, dt.datetime, str]]] = defaultdict(list)
    part = {row["id"]: row["aging_part"] for rows in template.rows.values() for row in rows if "id" in row}
    for line in rest:
        facts = template.marked(json.dumps(line["facts"]))
        owner = next((part[mark] for mark in _ID.findall(facts) if mark in part), 0)
        of_part[owner].append((line["kind"], dt.datetime.fromisoformat(line["at"]), facts))
    chain, count, size, head = chain_of(path.parent), 0, 0, FIRST_PREV
    with path.open("wb") as file:
        for at, kind, facts in [_plain(first), *_old_lines(of_part, copies), *map(_plain, rest)]:
            count += 1
            line, head = seal(count, at, kind, facts, head)
            size += file.write(line)
    with store.session() as session:
        values = {"count": count, "head": head, "size": size}
        session.execute(update(AuditAnchor).where(col(AuditAnchor.chain) == chain).values(values))


def _plain(line: Mapping[str, Any]) -> tuple[str, str, Any]:
    return line["at"], line["kind"], line["facts"]


def _old_lines(
    of_part: Mapping[int, Sequence[tuple[str, dt.datetime, str]]], copies: Sequence[Mapping[str, Any]]
) -> Iterator[tuple[str, str, Any]]:
    for one in copies:
        for kind, at, facts in of_part.get(one["part"], ()):
            own = facts.replace(_TIME, one["time"]).replace(_DASHED, one["dashed"])
            yield (at - dt.timedelta(seconds=one["seconds"])).isoformat(), kind, json.loads(own)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("home", type=Path)
    parser.add_argument("--screens", type=int, default=1000)
    parser.add_argument("--symbols", type=int, default=1, help="sets of symbols that the copies use in turn")
    parser.add_argument("--voices", type=int, default=1, help="sets of voices that the copies use in turn")
    parser.add_argument("--fills", type=int, default=0, help="least number of the account's fills")
    parser.add_argument("--years", type=float, default=2.0)
    given = parser.parse_args()
    environ = {**os.environ, "DESK_HOME": str(given.home.resolve())}
    settings = load_settings(environ, given.home)
    age(settings, Aging(given.screens, given.symbols, given.voices, given.fills, given.years))


if __name__ == "__main__":
    main()
