"""The trading state of an account, outside Redis and any model, and the orders at the broker that it no longer allows,
and taking mandates back."""

from __future__ import annotations

import datetime as dt
import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from sqlmodel import Session, col, select

from chordesk.models import home
from chordesk.models.database import soundness
from chordesk.models.database.store import Store, writes
from chordesk.models.errors import OrderError
from chordesk.models.orders import Denied
from chordesk.models.settings import Settings
from chordesk.models.states import ORDER_NEXT, ORDER_WORKING, ApprovalState, OrderState, RunKind, TradingState
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.orders import Mandate, Order, Position, Trading
from chordesk.models.tables.runs import Run
from chordesk.models.text import utc
from chordesk.tools.decimals import exact
from chordesk.tools.ledger import filled_quantities
from chordesk.tools.orders import accounts, approvals, audit, booking
from chordesk.tools.orders.booking import deny_order, in_time, parts_of
from chordesk.tools.risk.conduct import halted
from chordesk.tools.risk.exposure import opening_part

_NOT_SENT = sorted(state.value for state, following in ORDER_NEXT.items() if OrderState.DENIED in following)
_LONGEST = 300


@dataclass(frozen=True, slots=True)
class HaltRecord:
    """The result of a halt. orders: ids of those it denied; questions: ids of the approvals it closed, by order."""

    account: str
    why: str
    by: str
    denied: Denied
    orders: tuple[str, ...]
    questions: Mapping[str, str]


def halt_file(settings: Settings) -> Path:
    return settings.home / "HALT"


def trading_state(session: Session, settings: Settings, account: str) -> tuple[TradingState, str]:
    """Return the state in force and its reason. An unreadable state counts as halted. Within a writing transaction the
    row stays locked until its end, so that a halt comes wholly before or after it."""
    lock = {"read": True} if writes(session) else None
    return _read(settings, account, session.get(Trading, account, with_for_update=lock, populate_existing=True))


def is_filed(settings: Settings) -> bool:
    """Return whether the HALT file halts every account of this home."""
    return _reason_of_files(settings) is not None


def _reason_of_files(settings: Settings) -> str | None:
    """Return why files halt every account: the HALT file, the mark of a database that is not sound, or a data folder
    that is away, of which neither can be read."""
    if (away := home.why_away(settings.home)) is not None:
        return away
    if (why := _file_reason(settings)) is not None:
        return why
    unsound = soundness.marked(settings)
    return f"the database is not sound: {unsound}" if unsound is not None else None


@dataclass(frozen=True, slots=True)
class TradingStop:
    """Why an account may not trade, or only give exposure back. by: None for a HALT file that was written by hand;
    since: real time, None where the file's cannot be read; file: whether the HALT file is in force."""

    account: str
    state: TradingState
    why: str
    by: str | None
    since: dt.datetime | None
    file: bool


def stop_of(session: Session, settings: Settings, account: str) -> TradingStop | None:
    """Return what keeps an account from trading freely; None while nothing does."""
    row = session.get(Trading, account)
    state, why = _read(settings, account, row)
    if state is TradingState.ACTIVE:
        return None
    file = _file_reason(settings) is not None
    stopped = row if row is not None and row.state != TradingState.ACTIVE else None
    moments = (stopped.since if stopped is not None else None, _file_time(settings) if file else None)
    since = min(filter(None, moments), default=None)
    if stopped is None or (file and stopped.state != TradingState.HALTED):
        return TradingStop(account, state, why, None, since, file)
    # `desk halt` writes both, and the row has the author and the reason apart from each other.
    readable = stopped.state == state.value
    return TradingStop(account, state, stopped.why if readable else why, stopped.by, since, file)


def _file_time(settings: Settings) -> dt.datetime | None:
    try:
        return dt.datetime.fromtimestamp(halt_file(settings).lstat().st_mtime, dt.UTC)
    except OSError:
        return None


def _read(settings: Settings, account: str, row: Trading | None) -> tuple[TradingState, str]:
    why = _reason_of_files(settings)
    if why is not None:
        return TradingState.HALTED, why
    if row is None:
        return TradingState.ACTIVE, ""
    try:
        state = TradingState(row.state)
    except ValueError:
        return TradingState.HALTED, f"the trading state of {account} reads {row.state!r}, which means nothing here"
    return state, f"{row.why} ({row.by}, {utc(row.since)})" if row.why else ""


