"""The audit log: one JSON object a line with the hash of the one before it, on disk before what it says counts."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import math
import os
import re
import socket
import tempfile
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from itertools import accumulate
from pathlib import Path
from typing import Any

from pydantic import BaseModel, SecretStr
from sqlalchemy import bindparam, event, select, text, update
from sqlmodel import Session, col

from chordesk.models import home
from chordesk.models.errors import OrderError, SettingError
from chordesk.models.files import sync_folder
from chordesk.models.settings import Settings
from chordesk.models.settings.running_desk import is_backtest
from chordesk.models.settings.schema import BROKER_KEYS, HOLDINGS_KEYS
from chordesk.models.settings.variables import secret
from chordesk.models.tables.columns import Utc, utcnow
from chordesk.models.tables.orders import AuditAnchor
from chordesk.models.text import redacted

FIRST_PREV = "0" * 64
OPENED = "opened"
ABANDONED = "abandoned"
SENT = "submitting"  # the last line of its transaction, always
_BEGINNING = b'{"at":"'  # of every line
_LINE = re.compile(rb"[^\n]*\n|[^\n]+\Z")
_SENDING = f'"kind":"{SENT}"'.encode()
_SEALED = re.compile(
    rb'\{"at":"[^"\\\n]*","facts":(?P<facts>\{[^\n]*\}),(?P<hash>"hash":"(?P<digest>[0-9a-f]{64})",)'
    rb'"kind":"(?P<kind>[^"\\\n]*)","n":(?P<n>[1-9]\d*),"prev":"(?P<prev>[0-9a-f]{64})"\}\n'
)
_KEYS = {"n", "at", "kind", "facts", "prev", "hash"}


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One line of the log. at: real time, UTC."""

    n: int
    at: str
    kind: str
    facts: Mapping[str, Any]
    prev: str
    hash: str


@dataclass(frozen=True, slots=True)
class ChainAnchor:
    """The database's record of a chain: number of lines, hash of the last one, and the file's length with it."""

    count: int
    head: str
    size: int


START = ChainAnchor(0, FIRST_PREV, 0)


@dataclass(frozen=True, slots=True)
class ChainReading:
    """A file compared with its anchor."""

    abandoned: int  # number of lines that an `abandoned` line covers
    beyond: int  # number of lines after the anchored ones, of transactions that did not commit or are not over
    # lines that were altered, inserted, are missing or were cut off, and lines that did commit although the database
    # does not count them
    problems: list[str]


def seal(n: int, at: str, kind: str, facts: Mapping[str, Any], prev: str) -> tuple[bytes, str]:
    """Return a line as it is written, with its newline, and its hash."""
    body = {"n": n, "at": at, "kind": kind, "facts": facts, "prev": prev}
    found = hashlib.sha256(_canonical(body)).hexdigest()
    return _canonical({**body, "hash": found}) + b"\n", found


