"""`desk halt` and `desk resume`: the kill switch. Neither needs Redis, a worker or a model."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Annotated

import typer
from sqlalchemy.exc import SQLAlchemyError

from models.errors import DatabaseDown, DeskError, OrderError
from models.orders import OrderOutcome
from models.setting_sources import load_settings
from models.settings import Settings
from models.states import ORDER_WORKING, OrderState
from models.store import Store, require_current
from tasks.cli.output import console, fail
from tasks.cli.person import whoami
from tasks.messenger import Messenger
from tools.brokers.factory import build_broker
from tools.decimals import plain
from tools.market.factory import build_market
from tools.orders import accounts, audit, halting
from tools.orders.fence import Seat
from tools.orders.flattening import flatten as close_all
from tools.orders.submitting import Funnel
from tools.orders.tending import cancel_open

INCOMPLETE = 1


def register(app: typer.Typer) -> None:
    app.command()(halt)
    app.command()(resume)


def halt(
    why: Annotated[str, typer.Option(help="The reason, for the record.")] = "halted by a person",
    flatten: Annotated[
        bool, typer.Option("--flatten", help="Also close every position, by orders of its own.")
    ] = False,
) -> None:
    """Stop trading of every account at once: no order is submitted any more, those that wait are denied; open ones of
    this shell's broker are cancelled."""
    settings, by = load_settings(agree=False), whoami()
    filed = _file(settings, why, by)
    # File and database are for each other's absence, and nothing here waits for the log.
    with audit.regardless() as unrecorded:
        store = _store(settings, filed)
        if store is None:
            raise typer.Exit(INCOMPLETE)
        flagged = _flag(settings, store, by, why, filed)
        cleared = _clear(settings, store, by, why, flatten)
        reached = _reached(settings, store, flatten)
    Messenger(settings).trade()
    if unrecorded:
        fail(_off_record(unrecorded), INCOMPLETE)
    if unrecorded or not (filed and flagged and cleared and reached):
        raise typer.Exit(INCOMPLETE)


def _file(settings: Settings, why: str, by: str) -> bool:
    try:
        path = halting.write_file(settings, why, by)
    except OrderError as error:
        fail(error, INCOMPLETE)
        return False
    console().print(f"halted: {path}", highlight=False, soft_wrap=True)
    return True


def _store(settings: Settings, filed: bool) -> Store | None:
    try:
        require_current(settings.database)
        return Store(settings.database)
    except DeskError as error:
        fail(_unflagged(str(error.args[0]), filed), INCOMPLETE)
        return None


def _flag(settings: Settings, store: Store, by: str, why: str, filed: bool) -> bool:
    """Halt every account of the database, this shell's first, and put it on record after that."""
    names: list[str] = [settings.account]
    all_known = False
    try:
        with store.read() as session:
            names, all_known = accounts.known(session, settings.account), True
    except SQLAlchemyError as error:
        fail(_unflagged(f"the other accounts are not known: {_silent(error)}", filed), INCOMPLETE)
    done = [found for name in names if (found := _flag_one(store, name, by, why, filed)) is not None]
    return _recorded(settings, store, done) and all_known and len(done) == len(names)


def _flag_one(store: Store, account: str, by: str, why: str, filed: bool) -> halting.Halted | None:
    try:
        done = halting.halt(store, account, why, by)
    except (DeskError, SQLAlchemyError) as error:
        said = str(error.args[0]) if isinstance(error, DeskError) else _silent(error)
        fail(_unflagged(f"account {account}: {said}", filed), INCOMPLETE)
        return None
    console().print(f"account {account} halted; {len(done.orders)} waiting orders denied", highlight=False)
    return done


def _recorded(settings: Settings, store: Store, done: Sequence[halting.Halted]) -> bool:
    try:
        with store.session() as session:
            for each in done:
                halting.record(session, settings, each)
    except SQLAlchemyError as error:
        fail(DatabaseDown(f"the halt is not on record: {type(error).__name__}"), INCOMPLETE)
        return False
    return True


def _silent(error: SQLAlchemyError) -> str:
    return f"the database does not answer: {type(error).__name__}"


