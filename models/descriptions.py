"""What is wrong with the description of a feature that a package has, and why one of its parts does not load, in one
line each. `models.features` leaves such a package out."""

from __future__ import annotations

import linecache
import os
import re
import signal
import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints, is_typeddict

NAME = re.compile(r"[a-z][a-z0-9_-]{0,39}")  # of a feature, and of what it adds by name
NAME_RULE = "a small letter, then at most 39 small letters, digits, _ and -"
# Members with names as their keys.
NAMED = (
    "graph_roles", "lenses", "commands", "markets", "brokers", "holdings", "runtimes", "benchmarks", "messengers",
    "passes", "proposals",
)  # fmt: skip
# Members whose keys begin with the feature's name and this mark.
OWNED = {"event_kinds": r"\.", "notice_kinds": "_", "denials": "_"}
LONGEST = 300  # characters of what an error says
_TABLED = re.compile(r"Table '([^']+)' is already defined")  # SQLAlchemy's words
_UNKNOWN = re.compile(r"(\w+)\.__init__\(\) got an unexpected keyword argument '(\w+)'")
_NOUNS = {"str": "text", "int": "number", "ModuleType": "module", "Callable": "function", "type": "class"}
_LOADERS = ("importlib", "contextlib")
_DESK = "chordesk."  # with what begins the name of each module of the desk


class _Frame(NamedTuple):
    file: str
    line: int
    module: str
    function: str

    def is_of(self, root: str) -> bool:
        return self.module == root or self.module.startswith(f"{root}.")


def is_ours(error: BaseException) -> bool:
    """Whether a process is told to end, by its signal or by the desk's own code, and no package ends it. Python's own
    handler of Ctrl-C leaves no trace in the error: where it is in place, any KeyboardInterrupt is a person's."""
    if type(error).__module__.startswith(_DESK):
        return not isinstance(error, Exception)
    if not isinstance(error, SystemExit | KeyboardInterrupt):
        return False
    if isinstance(error, KeyboardInterrupt) and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        return True
    frames = _frames(error)
    return bool(frames) and frames[-1].module.startswith((_DESK, "__main__"))


def said(error: BaseException, *, placed: bool = True, root: str = "") -> str:
    """Return an error in one line: its type, what it says, and where in the package it was raised. root: the package,
    where the error went through others before it."""
    try:
        text = " ".join(str(error).split()).partition(" For further information visit")[0]  # pydantic's last words
    except Exception as again:  # its own text fails
        text = f"it says nothing, for {type(again).__name__}"
    if type(error).__name__ == "InvalidRequestError" and (tabled := _TABLED.match(text)):
        return f"among the tables there is {tabled[1]} already"  # its own remedy would change the desk's table
    cut = f"{text[:LONGEST]}..." if len(text) > LONGEST else text
    at = _where(error, root) if placed and not isinstance(error, SyntaxError) else None  # its text has the line
    where = f" ({Path(at.file).name}, line {at.line})" if at is not None else ""
    return f"{type(error).__name__}{f': {cut}' if cut else ''}{where}"


def unknown_member(error: BaseException) -> str | None:
    """Return the member of a description that this version of the desk does not know."""
    found = _UNKNOWN.fullmatch(str(error)) if type(error) is TypeError else None
    return f"{found[1]}({found[2]}=...)" if found is not None else None


def root_of(error: BaseException, roots: Collection[str]) -> str | None:
    """Return the package, of these, whose code was the last that an error went through."""
    return next((root for one in reversed(_frames(error)) for root in roots if one.is_of(root)), None)


def ends_a_module(error: BaseException, root: str) -> bool:
    """Whether an error went through the top of a module of a package: the module was being loaded, late."""
    return any(one.function == "<module>" and one.is_of(root) for one in _frames(error))


def statement(error: BaseException) -> str:
    """Return the line of a package's code that an error went through last, with its place; an empty text where there is
    none."""
    if (at := _where(error)) is None:
        return ""
    line = linecache.getline(at.file, at.line).strip()
    return f"{line!r} ({Path(at.file).name}, line {at.line})" if line else ""


def _frames(error: BaseException) -> list[_Frame]:
    found, at = [], error.__traceback__
    while at is not None:
        name, code = str(at.tb_frame.f_globals.get("__name__", "")), at.tb_frame.f_code
        found.append(_Frame(code.co_filename, at.tb_lineno, name, code.co_name))
        at = at.tb_next
    return found


def _where(error: BaseException, root: str = "") -> _Frame | None:
    """Return file and line: the last ones in the folder of the package, for beyond that the library's code is shown."""
    frames = [
        one for one in _frames(error) if not one.file.startswith("<") and one.module.split(".")[0] not in _LOADERS
    ]
    if root:
        return next((one for one in reversed(frames) if one.is_of(root)), None)
    if not frames:
        return None
    outside = next((place for place, one in enumerate(frames) if not one.module.startswith(_DESK)), 0)
    folder = os.path.dirname(frames[outside].file)
    return next(one for one in reversed(frames) if one.file.startswith(folder))


def misfit(feature: Any) -> str:
    """Return which member of a description has a value of another type than it takes, or a name that is none; an empty
    text where all fit."""
    for name, why in _members(feature):
        if why:
            return f"its {name} {why}"
    for what in NAMED:
        if wrong := [name for name in getattr(feature, what) if not NAME.fullmatch(name)]:
            return f"its {what} have {wrong[0]!r}, and a name is {NAME_RULE}"
    for what, mark in OWNED.items():
        form = re.compile(rf"{re.escape(feature.name)}{mark}[a-z][a-z0-9_]{{0,39}}")
        if wrong := [name for name in getattr(feature, what) if not form.fullmatch(name)]:
            return f"its {what} have {wrong[0]!r}, and a name there begins with {feature.name}{mark.strip(chr(92))}"
    if wrong := [name for name in feature.aliases if not NAME.fullmatch(name)]:
        return f"its aliases have {wrong[0]!r}, and a name is {NAME_RULE}"
    if feature.keeps and not feature.tables:
        return f"its keeps have a rule for {min(feature.keeps)}, and it has no tables"
    return _untold(feature)


