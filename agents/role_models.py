"""The runtime, model, effort, limits and web search of each role, and what is known of local servers' models."""

from __future__ import annotations

import datetime as dt
import hashlib
import re
import socket
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, get_args
from urllib.parse import urlsplit

from chordesk.agents.gateway.facts import ServerFacts, known_facts
from chordesk.agents.providers.liveness import TurnLimits
from chordesk.models import features
from chordesk.models.errors import SettingError, UsageError
from chordesk.models.features import Runtime, lack_of
from chordesk.models.settings import Effort, Settings
from chordesk.models.settings.running_desk import counts, is_backtest, snapshot
from chordesk.models.settings.variables import secret
from chordesk.models.urls import is_loopback, without_login

if TYPE_CHECKING:
    from chordesk.agents.role import Role

DEFAULT_RUNTIME = "codex"
LOCAL = "local"
_APP_SERVER = Runtime("codex_cli_bin", "install its package codex_cli_bin", "")  # made by the composition root
# `codex` is the app-server with the provider of the settings, `local` the app-server with a model server.
RUNTIMES: Mapping[str, Runtime] = features.added(dict.fromkeys((DEFAULT_RUNTIME, LOCAL), _APP_SERVER), "runtimes")
APP_SERVERS = frozenset({"codex", LOCAL})  # runtimes of the app-server; they keep a thread from one run to the next
# Variables with the key of a provider, for a check before anything starts; a library may know more providers.
PROVIDER_KEYS: Mapping[str, tuple[str, ...]] = {
    provider: names for runtime in RUNTIMES.values() for provider, names in runtime.keys.items()
}
CASSETTE = "cassette"  # in place of a server's URL, for what a cassette tells of its models
RULES_MODEL = "rulebook"  # the desk's own rulebook, by its chat completions
RULES_LABEL = "rulebook (rules, no model)"
EFFORTS: tuple[str, ...] = get_args(Effort)
_MODEL = re.compile(r"[\w./:@+-]{1,200}", re.ASCII)  # a comma in place of the semicolon must not join two entries
_FORM = "write ROLE=RUNTIME:MODEL[:EFFORT], with a semicolon between entries"
_SETTING = "role_models (DESK_ROLE_MODELS)"
_INSTEAD = "substitutes (DESK_SUBSTITUTES)"
_INSTEAD_FORM = "write ROLE=RUNTIME:MODEL[:EFFORT] or MODEL=RUNTIME:MODEL[:EFFORT], with a semicolon between entries"
_TIERS = "voice_models (DESK_VOICE_MODELS)"
_ADDRESSES = ("provider_url", "local_url")
_TIERS_FORM = "write RUNTIME:MODEL[:EFFORT], the best first, with a semicolon between entries"


@dataclass(frozen=True, slots=True)
class RoleModel:
    runtime: str
    model: str
    effort: str | None = None  # how much the model reasons; None is the model's own default
    fallbacks: tuple[str, ...] = ()  # of the LiteLLM runtime, models that answer if this one cannot

    @property
    def models(self) -> tuple[str, ...]:
        """The model, then its fallbacks."""
        return (self.model, *self.fallbacks)

    def provider(self, settings: Settings) -> str:
        """The settings' own, or that of a runtime with models of its own. Beside local models `codex` is the login."""
        if self.runtime == DEFAULT_RUNTIME:
            return "codex" if settings.provider == LOCAL else settings.provider
        return "rulebook" if self.model == RULES_MODEL else self.runtime

    def label(self, settings: Settings) -> str:
        if self.runtime == DEFAULT_RUNTIME and self.provider(settings) == settings.provider:
            return settings.label_of(self.model)
        return RULES_LABEL if self.model == RULES_MODEL else f"{self.runtime}:{self.model}"

    def answered_by(self, model: str | None) -> RoleModel:
        return self if model in (None, self.model) else replace(self, model=str(model))


# The rulebook's policies in the worker itself: for backtests, which are thousands of turns.
RULES = RoleModel("rules", RULES_MODEL)


