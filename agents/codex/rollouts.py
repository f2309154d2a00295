"""Rollouts, the files in which the app-server keeps a thread: read, shortened, and copied to the vault and back."""

from __future__ import annotations

import asyncio
import datetime as dt
import hashlib
import json
import re
import shutil
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import orjson
import structlog
from sqlalchemy import Table, func, update
from sqlalchemy.exc import SQLAlchemyError
from sqlmodel import col, select

from chordesk.agents.codex.servers import Home
from chordesk.agents.runtime import ROLLOUT_PATH, ThreadRecord, TranscriptTurn
from chordesk.models.database.blobs import BlobStore, pack, unpack
from chordesk.models.database.store import Store
from chordesk.models.errors import BlobsDown, DatabaseDown, ServiceError, ThreadInUse
from chordesk.models.files import replacing
from chordesk.models.tables.columns import insert_for
from chordesk.models.tables.runtime import KeptThread, Rollout
from chordesk.models.text import SHORTEST_SECRET, utc
from chordesk.models.urls import HIDDEN

_IN_A_HOME = re.compile(rf".*/({ROLLOUT_PATH})")


def relative(path: str | None) -> str | None:
    found = _IN_A_HOME.fullmatch(path) if path is not None else None
    return found.group(1) if found else None


def digest_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def read(codex_home: Path, path: str) -> bytes | None:
    try:
        return (codex_home / path).read_bytes()
    except FileNotFoundError:
        return None


def write(codex_home: Path, path: str, data: bytes) -> None:
    with replacing(codex_home / path) as file:
        file.write(data)


def without(data: bytes, secrets: Iterable[str]) -> bytes:
    """Return a rollout with these secrets replaced, as its lines spell them: they stay JSON."""
    for secret in (each for each in secrets if len(each) >= SHORTEST_SECRET):
        for spelled in {json.dumps(secret, ensure_ascii=escaped)[1:-1] for escaped in (True, False)}:
            data = data.replace(spelled.encode(), HIDDEN.encode())
    return data


# Shortening of a kept thread's rollout: what its next turns send to the model again.
#
# The app-server has no request for it: `thread/compact/start` has the model write a summary, at the price of one more
# call, and `thread/inject_items` only appends. It does read the rollout when a thread is resumed, so that is shortened;
# the vault's copy stays whole.


@dataclass(frozen=True, slots=True)
class Shortened:
    """A whole rollout, and the size in bytes of its short form that a process goes on with."""

    whole: bytes
    size: int

    def continued(self, rollout: bytes) -> bytes:
        """Return the whole file with the lines that were appended to the short form."""
        return self.whole + rollout[self.size :]


@dataclass(slots=True)
class _Turn:
    """Places of a turn's messages among the rollout's lines."""

    started_at: float | None
    asked: int | None = None
    message: int | None = None  # the model's last one so far
    answer: int | None = None  # the same, once the turn is complete
    items: list[int] = field(default_factory=list)


def trimmed(rollout: bytes, answers: int) -> bytes:
    """Return the rollout with the last so many answers as all that the model is sent of its turns, each after a line in
    place of its question.

    Tool calls, what tools answered and the data of questions are of their time; the next question brings its own. The
    events stay, so a transcript is whole. A rollout that cannot be read is returned as it is.
    """
    lines = rollout.splitlines(keepends=True)
    try:
        turns = _turns(lines)
        answered = [turn for turn in turns if turn.answer is not None]
        changed: dict[int, bytes] = {number: b"" for turn in turns for number in turn.items}
        for turn in answered[max(len(answered) - answers, 0) :]:
            changed |= _in_short(turn, lines)
    except (orjson.JSONDecodeError, AttributeError, KeyError, TypeError):
        return rollout
    return b"".join(changed.get(number, line) for number, line in enumerate(lines))


