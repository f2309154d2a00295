"""What may be asked of TradingAgents on the desk, and whether this desk can play it. Loads neither it nor LangChain."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib.util import find_spec

from chordesk.agents.role_models import RULES_MODEL
from chordesk.agents.roles import GRAPH_ROLES
from chordesk.agents.tradingagents.project import require_installed
from chordesk.models.errors import UsageError
from chordesk.models.settings import Settings

(ROLE,) = GRAPH_ROLES
ANALYSTS = ("market", "social", "news", "fundamentals")
MOST_DEPTH = 10
_EXTRA = "pip install 'chordesk[langchain]'"


def require_request(analysts: Sequence[str], depth: int) -> None:
    """Raise UsageError for analysts that there are not, one named twice, none, or a depth that is none."""
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
    """Raise UsageError where one of the roles is TradingAgents' and this desk cannot play it: it is not installed, or
    the desk has no model for it."""
    if ROLE not in roles:
        return
    if find_spec("langgraph") is None or find_spec("langchain_core") is None:
        raise UsageError("TradingAgents needs LangGraph, which is not installed", remedy=_EXTRA)
    require_installed()
    if settings.provider == RULES_MODEL:
        raise UsageError(
            "TradingAgents needs a model: the rulebook has no rules for its debates",
            remedy="set DESK_PROVIDER to codex or endpoint where the desk is started",
        )
