"""Features: parts of the desk that can be switched off, and packages of others that add to it.

A feature is described once, in its own folder. The description names its parts as "module" or "module:name", which are
loaded where they are used, so that `desk --help` loads none of them. This module loads nothing of the desk either.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from importlib.metadata import (
    Distribution,
    EntryPoint,
    PackageNotFoundError,
    distributions,
    entry_points,
    requires,
    version,
)
from importlib.util import find_spec
from pathlib import Path
from string import ascii_lowercase
from threading import get_ident
from time import monotonic
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from chordesk.models.descriptions import (
    NAME,
    NAME_RULE,
    NAMED,
    ends_a_module,
    is_ours,
    misfit,
    root_of,
    said,
    statement,
    unknown_member,
    wrong_kind,
)
from chordesk.models.errors import DatabaseUnfit, DeskError, NotConfigured, SettingError, UsageError

if TYPE_CHECKING:
    from packaging.requirements import Requirement


class Lack(NamedTuple):
    """What is missing of an extra, after "needs", and how to install it."""

    reason: str
    remedy: str


@cache  # read anew a hundred of them are milliseconds of each turn
def _requirement(text: str) -> Requirement:
    from packaging.requirements import Requirement  # what loads this module seldom asks

    return Requirement(text)


def lack_of(extra: str) -> Lack | None:
    try:
        wanted = [_requirement(text) for text in requires("chordesk") or () if extra in text]
    except PackageNotFoundError:  # the desk runs from a folder: nothing says what it needs
        return None
    install = f"pip install 'chordesk[{extra}]'"
    for one in wanted:
        if one.marker is None or not one.marker.evaluate({"extra": extra}) or one.marker.evaluate({"extra": ""}):
            continue
        try:
            found = version(one.name)
        except PackageNotFoundError:
            return Lack(f"the package {one.name}, which is not installed", install)
        if not one.specifier.contains(found, prereleases=True):
            elsewhere = f"{install}, in an environment of its own if other packages need {found}"
            return Lack(f"{one.name} {one.specifier}, and {found} is installed", elsewhere)
    return None


def require_extra(extra: str, what: str) -> None:
    """Raise UsageError for an extra that lacks something. what: of the desk that needs it, for the message."""
    if (lack := lack_of(extra)) is not None:
        raise UsageError(f"{what} needs {lack.reason}", remedy=lack.remedy)


def require_source(extra: str) -> None:
    if (lack := lack_of(extra)) is not None:
        raise NotConfigured(f"not available: it needs {lack.reason}; {lack.remedy}")


T = TypeVar("T")
_VARIABLE = re.compile(r"[A-Z][A-Z0-9]*(_[A-Z0-9]+)+")  # two words at least: PATH and HOME are not a broker's
_TAKEN = ("DESK_", "AUTONOMOUS_", "TRADER_", "SCREENER_")  # names of settings
GROUP = "chordesk.features"  # entry points of packages: NAME = "module:FEATURE"
_NAME = re.compile(r"[a-z][a-z0-9_-]*")
OFF = "DESK_FEATURES_OFF"  # read from the environment alone, since roles are there before the settings are
OWN: tuple[str, ...] = (
    "chordesk.agents.board.feature",
    "chordesk.agents.litellm.feature",
    "chordesk.agents.graphs.feature",
    "chordesk.tasks.notifications.feature",
    "chordesk.tools.samples.feature",
    "chordesk.tools.measure.feature",
    "chordesk.tools.holdings.feature",
    "chordesk.tools.alerts.feature",
    "chordesk.tools.ibkr.feature",
    "chordesk.tasks.asking.feature",
    "chordesk.tasks.messengers.feature",
    "chordesk.agents.drafting.feature",
)


@dataclass(frozen=True, slots=True)
class Command:
    """A subcommand of `desk`: its module, which has `commands`; its panel and its line in `desk --help`."""

    module: str
    panel: str
    purpose: str


@dataclass(frozen=True, slots=True)
class Market:
    """A market's module, which has `build`. replays: its clock stands still on one day."""

    module: str
    replays: bool = False


@dataclass(frozen=True, slots=True)
class Broker:
    """A broker's module, which has `build`."""

    module: str
    play_money: bool = False  # no real money moves, so it needs no mandate
    # Variables with its keys, which `build` reads from its `environ`: the process that sends orders alone has them. A
    # file may hold each, which NAME_FILE names. The first one identifies the account.
    credentials: tuple[str, ...] = ()
    # Times in force of orders of shares, by type of order; empty: all that `models/order_terms.py` has.
    takes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    options: bool = True  # it takes orders of contracts, and orders with legs
    # Seconds from a send after which `lookup` knows the order if it ever comes. A protective order that is not known by
    # then is placed again: too short a time sells the same shares twice.
    knows_within: float = 86_400.0

    def __post_init__(self) -> None:
        """Raises ValueError for variables that are not a broker's to have, and for terms that are none."""
        _require_variables(f"the broker {self.module}", self.credentials)
        if not 60.0 <= self.knows_within <= 86_400.0:
            raise ValueError(f"the broker {self.module} has knows_within={self.knows_within}: give 60 to 86400 seconds")
        if self.takes:
            from chordesk.models.order_terms import wrong_terms

            if (wrong := wrong_terms(self.takes)) is not None:
                raise ValueError(f"the broker {self.module} {wrong}")


