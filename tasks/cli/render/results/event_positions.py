"""Terminal output of the play money on event markets."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.text import Text

from chordesk.tasks.cli.output import paragraph, table
from chordesk.tools.event_positions import MOST_HEAT, EventLedger, HeldEvent

_COLUMNS = ("Opened", "Venue", "Question", "Side", "Believed", "Shares", "Price", "Fee", "Cost", "Paid out")
_TITLE = 60


def ledger_report(ledger: EventLedger) -> RenderableType:
    """Return the bankroll and a row for each position."""
    share = ledger.staked / ledger.bankroll if ledger.bankroll > 0 else 1.0
    head = (
        f"Account {ledger.account}: play money of {ledger.bankroll:,.2f}, {ledger.start:,.2f} at the start and "
        f"{ledger.realised:+,.2f} realised; {ledger.staked:,.2f} staked, {share:.0%} of at most {MOST_HEAT:.0%}."
    )
    if not ledger.positions:
        return Group(Text(head), Text("No event position."))
    return Group(Text(head), "", table(_COLUMNS, (_row(held) for held in ledger.positions)))


def _row(held: HeldEvent) -> tuple[str, ...]:
    position = held.position
    return (
        f"{position.opened_at:%Y-%m-%d}",
        held.question.source,
        paragraph(held.question.text, _TITLE),
        position.side,
        f"{position.probability:.3f}",
        f"{position.shares:,.2f}",
        f"{position.price:.3f}",
        f"{position.fee:.2f}",
        f"{position.cost:.2f}",
        "open" if position.payout is None else f"{position.payout:.2f}",
    )