def _turns(lines: list[bytes]) -> list[_Turn]:
    turns: list[_Turn] = []
    for number, (kind, payload) in _rows(lines):
        event = payload.get("type")
        if kind == "event_msg" and event == "task_started":
            turns.append(_Turn(payload.get("started_at")))
        elif not turns:
            continue
        elif kind == "event_msg" and event == "task_complete":
            turns[-1].answer = turns[-1].message
        elif kind == "response_item":
            _place(turns[-1], number, payload)
    return turns


def _rows(lines: list[bytes]) -> Iterator[tuple[int, tuple[str, Mapping[str, Any]]]]:
    for number, line in enumerate(lines):
        row = orjson.loads(line)
        yield number, (row["type"], row["payload"])


def _place(turn: _Turn, number: int, item: Mapping[str, Any]) -> None:
    role = item.get("role")
    if item["type"] == "message" and role not in ("user", "assistant"):
        return  # instructions
    turn.items.append(number)
    if role == "user" and turn.asked is None:
        turn.asked = number
    elif role == "assistant":
        turn.message = number


def _in_short(turn: _Turn, lines: list[bytes]) -> dict[int, bytes]:
    """Return the lines of a turn that stay, by their places."""
    asked = {turn.asked: _asked(lines[turn.asked], turn)} if turn.asked is not None else {}
    return asked | ({turn.answer: lines[turn.answer]} if turn.answer is not None else {})


def _asked(line: bytes, turn: _Turn) -> bytes:
    row = orjson.loads(line)
    at = f" of {utc(dt.datetime.fromtimestamp(turn.started_at, dt.UTC))}" if turn.started_at else ""
    note = [{"type": "input_text", "text": f"[An earlier question{at}, without its data and the tools' answers.]"}]
    if row["payload"]["content"] == note:
        return line
    row["payload"]["content"] = note
    return orjson.dumps(row) + b"\n"


def transcript(rollout: bytes) -> list[TranscriptTurn]:
    """Return the turns of a rollout in order, those before a fork too. Unreadable lines are skipped."""
    turns: dict[str, dict[str, Any]] = {}
    current: dict[str, Any] = {}
    for kind, payload in _lines(rollout):
        event = payload.get("type") if kind == "event_msg" else kind
        if event == "task_started":
            turn_id = str(payload.get("turn_id"))
            current = turns.setdefault(turn_id, {"turn_id": turn_id})
        elif event == "user_message":
            current.setdefault("prompt", payload.get("message"))
        elif event == "agent_message":
            current["answer"] = payload.get("message")
        elif event == "token_usage_record":
            counted = (current.get("tokens", 0), _tokens(payload.get("usage")))
            current["tokens"] = None if None in counted else sum(counted)
        elif event == "task_complete":
            current |= {"status": "completed", **_times(payload)}
        elif event == "turn_aborted":
            current |= {"status": "interrupted", **_times(payload)}
    return [TranscriptTurn(**turn) for turn in turns.values()]


def made_calls(rollout: bytes, turn_id: str) -> list[tuple[Mapping[str, Any], dt.datetime]]:
    found: list[tuple[Mapping[str, Any], dt.datetime]] = []
    current = None
    for line in rollout.splitlines():
        if b"task_started" not in line and b"_call" not in line:
            continue
        try:
            row = orjson.loads(line)
            payload = row["payload"]
            if payload.get("type") == "task_started":
                current = payload.get("turn_id")
            elif row["type"] == "response_item" and current == turn_id:
                found.append((payload, dt.datetime.fromisoformat(row["timestamp"])))
        except (orjson.JSONDecodeError, AttributeError, KeyError, TypeError, ValueError):
            continue
    return found


def _lines(rollout: bytes) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for line in rollout.splitlines():
        try:
            row = orjson.loads(line)
        except orjson.JSONDecodeError:
            continue
        if isinstance(row, dict) and isinstance(row.get("payload"), dict):
            yield str(row.get("type")), row["payload"]


def _tokens(usage: Any) -> int | None:
    total = usage.get("total_tokens") if isinstance(usage, dict) else None
    return total if isinstance(total, int) and total >= 0 else None


