"""One `Settings` for the whole desk, built once by whoever starts a process and handed on.

Sources, the strongest first: the process environment (`DESK_*` and the aliases), a `.env` found upward of the
working folder, a TOML file (`DESK_CONFIG`, else `desk.toml` upward, else `{home}/desk.toml`), the JSON of
`AUTONOMOUS_CONFIG_JSON`, what a `desk up` that runs wrote of itself, and the defaults. The live switch
`TRADER_LIVE` is read from the process environment alone.
"""

from __future__ import annotations

import base64
import datetime as dt
import re
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, get_args

import platformdirs
from pydantic import Field, SecretStr, computed_field, field_validator, model_validator
from pydantic_core import PydanticCustomError
from pydantic_settings import BaseSettings, NoDecode, PydanticBaseSettingsSource, SettingsConfigDict

from models import urls

Lens = Literal["technical", "fundamental", "catalyst", "options"]
BrokerName = Literal["paper", "alpaca-paper", "alpaca-live"]
PLAY_MONEY: frozenset[BrokerName] = frozenset({"paper", "alpaca-paper"})
REAL_MONEY: frozenset[BrokerName] = frozenset(get_args(BrokerName)) - PLAY_MONEY  # brokers that need a mandate
LENSES: tuple[Lens, ...] = ("technical", "fundamental", "catalyst", "options")

# Names the desk's first documents gave to settings; they mean the same as the DESK_ name.
ALIASES: dict[str, str] = {
    "SCREENER_MAX_CANDIDATES": "max_candidates",
    "AUTONOMOUS_STOCK_ONLY": "stock_only",
    "AUTONOMOUS_TRADER_OPTIONS_MODE": "options_mode",
    "AUTONOMOUS_MAX_THREAD_AGE_HOURS": "max_thread_age_hours",
    "AUTONOMOUS_MAX_THREAD_TURNS": "max_thread_turns",
}

_TOKEN = re.compile(r"[!-~]{16,}")
_HOST_NAME = re.compile(r"[A-Za-z0-9._-]+|\[?[0-9A-Fa-f:]*:[0-9A-Fa-f:.]+\]?")
Seconds = Annotated[float, Field(gt=0, le=86_400)]
Count = Annotated[int, Field(ge=1)]


def _together(message: str, *names: str) -> PydanticCustomError:
    """What is wrong with several settings at once; whoever shows it can say where each of them came from."""
    return PydanticCustomError("together", message, {"settings": names})


