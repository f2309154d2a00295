"""The kept turns of a desk, in its database."""

from __future__ import annotations

import datetime as dt
import hashlib
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import orjson
import structlog
from sqlmodel import col, select
from sqlmodel.sql.expression import SelectOfScalar

from chordesk.agents.cassettes.stable import Doc
from chordesk.models.answers import Frozen
from chordesk.models.database.blobs import pack, unpack
from chordesk.models.database.store import Store
from chordesk.models.tables.columns import dialect_insert
from chordesk.models.tables.runtime import CassettePart, CassetteTurn
from chordesk.tools.registry import ToolSpec

NEAREST = 50  # kept turns of a role that a miss is compared with
log = structlog.get_logger(__name__)


def digest(value: Any) -> str:
    return hashlib.sha256(_sorted(value)).hexdigest()


def _sorted(value: Any) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def fixed_part(instructions: str, tools: Iterable[ToolSpec], schema: Mapping[str, Any]) -> Doc:
    """Return what all turns of a role have in common, which is kept once."""
    table = [{"name": one.name, "description": one.description, "parameters": one.input_schema} for one in tools]
    return {"instructions": instructions, "tools": table, "schema": dict(schema)}


class KeptTurn(Frozen):
    """One turn in its stable form. part: the digest of its fixed part; opening: all else that opened it."""

    run_id: str
    role: str
    subject: str
    runtime: str
    model: str
    kept_at: dt.datetime
    part: str
    opening: dict[str, Any]
    calls: list[dict[str, Any]]
    end: dict[str, Any]

    @property
    def opened(self) -> str:
        return digest([self.part, self.opening])

    @property
    def id(self) -> str:
        """By what its model saw: a later turn that saw the same takes its place."""
        return digest([self.opened, self.calls])

    def row(self) -> dict[str, Any]:
        body = orjson.dumps({"opening": self.opening, "calls": self.calls, "end": self.end})
        named = self.model_dump(include=CassetteTurn.model_fields.keys() & KeptTurn.model_fields.keys())
        return {**named, "id": self.id, "opened": self.opened, "body": pack(body)}


class Shelf:
    """Every method blocks."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def keep(self, turns: Sequence[KeptTurn], parts: Mapping[str, Doc]) -> None:
        # In one order, so that two processes that keep the same never wait for each other.
        rows = [one.row() for _, one in sorted({one.id: one for one in turns}.items())]
        bodies = [
            {"digest": key, "body": pack(orjson.dumps(part, option=orjson.OPT_SORT_KEYS))}
            for key, part in sorted(parts.items())
        ]
        with self._store.session() as session:
            part, turn = dialect_insert(session, CassettePart), dialect_insert(session, CassetteTurn)
            newer = {name: getattr(turn.excluded, name) for name in CassetteTurn.model_fields if name != "id"}
            connection = session.connection()
            if bodies:
                connection.execute(part.on_conflict_do_nothing(index_elements=["digest"]), bodies)
            if rows:
                connection.execute(turn.on_conflict_do_update(index_elements=["id"], set_=newer), rows)

    def opened_by(self, opened: str) -> list[KeptTurn]:
        """Return the kept turns that were opened so, the newest first."""
        return self._turns(select(CassetteTurn).where(CassetteTurn.opened == opened))

    def near(self, role: str, subject: str) -> list[KeptTurn]:
        """Return some kept turns of a role, those on the subject first."""
        of_role = select(CassetteTurn).where(CassetteTurn.role == role)
        return self._turns(of_role.order_by(col(CassetteTurn.subject) != subject).limit(NEAREST))

    def part(self, key: str) -> Doc:
        with self._store.read() as session:
            kept = session.get(CassettePart, key)
        return (kept is not None and part_of(kept)) or {}

    def _turns(self, which: SelectOfScalar[CassetteTurn]) -> list[KeptTurn]:
        with self._store.read() as session:
            rows = session.exec(which.order_by(col(CassetteTurn.kept_at).desc(), col(CassetteTurn.id))).all()
        return [turn for row in rows if (turn := turn_of(row)) is not None]


def turn_of(row: CassetteTurn) -> KeptTurn | None:
    """None for a row that is damaged, which is logged: it counts as not kept."""
    try:
        turn = KeptTurn.of(row, **orjson.loads(zlib.decompress(row.body)))
    except (zlib.error, ValueError, TypeError) as error:
        log.warning("cassette.damaged", turn=row.id, error=str(error))
        return None
    return turn


def part_of(row: CassettePart) -> Doc | None:
    data = unpack(row.digest, row.body)
    return orjson.loads(data) if data is not None else None
