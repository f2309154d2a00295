"""Configuration of the Codex runtime, and launch of app-servers such that the model sees exactly our tools."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import codex_cli_bin
import orjson

from chordesk.agents.gateway.facts import ServerFacts
from chordesk.agents.providers.liveness import TurnLimits
from chordesk.agents.role_models import (
    DEFAULT_RUNTIME,
    LOCAL,
    default_model,
    general_limits,
    local_url,
    models_in_use,
    models_of,
)
from chordesk.agents.runtime import RECYCLE_RSS_MB, ROLLOUT_DAYS, THREAD_ANSWERS
from chordesk.models.errors import BinaryMissing, CodexError, LoginMissing, SettingError
from chordesk.models.files import replacing, user_home
from chordesk.models.home import make_folder
from chordesk.models.settings import Settings
from chordesk.models.settings.types import thread_limits
from chordesk.models.states import MODES, RunMode

LOOPBACK_HOSTS = frozenset({"127.0.0.1", "localhost", "::1"})
THREAD_TOKENS = 60_000  # a kept thread with more input tokens than this starts afresh
# Less than any prompt of a screener, so that each screen starts afresh.
SCREENER_TOKENS = 1_000


class ThreadLimits(NamedTuple):
    """Past any of them a kept thread starts afresh."""

    age_hours: float  # since its last use
    turns: int
    tokens: int  # input tokens of its last model call


def login_home() -> Path:
    return (user_home() or Path("/")) / ".codex"


@dataclass(frozen=True, slots=True)
class RuntimeConfig:
    """Settings of one worker's runtime. Times are seconds, sizes MiB. A field that is named as a setting, or as one of
    the prefix `codex_`, has its value. provider_url is None for the Codex login. login_home holds the host's only
    auth.json. environ is passed to the app-server as it is; of our own environment the proxies are, unless the model is
    on loopback. flags are further `-c` settings."""

    home: Path
    worker: str
    provider: str
    model: str
    provider_url: str | None
    provider_key: str | None = field(repr=False, default=None)
    binary: Path | None = None
    ca_file: Path | None = None
    login_home: Path = field(default_factory=login_home)
    environ: Mapping[str, str] = field(default_factory=dict)
    flags: Mapping[str, Any] = field(default_factory=dict)
    turns: int = 96
    kept_processes: int = 2
    rpcs: int = 64
    recycle_turns: int = 2000
    recycle_rss_mb: int = RECYCLE_RSS_MB
    max_thread_age_hours: float = 72.0
    max_thread_turns: int = 40
    thread_tokens: int = THREAD_TOKENS
    # a thread that is gone on with has the last so many answers of its earlier turns; None for all that there is
    thread_answers: int | None = THREAD_ANSWERS
    # limits on the kept threads of single modes, over those for all
    mode_limits: Mapping[str, ThreadLimits] = field(default_factory=dict)
    rollout_days: float = ROLLOUT_DAYS
    rpc_seconds: float = 10.0
    limits: TurnLimits = field(default_factory=TurnLimits)
    lease_seconds: float = 9.0
    health_seconds: float = 15.0
    idle_seconds: float = 30.0
    deltas: bool = False  # have the app-server send parts of an answer as they come
    roles_models: tuple[str, ...] = ()  # models that single roles have beside `model`
    summary: str | None = None  # as the protocol names it; None is the model's own default
    facts: Callable[[str], Awaitable[ServerFacts]] | None = None

    @property
    def gated(self) -> bool:
        return self.provider in ("endpoint", LOCAL)

    @property
    def models(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((self.model, *self.roles_models)))

    def thread_limits(self, mode: str) -> ThreadLimits:
        for_all = ThreadLimits(self.max_thread_age_hours, self.max_thread_turns, self.thread_tokens)
        return self.mode_limits.get(mode, for_all)

    @property
    def most_thread_age_hours(self) -> float:
        return max([self.max_thread_age_hours, *(limits.age_hours for limits in self.mode_limits.values())])

    @property
    def loopback(self) -> bool:
        parts = urlsplit(self.provider_url or "")
        return parts.scheme == "http" and parts.hostname in LOOPBACK_HOSTS


def runtime_config(settings: Settings, worker: str, runtime: str = DEFAULT_RUNTIME) -> RuntimeConfig:
    """worker: the home's name; the same name finds its threads again. Raises SettingError without the provider's
    address."""
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
        "model": models[0] if runtime != (default := default_model(settings)).runtime and models else default.model,
        "provider_url": url,
        "provider_key": key if provider == settings.provider and provider in ("endpoint", LOCAL) else None,
        "limits": general_limits(settings),
        "mode_limits": {mode: _limits(settings, mode) for mode in MODES},
        "deltas": settings.event_deltas,
        "roles_models": models,
    }
    return RuntimeConfig(**same | own)


def _limits(settings: Settings, mode: RunMode) -> ThreadLimits:
    own = thread_limits(settings.thread_limits).get(mode, {})
    tokens = SCREENER_TOKENS if mode == "screener" else THREAD_TOKENS
    return ThreadLimits(
        own.get("hours", settings.max_thread_age_hours),
        int(own.get("turns", settings.max_thread_turns)),
        int(own.get("tokens", tokens)),
    )


# The one certificate to trust when the model is served on loopback.
#
# The app-server loads its trust roots for every model call, even over plain HTTP: with the system's bundle that
# is most of a turn's cost. A loopback provider needs no roots at all, and an empty file is refused, so it gets
# this one. Its private key was never kept, so nothing can be signed with it.

LOOPBACK_PEM = """\
-----BEGIN CERTIFICATE-----
MIIBsTCCAVegAwIBAgIUP/b8Mk9SJi1ccvRUKj70IgNAydYwCgYIKoZIzj0EAwIw
LTErMCkGA1UEAwwiY2hvcmRlc2sgbG9vcGJhY2sgKHRydXN0cyBub3RoaW5nKTAg
Fw0yNjExMjAxOTIxMjdaGA8yMTI2MTAyNzE5MjEyN1owLTErMCkGA1UEAwwiY2hv
cmRlc2sgbG9vcGJhY2sgKHRydXN0cyBub3RoaW5nKTBZMBMGByqGSM49AgEGCCqG
SM49AwEHA0IABGc9gNlW4Lf8iQ4/dcA22OswRkSfGXysbENOKqZFuL9AVswYG9Qe
SkzCfeyNw9Cd7fmWsPgx0mvx5VwSuM8PQK2jUzBRMB0GA1UdDgQWBBTekn1HOHb4
/TiJB59PCDkkF60Z+DAfBgNVHSMEGDAWgBTekn1HOHb4/TiJB59PCDkkF60Z+DAP
BgNVHRMBAf8EBTADAQH/MAoGCCqGSM49BAMCA0gAMEUCIQCFIYKmhne0bIH/3wBT
NYI/o7LsHKfUBFGRpHwhq6tLFwIgAxZWltyNT0RVfruxE5zt5ybAPeqI6//Lylb5
6R6KJt8=
-----END CERTIFICATE-----
"""


def write_loopback_pem(folder: Path) -> Path:
    path = folder / "loopback.pem"
    with replacing(path) as file:
        file.write(LOOPBACK_PEM.encode("ascii"))
    return path


# Launch of app-servers such that the model sees exactly our tools.
#
# Two things hide them otherwise: built-in tools, taken away by flags, and the bundled model catalog, whose
# entries make most models call tools through a script tool. So each process gets a catalog of the models that roles
# use and of no others, made from the binary's own entries with those traits removed: an entry costs time in each
# turn.

TEMPLATE = "gpt-5.5"  # entry used for a model the binary does not know: it takes plain function tools
PROVIDER = "desk"
COMMAND_SECONDS = 30.0
IDLE_MS = 86_400_000

_FEATURES_OFF = (
    "shell_tool", "unified_exec", "apps", "multi_agent", "goals", "view_image", "plugins", "hooks", "shell_snapshot",
    "image_generation", "tool_suggest", "skill_search", "sleep_tool", "code_mode_host", "memories", "browser_use",
    "computer_use", "unbounded_connection_retries",
)  # fmt: skip

STRIP: dict[str, Any] = {
    **{f"features.{name}": False for name in _FEATURES_OFF},
    "web_search": "disabled",
    "tools.experimental_request_user_input": {"enabled": False},
    "tools.update_plan": {"enabled": False},
    "include_environment_context": False,
    "include_permissions_instructions": False,
    "include_apps_instructions": False,
    "include_collaboration_mode_instructions": False,
    "project_doc_max_bytes": 0,
    "skills.include_instructions": False,
    "skills.bundled.enabled": False,
    "analytics.enabled": False,
    "check_for_update_on_startup": False,
}

# The binary's own jemalloc, with two arenas that give freed pages back: 30 MB less a process, and as fast.
ALLOCATOR, LEAN = "_RJEM_MALLOC_CONF", "narenas:2,dirty_decay_ms:500,muzzy_decay_ms:0"

# Traits of a catalog entry that hide function tools or add others.
_PLAIN: dict[str, Any] = {
    "tool_mode": None,
    "multi_agent_version": None,
    "apply_patch_tool_type": None,
    "experimental_supported_tools": [],
    "use_responses_lite": False,
    "supports_search_tool": False,
    "prefer_websockets": False,
    # The bundled limit cuts a tool's answer at about 40 KB, in the middle of its JSON.
    "truncation_policy": {"mode": "tokens", "limit": 60_000},
}


@dataclass(frozen=True, slots=True)
class Launch:
    """Parameters that all processes of the runtime share. login: a digest of the login's account, empty without one."""

    binary: str
    version: str
    flags: tuple[str, ...]
    env: Mapping[str, str]
    model_provider: str
    login: str = ""

    def argv(self, sqlite_home: Path) -> list[str]:
        flags = [*self.flags, "-c", f"sqlite_home={_toml(str(sqlite_home))}"]
        return [self.binary, *flags, "app-server", "--listen", "stdio://", "--strict-config"]

    def environment(self, codex_home: Path) -> dict[str, str]:
        return {**self.env, "HOME": str(codex_home), "CODEX_HOME": str(codex_home)}


