"""The file of a lens: front matter in TOML between two lines of +++, then the words for a model.

A lens says what it looks at (`universe`), what it asks for (`where`), how it orders what passes (`score`), and what a
model is told. `by` says who decides: a `rule` alone, a `model` alone, or `both`, the model among what passes the rule.
"""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import Literal

from pydantic import ConfigDict, Field, ValidationError

from chordesk.models.answers import Frozen
from chordesk.models.errors import UsageError
from chordesk.models.text import one_line
from chordesk.tools.lenses.expressions import Expression, read
from chordesk.tools.lenses.figures import FIGURES

NAME = re.compile(r"[a-z][a-z0-9-]{0,31}")
NAME_RULE = "a small letter, then at most 31 small letters, digits and -"
MOST_WORDS = 4_000  # characters
MOST_BYTES = 20_000
DIGITS = 12  # of the version
_LINE = "+++"
_SECTORS = re.compile(r"sectors\s*:", re.IGNORECASE)
# Beside tabs and line ends, controls and marks that change the direction of what follows have no place in words.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff\ufffd]")
By = Literal["rule", "model", "both"]


class _Front(Frozen):
    """What may stand between the two lines."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    purpose: str = Field("", max_length=200)
    universe: str = Field("", max_length=1_000)
    tools: list[str] | None = Field(None, max_length=20)
    hits: int = Field(6, ge=1, le=50)
    by: By | None = None
    where: str = ""
    score: str = ""
    high: str = ""
    figures: list[str] = Field([], max_length=20)


class Lens(Frozen):
    """A lens that was read and checked."""

    name: str
    text: str
    words: str
    purpose: str  # what it looks through, in a phrase
    universe: str
    tools: tuple[str, ...] | None  # None: all that screeners have
    hits: int
    by: By
    where: str
    score: str
    high: str
    figures: tuple[str, ...]

    @property
    def version(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()[:DIGITS]

    @property
    def title(self) -> str:
        return f"{self.name}@{self.version}"

    @property
    def sectors(self) -> tuple[str, ...]:
        """The sectors that its universe names; none where it is a rule, or the run's."""
        if (head := _SECTORS.match(self.universe)) is None:
            return ()
        return tuple(part.strip() for part in self.universe[head.end() :].split(",") if part.strip())

    @property
    def within(self) -> Expression | None:
        """The rule of its universe, where it has one."""
        if _SECTORS.match(self.universe) or not self.universe:
            return None
        return _expression(self.universe, "truth", "universe")

    @property
    def rule(self) -> Expression | None:
        return _expression(self.where, "truth", "where") if self.where else None

    @property
    def scoring(self) -> Expression | None:
        return _expression(self.score, "number", "score") if self.score else None

    @property
    def strong(self) -> Expression | None:
        return _expression(self.high, "truth", "high") if self.high else None

    @property
    def used(self) -> tuple[str, ...]:
        """The figures that its rule and its reasons are made of."""
        parts = (self.within, self.rule, self.scoring, self.strong)
        found = {name for one in parts if one is not None for name in one.figures} | set(self.figures)
        return tuple(name for name in FIGURES if name in found)


@lru_cache(maxsize=512)
def _expression(text: str, kind: Literal["truth", "number"], what: str) -> Expression:
    names = (*FIGURES, SCORE) if what == "high" else tuple(FIGURES)
    return read(text, names, kind, what)


SCORE = "score"  # in `high`: what `score` came to


def plain(text: str) -> str:
    """Return a file's text as its version is counted: without a byte order mark, lines ended by \\n."""
    return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").strip() + "\n"


@lru_cache(maxsize=256)
def read_lens(name: str, text: str, tools: frozenset[str] = frozenset()) -> Lens:
    """Return the lens of a file's text. tools: those a screener may have. Raises UsageError in one line that names the
    lens, the value and the remedy."""
    if NAME.fullmatch(name) is None:
        raise UsageError(f"the lens {name[:40]!r} has a name that is not allowed", remedy=f"a name is {NAME_RULE}")
    try:
        return _read(name, plain(text), tools)
    except UsageError as error:
        raise UsageError(f"the lens {name}: {error.args[0]}", remedy=error.remedy) from None
    except Exception as error:  # such as a number of more digits than Python reads: one file's fault, no other's
        why = f"{type(error).__name__}: {one_line(str(error), 100)}"
        raise UsageError(f"the lens {name}: its file cannot be read, {why}", remedy="correct it or remove it") from None