class Settings(BaseSettings):
    """Every value the desk can be told. Money is in the account's currency."""

    model_config = SettingsConfigDict(extra="forbid", frozen=True, validate_default=True, allow_inf_nan=False)
    LIVE_SWITCH: ClassVar[str] = "TRADER_LIVE"
    # A broker's key and secret: in the environment of the worker that sends orders, in no file and in no setting.
    CREDENTIALS: ClassVar[tuple[str, str]] = ("ALPACA_API_KEY", "ALPACA_SECRET_KEY")

    # Where things live
    home: Path = Field(default_factory=lambda: Path(platformdirs.user_data_dir("chordesk")), description="data folder")
    database_url: SecretStr | None = Field(None, description="SQLAlchemy URL; SQLite in the home by default")
    redis_url: SecretStr | None = Field(None, description="redis://, rediss:// or unix:// URL; `desk up` has its own")

    # The model
    provider: Literal["rulebook", "codex", "endpoint"] = Field("rulebook", description="who answers the model's calls")
    model: str = Field("gpt-5.5", min_length=1, description="model name sent to the provider")
    provider_url: str | None = Field(None, description="base URL of a Responses endpoint (provider=endpoint)")
    provider_key: SecretStr | None = Field(None, description="API key of that endpoint")
    rulebook_url: str | None = Field(None, description="base URL of the rulebook model; `desk up` brings its own")
    rulebook_latency_seconds: float = Field(0.0, ge=0, le=600, description="added to each call of the rulebook model")

    # The market
    market: Literal["replay", "yahoo"] = Field("replay", description="where prices come from")
    replay_date: dt.date = Field(dt.date(2010, 8, 12), description="the replay's today; nothing later is visible")

    # The account
    account: BrokerName = Field("paper", description="whose orders, positions and cash; it is the broker's")
    broker: BrokerName = Field("paper", description="who takes orders")
    broker_seconds: Seconds = Field(10.0, description="limit of one request to the broker")
    alpaca_url: str | None = Field(None, description="base URL of Alpaca's trading API; its own by default")
    trader_live: bool = Field(False, description="TRADER_LIVE=1 in the process environment, and nothing else")
    approval: str | None = Field(None, description="auto, manual or above:NOTIONAL; manual for real money, else auto")
    preview_minutes: float = Field(15.0, gt=0, le=1440, description="a preview may be sent, and approved, for so long")
    orders_seconds: Seconds = Field(
        60.0, description="interval at which orders are asked about and the account checked"
    )
    mandate_public_key: str | None = Field(None, description="verifies mandates; `desk arm` prints it")
    mandate_key_file: Path | None = Field(None, description="the key that signs mandates; only its person has it")
    starting_cash: float = Field(100_000.0, gt=0, description="cash of a new paper account")
    allow_short: bool = Field(False, description="let a sell go below zero shares")
    max_order_notional: float = Field(10_000.0, gt=0, description="largest order")
    max_symbol_notional: float = Field(25_000.0, gt=0, description="most money in one symbol")
    max_gross_notional: float = Field(150_000.0, gt=0, description="most money in all symbols, long and short")
    max_symbol_share: float = Field(0.10, gt=0, le=1, description="largest share of equity in one symbol")
    max_sector_share: float = Field(0.50, gt=0, le=1, description="largest share of equity in one sector; 1 is off")
    max_orders_per_minute: Count = Field(30, description="orders in a minute of real time")
    max_trades_per_day: Count = Field(50, description="orders in a day of the exchange")
    max_daily_loss: float = Field(0.03, gt=0, le=1, description="a day's loss, as a share of equity, that ends buying")
    max_drawdown: float = Field(0.15, gt=0, le=1, description="a fall from the highest equity that ends buying")
    max_consecutive_rejections: Count = Field(3, description="refusals of the broker in a row that end buying")
    max_price_collar: float = Field(0.05, gt=0, le=1, description="distance of a price from the last quote")
    max_quote_age_minutes: float = Field(15.0, gt=0, description="oldest quote that an order may rest on")
    max_verdict_age_hours: float = Field(24.0, gt=0, description="market time after which a verdict is not traded on")
    cooldown_hours: float = Field(24.0, ge=0, description="market time between two orders on one symbol")
    trade_on_partial: bool = Field(False, description="let the trader decide on a run that a budget cut short")
    slippage_bps: float = Field(5.0, ge=0, le=1000, description="paper fills: basis points against the order")
    commission_per_share: float = Field(0.0, ge=0, description="paper fills: commission")
    paper_volume_share: float = Field(0.1, gt=0, le=1, description="paper fills: share of a session's volume")

    # The screen
    universe: str = Field("sp500", min_length=1, description="sp500, a file of symbols, or symbols by comma")
    lenses: Annotated[tuple[Lens, ...], NoDecode] = Field(LENSES, description="lenses of a screen, by comma")
    shard_size: int = Field(131, ge=1, le=150, description="symbols of one screener turn")
    max_candidates: int = Field(20, ge=1, le=500, description="candidates kept by a screen")
    stock_only: bool = Field(True, description="no options, whatever options_mode says")
    options_mode: Literal["stocks-only", "options-only", "both"] = Field(
        "stocks-only", description="what may be traded"
    )

    # Codex
    codex_binary: Path | None = Field(None, description="the codex binary; the pinned wheel's by default")
    codex_ca_file: Path | None = Field(None, description="PEM of trust roots for a hosted provider")
    codex_turns: int = Field(96, ge=1, le=512, description="turns at once of kept threads, and of ephemeral ones")
    codex_kept_processes: int = Field(2, ge=1, le=8, description="app-servers that share a worker's kept threads")
    codex_rpcs: int = Field(64, ge=1, le=64, description="requests in flight to one app-server process")
    codex_recycle_turns: Count = Field(2000, description="turns after which an app-server process is replaced")
    codex_recycle_rss_mb: Count = Field(600, description="resident memory after which it is replaced, MiB")
    model_turns: Count | None = Field(None, description="turns in flight on the model, over all workers; no limit")
    budget_run_tokens: Count | None = Field(None, description="tokens of a run; its remaining turns are skipped")
    budget_day_tokens: Count | None = Field(None, description="tokens of a UTC day, over all runs")
    max_thread_age_hours: float = Field(72.0, gt=0, description="a kept thread older than this starts afresh")
    max_thread_turns: Count = Field(40, description="a kept thread with this many turns starts afresh")
    screener_max_thread_age_hours: float | None = Field(None, gt=0, description="max_thread_age_hours of screeners")
    screener_max_thread_turns: Count | None = Field(None, description="max_thread_turns of screeners")
    research_max_thread_age_hours: float | None = Field(None, gt=0, description="max_thread_age_hours of validators")
    research_max_thread_turns: Count | None = Field(None, description="max_thread_turns of validators")
    trader_max_thread_age_hours: float | None = Field(None, gt=0, description="max_thread_age_hours of the trader")
    trader_max_thread_turns: Count | None = Field(None, description="max_thread_turns of the trader")
    rpc_seconds: Seconds = Field(10.0, description="limit of one app-server request")
    tool_seconds: Seconds = Field(20.0, description="limit of one tool call")
    no_progress_seconds: Seconds = Field(90.0, description="limit of silence within a turn")
    turn_seconds: Seconds = Field(180.0, description="limit of one turn")
    step_deadline_seconds: Seconds = Field(240.0, description="limit of one step, enforced by the lease loop")

    # The queue
    worker_threads: Count = Field(128, description="tasks at once in the research worker; codex_turns at the most")
    lease_seconds: Seconds = Field(9.0, description="a step is its worker's for this long; renewed every third")
    maintain_seconds: Seconds = Field(3.0, description="interval of the sweep that beat starts")
    drain_seconds: float = Field(20.0, ge=0, le=600, description="turns of a worker that is to end may take this long")
    step_attempts: Count = Field(3, description="attempts of a step before it fails")
    run_deadline_minutes: float = Field(60.0, gt=0, description="a run older than this is closed as partial")
    premarket: str = Field("08:30", description="New York time of the pre-market screen, or off")
    midday: str = Field("12:30", description="New York time of the mid-day screen, or off")
    flower_url: str | None = Field(None, description="where Flower listens; `desk up` chooses")
    flower_port: int = Field(0, ge=0, le=65535, description="Flower's port on loopback; 0 takes a free one")

    # Threads, events and what watches them
    blob_url: str | None = Field(None, description="where rollouts go: a folder or fsspec address; else the database")
    rollouts_kept: Count = Field(2, description="newest copies of each thread's rollout that are kept")
    rollout_days: float = Field(14.0, gt=0, description="a thread not used for so long is forgotten, its rollouts too")
    memory_tokens: int = Field(400, ge=50, le=4000, description="most that a prompt says of a symbol's past, tokens")
    event_days: float = Field(30.0, gt=0, description="events of a run that ended longer ago are trimmed")
    events_per_run: int = Field(50_000, ge=100, description="stored events of one run; older ones are trimmed")
    event_stream_length: int = Field(10_000, ge=100, description="most events a Redis stream holds for live readers")
    event_deltas: bool = Field(False, description="stream what a model says while it says it; costs turns per second")
    approval_minutes: float = Field(10.0, gt=0, le=1440, description="how long a model's request waits for a person")
    role_approvals: str = Field("", description="requests a role may make, such as trader:command; declined otherwise")
    api_host: str = Field("127.0.0.1", description="address that `desk api` listens on")
    api_port: int = Field(0, ge=0, le=65535, description="its port; 0 takes a free one")
    api_token: SecretStr | None = Field(None, description="what callers must show; made in the home by default")
    api_hosts: str = Field("", description="further Host names that it answers to, by comma")
    telemetry_file: Path | None = Field(None, description="canonical events are appended here as JSON lines")
    metrics_port: int = Field(0, ge=0, le=65535, description="Prometheus metrics of a worker, on loopback; 0 is off")
    trace_url: str | None = Field(None, description="OTLP/HTTP address that spans are exported to; none by default")
    role_age_hours: float = Field(24.0, gt=0, description="market time after which a role looks at a holding again")
    price_move: float = Field(0.05, gt=0, le=1, description="move of a holding's price that makes its roles due")
    unrealized_change: float = Field(0.05, gt=0, le=1, description="change of its gain that makes its roles due")

    # Logs
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field("INFO", description="lowest level written")
    log_json: bool = Field(False, description="one JSON object a line")

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Only what `setting_sources` merged: it reads every source itself, to say where a value came from."""
        return (init_settings,)

    @model_validator(mode="before")
    @classmethod
    def _account_of_the_broker(cls, data: Any) -> Any:
        if isinstance(data, dict) and "account" not in data and "broker" in data:
            return {**data, "account": data["broker"]}
        return data

    @model_validator(mode="after")
    def _one_account_a_broker(self) -> Settings:
        if self.account != self.broker:
            raise ValueError(f"account={self.account} is not the one of broker={self.broker}: leave DESK_ACCOUNT out")
        return self

    @field_validator("lenses", mode="before")
    @classmethod
    def _split_lenses(cls, value: Any) -> Any:
        if isinstance(value, str):
            value = tuple(part.strip() for part in value.split(",") if part.strip())
        if not value:
            raise ValueError(f"name at least one of {', '.join(LENSES)}")
        return tuple(dict.fromkeys(value))

    @field_validator("premarket", "midday")
    @classmethod
    def _clock_time(cls, value: str) -> str:
        if value != "off":
            try:
                dt.datetime.strptime(value, "%H:%M")
            except ValueError:
                raise ValueError("must be HH:MM or off") from None
        return value

    @field_validator("provider_url", "rulebook_url", "flower_url", "trace_url")
    @classmethod
    def _http(cls, value: str | None) -> str | None:
        if value is not None:
            urls.require_http(value)
        return value

    @field_validator("redis_url")
    @classmethod
    def _redis(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None:
            urls.require_redis(value.get_secret_value())
        return value

    @field_validator("database_url")
    @classmethod
    def _sql(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None:
            urls.require_database(value.get_secret_value())
        return value

    @field_validator("approval")
    @classmethod
    def _approval_policy(cls, value: str | None) -> str | None:
        if value in (None, "auto", "manual"):
            return value
        word, _, notional = str(value).partition(":")
        if word != "above" or not notional.replace(".", "", 1).isdecimal():
            raise ValueError("allowed are auto, manual and above:NOTIONAL, such as above:5000")
        return value

    @field_validator("api_token")
    @classmethod
    def _hard_to_guess(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None and not _TOKEN.fullmatch(value.get_secret_value()):
            raise ValueError("must be 16 characters or more, letters, digits and signs without spaces")
        return value

    @field_validator("api_hosts")
    @classmethod
    def _host_names(cls, value: str) -> str:
        for name in filter(None, (part.strip() for part in value.split(","))):
            if not _HOST_NAME.fullmatch(name):
                raise ValueError(f"{name!r} is no Host name: give names by comma, without scheme, port or *")
        return value

    @field_validator("mandate_public_key")
    @classmethod
    def _ed25519(cls, value: str | None) -> str | None:
        try:
            length = 32 if value is None else len(base64.b64decode(value, validate=True))
        except ValueError:
            length = 0
        if length != 32:
            raise ValueError("must be an Ed25519 public key, 32 bytes as base64, as `desk arm` prints it")
        return value

    @field_validator("home", "codex_binary", "codex_ca_file", "mandate_key_file", "telemetry_file")
    @classmethod
    def _absolute(cls, value: Path | None) -> Path | None:
        return value.expanduser().absolute() if value is not None else None

    @model_validator(mode="after")
    def _deadlines_nest(self) -> Settings:
        limits = ("rpc_seconds", "tool_seconds", "no_progress_seconds", "turn_seconds")
        for name in limits:
            if getattr(self, name) >= self.step_deadline_seconds:
                raise _together(f"{name} must be shorter than step_deadline_seconds", name, "step_deadline_seconds")
        if self.provider == "endpoint" and not self.provider_url:
            raise _together("the provider endpoint needs a URL", "provider", "provider_url")
        return self

    @computed_field  # type: ignore[prop-decorator]
    @property
    def spoken_by(self) -> str:
        """Who speaks in reports and tables: the rulebook is a rule, not a model."""
        return "rulebook (rules, no model)" if self.provider == "rulebook" else f"{self.provider}:{self.model}"

    @property
    def database(self) -> str:
        """The SQLAlchemy URL in force."""
        if self.database_url is not None:
            return self.database_url.get_secret_value()
        return f"sqlite:///{self.home / 'desk.db'}"

    @property
    def real_money(self) -> bool:
        """Whether the broker's orders move any."""
        return self.broker in REAL_MONEY

    @property
    def options_allowed(self) -> bool:
        return not self.stock_only and self.options_mode != "stocks-only"
