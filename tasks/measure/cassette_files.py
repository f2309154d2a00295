"""Cassettes as files: the kept turns of a desk, or of one run, taken to another desk.

A file is compressed lines of JSON: a head, what turns have in common, and the turns. The head has the models and the
settings that the turns were made with, without addresses, folders and keys.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import importlib.metadata
import lzma
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import orjson
from pydantic import ValidationError
from sqlalchemy import func
from sqlmodel import Session, col, delete, or_, select

from chordesk.agents.desk_roles import roles_in
from chordesk.agents.gateway.facts import ServerFacts, keep_facts
from chordesk.agents.measure.cassettes import (
    ID_SHOWN,
    PLAYED,
    Doc,
    KeptTurn,
    Shelf,
    StableForm,
    digest,
    fixed_part,
    part_of,
    turn_of,
)
from chordesk.agents.prompting import instructions
from chordesk.agents.role_models import CASSETTE, LOCAL, RoleModel, facts_of
from chordesk.agents.roles import offered
from chordesk.models.answers import Frozen, output_schema
from chordesk.models.database.store import Store
from chordesk.models.errors import UsageError
from chordesk.models.files import replacing
from chordesk.models.outside import MOST_BYTES, MOST_RATIO, MOST_RECORD, Oversized, lines
from chordesk.models.settings import Settings
from chordesk.models.settings.running_desk import owner_of
from chordesk.models.settings.schema import Owner
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.runs import Run, Turn
from chordesk.models.tables.runtime import CassettePart, CassetteTurn
from chordesk.tasks.engine.budgets import runs_of_backtest

FORM = 1
VERSION = importlib.metadata.version("chordesk")
_FREE_BYTES = 16 << 20  # that any cassette may unpack to
_OF_A_PLACE = frozenset({"provider_url", "local_url", "data"})


class Context(Frozen):
    """What a model server said of a model: its turns were fitted to that."""

    model: str
    context: int | None
    slots: int | None


class Head(Frozen):
    """First line of a file. content: SHA-256 of the lines after it."""

    cassette: int = FORM
    desk: str
    made_at: dt.datetime
    turns: int
    parts: int
    contexts: list[Context]
    settings: dict[str, Any]
    content: str


class Kept(Frozen):
    """Kept turns of one role and model. size: bytes of them in the database, without what turns have in common."""

    role: str
    model: str
    turns: int
    size: int
    first: dt.datetime
    last: dt.datetime


class Taken(Frozen):
    """An imported file. notes: why some of its turns will not be played here."""

    head: Head
    size: int  # of the file, in bytes
    notes: list[str]


def kept(session: Session) -> list[Kept]:
    row = CassetteTurn
    size, at = func.sum(func.length(row.body)), col(row.kept_at)
    found = select(row.role, row.model, func.count(), size, func.min(at), func.max(at)).group_by(row.role, row.model)  # type: ignore[call-overload]
    return [
        Kept(role=role, model=model, turns=turns, size=size, first=first, last=last)
        for role, model, turns, size, first, last in session.exec(found.order_by(row.role, row.model))
    ]


def export(store: Store, settings: Settings, path: Path, run: Run | None) -> tuple[Head, int]:
    """Write the turns that a run kept or played, or all, and return the head and the file's size in bytes."""
    with store.read() as session:
        which = _of_run(session, run) if run is not None else col(CassetteTurn.id).is_not(None)
        rows = session.exec(select(CassetteTurn).where(which).order_by(col(CassetteTurn.id))).all()
        turns = [turn for row in rows if (turn := turn_of(row)) is not None]
        if not turns:
            what = "there are no kept turns" if run is None else f"run {run.id} has no kept turns"
            raise UsageError(what, remedy="runs of a desk with DESK_CASSETTES=record or auto keep them")
        names = sorted({turn.part for turn in turns})
        parts = session.exec(select(CassettePart).where(col(CassettePart.digest).in_(names))).all()
        made_by = run or session.get(Run, max(turns, key=lambda turn: turn.kept_at).run_id)
    lines = [orjson.dumps({"part": part}) for row in parts if (part := part_of(row)) is not None]
    lines += [turn.model_dump_json().encode() for turn in turns]
    head = Head(
        desk=VERSION, made_at=utcnow(), turns=len(turns), parts=len(parts), content=_content(lines),
        contexts=_contexts(settings, turns), settings=_settings_of(settings, made_by),
    )  # fmt: skip
    with replacing(path) as file, lzma.open(file, "wb", preset=3) as packed:
        packed.writelines(line + b"\n" for line in (head.model_dump_json().encode(), *lines))
    return head, path.stat().st_size


def take(store: Store, settings: Settings, path: Path) -> Taken:
    """Put the turns of a file on this desk's shelf. Raises UsageError for what is not a whole cassette, and for one
    whose turns would all not be played here."""
    head, parts, turns = _read(path)
    notes = _unplayable(settings, parts, turns)
    if len(notes) == len({turn.role for turn in turns}):
        raise UsageError(f"{path}: no turn of it would be played here: {'; '.join(notes)}", remedy=_other(head))
    if head.desk != VERSION:
        notes.append(f"it is of desk {head.desk}, this is {VERSION}: turns whose subject changed will be missed")
    Shelf(store).keep(turns, parts)
    for one in head.contexts:
        keep_facts(settings.home, ServerFacts(url=CASSETTE, asked_at=head.made_at, **one.model_dump()))
    return Taken(head=head, size=path.stat().st_size, notes=notes)