def _read(name: str, text: str, tools: Collection[str]) -> Lens:
    if len(text.encode()) > MOST_BYTES:
        raise UsageError(f"its file has {len(text.encode()):,} bytes", remedy=f"at most {MOST_BYTES:,} are read")
    require_plain(text, "its file")
    front, words = _parted(text)
    if not words:
        raise UsageError("it has no words", remedy="say below the second +++ what it looks for, for a model and people")
    if len(words) > MOST_WORDS:
        raise UsageError(f"its words have {len(words):,} characters", remedy=f"at most {MOST_WORDS:,} are read")
    given = _front(front)
    for part in (given.purpose, given.universe):  # TOML's escapes may have written what no file may have
        require_plain(part, "its front matter")
    if unknown := [one for one in given.tools or () if tools and one not in tools]:
        raise UsageError(f"tools has {unknown[0][:40]!r}", remedy=f"choose among {', '.join(sorted(tools))}")
    if unknown := [one for one in given.figures if one not in FIGURES]:
        raise UsageError(f"figures has {unknown[0][:40]!r}", remedy=f"choose among {', '.join(FIGURES)}")
    by: By = given.by or ("both" if given.where else "model")
    if by != "model" and not given.where:
        raise UsageError(f"by is {by!r}, and it has no rule", remedy='write where = "...", or by = "model"')
    if (given.score or given.high) and not given.where:
        raise UsageError("it has a score or high, and no rule", remedy='write where = "..."')
    found = Lens(
        name=name, text=text, words=words, purpose=given.purpose.strip() or name, universe=given.universe.strip(),
        tools=None if given.tools is None else tuple(dict.fromkeys(given.tools)), hits=given.hits, by=by,
        where=given.where.strip(), score=given.score.strip(), high=given.high.strip(),
        figures=tuple(dict.fromkeys(given.figures)),
    )  # fmt: skip
    _ = found.used  # reads each expression, and raises for a wrong one
    if _SECTORS.match(found.universe) and not found.sectors:
        raise UsageError(f"universe is {found.universe!r}", remedy='name sectors, as "sectors: Utilities, Energy"')
    if found.strong is not None and SCORE in found.strong.figures and not found.score:
        raise UsageError("high names score, and there is none", remedy='write score = "..."')
    return found


def require_plain(text: str, what: str) -> None:
    """Raise UsageError for a control character, or a mark that changes the direction of text."""
    if strange := _CONTROL.search(text):
        reason = f"{what} has the character U+{ord(strange[0]):04X}"
        raise UsageError(reason, remedy="write UTF-8 text of letters, tabs and line ends")


def _parted(text: str) -> tuple[str, str]:
    """Return the front matter and the words."""
    lines = text.split("\n")
    marks = [at for at, line in enumerate(lines) if line.rstrip() == _LINE]
    if not marks:
        return "", text.strip()
    if marks[0] != 0 or len(marks) == 1:
        raise UsageError("its front matter is not closed", remedy="begin the file with +++, and end that part with +++")
    if len(marks) > 2:
        raise UsageError(f"it has {len(marks)} lines of +++, as of two front matters", remedy="write one, of two +++")
    return "\n".join(lines[1 : marks[1]]), "\n".join(lines[marks[1] + 1 :]).strip()


def _front(text: str) -> _Front:
    try:
        return _Front.model_validate(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"its front matter is not TOML: {error}", remedy='write NAME = "value", one a line') from None
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        if first["type"] == "extra_forbidden":
            known = ", ".join(_Front.model_fields)
            raise UsageError(f"its front matter has {where[:40]!r}", remedy=f"choose among {known}") from None
        reason = f"{where} is {str(first['input'])[:60]!r}: {first['msg']}"
        raise UsageError(reason, remedy="correct it; the page on lenses has an example of each") from None


def read_all(texts: Mapping[str, str], tools: frozenset[str] = frozenset()) -> dict[str, Lens | UsageError]:
    """Return each lens by name, or what is wrong with its file."""
    found: dict[str, Lens | UsageError] = {}
    for name, text in texts.items():
        try:
            found[name] = read_lens(name, text, tools)
        except UsageError as error:
            found[name] = error
    return found
