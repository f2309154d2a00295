"""Shapes of venues' answers, checked strictly: a number in place of a text is an answer that the venue does not
document, and nothing is read from it."""

from __future__ import annotations

import datetime as dt
import math
from typing import Annotated, Any, TypeVar

import orjson
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError

from chordesk.models.errors import MarketUnavailable

T = TypeVar("T")
_SHOWN = 60


class Shape(BaseModel):
    """The fields of an answer that the desk reads; others may come and go."""

    model_config = ConfigDict(strict=True, extra="ignore", frozen=True, allow_inf_nan=False)


def _number_in_text(value: Any) -> float:
    if not isinstance(value, str):
        raise ValueError("documented as a text that holds a number")
    number = float(value)
    if not math.isfinite(number):
        raise ValueError("is no finite number")
    return number


def _texts_in_text(value: Any) -> tuple[str, ...]:
    if not isinstance(value, str):
        raise ValueError("documented as a text that holds a JSON list")
    try:
        found = orjson.loads(value)
    except orjson.JSONDecodeError:
        raise ValueError("holds no JSON") from None
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise ValueError("documented as a JSON list of texts")
    return tuple(found)


def _moment_in_text(value: Any) -> dt.datetime:
    if not isinstance(value, str):
        raise ValueError("documented as a text that holds a time")
    found = dt.datetime.fromisoformat(value)
    return found.astimezone(dt.UTC) if found.tzinfo else found.replace(tzinfo=dt.UTC)


def _moment_in_ms(value: Any) -> dt.datetime | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError("documented as a number of milliseconds")
    try:
        return dt.datetime.fromtimestamp(value / 1000, dt.UTC)
    except (ValueError, OverflowError, OSError):
        return None  # beyond the calendar: never


NumberText = Annotated[float, BeforeValidator(_number_in_text)]
PriceText = Annotated[float, BeforeValidator(_number_in_text), Field(ge=0, le=1)]
Probability = Annotated[float, Field(ge=0, le=1)]
TextsText = Annotated[tuple[str, ...], BeforeValidator(_texts_in_text)]
MomentText = Annotated[dt.datetime, BeforeValidator(_moment_in_text)]
MomentMs = Annotated[dt.datetime | None, BeforeValidator(_moment_in_ms)]


def read_as(shape: TypeAdapter[T], venue: str, answer: Any) -> T:
    """Return an answer in its documented shape. Raises MarketUnavailable naming the venue and the first field that
    differs."""
    try:
        return shape.validate_python(answer)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"]) or "the answer"
        given = repr(first["input"])
        shown = given if len(given) <= _SHOWN else given[:_SHOWN] + "..."
        raise unreadable(venue, place, f"{first['msg']}, and is {shown}") from None


def unreadable(venue: str, field: str, reason: str) -> MarketUnavailable:
    """Return the error of an answer that is not as documented."""
    return MarketUnavailable(f"{venue}'s answer could not be read: {field}: {reason}")