def _file_reason(settings: Settings) -> str | None:
    path = halt_file(settings)
    try:
        text = path.read_text(errors="replace").strip()
    except FileNotFoundError:
        # Whoever put a link there meant a halt, wherever it leads.
        return f"{path} is a link to a file that is not there" if path.is_symlink() else None
    except OSError as error:
        return f"{path} cannot be read: {error.strerror}"
    return f"{' '.join(text.split())[:_LONGEST] or 'no reason given'} ({path})"


def write_file(settings: Settings, why: str, by: str) -> Path:
    """Write the HALT file; return its path once it is on disk. Raises OrderError."""
    path = halt_file(settings)
    try:
        home.make_folder(path.parent)
        with path.open("w") as file:
            file.write(f"{why} ({by}, {utc(utcnow())})\n")
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        remedy = "make its folder writable and halt again; the database halts the account without it"
        raise OrderError(f"the HALT file {path} cannot be written: {error.strerror}", remedy=remedy) from None
    return path


def remove_file(settings: Settings) -> None:
    path = halt_file(settings)
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        remedy = "remove it by hand: nothing is traded while it is there"
        raise OrderError(f"the HALT file {path} cannot be removed: {error.strerror}", remedy=remedy) from None


def halt(store: Store, account: str, why: str, by: str) -> HaltRecord:
    """Write that the account is halted, then deny every order of it that was not sent. Open orders stay open: only the
    broker can cancel them. It is in force when this returns, and not in the audit log yet: the caller does that, with
    `record`."""
    with store.session() as session:
        _write(session, account, TradingState.HALTED, why, by)
    with store.session() as session:
        return _deny_waiting(session, account, why, by)


def enforce_file(store: Store, settings: Settings, account: str, by: str) -> HaltRecord | None:
    """Halt the account in the database too when a HALT file was written without it, so that the halt outlives the file
    and waiting orders are denied; return the record, which the caller passes to `record`. A file older than the row's
    last change is one that `halt` has written itself, or that `resume` is about to remove."""
    written = _file_time(settings)
    if written is None:
        return None
    with store.read() as session:
        row = session.get(Trading, account)
    why = _file_reason(settings)
    if why is None or (row is not None and (row.since >= written or row.state == TradingState.HALTED)):
        return None
    return halt(store, account, why, by)


def _deny_waiting(session: Session, account: str, why: str, by: str) -> HaltRecord:
    """Deny every order of the account that was not sent, and close their approvals."""
    denied = halted(TradingState.HALTED, why, account)
    questions = approvals.close_pending(session, account, denied)
    rows = session.exec(
        select(Order)
        .where(col(Order.account) == account, col(Order.state).in_(_NOT_SENT))
        .with_for_update()
        .execution_options(populate_existing=True)
    ).all()
    for order in rows:
        deny_order(session, order, denied)
    return HaltRecord(account, why, by, denied, tuple(order.id for order in rows), questions)


def record(session: Session, settings: Settings, done: HaltRecord) -> None:
    audit.record(session, settings, "halt", account=done.account, why=done.why, by=done.by)
    _record_denied(session, settings, done)


def _record_denied(session: Session, settings: Settings, done: HaltRecord) -> None:
    facts = done.denied.model_dump(mode="json", exclude={"cleared"})
    for order_id in done.orders:
        audit.record(session, settings, "denied", order=order_id, **facts)
    closed = {"state": ApprovalState.DENIED, "by": approvals.DESK, "why": done.denied.reason}
    for order_id, approval_id in done.questions.items():
        audit.record(session, settings, "approval_decided", order=order_id, approval=approval_id, **closed)