# A context that is nine tenths full would have the model sum up its thread in the middle of a turn, the answers of
# tools with it. It has not with these, and with more of the context in effect than there is (measured, 0.163: it takes
# all three). A context that is too small for the next call is the server's to refuse.
UNCOMPACTED: dict[str, Any] = {
    "model_auto_compact_token_limit": 1_000_000_000,
    "model_auto_compact_token_limit_scope": "body_after_prefix",
}
PROXIES = frozenset({"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"})  # also in small letters


async def prepare(config: RuntimeConfig, url: str | None = None) -> Launch:
    """Find the binary, write the model catalog and the certificate file, and compute the flags. url: of the gateway,
    where model calls go through one. Raises BinaryMissing, CodexError, and what asking a model server raises."""
    binary = find_binary(config.binary)
    folder = config.home / "codex" / "catalog"
    make_folder(folder)
    version = (await _output(binary, folder, "--version")).decode().split()[-1]
    facts = [await config.facts(model) for model in config.models] if config.facts is not None else []
    catalog = await _catalog(binary, version, config.models, folder, facts)
    provider, provider_flags = _provider(config, url or config.provider_url)
    flags: dict[str, Any] = {
        **STRIP,
        **provider_flags,
        "model": config.model,
        "model_provider": provider,
        "model_catalog_json": str(catalog),
        # A conversation's end unsubscribes its thread, and an idle thread costs about 1 MB.
        "thread_unload_delay_secs": 0,
        **(UNCOMPACTED if facts else {}),
        **config.flags,
    }
    pairs = tuple(part for key, value in flags.items() for part in ("-c", f"{key}={_toml(value)}"))
    return Launch(binary, version, pairs, _environment(config, folder), provider, login_digest(config))