def _canonical(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def abandoned_facts(beyond: bytes) -> dict[str, Any]:
    """Return the facts of the line that marks the bytes right before it as abandoned."""
    return {"bytes": len(beyond), "lines": beyond.count(b"\n"), "sha256": hashlib.sha256(beyond).hexdigest()}


def read_chain(data: bytes, anchor: ChainAnchor, since: ChainAnchor = START) -> ChainReading:
    """Read a file's lines in order and name everything that is not as it was written. since: where `data` begins, right
    after the lines that were read before."""
    struck_out = _read_whole(data, anchor, since)
    if struck_out is not None:
        return ChainReading(struck_out, 0, [])
    raws = _LINE.findall(data)
    starts = [0, *accumulate(map(len, raws))]
    parsed = [parse(raw) for raw in raws]
    struck, problems = _abandoned(data, starts, parsed)
    expected, head, beyond = since.count + 1, since.head, 0
    last = tail = since.count, since.head  # the last line that is not struck out, and the last one of all
    uncounted = set(struck)
    for place, found in enumerate(parsed):
        counts = place not in struck and expected <= anchor.count
        if found is None and (counts or not _broken_off(raws[place])):
            where = "the file" if since == START else f"those after line {since.count}"
            problems.append(f"line {place + 1} of {where} is not a line of the log")
            continue
        if not counts and found is not None:
            # An honest line that did not commit follows from the one before it, or from where the next writer began.
            problems += _added(found, raws[place], place + 1, {last, tail, (anchor.count, anchor.head)})
        tail = (found.n, found.hash) if found is not None else tail
        if place in struck:
            continue
        last = tail
        if found is None or not counts:
            beyond += 1
            uncounted.add(place)
            continue
        problems += _faults(found, raws[place], expected, head)
        expected, head = found.n + 1, found.hash
    problems += _end(expected - 1, head, anchor) + _uncounted_orders(parsed, uncounted)
    return ChainReading(len(struck), beyond, problems)


def _read_whole(data: bytes, anchor: ChainAnchor, since: ChainAnchor) -> int | None:
    """Return how many lines are struck out where every line is as it was written and none lies beyond the anchor, else
    None: what is wrong is not said here. A line in its right form is the content of its hash with the hash put in, so
    that it is not parsed."""
    counted: list[tuple[int, str]] = []  # where each line begins, and the hash of the one before it
    at, head, lines = 0, since.head, 0
    while at < len(data):
        line = _SEALED.match(data, at)
        if line is None:
            return None
        body, digest = data[at : line.start("hash")] + data[line.end("hash") : line.end() - 1], line["digest"].decode()
        if hashlib.sha256(body).hexdigest() != digest:
            return None
        if line["kind"] == ABANDONED.encode():
            begin = _begin_of_struck(data, at, parse(line[0]))
            if begin is None or _SENDING in data[begin:at]:
                return None
            while counted and counted[-1][0] >= begin:
                head = counted.pop()[1]
        if int(line["n"]) != since.count + len(counted) + 1 or line["prev"].decode() != head:
            return None
        counted.append((at, head))
        at, head, lines = line.end(), digest, lines + 1
    return lines - len(counted) if (since.count + len(counted), head) == (anchor.count, anchor.head) else None


def parse(raw: bytes) -> AuditEntry | None:
    try:
        found = json.loads(raw)
    except ValueError:
        return None
    if not isinstance(found, dict) or set(found) != _KEYS:
        return None
    texts = all(isinstance(found[key], str) for key in ("at", "kind", "prev", "hash"))
    whole = isinstance(found["n"], int) and isinstance(found["facts"], dict)
    return AuditEntry(**found) if texts and whole else None


def _broken_off(raw: bytes) -> bool:
    """Return whether a full disk or a crash can have left this of a line: its beginning, or zeros in its place. A
    blank line or any other text was inserted."""
    text = raw.removesuffix(b"\n")
    return text.startswith((_BEGINNING, b"\0")) or (text != b"" and _BEGINNING.startswith(text))


def _abandoned(data: bytes, starts: list[int], parsed: list[AuditEntry | None]) -> tuple[set[int], list[str]]:
    """Return the places of abandoned lines, and problems. The last mark first: it may cover a mark that did not
    commit."""
    struck: set[int] = set()
    problems: list[str] = []
    for place in range(len(parsed) - 1, -1, -1):
        found = parsed[place]
        if place in struck or found is None or found.kind != ABANDONED:
            continue
        begin = _begin_of_struck(data, starts[place], found)
        if begin is None:
            problems.append(f"line {found.n}: the lines that it strikes out are not what stands before it")
            continue
        struck.update(other for other in range(place) if starts[other] >= begin)
    return struck, problems


def _begin_of_struck(data: bytes, at: int, mark: AuditEntry | None) -> int | None:
    """Return where the bytes begin that a mark at this place strikes out, None where they are not those before it."""
    length = mark.facts.get("bytes") if mark is not None else None
    begin = at - length if isinstance(length, int) else -1
    return begin if mark is not None and begin >= 0 and abandoned_facts(data[begin:at]) == mark.facts else None


def _faults(found: AuditEntry, raw: bytes, expected: int, head: str) -> list[str]:
    sealed, digest = seal(found.n, found.at, found.kind, found.facts, found.prev)
    if digest != found.hash or sealed != raw:
        return [f"line {found.n}: its content is not what its hash was made of: altered"]
    if found.n > expected:
        return [f"{_lines(expected, found.n - 1)} missing"]
    if found.n < expected:
        return [f"line {found.n} stands where line {expected} should"]
    if found.prev != head:
        return [f"line {found.n} does not follow from the line before it: one of them was altered"]
    return []


def _added(found: AuditEntry, raw: bytes, place: int, after: Collection[tuple[int, str]]) -> list[str]:
    if any(not _faults(found, raw, count + 1, head) for count, head in after):
        return []
    return [f"line {place} was added: it does not follow from any line before it"]


def _end(last: int, head: str, anchor: ChainAnchor) -> list[str]:
    if last < anchor.count:
        return [f"{_lines(last + 1, anchor.count)} missing: the end of the file was cut off"]
    if head != anchor.head:
        return [f"line {last} is not the last one that the database has anchored"]
    return []


def _uncounted_orders(parsed: list[AuditEntry | None], uncounted: set[int]) -> list[str]:
    """Orders sent by lines that the database does not count: the next line's writer had seen them committed."""
    problems = []
    for place in sorted(uncounted):
        found, after = parsed[place], parsed[place + 1] if place + 1 in uncounted else None
        if found is None or after is None or found.kind != SENT or after.prev != found.hash:
            continue
        sent = f"line {found.n}: order {found.facts.get('order')} was sent, and the database does not know it"
        problems.append(f"{sent}: it is older than the log, as after a restore; ask the broker")
    return problems


def _lines(first: int, last: int) -> str:
    return f"line {first} is" if first == last else f"lines {first} to {last} are"


LOG = "audit.jsonl"
CHAIN = "chain"
LONGEST_TEXT = 4000
_CHAIN_ID = re.compile(r"[0-9a-f]{32}")

_PENDING = "audit"
_GIVEN_UP: ContextVar[list[OrderError] | None] = ContextVar("_GIVEN_UP", default=None)

_OPEN = text(
    "insert into audit_anchor (chain, place, count, head, size, at) values (:chain, :place, 0, :head, 0, :at) "
    "on conflict (chain) do nothing"
).bindparams(bindparam("at", type_=Utc()))


@dataclass(frozen=True, slots=True)
class _Line:
    settings: Settings
    at: str
    kind: str
    facts: Mapping[str, Any]


def log_path(settings: Settings) -> Path:
    return settings.home / "audit" / LOG


def why_no_file(settings: Settings) -> str | None:
    """Return that something else is in the place of the log; None for a log, and where there is nothing yet."""
    path = log_path(settings)
    if path.is_file() or not os.path.lexists(path):
        return None
    return f"the audit log {path} is not a file: move it away, and bring the log back"


def place_of(folder: Path) -> str:
    """Return the location of a chain for people: this host and the folder."""
    return f"{socket.gethostname()}:{folder}"


def record(session: Session, settings: Settings, kind: str, **facts: Any) -> None:
    """Add one line to the audit log in the caller's transaction.

    kind: the event's name. facts: plain values, times, enums and models; `order` is the order's id wherever a line
    is about one. Secrets are masked. The transaction's lines are written and on disk as the last thing before it
    commits, in the order of the calls: so the lock on the log is the last that it takes, and short. They count only
    once it has committed; of one that fails at that point they stay, and the next line marks them as abandoned. A line
    that cannot be written raises OrderError from the commit, which then rolls back: nothing happens without its record.
    A backtest has no line: its orders were never given to anyone, and its rows are its record.
    """
    if is_backtest(settings.account):
        return
    if _PENDING not in session.info:
        session.info[_PENDING] = []
        event.listen(session, "before_commit", _write_pending)
        event.listen(session, "after_rollback", _forget_pending)
    kept = redacted(_plain(facts), _secrets(settings))
    session.info[_PENDING].append(_Line(settings, _moment(utcnow()), kind, kept))


@contextmanager
def best_effort() -> Iterator[list[OrderError]]:
    """Let transactions within the block commit although their lines cannot be written: for a person that stops trading.
    The list has the error of each transaction whose lines are missing."""
    errors: list[OrderError] = []
    token = _GIVEN_UP.set(errors)
    try:
        yield errors
    finally:
        _GIVEN_UP.reset(token)


def _forget_pending(session: Any) -> None:
    session.info[_PENDING].clear()


def _write_pending(session: Any) -> None:
    pending: list[_Line] = session.info[_PENDING]
    if not pending or session.in_nested_transaction():
        return
    session.flush()
    path = log_path(pending[0].settings)
    try:
        home.require(path)
        chain = chain_of(path.parent, make=True)
        anchor = _lock(session, chain, path.parent)
        after = _append(path, anchor, chain, pending)
    except (OSError, UnicodeError) as error:
        _fail(path, pending, error)
        return
    pending.clear()
    session.execute(
        update(AuditAnchor)
        .where(col(AuditAnchor.chain) == chain)
        .values(count=after.count, head=after.head, size=after.size, at=utcnow())
        .execution_options(synchronize_session=False)
    )


def _fail(path: Path, pending: list[_Line], error: OSError | UnicodeError) -> None:
    kinds, given_up = ", ".join(line.kind for line in pending), _GIVEN_UP.get()
    why = (error.strerror if isinstance(error, OSError) else None) or error
    remedy = "make the folder writable and free some space"
    if given_up is None:
        remedy += "; what is not on record does not happen"
    failed = OrderError(f"the audit log {path} cannot be written ({kinds}): {why}", remedy=remedy)
    if given_up is None:
        raise failed from None
    given_up.append(failed)
    pending.clear()


def chain_of(folder: Path, make: bool = False) -> str:
    """Return the id of a folder's chain; the first process makes it. Raises OSError when there is none, UnicodeError
    when the file holds none."""
    path = folder / CHAIN
    if make and not path.exists():
        home.make_folder(folder)
        known = _chain_in(folder / LOG)  # the id was removed: another one would leave the log without its chain
        handle, aside = tempfile.mkstemp(dir=folder, prefix=".aside-")
        try:
            with os.fdopen(handle, "w", encoding="ascii") as file:
                file.write(known or uuid.uuid4().hex)
                file.flush()
                os.fsync(file.fileno())
            with suppress(FileExistsError):
                os.link(aside, path)
        finally:
            os.unlink(aside)
        sync_folder(folder)
    return path.read_text(encoding="ascii").strip()


def _chain_in(log: Path) -> str | None:
    """Return the id that a log has in its first line; None without a log, or for one that begins with another line."""
    try:
        with log.open("rb") as file:
            first = parse(file.readline(LONGEST_TEXT))
    except OSError:
        return None
    found = first.facts.get("chain") if first is not None and first.kind == OPENED else None
    return found if isinstance(found, str) and _CHAIN_ID.fullmatch(found) else None


def _lock(session: Session, chain: str, folder: Path) -> ChainAnchor:
    session.execute(_OPEN, {"chain": chain, "place": place_of(folder), "head": FIRST_PREV, "at": utcnow()})
    row = session.execute(
        select(col(AuditAnchor.count), col(AuditAnchor.head), col(AuditAnchor.size))
        .where(col(AuditAnchor.chain) == chain)
        .with_for_update()
    ).one()
    return ChainAnchor(*row)


def _append(path: Path, anchor: ChainAnchor, chain: str, pending: Sequence[_Line]) -> ChainAnchor:
    new = not path.exists()
    with os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600), "r+b", buffering=0) as file:
        handle, end = file.fileno(), file.seek(0, os.SEEK_END)
        torn = b"\n" if end and os.pread(handle, 1, end - 1) != b"\n" else b""
        beyond = os.pread(handle, max(end - anchor.size, 0), anchor.size) + torn
        lines, count, head = torn, anchor.count, anchor.head
        for at, kind, facts in _lines_to_write(anchor, chain, beyond, pending):
            count += 1
            line, head = seal(count, at, kind, facts, head)
            lines += line
        _write_all(handle, lines)
        os.fsync(handle)
    if new:
        sync_folder(path.parent)
    return ChainAnchor(count, head, end + len(lines))