def role_models(settings: Settings) -> Mapping[str, RoleModel]:
    """Raises SettingError for an entry that cannot be read or served here."""
    from chordesk.agents.desk_roles import roles_in
    from chordesk.agents.roles import GRAPH_ROLES

    default = _model_without_entry(settings)
    of_graphs = (key for key in GRAPH_ROLES if key in (settings.research_roles or ()))
    found = dict.fromkeys((*roles_in(settings), *of_graphs), default)
    named: set[str] = set()
    for entry in filter(None, (part.strip() for part in settings.role_models.split(";"))):
        role, model = _parse(entry, settings)
        if role in named:
            raise _wrong_role(f"{entry!r}: the role {role} has an entry already", "give each role one model")
        named.add(role)
        found[role] = model
    return found


def _model_without_entry(settings: Settings) -> RoleModel:
    in_process = is_backtest(settings.account) and settings.provider == RULES_MODEL
    return RULES if in_process else default_model(settings)


def default_model(settings: Settings) -> RoleModel:
    runtime = LOCAL if settings.provider == LOCAL else DEFAULT_RUNTIME
    model = RULES_MODEL if settings.provider == RULES_MODEL else settings.model
    return RoleModel(runtime, model, settings.effort)


def graph_model(settings: Settings, role: str) -> RoleModel:
    return role_models(settings).get(role) or default_model(settings)


def local_url(settings: Settings) -> str | None:
    return settings.provider_url if settings.provider == LOCAL else settings.local_url


def voice_tiers(settings: Settings) -> tuple[RoleModel, ...]:
    entries = filter(None, (part.strip() for part in settings.voice_models.split(";")))
    return tuple(_model(entry, entry, settings.effort, (_TIERS, _TIERS_FORM)) for entry in entries)


def tier_of(settings: Settings, role: str, tier: int | None) -> RoleModel | None:
    """None, which is the role's, without tiers or with an entry of its own in `DESK_ROLE_MODELS`."""
    tiers = voice_tiers(settings)
    own = any(entry.partition("=")[0].strip() == role for entry in settings.role_models.split(";"))
    return None if tier is None or own or not tiers else tiers[min(tier, len(tiers) - 1)]


def substitutes(settings: Settings) -> Mapping[str, RoleModel]:
    """Return the models that answer while others rest, by role or model. Raises SettingError."""
    found: dict[str, RoleModel] = {}
    for entry in filter(None, (part.strip() for part in settings.substitutes.split(";"))):
        key, equals, rest = (part.strip() for part in entry.partition("="))
        if not (key and equals and rest):
            raise _wrong_in(_INSTEAD, repr(entry), _INSTEAD_FORM)
        if key in found:
            raise _wrong_in(_INSTEAD, f"{entry!r}: {key} has an entry already", "give each role and model one entry")
        found[key] = _model(entry, rest, settings.effort, (_INSTEAD, _INSTEAD_FORM))
    return found


def substitute_of(settings: Settings, role: str, model: RoleModel) -> RoleModel | None:
    """Return the model that the user named for a role or, after that, for its model; None without one."""
    if not settings.substitutes.strip():
        return None
    named = substitutes(settings)
    keys = (role, f"{model.runtime}:{model.model}", model.model)
    found = next((named[key] for key in keys if key in named), None)
    same = found is not None and (found.runtime, found.model) == (model.runtime, model.model)
    return None if same else found


def check_substitutes(settings: Settings, models: set[str]) -> None:
    """Raise SettingError for an entry that names neither a role nor a model in use."""
    roles = _all_roles(settings) if settings.substitutes.strip() else ()
    for key in substitutes(settings):
        if key not in roles and key not in models and key.partition(":")[2] not in models:
            known = ", ".join((*roles, *sorted(models)))
            raise _wrong_in(_INSTEAD, f"{key!r}, which is neither a role nor a model in use", f"there are {known}")


def account_of(settings: Settings, model: RoleModel) -> str:
    """Name the account whose plan a model uses up: its other models rest with it when the plan's limit is met."""
    provider = model.provider(settings)
    if provider == "codex":
        return "the Codex login"
    if provider == "endpoint":
        return f"the account at {urlsplit(settings.provider_url or '').hostname or 'the endpoint'}"
    if model.runtime == LOCAL:
        return f"the account at {urlsplit(local_url(settings) or '').hostname or 'the model server'}"
    return f"the account of {model.model.partition('/')[0] if '/' in model.model else provider}"


