"""What a graph came to, as JSON."""

from __future__ import annotations

import dataclasses
import datetime as dt
import math
from collections.abc import Mapping
from enum import Enum
from pathlib import PurePath
from typing import Any
from uuid import UUID

import orjson
from langchain_core.messages import BaseMessage
from pydantic import BaseModel

from chordesk.agents.judging import storable
from chordesk.models.errors import GraphState

MOST_BYTES = 4_000_000
_DEEPEST = 60


def json_output(value: Any) -> Any:
    """Return a graph's output as what JSON holds: messages as their type, text, calls and name. Raises GraphState, with
    the place, for what JSON cannot hold, and for more than MOST_BYTES."""
    found = storable(_plain(value, "the output", 0))
    size = len(orjson.dumps(found))
    if size > MOST_BYTES:
        raise GraphState(f"the output has {size:,} bytes as JSON, more than {MOST_BYTES:,}")
    return found


def _plain(value: Any, place: str, depth: int) -> Any:
    if depth > _DEEPEST:
        raise GraphState(f"{place[:200]} is nested more than {_DEEPEST} deep, or holds itself")
    if value is None or (isinstance(value, bool | str) and not isinstance(value, Enum)):
        return value
    if isinstance(value, Enum):
        return _plain(value.value, place, depth + 1)
    if isinstance(value, int | float):
        return _number(value, place)
    if isinstance(value, dt.datetime | dt.date | dt.time):
        return value.isoformat()
    if isinstance(value, UUID | PurePath):
        return str(value)
    if isinstance(value, BaseMessage):
        return _message(value, place, depth)
    if isinstance(value, BaseModel):
        value = {name: getattr(value, name) for name in type(value).model_fields}
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = {one.name: getattr(value, one.name) for one in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {_key(key, place): _plain(item, f"{place}.{key}", depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, f"{place}[{index}]", depth + 1) for index, item in enumerate(value)]
    raise GraphState(f"{place[:200]} is of type {type(value).__name__}, which JSON cannot hold")


def _number(value: float, place: str) -> float:
    if isinstance(value, float) and not math.isfinite(value):
        raise GraphState(f"{place[:200]} is {value}, which JSON cannot hold")
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        raise GraphState(f"{place[:200]} has more than 64 bits, which JSON here cannot hold")
    return value


def _key(key: Any, place: str) -> str:
    if not isinstance(key, str):
        raise GraphState(f"{place[:200]} has the key {key!r}, which JSON cannot hold")
    return key


def _message(message: BaseMessage, place: str, depth: int) -> dict[str, Any]:
    found = {"type": message.type, "content": _plain(message.content, f"{place}.content", depth + 1)}
    calls = getattr(message, "tool_calls", None)
    if calls:
        found["tool_calls"] = _plain(calls, f"{place}.tool_calls", depth + 1)
    return {**found, **({"name": message.name} if message.name else {})}
