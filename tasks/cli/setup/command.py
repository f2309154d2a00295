"""`desk setup`: asks what the user has, tries it with one turn, and writes it into `.env`, where every other line and
comment stays as it is."""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from io import StringIO
from pathlib import Path
from typing import Annotated, NamedTuple
from urllib.parse import urlsplit

import typer
from dotenv import dotenv_values
from dotenv.parser import parse_stream
from rich.progress import Progress, SpinnerColumn, TimeElapsedColumn

from chordesk.agents.desk_roles import roles_in
from chordesk.agents.role_models import LOCAL, RoleModel, role_models
from chordesk.models.database.store import Store, current
from chordesk.models.errors import CodexError, DeskError, LoginMissing, ServiceError, UsageError
from chordesk.models.files import expanded, replacing
from chordesk.models.home import make_folder
from chordesk.models.model_prices import AS_OF, NO_PRICE, is_listed, price_by_name, prices
from chordesk.models.settings import Settings
from chordesk.models.settings.running_desk import is_up
from chordesk.models.settings.sources import Loaded, load
from chordesk.models.text import inert, span
from chordesk.models.urls import HIDDEN, is_loopback, masked
from chordesk.tasks.bootstrap import Desk
from chordesk.tasks.cli.output import console, fail, print_line, relative, warn
from chordesk.tasks.cli.setup.setup_choices import (
    KEY,
    KEY_FILE,
    NO_TERMINAL,
    OURS,
    SECRETS,
    SERVED,
    URL,
    Before,
    Choice,
    Flags,
    Person,
    decide,
    market,
)
from chordesk.tasks.cli.show import amount_text
from chordesk.tasks.doctor.check import Check, CheckContext, CheckStatus
from chordesk.tasks.doctor.model import model, request_mirror, server
from chordesk.tasks.engine.budgets import RULES
from chordesk.tasks.engine.kinds import turns_of
from chordesk.tasks.reading.outlook import TurnTokens, assumed_tokens, local_times, past_tokens, seconds_of
from chordesk.tasks.services import stop_signals
from chordesk.tasks.workflows.screen import screen_params
from chordesk.tools.market.universe import resolve_universe

UNEXPECTED = "this is unexpected; please report it"
SERVER, TURN = "asking the server what it can do for the model", "trying the model with one turn"


def tried(settings: Settings) -> float | None:
    """Return the seconds of the turn; None where it came to no answer. Raises DeskError."""
    with ExitStack() as held:
        if settings.provider == "rulebook" and settings.rulebook_url is None:
            settings = settings.model_copy(update={"rulebook_url": held.enter_context(request_mirror()).url})
        context = CheckContext(settings, Desk(settings, "setup", records=False))
        if settings.provider == "local" and _passed(SERVER, server, context) is None:
            return None
        return _passed(TURN, model, context)


def _passed(what: str, check: Callable[[CheckContext], Check], context: CheckContext) -> float | None:
    print_line(f"{what}; Ctrl-C ends it, and nothing is written")
    out = console()
    columns = (SpinnerColumn(), TimeElapsedColumn())
    with Progress(*columns, console=out, transient=True, refresh_per_second=1, disable=not out.is_terminal) as clock:
        clock.add_task(what, total=None)
        began = time.monotonic()
        found = _result(check, context)
        seconds = time.monotonic() - began
    lines = [found.detail, *([f"remedy: {found.remedy}"] if found.remedy else [])]
    print_line("\n".join(f"  {line}" for line in inert("\n".join(lines)).splitlines()))
    return None if found.status is CheckStatus.FAIL else seconds


def _result(check: Callable[[CheckContext], Check], context: CheckContext) -> Check:
    """Return a check's result. It runs in this thread, so that a stop signal ends its turn."""
    try:
        return check(context)
    except DeskError:
        raise
    except Exception as error:
        return Check("", CheckStatus.FAIL, f"{type(error).__name__}: {error}", UNEXPECTED)


def ensure_login(settings: Settings, person: Person) -> None:
    """Let the person log in where the provider needs it and there is no login. Raises LoginMissing."""
    # Loaded here: it takes seconds, in which the questions would wait.
    from chordesk.tasks.bootstrap import require_login, run_codex

    try:
        return require_login(settings)
    except LoginMissing as missing:
        reason, remedy = str(missing.args[0]), "run `desk login --device-auth`, or `desk setup` at a terminal"
        print_line(reason)
        if not (person.terminal and person.agrees("Log in now? It shows a code to type in at any browser", True)):
            raise LoginMissing(reason, remedy=remedy) from None
    run_codex(settings, "login", "--device-auth")
    try:
        require_login(settings)
    except LoginMissing as missing:
        raise LoginMissing(f"{missing.args[0]}: the login did not succeed", remedy=remedy) from None


