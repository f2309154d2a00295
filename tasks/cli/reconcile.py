"""`desk reconcile`: compare the account with its broker now, or take it over as it is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from chordesk.models.states import TradingState
from chordesk.models.text import utc_seconds
from chordesk.tasks.cli.output import emit
from chordesk.tasks.cli.shell import Json, opened, whoami

if TYPE_CHECKING:
    from chordesk.models.tables.orders import Reconciliation

DIFFERS = 1

commands = typer.Typer()


@commands.command()
def reconcile(
    adopt: Annotated[
        bool, typer.Option("--adopt", help="Take positions, cash and past fills over as the broker has them.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Compare positions, orders, fills and cash with the broker.

    Exit code 1 when they differ.
    """
    from chordesk.tools.brokers.protocol import build_broker
    from chordesk.tools.orders import halting
    from chordesk.tools.orders.accounts import account_market
    from chordesk.tools.orders.reconciliation import reconcile as compare

    settings, store = opened()
    broker = build_broker(settings, account_market(store, settings), store)
    found = compare(store, settings, broker, f"desk reconcile {whoami()}", adopt)
    with store.read() as session:
        trading = halting.trading_state(session, settings, found.account)
    plain = {**found.model_dump(), "trading": trading[0], "why": trading[1]}
    emit(plain, lambda _: "\n".join(_lines(found, *trading)), as_json=as_json)
    raise typer.Exit(0 if found.agreed else DIFFERS)


def _lines(found: Reconciliation, state: TradingState, why: str) -> Iterator[str]:
    """Return the differences, one line each, and the trading state unless it is active."""
    from chordesk.tools.orders.reconciliation import describe_difference

    whether = "agrees with" if found.agreed else "differs from"
    yield f"account {found.account} {whether} its broker at {utc_seconds(found.at)}"
    for row in found.differences:
        yield f"  {'put right' if row['repaired'] else 'OPEN':9}  {describe_difference(row)}"
    if state is not TradingState.ACTIVE:
        yield f"trading is {state}: {why}"
    if found.agreed and state is TradingState.HALTED:
        yield "`desk resume` lets it go on"
