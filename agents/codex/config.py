"""Configuration of the Codex runtime: its part of the settings, and the places of its folders."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from chordesk.agents.gateway.facts import ServerFacts
from chordesk.agents.limits import general_limits
from chordesk.agents.pulse import TurnLimits
from chordesk.agents.role_models import DEFAULT_RUNTIME, LOCAL, default_model, local_url, models_in_use, models_of
from chordesk.models.errors import SettingError
from chordesk.models.settings import Settings
from chordesk.models.states import MODES, RunMode

LOOPBACK_HOSTS = frozenset({"127.0.0.1", "localhost", "::1"})


class ThreadLimits(NamedTuple):
    """Past any of them a kept thread starts afresh. age_hours: since its last use; tokens: input tokens of its last
    model call."""

    age_hours: float
    turns: int
    tokens: int


@dataclass(frozen=True, slots=True)
class RuntimeConfig:
    """Settings of one worker's runtime. Times are seconds, sizes MiB. A field that is named as a setting, or as one of
    the prefix `codex_`, has its value.

    provider_url is None for the Codex login. login_home holds the host's only auth.json. environ is passed to the
    app-server as it is; of our own environment the proxies are, unless the model is on loopback. flags are further `-c`
    settings.
    thread_answers: a thread that is gone on with has the last so many answers of its earlier turns; None for all that
    there is. mode_limits: limits on the kept threads of single modes, over those for all. deltas: have the app-server
    send parts of an answer as they come. roles_models: models that single roles have beside `model`. summary,
    verbosity, personality: as the protocol names them; None is the model's own default.
    """

    home: Path
    worker: str
    provider: str
    model: str
    provider_url: str | None
    provider_key: str | None = field(repr=False, default=None)
    binary: Path | None = None
    ca_file: Path | None = None
    login_home: Path = field(default_factory=lambda: Path.home() / ".codex")
    environ: Mapping[str, str] = field(default_factory=dict)
    flags: Mapping[str, Any] = field(default_factory=dict)
    turns: int = 96
    kept_processes: int = 2
    rpcs: int = 64
    recycle_turns: int = 2000
    recycle_rss_mb: int = 600
    max_thread_age_hours: float = 72.0
    max_thread_turns: int = 40
    thread_tokens: int = 60_000
    thread_answers: int | None = 1
    mode_limits: Mapping[str, ThreadLimits] = field(default_factory=dict)
    rollout_days: float = 14.0
    rpc_seconds: float = 10.0
    limits: TurnLimits = field(default_factory=TurnLimits)
    lease_seconds: float = 9.0
    health_seconds: float = 15.0
    deltas: bool = False
    roles_models: tuple[str, ...] = ()
    summary: str | None = None
    verbosity: str | None = None
    personality: str | None = None
    facts: Callable[[str], Awaitable[ServerFacts]] | None = None

    @property
    def gated(self) -> bool:
        """Return whether model calls go through the gateway, which sees all that the provider sends."""
        return self.provider in ("endpoint", LOCAL)

    @property
    def models(self) -> tuple[str, ...]:
        """Return every model that a turn may run on, the default one first."""
        return tuple(dict.fromkeys((self.model, *self.roles_models)))

    def thread_limits(self, mode: str) -> ThreadLimits:
        """Return the limits of a mode's kept threads: its own, or those for all."""
        for_all = ThreadLimits(self.max_thread_age_hours, self.max_thread_turns, self.thread_tokens)
        return self.mode_limits.get(mode, for_all)

    @property
    def most_thread_age_hours(self) -> float:
        """Return the hours without use beyond which no thread of any mode is resumed."""
        return max([self.max_thread_age_hours, *(limits.age_hours for limits in self.mode_limits.values())])

    @property
    def loopback(self) -> bool:
        """Return whether the model is served by plain HTTP on this host, so that no trust root is needed."""
        parts = urlsplit(self.provider_url or "")
        return parts.scheme == "http" and parts.hostname in LOOPBACK_HOSTS


def runtime_config(settings: Settings, worker: str, runtime: str = DEFAULT_RUNTIME) -> RuntimeConfig:
    """Return the settings' part of a runtime of app-servers. worker: the home's name; the same name finds its threads
    again.

    Raises SettingError when the chosen provider has no address.
    """
    provider = LOCAL if runtime == LOCAL else "codex" if settings.provider == LOCAL else settings.provider
    urls = {"rulebook": settings.rulebook_url, "endpoint": settings.provider_url, LOCAL: local_url(settings)}
    url = urls.get(provider)
    if url is None and provider == "rulebook":
        raise SettingError(
            "rulebook_url (DESK_RULEBOOK_URL) is empty",
            remedy="start the services with `desk up`, which serves the rulebook model, or set its URL",
        )
    key = settings.provider_key.get_secret_value() if settings.provider_key else None
    names = {one.name for one in fields(RuntimeConfig)}
    same = {name: value for key, value in settings if (name := key.removeprefix("codex_")) in names}
    models = models_of(models_in_use(settings), runtime)
    own: dict[str, Any] = {
        "worker": worker,
        "provider": provider,
        "model": models[0] if runtime != default_model(settings).runtime and models else settings.model,
        "provider_url": url,
        "provider_key": key if provider == settings.provider and provider in ("endpoint", LOCAL) else None,
        "limits": general_limits(settings),
        "mode_limits": {mode: _limits(settings, mode) for mode in MODES},
        "deltas": settings.event_deltas,
        "roles_models": models,
    }
    return RuntimeConfig(**same | own)


def _limits(settings: Settings, mode: RunMode) -> ThreadLimits:
    """Return the limits of a mode, with those for all in place of what it does not set."""
    hours: float | None = getattr(settings, f"{mode}_max_thread_age_hours")
    turns: int | None = getattr(settings, f"{mode}_max_thread_turns")
    tokens: int | None = getattr(settings, f"{mode}_thread_tokens")
    return ThreadLimits(
        hours or settings.max_thread_age_hours, turns or settings.max_thread_turns, tokens or settings.thread_tokens
    )