@dataclass(frozen=True, slots=True)
class Runtime:
    """A model runtime."""

    package: str  # what it needs, and how to install that
    install: str
    build: str  # "module:function", called with the settings, the worker's name and the observer; returns the runtime
    library: str = ""  # "module:function" that loads its library, called when a worker warms up
    # its models are PROVIDER/MODEL, with a "|" before each one that answers where those before it cannot
    by_provider: bool = False
    # by provider: the variables that may hold its key
    keys: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class HoldingsSource:
    """A place whose accounts `desk holdings refresh` reads. A person or cron runs it, no worker: the desk's own
    processes forget its keys.

    read: "module:function" of its variables by name, and nothing else of the environment; returns a `Snapshot`. Nothing
    that could place an order is in its reach.
    """

    read: str
    shown: str  # for people
    # Variables that it cannot do without: a file may hold each, which NAME_FILE names. It is refreshed by default where
    # all of them are set.
    credentials: tuple[str, ...]
    options: tuple[str, ...] = ()  # variables that it may have besides, no secrets

    def __post_init__(self) -> None:
        """Raises ValueError for variables that are not a source's to have."""
        if not self.credentials:
            raise ValueError(f"the source of holdings {self.read} names no variable with a key, such as ACME_READ_KEY")
        _require_variables(f"the source of holdings {self.read}", (*self.credentials, *self.options))


def _require_variables(whose: str, names: tuple[str, ...]) -> None:
    for name in names:
        if not _VARIABLE.fullmatch(name) or name.startswith(_TAKEN) or name.endswith("_FILE"):
            reason = f"{whose} names {name!r} as a variable with a key of its own"
            raise ValueError(f"{reason}: write capitals, such as ACME_API_KEY, and none of the desk's names")


# Names for packages, in which `Broker`, `Runtime` and `Messenger` are what such a module makes.
MarketEntry = Market
BrokerEntry = Broker
RuntimeEntry = Runtime


@dataclass(frozen=True, slots=True)
class GraphRole:
    """A role that a graph plays."""

    after: str  # the role that it follows
    step: str  # "module:function" of the step's parent, symbol and payload; returns the step that plays it
    requires: str = ""  # "module:function" that raises UsageError where it cannot be played with the given settings


@dataclass(frozen=True, slots=True)
class Program:
    """A process that `desk up` runs too: `desk ARGUMENTS`."""

    name: str
    arguments: tuple[str, ...]
    where: str  # for people
    setting: str = ""  # where it is set, the process runs, and always without one
    stop_seconds: int = 4  # from SIGTERM to SIGKILL
    messengers: bool = False  # it runs those of all features, and so too where the setting of one is set


@dataclass(frozen=True, slots=True)
class Messenger:
    """A service on which people write to the desk and are written to, run by the process that notifies. setting: where
    it is set, the messenger runs. build: "module:function" of the settings and a Store, returns a `Messenger` of
    `tasks/notifications/messengers.py`. more: its other settings that are secret; sign: with which commands begin
    there."""

    setting: str
    build: str
    shown: str  # its name for people
    more: tuple[str, ...] = ()
    sign: str = "/"

    @property
    def settings(self) -> tuple[str, ...]:
        return (self.setting, *self.more)


MessengerEntry = Messenger


@dataclass(frozen=True, slots=True)
class Pass:
    """Work that the sweep requests over and over of a worker that serves the queue `ops`, which has no broker. do:
    "module:function" of the worker's Celery app with its `desk`; it returns counts. A request that waited for a minute
    is dropped, two may run at once, and it may be killed anywhere: the next one does the same."""

    do: str
    seconds: float = 60.0  # between two requests


@dataclass(frozen=True, slots=True)
class NoticeWords:
    """The words of a kind of notice. one, several: titles of a message with one of them, and after a count; sentence:
    "module:function" that returns the text of a `Notice`, by default its subject."""

    purpose: str
    one: str
    several: str
    sentence: str = ""


@dataclass(frozen=True, slots=True)
class Denial:
    """A rule of a feature that denies orders, in force where the feature is; it can only make the desk stricter. rule:
    "module:function" of the ticket, its RiskContext and the settings, which returns None or (reason, measured, limit).
    One that fails denies. exits: it binds orders that only reduce, too. facts: "module:function" of a ToolContext and
    the order's symbol, called before the order is judged, which may read; the rule finds its answer as `facts[CODE]` of
    the RiskContext, where None means that there is nothing to judge by."""

    denies: str  # the refused orders
    remedy: str
    rule: str
    settings: tuple[str, ...] = ()  # names of those that decide
    exits: bool = False
    facts: str = ""


@dataclass(frozen=True, slots=True)
class View:
    """A view of the page. path: with :parameters; name: in the menu, if `menu`; key: after g, goes there. module: the
    place of its file among those of the page, without `.js`: `of/FEATURE/FILE`, FILE in the folder `page` of `pages`;
    part: its component, by default the one of the view's name, which gets {params, query, desk}. point: what it does
    with a price that a person points at on a symbol's chart, for a button; it is opened with {symbol, price, side}, the
    side being above or below the last close, in its query. words: what it does with words that a person types on the
    front or in Ctrl-K; it is opened with {q}."""

    path: str
    name: str
    module: str
    part: str = ""
    menu: bool = False
    key: str = ""
    point: str = ""
    words: str = ""


@dataclass(frozen=True, slots=True)
class Shown:
    """A part of a run beside the core's. read: "module:function" of a session and a Run; the type that it is annotated
    to return is the part's JSON schema. where: "run" in the view of a run, also as its command ends, "detail" in
    `desk runs show` and `GET /runs/RUN` alone, "report" in its written report alone. Or "status", in the database's
    part of `desk status`: read is of a session and the settings, and of the rest there is `text` alone.

    All else may be left out, and is used for a part that is not empty. text: "module:function" of the part, returns
    what a terminal shows, a renderable of rich or None. missing: "module:function" of the part, yields what a report
    lacks, each a dict of what, reason and perhaps symbol and role. template: "package:NAME", where the package's folder
    `templates` has NAME.html and NAME.md, in which `one` is the part.

    page: "FILE:COMPONENT" of the page, FILE as a View's module; the component gets {run, detail, query, changed}.
    kinds: of runs for which the page has it in place of candidates, empty or not."""

    read: str
    where: str = "detail"
    text: str = ""
    missing: str = ""
    template: str = ""
    page: str = ""
    kinds: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Keep:
    """How long the rows of a table are kept: for ever by default, and with them the runs that they refer to. run: they
    go with their run ("results"), or with the tool calls and attempts of it ("evidence"). at: the column of their time,
    after which they go in so many days: a number, or the field of the feature's settings that has it; 0 keeps them."""

    run: str = ""
    at: str = ""
    days: float | str = 0.0