Past = Mapping[tuple[str, str], TurnTokens]
WAVES = 4  # of turns that wait for each other: screeners, quick, the other roles, trader


def screen_lines(settings: Settings, seconds: float | None) -> list[str]:
    """seconds: of the turn that was tried. What turns of this desk took is known from its database, if there is one."""
    models = {role: model for role, model in role_models(settings).items() if model.provider(settings) != RULES}
    if not models:
        return ["a screen takes seconds and costs nothing: rules are no model"]
    try:
        symbols = resolve_universe(settings.universe, Desk(settings, "setup", records=False).market)
        turns = turns_of("screen", screen_params(settings, symbols), settings)
        past = _past(settings)
    except DeskError as error:
        return [f"what a screen takes is not known: {error}"]
    local = local_times(settings, turns, past)
    lines = [f"a screen of {settings.universe} ({len(symbols)} symbols):", *_models(settings, models, turns, past)]
    if not local and seconds is not None:
        lines.append(f"at least {span(WAVES * seconds)}, where each turn takes as long as the one just tried")
    allowed = settings.run_deadline_minutes * 60
    return lines + amount_text.times(local) + amount_text.too_long(seconds_of(local), allowed)


def _past(settings: Settings) -> Past:
    if settings.database.startswith("sqlite") and not (settings.home / "desk.db").exists():
        return {}
    found, newest = current(settings.database)
    if found != newest:
        return {}
    with Store(settings.database).read() as session:
        return past_tokens(session)


def _models(settings: Settings, models: Mapping[str, RoleModel], turns: Mapping[str, int], past: Past) -> Iterator[str]:
    """Yield a line for each model: its turns, tokens and price."""
    roles = roles_in(settings)
    for each in dict.fromkeys(models.values()):
        counts = {role: count for role, count in turns.items() if role in roles and models.get(role) == each and count}
        if not counts:
            continue
        label = each.label(settings)
        tokens = {role: past.get((label, role)) or assumed_tokens(roles[role], settings) for role in counts}
        read = round(sum(tokens[role].read * count for role, count in counts.items()))
        written = round(sum(tokens[role].written * count for role, count in counts.items()))
        assumed = "" if all((label, role) in past for role in counts) else ", as assumed before the first one"
        number = sum(counts.values())
        what = (
            f"at most {number} turn{'' if number == 1 else 's'}, {read:,} tokens read and {written:,} written{assumed}"
        )
        yield f"{label}: {what}; {_money(settings, each, read, written)}"


def _money(settings: Settings, model: RoleModel, read: int, written: int) -> str:
    if model.runtime == LOCAL:
        return NO_PRICE
    if (price := price_by_name(model.model, prices(settings.prices))) is None:
        return "price unknown: set DESK_PRICES"
    listed = f", by the prices of {AS_OF}" if is_listed(model.model, price) else ""
    usd = f"about {price.of(read, 0, written):,.2f} USD{listed}"
    return f"paid by the plan of the login; over the API {usd}" if model.provider(settings) == "codex" else usd


ENV_FILE = ".env"
_BYTE_ORDER_MARK = "\ufeff"
_PLAIN = re.compile(r"[\w./:@+~-]+", re.ASCII)
# A line with a value, as python-dotenv reads it: what stands before the value, the value, a comment, the line's end.
_LINE = re.compile(
    r"""(\s*(?:export[^\S\r\n]+)?[^=\r\n]+?=(?:[^\S\r\n]+(?=[^\s\#]))?)"""
    r"""(?:'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|[^\r\n]*?)([^\S\r\n]+\#[^\r\n]*)?[^\S\r\n]*(\r\n|\n|\r|\Z)""",
    re.DOTALL | re.VERBOSE,
)


class Change(NamedTuple):
    """A variable that gets another value. None: it is not set."""

    name: str
    before: str | None
    after: str | None


def find_env_file(folder: Path) -> Path:
    """Return the file that a desk started in this folder reads: the nearest one upward; else where one would be."""
    return next(
        (each / ENV_FILE for each in (folder, *folder.parents) if (each / ENV_FILE).is_file()), folder / ENV_FILE
    )


