"""Which tests start processes, by what their functions and fixtures use.

A test is of that kind when its own code or that of a fixture of its, followed through the functions and classes of
tests/, uses something that starts a process. Product code is not followed: what it starts is named in `STARTERS`.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any

import pytest

STARTERS = {
    "subprocess", "multiprocessing",
    "chordesk.agents.codex.runtime.CodexRuntime",
    "chordesk.agents.codex.launch.prepare",
    "chordesk.agents.codex.launch.slim_catalog",
    "chordesk.agents.codex.protocol.Client",
    "chordesk.tasks.doctor.check.run_checks",
    "chordesk.tasks.doctor.machine",
    "chordesk.tasks.doctor.model",
    "chordesk.tasks.services.plan",
    "chordesk.tasks.services.stack.Stack",
    "chordesk.tasks.services.supervision.Supervisor",
    "chordesk.tasks.services.stack.require_able",
}  # fmt: skip
EVENTS = ("subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.system", "os.exec")
_refusing: list[bool] = []


def starts_processes(item: pytest.Item) -> bool:
    """Return whether a test's function or one of its fixtures leads to something that starts a process."""
    functions = [item.function] if isinstance(item, pytest.Function) else []
    for definitions in item._fixtureinfo.name2fixturedefs.values():  # type: ignore[attr-defined]
        functions.extend(definition.func for definition in definitions)
    return any(_leads_to_a_start(function) for function in functions)


def refuse_starts() -> None:
    """Make every start of a process by this one an error, for as long as it lives."""
    if not _refusing:
        _refusing.append(True)
        sys.addaudithook(_refuse)


def _refuse(event: str, arguments: tuple[Any, ...]) -> None:
    if event in EVENTS:
        raise RuntimeError(f"a test of the fast set starts a process ({event}): mark it with pytest.mark.process")


@functools.cache
def _leads_to_a_start(used: Any) -> bool:
    """Return whether an object of tests/ leads to a start. The walk is breadth first: each object is met once."""
    seen: set[int] = set()
    waiting = [used]
    while waiting:
        one = waiting.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if _name(one) in STARTERS:
            return True
        waiting.extend(_used_by(one))
    return False


def _name(used: Any) -> str:
    if isinstance(used, ModuleType):
        return used.__name__
    return f"{getattr(used, '__module__', '')}.{getattr(used, '__qualname__', '')}"


def _used_by(used: Any) -> Iterator[Any]:
    """The objects that a function or a class of tests/ names."""
    used = getattr(used, "__wrapped__", used)
    if not str(getattr(used, "__module__", "")).startswith("tests"):
        return
    if isinstance(used, type):
        members = [value.fget if isinstance(value, property) else value for value in vars(used).values()]
        yield from (getattr(value, "__func__", value) for value in members)
    elif isinstance(used, FunctionType):
        for code in _codes(used.__code__):
            yield from _named(code, used.__globals__)


def _named(code: CodeType, names: dict[str, Any]) -> Iterator[Any]:
    """The globals a code names, and attributes of those that are modules of tests/."""
    found = [names[name] for name in code.co_names if name in names]
    for one in found:
        if isinstance(one, ModuleType) and one.__name__.startswith("tests"):
            yield from (vars(one)[name] for name in code.co_names if name in vars(one))
        else:
            yield one


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)
