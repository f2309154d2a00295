"""An act that may be proposed to a person, who asks them elsewhere than on a terminal, and who asks a model."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from chordesk.plugins import (
    AskedQuestion,
    ModelAnswer,
    Office,
    Proposable,
    ProposalArguments,
    ProposalCard,
    ProposalOutcome,
    ProposalScope,
    Proposed,
    UsageError,
)


class ToyArguments(ProposalArguments):
    number: int


def word(office: Office, asked: ToyArguments) -> ProposalCard:
    return ProposalCard(title=f"square {asked.number}", arguments=asked.model_dump())


def square(session: Any, office: Office, act: Any) -> ProposalOutcome:
    return ProposalOutcome(f"{act.arguments.number**2}")


def read(text: str) -> Mapping[str, Any] | None:
    words = text.split()
    return {"number": int(words[1])} if len(words) == 2 and words[0] == "square" and words[1].isdecimal() else None


TOY = Proposable(ProposalScope.START, ToyArguments, word, act=square, read=read)


class ToyConfirms:
    """It has nothing to confirm."""

    def propose(self, office: Office, text: str, by: str, origin: str) -> Sequence[Proposed] | None:
        return None

    def find(self, session: Any, settings: Any, id_: str) -> Proposed | None:
        return None

    def confirm(
        self, session: Any, office: Office, id_: str, expect: str, by: str, via: str, scopes: Collection[ProposalScope]
    ) -> Proposed:
        raise UsageError("nothing waits here", remedy="ask elsewhere")

    def dismiss(self, session: Any, office: Office, id_: str, by: str, via: str) -> Proposed:
        raise UsageError("nothing waits here", remedy="ask elsewhere")

    def finish(self, office: Office, id_: str) -> None:
        """Nothing was left to be done."""

    def left(self, session: Any) -> Sequence[str]:
        return []


class ToyAsks:
    """It has no model."""

    def by_model(self, settings: Any) -> bool:
        return False

    def ask(self, session: Any, settings: Any, asked: AskedQuestion) -> str:
        raise UsageError("nothing is asked here", remedy="ask elsewhere")

    def ended(self, session: Any, settings: Any, id_: str) -> bool:
        return True

    def answered(self, session: Any, settings: Any, id_: str) -> ModelAnswer:
        return ModelAnswer("nothing was asked here")