def _unflagged(said: str, filed: bool) -> DatabaseDown:
    halted = "this host's home is halted by the file alone" if filed else "NOTHING IS HALTED: end the trade worker"
    return DatabaseDown(said, remedy=f"{halted}; run it again when the database answers, to cancel what is open")


def _off_record(errors: Sequence[OrderError]) -> OrderError:
    """One error for all transactions whose lines are missing in the log."""
    more = f", {len(errors)} times in all" if len(errors) > 1 else ""
    said = f"{errors[0].args[0]}; it was done all the same, and is not on record{more}"
    return OrderError(said, remedy=errors[0].remedy)


def _reached(settings: Settings, store: Store, flatten: bool) -> bool:
    """Whether no other account has something left that this shell's broker cannot end."""
    try:
        with store.read() as session:
            others = accounts.known(session, settings.account)[1:]
            left = {name: said for name in others if (said := accounts.left_of(session, name, positions=flatten))}
    except SQLAlchemyError as error:
        fail(DatabaseDown(_silent(error)), INCOMPLETE)
        return False
    command = "desk halt --flatten" if flatten else "desk halt"
    for name, said in left.items():
        told = f"the broker of account {name} was not asked, this shell's is {settings.broker}: {'; '.join(said)}"
        fail(OrderError(told, remedy=f"DESK_BROKER={name} {command}"), INCOMPLETE)
    return not left


def resume(
    reduce_only: Annotated[
        bool, typer.Option("--reduce-only", help="Let the account give exposure back, and take on none.")
    ] = False,
    why: Annotated[str, typer.Option(help="The reason, for the record.")] = "resumed by a person",
) -> None:
    """Let this shell's account trade again; others stay as they are."""
    settings, by = load_settings(agree=False), whoami()
    require_current(settings.database)
    store = Store(settings.database)
    with store.session() as session:
        halting.resume(session, settings, settings.account, by, why, reduce_only=reduce_only)
        still = [row.account for row in accounts.halted(session)]
    halting.remove_file(settings)  # last: whoever dies before it leaves the account halted
    what = "gives exposure back only" if reduce_only else "trades again"
    console().print(f"account {settings.account} {what}", highlight=False)
    for name in still:
        console().print(f"account {name} stays halted: DESK_BROKER={name} desk resume", highlight=False)


def _clear(settings: Settings, store: Store, by: str, why: str, flatten: bool) -> bool:
    """Cancel open orders and, if asked, close positions; False when something is left."""
    out = console()
    try:
        market = build_market(settings)
        broker = build_broker(settings, market, store)
    except DeskError as error:
        fail(error, INCOMPLETE)
        out.print("open orders are cancelled by the trade worker, which has the broker's credentials", soft_wrap=True)
        return False
    funnel = Funnel(store, settings, market, broker, Seat(store, broker.name, f"desk halt {by} {os.getpid()}"))
    try:
        if not flatten:
            left = cancel_open(funnel)
            out.print(f"open orders: {_left(left)}", highlight=False, soft_wrap=True)
            return not left
        outcomes, left = close_all(funnel, by, why)
    except DeskError as error:
        fail(error, INCOMPLETE)
        return False
    except SQLAlchemyError as error:
        fail(DatabaseDown(_silent(error)), INCOMPLETE)
        return False
    out.print(f"open orders: {_left(left)}", highlight=False, soft_wrap=True)
    for row in outcomes:
        out.print(_closed(row), highlight=False, soft_wrap=True)
    if not outcomes:
        out.print("no position to close")
    return not left and all(row.state == OrderState.FILLED for row in outcomes)


def _left(left: list[str]) -> str:
    return f"not confirmed as cancelled yet: {', '.join(left)}" if left else "none"


def _closed(row: OrderOutcome) -> str:
    filled = sum(fill.quantity for fill in row.fills)
    told = f"{row.symbol}: {row.side} {plain(row.quantity or 0)}, {row.state}, {plain(filled)} filled"
    note = f"; {row.message}" if row.message else ""
    again = "; run it again to close what is left" if row.state not in ORDER_WORKING | {OrderState.FILLED} else ""
    return told + note + again
