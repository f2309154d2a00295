"""Options that features add to commands, and what they come to."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from copy import copy
from typing import Any, get_args

import typer
from typer.models import OptionInfo, TyperInfo

from chordesk.models import features
from chordesk.models.errors import SettingError

# What the functions of its added options returned, of the command that runs.
_ADDED: ContextVar[Mapping[str, Any]] = ContextVar("added", default={})  # noqa: B039


def added() -> Mapping[str, Any]:
    """Return what features' options of the command that runs came to, such as the value of a setting by its name."""
    return _ADDED.get()


def with_features(commands: typer.Typer, names: Iterable[str]) -> typer.Typer:
    """Return a module's commands with what features add to the named ones, and to groups. The module's stay as they
    are."""
    app = copy(commands)
    app.registered_commands = [copy(one) for one in commands.registered_commands]
    app.registered_groups = [copy(one) for one in commands.registered_groups]
    for name in names:
        _extend(app, name)
    for group in app.registered_groups:
        _join(group)
    return app


def _extend(app: typer.Typer, asked: str) -> None:
    """Add the options of features to one command of an app. A package with an option that there is already is left
    out."""
    command = next((one for one in app.registered_commands if _name(one) == asked), None)
    if command is None or command.callback is None:
        return
    own = inspect.signature(command.callback, eval_str=True)
    flags, names, functions = _flags(own.parameters.values()), set(own.parameters), []
    for feature in features.in_force():
        for place in feature.options.get(asked, ()):
            try:
                function = features.part("options", asked, place)
            except SettingError:  # the feature is left out, as `desk doctor` says: the command works without it
                break
            more = inspect.signature(function, eval_str=True).parameters
            new = [one for name, one in more.items() if name not in own.parameters]
            again = sorted((_flags(new) & flags) | ({one.name for one in new} & names))
            if again:
                features.skip(feature, f"the command {asked} has {again[0]} already")
                break
            flags, names = flags | _flags(new), names | {one.name for one in new}
            functions.append((function, tuple(more), new))
    if functions:
        command.callback = _extended(command.callback, own, functions)


def _join(group: TyperInfo) -> None:
    """Add the commands of features to a group. A package with a command that there is already is left out."""
    if group.typer_instance is None:
        return
    name, app = _group_name(group), copy(group.typer_instance)
    app.registered_commands = [*app.registered_commands]
    group.typer_instance = app
    known = {_name(one) for one in app.registered_commands}
    for feature in features.in_force():
        try:
            more = [
                one
                for place in feature.subcommands.get(name, ())
                for one in features.part("subcommands", name, place).commands.registered_commands
            ]
        except SettingError:
            continue
        if again := sorted(known & set(map(_name, more))):
            features.skip(feature, f"the command {name} {again[0]} is there already")
            continue
        app.registered_commands.extend(more)
        known.update(map(_name, more))


def _group_name(group: TyperInfo) -> str:
    named = group.name if isinstance(group.name, str) else None
    inner = group.typer_instance.info.name if group.typer_instance is not None else None
    return named or (inner if isinstance(inner, str) else "")


def _extended(
    command: Callable[..., Any],
    own: inspect.Signature,
    functions: Sequence[tuple[Callable[..., Any], Sequence[str], Sequence[inspect.Parameter]]],
) -> Callable[..., Any]:
    """A function gets its own options, and of the command's those that it names too."""

    def run(**values: Any) -> Any:
        found: dict[str, Any] = {}
        for function, wanted, _ in functions:
            found |= function(**{name: values[name] for name in wanted}) or {}
        _ADDED.set(found)
        return command(**{name: values[name] for name in own.parameters})

    vars(run).update({name: value for name, value in vars(command).items() if name != "__wrapped__"})
    new = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for _, _, more in functions for one in more]
    run.__signature__ = own.replace(parameters=[*own.parameters.values(), *new])  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in (*own.parameters.values(), *new)}
    run.__name__, run.__doc__ = command.__name__, command.__doc__
    return run


def _name(command: Any) -> str:
    return str(command.name or command.callback.__name__.replace("_", "-"))


def _flags(parameters: Any) -> set[str]:
    """Return the options as they are written, such as --voice."""
    found: set[str] = set()
    for one in parameters:
        infos = [each for each in get_args(one.annotation) if isinstance(each, OptionInfo)]
        texts = [text for info in infos for text in (info.default, *(info.param_decls or ()))]
        given = [flag for text in texts if isinstance(text, str) and text[:1] == "-" for flag in text.split("/")]
        found.update(given or [f"--{one.name.replace('_', '-')}"] * bool(infos))
    return found
