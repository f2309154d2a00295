"""Kinds by name that features add to: types of events, kinds of notices and codes of denials. What is stored keeps its
name where the package that brought it is gone or off: it is read and shown, and no more is written."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Any, ClassVar, Self

from chordesk.models import features

OF_NONE = "of a feature that is not installed or is off"


class OpenKind(StrEnum):
    """The desk's own members, and by their text those of features. `OpenKind(text)` is for what is read and may be of
    any feature; `known` are those that may be written and asked for."""

    _form: ClassVar[re.Pattern[str]]
    _member: ClassVar[str]  # of a feature's description

    def __init_subclass__(cls, form: str = r"[a-z][a-z0-9_-]{0,79}", member: str = "", **rest: Any) -> None:
        super().__init_subclass__(**rest)
        cls._form, cls._member = re.compile(form), member

    @classmethod
    def _missing_(cls, value: object) -> Self | None:
        if not isinstance(value, str) or cls._form.fullmatch(value) is None:
            return None
        made = str.__new__(cls, value)
        made._name_ = made._value_ = value
        made._entered(value)
        return made

    def _entered(self, value: str) -> None:
        """Set what a member has besides its text."""

    @classmethod
    def of_features(cls) -> dict[str, Any]:
        """Return what features that are in force add, by name, each with what its description says of it."""
        return {name: said for one in features.in_force() for name, said in getattr(one, cls._member).items()}

    @classmethod
    def known(cls) -> list[Self]:
        return [*cls, *(cls(name) for name in cls.of_features())]

    @property
    def is_known(self) -> bool:
        return self in type(self).__members__.values() or self in self.of_features()

    @property
    def note(self) -> str:
        """Return what a reader should know of a kind that nobody here describes; an empty text of one that is known."""
        return "" if self.is_known else OF_NONE

    @classmethod
    def require(cls, text: str) -> Self:
        """Return a known kind by its text. Raises ValueError."""
        if text not in (names := cls.known()):
            other = features.remedy_for(cls._member, text)
            raise ValueError(f"{str(text)!r} is not known here: choose among {', '.join(names)}, or {other}")
        return cls(text)

    @classmethod
    def __get_pydantic_json_schema__(cls, core: Any, handler: Any) -> dict[str, Any]:
        schema = dict(handler.resolve_ref_schema(handler(core)))
        schema["enum"] = [one.value for one in cls.known()]
        return schema
