"""Acts that are proposed to a person, who confirms them: worded, priced and done by code alone.

An act that may be proposed is a `Proposable`, which a feature has by its kind. There is none that submits, sizes or
prices an order, resumes, flattens, signs, raises a limit or a budget, changes a setting, a prompt, a token or a
pairing: what no kind does, nobody can be asked to confirm.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from pydantic import BaseModel, ConfigDict
from sqlmodel import Session

from chordesk.models import features
from chordesk.models.answers import Frozen
from chordesk.models.database.store import Store
from chordesk.models.errors import UsageError
from chordesk.models.settings import Settings
from chordesk.tasks.bootstrap import Desk
from chordesk.tasks.worker.messages import DeskApp
from chordesk.tools.market.protocol import MarketData


class ProposalScope(StrEnum):
    """What a person must be allowed to do to confirm an act."""

    START = "start"  # runs, alerts, watch lists
    DECIDE = "decide"  # approve and deny
    STOP = "stop"  # runs
    HALT = "halt"
    OPERATE = "operate"


class ProposalArguments(BaseModel):
    """Arguments of an act. What is not one of them is refused, and so is another type."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class ProposalCard(Frozen):
    """An act as a person reads it. title: what happens, as of a command; lines: what it is about; cost: tokens and
    money, or that it asks no model. arguments: those of the act, with whole ids."""

    title: str
    lines: list[str] = []
    cost: str = "it asks no model"
    arguments: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Office:
    """What acts are worded and done with. app: opens runs; None in a process that opens none."""

    settings: Settings
    store: Store
    desk: Callable[[], Desk]
    app: Callable[[], DeskApp] | None = None

    @property
    def account(self) -> str:
        return self.settings.account

    def market(self) -> MarketData:
        return self.desk().account_market()


@dataclass(frozen=True, slots=True)
class ProposalOutcome:
    """What came of an act. done: it was done; run_id: of the run that it opened."""

    text: str
    done: bool = True
    run_id: str | None = None


@dataclass(frozen=True, slots=True)
class Confirmed:
    """An act that a person has confirmed. by: who, and by which road; id: of the proposal."""

    id: str
    by: str
    at: dt.datetime
    arguments: Any


def nothing_bound(session: Session, office: Office, arguments: Any) -> dict[str, str]:
    return {}


@dataclass(frozen=True, slots=True)
class Proposable:
    """A kind of act.

    word: returns the card, raises DeskError for arguments that fit nothing. bound: what must be the same when it is
    confirmed, by its name for people. act: does it in the transaction of its record; `apart` does in its place what is
    no row, may run twice, and does it once; it returns None where this process cannot, and a worker does then.
    after: tells other processes of what was done. read: the arguments that a person's words ask for, None of others.
    names: the arguments that hold ids and symbols, or lists of them: what a model names was returned by a tool.
    opens: it opens a run, for which workers have to be reachable.
    """

    scope: ProposalScope
    arguments: type[ProposalArguments]
    word: Callable[[Office, Any], ProposalCard]
    act: Callable[[Session, Office, Confirmed], ProposalOutcome] | None = None
    apart: Callable[[Office, Confirmed], ProposalOutcome | None] | None = None
    bound: Callable[[Session, Office, Any], dict[str, str]] = nothing_bound
    after: Callable[[Office, Any], None] | None = None
    read: Callable[[str], Mapping[str, Any] | None] | None = None
    names: tuple[str, ...] = ()
    opens: bool = False

    def __post_init__(self) -> None:
        if (self.act is None) == (self.apart is None):
            raise ValueError("an act is done in a transaction or apart: give one of act and apart")


def kinds() -> dict[str, Proposable]:
    """Return the acts that may be proposed, by kind. A package that has a kind again is left out."""
    return {kind: find(kind) for kind in features.added({}, "proposals")}


def find(kind: str) -> Proposable:
    """Raises UsageError for what nobody is asked to confirm."""
    places = features.added(dict[str, str](), "proposals")
    if kind not in places:
        raise UsageError(f"{kind!r} is no act that is proposed", remedy=f"choose among {', '.join(places)}")
    found: Proposable = features.part("proposals", kind, places[kind], Proposable)
    return found


def scope_of(kind: str) -> ProposalScope:
    """A package may not lower what its acts need."""
    own = any(kind in one.proposals for one in features.in_force() if features.is_own(one))
    return find(kind).scope if own else ProposalScope.OPERATE


class Proposed(Frozen):
    """A proposal as a person reads it. scope: what confirms it; shown: the hash of what the card says; outside: the
    model had read text from outside. state: open, confirmed (and not done yet), done, failed, changed, dismissed,
    replaced or expired; fate: what became of it, empty while it is open."""

    id: str
    kind: str
    title: str
    lines: list[str]
    cost: str
    scope: ProposalScope
    account: str
    outside: bool
    shown: str
    by: str
    origin: str
    made_at: dt.datetime
    expires_at: dt.datetime
    state: str
    fate: str = ""
    run_id: str | None = None

    @property
    def open(self) -> bool:
        return self.state == "open"

    @property
    def text(self) -> str:
        told = ["the model had read text from outside in this turn"] if self.outside else []
        return "\n".join((f"Proposed: {self.title}", *self.lines, self.cost, *told))


class Confirms(Protocol):
    """What a person is asked to confirm, for those who show it and take the answer: each of their presses is one
    transaction with its record, which `answer` and `proposed` take part in."""

    def propose(self, office: Office, text: str, by: str, origin: str) -> Sequence[Proposed] | None:
        """Return what a person's words ask for as new proposals; None where they ask for no act. Raises DeskError."""

    def find(self, session: Session, settings: Settings, id_: str) -> Proposed | None: ...

    def confirm(
        self,
        session: Session,
        office: Office,
        id_: str,
        expect: str,
        by: str,
        via: str,
        scopes: Collection[ProposalScope],
    ) -> Proposed: ...

    def dismiss(self, session: Session, office: Office, id_: str, by: str, via: str) -> Proposed: ...

    def finish(self, office: Office, id_: str) -> None:
        """Do what `confirm` left to be done after its transaction."""

    def left(self, session: Session) -> Sequence[str]:
        """Return the ids of what was confirmed and is not done: by a process that ended between the two."""
