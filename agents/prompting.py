"""The prompts of roles: their instructions, and the user message of a turn.

A prompt is a Jinja file of `agents/prompts`; an undefined name in one is an error. Instructions depend on the role
alone, so that a kept thread never has stale ones; constraints and the subject come with each turn.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import orjson
from jinja2 import Environment, FileSystemLoader, StrictUndefined, UndefinedError

from chordesk.agents.roles import Role
from chordesk.models.errors import UsageError
from chordesk.models.settings import REPLAYING, Settings

PROMPTS = Path(__file__).parent / "prompts"
HITS_WANTED = 6  # most names that a lens is to put forward from one shard


@dataclass(frozen=True, slots=True)
class Prompt:
    base_instructions: str
    user: str


def render(role: Role, subject: Mapping[str, Any], settings: Settings, *, afresh: bool = False) -> Prompt:
    """Return the instructions and the user message of one turn.

    subject: of the role's subject type. afresh: the thread has no earlier turns; the subject's `memory` is their
    summary. Raises UsageError when the subject lacks a part.
    """
    remedy = "build it with a function of chordesk.agents.subjects"
    if lacking := vars(role.subject)["__required_keys__"] - subject.keys():
        raise UsageError(f"the subject of {role.key} lacks {', '.join(sorted(lacking))}", remedy=remedy)
    try:
        user = _environment().get_template(role.question).render(
            constraints=subject["constraints"], market=settings.market,
            replayed=settings.market in REPLAYING, subject_block=subject_block(subject),
            afresh=afresh, board="board" in subject,
        )  # fmt: skip
    except UndefinedError as error:
        raise UsageError(f"the subject of {role.key} lacks {error}", remedy=remedy) from None
    return Prompt(instructions(role), user)


@cache
def instructions(role: Role) -> str:
    """Return the base instructions of a role; their first line is `Role: <key>`."""
    tools = [{"name": tool.name, "hint": tool.hint} for tool in role.tools]
    return _environment().get_template(role.prompt).render(role=role.key, hits=HITS_WANTED, tools=tools)


def subject_block(subject: Mapping[str, Any]) -> str:
    """Return the subject as a fenced block of one JSON line.

    A backtick can only stand inside a JSON string, so writing it as an escape keeps the JSON the same and leaves no
    text that could close the fence.
    """
    line = orjson.dumps(dict(subject)).decode().replace("`", "\\u0060")
    return f"```subject\n{line}\n```"


@cache
def _environment() -> Environment:
    # Plain text for a model, not HTML: escaping would only garble it.
    environment = Environment(
        loader=FileSystemLoader(PROMPTS), undefined=StrictUndefined, autoescape=False, trim_blocks=True,
        lstrip_blocks=True, auto_reload=False,
    )  # fmt: skip
    # float() of an undefined name raises as any other use of it does; a format specification would not.
    environment.globals["money"] = lambda value: f"{float(value):,.2f}"
    environment.globals["percent"] = lambda value: f"{float(value):.1%}"
    return environment
