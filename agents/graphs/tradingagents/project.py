"""The installed TradingAgents: where it is, what may be asked of it, and its final state as a report."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from chordesk.agents.role_models import RULES_MODEL
from chordesk.agents.turn_answers import storable
from chordesk.models.answers import (
    Confidence,
    GraphDebate,
    GraphReflection,
    GraphReport,
    GraphRisk,
    GraphSignal,
    Stance,
)
from chordesk.models.errors import UsageError
from chordesk.models.features import require_extra
from chordesk.models.settings import Settings

TESTED = "v0.3.0"
INSTALL = f'pip install "git+https://github.com/TauricResearch/TradingAgents@{TESTED}"'
PACKAGE = "tradingagents"
REGISTRY, SPEC = "OPENAI_COMPATIBLE_PROVIDERS", "ProviderSpec"


@dataclass(frozen=True, slots=True)
class Project:
    """The parts of an installation that a provider needs."""

    root: Path  # the folder of its packages
    providers: MutableMapping[str, Any]
    spec: Callable[..., Any]
    # the models that its command line offers by provider; None where it has no such table
    menus: MutableMapping[str, Any] | None

    def command(self) -> Callable[..., Any]:
        module = _loaded("cli.main")
        if Path(str(module.__file__)).parents[1] != self.root:
            problem = f"the package `cli` of {module.__file__} hides TradingAgents' own"
            raise UsageError(problem, remedy="start the command from another folder")
        found: Callable[..., Any] = module.app
        return found


def find_project() -> Project:
    package = _loaded(PACKAGE)
    try:
        module = _loaded(f"{PACKAGE}.llm_clients.openai_client")
        providers, spec = getattr(module, REGISTRY), getattr(module, SPEC)
    except (AttributeError, _NotThere):
        raise _foreign(_folder(package)) from None
    try:
        menus = _loaded(f"{PACKAGE}.llm_clients.model_catalog").MODEL_OPTIONS
    except (AttributeError, _NotThere):
        menus = None
    return Project(_folder(package).parent, providers, spec, menus)


def require_installed() -> None:
    """Raise UsageError as `find_project` where TradingAgents is not there, or is another project; loads nothing."""
    try:
        spec = find_spec(PACKAGE)
    except (ImportError, ValueError):  # Python's mark of a module that is not to be found
        spec = None
    if spec is None or not spec.submodule_search_locations:
        raise UsageError("TradingAgents is not installed", remedy=INSTALL)
    folder = Path(next(iter(spec.submodule_search_locations)))
    try:
        text = (folder / "llm_clients" / "openai_client.py").read_text(encoding="utf-8")
    except OSError:
        text = ""
    if REGISTRY not in text:
        raise _foreign(folder)


class _NotThere(UsageError):
    """A module that an installation does not have."""


def _loaded(name: str) -> ModuleType:
    try:
        return import_module(name)
    except ImportError as error:
        missing = error.name or str(error)
        if name == missing == PACKAGE:
            raise _NotThere("TradingAgents is not installed", remedy=INSTALL) from None
        if name == missing or name.startswith(f"{missing}."):
            raise _NotThere(f"TradingAgents has no {name} here", remedy=INSTALL) from None
        raise UsageError(
            f"TradingAgents does not load: {error}", remedy=f"install it with all it needs: {INSTALL}"
        ) from (error)


def _foreign(folder: Path) -> UsageError:
    problem = f"{folder} is another project of the name {PACKAGE}, or older than 0.3.0: it has no {REGISTRY}"
    return UsageError(problem, remedy=f"pip uninstall {PACKAGE}, then {INSTALL}")


def _folder(package: ModuleType) -> Path:
    return Path(next(iter(package.__path__)))


ROLE = "tradingagents"
ANALYSTS = ("market", "social", "news", "fundamentals")
MOST_DEPTH = 10


def require_request(analysts: Sequence[str], depth: int) -> None:
    """Raise UsageError if the list is empty, names an unknown analyst or one twice, or the depth is unknown."""
    choice = f"choose among {', '.join(ANALYSTS)}, by comma"
    for name in analysts:
        if name not in ANALYSTS:
            raise UsageError(f"--analysts has {name!r}", remedy=choice)
        if list(analysts).count(name) > 1:
            raise UsageError(f"--analysts has {name!r} twice", remedy="name each analyst once")
    if not analysts:
        raise UsageError("--analysts names none", remedy=choice)
    if not 1 <= depth <= MOST_DEPTH:
        raise UsageError(f"--depth {depth} is not from 1 to {MOST_DEPTH}", remedy="1 is one round of each debate")


def require_playable(settings: Settings, roles: Iterable[str] = (ROLE,)) -> None:
    """Raise UsageError where a role is TradingAgents' and it is not installed, or the desk has no model for it."""
    if ROLE not in roles:
        return
    require_extra("langchain", "TradingAgents")
    require_installed()
    if settings.provider == RULES_MODEL:
        raise UsageError(
            "TradingAgents needs a model: the rulebook has no rules for its debates",
            remedy="set DESK_PROVIDER to codex or endpoint where the desk is started",
        )


