"""`desk questions positions`: the play money on event markets."""

from __future__ import annotations

from typing import Annotated

import typer

from chordesk.tasks.cli.output import emit
from chordesk.tasks.cli.render.results.event_positions import ledger_report
from chordesk.tasks.cli.shell import Json, opened
from chordesk.tools.event_positions import event_ledger


def positions(
    only_open: Annotated[bool, typer.Option("--open", help="Only those that are not paid out.")] = False,
    account: Annotated[str | None, typer.Option("--account", help="Another account than that of the settings.")] = None,
    as_json: Json = False,
) -> None:
    """Show the play money on event markets: the bankroll, what is staked, and each position with its payout."""
    settings, store = opened()
    with store.read() as session:
        found = event_ledger(session, account or settings.account, settings.event_bankroll, only_open=only_open)
    emit(found, ledger_report, as_json=as_json)