def find_binary(configured: Path | None) -> str:
    """Return the configured binary, or the one of the pinned wheel. Raises BinaryMissing."""
    path = configured
    if path is None:
        try:
            path = Path(codex_cli_bin.bundled_codex_path())
        except FileNotFoundError as error:
            raise BinaryMissing(f"the wheel openai-codex-cli-bin brought no binary: {error}") from error
    if not path.is_file() or not os.access(path, os.X_OK):
        raise BinaryMissing(f"no executable Codex binary at {path}")
    return str(path)


def slim_catalog(
    bundled: Mapping[str, Any], models: Sequence[str], facts: Sequence[ServerFacts] = ()
) -> dict[str, Any]:
    """Return a catalog of the wanted models; a model that the binary does not know gets the template's entry, with what
    the facts of its server say. Prompts of the entries are dropped: every thread brings its own base instructions.
    Raises CodexError when the bundled catalog has neither a model nor the template."""
    entries = {entry["slug"]: entry for entry in bundled.get("models", [])}
    served = {one.model: _served(one) for one in facts}
    return {"models": [_entry(entries, model) | served.get(model, {}) for model in models]}


def _served(facts: ServerFacts) -> dict[str, Any]:
    found: dict[str, Any] = {
        "supports_parallel_tool_calls": bool(facts.parallel_tools),
        "input_modalities": ["text", "image"] if facts.images else ["text"],
        "support_verbosity": False,
    }
    if not facts.reasoning:
        found |= {"default_reasoning_level": None, "supported_reasoning_levels": []}
    if facts.context is not None:
        # The desk fits a turn to the context itself, before it begins; see UNCOMPACTED.
        tokens = {"context_window": facts.context, "max_context_window": facts.context}
        found |= {**tokens, "effective_context_window_percent": 1000}
    return found


