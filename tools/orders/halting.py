"""What an account may do: a HALT file in the home and a row in the database, outside Redis and outside any model.

The file is for when the database is away too; whoever reads both goes by the file. The row reaches workers on hosts
that do not share the home.
"""

from __future__ import annotations

import os
from pathlib import Path

from sqlmodel import Session, col, select

from models.columns import utcnow
from models.order_tables import Order, Trading
from models.settings import Settings
from models.states import OrderState, TradingState
from tools.orders import audit, fence
from tools.orders.states import deny_order
from tools.risk import halted

_WAITING = (OrderState.APPROVAL_PENDING.value, OrderState.APPROVED.value)
_LONGEST = 300


def halt_file(settings: Settings) -> Path:
    return settings.home / "HALT"


def trading_state(session: Session, settings: Settings, account: str) -> tuple[TradingState, str]:
    """The state in force and why. What cannot be read is halted.

    Within a writing transaction the row stays locked until its end, so that a halt comes wholly before or after it.
    """
    why = _file_says(settings)
    if why is not None:
        return TradingState.HALTED, why
    row = session.get(Trading, account, with_for_update={"read": True}, populate_existing=True)
    if row is None:
        return TradingState.ACTIVE, ""
    try:
        state = TradingState(row.state)
    except ValueError:
        return TradingState.HALTED, f"the trading state of {account} reads {row.state!r}, which means nothing here"
    return state, f"{row.why} ({row.by}, {row.since:%Y-%m-%d %H:%M} UTC)" if row.why else ""


def _file_says(settings: Settings) -> str | None:
    path = halt_file(settings)
    try:
        text = path.read_text(errors="replace").strip()
    except FileNotFoundError:
        return None
    except OSError as error:
        return f"{path} cannot be read: {error.strerror}"
    return f"{' '.join(text.split())[:_LONGEST] or 'no reason given'} ({path})"


def write_file(settings: Settings, why: str, by: str) -> Path:
    """The HALT file, on disk when this returns."""
    path = halt_file(settings)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        file.write(f"{why} ({by}, {utcnow():%Y-%m-%d %H:%M} UTC)\n")
        file.flush()
        os.fsync(file.fileno())
    return path


def halt(session: Session, settings: Settings, account: str, why: str, by: str) -> list[str]:
    """Write that the account is halted, and deny every order of it that waits; their ids. Open orders stay open: only
    the broker can cancel them."""
    _write(session, account, TradingState.HALTED, why, by)
    audit.record(session, settings, "halt", account=account, why=why, by=by)
    rows = session.exec(
        select(Order)
        .where(col(Order.account) == account, col(Order.state).in_(_WAITING))
        .with_for_update()
        .execution_options(populate_existing=True)
    ).all()
    denied = halted(TradingState.HALTED, why, account)
    for order in rows:
        deny_order(session, order, denied)
        audit.record(session, settings, "denied", order=order.id, **denied.model_dump(mode="json", exclude={"cleared"}))
    return [order.id for order in rows]


def resume(session: Session, settings: Settings, account: str, by: str) -> None:
    """Let the account trade again. Who was fenced off by a `--flatten` may take the account again."""
    halt_file(settings).unlink(missing_ok=True)
    _write(session, account, TradingState.ACTIVE, "", by)
    fence.give_back(session, account)
    audit.record(session, settings, "resume", account=account, by=by, state=TradingState.ACTIVE)


def reduce_only(session: Session, settings: Settings, account: str, why: str, by: str) -> None:
    """Let the account give exposure back and take on none."""
    halt_file(settings).unlink(missing_ok=True)
    _write(session, account, TradingState.REDUCING, why, by)
    fence.give_back(session, account)
    audit.record(session, settings, "resume", account=account, by=by, why=why, state=TradingState.REDUCING)


def _write(session: Session, account: str, state: TradingState, why: str, by: str) -> None:
    row = session.get(Trading, account, with_for_update=True, populate_existing=True)
    row = row or Trading(account=account, state=state, why=why, by=by)
    row.state, row.why, row.by, row.since = state.value, why, by, utcnow()
    session.add(row)
    session.flush()