def models_in_use(settings: Settings) -> tuple[RoleModel, ...]:
    graphs = (_graph_model(settings, name) for name in settings.graph_models)
    # Without an entry all roles have the same: then no role has to be loaded.
    of_roles = role_models(settings).values() if settings.role_models.strip() else (_model_without_entry(settings),)
    found = (*of_roles, *voice_tiers(settings), *graphs, *substitutes(settings).values())
    if any(one.runtime == LOCAL for one in found) and local_url(settings) is None and settings.cassettes != "replay":
        raise _wrong_role(
            "a model of the runtime local, and there is no server",
            "set DESK_LOCAL_URL, such as http://127.0.0.1:11434/v1",
        )
    return found


def _graph_model(settings: Settings, entry: str) -> RoleModel:
    """Return the model of RUNTIME:MODEL; of a bare name, which may have a colon, that of the default runtime."""
    if entry.partition(":")[0] in RUNTIMES:
        return _model(entry, entry, settings.effort, ("graph_models (DESK_GRAPH_MODELS)", "write RUNTIME:MODEL"))
    return replace(default_model(settings), model=entry)


def keeps(role: Role, settings: Settings) -> bool:
    """A replay's thread is of one day, and a backtest visits each day once: its threads are never taken up again. A
    turn that is kept to be played is asked afresh: what opened it has all that its model saw."""
    return role.keeps_thread and not is_backtest(settings.account) and settings.cassettes == "off"


def models_of(roles: Iterable[RoleModel], runtime: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(one.model for one in roles if one.runtime == runtime))


def runtimes_of(settings: Settings) -> frozenset[str]:
    return frozenset(one.runtime for one in models_in_use(settings))


def asks_a_model(settings: Settings) -> bool:
    """Whether a turn with these settings of a run needs more than code of this process and kept answers."""
    return settings.cassettes != "replay" and runtimes_of(settings) != {RULES.runtime}


def role_labels(settings: Settings) -> Mapping[str, str]:
    return {role: one.label(settings) for role, one in role_models(settings).items()}


def missing_keys(model: str, environ: Mapping[str, str]) -> tuple[str, ...]:
    """None if one holds a key. Unknown providers are not checked. Raises SettingError for an unusable key file."""
    names = PROVIDER_KEYS.get(model.partition("/")[0], ())
    return () if any(secret(environ, name) for name in names) else names


def require_keys(settings: Settings, environ: Mapping[str, str]) -> None:
    if settings.cassettes == "replay":
        return
    tiers = [("a voice", one) for one in voice_tiers(settings)]
    tiers += [("a substitute", one) for one in substitutes(settings).values()]
    tiers += [("a graph", _graph_model(settings, entry)) for entry in settings.graph_models]
    for role, one in (*role_models(settings).items(), *tiers):
        if one.runtime == RULES.runtime or not RUNTIMES[one.runtime].by_provider:
            continue
        for model in one.models:
            if names := missing_keys(model, environ):
                named = f"{role}={one.runtime}:{model}"
                what = f"{named}, and no key for it: {' or '.join(names)} is not set in the environment"
                raise _wrong_role(
                    what, f"export {names[0]} or {names[0]}_FILE where the desk is started, or choose another model"
                )


def _parse(entry: str, settings: Settings) -> tuple[str, RoleModel]:
    role, equals, rest = (part.strip() for part in entry.partition("="))
    if not (role and equals and rest):
        raise _wrong_role(repr(entry), _FORM)
    if role not in (known := _all_roles(settings)):
        remedy = f"choose among {', '.join(known)}, or {features.remedy_for('graph_roles', role)}"
        raise _wrong_role(f"{entry!r}: there is no role {role!r}", remedy)
    return role, _model(entry, rest, settings.effort, (_SETTING, _FORM))


def _all_roles(settings: Settings) -> tuple[str, ...]:
    from chordesk.agents.desk_roles import roles_in
    from chordesk.agents.roles import GRAPH_ROLES

    return (*roles_in(settings), *GRAPH_ROLES)


