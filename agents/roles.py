"""The roles of the desk, and their prompts.

A prompt is a Jinja file of `agents/prompts`; an undefined name in one is an error. Instructions depend on the role
alone, so that a kept thread never has stale ones; constraints and the subject come with each turn.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, cast, get_args

import orjson
from jinja2 import Environment, FileSystemLoader, StrictUndefined, UndefinedError
from pydantic import BaseModel

from agents.codex.spec import ApprovalKind
from models.errors import SettingError, UsageError
from models.modes import Mode, RunMode
from models.research import ScreenOutput, TraderOutput, ValidatorOutput
from models.settings import LENSES, Settings
from tools.toolsets import TOOL_SETS

PROMPTS = Path(__file__).parent / "prompts"
HITS_WANTED = 6  # names a lens is asked for from one shard

Kind = Literal["screener", "validator", "trader"]
_MODE_OF_KIND: Mapping[Kind, RunMode] = {"screener": "screener", "validator": "research", "trader": "trader"}


@dataclass(frozen=True, slots=True)
class Role:
    """key: name in tables and threads. tools: a key of TOOL_SETS. keeps_thread: whether it remembers older turns.
    approvals: what it may ask a person for, beside what the settings allow it."""

    key: str
    kind: Kind
    prompt: str
    tools: str
    output: type[BaseModel]
    keeps_thread: bool
    approvals: frozenset[ApprovalKind] = frozenset()

    @property
    def mode(self) -> RunMode:
        return _MODE_OF_KIND[self.kind]


@dataclass(frozen=True, slots=True)
class Prompt:
    base_instructions: str
    user: str


def _screener(lens: str) -> Role:
    return Role(f"screener_{lens}", "screener", f"screener_{lens}.md", "screener", ScreenOutput, keeps_thread=True)


def _validator(key: str, *, keeps_thread: bool) -> Role:
    return Role(key, "validator", f"{key}.md", key, ValidatorOutput, keeps_thread)


ROLES: Mapping[str, Role] = {
    role.key: role
    for role in (
        *(_screener(lens) for lens in LENSES),
        _validator("quick", keeps_thread=False),
        _validator("fundamentals", keeps_thread=True),
        _validator("risk", keeps_thread=True),
        _validator("catalyst", keeps_thread=True),
        Role("trader", "trader", "trader.md", "trader", TraderOutput, keeps_thread=True),
    )
}

# What a prompt says of a tool, one line each.
TOOL_HINTS: Mapping[str, str] = {
    "universe_list": "the members of a universe with name, sector and industry.",
    "sp500_movers": 'the day\'s largest moves; `direction` is "up" or "down", `limit` how many.',
    "symbol_overview": "what is known of companies; `symbols`, and `sections` out of fundamentals, earnings, ratings, "
    "options.",
    "technicals_get": "indicators in detail (moving averages, MACD, Bollinger bands, ATR, ADX); `symbols`.",
    "signals_get": "price figures for rules (momentum, RSI, distance from the high, realised volatility, drawdown, "
    "volume ratio, gap); `symbols`.",
    "news_list": "recent headlines, outside text; `symbols`, and `limit` per symbol.",
    "portfolio_get": "cash, equity, buying power and positions of the account now; no arguments.",
    "orders_preview": "dry run of one order: cleared, or denied by which rule at what figure; `symbol`, `action`, and "
    "`quantity` or `notional`.",
    "report_latest": "what the desk reported on these names before; `symbols`.",
}


def role_of(key: str) -> Role:
    """Raises UsageError naming the roles there are."""
    role = ROLES.get(key)
    if role is None:
        raise UsageError(f"no role {key!r}; there are {', '.join(ROLES)}")
    return role


def mode_of(role: str) -> Mode:
    """`other` for a role that is none of the desk's own."""
    known = ROLES.get(role)
    return known.mode if known is not None else "other"


def role_approvals(settings: Settings) -> Mapping[str, frozenset[ApprovalKind]]:
    """What the settings let roles ask a person for, by role. Raises SettingError."""
    kinds = get_args(ApprovalKind)
    found: dict[str, frozenset[ApprovalKind]] = {}
    for pair in filter(None, (part.strip() for part in settings.role_approvals.split(","))):
        role, _, kind = pair.partition(":")
        if role not in ROLES or kind not in kinds:
            raise SettingError(
                f"role_approvals (DESK_ROLE_APPROVALS) has {pair!r}",
                remedy=f"write ROLE:KIND by comma; roles are {', '.join(ROLES)}; kinds are {', '.join(kinds)}",
            )
        found[role] = found.get(role, frozenset()) | {cast(ApprovalKind, kind)}
    return found


def constraints(settings: Settings, capital: float | None = None) -> dict[str, Any]:
    """The constraints of a subject. capital: buying power in account currency, None when it is not known."""
    return {
        "stockOnly": not settings.options_allowed,
        "optionsMode": settings.options_mode,
        "allowShort": settings.allow_short,
        "capital": capital,
        "maxOrderNotional": settings.max_order_notional,
        "maxSymbolShare": settings.max_symbol_share,
        "cooldownHours": settings.cooldown_hours,
    }


def render(role: Role, subject: Mapping[str, Any], settings: Settings, *, afresh: bool = False) -> Prompt:
    """The instructions and the user message of one turn. afresh: the thread has no earlier turns, and the subject's
    `memory` says what came before.

    Raises UsageError when the subject lacks what the prompt says of it.
    """
    try:
        user = _environment().get_template(f"ask_{role.kind}.md").render(
            constraints=subject["constraints"], market=settings.market, subject_block=subject_block(subject),
            afresh=afresh,
        )  # fmt: skip
    except (KeyError, UndefinedError) as error:
        remedy = "build it with the role's builder"
        raise UsageError(f"the subject of {role.key} lacks {error}", remedy=remedy) from None
    return Prompt(instructions(role), user)


@cache
def instructions(role: Role) -> str:
    """The base instructions of a role; the first line is `Role: <key>`."""
    tools = [{"name": name, "hint": TOOL_HINTS[name]} for name in TOOL_SETS[role.tools]]
    return _environment().get_template(role.prompt).render(role=role.key, hits=HITS_WANTED, tools=tools)


def subject_block(subject: Mapping[str, Any]) -> str:
    """The subject as a fenced block of one JSON line.

    A backtick can only stand inside a JSON string, so writing it as an escape keeps the JSON the same and leaves no
    text that could close the fence.
    """
    line = orjson.dumps(dict(subject)).decode().replace("`", "\\u0060")
    return f"```subject\n{line}\n```"


@cache
def _environment() -> Environment:
    # Plain text for a model, not HTML: escaping would only garble it.
    environment = Environment(
        loader=FileSystemLoader(PROMPTS), undefined=StrictUndefined, autoescape=False, trim_blocks=True,
        lstrip_blocks=True, auto_reload=False,
    )  # fmt: skip
    # float() of an undefined name raises as any other use of it does; a format specification would not.
    environment.globals["money"] = lambda value: f"{float(value):,.2f}"
    environment.globals["percent"] = lambda value: f"{float(value):.1%}"
    return environment
