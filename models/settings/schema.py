"""The `Settings` of the whole desk, built once at the start of each process and passed on.

Sources, the strongest first: the process environment (`DESK_*` and the aliases), a `.env` found upward of the working
folder, a TOML file (`DESK_CONFIG`, else `desk.toml` upward, else `{home}/desk.toml`), the JSON of
`AUTONOMOUS_CONFIG_JSON`, the file of a running `desk up`, and the defaults. Each field is marked with its owner
(`owners`), which says who may set it beside a running desk. What sends orders reads the live switch `TRADER_LIVE` from
its process environment alone.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from enum import StrEnum
from functools import partial
from typing import Annotated, Any, ClassVar, Literal
from urllib.parse import urlsplit

from platformdirs import user_data_path
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr, WithJsonSchema, model_validator
from pydantic_core import PydanticCustomError

from chordesk.models import features
from chordesk.models.features import Broker, Market
from chordesk.models.settings.types import (
    Absolute,
    Addresses,
    Channels,
    ClockTime,
    Count,
    Effort,
    HostNames,
    Identity,
    Login,
    ModelCutoffs,
    ModuleNames,
    Names,
    NotifyKinds,
    PageHosts,
    PlaceUrl,
    Policy,
    Prices,
    ProtectionRule,
    PublicKey,
    QuietTimes,
    RedisUrl,
    RoleNames,
    Seconds,
    SqlUrl,
    Token,
    Universe,
    VenueNames,
    WebUrl,
    Zone,
    split,
)

# The owner of each setting: the one rule by which a second terminal, a run and a worker come to the same value.
#
# `Settings` marks each of its fields with one of these makers; the table of docs/reference shows the owners.

MARK = "belongs_to"


class Owner(StrEnum):
    """The owner of a setting. All but `process` are the running desk's: a terminal that differs is refused."""

    RUN = "run"  # kept with each run: its steps use the run's value
    ORDERS = (
        "orders"  # kept with each run; the trade worker's value decides, and no order of a run that differs is sent
    )
    DESK = "desk"  # each process of the desk uses its own, which is the running desk's
    PROCESS = "process"  # each process has its own


def _field(owner: Owner, *arguments: Any, **options: Any) -> Any:
    return Field(*arguments, json_schema_extra={MARK: owner.value}, **options)


of_run = partial(_field, Owner.RUN)
of_orders = partial(_field, Owner.ORDERS)
of_desk = partial(_field, Owner.DESK)
of_process = partial(_field, Owner.PROCESS)


def _known(what: str, known: Mapping[str, Any], name: str) -> str:
    if name not in known:
        raise ValueError(f"choose among {', '.join(known)}, or {features.remedy_for(what, name)}")
    return name


# The markets and the brokers of the desk, and those of features. A market that replays stands still on
# DESK_REPLAY_DATE. The accounts of one broker differ after a hyphen, and share a module.
MARKETS = features.added(
    {
        "replay": Market("chordesk.tools.market.replay.market", replays=True),
        "yahoo": Market("chordesk.tools.market.yahoo.market"),
        "files": Market("chordesk.tools.market.files.market", replays=True),
    },
    "markets",
)
BROKERS = features.added(
    {
        "paper": Broker("chordesk.tools.brokers.paper", play_money=True),
        "alpaca-paper": Broker("chordesk.tools.brokers.alpaca", play_money=True),
        "alpaca-live": Broker("chordesk.tools.brokers.alpaca"),
    },
    "brokers",
)
MarketName = Annotated[
    str, AfterValidator(partial(_known, "markets", MARKETS)), WithJsonSchema({"type": "string", "enum": [*MARKETS]})
]
BrokerName = Annotated[
    str, AfterValidator(partial(_known, "brokers", BROKERS)), WithJsonSchema({"type": "string", "enum": [*BROKERS]})
]
REPLAYING = frozenset(name for name, market in MARKETS.items() if market.replays)
REAL_MONEY = frozenset(name for name, broker in BROKERS.items() if not broker.play_money)  # they need a mandate