def resume(
    session: Session, settings: Settings, account: str, by: str, why: str = "", *, reduce_only: bool = False
) -> None:
    """Let the account trade again, or only give exposure back, as far as the HALT file allows. Orders that a dying
    worker or a halt by the file alone has left waiting are denied: they were decided before the halt. A process that
    `--flatten` fenced off may take the account again."""
    # Rows in the order in which submitting locks them: orders, the fence, the state.
    state, reason = _read(settings, account, session.get(Trading, account, populate_existing=True))
    if state is TradingState.HALTED:
        _record_denied(session, settings, _deny_waiting(session, account, reason, by))
    accounts.release(session, account)
    to = TradingState.REDUCING if reduce_only else TradingState.ACTIVE
    _write(session, account, to, why, by)
    audit.record(session, settings, "resume", account=account, by=by, why=why, state=to)


def _write(session: Session, account: str, state: TradingState, why: str, by: str) -> None:
    row = session.get(Trading, account, with_for_update=True, populate_existing=True)
    row = row or Trading(account=account, state=state, why=why, by=by)
    row.state, row.why, row.by, row.since = state.value, why, by, utcnow()
    session.add(row)
    session.flush()
    booking.trading_changed(session, account, state, why, by)


def reword(session: Session, account: str, end: str, by_now: str) -> None:
    """Let a reason that ends so end otherwise: the state, its author and its time stay."""
    row = session.get(Trading, account, with_for_update=True, populate_existing=True)
    if row is not None and row.why.endswith(end):
        row.why = row.why.removesuffix(end) + by_now
        session.add(row)


# Orders at the broker that the trading state no longer allows: all of a halted account, the opening ones of a
# reducing one.


def disallowed_orders(session: Session, settings: Settings, account: str) -> list[str]:
    state, _ = trading_state(session, settings, account)
    if state is TradingState.ACTIVE:
        return []
    which = select(Order).where(col(Order.account) == account, col(Order.state).in_(ORDER_WORKING))
    rows = in_time(session.exec(which).all())
    if state is TradingState.REDUCING:
        return _opening(session, account, rows)
    return [order.id for order in rows if not only_reduces(session, order)]


def only_reduces(session: Session, order: Order) -> bool:
    """Return whether a halt leaves the order alone: it is one of `--flatten`, or it protects a position."""
    return order.protects is not None or session.get_one(Run, order.run_id).kind == RunKind.FLATTEN


def _opening(session: Session, account: str, rows: Sequence[Order]) -> list[str]:
    """Return the orders that would take exposure on, if all before them on their side filled and nothing on the
    other."""
    positions = session.exec(select(Position).where(col(Position.account) == account)).all()
    booked = filled_quantities(session, [order.id for order in rows])
    held = {row.symbol: exact(row.quantity) for row in positions}
    taken: defaultdict[tuple[str, str], Decimal] = defaultdict(Decimal)
    found = []
    for order in rows:
        parts = [(traded, side, _left(order, quantity, booked)) for traded, side, quantity in parts_of(order)]
        if any(opening_part(_base(traded, side, held, taken), side, left) for traded, side, left in parts):
            found.append(order.id)
            continue
        for traded, side, left in parts:
            taken[traded, side] += left
    return found


def _base(traded: str, side: str, held: Mapping[str, Decimal], taken: Mapping[tuple[str, str], Decimal]) -> Decimal:
    """Return the position that a part starts from."""
    return held.get(traded, Decimal(0)) + taken.get((traded, side), Decimal(0)) * (1 if side == "buy" else -1)


def _left(order: Order, quantity: Decimal, booked: Mapping[str, Decimal]) -> Decimal:
    """Return how much of a part may still fill; a leg counts in full until its order has ended."""
    return quantity if order.legs else max(quantity - booked[order.id], Decimal(0))


def disarm(store: Store, settings: Settings, broker: str | None, by: str) -> list[int]:
    """Disarm every mandate of a broker, or of all; return the versions that were armed until now. It takes effect
    before it is in the audit log: a log that cannot be written must not keep a mandate alive."""
    with store.session() as session:
        query = select(Mandate).where(col(Mandate.disarmed_at).is_(None)).order_by(col(Mandate.version))
        if broker is not None:
            query = query.where(col(Mandate.broker) == broker)
        rows = session.exec(query.with_for_update()).all()
        for row in rows:
            row.disarmed_at, row.disarmed_by = utcnow(), by
            session.add(row)
    if rows:
        with store.session() as session:
            for row in rows:
                audit.record(session, settings, "disarmed", version=row.version, broker=row.broker, by=by)
    return [row.version for row in rows]