def read_env_file(path: Path) -> str:
    """Return the file's text, empty without a file. Raises UsageError if it cannot be changed safely."""
    remedy = "name another file by --env, or move this one away"
    try:
        if path.is_symlink():
            raise UsageError(
                f"{path} is a link to {path.resolve()}", remedy=f"name the file itself: --env {path.resolve()}"
            )
        if path.exists() and not path.is_file():
            raise UsageError(f"{path} is not a regular file", remedy=remedy)
        text = path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}", remedy=remedy) from None
    except UnicodeDecodeError as error:
        reason = f"{path} is no UTF-8 text: byte {error.start} cannot be read"
        raise UsageError(reason, remedy="save it as UTF-8, or name another file by --env") from None
    if "\0" in text:
        raise UsageError(f"{path} is no text: there is a zero byte in it", remedy=remedy)
    return text


def values(text: str) -> dict[str, str | None]:
    return dotenv_values(stream=StringIO(text), interpolate=False)


def unread(text: str) -> list[int]:
    found = (each for each in parse_stream(StringIO(text)) if each.error)
    return [each.original.line + len(re.match(r"\s*", each.original.string)[0].splitlines()) for each in found]  # type: ignore[index]


def changed(text: str, wanted: Mapping[str, str | None]) -> str:
    """None takes a variable out; what has its value stays as it is. Raises UsageError for an unclosed quote."""
    before = values(text)
    todo = {name: value for name, value in wanted.items() if (before.get(name) or None) != value}
    mark = _BYTE_ORDER_MARK if text.startswith(_BYTE_ORDER_MARK) else ""
    found = mark + "".join(_lines(text, todo))
    end = "\r\n" if "\r\n" in text else "\n"
    new = "".join(f"{name}={_quoted(value)}{end}" for name, value in todo.items() if value and name not in before)
    found += end if new and found.strip(mark) and not found.endswith(("\n", "\r")) else ""
    found += new
    if not _holds(values(found), {**before, **todo}):
        raise UsageError("the values cannot be written into the .env", remedy="close the quotes of its last lines")
    return found


def _holds(found: Mapping[str, str | None], wanted: Mapping[str, str | None]) -> bool:
    return {name: value for name, value in found.items() if value} == {
        name: value for name, value in wanted.items() if value
    }


def _lines(text: str, todo: Mapping[str, str | None]) -> Iterator[str]:
    """Yield the text's lines. Of a variable that is there twice the last one counts, so that one is changed."""
    bindings = list(parse_stream(StringIO(text)))
    last = {each.key: place for place, each in enumerate(bindings)}
    for place, each in enumerate(bindings):
        whole = each.original.string
        if each.key is None or each.key not in todo:
            yield whole
        elif (value := todo[each.key]) is None:
            yield _space(whole)
        else:
            yield whole if place != last[each.key] else _with_value(each.key, whole, value)


def _with_value(name: str, line: str, value: str) -> str:
    if (parts := _LINE.fullmatch(line)) is None:  # such as NAME without a value
        return f"{_space(line)}{name}={_quoted(value)}\n"
    return f"{parts[1]}{_quoted(value)}{parts[2] or ''}{parts[3]}"


def _space(line: str) -> str:
    """Return the empty lines before a variable, which the parser takes for a part of it."""
    found = re.match(r"(?:[^\S\r\n]*(?:\r\n|\n|\r))*", line)
    return found[0] if found else ""


def _quoted(value: str) -> str:
    if _PLAIN.fullmatch(value):
        return value
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def changes(before: str, after: str) -> list[Change]:
    """Return what differs between two texts, in the order of the variables' names in the second one."""
    old, new = values(before), values(after)
    names = [*new, *(name for name in old if name not in new)]
    return [Change(name, old.get(name), new.get(name)) for name in names if old.get(name) != new.get(name)]


def write_env_file(path: Path, text: str) -> None:
    """Written at once, with the owner and rights of the old file; a new one is its owner's alone. Raises UsageError."""
    try:
        known = path.stat() if path.exists() else None
        with replacing(path) as file:
            if known is not None:
                os.fchmod(file.fileno(), stat.S_IMODE(known.st_mode))
                with suppress(PermissionError):
                    os.fchown(file.fileno(), known.st_uid, known.st_gid)
            file.write(text.encode())
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}", remedy="name another file by --env") from None