def forget(store: Store, run: Run | None) -> int:
    with store.session() as session:
        which = _of_run(session, run) if run is not None else col(CassetteTurn.id).is_not(None)
        gone = session.connection().execute(delete(CassetteTurn).where(which)).rowcount
        used = select(CassetteTurn.part)
        session.connection().execute(delete(CassettePart).where(col(CassettePart.digest).not_in(used)))
    return gone


def _of_run(session: Session, run: Run) -> Any:
    """Return the condition of the turns that a run, or a backtest with its days, kept or played."""
    runs = [run.id, *(session.exec(runs_of_backtest(run.account)).all() if run.kind == "backtest" else ())]
    ways = session.exec(select(Turn.way).where(col(Turn.run_id).in_(runs), col(Turn.way).contains(PLAYED))).all()
    played = {str(way).rpartition(PLAYED)[2][:ID_SHOWN] for way in ways}
    return or_(col(CassetteTurn.run_id).in_(runs), func.substr(CassetteTurn.id, 1, ID_SHOWN).in_(sorted(played)))


def _settings_of(settings: Settings, run: Run | None) -> dict[str, Any]:
    """Return what a run's settings have that is not the default and counts for what its models are asked."""
    fields = Settings.model_fields
    given = {
        name: value
        for name, value in ((run.settings if run is not None else None) or {}).items()
        if name in fields and owner_of(name) in (Owner.RUN, Owner.ORDERS) and name not in _OF_A_PLACE
        and value is not None and value != _plain_default(name)
    }  # fmt: skip
    found: dict[str, Any] = StableForm(settings).seen(given)
    return found


def _plain_default(name: str) -> Any:
    default = Settings.model_fields[name].get_default(call_default_factory=True)
    return orjson.loads(orjson.dumps(default, default=str))


def _contexts(settings: Settings, turns: Iterable[KeptTurn]) -> list[Context]:
    models = sorted({turn.model for turn in turns if turn.runtime == LOCAL})
    facts = [(name, facts_of(settings, RoleModel(LOCAL, name))) for name in models]
    return [Context(model=name, context=one.context, slots=one.slots) for name, one in facts if one is not None]


def _read(path: Path) -> tuple[Head, dict[str, Doc], list[KeptTurn]]:
    remedy = "take a file that `desk cassette export` wrote, and copy it whole"
    try:
        # What turns have in common is there once, so that a cassette packs no better than other text.
        most = max(_FREE_BYTES, min(MOST_BYTES, MOST_RATIO * path.stat().st_size))
        with lzma.open(path) as packed:
            first, *kept = (line.rstrip(b"\n") for line in lines(str(path), packed, MOST_RECORD, most))
        form = orjson.loads(first)["cassette"]
        if form != FORM:
            what = f"{path} is a cassette of form {form}, and this desk reads {FORM}"
            raise UsageError(what, remedy="import it with the version of the desk that made it")
        head = Head.model_validate_json(first)
        if _content(kept) != head.content:
            raise ValueError("its content is not what its head says")
        parts = [orjson.loads(line)["part"] for line in kept[: head.parts]]
        turns = [KeptTurn.model_validate_json(line) for line in kept[head.parts :]]
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}", remedy="name a file") from None
    except Oversized as error:
        raise UsageError(f"{path} is no cassette: {error}", remedy=remedy) from None
    except (lzma.LZMAError, EOFError, ValidationError, ValueError, KeyError, TypeError) as error:
        raise UsageError(
            f"{path} is no cassette, or a damaged one: {str(error).splitlines()[0]}", remedy=remedy
        ) from None
    return head, {digest(part): part for part in parts}, turns


def _content(lines: Sequence[bytes]) -> str:
    return hashlib.sha256(b"\n".join(lines)).hexdigest()


def _unplayable(settings: Settings, parts: dict[str, Doc], turns: Sequence[KeptTurn]) -> list[str]:
    """Return a line for each role whose prompt, tools or form of answer are others here than in any of its turns."""
    form, notes, roles = StableForm(settings), [], roles_in(settings)
    for role in sorted({turn.role for turn in turns}):
        own = [turn for turn in turns if turn.role == role]
        if role not in roles:
            notes.append(f"{role} is no role of this desk ({len(own)} turns)")
            continue
        known = offered(roles[role], settings)
        here: Doc = form.seen(fixed_part(instructions(known, settings), known.tools, output_schema(known.schema)))
        if all(turn.part != digest(here) for turn in own):
            there = parts.get(own[0].part, {})
            names = {"instructions": "prompt", "tools": "tools", "schema": "form of its answer"}
            other = [text for name, text in names.items() if there.get(name) != here[name]]
            notes.append(f"{role} has another {' and '.join(other)} here ({len(own)} turns)")
    return notes


def _other(head: Head) -> str:
    return f"it was made by desk {head.desk}, and this is {VERSION}: use the same version, prompts and tools"