def _entry(entries: Mapping[str, Mapping[str, Any]], model: str) -> dict[str, Any]:
    entry = entries.get(model) or entries.get(TEMPLATE)
    if entry is None:
        known = ", ".join(sorted(entries)) or "nothing"
        raise CodexError(f"the binary's model catalog has neither {model} nor {TEMPLATE}; it has {known}")
    own = {"slug": model, "display_name": model, "base_instructions": "", "model_messages": None, "upgrade": None}
    return {**entry, **_PLAIN, **own}


def find_login(config: RuntimeConfig) -> Path | None:
    """Return the host's login; None when the provider needs none. Raises LoginMissing."""
    if config.provider != "codex":
        return None
    source = config.login_home / "auth.json"
    if not source.is_file():
        raise LoginMissing(f"no Codex login at {source}")
    return source


def login_digest(config: RuntimeConfig) -> str:
    """Return a digest of the account of the host's login, which shows no more than whether it is another one; empty
    where the provider needs no login or the login names no account. A thread holds content that is encrypted for its
    account, of no use to another. Raises LoginMissing."""
    if (source := find_login(config)) is None:
        return ""
    try:
        account = orjson.loads(source.read_bytes()).get("tokens", {}).get("account_id")
    except (OSError, orjson.JSONDecodeError, AttributeError):
        return ""
    return hashlib.sha256(account.encode()).hexdigest()[:16] if isinstance(account, str) else ""


def link_login(config: RuntimeConfig, codex_home: Path) -> None:
    """A link: a copied token would go stale. Raises LoginMissing."""
    if (source := find_login(config)) is None:
        return
    link = codex_home / "auth.json"
    if link.is_symlink() or link.exists():
        link.unlink()
    link.symlink_to(source)


async def _catalog(
    binary: str, version: str, models: Sequence[str], folder: Path, facts: Sequence[ServerFacts]
) -> Path:
    path = folder / f"{version}-{_file_name([*models, *(str(_served(one)) for one in facts)])}.json"
    if not path.exists():
        raw = await _output(binary, folder, "debug", "models", "--bundled")
        with replacing(path) as file:
            file.write(orjson.dumps(slim_catalog(orjson.loads(raw), models, facts)))
    return path


def _provider(config: RuntimeConfig, url: str | None) -> tuple[str, dict[str, Any]]:
    if config.provider == "codex":
        return "openai", {"cli_auth_credentials_store": "file"}
    entry: dict[str, Any] = {
        "name": config.provider,
        "base_url": url,
        "wire_api": "responses",
        "request_max_retries": 1,
        # The desk sees a silent stream itself, and knows how long this one may be silent. A call that the app-server
        # began again would be paid for again.
        "stream_max_retries": 0 if config.gated else 1,
        "stream_idle_timeout_ms": IDLE_MS,
    }
    return PROVIDER, {f"model_providers.{PROVIDER}": entry}


def _environment(config: RuntimeConfig, folder: Path) -> dict[str, str]:
    env = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", ALLOCATOR: LEAN}
    if "TZ" in os.environ:
        env["TZ"] = os.environ["TZ"]  # it writes the end of a limit in local time, which is read back here
    near = config.loopback or config.gated
    if not near:  # a proxy has no business between us and loopback
        env |= {name: value for name, value in os.environ.items() if name.upper() in PROXIES}
    env |= config.environ
    if near:
        env["SSL_CERT_FILE"] = str(write_loopback_pem(folder))
    elif config.ca_file is not None:
        env["SSL_CERT_FILE"] = str(config.ca_file)
    return env


async def _output(binary: str, home: Path, *arguments: str) -> bytes:
    env = {"PATH": "/usr/bin:/bin", "HOME": str(home), "CODEX_HOME": str(home)}
    pipe = asyncio.subprocess.PIPE
    try:
        process = await asyncio.create_subprocess_exec(binary, *arguments, env=env, stdout=pipe, stderr=pipe)
    except OSError as error:
        raise BinaryMissing(f"cannot run the Codex binary {binary}: {error.strerror}") from error
    try:
        out, err = await asyncio.wait_for(process.communicate(), COMMAND_SECONDS)
    except TimeoutError:
        raise CodexError(f"{binary} {' '.join(arguments)} did not end within {COMMAND_SECONDS:g} s") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode != 0:
        tail = err.decode(errors="replace")[-300:]
        raise CodexError(f"{binary} {' '.join(arguments)} ended with {process.returncode}: {tail}")
    return out


def _file_name(models: Sequence[str]) -> str:
    shown = "".join(letter if letter.isalnum() or letter in "-._" else "_" for letter in models[0])
    return f"{shown[:100]}-{hashlib.sha256(orjson.dumps(list(models))).hexdigest()[:12]}"


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ",".join(f"{key}={_toml(item)}" for key, item in value.items()) + "}"
    return orjson.dumps(value).decode()