def _model(entry: str, text: str, effort: str | None, place: tuple[str, str]) -> RoleModel:
    """Return the model of RUNTIME:MODEL[:EFFORT]. place: the entry's setting, and its form. Raises SettingError."""
    setting, form = place
    wrong = partial(_wrong_in, setting)
    runtime, colon, model = (part.strip() for part in text.partition(":"))
    if not (runtime and colon and model):
        raise wrong(repr(entry), form)
    if runtime not in RUNTIMES:
        remedy = f"choose among {', '.join(RUNTIMES)}, or {features.remedy_for('runtimes', runtime)}"
        raise wrong(f"{entry!r}: there is no runtime {runtime!r}", remedy)
    if find_spec(RUNTIMES[runtime].package) is None:
        remedy = f"{RUNTIMES[runtime].install}, or choose another runtime"
        raise wrong(f"{entry!r}: the runtime {runtime} is not installed", remedy)
    if ":" in model and not (runtime == LOCAL and model.rpartition(":")[2].strip() not in EFFORTS):
        # The effort is what follows the last colon: a model's name may have colons of its own, such as qwen3:8b.
        model, _, effort = (part.strip() for part in model.rpartition(":"))
        if not model or effort not in EFFORTS:
            raise wrong(f"{entry!r}: there is no effort {effort!r}", f"{form}; efforts are {', '.join(EFFORTS)}")
    models = [part.strip() for part in model.split("|")] if RUNTIMES[runtime].by_provider else [model]
    for one in models:
        if not _MODEL.fullmatch(one):
            raise wrong(f"{entry!r}: {one!r} is no model's name", form)
        if RUNTIMES[runtime].by_provider and "/" not in one and one != RULES_MODEL:
            remedy = f"write PROVIDER/MODEL, such as anthropic/{one}; {RULES_MODEL} is the desk's own"
            raise wrong(f"{entry!r}: {one!r} names no provider", remedy)
    return RoleModel(runtime, models[0], effort, tuple(models[1:]))


def _wrong_in(setting: str, what: str, remedy: str) -> SettingError:
    return SettingError(f"{setting} has {what}", remedy=remedy)


_wrong_role = partial(_wrong_in, _SETTING)


_LIMITS_SETTING = "turn_limits (DESK_TURN_LIMITS)"
_LIMITS_FORM = (
    "write ROLE=LIMIT:NUMBER or MODEL=LIMIT:NUMBER, with commas between limits and semicolons between entries"
)
# Names in an entry, and the fields of TurnLimits.
_NAMES: Mapping[str, str] = {
    "turn": "turn_seconds",
    "first_token": "first_token_seconds",
    "silence": "silence_seconds",
    "output": "output_tokens",
}


def general_limits(settings: Settings) -> TurnLimits:
    return TurnLimits(
        settings.turn_seconds, settings.first_token_seconds, settings.silence_seconds, settings.output_tokens
    )


def limits_of(settings: Settings, role: str, model: RoleModel) -> TurnLimits:
    """An entry of the role goes before one of the model. Raises SettingError."""
    entries = _entries(settings.turn_limits)
    by_model = entries.get(f"{model.runtime}:{model.model}") or entries.get(model.model) or {}
    return replace(general_limits(settings), **{**by_model, **entries.get(role, {})})


def longest_turn(settings: Settings) -> float:
    own = [float(limits.get("turn_seconds", 0.0)) for limits in _entries(settings.turn_limits).values()]
    return max([settings.turn_seconds, *own])


def check_limits(settings: Settings, models: set[str]) -> None:
    """Raise SettingError for an unreadable or unused entry, or a turn that is longer than a step."""
    roles = _all_roles(settings) if settings.turn_limits.strip() else ()
    for key in _entries(settings.turn_limits):
        if key not in roles and key.partition(":")[2] not in models and key not in models:
            known = ", ".join((*roles, *sorted(models)))
            raise _wrong_limit(f"{key!r}, which is neither a role nor a model in use", f"roles and models are {known}")
    longest = longest_turn(settings)
    if settings.turn_limits and longest >= settings.step_deadline_seconds:
        raise _wrong_limit(
            f"a turn of {longest:g} s, and a step ends after {settings.step_deadline_seconds:g} s",
            f"set DESK_STEP_DEADLINE_SECONDS above {longest:g}",
        )


