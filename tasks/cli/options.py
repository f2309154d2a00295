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
from chordesk.models.descriptions import said

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
        if group.typer_instance is not None:
            group.typer_instance = _joined(_group_name(group), group.typer_instance)
    # A module's commands may be one group themselves.
    return _joined(commands.info.name, app) if isinstance(commands.info.name, str) else app


def _extend(app: typer.Typer, asked: str) -> None:
    """Add the options of features to one command of an app. A package with an option that there is already is left
    out."""
    command = next((one for one in app.registered_commands if _name(one) == asked), None)
    if command is None or command.callback is None:
        return
    own = inspect.signature(command.callback, eval_str=True)
    flags, names, functions = _flags(own.parameters.values()), set(own.parameters), []
    for feature, function in features.entries("options", asked, Callable):
        if why := _unreadable(function):
            features.skip(feature, f"its option of the command {asked} cannot be read: {why}")
            continue
        more = inspect.signature(function, eval_str=True).parameters
        new = [one for name, one in more.items() if name not in own.parameters]
        if again := sorted((_flags(new) & flags) | ({one.name for one in new} & names)):
            features.skip(feature, f"the command {asked} has {again[0]} already")
        elif due := [one.name for one in new if one.default is one.empty]:
            features.skip(
                feature, f"its option {due[0]} of the command {asked} has no default, so that all must give it"
            )
        else:
            flags, names = flags | _flags(new), names | {one.name for one in new}
            functions.append((feature.name, function, tuple(more), new))
    left = {one.name for one in features.in_force()}
    if kept := [(function, given, new) for name, function, given, new in functions if name in left]:
        command.callback = _extended(command.callback, own, kept)


def _joined(name: str, group: typer.Typer) -> typer.Typer:
    """Return a group with the commands of features. A package with a command that there is already is left out."""
    app = copy(group)
    app.registered_commands = [*app.registered_commands]
    known = {_name(one) for one in app.registered_commands}
    for feature, module in features.entries("subcommands", name, "commands"):
        more = module.commands.registered_commands
        if again := sorted(known & set(map(_name, more))):
            features.skip(feature, f"the command {name} {again[0]} is there already")
            continue
        if wrong := {_name(one): why for one in more if (why := _unreadable(one.callback))}:
            features.skip(feature, "; ".join(f"desk {name} {one} cannot be read: {why}" for one, why in wrong.items()))
            continue
        app.registered_commands.extend(more)
        known.update(map(_name, more))
    return app


def require_commands(commands: typer.Typer, names: Iterable[str]) -> None:
    """Raise SettingError where a package's module has not the commands that its description names, or the parser cannot
    read them."""
    found = {_name(one): one.callback for one in commands.registered_commands}
    found |= dict.fromkeys(map(_group_name, commands.registered_groups))
    for name in names:
        if name not in found:
            features.refuse("commands", name, f"its module has no command {name}, but {', '.join(found) or 'none'}")
        if why := _unreadable(found[name]):
            features.refuse("commands", name, f"desk {name} cannot be read: {why}")


def _unreadable(command: Callable[..., Any] | None) -> str:
    """Return why the parser cannot read a function's parameters, such as an annotation that is nowhere."""
    if command is None:  # of a group
        return ""
    alone = typer.Typer(add_completion=False)
    try:
        alone.command()(command)
        typer.main.get_command(alone)
    except Exception as error:
        return said(error, placed=False)
    return ""


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
