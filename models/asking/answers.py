"""The answer of the clerk, as a model writes it and as code keeps it."""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_args

from pydantic import Field

from chordesk.models.answers import Wire

ProposalKind = Literal["start", "stop", "halt", "approve", "deny", "alert", "watchlist", "schedule"]
PROPOSAL_KINDS: tuple[ProposalKind, ...] = get_args(ProposalKind)
MOST_ANSWER, MOST_LINE, MOST_LINES, MOST_PROPOSALS = 6_000, 400, 24, 5

Line = Annotated[str, Field(min_length=1, max_length=MOST_LINE)]


class AskedProposal(Wire):
    """Something that a person may have done. arguments: a JSON object as text, since a strict schema has no object of
    any fields; code reads it, and a person confirms what code made of it."""

    kind: ProposalKind
    arguments: str = Field(
        max_length=2_000, description='a JSON object as text, such as {"symbols": ["ED"]}, with ids and symbols alone'
    )


class ClerkOutput(Wire):
    """The clerk's answer to one question."""

    answer: str = Field(min_length=1, max_length=MOST_ANSWER, description="in plain words, without markup")
    sources: list[Line] = Field(max_length=MOST_LINES, description="ids of runs and orders in your tools' answers")
    missing: list[Line] = Field(max_length=MOST_LINES, description="what is not known that was asked for, and why")
    proposals: list[AskedProposal] = Field(
        max_length=MOST_PROPOSALS, description="what the person asked to have done; none else"
    )


class KeptProposal(Wire):
    """A proposal whose arguments could be read; nothing else of it was checked."""

    kind: ProposalKind
    arguments: dict[str, Any]


class ClerkAnswer(Wire):
    """The answer as code keeps it. sources: {kind, id} of those that a tool of its turn gave."""

    answer: str
    sources: list[dict[str, str]]
    missing: list[str]
    proposals: list[KeptProposal]