def _times(payload: Mapping[str, Any]) -> dict[str, Any]:
    started, duration = payload.get("started_at"), payload.get("duration_ms")
    found: dict[str, Any] = {}
    if isinstance(started, int | float):
        found["started_at"] = dt.datetime.fromtimestamp(started, dt.UTC)
    if isinstance(duration, int | float):
        found["seconds"] = duration / 1000
    return found


THREAD: Table = KeptThread.__table__  # type: ignore[attr-defined]
ROLLOUT: Table = Rollout.__table__  # type: ignore[attr-defined]


class ThreadVault:
    """Store of kept threads that outlives their home. Its methods block: call them off the event loop."""

    def __init__(self, store: Store, blobs: BlobStore) -> None:
        self.blobs = blobs
        self._store = store
        # Made once: each kept turn runs them.
        dialect = store.engine.dialect.name
        self._thread = insert_for(dialect, THREAD).on_conflict_do_nothing()
        new = insert_for(dialect, ROLLOUT)
        changed = {name: value for name, value in new.excluded.items() if name not in ("thread_id", "generation")}
        # A former holder that has not noticed the loss of its lease may write after the new holder.
        # A returned row was written: PostgreSQL's driver does not count rows here.
        self._rollout = new.on_conflict_do_update(
            index_elements=["thread_id", "generation"], set_=changed, where=ROLLOUT.c.token <= new.excluded.token
        ).returning(ROLLOUT.c.generation)

    def put(self, thread: KeptThread, rollout: Rollout, data: bytes) -> None:
        """Keep a copy of a thread's file, under the generation that the registry gets next.

        data: the file; its SHA-256 is rollout.digest. The thread's own row is written unless it is there. The same
        generation may be put again, when its first writer ended before it updated the registry. The blob is stored
        before the row that names it: a row never points to nothing. A copy of a later lease stays, and that is an
        error: the registry must not name a digest that the row does not name. Raises ServiceError.
        """
        self.blobs.put(rollout.digest, pack(data))
        with _database(), self._store.session() as session:
            connection = session.connection()
            connection.execute(self._thread, thread.model_dump())
            if connection.execute(self._rollout, rollout.model_dump()).one_or_none() is None:
                which = f"generation {rollout.generation} of thread {rollout.thread_id}"
                raise ServiceError(f"{which} was kept under a later lease already")

    def note(self, thread: KeptThread) -> None:
        """Write the thread's own row alone, unless it is there: its file is never resumed. Raises ServiceError."""
        with _database(), self._store.session() as session:
            session.connection().execute(self._thread, thread.model_dump())

    def current(self, role: str | None = None, subject: str | None = None) -> dict[tuple[str, str], str]:
        """Return the record of the newest thread of each role and subject, or of this one. Raises ServiceError."""
        wanted = (
            select(KeptThread.role, KeptThread.subject, Rollout.record)
            .join(Rollout, col(Rollout.thread_id) == col(KeptThread.thread_id))
            .order_by(col(KeptThread.created_at).desc(), col(Rollout.generation).desc())
        )
        if role is not None:
            wanted = wanted.where(KeptThread.role == role, KeptThread.subject == subject).limit(1)
        found: dict[tuple[str, str], str] = {}
        with _database(), self._store.read() as session:
            for of_role, of_subject, record in session.exec(wanted):
                found.setdefault((of_role, of_subject), record)
        return found

    def drop(self, record: ThreadRecord) -> None:
        """Note in a thread's newest copy that no conversation continues it. Raises ServiceError."""
        newest = select(func.max(Rollout.generation)).where(Rollout.thread_id == record.thread_id).scalar_subquery()
        noted = (
            update(Rollout)
            .where(col(Rollout.thread_id) == record.thread_id, col(Rollout.generation) == newest)
            .values(record=record.model_dump_json())
        )
        with _database(), self._store.session() as session:
            session.connection().execute(noted)

    def fetch(self, digest: str) -> bytes | None:
        """Return the file with that digest; None when there is none or it was changed. Raises ServiceError."""
        packed = self.blobs.get(digest)
        return None if packed is None else unpack(digest, packed)

    def transcript(self, digest: str) -> list[TranscriptTurn] | None:
        data = self.fetch(digest)
        return None if data is None else transcript(data)


