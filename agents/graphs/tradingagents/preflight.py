"""Checks before a run: the binary, the app-server, the login with its plan and limits, and the models.

They ask an app-server without our catalog: with it, the app-server would offer each model of the catalog.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chordesk.agents.codex.launch import RuntimeConfig, find_binary, find_login, link_login
from chordesk.agents.codex.protocol import Client
from chordesk.agents.graphs.tradingagents.provider import Options
from chordesk.agents.role_models import LOCAL
from chordesk.models.errors import BinaryMissing, CodexError, DeskError, LoginMissing, RpcError
from chordesk.models.text import utc
from chordesk.models.urls import masked

RPC_SECONDS = 30.0  # the account's limits and models are asked of its service
STOP_SECONDS = 2.0
INSTALL_REMEDY = "pip install openai-codex-cli-bin, or npm i -g @openai/codex and set DESK_CODEX_BINARY to its path"
LOGIN_REMEDY = "run `desk login`; on a host without a browser `desk login --device-auth`"
FLAGS = ('cli_auth_credentials_store="file"', "analytics.enabled=false", "check_for_update_on_startup=false")
WINDOWS = ("primary", "secondary")


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One row of the result. The remedy of a check that passed is empty."""

    name: str
    detail: str
    remedy: str = ""

    @property
    def passed(self) -> bool:
        return not self.remedy


def config_of(options: Options, model: str) -> RuntimeConfig:
    return RuntimeConfig(
        options.home, "chat", options.provider, model, options.url, options.key, options.binary, rpc_seconds=RPC_SECONDS
    )


def require_able(options: Options) -> None:
    """Raise BinaryMissing or LoginMissing where no call could succeed. Starts nothing."""
    config = config_of(options, "")
    find_binary(config.binary)
    find_login(config)


def run_checks(options: Options, models: Sequence[str]) -> list[CheckResult]:
    """Return the results of all checks, in order; those after one that all depend on are left out."""
    return asyncio.run(_checks(config_of(options, models[0]), list(dict.fromkeys(models))))


async def _checks(config: RuntimeConfig, models: Sequence[str]) -> list[CheckResult]:
    try:
        binary = find_binary(config.binary)
    except BinaryMissing as error:
        return [CheckResult("binary", f"Codex is not installed: {error.args[0]}", INSTALL_REMEDY)]
    found = [CheckResult("binary", binary)]
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="desk-check-")))
        try:
            link_login(config, folder)
        except LoginMissing as error:
            detail = f"No ChatGPT or API login found: {error.args[0]}"
            return [*found, CheckResult("login", detail, LOGIN_REMEDY)]
        client = _client(binary, config, folder)
        stack.push_async_callback(client.close, STOP_SECONDS)
        try:
            await client.start(())
        except CodexError as error:
            remedy = f"run `{binary} --version`; where that fails, {INSTALL_REMEDY}"
            return [*found, CheckResult("app-server", f"does not start: {error.args[0]}", remedy)]
        found.append(CheckResult("app-server", "starts"))
        if config.provider in ("endpoint", LOCAL):
            return [*found, await _endpoint(config, models[0])]
        return [*found, *await _of_account(client, models)]


async def _endpoint(config: RuntimeConfig, model: str) -> CheckResult:
    """Somebody answers at the address, as such an API, and takes the key. No answer of a model is requested."""
    from chordesk.agents.gateway.probe import look_at_endpoint, look_at_server  # their library is for this alone

    url, key = config.provider_url or "", config.provider_key
    try:
        if config.provider == LOCAL:
            await look_at_server(url, key, model, config.ca_file)
        else:
            await look_at_endpoint(url, key, config.ca_file)
    except DeskError as error:
        return CheckResult("endpoint", str(error.args[0]), error.remedy)
    return CheckResult("endpoint", f"{masked(url)} answers; a first call shows that the models are there")


def _client(binary: str, config: RuntimeConfig, folder: Path) -> Client:
    flags = [part for flag in FLAGS for part in ("-c", flag)]
    env = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(folder), "CODEX_HOME": str(folder), **config.environ}
    return Client(
        [binary, *flags, "app-server", "--listen", "stdio://"], env, str(folder),
        on_notification=lambda _method, _params: None, on_request=_unknown, on_death=lambda _error: None,
        rpc_seconds=RPC_SECONDS, rpcs=4,
    )  # fmt: skip


async def _unknown(_method: str, _params: dict[str, Any]) -> None: ...


async def _of_account(client: Client, models: Sequence[str]) -> list[CheckResult]:
    try:
        answer = await client.request("account/read", {"refreshToken": False})
    except RpcError as error:
        return [
            CheckResult("login", f"No ChatGPT or API login found that Codex can use: {error.args[0]}", LOGIN_REMEDY)
        ]
    except CodexError as error:
        return [CheckResult("login", f"cannot be read: {error.args[0]}", "try again; `desk doctor` shows more")]
    account = answer.get("account")
    if account is None:
        return [
            CheckResult("login", "No ChatGPT or API login found: Codex does not accept what is there", LOGIN_REMEDY)
        ]
    if account.get("type") != "chatgpt":
        login = CheckResult("login", "by an API key; calls are billed by token, and a plan has no part in it")
        return [login, *await _models(client, models)]
    login = CheckResult("login", f"ChatGPT, plan {account.get('planType') or 'not given'}")
    return [login, await _limits(client), *await _models(client, models)]


async def _limits(client: Client) -> CheckResult:
    try:
        answer = await client.request("account/rateLimits/read", {})
    except CodexError as error:
        return CheckResult("limits", f"not given by the account: {error.args[0]}")
    limits = answer.get("rateLimits") or {}
    shown = "; ".join(_windows(limits)) or "the account gives none"
    if reached := limits.get("rateLimitReachedType"):
        detail = f"{str(reached).replace('_', ' ')}: {shown}"
        return CheckResult("limits", detail, "wait for the reset, or use an endpoint: DESK_PROVIDER=endpoint")
    return CheckResult("limits", shown)


def _windows(limits: Mapping[str, Any]) -> Iterator[str]:
    for window in (limits.get(name) for name in WINDOWS):
        if not window:
            continue
        minutes, resets = window.get("windowDurationMins"), window.get("resetsAt")
        over = f" of {minutes / 60:g} h" if minutes else ""
        at = f", reset at {utc(dt.datetime.fromtimestamp(resets, dt.UTC))}" if resets else ""
        yield f"{window.get('usedPercent')}%{over} used{at}"


async def _models(client: Client, models: Sequence[str]) -> list[CheckResult]:
    try:
        offered = {str(one.get("model") or one.get("id")) for one in await _offered(client)}
    except CodexError as error:
        remedy = "check the network and try again"
        return [CheckResult("models", f"the account's list cannot be read: {error.args[0]}", remedy)]
    return [_model(one, offered) for one in models]


async def _offered(client: Client) -> list[Mapping[str, Any]]:
    found: list[Mapping[str, Any]] = []
    cursor: str | None = None
    while True:
        answer = await client.request("model/list", {"includeHidden": True, "cursor": cursor})
        found += answer.get("data") or []
        cursor = answer.get("nextCursor")
        if not cursor:
            return found


def _model(model: str, offered: set[str]) -> CheckResult:
    if model in offered:
        return CheckResult("model", f"{model} is available")
    listed = ", ".join(sorted(offered)) or "none at all"
    detail = f"Requested model {model} is not available under the current Codex account"
    return CheckResult("model", detail, f"choose by --deep and --quick, or DESK_MODEL, one of: {listed}")
