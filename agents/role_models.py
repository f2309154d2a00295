"""The runtime, model and effort of each role: the settings' own, overridden by `DESK_ROLE_MODELS`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import get_args

from agents.roles import ROLES
from models.errors import SettingError
from models.settings import Effort, Settings

# Names of the runtimes, and the package that each one needs.
RUNTIMES: Mapping[str, str] = {"codex": "codex_cli_bin", "litellm": "litellm"}
DEFAULT_RUNTIME = "codex"
KEEPING = frozenset({"codex"})  # runtimes that keep a thread from one run to the next
# How to install the package of a runtime that is an extra of the desk.
_EXTRAS = {"litellm": "pip install 'chordesk[litellm]'"}
# Variables with the key of a provider, for a check before anything starts; the library knows more providers.
PROVIDER_KEYS: Mapping[str, tuple[str, ...]] = {
    "anthropic": ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"),
    "openai": ("OPENAI_API_KEY",),
    "gemini": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    "mistral": ("MISTRAL_API_KEY",),
    "deepseek": ("DEEPSEEK_API_KEY",),
    "groq": ("GROQ_API_KEY",),
    "openrouter": ("OPENROUTER_API_KEY",),
    "xai": ("XAI_API_KEY",),
}
RULES_MODEL = "rulebook"  # of LiteLLM's roles: the desk's own rulebook, by its chat completions
RULES_LABEL = "rulebook (rules, no model)"
EFFORTS: tuple[str, ...] = get_args(Effort)
_MODEL = re.compile(r"[\w./:@+-]{1,200}", re.ASCII)  # a comma in place of the semicolon must not join two entries
_FORM = "write ROLE=RUNTIME:MODEL[:EFFORT], with a semicolon between entries"


@dataclass(frozen=True, slots=True)
class RoleModel:
    """Runtime and model of a role. effort: how much the model reasons; None is the model's own default. fallbacks: of
    the LiteLLM runtime, models that answer where this one cannot."""

    runtime: str
    model: str
    effort: str | None = None
    fallbacks: tuple[str, ...] = ()

    @property
    def models(self) -> tuple[str, ...]:
        """The model, then those that may answer in its place."""
        return (self.model, *self.fallbacks)

    def provider(self, settings: Settings) -> str:
        """Return the provider of its turns: the settings' own, or that of a runtime which has its own models."""
        if self.runtime == DEFAULT_RUNTIME:
            return settings.provider
        return "rulebook" if self.model == RULES_MODEL else self.runtime

    def label(self, settings: Settings) -> str:
        """Return the model's name as reports and tables show it."""
        if self.runtime == DEFAULT_RUNTIME:
            return settings.label_of(self.model)
        return RULES_LABEL if self.model == RULES_MODEL else f"{self.runtime}:{self.model}"

    def answered_by(self, model: str | None) -> RoleModel:
        """Return the same role's with the model that answered in a turn, None for its own."""
        return self if model in (None, self.model) else replace(self, model=str(model))


def role_models(settings: Settings) -> Mapping[str, RoleModel]:
    """Return the model of every role. Raises SettingError for an entry that cannot be read or served here."""
    default = RoleModel(DEFAULT_RUNTIME, settings.model, settings.effort)
    found = dict.fromkeys(ROLES, default)
    named: set[str] = set()
    for entry in filter(None, (part.strip() for part in settings.role_models.split(";"))):
        role, model = _parse(entry, settings.effort)
        if role in named:
            raise _wrong(f"{entry!r}: the role {role} has an entry already", "give each role one model")
        named.add(role)
        found[role] = model
    return found


def models_of(roles: Iterable[RoleModel], runtime: str) -> tuple[str, ...]:
    """Return the distinct models that roles use in one runtime, in the order of the roles."""
    return tuple(dict.fromkeys(one.model for one in roles if one.runtime == runtime))


def runtimes_of(settings: Settings) -> frozenset[str]:
    """Return the names of the runtimes that some role uses. Raises SettingError."""
    return frozenset(one.runtime for one in role_models(settings).values())


def role_labels(settings: Settings) -> Mapping[str, str]:
    """Return the name of each role's model as reports and tables show it."""
    return {role: one.label(settings) for role, one in role_models(settings).items()}


def missing_keys(model: str, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the variables of which one has to have the key of a model's provider, when none has it. A provider that is
    not in the table is not checked."""
    names = PROVIDER_KEYS.get(model.partition("/")[0], ())
    return () if any(environ.get(name) for name in names) else names


def require_keys(settings: Settings, environ: Mapping[str, str]) -> None:
    """Raise SettingError for a model of the LiteLLM runtime whose provider's key is in no variable."""
    for role, one in role_models(settings).items():
        for model in one.models if one.runtime == "litellm" else ():
            if names := missing_keys(model, environ):
                what = f"{role}=litellm:{model}, and no key for it: {' or '.join(names)} is not set in the environment"
                raise _wrong(what, f"export {names[0]} where the desk is started, or choose another model")


def _parse(entry: str, effort: str | None) -> tuple[str, RoleModel]:
    role, equals, rest = (part.strip() for part in entry.partition("="))
    runtime, colon, model = (part.strip() for part in rest.partition(":"))
    if not (role and equals and runtime and colon and model):
        raise _wrong(repr(entry), _FORM)
    if role not in ROLES:
        raise _wrong(f"{entry!r}: there is no role {role!r}", f"roles are {', '.join(ROLES)}")
    if runtime not in RUNTIMES:
        raise _wrong(f"{entry!r}: there is no runtime {runtime!r}", f"runtimes are {', '.join(RUNTIMES)}")
    if find_spec(RUNTIMES[runtime]) is None:
        remedy = f"{_EXTRAS.get(runtime, f'install its package {RUNTIMES[runtime]}')}, or choose another runtime"
        raise _wrong(f"{entry!r}: the runtime {runtime} is not installed", remedy)
    if ":" in model:
        # The effort is what follows the last colon: a model's name may have colons of its own.
        model, _, effort = (part.strip() for part in model.rpartition(":"))
        if not model or effort not in EFFORTS:
            raise _wrong(f"{entry!r}: there is no effort {effort!r}", f"{_FORM}; efforts are {', '.join(EFFORTS)}")
    models = [part.strip() for part in model.split("|")] if runtime == "litellm" else [model]
    for one in models:
        if not _MODEL.fullmatch(one):
            raise _wrong(f"{entry!r}: {one!r} is no model's name", _FORM)
        if runtime == "litellm" and "/" not in one and one != RULES_MODEL:
            remedy = f"write PROVIDER/MODEL, such as anthropic/{one}; {RULES_MODEL} is the desk's own"
            raise _wrong(f"{entry!r}: {one!r} names no provider", remedy)
    return role, RoleModel(runtime, models[0], effort, tuple(models[1:]))


def _wrong(what: str, remedy: str) -> SettingError:
    return SettingError(f"role_models (DESK_ROLE_MODELS) has {what}", remedy=remedy)
