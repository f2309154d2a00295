"""The roles: a validator, whose report counts for the verdict; a lens of screens; and a role with its own answer."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from chordesk.plugins import SIGNALS_GET, ResearchSubject, Role, Wire, screener, validator


class RangeNote(Wire):
    """The answer of the role range_note. A model reads and writes its fields in camelCase."""

    move: Literal["small", "large", "unknown"]
    summary: str = Field(min_length=1, max_length=2000)


ROLES = (
    validator("liquidity", SIGNALS_GET, after="quick"),
    screener("screener_calm"),  # the lens `calm`
    Role(
        "range_note", "research", "range_note.md", "ask_validator.md", ResearchSubject, tools=(), schema=RangeNote,
        reports=False, keeps_thread=False, optional=True,
    ),
)  # fmt: skip