def _lines_to_write(
    anchor: ChainAnchor, chain: str, beyond: bytes, pending: Sequence[_Line]
) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Yield the lines to write now: a mark over what did not commit, a chain's first line, then the pending lines."""
    now = _moment(utcnow())
    if beyond:
        yield now, ABANDONED, abandoned_facts(beyond)
    if not anchor.count:
        yield now, OPENED, {"chain": chain}
    for line in pending:
        yield line.at, line.kind, line.facts


def _write_all(handle: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(handle, left) :]


def _secrets(settings: Settings) -> Iterable[str]:
    for name in type(settings).model_fields:
        value = getattr(settings, name)
        if isinstance(value, SecretStr) and not name.endswith("_url"):
            yield value.get_secret_value()
    for variable in (*BROKER_KEYS, *HOLDINGS_KEYS, *settings.DATA_CREDENTIALS):
        with suppress(SettingError):  # a file that cannot be read is not a secret of ours
            yield secret(os.environ, variable) or ""


def _moment(moment: dt.datetime) -> str:
    return moment.astimezone(dt.UTC).isoformat()


def _plain(value: Any) -> Any:
    """Return JSON data: amounts as they are, times in UTC, and text of a bounded length."""
    if isinstance(value, Enum):
        return _plain(value.value)
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, BaseModel):
        return _plain(value.model_dump(mode="json"))
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(item) for item in value]
    if isinstance(value, dt.datetime):
        return _moment(value)
    shown = f"{value:f}" if isinstance(value, Decimal) else str(value)
    return shown if len(shown) <= LONGEST_TEXT else f"{shown[:LONGEST_TEXT]}…"
