"""An audit log that is not whole stops orders: it is read before each pass, a break halts the account, and a person's
acceptance alone goes on.

Read are the lines since the database's last checkpoint, at most some 4 MB (tens of milliseconds); all of the file by
`whole`, in the background. An acceptance freezes what is before it by its SHA-256: it never covers a later change.
"""

from __future__ import annotations

import hashlib
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import structlog
from sqlalchemy import update
from sqlmodel import Session, col, select

from chordesk.models.database.store import Store
from chordesk.models.errors import OrderError, UsageError
from chordesk.models.home import make_folder
from chordesk.models.settings import Settings
from chordesk.models.settings.running_desk import is_backtest
from chordesk.models.states import TradingState
from chordesk.models.tables.orders import AuditAnchor, Trading
from chordesk.tools.orders import audit, halting
from chordesk.tools.orders.audit import FIRST_PREV, chain_of, log_path, place_of
from chordesk.tools.orders.audit_reading import ACCEPTED, CheckedChain, check_logs

log = structlog.get_logger(__name__)

WHY = "the audit log is not whole"
_NUMBER = re.compile(r"\blines? (\d+)")


@dataclass(frozen=True, slots=True)
class Break:
    """The first fault of this data folder's log. line: 1 where the file as a whole is missing or cannot be read."""

    chain: str | None
    path: Path
    line: int
    problem: str

    def __str__(self) -> str:
        return f"{WHY}: {self.problem} ({self.path})"

    @property
    def remedy(self) -> str:
        return (
            "find out who changed it: `desk audit verify` names every line; "
            f"then `desk audit accept {self.line} --reason TEXT`"
        )


def first_break(store: Store, settings: Settings, *, whole: bool = False) -> Break | None:
    """Return the first fault of the log of this data folder; logs of other folders are checked where they are."""
    path = log_path(settings)
    try:
        checked = check_logs(store, settings, whole=whole)
    except OSError as error:
        return Break(None, path, 1, f"it cannot be read: {error.strerror}")
    for one in checked:
        if one.reading.problems and _is_here(one, path):
            problem = one.reading.problems[0]
            found = _NUMBER.search(problem)
            return Break(one.chain, path, int(found[1]) if found else 1, problem)
    return None


def _is_here(one: CheckedChain, path: Path) -> bool:
    if one.file is not None:
        return one.file == path
    # By its place too: a line written since the whole folder was lost began another chain there.
    return one.chain == _own_chain(path.parent) or one.place == place_of(path.parent)


def _own_chain(folder: Path) -> str | None:
    with suppress(OSError, UnicodeError):
        return chain_of(folder)
    return None


def halt_if_broken(store: Store, settings: Settings, account: str, by: str, *, whole: bool = False) -> Break | None:
    """Halt the account where the log is not whole, and return the break. It is in force when this returns."""
    if is_backtest(account):
        return None
    found = first_break(store, settings, whole=whole)
    if found is None:
        return None
    with store.read() as session:
        row = session.get(Trading, account)
    if row is not None and row.state == TradingState.HALTED:
        return found
    log.error("audit.not_whole", account=account, line=found.line, problem=found.problem)
    done = halting.halt(store, account, f"{found}; {found.remedy}", by)
    with audit.best_effort(), store.session() as session:
        halting.record(session, settings, done)
    return found


def require_whole(store: Store, settings: Settings) -> None:
    """Raise OrderError where the log is not whole: nobody resumes over a break that nobody has looked at."""
    found = first_break(store, settings, whole=True)
    if found is not None:
        raise OrderError(str(found), remedy=found.remedy)


def accept(store: Store, settings: Settings, line: int, why: str, by: str) -> list[str]:
    """Let the desk go on from a break; return the accounts that it had halted and that trade again. What is wrong stays
    in the file and on record. Raises UsageError where the log is whole or breaks elsewhere, OrderError where it cannot
    be read or written."""
    if not why.strip():
        raise UsageError("an acceptance needs its reason", remedy="--reason TEXT: what happened, for the record")
    found = first_break(store, settings, whole=True)
    if found is None:
        raise UsageError("the audit log is whole: there is nothing to accept", remedy="see `desk audit verify`")
    if line != found.line:
        raise UsageError(
            f"the audit log breaks at line {found.line}, not {line}: {found.problem}",
            remedy="name the line that you looked at",
        )
    if found.chain is None:
        raise OrderError(str(found), remedy=f"make {found.path} a file that this user may read, and try again")
    with store.session() as session:
        _accept(session, settings, found, why.strip(), by)
    return _resumed(store, settings, why, by)


def _accept(session: Session, settings: Settings, found: Break, why: str, by: str) -> None:
    path, own = found.path, _own_chain(found.path.parent)
    if own is not None and own != found.chain and (lost := session.get(AuditAnchor, found.chain)) is not None:
        # Nothing is left of that chain; the line that says so is of the one that has begun in its place.
        facts = {"chain": lost.chain, "place": lost.place, "count": lost.count, "head": lost.head}
        session.delete(lost)
        audit.record(session, settings, ACCEPTED, by=by, why=why, line=found.line, problem=found.problem, lost=facts)
        return
    try:
        make_folder(path.parent)
        (path.parent / audit.CHAIN).write_text(str(found.chain), encoding="ascii")
        data = path.read_bytes() if path.exists() else b""
    except OSError as error:
        raise OrderError(f"{path} cannot be read: {error.strerror}", remedy="make its folder this user's") from None
    row = session.get(AuditAnchor, found.chain, with_for_update=True, populate_existing=True)
    count, head = (row.count, row.head) if row is not None else (0, FIRST_PREV)
    facts = {"size": len(data), "sha256": hashlib.sha256(data).hexdigest(), "count": count, "head": head}
    if row is None:
        row = AuditAnchor(chain=str(found.chain), place=place_of(path.parent), count=0, head=FIRST_PREV, size=0)
        session.add(row)
        session.flush()
    # The next line follows from the last anchored one, behind all that the file has now.
    session.execute(
        update(AuditAnchor)
        .where(col(AuditAnchor.chain) == found.chain)
        .values(size=len(data), verified_count=None, verified_head=None, verified_size=None, verified_at=None)
        .execution_options(synchronize_session=False)
    )
    audit.record(session, settings, ACCEPTED, by=by, why=why, line=found.line, problem=found.problem, **facts)


def _resumed(store: Store, settings: Settings, why: str, by: str) -> list[str]:
    """Let the accounts trade again that the break had halted, and nothing else has."""
    if (left := first_break(store, settings, whole=True)) is not None:
        raise OrderError(str(left), remedy=left.remedy)
    if halting.is_filed(settings):
        return []
    with store.session() as session:
        halted = select(Trading).where(Trading.state == TradingState.HALTED.value, col(Trading.why).startswith(WHY))
        names = sorted(row.account for row in session.exec(halted).all())
        for name in names:
            halting.resume(session, settings, name, by, f"the break of the audit log was accepted: {why}")
    return names
