"""Questions answered from rows: no model, no token."""

from __future__ import annotations

from collections.abc import Callable

import sqlalchemy
from sqlmodel import Session, col, select

from chordesk.models.database.store import Store
from chordesk.models.settings import Settings
from chordesk.models.tables.orders import Order, Position
from chordesk.models.tables.runs import Candidate, Run
from chordesk.tasks.asking import of_desk, of_money, of_reasons
from chordesk.tasks.asking.answers import Answer, Desk
from chordesk.tasks.asking.questions import EXAMPLES, cleaned, read
from chordesk.tasks.reading.accounts import find_account
from chordesk.tools.market.protocol import MarketData
from chordesk.tools.risk.exposure import underlying_of


def answer(
    settings: Settings, store: Store, market: Callable[[], MarketData], text: str, account: str | None = None
) -> Answer:
    """Answer a question about an account, by default the desk's. Raises UsageError for a text that is empty or too
    long, NotFound for an account that is not there."""
    given = cleaned(text)
    with store.read() as session:
        name = find_account(session, settings, account or settings.account)
        question = read(given, known_symbols(session, name))
    if question is None:
        return not_understood(given)
    desk = Desk(settings, store, name, market)
    for answering in (of_desk.ANSWERS, of_money.ANSWERS, of_reasons.ANSWERS):
        if (found := answering.get(question.intent)) is not None:
            return found(desk, question)
    return not_understood(given)


def not_understood(text: str) -> Answer:
    examples = "; ".join(EXAMPLES)
    return Answer(
        question=text, intent="", text=f"I have no answer to that from the desk's rows. Ask such as: {examples}"
    )


def known_symbols(session: Session, account: str) -> set[str]:
    """Return the symbols that an account researched, ordered or holds."""
    runs = sqlalchemy.select(col(Run.id)).where(col(Run.account) == account)
    found = set(session.exec(select(Candidate.symbol).where(col(Candidate.run_id).in_(runs)).distinct()).all())
    found |= set(session.exec(select(Order.symbol).where(Order.account == account).distinct()).all())
    held = session.exec(select(Position.symbol).where(Position.account == account)).all()
    return found | {underlying_of(one) for one in held}
