"""What a screen with the chosen settings takes: turns, time, tokens and money, before there was one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from chordesk.agents.role_models import LOCAL, RoleModel, role_models
from chordesk.agents.roles import ROLES
from chordesk.models.database.store import Store, current
from chordesk.models.errors import DeskError
from chordesk.models.model_prices import AS_OF, LISTED, NO_PRICE, prices
from chordesk.models.settings import Settings
from chordesk.tasks.bootstrap import Desk
from chordesk.tasks.cli.render import spending
from chordesk.tasks.engine.budgets import RULES
from chordesk.tasks.engine.kinds import turns_of
from chordesk.tasks.views.outlook import TurnTokens, assumed_tokens, local_times, past_tokens, seconds_of
from chordesk.tasks.workflows.screen import screen_params
from chordesk.tools.market.universe import resolve_universe

Past = Mapping[tuple[str, str], TurnTokens]
WAVES = 4  # of turns that wait for each other: screeners, quick, the other roles, trader


def screen_lines(settings: Settings, seconds: float | None) -> list[str]:
    """Return lines about a screen. What turns of this desk took is known from its database, if there is one. seconds:
    of the turn that was tried, None where none was."""
    models = {role: model for role, model in role_models(settings).items() if model.provider(settings) != RULES}
    if not models:
        return ["a screen takes seconds and costs nothing: rules are no model"]
    try:
        symbols = resolve_universe(settings.universe, Desk(settings, "setup", records=False).market)
        turns = turns_of("screen", screen_params(settings, symbols), settings)
        past = _past(settings)
    except DeskError as error:
        return [f"what a screen takes is not known: {error}"]
    local = local_times(settings, turns, past)
    lines = [f"a screen of {settings.universe} ({len(symbols)} symbols):", *_models(settings, models, turns, past)]
    if not local and seconds is not None:
        lines.append(f"at least {spending.span(WAVES * seconds)}, where each turn takes as long as the one just tried")
    allowed = settings.run_deadline_minutes * 60
    return lines + spending.times(local) + spending.too_long(seconds_of(local), allowed)


def _past(settings: Settings) -> Past:
    """Return the tokens of the turns that this desk had; none without a database, or with one of another version."""
    if settings.database.startswith("sqlite") and not (settings.home / "desk.db").exists():
        return {}
    found, newest = current(settings.database)
    if found != newest:
        return {}
    with Store(settings.database).read() as session:
        return past_tokens(session)


def _models(settings: Settings, models: Mapping[str, RoleModel], turns: Mapping[str, int], past: Past) -> Iterator[str]:
    """Yield a line for each model: its turns, tokens and price."""
    for model in dict.fromkeys(models.values()):
        counts = {role: count for role, count in turns.items() if role in ROLES and models.get(role) == model and count}
        if not counts:
            continue
        label = model.label(settings)
        tokens = {role: past.get((label, role)) or assumed_tokens(ROLES[role], settings) for role in counts}
        read = round(sum(tokens[role].read * count for role, count in counts.items()))
        written = round(sum(tokens[role].written * count for role, count in counts.items()))
        assumed = "" if all((label, role) in past for role in counts) else ", as assumed before the first one"
        number = sum(counts.values())
        what = (
            f"at most {number} turn{'' if number == 1 else 's'}, {read:,} tokens read and {written:,} written{assumed}"
        )
        yield f"{label}: {what}; {_money(settings, model, read, written)}"


def _money(settings: Settings, model: RoleModel, read: int, written: int) -> str:
    if model.runtime == LOCAL:
        return NO_PRICE
    if (price := prices(settings.prices).get(model.model)) is None:
        return "price unknown: set DESK_PRICES"
    listed = f", by the prices of {AS_OF}" if price == LISTED.get(model.model) else ""
    usd = f"about {price.of(read, 0, written):,.2f} USD{listed}"
    return f"paid by the plan of the login; over the API {usd}" if model.provider(settings) == "codex" else usd
