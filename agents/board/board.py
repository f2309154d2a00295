"""The board of one episode in memory, as its tables have it."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from functools import cached_property

from chordesk.models.board.questions import BoardQuestion
from chordesk.models.board.signals import BoardSignal, SignalState, concerns


@dataclass(frozen=True)
class Board:
    """Questions and signals of one episode, tombstones and dormant tools among them.

    number: of the account's episodes; day: of its market; run_id: of the run, which names its bookings.
    """

    questions: tuple[BoardQuestion, ...]
    signals: tuple[BoardSignal, ...]
    number: int
    day: dt.date
    run_id: str = ""

    @cached_property
    def key(self) -> str:
        """The name of the episode in keys of bookings: its run, else its number, which an account has once."""
        return self.run_id or f"episode-{self.number}"

    @cached_property
    def questions_by_label(self) -> dict[str, BoardQuestion]:
        return {one.label: one for one in self.questions}

    @cached_property
    def signals_by_label(self) -> dict[str, BoardSignal]:
        return {one.label: one for one in self.signals}

    @cached_property
    def live(self) -> tuple[BoardSignal, ...]:
        return tuple(one for one in self.signals if one.state is SignalState.LIVE)

    def question(self, label: str) -> BoardQuestion | None:
        """Return the question of a label, None where there is none."""
        return self.questions_by_label.get(label)

    def signal(self, label: str) -> BoardSignal | None:
        """Return the signal of a label, None where there is none."""
        return self.signals_by_label.get(label)

    def foreign_live(self, own_tool: str) -> bool:
        """Return whether a tool other than a voice's own has a live signal that concerns a question to forecast."""
        asked = [one for one in self.questions if one.baseline is not None]
        return any(
            one.tool != own_tool and any(concerns(one, question.subjects, question.label) for question in asked)
            for one in self.live
        )