# By member, what people read of its entries.
_TOLD = {
    "commands": ("panel", "purpose"), "denials": ("denies", "remedy"), "notice_kinds": ("purpose", "one", "several"),
    "views": ("name",), "programs": ("where",), "holdings": ("shown",),
    "messengers": ("shown",),
}  # fmt: skip


def _untold(feature: Any) -> str:
    for what in ("lenses", "event_kinds"):
        if empty := [name for name, text in getattr(feature, what).items() if not text.strip()]:
            return f"its {what} say nothing of {empty[0]}"
    for what, members in _TOLD.items():
        entries = getattr(feature, what)
        for one in entries.values() if isinstance(entries, Mapping) else entries:
            if empty := [name for name in members if not getattr(one, name).strip()]:
                return f"its {what} have {_noun(type(one))} without {empty[0]}"
    return ""


def _members(value: Any) -> list[tuple[str, str]]:
    kind: Any = type(value)
    hints = _hints(kind)
    return [(one.name, _misfit(getattr(value, one.name), hints[one.name])) for one in fields(value)]


@cache
def _hints(kind: Any) -> Mapping[str, Any]:
    """Return the annotations of a dataclass; of one that names what only type checkers load, nothing is asked."""
    try:
        return get_type_hints(kind)
    except NameError:
        there = vars(sys.modules[kind.__module__])
        return {one.name: _evaluated(one.type, there) for one in fields(kind)}


def _evaluated(annotation: Any, there: Mapping[str, Any]) -> Any:
    try:
        return eval(annotation, dict(there)) if isinstance(annotation, str) else annotation
    except NameError:
        return Any


def _misfit(value: Any, hint: Any) -> str:
    origin, inner = get_origin(hint), get_args(hint)
    if hint is Any:
        return ""
    if origin in (Union, UnionType):
        found = [_misfit(value, one) for one in inner if one is not NoneType]
        return "" if value is None or "" in found else found[0]
    if origin is Literal:
        return "" if value in inner else f"is {_shown(value)}, and one of {', '.join(map(repr, inner))} is due"
    if origin is Callable:
        return "" if callable(value) else f"is {_shown(value)}, and a function is due"
    if origin is type:
        return _misfit_class(value, inner[0])
    if origin is tuple and inner[-1:] == (...,):
        if isinstance(value, str):
            return f"is the text {value!r}; of one entry the tuple is ({value!r},)"
        if not isinstance(value, tuple | list):
            return f"is {_shown(value)}, and a tuple is due"
        return next((f"has {_shown(one)}, which {why}" for one in value if (why := _misfit(one, inner[0]))), "")
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return _misfit_names(value, *inner)
    if not isinstance(hint, type) or is_typeddict(hint) or isinstance(value, (int, float) if hint is float else hint):
        if is_dataclass(value) and not isinstance(value, type):
            return next((f"has a {name} that {why}" for name, why in _members(value) if why), "")
        return ""
    return f"is {_shown(value)}, and {_noun(hint)} is due"


def _misfit_class(value: Any, kind: Any) -> str:
    if not isinstance(value, type):
        return f"is {_shown(value)}, and a class is due"
    # Of any class, and of those whose instances have no class of their own, such as a TypedDict, no more can be asked.
    if kind is not Any and isinstance(kind, type) and not is_typeddict(kind) and not issubclass(value, kind):
        return f"is the class {value.__name__}, and a {kind.__name__} is due"
    return ""


def _misfit_names(value: Any, key_hint: Any, hint: Any) -> str:
    if not isinstance(value, Mapping):
        return f"is {_shown(value)}, and a dict is due"
    for key, one in value.items():
        if why := _misfit(key, key_hint):
            return f"has the key {key!r}, which {why}"
        if why := _misfit(one, hint):
            return f"has {key!r}, which {why}"
    return ""


def _shown(value: Any) -> str:
    """Return a value as its line has it; of an object with many members, its class is enough."""
    if is_dataclass(value) and not isinstance(value, type):
        return _noun(type(value))
    text = " ".join(repr(value).split())
    return text if len(text) <= 80 else f"{text[:80]}..."


def _noun(hint: type) -> str:
    name = _NOUNS.get(hint.__name__, hint.__name__)
    return f"{'an' if name[0] in 'AEIOaeio' else 'a'} {name}"


def wrong_kind(value: Any, kind: Any, place: str, *, many: bool = False) -> str:
    """Return why a part is none of its kind, a type or the name that it has; an empty text where it is one. many: a
    tuple of such."""
    if isinstance(kind, str):
        return "" if hasattr(value, kind) else f"{place} has no {kind}"
    if many and not isinstance(value, tuple | list):
        return f"{place} is {_noun(type(value))}, and a tuple of {kind.__name__} is due"
    for one in value if many else (value,):
        if not isinstance(one, kind):
            return f"{place} {'has' if many else 'is'} {_noun(type(one))}, and {_noun(kind)} is due"
        if is_dataclass(one):
            named = next((str(getattr(one, name)) for name in ("key", "name", "kind") if hasattr(one, name)), "")
            for name, why in _members(one):
                if why:
                    return f"{place}: the {name} of {named or kind.__name__} {why}"
    return ""
