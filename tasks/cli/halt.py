"""`desk halt` and `desk resume`: the kill switch. Neither needs Redis, a worker or a model."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Mapping, Sequence
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from chordesk.models.errors import DeskError, UsageError
from chordesk.models.settings import Settings
from chordesk.models.settings.sources import load_for_halt, load_settings
from chordesk.models.states import ORDER_WORKING, OrderState
from chordesk.tasks.cli.output import fail, print_line, warn
from chordesk.tasks.cli.shell import database, whoami

if TYPE_CHECKING:
    from chordesk.models.database.store import Store
    from chordesk.models.orders import BrokerPosition
    from chordesk.models.tables.orders import Order
    from chordesk.tools.brokers.protocol import Broker
    from chordesk.tools.market.protocol import MarketData

INCOMPLETE = 1

commands = typer.Typer()


@commands.command()
def halt(
    why: Annotated[str, typer.Option(help="The reason, for the record.")] = "halted by a person",
    flatten: Annotated[
        bool, typer.Option("--flatten", help="Also close the desk's positions, by orders of their own.")
    ] = False,
    everything: Annotated[
        bool, typer.Option("--all", help="With --flatten: close what else the broker holds, too.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Close them without asking: for scripts.")] = False,
) -> None:
    """Stop trading of every account at once.

    No order is submitted any more, those that wait are denied; open ones of this shell's broker are cancelled.
    """
    from chordesk.tools.orders import kill_switch

    loaded, problems = load_for_halt()
    settings = loaded.settings
    if everything and not flatten:
        raise UsageError(
            "--all is about --flatten: nothing was halted", remedy="desk halt, or desk halt --flatten --all"
        )
    warn(f"{problem}; this halt goes on without it" for problem in problems)
    if flatten and not yes:
        _confirm(settings, everything=everything)
    request = kill_switch.HaltRequest(whoami(), why, flatten, everything)
    result = kill_switch.halt(settings, request, partial(database, settings), partial(_connected, settings), _Printed())
    _notify(settings)
    if problems or not result.complete:
        raise typer.Exit(INCOMPLETE)


def _confirm(settings: Settings, *, everything: bool) -> None:
    from chordesk.tools.orders import kill_switch

    account = settings.account
    wanted = kill_switch.confirmation(account, everything=everything)
    which = "every position that the broker shows" if everything else "every position that the desk holds"
    what = f"{which} on account {account} is closed at market, which cannot be undone"
    typed = None
    if sys.stdin.isatty():
        warn([_named(settings, everything=everything)])
        typed = typer.prompt(f"{what}; type `{wanted}` to go on", err=True)
    if typed != wanted:
        given = "nobody confirmed it" if typed is None else f"{typed!r} does not confirm it"
        raise UsageError(
            f"--flatten: {what}; {given}, and nothing was halted",
            remedy="`desk halt` halts at once and closes nothing; a script adds --yes",
        )


def _named(settings: Settings, *, everything: bool) -> str:
    """Name what a flatten closes and what it leaves, as far as the broker answers."""
    from chordesk.tools.orders import kill_switch

    try:
        own, others = kill_switch.survey(settings, partial(database, settings), partial(_connected, settings))
    except DeskError as error:
        return f"what the broker holds is not known now: {error.args[0]}"
    if everything:
        own, others = [*own, *others], []
    closed = f"closed: {kill_switch.listed(own) or 'nothing'}"
    left = f"; not the desk's, and left as it is: {kill_switch.listed(others)} (--all closes it)" if others else ""
    return closed + left


def _notify(settings: Settings) -> None:
    """Request an order pass. A setting that keeps this from being asked holds up nothing: the pass comes by itself."""
    from chordesk.tasks.worker.messages import WorkerNotifier

    with contextlib.suppress(DeskError):
        WorkerNotifier(settings).trade()


def _connected(settings: Settings, store: Store) -> tuple[MarketData, Broker]:
    from chordesk.tools.brokers.protocol import build_broker
    from chordesk.tools.orders.accounts import account_market

    market = account_market(store, settings)
    return market, build_broker(settings, market, store)


class _Printed:
    """Listener that prints each step of a halt as it is done."""

    def file_written(self, path: Path) -> None:
        print_line(f"halted: {path}")

    def account_halted(self, account: str, denied: Sequence[str]) -> None:
        print_line(f"account {account} halted; waiting orders denied: {len(denied)}")

    def orders_left_to_worker(self) -> None:
        print_line("the trade worker, which has the broker's credentials, cancels open orders; protective stops stay")

    def orders_cancelled(self, left: Sequence[str], protective: Sequence[str]) -> None:
        print_line(f"open orders: not confirmed as cancelled yet: {', '.join(left)}" if left else "open orders: none")
        if protective:
            print_line(f"protective orders stay in force: {', '.join(protective)}; --flatten cancels them")

    def positions_closed(self, orders: Sequence[Order], filled: Mapping[str, Decimal]) -> None:
        for order in orders:
            print_line(_closed(order, filled.get(order.id, Decimal(0))))
        if not orders:
            print_line("no order was sent to close a position")

    def others_left(self, positions: Sequence[BrokerPosition]) -> None:
        from chordesk.tools.orders.kill_switch import listed

        print_line(f"not the desk's, and left at the broker: {listed(positions)}; --flatten --all closes it")

    def failed(self, error: DeskError) -> None:
        fail(error, INCOMPLETE)


def _closed(row: Order, filled: Decimal) -> str:
    from chordesk.tools.decimals import plain

    done = f"{row.symbol}: {row.side} {plain(row.quantity or 0)}, {row.state}, {plain(filled)} filled"
    note = f"; {row.message}" if row.message else ""
    again = "; run it again to close what is left" if row.state not in ORDER_WORKING | {OrderState.FILLED} else ""
    return done + note + again


@commands.command()
def resume(
    reduce_only: Annotated[
        bool, typer.Option("--reduce-only", help="Let the account give exposure back, and take on none.")
    ] = False,
    why: Annotated[str, typer.Option(help="The reason, for the record.")] = "resumed by a person",
) -> None:
    """Let this shell's account trade again.

    Others stay as they are.
    """
    from chordesk.tools.orders import kill_switch

    settings = load_settings(but=("broker",))
    still = kill_switch.resume(database(settings), settings, whoami(), why, reduce_only=reduce_only)
    print_line(f"account {settings.account} {'gives exposure back only' if reduce_only else 'trades again'}")
    for name in still:
        print_line(f"account {name} stays halted: DESK_BROKER={name} desk resume")