@contextmanager
def _database() -> Iterator[None]:
    try:
        yield
    except SQLAlchemyError as error:
        raise DatabaseDown(f"the database does not answer: {error.__class__.__name__}") from error


# The rollouts of one home and the vault behind them: the right copy at hand before a turn, a new copy after it.
#
# Files, compression and the vault are worked on in threads of their own: neither the event loop nor a tool call
# waits for them.

log = structlog.get_logger(__name__)

T = TypeVar("T")
WORKERS = 8
SECONDS = 10.0  # for one rollout to the vault or from it, with its turn for a thread


@dataclass(frozen=True, slots=True)
class _Copy:
    """The rollout of a record. in_place: the home's file is the same, to the byte."""

    data: bytes
    in_place: bool


class RolloutFiles:
    """Rollouts of one home. vault: None in a worker whose threads never leave its home; then no digest is recorded or
    checked. secrets: hidden in the vault's copies; the app-server records a provider's error as it came, and some quote
    the key."""

    def __init__(self, home: Home, vault: ThreadVault | None, secrets: Iterable[str] = ()) -> None:
        self._codex_home, self._scratch = home.of("kept"), home.of("scratch")
        self._vault, self._secrets = vault, tuple(secrets)
        self._threads = ThreadPoolExecutor(WORKERS, "rollouts")

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def bring(self, record: ThreadRecord, unloaded: Callable[[str], Awaitable[bool]]) -> bool:
        """Sees to it that the home has the very rollout of the record; False when there is none any more.

        unloaded(thread_id) waits until no process of the home has the thread in memory, and returns whether none has: a
        process that resumes a thread it has in memory continues from there, not from the file.

        Raises ThreadInUse, and ServiceError when the copy cannot be found or put in place now: the thread is still
        good, and the next attempt may continue in it.
        """
        if record.rollout_digest is None:
            return True
        if (copy := await self._copy(record)) is None or copy.in_place:
            return copy is not None
        if not await unloaded(record.thread_id):
            raise ThreadInUse(f"thread {record.thread_id} is still in use here; generation {record.generation} waits")
        with _local_errors(record):
            await self._in_thread(partial(write, self._codex_home, str(record.rollout_path), copy.data))
        log.info("rollout.fetched", thread=record.thread_id, generation=record.generation)
        return True

    async def trim(
        self, record: ThreadRecord, answers: int, unloaded: Callable[[str], Awaitable[bool]]
    ) -> Shortened | None:
        """Shorten the home's copy to the thread's last answers (see `trimmed`) and return what `keep` makes the whole
        of again; None when nothing was left out. The only copy, of a thread without a vault, stays as it is, and so
        does one that a process has in memory: it would be continued from there. Raises ServiceError."""
        if self._vault is None:
            return None
        with _local_errors(record):
            whole = await self._in_thread(partial(read, self._codex_home, str(record.rollout_path)))
            short = await self._in_thread(partial(trimmed, whole, answers)) if whole is not None else None
            if whole is None or short is None or short == whole or not await unloaded(record.thread_id):
                return None
            await self._in_thread(partial(write, self._codex_home, str(record.rollout_path), short))
        return Shortened(whole, len(short))

    @asynccontextmanager
    async def source(self, record: ThreadRecord, answers: int | None = None) -> AsyncIterator[tuple[bool, Path | None]]:
        """Yield whether the record's thread can be forked, and the file to fork from, None for the home's own. answers:
        leave out all but the last so many (see `trimmed`). The home's own file is not replaced: a process may be
        writing to it. Raises ServiceError."""
        copy = await self._copy(record) if record.rollout_digest is not None else None
        data = copy.data if copy is not None else b""
        if answers is not None:
            data = await self._in_thread(partial(trimmed, data, answers))
        if copy is None or (copy.in_place and data == copy.data):
            yield record.rollout_digest is None or copy is not None, None
            return
        folder = self._scratch / uuid.uuid4().hex
        name = Path(str(record.rollout_path)).name
        try:
            with _local_errors(record):
                await self._in_thread(partial(write, folder, name, data))
            yield True, folder / name
        finally:
            # The folder may not exist if it could not be written.
            await self._in_thread(partial(shutil.rmtree, folder, ignore_errors=True))

    async def keep(
        self, thread: KeptThread, record: ThreadRecord, shortened: Shortened | None = None
    ) -> ThreadRecord | None:
        """Give the vault a copy of the thread's rollout and return the record of it, at the generation it was given;
        None when the vault did not take it: then the registry must not move on. shortened: what the home's copy was
        before it was trimmed; the vault's is whole."""
        if self._vault is None or record.rollout_path is None:
            return record.model_copy(update={"rollout_digest": None, "rollout_size": 0})
        try:
            return await self._in_thread(partial(self._put, thread, record, shortened))
        except (ServiceError, OSError) as error:
            log.warning("rollout.not_kept", thread=record.thread_id, generation=record.generation - 1, error=str(error))
            return None

    async def note(self, thread: KeptThread) -> None:
        if self._vault is None:
            return
        try:
            await self._in_thread(partial(self._vault.note, thread))
        except (ServiceError, OSError) as error:
            log.warning("rollout.source_not_kept", thread=thread.thread_id, error=str(error))

    async def _copy(self, record: ThreadRecord) -> _Copy | None:
        """None when the vault has answered that there is no such copy, or that it is garbled."""
        with _local_errors(record):
            copy = await self._in_thread(partial(self._find, record))
        if copy is None:
            log.warning("rollout.missing_or_garbled", thread=record.thread_id, generation=record.generation)
        return copy

    def _find(self, record: ThreadRecord) -> _Copy | None:
        if (local := read(self._codex_home, str(record.rollout_path))) is not None:
            whole = local[: record.rollout_size]
            if digest_of(whole) == record.rollout_digest:
                return _Copy(whole, len(whole) == len(local))
            log.info("rollout.differs_here", thread=record.thread_id, generation=record.generation)
        data = self._vault.fetch(str(record.rollout_digest)) if self._vault is not None else None
        return _Copy(data, False) if data is not None else None

    def _put(self, thread: KeptThread, record: ThreadRecord, shortened: Shortened | None) -> ThreadRecord:
        assert self._vault is not None
        path = str(record.rollout_path)
        if (data := read(self._codex_home, path)) is None:
            raise FileNotFoundError(f"there is no {path}")
        data = shortened.continued(data) if shortened is not None else data
        data = without(data, self._secrets)
        kept = record.model_copy(update={"rollout_digest": digest_of(data), "rollout_size": len(data)})
        same = record.model_dump(include={"thread_id", "generation", "token", "turns"})
        rollout = Rollout(**same, digest=digest_of(data), path=path, size=len(data), record=kept.model_dump_json())
        self._vault.put(thread, rollout, data)
        return kept

    async def _in_thread(self, work: Callable[[], T]) -> T:
        try:
            async with asyncio.timeout(SECONDS):
                return await asyncio.get_running_loop().run_in_executor(self._threads, work)
        except TimeoutError:
            raise BlobsDown(f"a rollout took more than {SECONDS:g} s to the vault or from it") from None


@contextmanager
def _local_errors(record: ThreadRecord) -> Iterator[None]:
    """Turn a local file error into ServiceError: it does not mean that the thread is lost."""
    try:
        yield
    except OSError as error:
        raise ServiceError(
            f"the rollout of thread {record.thread_id} cannot be read or written here: {error}",
            remedy="see that the worker's home has space and is its own",
        ) from error
