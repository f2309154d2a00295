"""Models made of what is known to be right, without checking it: for what is made a hundred times a second."""

from __future__ import annotations

from functools import cache
from typing import Any, TypeVar

from pydantic import BaseModel

M = TypeVar("M", bound=BaseModel)

_set = object.__setattr__  # a model may be frozen


def unchecked(model: type[M], fields: dict[str, Any]) -> M:
    """A model of all its fields, which are of their types already. It keeps the dict. `model_construct` does the same
    in several times the time; checking takes longer than anything else that is done with an event."""
    one = model.__new__(model)
    _set(one, "__dict__", fields)
    _set(one, "__pydantic_fields_set__", _names(model))
    _set(one, "__pydantic_extra__", None)
    _set(one, "__pydantic_private__", None)
    return one


@cache
def _names(model: type[BaseModel]) -> set[str]:
    return set(model.model_fields)
