"""What the runtime is built from: the part of the settings it needs, and where its folders are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from models.errors import SettingError
from models.modes import MODES, RunMode
from models.settings import Settings

LOOPBACK_HOSTS = frozenset({"127.0.0.1", "localhost", "::1"})


class ThreadLimits(NamedTuple):
    """Past either a kept thread starts afresh."""

    age_hours: float
    turns: int


@dataclass(frozen=True, slots=True)
class RuntimeConfig:
    """Settings of one worker's runtime. Times are seconds, sizes MiB.

    provider_url is None for the Codex login. login_home holds the host's only auth.json. environ is handed
    to the app-server as it is (proxies, say); nothing else of our environment is. flags are further `-c` settings.
    mode_limits: limits of the kept threads of those modes that have their own, over the two for all.
    deltas: have the app-server pass on what a model says while it says it.
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
    mode_limits: Mapping[str, ThreadLimits] = field(default_factory=dict)
    rollout_days: float = 14.0
    rpc_seconds: float = 10.0
    tool_seconds: float = 20.0
    no_progress_seconds: float = 90.0
    turn_seconds: float = 180.0
    lease_seconds: float = 9.0
    health_seconds: float = 15.0
    deltas: bool = False

    def thread_limits(self, mode: str) -> ThreadLimits:
        """The limits of a mode's kept threads; of one without its own, those for all."""
        return self.mode_limits.get(mode, ThreadLimits(self.max_thread_age_hours, self.max_thread_turns))

    @property
    def most_thread_age_hours(self) -> float:
        """Beyond this no thread of any mode is gone on with."""
        return max([self.max_thread_age_hours, *(limits.age_hours for limits in self.mode_limits.values())])

    @property
    def loopback(self) -> bool:
        """Whether the model speaks plain HTTP on this host, so that no trust root is needed."""
        parts = urlsplit(self.provider_url or "")
        return parts.scheme == "http" and parts.hostname in LOOPBACK_HOSTS


def runtime_config(settings: Settings, worker: str) -> RuntimeConfig:
    """The runtime's part of the settings. worker names the home: the same name finds its threads again.

    Raises SettingError when the chosen provider has no address.
    """
    urls = {"rulebook": settings.rulebook_url, "endpoint": settings.provider_url, "codex": None}
    url = urls[settings.provider]
    if url is None and settings.provider == "rulebook":
        raise SettingError(
            "rulebook_url (DESK_RULEBOOK_URL) is empty",
            remedy="start the services with `desk up`, which serves the rulebook model, or set its URL",
        )
    key = settings.provider_key.get_secret_value() if settings.provider_key else None
    return RuntimeConfig(
        home=settings.home,
        worker=worker,
        provider=settings.provider,
        model=settings.model,
        provider_url=url,
        provider_key=key if settings.provider == "endpoint" else None,
        binary=settings.codex_binary,
        ca_file=settings.codex_ca_file,
        turns=settings.codex_turns,
        kept_processes=settings.codex_kept_processes,
        rpcs=settings.codex_rpcs,
        recycle_turns=settings.codex_recycle_turns,
        recycle_rss_mb=settings.codex_recycle_rss_mb,
        max_thread_age_hours=settings.max_thread_age_hours,
        max_thread_turns=settings.max_thread_turns,
        mode_limits={mode: _limits(settings, mode) for mode in MODES},
        rollout_days=settings.rollout_days,
        rpc_seconds=settings.rpc_seconds,
        tool_seconds=settings.tool_seconds,
        no_progress_seconds=settings.no_progress_seconds,
        turn_seconds=settings.turn_seconds,
        lease_seconds=settings.lease_seconds,
        deltas=settings.event_deltas,
    )


def _limits(settings: Settings, mode: RunMode) -> ThreadLimits:
    """A mode's own, where it is set, over the one for all."""
    hours: float | None = getattr(settings, f"{mode}_max_thread_age_hours")
    turns: int | None = getattr(settings, f"{mode}_max_thread_turns")
    return ThreadLimits(hours or settings.max_thread_age_hours, turns or settings.max_thread_turns)
