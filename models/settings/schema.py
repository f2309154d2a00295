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
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeVar
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    SecretStr,
    ValidationError,
    ValidationInfo,
    WithJsonSchema,
    create_model,
    model_validator,
)
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError

from chordesk.models import features
from chordesk.models.descriptions import NAME, said
from chordesk.models.errors import SettingError
from chordesk.models.exchanges import EXCHANGES, HOME, exchange_named
from chordesk.models.features import Broker, Market
from chordesk.models.files import data_folder
from chordesk.models.order_terms import TRAILING, not_taken, parse_protection
from chordesk.models.settings.types import (
    Absolute,
    Channels,
    ClockTime,
    Count,
    Currency,
    Effort,
    HostNames,
    Identity,
    LensTexts,
    Login,
    MaskKinds,
    ModelCutoffs,
    ModuleNames,
    Names,
    NotifyKinds,
    PageHosts,
    PlaceUrl,
    Policy,
    Prices,
    PromptTexts,
    ProtectionRule,
    PublicKey,
    QuietTimes,
    RedisUrl,
    RoleNames,
    Seconds,
    SqlUrl,
    ThreadLimits,
    Token,
    Universe,
    VenueNames,
    WebSearch,
    WebUrl,
    Zone,
    own_texts,
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


def _field(owner: Owner, default: Any, description: str, example: str, **options: Any) -> Any:
    """default: the value, or what makes it. example: a value other than the default."""
    given = {"default_factory": default} if callable(default) else {"default": default}
    return Field(description=description, examples=[example], json_schema_extra={MARK: owner.value}, **given, **options)


of_run = partial(_field, Owner.RUN)
of_orders = partial(_field, Owner.ORDERS)
of_desk = partial(_field, Owner.DESK)
of_process = partial(_field, Owner.PROCESS)


def _known(what: str, known: Mapping[str, Any], name: str) -> str:
    if name not in known:
        raise ValueError(f"choose among {', '.join(known)}, or {features.remedy_for(what, name)}")
    return name


def _exchange(name: str) -> str:
    if (found := exchange_named(name)) is None:
        raise ValueError(f"choose among {', '.join(EXCHANGES)}")
    return found


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
_ALPACA, _ALPACA_KEYS = "chordesk.tools.brokers.alpaca", ("ALPACA_API_KEY", "ALPACA_SECRET_KEY")
# Its answers come with the order; what its gateway still has after a lost one, it drops within minutes.
_ALPACA_KNOWS = 900.0
BROKERS = features.added(
    {
        "paper": Broker("chordesk.tools.brokers.paper", play_money=True),
        "alpaca-paper": Broker(_ALPACA, play_money=True, credentials=_ALPACA_KEYS, knows_within=_ALPACA_KNOWS),
        "alpaca-live": Broker(_ALPACA, credentials=_ALPACA_KEYS, knows_within=_ALPACA_KNOWS),
    },
    "brokers",
)
ExchangeName = Annotated[str, AfterValidator(_exchange), WithJsonSchema({"type": "string", "enum": [*EXCHANGES]})]
MarketName = Annotated[
    str, AfterValidator(partial(_known, "markets", MARKETS)), WithJsonSchema({"type": "string", "enum": [*MARKETS]})
]
BrokerName = Annotated[
    str, AfterValidator(partial(_known, "brokers", BROKERS)), WithJsonSchema({"type": "string", "enum": [*BROKERS]})
]
REPLAYING = frozenset(name for name, market in MARKETS.items() if market.replays)
# The keys of all brokers: in the environment of the worker that sends orders, in no file of settings and no setting.
BROKER_KEYS = tuple(dict.fromkeys(name for broker in BROKERS.values() for name in broker.credentials))
# Places whose accounts a person looks at by `desk holdings refresh`, and their keys, which no other process has.
HOLDINGS_SOURCES = features.added(dict[str, features.HoldingsSource](), "holdings")
HOLDINGS_KEYS = tuple(dict.fromkeys(name for source in HOLDINGS_SOURCES.values() for name in source.credentials))
MESSENGERS = features.added(dict[str, features.Messenger](), "messengers")
REAL_MONEY = frozenset(name for name, broker in BROKERS.items() if not broker.play_money)  # they need a mandate


# The lenses of a screen by default; those of packages are used where they are named. Each is the role screener_LENS.
LENSES = ("technical", "fundamental", "catalyst", "options")
UNIFIED = "unified"  # in place of them: the one screener that covers all four
KNOWN_LENSES = features.added(dict.fromkeys((*LENSES, UNIFIED), ""), "lenses")
LensName = Annotated[str, Field(pattern=NAME.pattern, max_length=40)]


def _known_lens(name: str, info: ValidationInfo) -> str:
    """Raise ValueError for a lens that neither the desk nor the settings so far have. A value that is read alone is
    looked at when a run opens."""
    given: Mapping[str, Any] = info.data or {}
    if name in KNOWN_LENSES or "home" not in given:
        return name
    own = own_texts(given.get("own_lenses", ""), given["home"])
    return _known("lenses", {**KNOWN_LENSES, **own}, name)


Lens = Annotated[LensName, AfterValidator(_known_lens)]
Lenses = Annotated[tuple[Lens, ...], split(f"name at least one of {', '.join(LENSES)}")]

# Names of settings in the desk's first documents; they mean the same as the DESK_ name.
ALIASES: dict[str, str] = {
    "SCREENER_MAX_CANDIDATES": "max_candidates",
    "AUTONOMOUS_STOCK_ONLY": "stock_only",
    "AUTONOMOUS_TRADER_OPTIONS_MODE": "options_mode",
    "AUTONOMOUS_MAX_THREAD_AGE_HOURS": "max_thread_age_hours",
    "AUTONOMOUS_MAX_THREAD_TURNS": "max_thread_turns",
}

# Of settings that the next minor version no longer has, by name: what to write in their place. Until then each works,
# with one line of warning where it is given.
LEAVING: dict[str, str] = {}


def _together(message: str, *names: str) -> PydanticCustomError:
    """Return an error about several settings at once; `names` lets the message show where each of them came from."""
    return PydanticCustomError("together", message, {"settings": names})


# The groups of settings: the first of each, and the group's name.
GROUPS = {
    "home": "Where things live",
    "provider": "The model",
    "turn_seconds": "Turns of the model",
    "market": "The market and pages of the web",
    "universe": "The screen and research",
    "broker": "The account",
    "max_order_notional": "Limits of orders",
    "question_sessions": "Questions and scores",
    "graphs": "Graphs and the board",
    "premarket": "Workers, the schedule and what is kept",
    "api_host": "The service, and what is watched",
    "notify_channels": "Notifications: the process that sends them alone reads these",
}


class Settings(BaseModel):
    """All settings of the desk, from the values that `sources` merges. Money is in the account's currency."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True, allow_inf_nan=False)
    LIVE_SWITCH: ClassVar[str] = "TRADER_LIVE"
    # Keys of an Alpaca paper account, for data alone: in the environment of each worker that reads chains, in no file.
    DATA_CREDENTIALS: ClassVar[tuple[str, str]] = ("ALPACA_DATA_API_KEY", "ALPACA_DATA_SECRET_KEY")

    home: Absolute = of_process(data_folder, "data folder", "/srv/desk")
    database_url: SqlUrl | None = of_process(
        None, "SQLAlchemy URL; unset: SQLite in the home", "postgresql+psycopg://desk:password@db/desk"
    )
    redis_url: RedisUrl | None = of_process(
        None, "URL of Redis or Valkey; `desk up` has its own", "rediss://desk:password@redis:6379/0"
    )
    message_key: Token | None = of_process(
        None,
        "signs messages, the same in every process; needed unless Redis is on a private socket",
        "fedcba9876543210fedcba9876543210",
    )

    provider: Literal["rulebook", "codex", "endpoint", "local"] = of_run("rulebook", "provider of the model", "codex")
    model: str = of_run("gpt-5.5", "model name sent to the provider", "qwen3:8b", min_length=1)
    role_models: str = of_run(
        "", "models of single roles: ROLE=RUNTIME:MODEL[:EFFORT], by ;", "quick=codex:gpt-5.5:low"
    )
    substitutes: str = of_run(
        "", "models while others rest: ROLE or MODEL=RUNTIME:MODEL[:EFFORT], by ;", "gpt-5.5=litellm:openai/gpt-5.5"
    )
    prompts: PromptTexts = of_run(
        "", "own prompts: ROLE=FILE by comma, or a folder of ROLE.md", '{"risk": "{% extends \\"_validator.md\\" %}"}'
    )
    depth: Literal["quick", "standard", "deep"] = of_run(
        "standard", "most model calls of a turn that the desk counts: quick 8, standard 12, deep 20", "deep"
    )
    effort: Effort | None = of_run(None, "reasoning effort; unset: the model's own", "high")
    summary: Literal["auto", "concise", "detailed", "none"] | None = of_desk(
        None, "reasoning summaries; unset: the model's own", "concise"
    )
    provider_url: WebUrl | None = of_run(None, "base URL of the endpoint or model server", "http://127.0.0.1:11434/v1")
    provider_key: SecretStr | None = of_desk(None, "its API key", "sk-of-the-endpoint")
    local_url: WebUrl | None = of_run(None, "model server of roles that name local:MODEL", "http://127.0.0.1:11434/v1")
    rulebook_url: WebUrl | None = of_process(
        None, "base URL of the rulebook; `desk up` brings its own", "http://127.0.0.1:8600/v1"
    )
    model_turns: Count | None = of_desk(None, "turns at once, over all workers; unset: no limit", "400")
    budget_run_tokens: int = of_run(
        3_000_000, "tokens of a run, after which turns are skipped; 0 is no limit", "500000", ge=0
    )
    budget_day_tokens: int = of_desk(30_000_000, "tokens of a UTC day; 0 is no limit", "5000000", ge=0)
    cassettes: Literal["off", "record", "replay", "auto"] = of_desk(
        "off", "models' answers: kept (record), played alone (replay), or played and kept where there is none", "auto"
    )
    mask: MaskKinds = of_run(
        (), "hidden from the model, by comma: names, dates, levels; see the page on backtests", "names,dates,levels"
    )
    prices: Prices = of_desk(
        "", "own prices: MODEL=INPUT/CACHED/OUTPUT, USD a million tokens, by ;", "gpt-5.5=1.25/0.125/10"
    )

    turn_seconds: Seconds = of_desk(1200.0, "limit of one turn", "600")
    first_token_seconds: Seconds = of_desk(
        300.0, "wait for a call's first token, anew with any sign of the provider", "900"
    )
    silence_seconds: Seconds = of_desk(120.0, "a provider's silence once a token has come", "300")
    output_tokens: Count = of_desk(8000, "most tokens of one call beyond its reasoning", "16000")
    turn_limits: str = of_desk(
        "",
        "of roles or models: NAME=turn:S,first_token:S,silence:S,output:TOKENS, by ;",
        "risk=turn:600;qwen3:8b=first_token:900,output:4000",
    )
    tool_seconds: Seconds = of_desk(20.0, "limit of one tool call", "60")
    step_deadline_seconds: Seconds = of_desk(1500.0, "limit of one step", "3000")
    max_thread_age_hours: float = of_desk(72.0, "a kept thread unused for longer starts afresh", "24", gt=0)
    max_thread_turns: Count = of_desk(40, "a kept thread with this many turns starts afresh", "20")
    thread_limits: ThreadLimits = of_desk(
        "",
        "threads of screener, research or trader: MODE=hours:H,turns:N,tokens:N, by ;",
        "trader=hours:24,turns:20;screener=tokens:60000",
    )
    role_approvals: str = of_desk("", "requests a role may make; declined otherwise", "trader:command")
    event_deltas: bool = of_desk(False, "stream a model's text while it is written; costs turns per second", "true")
    codex_turns: int = of_desk(96, "turns at once in a research worker", "32", ge=1, le=512)
    codex_binary: Absolute | None = of_process(None, "Codex; the pinned wheel's by default", "/usr/local/bin/codex")
    codex_ca_file: Absolute | None = of_process(None, "PEM of trust roots for a hosted provider", "/etc/ssl/roots.pem")

    market: MarketName = of_run("replay", "where prices come from", "yahoo")
    exchange: ExchangeName = of_run(HOME, "exchange of a run, by its code or its city", "XLON")
    replay_date: dt.date = of_run(dt.date(2010, 8, 12), "the replay's today; nothing later is visible", "2010-08-10")
    sec_identity: Identity | None = of_desk(
        None, "your NAME and MAIL, which the SEC asks of its readers", "Ada Lovelace ada@example.org"
    )
    data: Absolute | None = of_run(None, "folder of own data (market=files), of every worker", "/srv/prices")
    data_prices: Literal["auto", "raw", "adjusted"] = of_run(
        "auto", "own prices: with the splits of adjusted closes (auto), closes alone as adjusted, or raw alone", "raw"
    )
    replay_options: Literal["none", "modelled"] = of_orders(
        "none", "a replay's chains: its own, or modelled ones for paper alone", "modelled"
    )
    option_chains: Literal["market", "alpaca", "alpaca-opra"] = of_orders(
        "market", "live chains: the market's, or Alpaca's indicative or opra ones", "alpaca"
    )
    risk_free_rate: float = of_orders(
        0.04, "interest a year in prices of options, and of idle cash in comparisons", "0.001", ge=-0.05, le=0.5
    )

    page_hosts: PageHosts = of_desk("", "hosts that page_read may read, by comma", "www.sec.gov")
    page_browser: str | None = of_process(None, "Chromium for pictures, or off; unset: that on the PATH", "off")
    web_search: WebSearch = of_run(
        "off", "roles that search the web by the model's tool, by comma; behind a ; the hosts", "catalyst;www.sec.gov"
    )
    without_tools: Names = of_run((), "tools that no role gets, by comma", "news_list")

    universe: Universe = of_run("sp500", "sp500, a file of symbols, or symbols by comma", "IBM,GE", min_length=1)
    own_lenses: LensTexts = of_run(
        "",
        "own lenses: NAME=FILE by comma, or a folder of NAME.md; unset: lenses in the home",
        '{"calm": "Names that move little."}',
    )
    lenses: Lenses = of_run(LENSES, "lenses of a screen, by comma; unified is one for all", "technical,catalyst")
    shard_size: int = of_run(131, "symbols of one screener turn", "50", ge=1, le=150)
    max_candidates: int = of_run(20, "candidates kept by a screen", "8", ge=1, le=500)
    research_roles: RoleNames | None = of_run(
        None, "roles of research, by comma; unset: quick, fundamentals, risk, catalyst", "quick,risk"
    )
    required_roles: RoleNames | None = of_run(
        None, "roles without whose report no verdict is BUY, by comma, or none; unset: quick, risk", "risk,catalyst"
    )
    conclude: str = of_run(
        "theses", "what a verdict follows from: stances, or theses and their thresholds", "theses,buy=0.55,sure=0.8"
    )
    speculate: bool = of_run(False, "start later roles beside the quick one while turns are idle", "true")
    memory: Literal["on", "off"] = of_run("on", "whether prompts and report_latest tell of earlier runs", "off")
    reuse: Literal["off", "same", "near"] = of_run(
        "off", "whether a role's earlier report counts again while its tools' answers are the same, or near", "near"
    )
    reuse_hours: float = of_run(
        24.0, "oldest report that counts again, in market hours; where a run trades at most max_verdict_age_hours", "6",
        gt=0, le=720,
    )  # fmt: skip
    reuse_tolerance: float = of_run(0.02, "how far prices and ratios may be apart to be near", "0.01", gt=0, le=1)
    price_move: float = of_run(0.05, "move of a holding's price or gain that makes its roles due", "0.1", gt=0, le=1)
    run_deadline_minutes: float = of_run(240.0, "a run older than this is closed as partial", "60", gt=0)
    limit_wait_hours: float = of_run(
        192.0, "longest wait of a step for its provider's limit, after which it fails", "6", gt=0, le=10_000
    )

    broker: BrokerName = of_orders("paper", "broker that receives the orders, and its account", "alpaca-paper")
    trader_live: bool = of_orders(False, "send orders", "1")
    approval: Policy | None = of_orders(
        None, "auto, manual or above:NOTIONAL; unset: manual for real money alone", "above:5000"
    )
    protect: ProtectionRule = of_orders(
        "none", "order beside each opening fill: none, stop:N% below its cost, trail:N% below its high", "stop:8%"
    )
    preview_minutes: float = of_orders(15.0, "time for which a preview may be approved and sent", "5", gt=0, le=1440)
    mandate_public_key: PublicKey | None = of_desk(
        None, "verifies mandates; `desk arm` prints it", "11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo="
    )
    mandate_key_file: Absolute | None = of_process(None, "key file that signs mandates", "/home/ada/mandate.key")
    stock_only: bool = of_orders(True, "no options, whatever options_mode is", "false")
    options_mode: Literal["stocks-only", "options-only", "both"] = of_orders(
        "stocks-only", "instruments that may be traded", "both"
    )
    allow_short: bool = of_orders(False, "let a sell go below zero shares", "true")
    trade_on_partial: bool = of_run(False, "trade on a run that a budget cut short", "true")
    starting_cash: float = of_run(100_000.0, "cash of a new paper account", "25000", gt=0)
    currency: Currency = of_run("USD", "currency of a new paper account, in which all its money is counted", "EUR")
    delisted_pays: float = of_orders(1.0, "paper: share of its last close that a delisted share pays", "0", ge=0, le=1)
    slippage_bps: float = of_orders(5.0, "paper fills: basis points against the order", "10", ge=0, le=1000)
    commission_per_share: float = of_orders(0.0, "paper fills: commission", "0.005", ge=0)
    paper_volume_share: float = of_orders(0.1, "paper fills: share of a session's volume", "0.02", gt=0, le=1)

    position_risk: float = of_orders(
        0.0025, "share of equity that an entry may lose down to its stop; sizes follow", "0.005", ge=0.0001, le=0.05
    )
    book: Literal["off", "size", "weights"] = of_run(
        "size", "outside accounts: not used, bound sizes, or their weights are shown to the trader too", "weights"
    )
    max_order_notional: float = of_orders(10_000.0, "largest order", "2000", gt=0)
    max_symbol_notional: float = of_orders(25_000.0, "most money in one symbol", "5000", gt=0)
    max_gross_notional: float = of_orders(150_000.0, "most money in all symbols, long and short", "50000", gt=0)
    max_symbol_share: float = of_orders(0.10, "largest share of equity in one symbol", "0.05", gt=0, le=1)
    max_sector_share: float = of_orders(0.50, "largest share of equity in one sector; 1 is off", "0.3", gt=0, le=1)
    max_orders_per_minute: Count = of_orders(30, "orders in a minute of real time", "5")
    max_trades_per_day: Count = of_orders(50, "orders in a day of the exchange", "10")
    max_daily_loss: float = of_orders(0.03, "a day's loss, as a share of equity, that ends buying", "0.01", gt=0, le=1)
    max_drawdown: float = of_orders(0.15, "a fall from the highest equity that ends buying", "0.1", gt=0, le=1)
    max_consecutive_rejections: Count = of_orders(3, "refusals of the broker in a row that end buying", "2")
    max_price_collar: float = of_orders(0.05, "distance of a price from the last quote", "0.02", gt=0, le=1)
    max_quote_age_minutes: float = of_orders(15.0, "oldest quote that an order may be based on", "5", gt=0)
    max_fx_age: float = of_orders(5.0, "days after which an exchange rate is not known", "2", gt=0, le=30)
    max_verdict_age_hours: float = of_orders(24.0, "market time after which a verdict is not traded on", "8", gt=0)
    cooldown_hours: float = of_orders(24.0, "market time between two orders on one symbol", "4", ge=0)

    question_sessions: int = of_run(10, "sessions until a question of the desk resolves", "5", ge=1, le=250)
    model_cutoffs: ModelCutoffs = of_desk(
        "", "last day of a model's training: MODEL=YYYY-MM-DD, by ;", "gpt-5.5=2025-06-30"
    )

    graphs: ModuleNames = of_desk((), "modules of `desk graph`, by comma; they run code", "my.graphs")
    graph_models: Names = of_desk((), "models of graphs beside the roles', by comma", "gpt-5.5-mini,local:qwen3:8b")

    episode: ClockTime = of_desk(
        "off", "time of the daily episode where the exchange is (09:45, close-30m), or off", "09:45"
    )
    rounds: int = of_run(0, "rounds of voices before a screen's trader", "1", ge=0, le=2)
    voices: RoleNames | None = of_run(None, "voices that take part, by comma; all by default", "weaver,auditor")
    questions: int = of_run(10, "most questions of one episode", "5", ge=1, le=40)
    voice_compute: Literal["skill", "equal"] = of_run(
        "skill", "a voice's share of turns: half by its record and none for one that only costs, or equal", "equal"
    )
    voice_models: str = of_run(
        "", "models of voices, best first: RUNTIME:MODEL[:EFFORT], by ;", "codex:gpt-5.5;codex:gpt-5.5-mini"
    )
    venues: VenueNames = of_run((), "event markets, by comma; hyperliquid has funding rates", "manifold,kalshi")

    premarket: ClockTime = of_desk(
        "08:30", "time of the first screen where the exchange is (08:30, open+15m), or off", "off"
    )
    midday: ClockTime = of_desk(
        "12:30", "time of the second screen where the exchange is (12:30, close-30m), or off", "off"
    )
    lease_seconds: Seconds = of_desk(9.0, "hold of a worker on a step; renewed every third of it", "20")
    drain_seconds: float = of_process(20.0, "time that a stopping worker gives its turns", "60", ge=0, le=600)

    report_url: PlaceUrl | None = of_desk(
        None, "folder or fsspec address of runs' reports; unset: none", "/srv/reports"
    )
    blob_url: str | None = of_desk(
        None, "folder or fsspec address of rollouts; unset: the database", "s3://desk/rollouts"
    )
    event_days: float = of_desk(30.0, "events of runs that ended earlier are trimmed", "90", gt=0)
    keep_artifact_days: float = of_desk(
        90.0, "pictures of runs that ended earlier are removed; 0 keeps them", "30", ge=0
    )
    keep_run_days: float = of_desk(
        365.0, "runs that ended earlier are deleted, or shortened for scores; 0 keeps all", "730", ge=0
    )

    api_host: str = of_process("127.0.0.1", "address that `desk api` listens on", "0.0.0.0")
    api_port: int = of_process(0, "its port; 0 takes a free one", "8700", ge=0, le=65535)
    api_token: Token | None = of_process(
        None, "token of callers; unset: one in the home", "0123456789abcdef0123456789abcdef"
    )
    api_hosts: HostNames = of_process("", "further Host names that it accepts, by comma", "desk.example.org")
    flower_auth: Login | None = of_process(
        None, "USER:PASSWORD of Flower; unset: desk, and a password in the home", "desk:password"
    )
    metrics_host: str = of_process(
        "127.0.0.1", "address of metrics and health, which have no password", "0.0.0.0", min_length=1
    )
    metrics_port: int = of_process(0, "its port, the first of `desk up`'s; 0 is off", "9100", ge=0, le=65535)
    trace_url: WebUrl | None = of_process(None, "OTLP/HTTP address for spans", "http://127.0.0.1:4318/v1/traces")
    telemetry_file: Absolute | None = of_process(None, "canonical events as JSON lines", "/var/log/desk.jsonl")
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = of_process("INFO", "lowest level written", "DEBUG")
    log_json: bool = of_process(False, "one JSON object a line", "true")

    notify_channels: Channels | None = of_process(
        None, "NAME=URL of apprise, separated by spaces or lines", "phone=ntfy://my-secret-topic"
    )
    notify_kinds: NotifyKinds = of_process("all", "kinds: KIND,KIND, and CHANNEL=KIND,KIND, by ;", "halt;phone=all")
    notify_quiet: QuietTimes = of_process(
        "off", "quiet hours: HH:MM-HH:MM, and CHANNEL=HH:MM-HH:MM, by ;", "22:00-07:00"
    )
    notify_zone: Zone = of_process("America/New_York", "zone of quiet hours and of times in messages", "Europe/Berlin")
    notify_page_url: WebUrl | None = of_process(
        None, "the page's address in links; unset: this home's service", "https://desk.example.org"
    )

    _backtest: str = PrivateAttr("")

    @model_validator(mode="after")
    def _settings_fit_together(self) -> Settings:
        for name in ("tool_seconds", "first_token_seconds", "silence_seconds", "turn_seconds"):
            if getattr(self, name) >= self.step_deadline_seconds:
                raise _together(f"{name} must be shorter than step_deadline_seconds", name, "step_deadline_seconds")
        if self.provider in ("endpoint", "local"):
            if not self.provider_url and self.cassettes != "replay":
                raise _together(f"the provider {self.provider} needs a URL", "provider", "provider_url")
            if self.provider_key is not None and "@" in urlsplit(self.provider_url or "").netloc:
                raise _together("give a login in the URL or a key, not both", "provider_url", "provider_key")
        rule, takes = parse_protection(self.protect), BROKERS[self.broker].takes
        if rule is not None and rule.kind == "trail" and not_taken(self.broker, takes, *TRAILING) is not None:
            problem = f"the broker {self.broker} takes no trailing stop that is gtc: protect by stop:N%"
            raise _together(problem, "protect", "broker")
        return self

    @property
    def account(self) -> str:
        return self._backtest or self.broker

    def on_backtest(self, account: str) -> Settings:
        """Return these settings on the account of a backtest, which no source of settings can name."""
        own = self.model_copy()
        own._backtest = account
        return own

    @property
    def sends_to(self) -> Broker:
        """The description of the account's broker; that of a backtest is paper's."""
        return BROKERS["paper" if self._backtest else self.broker]

    def refusal(self, order_type: str, time_in_force: str, *, option: bool) -> tuple[str, str, str] | None:
        """Return (reason, value, what is allowed) for an order that the account's broker does not take, else None."""
        broker = self.sends_to
        if option:
            reason = f"the broker {self.broker} takes no orders of options"
            return None if broker.options else (reason, "an option", "shares")
        return not_taken(self.broker, broker.takes, order_type, time_in_force)

    @property
    def model_label(self) -> str:
        return self.label_of(self.model)

    def label_of(self, model: str) -> str:
        return "rulebook (rules, no model)" if self.provider == "rulebook" else f"{self.provider}:{model}"

    @property
    def database(self) -> str:
        if self.database_url is not None:
            return self.database_url.get_secret_value()
        return f"sqlite:///{self.home / 'desk.db'}"

    @property
    def real_money(self) -> bool:
        return self.broker in REAL_MONEY

    @property
    def options_allowed(self) -> bool:
        return not self.stock_only and self.options_mode != "stocks-only"

    @property
    def shares_allowed(self) -> bool:
        return self.stock_only or self.options_mode != "options-only"


# The settings of features, which are fields as those above: by the model that describes them, its fields' names here.
OF_FEATURES: dict[type[BaseModel], dict[str, str]] = {}


def _with_features(core: type[BaseModel]) -> type[BaseModel]:
    """Return the settings with those of features. A package with one that there is, or without a default or an owner,
    is left out."""
    fields: dict[str, Any] = {}
    for feature in features.in_force():
        if not feature.settings_schema:
            continue
        try:
            schema: type[BaseModel] = features.loaded(feature, feature.settings_schema, kind=type)
            found = {feature.prefix + name: info for name, info in schema.model_fields.items()}
            why = _unfit(found, {**core.model_fields, **fields})
            if not why:
                create_model("Alone", __config__=core.model_config, **_typed(found))()
        except ValidationError as error:
            why = (
                f"its setting {error.errors()[0]['loc'][0]} has a default that does not fit: {error.errors()[0]['msg']}"
            )
        except SettingError:
            continue
        except (Exception, SystemExit) as error:
            why = f"its settings {feature.settings_schema} do not fit: {said(error, placed=False)}"
        if why:
            features.skip(feature, why)
            continue
        fields |= _typed(found)
        OF_FEATURES[schema] = {name.removeprefix(feature.prefix): name for name in found}
        GROUPS.update(dict.fromkeys(found, f"The feature {feature.name}"))
    if not fields:
        return core
    return create_model("Settings", __base__=core, __module__=__name__, __doc__=core.__doc__, **fields)


def _unfit(found: Mapping[str, FieldInfo], there: Mapping[str, Any]) -> str:
    for name, info in found.items():
        if name in there or hasattr(Settings, name):
            return f"among the settings there is {name} already"
        if not isinstance(info.json_schema_extra, dict) or MARK not in info.json_schema_extra:
            return f"its setting {name} has no owner: write it with of_run, of_desk or of_process"
        if info.is_required():
            return f"its setting {name} has no default"
        if not (info.description or "").strip():
            return f"its setting {name} does not say what it is for"
        if info.annotation in (bool, int, float):  # of others, how a text becomes one is theirs
            try:
                create_model("Alone", **_typed({name: info}))(**{name: (info.examples or [""])[0]})
            except ValidationError as error:
                return f"its setting {name} has an example that does not fit: {error.errors()[0]['msg']}"
    return ""


def _typed(found: Mapping[str, FieldInfo]) -> dict[str, Any]:
    return {name: (info.annotation, info) for name, info in found.items()}


Own = TypeVar("Own", bound=BaseModel)


def own_settings(settings: Settings, schema: type[Own]) -> Own:
    """Return a feature's own settings, as the model that its `settings_schema` names."""
    return schema.model_construct(**{name: getattr(settings, there) for name, there in OF_FEATURES[schema].items()})


if not TYPE_CHECKING:
    Settings = _with_features(Settings)

SECRETS = frozenset(name for name, field in Settings.model_fields.items() if "SecretStr" in str(field.annotation))