class Surroundings(BaseModel):
    """A part of `Settings`, in a module of its own for its length."""

    # Where things live
    home: Absolute = of_process(default_factory=lambda: user_data_path("chordesk"), description="data folder")
    database_url: SqlUrl | None = of_process(None, description="SQLAlchemy URL; SQLite in the home by default")
    features_off: str = of_process(
        "", description="features to do without, by comma: board, graphs, litellm, notifications, samples, a package's"
    )
    redis_url: RedisUrl | None = of_process(
        None, description="redis://, rediss:// or unix:// URL; `desk up` has its own"
    )

    # The model
    provider: Literal["rulebook", "codex", "endpoint", "local"] = of_run(
        "rulebook", description="provider of the model"
    )
    model: str = of_run("gpt-5.5", min_length=1, description="model name sent to the provider")
    role_models: str = of_run(
        "", description="roles with a model of their own: ROLE=RUNTIME:MODEL[:EFFORT], separated by ;"
    )
    depth: Literal["quick", "standard", "deep"] = of_run(
        "standard", description="most model calls of a LiteLLM turn: quick 8, standard 12, deep 20"
    )
    effort: Effort | None = of_run(None, description="reasoning effort; the model's default if not set")
    summary: Literal["auto", "concise", "detailed", "none"] | None = of_desk(
        None, description="reasoning summaries that the model writes; the model's default if not set"
    )
    verbosity: Literal["low", "medium", "high"] | None = of_desk(
        None, description="length of the model's answers; the model's default if not set"
    )
    provider_url: WebUrl | None = of_run(
        None, description="base URL of a Responses endpoint (provider=endpoint) or of a model server (provider=local)"
    )
    provider_key: SecretStr | None = of_desk(None, description="API key of that endpoint or server")
    local_url: WebUrl | None = of_run(
        None, description="base URL of the model server of roles that name local:MODEL beside another provider"
    )
    rulebook_url: WebUrl | None = of_process(
        None, description="base URL of the rulebook model; `desk up` brings its own"
    )
    rulebook_latency_seconds: float = of_desk(0.0, ge=0, le=600, description="added to each call of the rulebook model")

    # The market
    market: MarketName = of_run("replay", description="where prices come from")
    replay_date: dt.date = of_run(dt.date(2010, 8, 12), description="the replay's today; nothing later is visible")
    sec_identity: Identity | None = of_desk(None, description="your NAME and MAIL, which the SEC asks of its readers")
    data: Absolute | None = of_run(None, description="folder of own data (market=files); each worker needs the same")
    data_prices: Literal["auto", "raw", "adjusted"] = of_run(
        "auto", description="own prices: as written, adjusted for splits, or as written where there is a plain close"
    )
    replay_options: Literal["none", "modelled"] = of_orders(
        "none",
        description="option chains of a replay: its own if it has any, or modelled ones, labelled, for paper alone",
    )
    option_chains: Literal["market", "alpaca", "alpaca-opra"] = of_orders(
        "market",
        description="option chains of a live market: its own, or Alpaca's: indicative ones, or opra's by subscription",
    )
    risk_free_rate: float = of_orders(
        0.04, ge=-0.05, le=0.5, description="interest a year in the prices of options; 0.04 is 4 %"
    )

    # Pages of the web
    page_hosts: PageHosts = of_desk(
        "", description="hosts that page_read may read, by comma; none, and it reads nothing"
    )
    page_browser: str | None = of_process(
        None, description="Chromium for pictures of pages, or off; that on the PATH by default"
    )
    web_search: str = of_run(
        "off", description="roles that may search the web by the model's own tool, by comma; or off"
    )
    web_search_hosts: HostNames = of_run(
        "", description="hosts that such a search may use, each with those below it, by comma; any by default"
    )


Lens = Literal["technical", "fundamental", "catalyst", "options"]
LENSES: tuple[Lens, ...] = ("technical", "fundamental", "catalyst", "options")

# Names of settings in the desk's first documents; they mean the same as the DESK_ name.
ALIASES: dict[str, str] = {
    "SCREENER_MAX_CANDIDATES": "max_candidates",
    "AUTONOMOUS_STOCK_ONLY": "stock_only",
    "AUTONOMOUS_TRADER_OPTIONS_MODE": "options_mode",
    "AUTONOMOUS_MAX_THREAD_AGE_HOURS": "max_thread_age_hours",
    "AUTONOMOUS_MAX_THREAD_TURNS": "max_thread_turns",
}


def _together(message: str, *names: str) -> PydanticCustomError:
    """Return an error about several settings at once; `names` lets the message show where each of them came from."""
    return PydanticCustomError("together", message, {"settings": names})


Lenses = Annotated[tuple[Lens, ...], split(f"name at least one of {', '.join(LENSES)}")]


