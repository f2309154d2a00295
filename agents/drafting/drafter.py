"""The drafter: what it is asked, what it answers, and the file that code makes of its answer."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from pydantic import Field

from chordesk.agents.role import role_of_file
from chordesk.agents.subjects import Constraints, constraints
from chordesk.agents.turn_answers import AnswerError, RecordedCall
from chordesk.models.answers import Frozen
from chordesk.models.errors import UsageError
from chordesk.models.settings import KNOWN_LENSES, Settings

if TYPE_CHECKING:
    from chordesk.tools.lenses.files import Lens

DRAFTER = "drafter"


class FigureRow(TypedDict):
    """A figure that a rule may name."""

    name: str
    means: str
    unit: str


class DraftSubject(TypedDict):
    """What a lens is to look for. words: a person's. name: of the file, None where the drafter names it. before: the
    text of the file of that name, where there is one. figures: those that the market has today. taken: names of lenses
    that there are."""

    constraints: Constraints
    figures: list[FigureRow]
    taken: list[str]
    name: str | None
    before: str | None
    words: str


class DraftOutput(Frozen):
    """The parts of a lens's file, as `tools.lenses.files` reads them. An empty text leaves a part out."""

    name: str = Field(description="two to four words of small letters, digits and hyphens, at most 32 characters")
    purpose: str = Field(description="what it looks through, in a phrase of at most 12 words")
    by: Literal["rule", "model", "both"]
    universe: str
    where: str
    score: str
    high: str
    figures: list[str]
    hits: int = Field(ge=1, le=50)
    words: str


class Draft(DraftOutput):
    """An answer that was read. text: of the file."""

    text: str


def draft_subject(
    settings: Settings,
    words: str,
    name: str | None = None,
    before: str | None = None,
    figures: Sequence[str] | None = None,
    taken: Iterable[str] = KNOWN_LENSES,
) -> DraftSubject:
    """figures: those that the market has, by default all that there are."""
    from chordesk.tools.lenses.figures import FIGURES  # what only lists roles has no use for figures

    known = FIGURES if figures is None else figures
    return {
        "constraints": constraints(settings),
        "figures": [FigureRow(name=one, means=FIGURES[one].title, unit=FIGURES[one].unit) for one in known],
        "taken": sorted(taken),
        "name": name,
        "before": before,
        "words": words,
    }


def smallest_subject(settings: Settings) -> DraftSubject:
    return draft_subject(settings, "Names that rise.")


def file_text(words: str, front: Mapping[str, Any]) -> str:
    """Return a file's text: the parts of the front matter that are not empty, and the words."""
    # A JSON string is a TOML string too, but for its escapes of what is not in the first plane.
    given = [f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in front.items() if value]
    return "\n".join((*(["+++", *given, "+++"] if given else []), words.strip(), ""))


def complete_draft(answer: dict[str, Any], subject: Mapping[str, Any], calls: Sequence[RecordedCall]) -> dict[str, Any]:
    """Return the answer with the text of its file. Raises AnswerError for what cannot be read, a name that is taken,
    and a figure that the market does not have: the model is asked once to mend it."""
    from chordesk.tools.lenses.files import read_lens

    name = subject.get("name") or answer["name"].strip()
    front = {key: value for key, value in answer.items() if key not in ("name", "words")}
    text = file_text(answer["words"], front)
    try:
        lens = read_lens(name, text)
    except UsageError as error:
        raise AnswerError(f"{error.args[0]}: {error.remedy}") from None
    if subject.get("name") is None and name in subject["taken"]:
        raise AnswerError(f"there is a lens {name} already: name it otherwise than {', '.join(subject['taken'])}")
    _require_known(lens, [row["name"] for row in subject["figures"]])
    return {**answer, "name": name, "text": text}


def _require_known(lens: Lens, known: Sequence[str]) -> None:
    if gone := [name for name in lens.used if name not in known]:
        raise AnswerError(f"the market has no {', '.join(gone)}: choose among {', '.join(known)}")


ROLES = (
    role_of_file(
        "research", "ask_drafter.md", DraftSubject, DraftOutput, DRAFTER,
        keeps_thread=False, optional=True, reports=False, complete=complete_draft, completed=Draft,
        smallest=smallest_subject, of_market=False,
    ),
)  # fmt: skip