@dataclass(frozen=True, slots=True)
class Feature:
    """What a feature adds. Of a module "module", of an object "module:name"."""

    name: str
    needs: str = ""  # versions of chordesk, such as ">=0.3,<0.4"; any by default
    aliases: tuple[str, ...] = ()  # other names by which it can be switched off
    modules: tuple[str, ...] = ()  # of the desk's own: what belongs to it, which core does not import
    uses: tuple[str, ...] = ()  # other features whose modules it imports
    roles: tuple[str, ...] = ()  # each a tuple of Role
    graph_roles: Mapping[str, GraphRole] = field(default_factory=dict)
    tools: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # ToolSpec: the roles that may call it
    # By name a lens: its file in a package, "package:FOLDER/NAME.md", or its purpose, where a role screener_NAME is one
    # of the roles.
    lenses: Mapping[str, str] = field(default_factory=dict)
    prompts: tuple[str, ...] = ()  # packages, each with a folder `prompts`
    policies: tuple[str, ...] = ()  # modules: the rulebook's policies of its roles
    workflows: tuple[str, ...] = ()  # each a tuple of Workflow
    kinds: tuple[str, ...] = ()  # of their runs and steps: by these rows are of the feature while it is off
    # Of them, kinds of runs that are so many and so small that lists of runs have them only where they are asked for.
    asides: tuple[str, ...] = ()
    commands: Mapping[str, Command] = field(default_factory=dict)
    # By kind of run, functions as `Workflow.turns`: turns of roles that it has beside those of its workflow.
    turn_counts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    # Functions of a session and a run's id that return parts of the trader's subject by name, none that are empty.
    brief: tuple[str, ...] = ()
    shown: Mapping[str, Shown] = field(default_factory=dict)  # parts of a run, or of the status, by name
    # Functions of a `chain.Builder`, the id of the run that was researched and a symbol: each adds what it knows of
    # the way to the symbol's orders, and returns the ids of the nodes on which a decision rests.
    lineage: tuple[str, ...] = ()
    # By the name of a command, functions whose parameters become options of it. Each is called with them before
    # the command, and may do the command's work in its place and raise typer.Exit. A package has none at `desk halt`,
    # `desk disarm` and `desk deny`.
    options: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    subcommands: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # by core group: modules with `commands`
    event_kinds: Mapping[str, str] = field(default_factory=dict)  # FEATURE.name of what it writes, with its purpose
    notice_kinds: Mapping[str, NoticeWords] = field(default_factory=dict)  # by FEATURE_name
    denials: Mapping[str, Denial] = field(default_factory=dict)  # by code, FEATURE_name
    # Functions of a ToolContext and the symbols that may be opened. Each returns None, or what bounds a size, as
    # `Further` of tools/portfolio/size_bounds.py: the strictest bound holds, so that it can only make one smaller.
    bounds: tuple[str, ...] = ()
    # Functions of a ToolContext that return symbols which research on holdings is about, beside those of the account.
    researched: tuple[str, ...] = ()
    documents: tuple[str, ...] = ()  # of the desk's own: its pages below docs/
    settings: tuple[str, ...] = ()  # names of those that have no meaning without it
    # Functions that raise SettingError for settings that do not fit: called where one of its settings is given.
    requires: tuple[str, ...] = ()
    checks: tuple[str, ...] = ()  # CheckEntry of `desk doctor`
    preflight: tuple[str, ...] = ()  # functions that raise a DeskError where `desk up` could not do the feature's work
    programs: tuple[Program, ...] = ()
    messengers: Mapping[str, Messenger] = field(default_factory=dict)  # by name
    # Functions of the settings, a Store, a function that returns the account's market, and a text: each answers a
    # question from rows, with `text`, `missing`, and an empty `intent` where it has no answer to it.
    answers: tuple[str, ...] = ()
    # Classes, as `Asks` of `tasks/questions.py`: who has what the rows do not answer answered by a model.
    asks: tuple[str, ...] = ()
    # By kind, acts that may be proposed to a person: `Proposable` of `tasks/proposals.py`. A person confirms one of a
    # package with the scope `operate` alone.
    proposals: Mapping[str, str] = field(default_factory=dict)
    # Classes, as `Confirms` of `tasks/proposals.py`: what a person is asked to confirm elsewhere than on a terminal.
    confirms: tuple[str, ...] = ()
    passes: Mapping[str, Pass] = field(default_factory=dict)
    routes: tuple[str, ...] = ()  # routers of `desk api`
    # What a token needs for requests that change something below /NAME; of a package's feature it is always `operate`.
    scope: str = "operate"
    # The same for paths of another name, by their first part; of the desk's own features alone.
    scopes: Mapping[str, str] = field(default_factory=dict)
    views: tuple[View, ...] = ()  # of the page
    pages: tuple[str, ...] = ()  # packages, each with a folder `page`: files that are served below `of/FEATURE/`
    markets: Mapping[str, Market] = field(default_factory=dict)
    brokers: Mapping[str, Broker] = field(default_factory=dict)
    # Accounts at other brokers and venues by the name of their source, for the feature holdings.
    holdings: Mapping[str, HoldingsSource] = field(default_factory=dict)
    runtimes: Mapping[str, Runtime] = field(default_factory=dict)
    wraps: tuple[str, ...] = ()  # classes, as `chordesk.agents.wraps.Wrap`: around every runtime, the innermost first
    benchmarks: Mapping[str, str] = field(default_factory=dict)  # Benchmark by its name
    tables: tuple[str, ...] = ()  # modules of its tables, whose names begin with the feature's
    migrations: str = ""  # the package with the migrations that make them: 0001_WORDS.py and so on, in one line
    keeps: Mapping[str, Keep] = field(default_factory=dict)  # by table
    # "module:Class" of a pydantic model: its fields are settings of the desk, DESK_NAME_FIELD.
    settings_schema: str = ""

    @property
    def prefix(self) -> str:
        """What the names of its tables and of its settings begin with."""
        return prefix(self.name)


