"""Alerts and watch lists as acts that may be proposed to a person. No alert that is proposed starts a run."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints
from sqlmodel import Session

from chordesk.models.alerts.tables import AlertsAlert, AlertsWatchlist
from chordesk.models.errors import UsageError
from chordesk.models.text import one_line
from chordesk.tasks.alerts.adding import add_alert
from chordesk.tasks.proposals import (
    Confirmed,
    Office,
    Proposable,
    ProposalArguments,
    ProposalCard,
    ProposalOutcome,
    ProposalScope,
)
from chordesk.tools.alerts import keeping
from chordesk.tools.alerts.conditions import LONGEST, condition_of

Named = Annotated[str, StringConstraints(pattern=f"^{keeping.NAME.pattern}$")]
Symbol = Annotated[str, StringConstraints(min_length=1, max_length=40)]


class AlertChange(ProposalArguments):
    """An alert that is added, or switched. when: a condition in words; on: a symbol, watchlist:NAME, holdings or
    universe."""

    do: Literal["add", "on", "off"]
    name: Named
    when: Annotated[str, StringConstraints(min_length=1, max_length=LONGEST)] | None = None
    on: Annotated[str, StringConstraints(min_length=1, max_length=60)] | None = None


class ListChange(ProposalArguments):
    do: Literal["add", "remove"]
    name: Named
    symbols: list[Symbol] = Field(min_length=1, max_length=50)


def _word_alert(office: Office, asked: AlertChange) -> ProposalCard:
    with office.store.read() as session:
        row = session.get(AlertsAlert, asked.name)
        if asked.do != "add":
            row = keeping.alert(session, asked.name)
            state = "on" if row.enabled else "off"
            return ProposalCard(
                title=f"switch the alert {asked.name} {asked.do}",
                lines=[f"{row.condition} on {row.subject}, which then does {row.action}; it is {state}"],
                arguments={"do": asked.do, "name": asked.name},
            )
    if row is not None:
        raise UsageError(f"there is an alert {asked.name} already", remedy="remove it first, or choose another name")
    if asked.when is None:
        raise UsageError("the alert has no condition", remedy="such as: alert me when AAPL falls below 150")
    condition = condition_of(asked.when)
    if asked.on is not None and asked.on not in keeping.WHOLE and not asked.on.startswith(keeping.LIST):
        keeping.known_symbols([asked.on], office.market())
    on = asked.on or condition.kind.on[0]
    return ProposalCard(
        title=f"add the alert {asked.name}: {condition.said} on {one_line(on, 60)}",
        lines=["it tells you, and starts no run; its first look arms it"],
        arguments=asked.model_dump(exclude_none=True),
    )


def _bound_alert(session: Session, office: Office, asked: AlertChange) -> dict[str, str]:
    row = session.get(AlertsAlert, asked.name)
    state = "none" if row is None else f"{row.condition} on {row.subject}, {'on' if row.enabled else 'off'}"
    return {f"the alert {asked.name}": state}


def _alert(session: Session, office: Office, act: Confirmed) -> ProposalOutcome:
    asked: AlertChange = act.arguments
    if asked.do != "add":
        keeping.switch(session, office.settings, asked.name, act.by, enabled=asked.do == "on")
        return ProposalOutcome(f"the alert {asked.name} is {asked.do}")
    draft = keeping.Draft(name=asked.name, when=asked.when or "", on=asked.on, by=act.by)
    row = add_alert(session, office.settings, draft, [], office.market())
    return ProposalOutcome(f"the alert {row.name} is added: {row.condition} on {row.subject}; its first look arms it")


def _word_list(office: Office, asked: ListChange) -> ProposalCard:
    if asked.do == "add":
        symbols = keeping.known_symbols(asked.symbols, office.market())
        with office.store.read() as session:
            row = session.get(AlertsWatchlist, asked.name)
        had = f"it has {len(row.symbols)} symbols" if row is not None else "the list is made"
        to = f"add {one_line(', '.join(symbols), 120)} to the watch list {asked.name}"
        return ProposalCard(title=to, lines=[had], arguments={**asked.model_dump(), "symbols": symbols})
    with office.store.read() as session:
        row = keeping.watchlist(session, asked.name)
    return ProposalCard(
        title=f"remove {one_line(', '.join(asked.symbols), 120)} from the watch list {asked.name}",
        lines=[f"it has {len(row.symbols)} symbols"], arguments=asked.model_dump(),
    )  # fmt: skip


def _watch(session: Session, office: Office, act: Confirmed) -> ProposalOutcome:
    asked: ListChange = act.arguments
    if asked.do == "add":
        row, again = keeping.watch(session, office.settings, asked.name, asked.symbols, act.by, office.market())
        had = f"; it had {one_line(', '.join(again), 80)} already" if again else ""
        return ProposalOutcome(f"{asked.name} has {len(row.symbols)} symbols{had}")
    left = keeping.unwatch(session, office.settings, asked.name, asked.symbols, act.by)
    return ProposalOutcome(
        f"{asked.name} has {len(left.symbols)} symbols" if left is not None else f"{asked.name} is removed"
    )


_WHEN = r"^\s*(?:please\s+)?(?:(?:set |add )?(?:an? )?alert(?: me)?|tell me|let me know|warn me)\s+(?:when|if|once)\s+"
_END = r"\s*(?:,?\s*please)?\s*[.!]*\s*$"
_ON = r"\$?(?P<on>[A-Za-z][A-Za-z0-9-]{0,9}(?:\.[A-Za-z]{1,2})?)"
_PRICE = re.compile(
    _WHEN + _ON + r"(?:'s price)?\s+(?:is |goes |gets |trades |falls |drops |rises |climbs |breaks |crosses )*"
    r"(?P<side>below|under|above|over)\s+\$?(?P<level>[0-9][0-9,_]*(?:\.[0-9]+)?)" + _END,
    re.IGNORECASE,
)
_MOVE = re.compile(
    _WHEN + _ON + r"\s+(?:(?P<way>moves|falls|drops|rises|gains|loses)(?: by)?)\s+(?:more than )?"
    r"(?P<share>[0-9]+(?:\.[0-9]+)?)\s*(?:%|percent)" + _END,
    re.IGNORECASE,
)
_OTHER = re.compile(
    r"^\s*(?:please\s+)?add (?:an? |the )?alert (?P<name>[a-z][a-z0-9-]{0,39}):\s*(?P<when>[^;]{1,200}?)"
    r"(?:\s+on\s+(?P<on>[A-Za-z0-9.:=^-]{1,60}))?\s*$",
    re.IGNORECASE,
)
_SWITCH = re.compile(
    r"^\s*(?:please\s+)?(?:switch|turn) (?P<do>on|off) (?:the )?alert (?P<name>[a-z][a-z0-9-]{0,39})" + _END,
    re.IGNORECASE,
)
_LIST = re.compile(
    r"^\s*(?:please\s+)?(?P<do>add|remove) (?P<symbols>.{1,300}?) (?:to|from) (?:my |the )?watch ?list "
    r"(?P<name>[a-z][a-z0-9-]{0,39})" + _END,
    re.IGNORECASE,
)
_UP, _DOWN = ("rises", "gains"), ("falls", "drops", "loses")


def alerting(text: str) -> Mapping[str, Any] | None:
    """Read an alert in a person's words; None for others."""
    if (found := _SWITCH.match(text)) is not None:
        return {"do": found["do"].lower(), "name": found["name"].lower()}
    if (found := _OTHER.match(text)) is not None:
        on = {"on": found["on"]} if found["on"] else {}
        return {"do": "add", "name": found["name"].lower(), "when": found["when"].strip(), **on}
    if (found := _PRICE.match(text)) is not None:
        side = "below" if found["side"].lower() in ("below", "under") else "above"
        when = f"price {side} {found['level'].replace(',', '')}"
    elif (found := _MOVE.match(text)) is not None:
        way = found["way"].lower()
        side = "up " if way in _UP else "down " if way in _DOWN else ""
        when = f"move {side}{found['share']}%"
    else:
        return None
    symbol = found["on"].upper()
    name = re.sub(r"[^a-z0-9]+", "-", f"{symbol} {when}".lower()).strip("-")[:40].strip("-")
    return {"do": "add", "name": name, "when": when, "on": symbol}


def listing(text: str) -> Mapping[str, Any] | None:
    """Read a change of a watch list in a person's words; None for others."""
    found = _LIST.match(text)
    if found is None:
        return None
    words = [
        word.lstrip("$").upper() for word in re.split(r"\s*,\s*(?:and\s+)?|\s+and\s+|\s+", found["symbols"]) if word
    ]
    return {"do": found["do"].lower(), "name": found["name"].lower(), "symbols": words}


ALERT = Proposable(
    ProposalScope.START, AlertChange, _word_alert, act=_alert, bound=_bound_alert, read=alerting, names=("on",)
)
WATCHLIST = Proposable(ProposalScope.START, ListChange, _word_list, act=_watch, read=listing, names=("symbols",))
