"""The try of a choice: the Codex login, what its server can do, one real turn, and what a screen would take."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack

from rich.progress import Progress, SpinnerColumn, TimeElapsedColumn

from chordesk.agents.role_models import LOCAL, RoleModel, role_models
from chordesk.agents.roles import ROLES
from chordesk.models.database.store import Store, current
from chordesk.models.errors import DeskError, LoginMissing
from chordesk.models.model_prices import AS_OF, LISTED, NO_PRICE, prices
from chordesk.models.settings import Settings
from chordesk.models.text import inert, span
from chordesk.tasks.bootstrap import Desk
from chordesk.tasks.cli.output import console, print_line
from chordesk.tasks.cli.setup.answers import Person
from chordesk.tasks.cli.show import amounts
from chordesk.tasks.doctor.check import Check, CheckContext, CheckStatus
from chordesk.tasks.doctor.model import model, request_mirror, server
from chordesk.tasks.engine.budgets import RULES
from chordesk.tasks.engine.kinds import turns_of
from chordesk.tasks.reading.outlook import TurnTokens, assumed_tokens, local_times, past_tokens, seconds_of
from chordesk.tasks.workflows.screen import screen_params
from chordesk.tools.market.universe import resolve_universe

UNEXPECTED = "this is unexpected; please report it"
SERVER, TURN = "asking the server what it can do for the model", "trying the model with one turn"


def tried(settings: Settings) -> float | None:
    """Return the seconds of the turn; None where it came to no answer. Raises DeskError."""
    with ExitStack() as held:
        if settings.provider == "rulebook" and settings.rulebook_url is None:
            settings = settings.model_copy(update={"rulebook_url": held.enter_context(request_mirror()).url})
        context = CheckContext(settings, Desk(settings, "setup", records=False))
        if settings.provider == "local" and _passed(SERVER, server, context) is None:
            return None
        return _passed(TURN, model, context)


def _passed(what: str, check: Callable[[CheckContext], Check], context: CheckContext) -> float | None:
    print_line(f"{what}; Ctrl-C ends it, and nothing is written")
    out = console()
    columns = (SpinnerColumn(), TimeElapsedColumn())
    with Progress(*columns, console=out, transient=True, refresh_per_second=1, disable=not out.is_terminal) as clock:
        clock.add_task(what, total=None)
        began = time.monotonic()
        found = _result(check, context)
        seconds = time.monotonic() - began
    lines = [found.detail, *([f"remedy: {found.remedy}"] if found.remedy else [])]
    print_line("\n".join(f"  {line}" for line in inert("\n".join(lines)).splitlines()))
    return None if found.status is CheckStatus.FAIL else seconds


def _result(check: Callable[[CheckContext], Check], context: CheckContext) -> Check:
    """Return a check's result. It runs in this thread, so that a stop signal ends its turn."""
    try:
        return check(context)
    except DeskError:
        raise
    except Exception as error:
        return Check("", CheckStatus.FAIL, f"{type(error).__name__}: {error}", UNEXPECTED)


def ensure_login(settings: Settings, person: Person) -> None:
    """Let the person log in where the provider needs it and there is no login. Raises LoginMissing."""
    # Loaded here: it takes seconds, in which the questions would wait.
    from chordesk.tasks.bootstrap import require_login, run_codex

    try:
        return require_login(settings)
    except LoginMissing as missing:
        reason, remedy = str(missing.args[0]), "run `desk login --device-auth`, or `desk setup` at a terminal"
        print_line(reason)
        if not (person.terminal and person.agrees("Log in now? It shows a code to type in at any browser", True)):
            raise LoginMissing(reason, remedy=remedy) from None
    run_codex(settings, "login", "--device-auth")
    try:
        require_login(settings)
    except LoginMissing as missing:
        raise LoginMissing(f"{missing.args[0]}: the login did not succeed", remedy=remedy) from None


Past = Mapping[tuple[str, str], TurnTokens]
WAVES = 4  # of turns that wait for each other: screeners, quick, the other roles, trader


def screen_lines(settings: Settings, seconds: float | None) -> list[str]:
    """seconds: of the turn that was tried. What turns of this desk took is known from its database, if there is one."""
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
        lines.append(f"at least {span(WAVES * seconds)}, where each turn takes as long as the one just tried")
    allowed = settings.run_deadline_minutes * 60
    return lines + amounts.times(local) + amounts.too_long(seconds_of(local), allowed)


def _past(settings: Settings) -> Past:
    if settings.database.startswith("sqlite") and not (settings.home / "desk.db").exists():
        return {}
    found, newest = current(settings.database)
    if found != newest:
        return {}
    with Store(settings.database).read() as session:
        return past_tokens(session)


def _models(settings: Settings, models: Mapping[str, RoleModel], turns: Mapping[str, int], past: Past) -> Iterator[str]:
    """Yield a line for each model: its turns, tokens and price."""
    for each in dict.fromkeys(models.values()):
        counts = {role: count for role, count in turns.items() if role in ROLES and models.get(role) == each and count}
        if not counts:
            continue
        label = each.label(settings)
        tokens = {role: past.get((label, role)) or assumed_tokens(ROLES[role], settings) for role in counts}
        read = round(sum(tokens[role].read * count for role, count in counts.items()))
        written = round(sum(tokens[role].written * count for role, count in counts.items()))
        assumed = "" if all((label, role) in past for role in counts) else ", as assumed before the first one"
        number = sum(counts.values())
        what = (
            f"at most {number} turn{'' if number == 1 else 's'}, {read:,} tokens read and {written:,} written{assumed}"
        )
        yield f"{label}: {what}; {_money(settings, each, read, written)}"


def _money(settings: Settings, model: RoleModel, read: int, written: int) -> str:
    if model.runtime == LOCAL:
        return NO_PRICE
    if (price := prices(settings.prices).get(model.model)) is None:
        return "price unknown: set DESK_PRICES"
    listed = f", by the prices of {AS_OF}" if price == LISTED.get(model.model) else ""
    usd = f"about {price.of(read, 0, written):,.2f} USD{listed}"
    return f"paid by the plan of the login; over the API {usd}" if model.provider(settings) == "codex" else usd