def prefix(name: str) -> str:
    return f"{name.replace('-', '_')}_"


@dataclass(frozen=True, slots=True)
class Skipped:
    """A package's feature that is not in force. where: the distribution and the entry point."""

    name: str
    where: str
    why: str
    remedy: str
    how: str = "is left out"

    def __str__(self) -> str:
        return f"the feature {self.name or repr('')} of {self.where} {self.how}: {self.why}"


@dataclass(slots=True)
class _Found:
    """All features by name, those of packages with the place where each was found, and what was left out."""

    features: dict[str, Feature] = field(default_factory=dict)
    places: dict[str, str] = field(default_factory=dict)
    skipped: list[Skipped] = field(default_factory=list)
    left: set[str] = field(default_factory=set)  # names of packages' features that are off, and were not loaded
    unready: dict[str, Skipped] = field(default_factory=dict)  # by name, those whose tables cannot be used
    # Features that were in force until a part of them was needed: tables that were made before still have their parts.
    dropped: dict[str, tuple[Feature, Skipped]] = field(default_factory=dict)
    roots: dict[str, str] = field(default_factory=dict)  # the features' packages, by the name that is imported
    seconds: dict[str, float] = field(default_factory=dict)  # that a description took to load, by feature


_ENTWINED = (
    "{} loads the desk while it is described{}: import that where it is used, beside Feature only what describes it"
)
SLOW = 1.0  # seconds: every command waits for every description
# By thread, the place of the description that it loads.
_LOADING: dict[int, str] = {}


@contextmanager
def loading(what: str) -> Iterator[None]:
    """Around code of a package that is loaded. What it prints goes where errors do: a command's output may be JSON for
    a program. Ctrl-C names it, for it may be what takes so long."""
    with redirect_stdout(sys.stderr):
        try:
            yield
        except KeyboardInterrupt as error:
            error.add_note(f"while {what} was loaded")
            raise


@cache
def _found() -> _Found:
    if (place := _LOADING.get(get_ident())) is not None:
        raise ImportError(_ENTWINED.format(place, ""))
    found = _Found()
    for module in OWN:
        feature: Feature = import_module(module).FEATURE
        found.features[feature.name] = feature
    for entry in _entries(found):
        if entry.name in named_off():  # the remedy for one that breaks the desk
            found.left.add(entry.name)
        else:
            _take(entry, found)
    _leave_taken_aliases(found)
    _leave_taken_names(found)
    return found


def _entries(found: _Found) -> list[EntryPoint]:
    """Return the packages' entry points by the name of their distribution, so that of two with one name the same one
    wins in every process and after every installation. A package whose list of them cannot be read is left out."""
    try:
        entries = list(entry_points(group=GROUP))
    except Exception:  # one package's file keeps those of all others from being read
        entries = []
        for package in distributions():
            try:
                entries += package.entry_points.select(group=GROUP)
            except Exception as error:
                why = f"its entry_points.txt cannot be read: {said(error)}"
                found.skipped.append(Skipped("of any name", _named(package), why, "correct or uninstall it"))
    return sorted(entries, key=lambda one: (_named(one.dist).casefold() if one.dist else "", one.name, one.value))


def _named(package: Distribution) -> str:
    try:
        text = f"{package.metadata['Name'] or ''} {package.version}"
    except Exception:  # its METADATA is damaged
        text = ""
    return text if text[:1].strip() else f"a package without a name in {package.locate_file('')}"


def _take(entry: EntryPoint, found: _Found) -> None:
    """Load the description that an entry point names, or leave it out."""
    where = f"{_named(entry.dist)} ({entry.value})" if entry.dist is not None else entry.value
    remedy = f"upgrade or uninstall its package, or set {OFF}={entry.name}"
    began = monotonic()
    try:
        _LOADING[get_ident()] = entry.value
        why, other = _misnamed(entry, found)
        if not why:
            with loading(f"the feature {entry.name} of {where}"):
                feature = entry.load()
            why, other = _wrong(entry.name, feature, found)
        remedy = other or remedy
    except BaseException as error:
        if is_ours(error):
            raise
        by = f", by {line}" if (line := statement(error)) else ""
        why = _ENTWINED.format(entry.value, by) if _is_entwined(error) else said(error)
        if member := unknown_member(error):
            why, remedy = f"this chordesk {_here()} knows no {member}", "upgrade chordesk, or install an older version"
    finally:
        _LOADING.pop(get_ident(), None)
    if why:
        found.skipped.append(Skipped(entry.name, where, why, remedy))
    else:
        found.features[entry.name], found.places[entry.name] = feature, where
        found.roots[entry.module.partition(".")[0]] = entry.name
        found.seconds[entry.name] = monotonic() - began


def _is_entwined(error: BaseException) -> bool:
    """Whether a description loaded a module of the desk that asks for descriptions, and so is not loaded yet."""
    signs = ("loads the desk while it is", "partially initialized module 'chordesk")
    return isinstance(error, ImportError) and any(sign in str(error) for sign in signs)


