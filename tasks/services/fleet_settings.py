"""Settings that all services of a fleet are given, as by `env_file: .env` of compose or a ConfigMap, checked before any
of them starts. Each service reads its own once more; here what only one of them would refuse is refused for all."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from chordesk.agents.role_models import PROVIDER_KEYS, require_keys, require_roles
from chordesk.models.errors import SettingError
from chordesk.models.settings import Settings
from chordesk.models.settings.schema import BROKER_KEYS, HOLDINGS_KEYS, SECRETS
from chordesk.models.settings.sources import load
from chordesk.models.settings.variables import JSON_VARIABLE, PREFIX, SUFFIX
from chordesk.models.urls import masked
from chordesk.tasks.telemetry.emit import EventFile

# The services have 40 s to end (stop_grace_period, terminationGracePeriodSeconds): a worker interrupts what is left.
MOST_DRAIN_SECONDS = 30.0
MOUNTED = "/run/secrets/"
OF_PROVIDERS = frozenset(name for names in PROVIDER_KEYS.values() for name in names)
HIDDEN_NAMES = frozenset(
    {f"{PREFIX}{name.upper()}" for name in SECRETS} | OF_PROVIDERS
    | {*BROKER_KEYS, *HOLDINGS_KEYS, *Settings.DATA_CREDENTIALS}
)  # fmt: skip


def check(environ: Mapping[str, str], fixed: Mapping[str, str], cwd: Path | None = None) -> Settings:
    """fixed: what services have whatever the environment says. Raises SettingError."""
    given = {name: value for name, value in environ.items() if value}
    for name in sorted(HIDDEN_NAMES & given.keys()):
        raise _in_clear(name)
    for name, value in fixed.items():
        if name in given and given[name] != value:
            raise _fixed(name, given[name], value)
    files = {f"{name}{SUFFIX}" for name in HIDDEN_NAMES}
    brought = files & given.keys() - fixed.keys()
    for name in sorted(brought):
        _require_mounted(name, given[name])
    # Files of other services are not here: their names are all that is known of them.
    own = {name: value for name, value in {**given, **fixed}.items() if name not in files or Path(value).exists()}
    loaded = load(own, cwd)
    for name in sorted(SECRETS & loaded.origins.keys()):
        # A file of settings may be a mounted secret, as in Kubernetes; the environment is all services'.
        if (found := loaded.origins[name]).source == JSON_VARIABLE:
            raise _in_clear(f"{PREFIX}{name.upper()}", f"{JSON_VARIABLE}: {found.key}")
    settings = loaded.settings
    _require_no_login(settings)
    if settings.telemetry_file is not None:
        EventFile(settings.telemetry_file).check()
    require_roles(settings)
    require_keys(settings, {name.removesuffix(SUFFIX): name for name in brought})
    _require_named(settings, brought)
    return settings


def _in_clear(name: str, shown: str | None = None) -> SettingError:
    file = _file_of(name)
    return SettingError(
        f"{shown or name} has a secret in clear, which every service would see",
        remedy=f"write it into .secrets/{file} (Kubernetes: into its Secret) and {name}{SUFFIX}={MOUNTED}{file} here",
    )


def _require_no_login(settings: Settings) -> None:
    """Raise SettingError for an address with a login or a key in it; those of secrets are in files."""
    for name in Settings.model_fields.keys() - SECRETS:
        value = getattr(settings, name)
        if name.endswith("_url") and "://" in str(value) and masked(value) != value:
            key = f"{PREFIX}PROVIDER_KEY{SUFFIX}={MOUNTED}provider_key"
            remedy = (
                f"leave it out of the address; a provider's key goes into a file ({key}), as does a storage's login"
            )
            raise SettingError(
                f"{PREFIX}{name.upper()}={masked(value)} has a secret in clear, which every service would see",
                remedy=remedy,
            )


def _file_of(name: str) -> str:
    return name.removeprefix(PREFIX).lower()


def _fixed(name: str, value: str, ours: str) -> SettingError:
    if name == Settings.LIVE_SWITCH:
        remedy = f"leave it out; say it where the fleet is started: {name}={value} docker compose up"
        return SettingError(f"{name}={value} in a file: no file makes a desk live", remedy=remedy)
    return SettingError(
        f"{name}={value}: the services have {ours}, whatever it says", remedy="leave it out, or change it with them"
    )


def _require_mounted(name: str, path: str) -> None:
    file = _file_of(name.removesuffix(SUFFIX))
    if not path.startswith(MOUNTED) or Path(path).name != file:
        raise SettingError(f"{name}={path}: no service has this file", remedy=f"write {name}={MOUNTED}{file}")


def _require_named(settings: Settings, brought: set[str]) -> None:
    """Raise SettingError for keys that a service needs with these settings, and no file has."""
    needed = dict[str, tuple[str, ...]]()
    if keys := settings.sends_to.credentials:
        needed[f"{PREFIX}BROKER={settings.broker}"] = keys
    if settings.option_chains.startswith("alpaca"):
        needed[f"{PREFIX}OPTION_CHAINS={settings.option_chains}"] = Settings.DATA_CREDENTIALS
    for setting, names in needed.items():
        if lacking := [f"{name}{SUFFIX}" for name in names if f"{name}{SUFFIX}" not in brought]:
            lines = " and ".join(f"{name}={MOUNTED}{_file_of(name.removesuffix(SUFFIX))}" for name in lacking)
            raise SettingError(
                f"{setting} needs {' and '.join(lacking)}", remedy=f"add {lines}, and write the keys there"
            )
    if settings.drain_seconds > MOST_DRAIN_SECONDS:
        raise SettingError(
            f"{PREFIX}DRAIN_SECONDS={settings.drain_seconds:g}: a service of a fleet is killed 40 s after its stop",
            remedy=f"give {MOST_DRAIN_SECONDS:g} or less",
        )
    if settings.market == "files" and (settings.data is None or not settings.data.is_dir()):
        raise SettingError(
            f"{PREFIX}MARKET=files: there is no folder {PREFIX}DATA={settings.data or ''} in the services",
            remedy=f"mount it at one path into all of them, migrate too, and name that path in {PREFIX}DATA",
        )
    if settings.provider == "rulebook" and settings.rulebook_url is None:
        raise SettingError(
            f"{PREFIX}PROVIDER=rulebook: no service of a fleet serves the rulebook",
            remedy=f"set {PREFIX}PROVIDER=endpoint and {PREFIX}PROVIDER_URL, or use `desk up`",
        )
