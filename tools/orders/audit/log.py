"""Writing the audit log: decisions, checks, approvals, submissions, answers and fills are on disk before they count."""

from __future__ import annotations

import datetime as dt
import math
import os
import socket
import tempfile
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any

from pydantic import BaseModel, SecretStr
from sqlalchemy import bindparam, event, select, text, update
from sqlmodel import Session, col

from chordesk.models.errors import OrderError, SettingError
from chordesk.models.files import sync_folder
from chordesk.models.masking import redacted
from chordesk.models.settings import Settings
from chordesk.models.settings.accounts import is_backtest
from chordesk.models.settings.secret_files import secret
from chordesk.models.tables.columns import Utc, utcnow
from chordesk.models.tables.orders import AuditAnchor
from chordesk.tools.orders.audit.chain import ABANDONED, FIRST_PREV, OPENED, ChainAnchor, abandoned_facts, seal

LOG = "audit.jsonl"
CHAIN = "chain"
LONGEST_TEXT = 4000

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
    """Return the path of this data folder's log."""
    return settings.home / "audit" / LOG


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

    The list has the error of each transaction whose lines are missing.
    """
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
        folder.mkdir(parents=True, exist_ok=True)
        handle, aside = tempfile.mkstemp(dir=folder, prefix=".aside-")
        try:
            with os.fdopen(handle, "w", encoding="ascii") as file:
                file.write(uuid.uuid4().hex)
                file.flush()
                os.fsync(file.fileno())
            with suppress(FileExistsError):
                os.link(aside, path)
        finally:
            os.unlink(aside)
        sync_folder(folder)
    return path.read_text(encoding="ascii").strip()


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
    for variable in (*settings.CREDENTIALS, *settings.DATA_CREDENTIALS):
        with suppress(SettingError):  # a file that cannot be read is no secret of ours
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