def _here() -> str:
    try:
        return version("chordesk")
    except PackageNotFoundError:  # the desk runs from a folder
        return ""


def _misnamed(entry: EntryPoint, found: _Found) -> tuple[str, str]:
    if not NAME.fullmatch(entry.name):
        return f"its name is {entry.name!r}, and a name is {NAME_RULE}", "correct its package"
    if entry.name in found.features:
        return f"{found.places.get(entry.name, 'the desk itself')} has this name", "uninstall one of the two packages"
    if EntryPoint.pattern.match(entry.value) is None or not entry.attr:
        return f"its entry point is {entry.value!r}, and MODULE:FEATURE is due", "correct its package"
    return "", ""


def _wrong(name: str, feature: Any, found: _Found) -> tuple[str, str]:
    """Return what is wrong with a package's description and the remedy; two empty texts where nothing is."""
    if not isinstance(feature, Feature) or feature.name != name:
        return f"its entry point is no Feature of the name {name}", "correct its package"
    if why := misfit(feature):
        return why, f"correct its package, or set {OFF}={name}"
    for own, known in found.features.items():
        if own not in found.places and name in known.aliases:
            return f"{name} is another name of the desk's feature {own}", "rename it in its package, or uninstall it"
    if (feature.tables or feature.migrations or feature.settings_schema) and _NAME.fullmatch(name) is None:
        return "its tables and settings begin with its name, which is not of a-z, 0-9, - and _ alone", "rename it"
    if prefix("alembic_version").startswith(prefix(name)):
        return f"tables that begin with {prefix(name)} count the revisions of migrations", "rename it"
    if same := [other for other in found.features if prefix(other) == prefix(name)]:
        return f"its tables and settings would begin as those of the feature {same[0]}", "rename it in its package"
    if feature.needs:
        from packaging.specifiers import InvalidSpecifier, SpecifierSet

        try:
            fits = _here() in SpecifierSet(feature.needs, prereleases=True)
        except InvalidSpecifier:
            return f"its needs are {feature.needs!r}, and a range such as '>=0.3,<0.4' is due", "correct its package"
        if not fits:
            reason = f"it needs chordesk {feature.needs}, and this is {_here()}"
            return reason, "install the version of it for this one"
    return "", ""


def _leave_taken_aliases(found: _Found) -> None:
    """Leave out each package with an alias that is another feature's name, or an alias of one before it: to switch
    that one off would switch off both."""
    for name in list(found.places):
        for other, feature in found.features.items():
            names = {other, *feature.aliases} if other not in found.places or other < name else {other}
            if other != name and (taken := sorted(names.intersection(found.features[name].aliases))):
                _leave(found, name, f"its alias {taken[0]} is a name of the feature {other}")
                break


def _leave(found: _Found, name: str, why: str) -> None:
    remedy = f"correct or uninstall its package, or set {OFF}={name}"
    found.skipped.append(Skipped(name, found.places.pop(name), why, remedy))
    del found.features[name]


def _leave_taken_names(found: _Found) -> None:
    """Leave out each package with a name that a feature before it has, or a view that the page or one before it has:
    the desk's own come first, then packages by the names of their distributions. Names of the core that a description
    cannot tell, such as those of roles, are looked at where the table with them is made."""
    nicks = {alias: name for name, feature in found.features.items() for alias in feature.aliases}
    out = {nicks.get(name, name) for name in named_off()}
    known: dict[tuple[str, str], str] = {("views", _shape(path)): "the page itself" for path in PAGE}
    known |= {("keys", key): path for path, key in PAGE.items() if key}
    for name, feature in list(found.features.items()):
        if name in out:
            continue
        mine = dict(_names_of(feature))
        if name in found.places and (why := _taken(feature, mine, known)):
            _leave(found, name, why)
            continue
        owner = f"the feature {name}" + (f" of {found.places[name]}" if name in found.places else "")
        known |= {place: shown if place[0] == "keys" else owner for place, shown in mine.items()}


def _names_of(feature: Feature) -> Iterator[tuple[tuple[str, str], str]]:
    """Yield what a feature alone may have: its member and the name there, and that name for people."""
    for what in (*NAMED, "shown"):
        yield from (((what, name), name) for name in getattr(feature, what))
    yield from ((("programs", one.name), one.name) for one in feature.programs)
    yield from ((("views", _shape(one.path)), one.path) for one in feature.views)
    yield from ((("keys", one.key), one.path) for one in feature.views if one.key)


_STOPPING = frozenset({"halt", "disarm", "deny"})  # commands that end what goes on


def _taken(feature: Feature, mine: Mapping[tuple[str, str], str], known: Mapping[tuple[str, str], str]) -> str:
    for view in feature.views:
        if not view.path.startswith("/"):
            return f"its view {view.path!r} has a path that does not begin with /"
        if view.key and view.key not in ascii_lowercase:
            return f"its view {view.path} has the key {view.key!r}, and one small letter is due"
    for (what, name), shown in mine.items():
        if (first := known.get((what, name))) is not None and what != "keys":
            return f"among the {what} there is {shown} already, of {first}"
    if closed := sorted(_STOPPING.intersection(feature.options)):
        return f"it adds options to `desk {closed[0]}`, which must work whatever a package does"
    keys = {name for what, name in known if what == "keys"}
    here = {name for what, name in mine if what == "keys"}
    if taken := sorted(here & keys):
        free = ", ".join(sorted(set(ascii_lowercase) - keys - here))
        return f"its view has the key {taken[0]}, which goes to {known['keys', taken[0]]}; free are {free}"
    return ""


def named_off() -> tuple[str, ...]:
    """Return what DESK_FEATURES_OFF has, as it is written there."""
    return tuple(part.strip() for part in os.environ.get(OFF, "").split(",") if part.strip())


