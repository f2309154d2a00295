"""Sizes as people read them: whole figures, and options by what they are."""

from __future__ import annotations

import pytest
from rich.console import Console
from sqlmodel import Session

from chordesk.models.tables.orders import Order
from chordesk.models.tables.runs import Run
from chordesk.tasks.cli.show.amounts import size_text
from chordesk.tasks.cli.show.orders import lineage_report
from chordesk.tasks.cli.show.runs import _action
from chordesk.tasks.reading.orders import lineage
from chordesk.tasks.reading.runs import ActionRow
from tests.tasks.views.chain import a_chain


@pytest.mark.parametrize(
    ("quantity", "contract", "text"),
    [
        (1e6, None, "1,000,000 shares"),
        (123_456_789.0, None, "123,456,789 shares"),
        (1.0, None, "1 share"),
        (0.5, None, "0.5 shares"),
        (1.0, "AN101016P00060000", "1 contract 2010-10-16 put 60"),
        (12.0, "AN101016C00062500", "12 contracts 2010-10-16 call 62.5"),
        (2.0, "no contract", "2 contracts no contract"),
    ],
)
def test_sizes_in_full_with_their_unit(quantity: float, contract: str | None, text: str) -> None:
    assert size_text(quantity, contract) == text


def test_the_table_of_actions_and_the_lineage_show_contracts(session: Session) -> None:
    row = ActionRow(
        symbol="AN", action="open", side="sell", quantity=1e6, notional=None, contract="AN101016P00060000",
        confidence="high", reasoning="r", group="entry", order_id=None, state=None, suppressed=None, payload_hash=None,
    )  # fmt: skip
    console = Console(width=120, record=True, file=None)
    with console.capture() as shown:
        for line in _action(row):
            console.print(line)
    assert "sell 1,000,000 contracts 2010-10-16 put 60" in shown.get()
    chain = a_chain(session)
    order = session.get_one(Order, chain.order_id)
    order.contract, order.side, order.quantity = "ACME101016P00060000", "sell", 2.0
    session.add(order)
    session.flush()
    with console.capture() as shown:
        console.print(lineage_report(lineage(session, session.get_one(Run, chain.run_id), "ACME")))
    assert "open sell 2 contracts 2010-10-16 put 60, previewed" in shown.get()