def _entries(text: str) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for entry in filter(None, (part.strip() for part in text.split(";"))):
        key, equals, limits = (part.strip() for part in entry.partition("="))
        if not (key and equals and limits):
            raise _wrong_limit(repr(entry), _LIMITS_FORM)
        if key in found:
            raise _wrong_limit(f"{entry!r}: {key} has an entry already", "give each role and model one entry")
        found[key] = dict(_limit(entry, one) for one in limits.split(","))
    return found


def _limit(entry: str, text: str) -> tuple[str, Any]:
    name, _, number = (part.strip() for part in text.partition(":"))
    if name not in _NAMES:
        raise _wrong_limit(f"{entry!r}: there is no limit {name!r}", f"limits are {', '.join(_NAMES)}")
    try:
        value = int(number) if name == "output" else float(number)
    except ValueError:
        raise _wrong_limit(f"{entry!r}: {number!r} is not a number", _LIMITS_FORM) from None
    if not 0 < value <= 86_400 * (100 if name == "output" else 1):
        raise _wrong_limit(f"{entry!r}: {number} is out of range", "give seconds up to 86400, or tokens, above 0")
    return _NAMES[name], value


def _wrong_limit(what: str, remedy: str) -> SettingError:
    return SettingError(f"{_LIMITS_SETTING} has {what}", remedy=remedy)


def facts_of(settings: Settings, model: RoleModel) -> ServerFacts | None:
    """Return the kept facts of a local model; None of any other, and of one whose server was not asked yet. Where kept
    turns are played alone, those of an imported cassette go first: its turns were fitted to that context."""
    if model.runtime != LOCAL:
        return None
    urls = (CASSETTE if settings.cassettes == "replay" else None, local_url(settings))
    return next((one for url in urls if url and (one := known_facts(settings.home, url, model.model))), None)


def turns_at_once(settings: Settings, model: RoleModel) -> int | None:
    """The settings' limit, else of a local model its server's slots (1 where unknown); None without one."""
    if settings.model_turns is not None:
        return settings.model_turns
    if model.runtime != LOCAL:
        return None
    facts = facts_of(settings, model)
    return (facts.slots if facts is not None else None) or 1


def line_of(settings: Settings, model: RoleModel) -> str:
    """The model's own, or without DESK_MODEL_TURNS its local server's, whose slots its models share."""
    url = local_url(settings)
    if settings.model_turns is not None or model.runtime != LOCAL or url is None:
        return model.model
    server = without_login(url)
    return f"{server} on {socket.gethostname()}" if is_loopback(urlsplit(server).hostname or "") else server


# Web search by a role's model: which roles may, and on which hosts.

NO_SEARCH = "off"


def searching_roles(settings: Settings) -> frozenset[str]:
    """Raises SettingError for an unknown role, or one whose runtime has no such tool."""
    if (roles := settings.web_search.partition(";")[0].strip()) in ("", NO_SEARCH):
        return frozenset()
    from chordesk.agents.desk_roles import roles_in

    roles_here = roles_in(settings)
    named = [part.strip() for part in roles.split(",") if part.strip()]
    models = role_models(settings)
    for role in named:
        if role not in roles_here:
            raise _wrong_search(f"has {role!r}", f"write {NO_SEARCH}, or roles by comma: {', '.join(roles_here)}")
        if (runtime := models[role].runtime) != DEFAULT_RUNTIME:
            remedy = f"leave {role} out, or give it a model of the runtime {DEFAULT_RUNTIME} in DESK_ROLE_MODELS"
            raise _wrong_search(f"has {role}, and web search is not supported by its runtime {runtime}", remedy)
    return frozenset(named)


def check_web_search(settings: Settings) -> None:
    """Raise SettingError for roles that may not search, and for any on a day of the past: the web of today is later."""
    from chordesk.tools.market.factory import configured_market

    roles = searching_roles(settings)
    if roles and (market := configured_market(settings)).day is not None:
        what = f"is {settings.web_search} with market={market.name}, a day of the past: the web of today is later"
        raise _wrong_search(
            what, f"set DESK_WEB_SEARCH={NO_SEARCH}, or a market in real time such as DESK_MARKET=yahoo"
        )