# The report that a graph's final state is: its rating as the desk's stance, its decisions and the ends of its
# debates.
#
# TradingAgents states a rating in its decision's text and no confidence. A text without a rating has none: its own
# parser would make that a Hold.

RATINGS = ("Buy", "Overweight", "Hold", "Underweight", "Sell")
STANCES: Mapping[str, Stance] = {
    "Buy": Stance.CONFIRMED,
    "Overweight": Stance.CONFIRMED,
    "Hold": Stance.CAUTION,
    "Underweight": Stance.REJECT,
    "Sell": Stance.REJECT,
}
# By rank: a text that labels a rating need not agree with the proposals that it quotes.
_LABELS = tuple(
    re.compile(rf"\b{label}\W{{0,6}}[:\-]\W{{0,6}}({'|'.join(RATINGS)})\b", re.IGNORECASE)
    for label in ("rating", "recommendation", "final transaction proposal", "action")
)
_SECTION = re.compile(r"\*\*(Executive Summary|Price Target|Time Horizon)\*\*: *(.*?)(?=\n\*\*|\Z)", re.DOTALL)
_SUMMARY_CHARS, _TEXT_CHARS, _RISK_CHARS = 2000, 60_000, 400


def rating_of(text: str) -> str | None:
    """Return the rating that a text labels as such; None where it labels none, or several that differ."""
    labelled = ({match.group(1).capitalize() for match in label.finditer(text)} for label in _LABELS)
    found = next(filter(None, labelled), set())
    return next(iter(found)) if len(found) == 1 else None


def signal_of(state: Mapping[str, Any], reflections: Sequence[GraphReflection] = ()) -> GraphSignal | None:
    decision = _text(state, "final_trade_decision")
    rating = rating_of(decision)
    if rating is None:
        return None
    sections = {name: text.strip() for name, text in _SECTION.findall(decision)}
    debate, risk = state.get("investment_debate_state") or {}, state.get("risk_debate_state") or {}
    plan, proposal = _text(state, "investment_plan"), _text(state, "trader_investment_plan")
    safe = _text(risk, "current_conservative_response")
    return GraphSignal(
        rating=rating,
        verdict=STANCES[rating],
        confidence=_agreement(rating, plan, proposal),
        summary=(sections.get("Executive Summary") or decision)[:_SUMMARY_CHARS] or rating,
        key_risks=[safe[:_RISK_CHARS]] if safe else [],
        decision=decision,
        price_target=sections.get("Price Target"),
        time_horizon=sections.get("Time Horizon"),
        plan=plan,
        proposal=proposal,
        debate=GraphDebate(
            judge=_text(debate, "judge_decision"),
            bull=_end(_text(debate, "bull_history")),
            bear=_end(_text(debate, "bear_history")),
        ),
        risk=GraphRisk(
            judge=_text(risk, "judge_decision"),
            aggressive=_text(risk, "current_aggressive_response"),
            conservative=safe,
            neutral=_text(risk, "current_neutral_response"),
        ),
        reports=[
            GraphReport(analyst=name.removesuffix("_report"), text=_text(state, name))
            for name in ("market_report", "sentiment_report", "news_report", "fundamentals_report")
            if _text(state, name)
        ],
        reflections=list(reflections),
    )


def _agreement(rating: str, plan: str, proposal: str) -> Confidence:
    """Return medium where manager, trader and portfolio manager are of one side, else low. High is never stated for a
    project that states no confidence."""
    others = [rating_of(plan), rating_of(proposal)]
    return Confidence.MEDIUM if all(one and _side(one) == _side(rating) for one in others) else Confidence.LOW


def _side(rating: str) -> int:
    return (RATINGS.index(rating) > 2) - (RATINGS.index(rating) < 2)


def _text(state: Mapping[str, Any], name: str) -> str:
    return str(storable(str(state.get(name) or "")))[:_TEXT_CHARS]


def _end(history: str) -> str:
    last = re.split(r"\n(?=(?:Bull|Bear) Analyst:)", history.strip())[-1]
    return last.strip()
