"""Questions answered from rows: no model, no token."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import sqlalchemy
from sqlmodel import Session, col, select

from chordesk.models import features
from chordesk.models.database.store import Store
from chordesk.models.settings import Settings
from chordesk.models.tables.orders import Order, Position
from chordesk.models.tables.runs import Candidate, Run
from chordesk.tasks.asking import of_desk, of_money, of_reasons, of_runs, of_trades
from chordesk.tasks.asking.answers import Answer, Answering, Desk
from chordesk.tasks.asking.proposing import wish
from chordesk.tasks.asking.questions import EXAMPLES, cleaned, read
from chordesk.tasks.reading.accounts import find_account
from chordesk.tools.market.protocol import MarketData
from chordesk.tools.risk.exposure import underlying_of

OWN = "asking"  # this feature
PROPOSE = "propose"  # intent of words that ask for an act


def answer(
    settings: Settings, store: Store, market: Callable[[], MarketData], text: str, account: str | None = None
) -> Answer:
    """Answer a question about an account, by default the desk's. Raises UsageError for a text that is empty or too
    long, NotFound for an account that is not there."""
    given = cleaned(text)
    if (wanted := wish(given)) is not None:
        return to_propose(given, *wanted)
    with store.read() as session:
        name = find_account(session, settings, account or named_account(given) or settings.account)
        question = read(given, known_symbols(session, name))
    if question is None or not question.intent:
        of_others = _of_others(settings, store, market, given)
        return of_others or not_understood(given, question.unread if question is not None else "")
    return answering(question.intent)(Desk(settings, store, name, market), question)


def _of_others(settings: Settings, store: Store, market: Callable[[], MarketData], text: str) -> Answer | None:
    """Return the answer of another feature about rows of its own, None without one."""
    for feature, functions in features.parts("answers"):
        if feature.name == OWN:
            continue
        for function in functions:
            found = features.call(feature, function, settings, store, market, text)
            if found.intent:
                return Answer(question=text, intent=found.intent, text=found.text, missing=list(found.missing))
    return None


def answering(intent: str) -> Answering:
    tables = (of_desk.ANSWERS, of_runs.ANSWERS, of_money.ANSWERS, of_trades.ANSWERS, of_reasons.ANSWERS)
    return next(table[intent] for table in tables if intent in table)


_NAMED = re.compile(r"\baccount ([a-z][\w:.-]*)")
_BEFORE = re.compile(r"\b([a-z][\w:.-]*) account\b")
_NO_NAME = frozenset(
    (
        "the", "our", "my", "this", "that", "an", "your", "which", "whole", "is", "was", "has", "in", "of", "on", "and",
        "or", "worth", "value", "balance", "since", "today", "yesterday", "to", "for", "now", "desk's", "what", "each",
        "any", "are", "do", "does", "did",
    )
)  # fmt: skip


def named_account(text: str) -> str | None:
    """Return the name beside the word account, None without one."""
    found = [match[1] for pattern in (_NAMED, _BEFORE) if (match := pattern.search(text.lower())) is not None]
    return next((name for name in found if name not in _NO_NAME), None)


def to_propose(text: str, kind: str, arguments: Mapping[str, Any]) -> Answer:
    """Return the answer to words that ask for an act: it is proposed elsewhere, as an answer changes nothing."""
    told = "That asks for something to be done: `desk ask` and POST /proposals propose it, and a person confirms it."
    return Answer(question=text, intent=PROPOSE, text=told, facts={"kind": kind, "arguments": dict(arguments)})


def not_understood(text: str, unread: str = "") -> Answer:
    """Return that there is no answer, and what could be asked. unread: what kept the question from being read."""
    examples = "; ".join(EXAMPLES)
    why = f" (not read: {unread})" if unread else ""
    return Answer(
        question=text, intent="", text=f"I have no answer to that from the desk's rows{why}. Ask such as: {examples}"
    )


def known_symbols(session: Session, account: str) -> set[str]:
    """Return the symbols that an account researched, ordered or holds."""
    runs = sqlalchemy.select(col(Run.id)).where(col(Run.account) == account)
    found = set(session.exec(select(Candidate.symbol).where(col(Candidate.run_id).in_(runs)).distinct()).all())
    found |= set(session.exec(select(Order.symbol).where(Order.account == account).distinct()).all())
    held = session.exec(select(Position.symbol).where(Position.account == account)).all()
    return found | {underlying_of(one) for one in held}