def off() -> tuple[str, ...]:
    """Return the names of the features that are off; an unknown name stays as it is."""
    known = _found().features
    names = {alias: name for name, feature in known.items() for alias in feature.aliases if alias not in known}
    return tuple(dict.fromkeys(names.get(name, name) for name in named_off()))


def settings_off() -> set[str]:
    """Return the settings of the features that are off, which nothing reads."""
    known = _found().features
    return {setting for name in off() if name in known for setting in known[name].settings}


def in_force() -> list[Feature]:
    out = off()
    return [feature for name, feature in _found().features.items() if name not in out]


def skipped() -> list[Skipped]:
    """Return the packages' features that are left out, as far as their parts were loaded in this process."""
    return list(_found().skipped)


def skip(feature: Feature, why: str) -> None:
    found = _found()
    if feature.name not in found.places:
        if feature.name in found.dropped:
            return
        raise ValueError(f"the feature {feature.name}: {why}")
    remedy = f"correct, upgrade or uninstall its package, or set {OFF}={feature.name}"
    left = Skipped(feature.name, found.places.pop(feature.name), why, remedy)
    found.dropped[feature.name] = found.features.pop(feature.name), left
    found.skipped.append(left)


def is_own(feature: Feature) -> bool:
    """Return whether it is the desk's own and no package's."""
    return feature.name not in _found().places


def is_dropped(name: str) -> bool:
    """Return whether a package's feature was left out for a part that not every process uses."""
    return name in _found().dropped


def set_unready(feature: Feature, why: str, remedy: str = "") -> None:
    """Note that the tables of a package's feature cannot be used in this process: its steps wait, what else it brings
    is there. Raises DatabaseUnfit for one of the desk's own, without which the desk would work on half of its rows."""
    found = _found()
    if feature.name not in found.places:
        whole = "install this version of the desk anew, whole, and run `desk db upgrade`"
        raise DatabaseUnfit(f"the feature {feature.name}: {why}", remedy=remedy or whole)
    remedy = remedy or f"correct, upgrade or uninstall its package, or set {OFF}={feature.name}"
    unready = Skipped(feature.name, found.places[feature.name], why, remedy, "can keep nothing")
    found.unready.setdefault(feature.name, unready)


def unready() -> dict[str, Skipped]:
    return dict(_found().unready)


def absent_setting(name: str) -> tuple[str, str] | None:
    """Return why a name that is no setting may be one of a feature that is off or left out, and the remedy."""
    known = _found().features
    own = (each for each in off() if each in known and known[each].settings_schema)
    for each in (*own, *_found().left):
        if name.startswith(prefix(each)):
            return f"the feature {each} is switched off", f"unset it, or take {each} out of {OFF}"
    return next(((str(each), each.remedy) for each in skipped() if name.startswith(prefix(each.name))), None)


def require_known() -> None:
    """Raise SettingError for a name in DESK_FEATURES_OFF that is of no feature: what it was to switch off is on."""
    known = {*_found().features, *_found().left, *(each.name for each in skipped())}
    for name in off():
        if name not in known:
            reason = f"{OFF} has {name!r}, and no feature of this name is installed, so that no command runs"
            raise SettingError(reason, remedy=f"take it out, or choose among {', '.join(sorted(known))}")


def require_on(given: Collection[str]) -> None:
    """Raise SettingError for an unknown name in DESK_FEATURES_OFF, and for settings of a feature that is off."""
    require_known()
    for name in off():
        for setting in _found().features[name].settings if name in _found().features else ():
            if setting in given:
                reason = f"{setting} (DESK_{setting.upper()}) is set, and its feature {name} is switched off"
                raise SettingError(reason, remedy=f"unset it, or take {name} out of {OFF}")


def require_served(settings: Any) -> None:
    """Check the settings of a run, which its command may have set in place of the desk's. Raises UsageError where one
    is of a feature that is switched off: its steps would wait for a worker that cannot be."""
    for name in off():
        for setting in _found().features[name].settings if name in _found().features else ():
            if _is_changed(settings, setting):
                value = getattr(settings, setting)
                reason = f"the run has {setting} {value}, and the feature {name} is switched off here: nobody serves it"
                raise UsageError(reason, remedy=f"leave {setting} as it is by default, or take {name} out of {OFF}")


def _is_changed(settings: Any, name: str) -> bool:
    """Whether there is such a setting, and its value is not the default one."""
    field = type(settings).model_fields.get(name)
    return field is not None and getattr(settings, name) != field.default


