"""The settings of a desk as plain data: published by a running `desk up`, kept with each run, and read from there."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any

from pydantic import TypeAdapter, ValidationError

from chordesk.models.errors import UsageError
from chordesk.models.settings.accounts import is_backtest
from chordesk.models.settings.owners import MARK, Owner
from chordesk.models.settings.schema import Settings
from chordesk.models.settings.surroundings import REPLAYING
from chordesk.models.urls import without_login

# It follows from the broker.
_DERIVED = frozenset({"account"})
# A worker's own: of a URL a snapshot lacks the login, and of a folder it is the content that must agree.
_OF_THE_WORKER = frozenset({"provider_url", "local_url", "data", "data_prices"})
# Settings that have an effect with some values of another one alone.
_NEEDS: Mapping[str, tuple[str, frozenset[str]]] = {
    "provider_url": ("provider", frozenset({"endpoint", "local"})),
    "replay_date": ("market", frozenset(REPLAYING)),
    "data": ("market", frozenset({"files"})),
    "data_prices": ("market", frozenset({"files"})),
}


def owner_of(name: str) -> Owner:
    """Return the owner of a setting; a run's, if it is not marked."""
    extra = Settings.model_fields[name].json_schema_extra
    return Owner(str(extra[MARK])) if isinstance(extra, Mapping) and MARK in extra else Owner.RUN


def _is_secret(name: str) -> bool:
    return "SecretStr" in str(Settings.model_fields[name].annotation)


# The running desk's own, without secrets, in the order of the class.
PUBLISHED: tuple[str, ...] = tuple(
    name
    for name in Settings.model_fields
    if owner_of(name) is not Owner.PROCESS and name not in _DERIVED and not _is_secret(name)
)
ORDERS: tuple[str, ...] = tuple(name for name in PUBLISHED if owner_of(name) is Owner.ORDERS)


def plain(settings: Settings) -> dict[str, Any]:
    """Return the desk's own settings as JSON values, by name. URLs may hold a login."""
    return settings.model_dump(mode="json", include=set(PUBLISHED))


def snapshot(settings: Settings) -> dict[str, Any]:
    """Return the desk's own settings as JSON values that anyone may see: no secret, and no login in a URL."""
    return {name: _public(name, value) for name, value in plain(settings).items()}


def snapshot_value(name: str, given: Any) -> Any:
    """Return the value that a snapshot has for a setting as a source gave it. Raises pydantic's ValidationError."""
    adapter = _adapter(name)
    return _public(name, adapter.dump_python(adapter.validate_python(given), mode="json"))


def counts(name: str, theirs: Mapping[str, Any]) -> bool:
    """Return whether a setting has an effect with the provider and the market of a snapshot."""
    other, values = _NEEDS.get(name, (name, None))
    return values is None or theirs.get(other) in values


def differing(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> list[str]:
    """Return the settings in which a snapshot differs from another's, of those that have an effect there."""
    return [
        name for name in PUBLISHED
        if name in ours and name in theirs and ours[name] != theirs[name] and counts(name, theirs)
    ]  # fmt: skip


def in_run(settings: Settings, kept: Mapping[str, Any] | None, account: str = "") -> Settings:
    """Return the settings with which a worker does a step of a run: its own, and in their place those which the run
    keeps. kept: the run's snapshot, None for a run of a version that kept none. account: the run's; that of a backtest
    stands in place of the broker's, and no source of settings can name one.

    Raises UsageError for a value that this version cannot read.
    """
    names = [name for name in PUBLISHED if owner_of(name) in (Owner.RUN, Owner.ORDERS) and name in (kept or {})]
    found: dict[str, Any] = {}
    for name in (name for name in names if name not in _OF_THE_WORKER):
        try:
            found[name] = _adapter(name).validate_python((kept or {})[name])
        except ValidationError:
            reason = f"the run was opened with {name}={(kept or {})[name]!r}, which this version cannot read"
            raise UsageError(reason, remedy="upgrade the workers, or open a new run") from None
    if "broker" in found:
        found["account"] = found["broker"]
    if is_backtest(account):
        found["account"] = account
    return settings.model_copy(update=found)


def with_values(settings: Settings, values: Mapping[str, Any]) -> Settings:
    """Return the settings with these in place of their own. Raises pydantic's ValidationError."""
    found = {name: _adapter(name).validate_python(value) for name, value in values.items()}
    return settings.model_copy(update={**found, **({"account": found["broker"]} if "broker" in found else {})})


@cache
def _adapter(name: str) -> TypeAdapter[Any]:
    info = Settings.model_fields[name]
    return TypeAdapter(Annotated[info.annotation, *info.metadata] if info.metadata else info.annotation)  # type: ignore


def _public(name: str, value: Any) -> Any:
    return without_login(value) if name.endswith("_url") and isinstance(value, str) else value
