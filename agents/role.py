"""What a role is, and the makers of the desk's kinds of roles; nothing here knows which roles there are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from chordesk.agents import first_calls
from chordesk.agents.runtime import ApprovalKind
from chordesk.agents.subjects import AnalystSubject, ResearchSubject, ScreenerSubject, TraderSubject
from chordesk.agents.turn_answers import Completion, Evidence
from chordesk.models.analysis import ValidatorOutput
from chordesk.models.answers import ScreenOutput, TraderOutput, output_schema
from chordesk.models.descriptions import NAME, NAME_RULE, said
from chordesk.models.settings import Settings
from chordesk.models.states import RunMode
from chordesk.tools.registry import ToolSpec

if TYPE_CHECKING:
    from chordesk.models.settings import Settings
    from chordesk.tools.lenses.files import Lens

SCREENER = "screener_"  # before the name of its lens, the key of a screener
# Returns, for the data of a turn's subject, names of tools with their arguments.
FirstCalls = Callable[[Mapping[str, Any]], Sequence[tuple[str, Mapping[str, Any]]]]


@dataclass(frozen=True, slots=True)
class Role:
    """Everything about one role of the desk."""

    key: str  # name in tables and threads
    mode: RunMode
    # prompt, question: Jinja files of its instructions and of its user message
    prompt: str
    question: str
    subject: type[Any]  # TypedDict of the data in that message: one of `agents.subjects`, or a feature's own
    tools: tuple[ToolSpec, ...]
    schema: type[BaseModel]  # model of its answer
    # what every turn asks its tools: code asks them before, so that the answers stand in the question and no call of
    # the model is spent on asking
    first: FirstCalls | None = None
    keeps_thread: bool = True  # whether it remembers older turns
    after: str | None = None  # key of the role it follows; None starts at once
    rejects: bool = False  # its REJECT ends the candidate's research
    optional: bool = False  # runs only where the settings name it
    # requests it may make of a person, beside those the settings allow it
    approvals: frozenset[ApprovalKind] = frozenset()
    # adds what code makes of an answer, such as its verdict and the figures it names by id
    complete: Completion | None = None
    completed: type[BaseModel] | None = None  # the model that such an answer fits
    # whether the tool answers had what the role judges by; None asks for data of any tool
    evidence: Evidence | None = None
    reads: tuple[str, ...] = ()  # roles whose completed answers its subject carries
    reports: bool = True  # its answer is a report on a candidate, of those that a verdict is reduced from
    # whether its evidence bears on which way a share goes; else its thesis states a risk, and no probability is pooled
    forecasts: bool = True
    # its turns are about a market or a candidate: their subjects get the regime and the base rates of its day
    of_market: bool = True
    # returns the smallest subject there is of its type; None for the types of `agents.subjects`
    smallest: Callable[[Settings], Mapping[str, Any]] | None = None
    # of a screener: a person's own lens, or the file of one of the desk's or of a package
    own: Lens | None = None
    file: Path | None = None

    @property
    def lens(self) -> Lens | None:
        """The lens of a screener; None where it is no file."""
        return self.own if self.file is None else _lens_of(self.key.removeprefix(SCREENER), self.file)

    @property
    def answer(self) -> type[BaseModel]:
        """The model that its answer fits as it is kept."""
        return self.completed or self.schema

    def fault(self) -> str:
        """Return why no turn of the role could begin; an empty text where it can. The desk's own are held to the same
        by its tests."""
        if not NAME.fullmatch(self.key):
            return f"its role's key is {self.key!r}, and a name is {NAME_RULE}"
        try:
            output_schema(self.schema)
        except Exception as error:
            return f"the answer of its role {self.key} has no schema: {said(error, placed=False)}"
        return next((why for tool in self.tools if (why := tool.fault())), "")


def role_of_file(
    mode: RunMode, question: str, subject: type[Any], schema: type[BaseModel], key: str, *tools: ToolSpec, **fields: Any
) -> Role:
    return Role(key, mode, f"{key}.md", question, subject, tools, schema, **fields)


@cache
def _lens_of(name: str, file: Path) -> Lens:
    from chordesk.tools.lenses.files import read_lens  # what only lists roles has no use for a rule

    return read_lens(name, file.read_text(encoding="utf-8"))


def lens_role(name: str) -> str:
    """Return the key of the role that looks through a lens."""
    return f"{SCREENER}{name}"


def _first_of(name: str, tools: tuple[ToolSpec, ...]) -> FirstCalls | None:
    """Return what a lens asks for every shard; nothing where it does not have the tool."""
    if name in first_calls.LENSES:
        return first_calls.LENSES[name]
    return first_calls.shard_signals if any(tool.name == "signals_get" for tool in tools) else None


def screener_of(lens: Lens, tools: Mapping[str, ToolSpec], usual: tuple[ToolSpec, ...]) -> Role:
    """Return the role of a person's own lens. tools: those it may name; usual: what it has where it names none."""
    given = usual if lens.tools is None else tuple(tools[name] for name in lens.tools)
    return Role(
        lens_role(lens.name), "screener", "lens.md", "ask_screener.md", ScreenerSubject, given, ScreenOutput,
        first=_first_of(lens.name, given), own=lens,
    )  # fmt: skip


def screener_of_file(name: str, file: Path, *tools: ToolSpec) -> Role:
    """Return the role of a lens of the desk, or of a package. tools: as its file has them."""
    key = lens_role(name)
    return Role(key, "screener", "lens.md", "ask_screener.md", ScreenerSubject, tools, ScreenOutput,
                first=_first_of(name, tools), file=file)  # fmt: skip


screener = partial(role_of_file, "screener", "ask_screener.md", ScreenerSubject, ScreenOutput)


def validator(
    key: str, *tools: ToolSpec, question: str = "ask_validator.md", subject: type[Any] = ResearchSubject, **fields: Any
) -> Role:
    return role_of_file("research", question, subject, ValidatorOutput, key, *tools, **fields)


trader = partial(role_of_file, "trader", "ask_trader.md", TraderSubject, TraderOutput)
analyst = partial(
    role_of_file, "research", "ask_analyst.md", AnalystSubject, keeps_thread=False, rejects=True, optional=True
)  # a kept thread would send every picture again