def write_secret(path: Path, secret: str) -> None:
    try:
        make_folder(path.parent, 0o700)
        with replacing(path) as file:  # made with access for its owner alone
            file.write(f"{secret}\n".encode())
    except OSError as error:
        raise UsageError(
            f"{path} cannot be written: {error.strerror}", remedy="set DESK_HOME to a folder you may write"
        ) from None


@dataclass(frozen=True, slots=True)
class Plan:
    """A choice, and the file's text before and after it. loaded: the settings of a desk that reads the file, whatever
    this shell sets."""

    path: Path
    before: str
    after: str
    choice: Choice
    loaded: Loaded

    @property
    def changes(self) -> list[Change]:
        return changes(self.before, self.after)

    def write(self) -> None:
        key = self.choice.key
        if key.kept and key.path is not None and key.text is not None:
            write_secret(key.path, key.text)
        if self.changes:
            write_env_file(self.path, self.after)


def planned(path: Path, before: str, choice: Choice) -> Plan:
    """Return the plan of a choice. Raises UsageError, and SettingError where other settings contradict it."""
    after = changed(before, choice.variables())
    return Plan(path, before, after, choice, settings_of(choice.trial(values(after))))


def settings_of(dotenv: Mapping[str, str | None]) -> Loaded:
    """Without what this shell sets of those that setup chooses. Raises SettingError."""
    environ = {name: value for name, value in os.environ.items() if name not in OURS}
    return load(environ, join=False, dotenv=dotenv)


def changes_shown(plan: Plan) -> list[str]:
    """Return what changes in the file, line by line, without secrets."""
    lines = [f"{relative(plan.path)}{'' if plan.before else ' (new)'}:"]
    for each in plan.changes:
        lines += [f"  - {each.name}={_shown(each.name, each.before)}"] if each.before else []
        lines += [f"  + {each.name}={_shown(each.name, each.after)}"] if each.after else []
    rest = [name for name in values(plan.before) if name not in {each.name for each in plan.changes}]
    return [*lines, f"  {', '.join(rest)}: as before"] if rest else lines


def _shown(name: str, value: str | None) -> str:
    if name in SECRETS:
        return HIDDEN
    return inert(masked(value or "") if name == URL else value or "")


def to_know(plan: Plan, cwd: Path) -> Iterator[str]:
    """Yield warnings about what else decides the settings of a desk."""
    found, choice = values(plan.after), plan.choice
    for name in OURS:
        given = os.environ.get(name)
        if not given or given == found.get(name) or (name == KEY and given == choice.key.text):
            continue
        if name not in (KEY, KEY_FILE) or choice.provider in SERVED:
            shown = f"{name}={_shown(name, given)}"
            yield f"{shown} is set in this shell and goes before {plan.path.name}: `unset {name}`"
    origin = plan.loaded.origins.get("provider_key")
    if choice.provider in SERVED and choice.key.text is None and origin is not None:
        yield f"{choice.url} is sent the key of {origin.key} (from {origin.source})"
    if choice.provider == "local" and choice.key.text and not is_loopback(urlsplit(choice.url or "").hostname or ""):
        yield f"{masked(choice.url or '')} counts as local, without a price: what it charges is in no figure"
    own = choice.key.path if not choice.key.kept else None
    if own is not None and own.stat().st_mode & 0o077:
        yield f"others may read {own}: `chmod 600 {own}`"
    if plan.path.name != ENV_FILE:
        yield f"no desk reads {plan.path} by itself: it reads {ENV_FILE}, and its environment"
    elif find_env_file(cwd) != plan.path:
        yield f"a desk reads {plan.path} where it is started in {plan.path.parent} or below it"
    if is_up(home := plan.loaded.settings.home):
        yield f"a `desk up` runs on {home} and keeps the settings that it has: stop it and start it again"


FAILED = 1
LEFT = 130

commands = typer.Typer()