class Settings(Surroundings):
    """All settings of the desk, from the values that `sources` merges. Money is in the account's currency."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True, allow_inf_nan=False)
    LIVE_SWITCH: ClassVar[str] = "TRADER_LIVE"
    # A broker's key and secret: in the environment of the worker that sends orders, in no file and in no setting.
    CREDENTIALS: ClassVar[tuple[str, str]] = ("ALPACA_API_KEY", "ALPACA_SECRET_KEY")
    # Those of a paper account, for data alone: in the environment of each worker that reads chains, in no file either.
    DATA_CREDENTIALS: ClassVar[tuple[str, str]] = ("ALPACA_DATA_API_KEY", "ALPACA_DATA_SECRET_KEY")

    # The account
    account: BrokerName = of_orders("paper", description="account of orders, positions and cash; it is the broker's")
    broker: BrokerName = of_orders("paper", description="broker that receives the orders")
    broker_seconds: Seconds = of_desk(10.0, description="limit of one request to the broker")
    alpaca_url: str | None = of_desk(None, description="base URL of Alpaca's trading API; its own by default")
    alpaca_data_url: str | None = of_desk(
        None, description="base URL in place of Alpaca's data API, on loopback; its own by default"
    )
    trader_live: bool = of_orders(
        False, description="send orders; only TRADER_LIVE=1 in the process environment sets it"
    )
    approval: Policy | None = of_orders(
        None, description="auto, manual or above:NOTIONAL; manual for real money, else auto"
    )
    protect: ProtectionRule = of_orders(
        "none", description="order beside each opening fill: none, stop:N% below its cost, or trail:N% below its high"
    )
    preview_minutes: float = of_orders(
        15.0, gt=0, le=1440, description="time for which a preview may be approved and sent"
    )
    orders_seconds: Seconds = of_desk(60.0, description="interval of the checks of open orders and of the account")
    mandate_public_key: PublicKey | None = of_desk(None, description="verifies mandates; `desk arm` prints it")
    mandate_key_file: Absolute | None = of_process(
        None, description="key file that signs mandates; only its owner has it"
    )
    starting_cash: float = of_run(100_000.0, gt=0, description="cash of a new paper account")
    allow_short: bool = of_orders(False, description="let a sell go below zero shares")
    max_order_notional: float = of_orders(10_000.0, gt=0, description="largest order")
    max_symbol_notional: float = of_orders(25_000.0, gt=0, description="most money in one symbol")
    max_gross_notional: float = of_orders(150_000.0, gt=0, description="most money in all symbols, long and short")
    max_symbol_share: float = of_orders(0.10, gt=0, le=1, description="largest share of equity in one symbol")
    max_sector_share: float = of_orders(0.50, gt=0, le=1, description="largest share of equity in one sector; 1 is off")
    max_orders_per_minute: Count = of_orders(30, description="orders in a minute of real time")
    max_trades_per_day: Count = of_orders(50, description="orders in a day of the exchange")
    max_daily_loss: float = of_orders(
        0.03, gt=0, le=1, description="a day's loss, as a share of equity, that ends buying"
    )
    max_drawdown: float = of_orders(0.15, gt=0, le=1, description="a fall from the highest equity that ends buying")
    max_consecutive_rejections: Count = of_orders(3, description="refusals of the broker in a row that end buying")
    max_price_collar: float = of_orders(0.05, gt=0, le=1, description="distance of a price from the last quote")
    max_quote_age_minutes: float = of_orders(15.0, gt=0, description="oldest quote that an order may be based on")
    max_verdict_age_hours: float = of_orders(
        24.0, gt=0, description="market time after which a verdict is not traded on"
    )
    cooldown_hours: float = of_orders(24.0, ge=0, description="market time between two orders on one symbol")
    trade_on_partial: bool = of_run(False, description="let the trader decide on a run that a budget cut short")
    slippage_bps: float = of_orders(5.0, ge=0, le=1000, description="paper fills: basis points against the order")
    commission_per_share: float = of_orders(0.0, ge=0, description="paper fills: commission")
    paper_volume_share: float = of_orders(0.1, gt=0, le=1, description="paper fills: share of a session's volume")

    # The screen
    universe: Universe = of_run("sp500", min_length=1, description="sp500, a file of symbols, or symbols by comma")
    lenses: Lenses = of_run(LENSES, description="lenses of a screen, by comma")
    screener: Literal["lenses", "unified"] = of_run(
        "lenses", description="a screener for each lens, or one that covers all of them"
    )
    research_roles: RoleNames | None = of_run(
        None, description="roles that research a candidate, by comma; quick, fundamentals, risk, catalyst by default"
    )
    required_roles: RoleNames = of_run(
        ("risk",), description="roles without whose completed report no verdict is BUY, by comma; or none"
    )
    shard_size: int = of_run(131, ge=1, le=150, description="symbols of one screener turn")
    speculate: bool = of_run(False, description="start the roles after the quick one beside it while turns are idle")
    max_candidates: int = of_run(20, ge=1, le=500, description="candidates kept by a screen")
    stock_only: bool = of_orders(True, description="no options, whatever options_mode is")
    options_mode: Literal["stocks-only", "options-only", "both"] = of_orders(
        "stocks-only", description="kinds of instruments that may be traded"
    )

    # Graphs of LangGraph
    graphs: ModuleNames = of_desk((), description="modules whose graphs `desk graph` may play, by comma; they run code")
    graph_models: Names = of_desk((), description="models that graphs may ask beside the roles' own, by comma")
    graph_steps: int = of_run(500, ge=1, le=100_000, description="steps of a graph at the most: its recursion limit")

    # The board
    episode: ClockTime = of_desk("off", description="New York time of the daily episode on exchange days, or off")
    rounds: int = of_run(0, ge=0, le=2, description="rounds of voices between the verdicts of a screen and its trader")
    voices: RoleNames | None = of_run(None, description="voices that take part, by comma; all of them by default")
    questions: int = of_run(10, ge=1, le=40, description="most questions of one episode")
    question_sessions: int = of_run(10, ge=1, le=250, description="sessions until a question of the desk resolves")
    voice_compute: Literal["skill", "equal"] = of_run(
        "skill", description="share of turns of a voice: half by its record, or the same for all"
    )
    voice_extinction: bool = of_run(True, description="leave out a voice once its record shows that it only costs")
    voice_models: str = of_run(
        "", description="models of voices, best first, by their records: RUNTIME:MODEL[:EFFORT], separated by ;"
    )
    model_cutoffs: ModelCutoffs = of_desk(
        "", description="last day that a model was trained on: MODEL=YYYY-MM-DD, separated by ;"
    )
    venues: VenueNames = of_run((), description="event markets to read, by comma: manifold, polymarket, kalshi")
    funding: bool = of_run(False, description="read funding rates of Hyperliquid")
    test_addresses: Addresses = of_desk(
        "",
        description="for tests, addresses in place of venues' own: NAME=URL, separated by ;, of manifold, polymarket, "
        "polymarket_book, kalshi and hyperliquid",
    )
    event_bankroll: float = of_run(1_000.0, gt=0, description="play money for event markets, at the start")
    kelly_fraction: float = of_run(0.25, gt=0, le=1, description="share of Kelly's stake that is used")

    # Codex
    codex_binary: Absolute | None = of_process(None, description="the codex binary; the pinned wheel's by default")
    codex_ca_file: Absolute | None = of_process(None, description="PEM of trust roots for a hosted provider")
    codex_turns: int = of_desk(96, ge=1, le=512, description="turns at once of kept threads, and of ephemeral ones")
    codex_recycle_rss_mb: Count = of_desk(600, description="resident memory after which it is replaced, MiB")
    model_turns: Count | None = of_desk(None, description="running turns of the model, over all workers; no limit")
    budget_run_tokens: int = of_run(
        3_000_000, ge=0, description="tokens of a run; its remaining turns are skipped; 0 is no limit"
    )
    budget_day_tokens: int = of_desk(30_000_000, ge=0, description="tokens of a UTC day, over all runs; 0 is no limit")
    prices: Prices = of_desk(
        "", description="own prices of models: MODEL=INPUT/CACHED/OUTPUT, USD a million tokens, separated by ;"
    )
    max_thread_age_hours: float = of_desk(72.0, gt=0, description="a kept thread unused for longer starts afresh")
    max_thread_turns: Count = of_desk(40, description="a kept thread with this many turns starts afresh")
    thread_tokens: Count = of_desk(60_000, description="a kept thread with more input tokens than this starts afresh")
    thread_answers: int = of_desk(
        1, ge=0, description="last answers that a kept thread sends again; not their questions and tools' answers"
    )
    screener_max_thread_age_hours: float | None = of_desk(None, gt=0, description="max_thread_age_hours of screeners")
    screener_max_thread_turns: Count | None = of_desk(None, description="max_thread_turns of screeners")
    screener_thread_tokens: Count | None = of_desk(
        1_000, description="thread_tokens of screeners; less than any prompt of theirs, so each screen starts afresh"
    )
    research_max_thread_age_hours: float | None = of_desk(None, gt=0, description="max_thread_age_hours of validators")
    research_max_thread_turns: Count | None = of_desk(None, description="max_thread_turns of validators")
    research_thread_tokens: Count | None = of_desk(None, description="thread_tokens of validators")
    trader_max_thread_age_hours: float | None = of_desk(None, gt=0, description="max_thread_age_hours of the trader")
    trader_max_thread_turns: Count | None = of_desk(None, description="max_thread_turns of the trader")
    trader_thread_tokens: Count | None = of_desk(None, description="thread_tokens of the trader")
    rpc_seconds: Seconds = of_desk(10.0, description="limit of one app-server request")
    tool_seconds: Seconds = of_desk(20.0, description="limit of one tool call")
    turn_seconds: Seconds = of_desk(1200.0, description="limit of one turn")
    first_token_seconds: Seconds = of_desk(
        300.0, description="limit of the wait for a model call's first token; any sign of the provider begins it anew"
    )
    silence_seconds: Seconds = of_desk(120.0, description="limit of a provider's silence once a token has come")
    output_tokens: Count = of_desk(8000, description="most tokens that one model call may write beyond its reasoning")
    turn_limits: str = of_desk(
        "",
        description="own limits of roles or models: NAME=turn:S,first_token:S,silence:S,output:TOKENS, separated by ;",
    )
    step_deadline_seconds: Seconds = of_desk(1500.0, description="limit of one step, enforced by the lease loop")

    # The queue
    worker_threads: Count = of_desk(128, description="tasks at once in the research worker; codex_turns at the most")
    lease_seconds: Seconds = of_desk(9.0, description="time for which a worker holds a step; renewed every third of it")
    maintain_seconds: Seconds = of_desk(3.0, description="interval of the sweep that beat starts")
    start_seconds: Seconds = of_process(600.0, description="longest wait of `desk up` for programs that make progress")
    drain_seconds: float = of_process(
        20.0, ge=0, le=600, description="time that a stopping worker gives its turns to end; at most 2 under `desk up`"
    )
    step_attempts: Count = of_desk(3, description="attempts of a step before it fails")
    run_deadline_minutes: float = of_run(240.0, gt=0, description="a run older than this is closed as partial")
    premarket: ClockTime = of_desk("08:30", description="New York time of the pre-market screen, or off")
    midday: ClockTime = of_desk("12:30", description="New York time of the mid-day screen, or off")
    flower_url: WebUrl | None = of_process(None, description="address of Flower; `desk up` sets it")
    flower_auth: Login | None = of_process(None, description="USER:PASSWORD that Flower asks for; no login by default")
    flower_port: int = of_process(0, ge=0, le=65535, description="Flower's port on loopback; 0 takes a free one")

    # Threads, events and what watches them
    blob_url: str | None = of_desk(
        None, description="storage of rollouts: a folder or fsspec address; else the database"
    )
    report_url: PlaceUrl | None = of_desk(
        None, description="place for the report of each run that ends: a folder or fsspec address; none by default"
    )
    rollouts_kept: Count = of_desk(2, description="newest copies of each thread's rollout that are kept")
    rollout_days: float = of_desk(14.0, gt=0, description="age at which an unused thread is deleted with its rollouts")
    memory: Literal["on", "off"] = of_run(
        "on", description="what prompts and report_latest repeat of earlier runs; off: nothing"
    )
    memory_tokens: int = of_run(400, ge=50, le=4000, description="most tokens of a prompt about a symbol's past")
    event_days: float = of_desk(30.0, gt=0, description="events of a run that ended longer ago are trimmed")
    keep_artifact_days: float = of_desk(
        90.0, ge=0, description="pictures of runs that ended longer ago are removed, after a day at least; 0 keeps them"
    )
    keep_run_days: float = of_desk(
        365.0,
        ge=0,
        description="runs that ended longer ago are deleted, or shortened where scores need them; 0 keeps all",
    )
    events_per_run: int = of_desk(50_000, ge=100, description="stored events of one run; older ones are trimmed")
    event_deltas: bool = of_desk(False, description="stream a model's text while it is written; costs turns per second")
    approval_minutes: float = of_desk(10.0, gt=0, le=1440, description="time that a model's request waits for a person")
    role_approvals: str = of_desk(
        "", description="requests a role may make, such as trader:command; declined otherwise"
    )
    api_host: str = of_process("127.0.0.1", description="address that `desk api` listens on")
    api_port: int = of_process(0, ge=0, le=65535, description="its port; 0 takes a free one")
    api_token: Token | None = of_process(None, description="token of callers; generated in the home by default")
    api_hosts: HostNames = of_process("", description="further Host names that it accepts, by comma")
    telemetry_file: Absolute | None = of_process(None, description="canonical events are appended here as JSON lines")
    metrics_host: str = of_process(
        "127.0.0.1", min_length=1, description="address of a process's metrics and health, which have no password"
    )
    metrics_port: int = of_process(
        0, ge=0, le=65535, description="its port; 0 is off. `desk up` counts on from it, a fixed port for each process"
    )
    trace_url: WebUrl | None = of_process(
        None, description="OTLP/HTTP address that spans are exported to; none by default"
    )
    role_age_hours: float = of_run(24.0, gt=0, description="market time after which a role looks at a holding again")
    price_move: float = of_run(0.05, gt=0, le=1, description="move of a holding's price that makes its roles due")
    unrealized_change: float = of_run(0.05, gt=0, le=1, description="change of its gain that makes its roles due")

    # Notifications: the process that sends them alone reads these
    notify_channels: Channels | None = of_process(
        None, description="channels of notifications: NAME=URL of apprise, separated by spaces or lines"
    )
    notify_file: Absolute | None = of_process(None, description="file with such lines, in place of notify_channels")
    notify_kinds: NotifyKinds = of_process(
        "all", description="kinds for all channels, and CHANNEL=KIND,KIND for one, separated by ;"
    )
    notify_quiet: QuietTimes = of_process(
        "off", description="quiet hours of all channels, HH:MM-HH:MM, and CHANNEL=HH:MM-HH:MM for one, separated by ;"
    )
    notify_zone: Zone = of_process("America/New_York", description="time zone of quiet hours and of times in messages")
    notify_window_seconds: float = of_process(
        30.0, ge=0, le=3600, description="time in which events of one run and kind become one message"
    )
    notify_per_hour: Count = of_process(
        30, description="messages an hour to each channel; more wait and become one; halts and unknown orders are free"
    )
    notify_page_url: WebUrl | None = of_process(
        None, description="address of the page for links in messages; that of this home's service by default"
    )

    # Logs
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = of_process("INFO", description="lowest level written")
    log_json: bool = of_process(False, description="one JSON object a line")

    @model_validator(mode="before")
    @classmethod
    def _account_of_the_broker(cls, data: Any) -> Any:
        # A broker that there is not is the error, and not its account.
        if isinstance(data, dict) and "account" not in data and data.get("broker") in BROKERS:
            return {**data, "account": data["broker"]}
        return data

    @model_validator(mode="after")
    def _settings_fit_together(self) -> Settings:
        if self.account != self.broker:
            message = f"account={self.account} is not that of broker={self.broker}: leave DESK_ACCOUNT out"
            raise _together(message, "account", "broker")
        for name in ("rpc_seconds", "tool_seconds", "first_token_seconds", "silence_seconds", "turn_seconds"):
            if getattr(self, name) >= self.step_deadline_seconds:
                raise _together(f"{name} must be shorter than step_deadline_seconds", name, "step_deadline_seconds")
        if self.provider in ("endpoint", "local"):
            if not self.provider_url:
                raise _together(f"the provider {self.provider} needs a URL", "provider", "provider_url")
            if self.provider_key is not None and "@" in urlsplit(self.provider_url).netloc:
                raise _together("give a login in the URL or a key, not both", "provider_url", "provider_key")
        return self

    @property
    def model_label(self) -> str:
        """The name of the default model in reports and tables: the rulebook is a set of rules, not a model."""
        return self.label_of(self.model)

    def label_of(self, model: str) -> str:
        return "rulebook (rules, no model)" if self.provider == "rulebook" else f"{self.provider}:{model}"

    @property
    def database(self) -> str:
        """The SQLAlchemy URL in force."""
        if self.database_url is not None:
            return self.database_url.get_secret_value()
        return f"sqlite:///{self.home / 'desk.db'}"

    def address_of(self, name: str, own: str) -> str:
        """Return the address that a test set in place of a venue's own."""
        return dict(part.split("=", 1) for part in self.test_addresses.split(";") if part).get(name, own)

    @property
    def real_money(self) -> bool:
        """True if the broker's orders move real money."""
        return self.broker in REAL_MONEY

    @property
    def options_allowed(self) -> bool:
        return not self.stock_only and self.options_mode != "stocks-only"