def search_hosts(settings: Settings, role: str, day: dt.date | None) -> tuple[str, ...] | None:
    """With hosts below them; empty is any host, None: it may not search. day: the run's replayed day."""
    if day is not None or role not in searching_roles(settings):
        return None
    hosts = settings.web_search.partition(";")[2]
    return tuple(name.lower() for part in hosts.split(",") if (name := part.strip()))


def _wrong_search(what: str, remedy: str) -> SettingError:
    return SettingError(f"web_search (DESK_WEB_SEARCH) {what}", remedy=remedy)


def require_roles(settings: Settings) -> None:
    """Check the settings that name roles, and the libraries of their runtimes. Raises SettingError."""
    given = {name for name, field in Settings.model_fields.items() if getattr(settings, name) != field.default}
    features.require_on(given)
    for feature, checks in features.parts("requires", given, kind=Callable):
        for check in checks:
            features.call(feature, check, settings)
    for runtime in sorted(runtimes_of(settings) - APP_SERVERS):
        if (lack := lack_of(runtime)) is not None:
            raise SettingError(f"the runtime {runtime} needs {lack.reason}", remedy=lack.remedy)
    require_maskable(settings)
    if given.isdisjoint(_NAMING_ROLES):
        return
    from chordesk.agents.desk_roles import check_roles

    check_roles(settings)
    models = {name for one in models_in_use(settings) for name in one.models}
    check_limits(settings, models)
    check_substitutes(settings, models)
    check_web_search(settings)


def require_maskable(settings: Settings) -> None:
    """Raises SettingError for a setting by which a model sees what its mask hides."""
    for name in ("web_search", "role_approvals", "venues") if settings.mask else ():
        if getattr(settings, name) != Settings.model_fields[name].default:
            reason = f"DESK_MASK cannot hide what DESK_{name.upper()} shows a model"
            raise SettingError(reason, remedy="leave one of both out")


# The settings that name roles: the roles and all of their tools are loaded for them alone.
_NAMING_ROLES = frozenset(
    {
        "role_models",
        "research_roles",
        "required_roles",
        "role_approvals",
        "turn_limits",
        "web_search",
        "without_tools",
        "substitutes",
        "lenses",
        "own_lenses",
    }
)


def covers(own: Settings, theirs: Settings) -> bool:
    served = {(one.runtime, one.model) for one in (*models_in_use(own), RULES)}
    wanted = {(one.runtime, one.model) for one in models_in_use(theirs)}
    return own.provider == theirs.provider and wanted <= served


def require_means(
    own: Settings, theirs: Settings, kept: Mapping[str, Any], label: str, environ: Mapping[str, str]
) -> None:
    """Raise UsageError, with the model as a noun, where a process with its own settings cannot have those of a run.
    theirs: the run's, with the process's own addresses and keys; kept: as the run has them; label: of its model. A key
    goes to the address of its own settings alone."""
    here = snapshot(own)
    if own.cassettes == "replay":
        return  # no model is asked
    try:
        for name in _ADDRESSES:
            if kept.get(name) != here[name] and name in kept and counts(name, kept) and _uses_address(name, theirs):
                raise UsageError(f"{label} at {kept[name]}" if here[name] is not None else label)
        require_roles(theirs)
        require_keys(theirs, environ)
    except SettingError as error:
        raise UsageError(f"{label}: {error.args[0]}") from None
    if theirs.provider == "endpoint" and own.provider != "endpoint" and own.provider_key is None:
        host = urlsplit(theirs.provider_url or "").hostname or ""
        if not is_loopback(host):
            raise UsageError(f"{label} and its key (DESK_PROVIDER_KEY)")


def _uses_address(name: str, theirs: Settings) -> bool:
    """Return whether a run's models are at an address; without one `models_in_use` would refuse them."""
    if name == "provider_url":
        return True
    named = (*role_models(theirs).values(), *voice_tiers(theirs))
    return theirs.provider != LOCAL and any(one.runtime == LOCAL for one in named)


def digest_of_models(theirs: Settings) -> str:
    """Return a short name of a run's models; runs with the same ones share what serves them."""
    used = sorted(f"{one.runtime}:{one.model}" for one in models_in_use(theirs))
    return hashlib.sha256("|".join((theirs.provider, *used)).encode()).hexdigest()[:8]