def strange_settings(known: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield the settings that packages name and that there are not, and the remedy: what waits for one never starts."""
    for feature in in_force():
        names = (*feature.settings, *(one.setting for one in feature.programs if one.setting))
        if feature.name in _found().places and (strange := [name for name in names if name not in known]):
            remedy = f"correct its package, or set {OFF}={feature.name}"
            yield f"the feature {feature.name} names the setting {strange[0]}, and there is none", remedy


def unwrapped(settings: Any) -> str | None:
    """Return the setting of a run that a feature which is off would put around its turns, None where there is none. A
    turn without it would show its model what a mask hides."""
    for name in off():
        feature = _found().features.get(name)
        for setting in feature.settings if feature is not None and feature.wraps else ():
            if _is_changed(settings, setting):
                return f"the feature {name}: the run has {setting} {getattr(settings, setting)}"
    return None


def switched_off(what: str, name: str) -> str | None:
    """Return the feature that is off and has this name among its parts."""
    found = (each for each in off() if each in _found().features)
    return next((each for each in found if name in getattr(_found().features[each], what)), None)


def missing(what: str, name: str) -> Lack:
    """Return why no feature in force has a name that rows of the database have, after the name, and the remedy."""
    if (feature := switched_off(what, name)) is not None:
        return Lack(f"of the feature {feature}, which is switched off", f"take {feature} out of {OFF}")
    known = _found().features  # of which some name places, and not what is there
    parts = (each for each in off() if any(":" in place for place in getattr(known.get(each), what, ())))
    left = ", ".join((*parts, *packages_off()))
    install = "; ".join(("install its package", *map(str, skipped())))
    remedy = f"take {left} out of {OFF} where it is of that feature, or {install}" if left else install
    return Lack("which no feature here has", remedy)


def packages_off() -> tuple[str, ...]:
    """Return the names of packages' features that are off, of which nothing is loaded."""
    return tuple(sorted(_found().left))


def load(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(import_module(module), name) if name else import_module(module)


def loaded(feature: Feature, place: str, kind: Any, *, many: bool = False) -> Any:
    """Load a part of a feature. One of a package is of its kind, or the package is left out: raises SettingError."""
    if feature.name not in _found().places:
        return load(place)
    try:
        with loading(f"{place} of {_found().places[feature.name]}"):
            found = load(place)
        why = wrong_kind(found, kind, place, many=many)
    except BaseException as error:
        if is_ours(error):
            raise
        why = said(error)
    if why:
        skip(feature, why)
        raise _left_out(feature)
    return found


def _left_out(feature: Feature) -> SettingError:
    left = _found().dropped[feature.name][1]
    return SettingError(str(left), remedy=left.remedy)


def part(what: str, name: str, place: str, kind: Any = object) -> Any:
    """Return a part that a table has by name. Raises SettingError for one of a package that cannot be loaded, or is of
    another kind."""
    for feature in (*in_force(), *(one for one, _ in _found().dropped.values())):
        named = getattr(feature, what, {})  # sources of option chains are in no description
        if name in named and place in _places(named[name]):
            if feature.name in _found().dropped:
                raise _left_out(feature)
            return loaded(feature, place, kind)
    return load(place)


def require_in_force(what: str, name: str) -> None:
    """Raise SettingError for a name that only a feature has which is left out."""
    for feature, _ in _found().dropped.values():
        if name in getattr(feature, what):
            raise _left_out(feature)


def refuse(what: str, name: str, why: str) -> None:
    """Leave out the package that has a name in a member of its description, and raise SettingError."""
    feature = next(one for one in in_force() if name in getattr(one, what))
    skip(feature, why)
    raise _left_out(feature)


def _places(entry: Any) -> Collection[str]:
    """Return the places of an entry of a description: itself, several, or what a Command or another one has."""
    if isinstance(entry, str):
        return (entry,)
    return entry if isinstance(entry, tuple) else [getattr(entry, name) for name in entry.__slots__]


def parts(
    what: str, given: Collection[str] | None = None, kind: Any = object, *, many: bool = False
) -> Iterator[tuple[Feature, list[Any]]]:
    """A package of which a part cannot be loaded, or is of another kind, is left out. given: only the parts of
    features with one of these settings, or with none at all. many: each part is a tuple of the kind."""
    for feature in in_force():
        if given is not None and feature.settings and not set(feature.settings).intersection(given):
            continue
        try:
            found = [loaded(feature, place, kind, many=many) for place in getattr(feature, what)]
        except SettingError:
            if feature.name not in _found().dropped:
                raise
            continue
        yield feature, found


def call(feature: Feature, function: Callable[..., T], *given: Any) -> T:
    """Call a function of a feature. What one of a package fails with, but for the desk's own errors, is a SettingError
    with the package and the remedy."""
    try:
        return function(*given)
    except DeskError:
        raise
    except BaseException as error:
        if is_ours(error) or feature.name not in _found().places:
            raise
        raise _failed(feature.name, said(error)) from error


def _failed(name: str, why: str) -> SettingError:
    remedy = f"correct, upgrade or uninstall its package, or set {OFF}={name}"
    return SettingError(f"the feature {name} of {_found().places[name]} fails: {why}", remedy=remedy)


def blamed(error: BaseException, *, may_exit: bool = False) -> SettingError | None:
    """Return what an error says of the package in whose code it was raised; None where that is none's. may_exit: the
    package may end the process, as a command does, but no module that loads."""
    places, roots = _found().places, _found().roots
    root = root_of(error, [root for root, name in roots.items() if name in places])
    if root is None or (may_exit and isinstance(error, SystemExit) and not ends_a_module(error, root)):
        return None
    return _failed(roots[root], said(error, root=root))


def built(make: Callable[[], T]) -> T:
    """Return what a module that a name chooses makes. What one of a package fails with, but for the desk's own errors,
    is a SettingError with the package and the remedy: a step then waits for a worker that can, as for a market that a
    process lacks, and is not taken up again and again."""
    try:
        return make()
    except DeskError:
        raise
    except (Exception, SystemExit) as error:
        if (found := blamed(error)) is None:
            raise
        raise found from error


def said_of(error: BaseException) -> str:
    """Return an error that is not the desk's own in one line, with the package in whose code it was raised."""
    found = blamed(error)
    return f"{type(error).__name__}: {error}" if found is None else str(found.args[0])


def slow() -> Iterator[tuple[str, str]]:
    """Yield the packages whose descriptions take long to load, and the remedy."""
    for name, seconds in _found().seconds.items():
        if seconds > SLOW and name in _found().places:
            reason = f"the feature {name} of {_found().places[name]} took {seconds:.1f} s to load, as in every command"
            yield reason, f"import what is slow where it is used, or set {OFF}={name}"


def entries(what: str, name: str, kind: Any) -> Iterator[tuple[Feature, Any]]:
    """Return the parts that features have by a name that several may have. A package of which one cannot be loaded, or
    is of another kind, is left out."""
    for feature in in_force():
        for place in getattr(feature, what).get(name, ()):
            if feature.name in _found().dropped:  # for what its first one is
                break
            try:
                found = loaded(feature, place, kind)
            except SettingError:
                if feature.name not in _found().dropped:
                    raise
                break
            yield feature, found


def folders(what: str, name: str) -> Iterator[tuple[Feature, Path]]:
    """Return a folder of each package that a member of the descriptions names. One that has none is left out."""
    for feature, packages in parts(what, kind=ModuleType):
        for package in packages:
            inside = (Path(place) / name for place in getattr(package, "__path__", ()))
            if (folder := next((one for one in inside if one.is_dir()), None)) is None:
                skip(feature, f"{package.__name__}, which its {what} have, is no package with a folder {name}")
                break
            yield feature, folder


def place_of(package: str) -> Path:
    """Return the folder of a package, which is not loaded. Raises ValueError where there is none."""
    found = find_spec(package)
    places = found.submodule_search_locations if found is not None else None
    if not places:
        raise ValueError(f"{package} is no package")
    return Path(next(iter(places)))


def added(own: Mapping[str, T], what: str) -> dict[str, T]:
    """A table with what features add to it. A package that has a name again is left out."""
    table = dict(own)
    for feature in in_force():
        add(table, feature, getattr(feature, what), what)
    return table


def add(table: dict[str, T], feature: Feature, more: Mapping[str, T], what: str) -> None:
    if again := sorted(table.keys() & more.keys()):
        skip_taken(feature, what, again[0])
    else:
        table.update(more)


def passes() -> dict[str, tuple[Feature, Pass]]:
    """Return the passes by name, each with its feature. A package that has a name again is left out."""
    added({}, "passes")
    return {name: (feature, one) for feature in in_force() for name, one in feature.passes.items()}


def skip_taken(feature: Feature, what: str, name: str) -> None:
    """Leave out a package that has a name again, with the one that has it first."""
    others = (one.name for one in in_force() if one.name != feature.name and name in getattr(one, what))
    skip(feature, f"among the {what} there is {name} already{whose(next(others, None))}")


def whose(name: str | None) -> str:
    """Return a feature after what it has, with its package; an empty text for None, which is the desk itself."""
    if name is None:
        return ""
    place = _found().places.get(name)
    return f", of the feature {name} of {place}" if place is not None else f", of the feature {name}"


# The views of the page that are of no feature, as its `app.js` has them: by path the key, if it has one.
PAGE = {
    "/": "d", "/runs": "r", "/runs/:run": "", "/runs/:run/compare/:other": "", "/symbols": "y", "/symbols/:symbol": "",
    "/reports/:report": "", "/verdicts/:verdict": "", "/orders": "o", "/orders/:order": "", "/approvals": "p",
    "/account": "a", "/accounts/:account": "", "/threads": "t", "/threads/:thread": "", "/turns/:turn": "",
    "/fleet": "f", "/settings": "s",
}  # fmt: skip


def views() -> list[tuple[Feature, View]]:
    return [(feature, view) for feature in in_force() for view in feature.views]


def _shape(path: str) -> str:
    return "/".join(":" if part.startswith(":") else part for part in path.split("/"))


def lost_views() -> Iterator[tuple[str, str]]:
    """Yield what is wrong with views of packages whose file is not there, and the remedy. The page names such a view
    where it is asked for, and the others work."""
    files = {feature.name: folder for feature, folder in folders("pages", "page")}
    for feature, view in views():
        name = view.module.removeprefix(f"of/{feature.name}/")
        if feature.name not in _found().places:
            continue
        if name == view.module:
            why = f"has the module {view.module!r}, and of/{feature.name}/FILE is due"
        elif feature.name not in files:
            why = "has a file, and the feature has no pages"
        elif (file := files[feature.name] / f"{name}.js").is_file():
            continue
        else:
            why = f"has no file {file}"
        yield (
            f"the view {view.path} of the feature {feature.name} {why}",
            f"correct its package, or set {OFF}={feature.name}",
        )


def load_packages() -> None:
    """Load every part of the packages' features, so that each one that does not load is left out. Not what is asked for
    by its name alone: markets, brokers, runtimes and benchmarks, each of which may need a library of its own."""
    for feature in [one for one in in_force() if not is_own(one)]:
        for place in filter(None, _every_place(feature)):
            if feature.name in _found().places:
                with suppress(SettingError):
                    loaded(feature, place, object)


def _every_place(feature: Feature) -> Iterator[str]:
    yield from (*feature.roles, *feature.tools, *feature.policies, *feature.workflows, *feature.brief)
    yield from (*feature.lineage, *feature.bounds, *feature.requires, *feature.checks, *feature.preflight)
    yield from (*feature.researched, *feature.routes, *feature.wraps, *feature.answers)
    yield from feature.asks
    yield from (*feature.proposals.values(), *feature.confirms)
    for several in (feature.turn_counts, feature.options, feature.subcommands):
        yield from (place for places in several.values() for place in places)
    yield from (one.module for one in feature.commands.values())
    yield from (place for one in feature.shown.values() for place in (one.read, one.text, one.missing))
    yield from (one.sentence for one in feature.notice_kinds.values())
    yield from (place for one in feature.denials.values() for place in (one.rule, one.facts) if place)


def places(what: str) -> set[str]:
    return {place for feature in _found().features.values() for place in getattr(feature, what)}


def remedy_for(what: str, name: str) -> str:
    """Return the remedy for a name that is in no table: the switch of its feature, or the package that is missing."""
    for feature in _found().features.values():
        if feature.name in off() and name in getattr(feature, what, ()):
            return f"take {feature.name} out of {OFF}"
    return "; ".join((or_switched_on("install the package that has it"), *map(str, skipped())))


def or_switched_on(remedy: str) -> str:
    """Return a remedy for what no feature in force has. What a package that is switched off has is not known: it may be
    that."""
    left = ", ".join(packages_off())
    return f"take {left} out of {OFF} where it is of that package, or {remedy}" if left else remedy