@commands.command()
def setup(
    provider: Annotated[str | None, typer.Option(help="codex, endpoint, local or rulebook.", metavar="NAME")] = None,
    url: Annotated[
        str | None, typer.Option(help="Base URL of the endpoint, or of the local server.", metavar="URL")
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="Name of the model, as its server lists it.", metavar="NAME")
    ] = None,
    key_env: Annotated[str | None, typer.Option(help="Variable that has the key.", metavar="NAME")] = None,
    key_file: Annotated[Path | None, typer.Option(help="File with the key, as one line.", metavar="PATH")] = None,
    no_key: Annotated[bool, typer.Option("--no-key", help="The endpoint asks for no key.")] = False,
    market_name: Annotated[
        str | None, typer.Option("--market", help="replay, yahoo or files; left as it is without.", metavar="NAME")
    ] = None,
    env: Annotated[
        Path | None, typer.Option(help="File to write; the .env that a desk started here reads.", metavar="PATH")
    ] = None,
    no_try: Annotated[bool, typer.Option("--no-try", help="Ask no server and no model anything.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Write without asking.")] = False,
) -> None:
    """Choose a model and a market, and write them into `.env`.

    They are tried with one turn before anything is written. It asks for what no
    flag says. Without a terminal a missing flag is an error that names it. Exit code 1 when the try fails, and then
    nothing is written.
    """
    flags = Flags(provider, url, model, key_env, key_file, no_key, market_name, look=not no_try)
    path = (expanded(env).absolute() if env is not None else find_env_file(Path.cwd())).absolute()
    with stop_signals.raised():
        try:
            code = _set_up(flags, path, Person(), yes=yes)
        except (typer.Abort, stop_signals.StopRequested) as left:
            print_line("")
            _nothing_written(path, LEFT)
            raise (left if isinstance(left, stop_signals.StopRequested) else typer.Exit(LEFT)) from None
    raise typer.Exit(code)


def _set_up(flags: Flags, path: Path, person: Person, *, yes: bool) -> int:
    """Return the exit code. Raises UsageError and SettingError for wrong input."""
    text = read_env_file(path)
    variables = values(text)
    warn(f"{path}, line {number}: no NAME=VALUE, so that no desk reads it" for number in unread(text))
    others = {name: value for name, value in variables.items() if name not in OURS}
    before = Before(variables, settings_of(others).settings)
    try:
        choice = _decided(flags, before, person)
    except (CodexError, ServiceError) as error:  # what is not there; any other error is wrong input
        return _nothing_written(path, fail(error, FAILED))
    plan = planned(path, text, replace(choice, market=market(flags, before, person)))
    _require_roles(plan)
    if plan.changes and not (yes or person.terminal):
        raise UsageError(f"--yes {NO_TERMINAL}", remedy="add --yes to write the file")
    works = _works(plan, person) if flags.look else True
    if not works and not person.agrees("Write it all the same?", default=False):
        return _nothing_written(path, FAILED)
    if not _agreed(plan, person, yes=yes):
        return _nothing_written(path, FAILED)
    with stop_signals.ignored():  # all of it, or none
        plan.write()
        _tell(plan)
    return 0 if works else FAILED


def _require_roles(plan: Plan) -> None:
    # Loaded here, and below: it takes seconds, in which the questions would wait.
    from chordesk.agents.role_models import require_roles

    require_roles(plan.loaded.settings)


def _decided(flags: Flags, before: Before, person: Person) -> Choice:
    """Return the choice. Of a person who was asked for it all, it is asked again when something is not there."""
    while True:
        try:
            return decide(flags, before, person)
        except (CodexError, ServiceError) as error:
            if not person.terminal or flags.provider is not None:
                raise
            fail(error, FAILED)


def _works(plan: Plan, person: Person) -> bool:
    """Try the choice, print what came of it and what a screen takes, and return whether it works."""

    settings = plan.loaded.settings
    try:
        ensure_login(settings, person)
        seconds = tried(settings)
        if seconds is not None:
            print_line("\n".join(screen_lines(settings, seconds)))
        return seconds is not None
    except (CodexError, ServiceError) as error:
        fail(error, FAILED)
        return False


def _agreed(plan: Plan, person: Person, *, yes: bool) -> bool:
    if not plan.changes:
        print_line(f"{relative(plan.path)} has all of it already")
        return True
    print_line("\n".join(changes_shown(plan)))
    return yes or person.agrees("Write it?", default=True)


def _tell(plan: Plan) -> None:
    if plan.changes:
        print_line(f"{relative(plan.path)} is written")
    if plan.choice.key.kept:
        print_line(f"the key is in {plan.choice.key.path}, which only you may read")
    warn(to_know(plan, Path.cwd()))
    print_line("next: `desk up`, and in a second terminal `desk doctor`, then `desk screen --max 10`")


def _nothing_written(path: Path, code: int) -> int:
    print_line(f"nothing was written: {relative(path)} is as it was")
    return code
