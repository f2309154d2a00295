"""What a role is, and the makers of the desk's kinds of roles; nothing here knows which roles there are."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from pydantic import BaseModel

from chordesk.agents.answers import Completion, Evidence
from chordesk.agents.runtime import ApprovalKind
from chordesk.agents.subjects import (
    AnalystSubject,
    ResearchSubject,
    ScreenerSubject,
    SynthesisSubject,
    TraderSubject,
    VoiceSubject,
)
from chordesk.models.answers import ScreenOutput, TraderOutput
from chordesk.models.reports import ValidatorOutput
from chordesk.models.states import RunMode
from chordesk.tools.registry import ToolSpec


@dataclass(frozen=True, slots=True)
class Role:
    """Everything about one role of the desk.

    key: name in tables and threads. prompt, question: Jinja files of its instructions and of its user message.
    subject: type of the data in that message. schema: model of its answer. keeps_thread: whether it remembers older
    turns. after: key of the role it follows; None starts at once. rejects: its REJECT ends the candidate's research.
    optional: runs only where the settings name it. approvals: requests it may make of a person, beside those the
    settings allow it. complete: adds what code makes of an answer, such as its verdict and the figures it names by id;
    completed: the model that such an answer fits. evidence: whether the tool answers had what the role judges by; None
    asks for data of any tool. reads: roles whose completed answers its subject carries. reports: its answer
    is a report on a candidate, of those that a verdict is reduced from.
    """

    key: str
    mode: RunMode
    prompt: str
    question: str
    subject: type[ScreenerSubject | ResearchSubject | AnalystSubject | SynthesisSubject | VoiceSubject | TraderSubject]
    tools: tuple[ToolSpec, ...]
    schema: type[BaseModel]
    keeps_thread: bool = True
    after: str | None = None
    rejects: bool = False
    optional: bool = False
    approvals: frozenset[ApprovalKind] = frozenset()
    complete: Completion | None = None
    completed: type[BaseModel] | None = None
    evidence: Evidence | None = None
    reads: tuple[str, ...] = ()
    reports: bool = True

    @property
    def answer(self) -> type[BaseModel]:
        """The model that its answer fits as it is kept."""
        return self.completed or self.schema


def role_of_file(
    mode: RunMode, question: str, subject: type[Any], schema: type[BaseModel], key: str, *tools: ToolSpec, **fields: Any
) -> Role:
    return Role(key, mode, f"{key}.md", question, subject, tools, schema, **fields)


screener = partial(role_of_file, "screener", "ask_screener.md", ScreenerSubject, ScreenOutput)
validator = partial(role_of_file, "research", "ask_validator.md", ResearchSubject, ValidatorOutput)
trader = partial(role_of_file, "trader", "ask_trader.md", TraderSubject, TraderOutput)
analyst = partial(
    role_of_file, "research", "ask_analyst.md", AnalystSubject, keeps_thread=False, rejects=True, optional=True
)  # a kept thread would send every picture again
