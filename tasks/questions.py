"""Questions of people that a model answers in a run, for those who take them elsewhere than on a terminal."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from sqlmodel import Session

from chordesk.models.settings import Settings
from chordesk.tasks.proposals import Proposed


@dataclass(frozen=True, slots=True)
class AskedQuestion:
    """A question. origin: where it was asked, in small letters; since: it goes on with no dialogue of the person's that
    was last asked before."""

    text: str
    by: str
    origin: str
    since: dt.datetime | None = None


@dataclass(frozen=True, slots=True)
class ModelAnswer:
    """An answer in plain lines, with figures that were not found marked and what is missing. proposals: acts that it
    ended in and that wait for the person."""

    text: str
    proposals: Sequence[Proposed] = ()


class Asks(Protocol):
    """Who has questions answered by a model. What `ask` writes and what `answered` returns is told once: both take part
    in the transaction of the caller's own record."""

    def by_model(self, settings: Settings) -> bool:
        """Return whether this desk has a model for questions: rules know no more than the rows. Raises DeskError."""

    def ask(self, session: Session, settings: Settings, asked: AskedQuestion) -> str:
        """Keep a question, for which a worker opens a run, and return its id. Raises DeskError before it writes."""

    def ended(self, session: Session, settings: Settings, id_: str) -> bool:
        """Return whether there will be no other answer than there is now."""

    def answered(self, session: Session, settings: Settings, id_: str) -> ModelAnswer:
        """Return the answer to a question that has ended, or why there is none."""
