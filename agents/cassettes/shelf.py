"""The kept turns of a desk, in its database."""

from __future__ import annotations

import datetime as dt
import hashlib
import os
import re
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from pathlib import Path
from typing import Any

import orjson
import structlog
from sqlmodel import col, select
from sqlmodel.sql.expression import SelectOfScalar

from chordesk.models.answers import Frozen
from chordesk.models.database.blobs import pack, unpack
from chordesk.models.database.store import Store
from chordesk.models.settings import Settings
from chordesk.models.settings.running_desk import BACKTEST
from chordesk.models.settings.schema import SECRETS
from chordesk.models.tables.columns import dialect_insert
from chordesk.models.tables.runtime import CassettePart, CassetteTurn
from chordesk.models.text import SHORTEST_SECRET, environment_secrets, without_keys, without_secrets
from chordesk.models.urls import HIDDEN
from chordesk.tools.registry import ToolAnswer, ToolSpec
from chordesk.tools.toolsets import CITE

Doc = dict[str, Any]
# An id of a row, a digest, a UUID, the account of a backtest, a moment with parts of a second, which no market's bar
# has, or the whole text by which another turn's answer of a tool is cited.
_OF_A_RUN = re.compile(
    r"(?<![0-9a-zA-Z])(?:[0-9a-f]{64}|[0-9a-f]{32}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})(?![0-9a-zA-Z])"
    rf"|\b{BACKTEST}[0-9a-f]{{12}}(?![0-9a-zA-Z])"
    r"|\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\.\d{3,9}(?:Z|[+-]\d\d:\d\d)?"
    r'|(?<=")[a-z]{4}-[a-z]{1,2}(?=\\?")|\A[a-z]{4}-[a-z]{1,2}\Z'
)
_CITED = re.compile(r"\b[a-z]{4}-[a-z]+\b")
_NAMED = re.compile(r"⟦[a-z]+(?: \d+)?⟧")


class StableForm:
    """Of one conversation. masked: its pictures differ from run to run, by the run's mask alone."""

    def __init__(self, settings: Settings, *, masked: bool = False) -> None:
        self._masked = masked
        folders = {"home": settings.home, "data": settings.data, "user": Path.home()}
        places = {str(path): f"⟦{name}⟧" for name, path in folders.items() if path is not None and len(path.parts) > 1}
        self._folders = [
            (re.compile(re.escape(path) + r"(?![\w-])"), name)
            for path, name in sorted(places.items(), key=lambda one: len(one[0]), reverse=True)
        ]
        own = [value.get_secret_value() for name in SECRETS if (value := getattr(settings, name)) is not None]
        secrets = {value for value in (*environment_secrets(os.environ), *own) if len(value) >= SHORTEST_SECRET}
        self._secrets = sorted(secrets, key=len, reverse=True)
        self._names: dict[str, str] = {}
        self._actual = {name: path for path, name in places.items()}
        self._ids = self._cites = 0

    def seen(self, value: Any) -> Any:
        """Return JSON data that the model is shown; new ids get the next names."""
        return _each(value, lambda text: _OF_A_RUN.sub(self._named, self._plain(without_secrets(text))))

    def written(self, value: Any) -> Any:
        """Return JSON data that the model wrote. An id that it was never shown stays as it is."""

        def known(found: re.Match[str]) -> str:
            return self._names.get(found[0], found[0])

        return _each(value, lambda text: _OF_A_RUN.sub(known, self._plain(without_keys(text))))

    def present(self, value: Any) -> Any:
        """Return kept data with the ids and folders of now."""
        return _each(value, lambda text: _NAMED.sub(lambda one: self._actual.get(one[0], one[0]), text))

    def call(self, tool: str, arguments: Any, answer: ToolAnswer) -> Doc:
        asked, payload = self.written(arguments), orjson.loads(answer.text())
        if isinstance(cite := payload.get(CITE), str):
            self._cites += 1
            self._keep(cite, f"⟦cite {self._cites}⟧")
        picture = answer.image if not self._masked else None
        image = hashlib.sha256(picture.data).hexdigest() if picture is not None else None
        return {"tool": tool, "arguments": asked, "answer": self.seen(payload), "image": image}

    def copy(self) -> StableForm:
        other = copy(self)
        other._names, other._actual = {**self._names}, {**self._actual}
        return other

    def _plain(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, HIDDEN)
        for path, name in self._folders:
            text = path.sub(name, text)
        return _CITED.sub(lambda one: self._names.get(one[0], one[0]), text)

    def _named(self, found: re.Match[str]) -> str:
        if (name := self._names.get(found[0])) is None:
            self._ids += 1
            name = self._keep(found[0], f"⟦id {self._ids}⟧")
        return name

    def _keep(self, actual: str, name: str) -> str:
        self._names[actual], self._actual[name] = name, actual
        return name


def _each(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {key: _each(item, change) for key, item in value.items()}
    return [_each(item, change) for item in value] if isinstance(value, list | tuple) else value


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
