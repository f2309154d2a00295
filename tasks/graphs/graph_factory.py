"""The graph of a MODULE:FACTORY, from the modules that the settings list: loading one runs its code."""

from __future__ import annotations

import copy
import importlib
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from chordesk.models.errors import UsageError
from chordesk.models.features import require_extra

if TYPE_CHECKING:
    from langgraph.pregel import Pregel

_FORM = "write MODULE:FACTORY, such as desk_graphs:build"
EXAMPLE = "chordesk.agents.graphs.langchain.example"  # the desk's own code, so it needs no leave


def names_of(text: str) -> tuple[str, str]:
    module, colon, factory = text.partition(":")
    if not (colon and all(part.isidentifier() for part in (*module.split("."), factory))):
        raise UsageError(f"{text!r} is no MODULE:FACTORY", remedy=_FORM)
    return module, factory


def load_graph(text: str, listed: Sequence[str]) -> Pregel[Any, Any, Any, Any]:
    require_allowed(text, listed)
    module, factory = names_of(text)
    return _compiled(text, _made(text, getattr(_imported(module), factory, None)))


def require_allowed(text: str, listed: Sequence[str]) -> None:
    """Raise UsageError for a graph whose module this process may not load, or whose library it has not."""
    module, _ = names_of(text)
    if module not in (*listed, EXAMPLE):
        known = f"it lists {', '.join(listed)}" if listed else "it lists none"
        raise UsageError(
            f"the module {module} is not listed in DESK_GRAPHS: {known}",
            remedy=f"add {module} to DESK_GRAPHS where the desk is started; its code runs in the workers",
        )
    require_extra("langchain", "a graph")


def _imported(module: str) -> Any:
    here = os.getcwd()
    if here not in sys.path:
        sys.path.append(here)  # last, so that no file there takes a package's place
    try:
        return importlib.import_module(module)
    except Exception as error:
        remedy = f"install it, or start the desk in its folder; `python -c 'import {module}'` there must work"
        raise UsageError(
            f"the module {module} does not import: {type(error).__name__}: {error}", remedy=remedy
        ) from error


def _made(text: str, factory: Any) -> Any:
    if factory is None:
        raise UsageError(f"{text}: the module has no such name", remedy=_FORM)
    if not callable(factory):
        return factory
    try:
        return factory()
    except Exception as error:
        remedy = "the factory is called without arguments and returns a graph; correct it"
        raise UsageError(f"the factory {text} raised {type(error).__name__}: {error}", remedy=remedy) from error


def _compiled(text: str, made: Any) -> Pregel[Any, Any, Any, Any]:
    from langgraph.graph import StateGraph
    from langgraph.pregel import Pregel

    if isinstance(made, StateGraph):
        try:
            made = made.compile()
        except ValueError as error:
            raise UsageError(f"the graph of {text} does not compile: {error}", remedy="correct the graph") from error
    if not isinstance(made, Pregel):
        raise UsageError(
            f"{text} returns no graph but {type(made).__name__}", remedy="return a StateGraph, compiled or not"
        )
    return copy.copy(made)  # it gets a checkpointer of its own


def only_async(graph: Pregel[Any, Any, Any, Any]) -> bool:
    from langgraph.pregel import Pregel

    for node in graph.nodes.values():
        bound = node.bound
        if isinstance(bound, Pregel):
            if only_async(bound):
                return True
        elif getattr(bound, "func", bound) is None:
            return True
    return False
