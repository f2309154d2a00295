"""The first settings: where things live, the model, the market, pages of the web."""

from __future__ import annotations

import datetime as dt
from typing import Literal

from platformdirs import user_data_path
from pydantic import BaseModel, SecretStr

from chordesk.models.settings.owners import of_desk, of_orders, of_process, of_run
from chordesk.models.settings.types import Absolute, Effort, HostNames, Identity, PageHosts, RedisUrl, SqlUrl, WebUrl

MarketName = Literal["replay", "yahoo", "files"]  # each in tools.market.NAME.market
REPLAYING: frozenset[MarketName] = frozenset({"replay", "files"})  # their clock stands still on DESK_REPLAY_DATE


class Surroundings(BaseModel):
    """A part of `Settings`, in a module of its own for its length."""

    # Where things live
    home: Absolute = of_process(default_factory=lambda: user_data_path("chordesk"), description="data folder")
    database_url: SqlUrl | None = of_process(None, description="SQLAlchemy URL; SQLite in the home by default")
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
    personality: Literal["none", "friendly", "pragmatic"] | None = of_desk(
        None, description="passed on to Codex, whose current binary takes it and changes nothing"
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
