"""Parts of runs, and of the desk's status, that features bring: their types, and what they read of the database."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple, TypeVar, get_type_hints

import structlog
from pydantic import BaseModel, TypeAdapter, create_model
from sqlmodel import Session

from chordesk.models import features
from chordesk.models.descriptions import is_ours, said
from chordesk.models.errors import SettingError
from chordesk.models.features import Shown
from chordesk.models.settings import Settings
from chordesk.models.tables.runs import Run

log = structlog.get_logger(__name__)
M = TypeVar("M", bound=BaseModel)


class Part(NamedTuple):
    name: str
    shown: Shown
    read: Callable[[Session, Any], Any]
    of: features.Feature
    own: bool  # the desk's, and no package's

    def field(self) -> tuple[Any, Any]:
        stated = get_type_hints(self.read)["return"]
        return (stated, ...) if self.own else (stated | None, None)

    def call(self, place: str, *given: Any) -> Any:
        return call(self.of, self.name, features.load(place), *given)


def call(feature: features.Feature, part: str, function: Callable[..., Any], *given: Any) -> Any:
    """Return what a function of a feature returns; None where a package's raises, and the log has why."""
    try:
        return function(*given)
    except BaseException as error:  # a package may end its caller, or mean to
        if features.is_own(feature) or is_ours(error):
            raise
        why = f"{type(error).__name__}: {error}"
        log.warning("feature.part_failed", feature=feature.name, part=part, error=why)
        return None


@cache
def _parts() -> tuple[Part, ...]:
    found = []
    named: dict[str, Shown] = features.added({}, "shown")
    for name, shown in named.items():
        try:
            read = features.part("shown", name, shown.read)
        except SettingError as error:  # a package's, which is left out
            log.warning("feature.left_out", part=name, why=str(error))
            continue
        owner = next(each for each in features.in_force() if name in each.shown)
        if not features.is_own(owner) and (why := _untyped(name, read)):
            features.skip(owner, why)
            log.warning("feature.left_out", part=name, why=why)
            continue
        found.append(Part(name, shown, read, owner, features.is_own(owner)))
    return tuple(found)


def _untyped(name: str, read: Callable[..., Any]) -> str:
    """Return why a part of a package has no schema; an empty text where it has one."""
    try:
        TypeAdapter(get_type_hints(read)["return"]).json_schema()
    except Exception as error:
        return f"its part {name} of a run has no type that it returns: {said(error, placed=False)}"
    return ""


def parts(*where: str) -> Iterator[Part]:
    return (one for one in _parts() if one.shown.where in where)


def widened(model: type[M], *where: str, **others: Any) -> type[M]:
    """Return the model with the parts of features as fields. others: types of fields that change with it."""
    fields: dict[str, Any] = {name: (stated, ...) for name, stated in others.items()}
    for one in parts(*where):
        if one.name in model.model_fields:
            why = f"among the parts of a run there is {one.name} already"
            features.skip(one.of, why)
            log.warning("feature.left_out", part=one.name, why=why)
        else:
            fields[one.name] = one.field()
    return create_model(model.__name__, __base__=model, __doc__=model.__doc__, __module__=model.__module__, **fields)


def read(session: Session, of: Run | Settings, fields: type[BaseModel], *where: str) -> dict[str, Any]:
    """Return the parts by name that are among the fields."""
    found = (one for one in parts(*where) if one.name in fields.model_fields)
    return {one.name: call(one.of, one.name, one.read, session, of) for one in found}


def given(found: BaseModel, *where: str) -> Iterator[tuple[Part, Any]]:
    """Yield the parts that a view has and that are not empty."""
    for one in parts(*where):
        if value := getattr(found, one.name, None):
            yield one, value
