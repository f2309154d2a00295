"""What a running desk publishes: its lock and addresses, its settings as data, its standing, and names of accounts."""

from __future__ import annotations

import datetime as dt
import fcntl
import json
import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any

from pydantic import TypeAdapter, ValidationError

from chordesk.models.answers import Frozen
from chordesk.models.errors import SettingError, UsageError
from chordesk.models.exchanges import HOME, of_place, zone_of
from chordesk.models.files import replacing
from chordesk.models.settings.schema import MARK, REAL_MONEY, REPLAYING, SECRETS, Owner, Settings
from chordesk.models.urls import masked, without_login

PAPER = "paper"
BACKTEST = "backtest-"
_RESEARCH = "-research"
_DIGITS = 12


def backtest_account(run_id: str) -> str:
    """Return the account of a backtest: its own, with the random end of its id."""
    return f"{BACKTEST}{run_id[-_DIGITS:]}"


def research_account(account: str) -> str:
    """Return the account which the research of a backtest sees when its days run beside each other: always empty."""
    return f"{account}{_RESEARCH}"


def is_backtest(account: str) -> bool:
    return account.startswith(BACKTEST)


def is_paper(account: str) -> bool:
    return account == PAPER or is_backtest(account)


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
    extra: Any = Settings.model_fields[name].json_schema_extra
    return Owner(extra[MARK])


# The running desk's own, without secrets, in the order of the class.
PUBLISHED: tuple[str, ...] = tuple(
    name for name in Settings.model_fields if owner_of(name) is not Owner.PROCESS and name not in SECRETS
)
ORDERS: tuple[str, ...] = tuple(name for name in PUBLISHED if owner_of(name) is Owner.ORDERS)


def plain(settings: Settings) -> dict[str, Any]:
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
    used = settings.model_copy(update=found)
    return used.on_backtest(account) if is_backtest(account) else used


def with_values(settings: Settings, values: Mapping[str, Any]) -> Settings:
    """Return the settings with these in place of their own. Raises pydantic's ValidationError."""
    return settings.model_copy(update={name: _adapter(name).validate_python(value) for name, value in values.items()})


@cache
def _adapter(name: str) -> TypeAdapter[Any]:
    info = Settings.model_fields[name]
    return TypeAdapter(Annotated[info.annotation, *info.metadata] if info.metadata else info.annotation)  # type: ignore


def _public(name: str, value: Any) -> Any:
    return without_login(value) if name.endswith("_url") and isinstance(value, str) else value


ADDRESSES = frozenset({"redis_url", "rulebook_url", "database_url"})
SERVES = "serves"  # whether the API is among its programs
PLACES = "places"  # of the desk's data, without logins: a terminal that has others is refused
FEATURES_OFF = "features_off"  # so is one with other features: no worker may know a run that it opens
BESIDE = frozenset({PLACES, FEATURES_OFF})  # what is published beside settings


def lock_path(home: Path) -> Path:
    return home / "run" / "up.lock"


def services_path(home: Path) -> Path:
    return home / "run" / "services.json"


def is_up(home: Path) -> bool:
    """Return True if a `desk up` holds this home. Raises OSError when its lock cannot be read."""
    try:
        with lock_path(home).open("rb") as handle:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except BlockingIOError:
        return True
    return False


def serves(home: Path) -> bool | None:
    """None while that is not known: a desk that starts has not written its file."""
    try:
        return bool(json.loads(services_path(home).read_text(encoding="utf-8")).get(SERVES))
    except (OSError, ValueError, AttributeError):
        return None


def write(home: Path, table: Mapping[str, Any]) -> None:
    with replacing(services_path(home)) as file:
        file.write((json.dumps(dict(table), indent=2) + "\n").encode())


def read(home: Path) -> dict[str, Any]:
    """Empty when no `desk up` runs. Raises SettingError when it cannot be read."""
    path = services_path(home)
    try:
        if not is_up(home):
            return {}
        table = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise _unreadable(path, str(error)) from None
    if not isinstance(table, dict):
        raise _unreadable(path, "holds no JSON object")
    return {name: value for name, value in table.items() if name in ADDRESSES or name in PUBLISHED or name in BESIDE}


def places(settings: Settings) -> dict[str, str]:
    redis = settings.redis_url
    found = {"database_url": settings.database, "redis_url": redis.get_secret_value() if redis is not None else None}
    return {name: masked(url) for name, url in found.items() if url is not None}


def has_settings(table: Mapping[str, Any]) -> bool:
    return "provider" in table


def api_path(home: Path) -> Path:
    return home / "run" / "api.json"


def write_api(home: Path, url: str) -> None:
    """The file stays, so that the next start can take the same port: open pages go on there."""
    with replacing(api_path(home)) as file:
        file.write((json.dumps({"url": url, "pid": os.getpid()}) + "\n").encode())


def read_api(home: Path) -> tuple[str, bool] | None:
    """The URL, and whether that process lives; None when it never was."""
    try:
        table = json.loads(api_path(home).read_text(encoding="utf-8"))
        url, pid = str(table["url"]), int(table["pid"])
    except (OSError, ValueError, TypeError, KeyError):
        return None
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return url, False
    except PermissionError:
        return url, True
    return url, True


def last_api_port(home: Path) -> int:
    found = read_api(home)
    port = found[0].rpartition(":")[2] if found is not None else ""
    return int(port) if port.isdecimal() else 0


def _unreadable(path: Path, why: str) -> SettingError:
    return SettingError(f"{path}: {why}", remedy="stop `desk up`, which wrote it, and start it again")


class Standing(Frozen):
    """Live, preview or, of a backtest, simulated; broker and account, model, market and day.

    live: None where it is not known. real_money: orders that are sent move real money. exchange: the code of that of
    the market; day: of the market, where that is.
    """

    live: bool | None
    real_money: bool
    broker: str
    account: str
    model: str
    market: str
    day: dt.date
    exchange: str = HOME

    def __str__(self) -> str:
        switch = "unknown whether live" if self.live is None else "LIVE" if self.live else "preview"
        switch = "simulated" if is_backtest(self.account) else switch
        broker = f"{self.broker} (REAL MONEY)" if self.real_money else self.broker
        return (
            f"{switch}; broker {broker}; account {self.account}; model {self.model}; "
            f"market {self.market} on {self.day:%Y-%m-%d}{of_place(self.exchange)}"
        )


def standing_of(settings: Settings) -> Standing:
    today = dt.datetime.now(zone_of(settings.exchange)).date()
    return Standing(
        live=settings.trader_live,
        real_money=settings.trader_live and settings.real_money,
        broker=settings.broker,
        account=settings.account,
        model=settings.model_label,
        market=settings.market,
        day=settings.replay_date if settings.market in REPLAYING else today,
        exchange=settings.exchange,
    )


def standing_of_run(
    kept: Mapping[str, Any] | None, account: str, model: str, market: str, market_now: dt.datetime
) -> Standing:
    """Return the standing of a run by its columns. kept: its settings, None in a run of a version that kept none."""
    live, broker = (kept or {}).get("trader_live"), (kept or {}).get("broker", account)
    exchange = str((kept or {}).get("exchange", HOME))
    return Standing(
        live=live,
        real_money=live is not False and broker in REAL_MONEY,
        broker=broker,
        account=account,
        model=model,
        market=market,
        day=market_now.astimezone(zone_of(exchange)).date(),
        exchange=exchange,
    )
