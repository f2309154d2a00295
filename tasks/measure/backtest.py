"""The backtest: the desk itself on each session of past days, one after the other in market time.

Its steps are a chain. The step of a session waits for its trader's run; the step that opens that run waits for the
session's screen and for the session before. So the account of one day feeds the next, while screens that need nothing
of each other run side by side, a bounded number of sessions ahead.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from pydantic import Field, ValidationError
from sqlmodel import Session, select

from chordesk.agents.desk_roles import roles_in
from chordesk.agents.prompting import instructions, require_prompts
from chordesk.agents.role import lens_role
from chordesk.agents.role_models import RULES, require_maskable, runtimes_of
from chordesk.agents.roles import offered, required_roles, research_roles
from chordesk.models.errors import SettingError, UsageError
from chordesk.models.settings import Settings
from chordesk.models.settings.running_desk import backtest_account, owner_of, research_account, snapshot, with_values
from chordesk.models.settings.schema import Owner
from chordesk.models.states import RUN_FINAL, RunKind, StepKind
from chordesk.models.tables.columns import new_id
from chordesk.models.tables.runs import Run, Step
from chordesk.tasks.board.episode.tally import ON_RESOLVED
from chordesk.tasks.bootstrap import Desk
from chordesk.tasks.engine import budgets
from chordesk.tasks.engine.kinds import StepSpec, Workflow, turns_of
from chordesk.tasks.engine.leases import HeldStep
from chordesk.tasks.engine.steps import ClaimedStep, NewStep
from chordesk.tasks.engine.summary import BLOCKED
from chordesk.tasks.measure.backtest_sessions import (
    Day,
    Walk,
    backtest_figures,
    cut_trade,
    decided_before,
    denied_by_halt,
    failure_of,
    off_now,
    result_of,
    run_of_step,
    screened_before,
    session_row,
    settings_of_walk,
    symbols_of_walk,
)
from chordesk.tasks.reading.runs import OFF, backtest_rows
from chordesk.tasks.worker.endings import Done, Ending
from chordesk.tasks.worker.messages import DeskApp
from chordesk.tasks.workflows.runs import Look, Request, Symbol, new_run, open_run, own_symbols
from chordesk.tasks.workflows.screen import screen_params, with_lenses
from chordesk.tools.market.past_sessions import later_session, sessions_between
from chordesk.tools.market.prices import STALE_DAYS
from chordesk.tools.market.protocol import MarketData
from chordesk.tools.orders.flow import simulated_context
from chordesk.tools.orders.sessions import meet_sessions
from chordesk.tools.questions.resolving import resolve_due

# Sessions that are open at once where they may be: a screen has a turn for each lens and shard, so a few fill the turns
# of two workers, and more would only wait in the queues, in front of everything else that the desk does. One of a whole
# market has turns enough, and what is computed of its names fills the memory.
OPEN_SESSIONS, OPEN_NAMES = 6, 3_000


def open_backtest(
    app: DeskApp,
    first: dt.date,
    last: dt.date,
    *,
    every: int = 1,
    rounds: int = 0,
    universe: str | None = None,
    memory: str = "off",
    experiment: str = "",
    arm: str = "",
    changes: Mapping[str, Any] | None = None,
    lenses: Sequence[str] | None = None,
    look: Look | None = None,
) -> Run:
    """Start a walk over every so many-th session from `first` to `last`. experiment, arm: the id that the arms share,
    and what this one is called; changes: settings in place of the desk's; lenses: of its screens. Raises UsageError for
    a market of real time, days outside its data or in the wrong order, an unknown lens, and what the universe lacks."""
    desk = app.desk
    days = sessions_between(desk.market, first, last, every)
    given = {**(changes or {}), **({"lenses": ",".join(lenses)} if lenses else {})}
    settings = with_lenses(with_values(settings_of_walk(desk.settings, memory, rounds, universe), given))
    asked = {
        "from": first.isoformat(),
        "to": last.isoformat(),
        "every": every,
        "rounds": settings.rounds,
        "memory": settings.memory,
        "universe": settings.universe,
        "experiment": experiment,
        "arm": arm,
        "changes": given,
        "symbols": symbols_of_walk(settings.universe, desk.market_for(days[-1]), days),
        "parallel": settings.memory == "off" and settings.rounds == 0 and settings.reuse == "off",
    }
    return _open(app, asked, days, settings, desk.market_for(days[0]), look=look)


def resume_backtest(app: DeskApp, run_id: str) -> Run:
    """Start a run that goes on with a backtest where it ended: on the same account, from the first session that has no
    row. A session that is missing stays so, for the account cannot go back to its day. Raises UsageError for another
    kind of run, one that still runs, and one with nothing left."""
    desk = app.desk
    with desk.store.read() as session:
        source = session.get_one(Run, run_id)
        if source.kind != RunKind.BACKTEST:
            raise UsageError(f"run {run_id} is no backtest but a {source.kind}", remedy="`desk runs list` shows them")
        origin = session.get_one(Run, source.params["backtest"])
        visited = {row.day for row in backtest_rows(session, origin.id)}
        going = unfinished(session, source)
    if going is not None:
        reason = f"the backtest still runs, as run {going.id}"
        raise UsageError(reason, remedy=f"stop it with `desk stop {going.id}` first")
    days = [day for day in map(dt.date.fromisoformat, origin.params["days"]) if day not in visited]
    if not days:
        raise UsageError(f"backtest {origin.id} has all its sessions", remedy=f"`desk runs show {origin.id}` has them")
    return _open(app, origin.params, days, desk.settings_of(origin.id), desk.market_on(origin.id, days[0]), origin.id)


def unfinished(session: Session, source: Run) -> Run | None:
    """Return the run that plays the backtest of this one, None where it has ended."""
    rows = session.exec(select(Run).where(Run.kind == RunKind.BACKTEST, Run.account == source.account)).all()
    return next((run for run in rows if run.state not in RUN_FINAL), None)


def _open(
    app: DeskApp,
    asked: Mapping[str, Any],
    days: Sequence[dt.date],
    settings: Settings,
    market: MarketData,
    origin: str | None = None,
    look: Look | None = None,
) -> Run:
    """origin: the run that began the walk, where this one goes on with it."""
    with app.desk.store.read() as session:
        off = off_now(session, settings, backtest_account(origin) if origin else backtest_account(""))
    if off is not None:
        reason = f"a backtest would have every order denied: {off}"
        raise UsageError(reason, remedy="`desk resume` lets orders pass, then start it again")
    run = new_run(app.desk, RunKind.BACKTEST, {}, settings=settings, market=market, parent=origin)
    backtest_id = origin or run.id
    run.account = backtest_account(backtest_id)
    run.params = {**asked, "days": [day.isoformat() for day in days], "backtest": backtest_id}
    # Each session may take what a run may.
    run.deadline_at = run.created_at + (run.deadline_at - run.created_at) * (len(days) + 1)
    return open_run(app, run, lambda session, row, finish: [NewStep(StepKind.BACKTEST, finish)], look)


def plan_walk(desk: Desk, step: ClaimedStep, held: HeldStep) -> Ending:
    walk, days = _walk_of(desk, step)
    open_at_once = _open_at_once(walk) if walk.parallel else 1
    with desk.store.read() as session:
        needed = [_needs_screen(desk, session, walk, day) for day in days[:open_at_once]]
    result = NewStep(StepKind.BACKTEST_RESULT, str(step.parent_id), waits=True)
    steps, trades = [result], list[NewStep]()
    for number, day in reversed(list(enumerate(days))):
        place = {"number": number}
        above = trades[0].id if trades else result.id
        mark = NewStep(StepKind.BACKTEST_SESSION, above, day.isoformat(), payload=place, waits=True)
        waits = number > 0 or needed[0]
        trades.insert(0, NewStep(StepKind.BACKTEST_TRADE, mark.id, day.isoformat(), payload=place, waits=waits))
        steps += [mark, trades[0]]
    first = zip(days[:open_at_once], trades[:open_at_once], needed, strict=True)
    runs = [walk.screen(desk, day, trade.id) for day, trade, is_needed in first if is_needed]
    return Done({"sessions": len(days)}, children=steps, runs=runs)


def _open_at_once(walk: Walk) -> int:
    return max(1, min(OPEN_SESSIONS, OPEN_NAMES // max(1, len(walk.symbols))))


def _needs_screen(desk: Desk, session: Session, walk: Walk, day: dt.date) -> bool:
    """Return whether a day has no screen of an earlier run of this backtest, nor orders."""
    now = walk.market(desk, day).clock.now()
    if decided_before(session, walk.account, now) is not None:
        return False
    return not walk.parallel or screened_before(session, research_account(walk.account), now) is None


def open_trade_of_day(desk: Desk, step: ClaimedStep, held: HeldStep) -> Ending:
    walk, days = _walk_of(desk, step)
    number = step.payload["number"]
    now, later = walk.market(desk, days[number]).clock.now(), number + _open_at_once(walk)
    with desk.store.read() as session:
        decided = decided_before(session, walk.account, now)
        screen = run_of_step(session, step.id) or screened_before(session, research_account(walk.account), now)
        over = _over_before(session, step) or (_over(session, desk, walk, screen) if decided is None else None)
        if over is not None:
            return Done(over)
        reason = None if decided is not None else failure_of(screen, "screen")
        ahead = walk.parallel and later < len(days) and _needs_screen(desk, session, walk, days[later])
        waiting = _trade_step(session, step.run_id, days[later]) if ahead else ""
    runs = [walk.screen(desk, days[later], waiting)] if ahead else []
    meet_sessions(simulated_context(desk.store, walk.settings, walk.market(desk, days[number])))
    if walk.parallel and reason is None and decided is None and screen is not None:
        runs.append(walk.trade(desk, days[number], screen.id, str(step.parent_id)))
    trade = decided or (None if walk.parallel else screen)
    found = {"screen": screen and screen.id, "trade": trade and trade.id, "reason": reason}
    return Done(found, runs=runs)


def _trade_step(session: Session, run_id: str, day: dt.date) -> str:
    named = (Step.kind == StepKind.BACKTEST_TRADE, Step.subject == day.isoformat())
    return session.exec(select(Step.id).where(Step.run_id == run_id, *named)).one()


Over = dict[str, Any]  # the result of a step from which on a walk does nothing more: `status` and `reason`
_OVER = ("skipped", BLOCKED)


def _over_before(session: Session, step: ClaimedStep) -> Over | None:
    before = session.exec(select(Step).where(Step.parent_id == step.id)).first()
    if before is None or before.result.get("status") not in _OVER:
        return None
    return {name: before.result[name] for name in ("status", "reason")}


def _over(session: Session, desk: Desk, walk: Walk, screen: Run | None) -> Over | None:
    """Why a halt or a budget ends the walk here: later days would fare no better. None when neither does."""
    if (off := off_now(session, walk.settings, walk.account)) is not None:
        return {"status": BLOCKED, "reason": off}
    if screen is None or desk.settings_of(screen.id).trade_on_partial:
        return None
    cut = budgets.cut_short(session, screen.id)
    return None if cut is None else {"status": "skipped", "reason": cut}


def mark_session(desk: Desk, step: ClaimedStep, held: HeldStep) -> Ending:
    walk, days = _walk_of(desk, step)
    number = step.payload["number"]
    market = walk.market(desk, days[number])
    meet_sessions(simulated_context(desk.store, walk.settings, market))  # a day without a decision has not met its own
    with desk.store.session() as session:
        before = session.exec(select(Step).where(Step.parent_id == step.id)).one()
        opened, trade = before.result, run_of_step(session, step.id)
        if opened.get("status") in _OVER:
            return Done(opened)
        if (cut := cut_trade(session, trade)) is not None:
            return Done({"status": "skipped", "reason": cut})
        reason = before.error or opened.get("reason") or (failure_of(trade, "trade") if trade is not None else None)
        day = Day(days[number], opened.get("screen"), trade.id if trade is not None else opened.get("trade"), reason)
        row = session_row(session, walk, day, market)
        off = off_now(session, walk.settings, walk.account)
        if denied_by_halt(row):
            off = off or "trading was halted meanwhile"
            row.state, row.reason = OFF, off
        if off is not None and (row.state == OFF or number + 1 < len(days)):
            return Done({"status": BLOCKED, "reason": off, "equity": row.equity}, ([row],))
    if walk.parallel or number + 1 == len(days):
        return Done({"equity": row.equity, "reason": reason}, ([row],))
    following = walk.market(desk, days[number + 1])
    meet_sessions(simulated_context(desk.store, walk.settings, following))  # its screen knows what the account holds
    runs = [walk.screen(desk, days[number + 1], str(step.parent_id))]
    return Done({"equity": row.equity, "reason": reason}, ([row],), runs=runs)


def sum_up(desk: Desk, step: ClaimedStep, held: HeldStep) -> Ending:
    walk, days = _walk_of(desk, step)
    until = walk.settings.question_sessions + STALE_DAYS
    market = walk.market(desk, later_session(walk.market(desk, days[-1]), days[-1], until))
    pays = walk.settings.delisted_pays
    resolve_due(desk.store, market, walk.account, on_resolved=ON_RESOLVED, delisted_pays=pays)
    return Done(result_of(desk, walk))


def _walk_of(desk: Desk, step: ClaimedStep) -> tuple[Walk, list[dt.date]]:
    with desk.store.read() as session:
        run = session.get_one(Run, step.run_id)
    return Walk.of(desk, run), [dt.date.fromisoformat(day) for day in run.params["days"]]


def walk_turns(params: Mapping[str, Any], settings: Settings, held: int = 0) -> dict[str, int]:
    a_day = turns_of(RunKind.SCREEN, screen_params(settings, params["symbols"]), settings, held)
    return {role: count * len(params["days"]) for role, count in a_day.items()}


class BacktestRequest(Request):
    """A walk over past sessions on an account of its own, without a board. symbols: the universe, by default the one of
    the settings; every: only each so many-th session."""

    kind: Literal["backtest"]
    first: dt.date
    last: dt.date
    every: int = Field(default=1, ge=1, le=250)
    symbols: list[Symbol] | None = Field(default=None, min_length=1, max_length=20_000)
    budget_tokens: int | None = Field(default=None, ge=1, description="of each of its days, in place of the desk's")

    @classmethod
    def like(cls, run: Run, settings: Settings) -> dict[str, Any]:
        days = {"first": "from", "last": "to", "every": "every"}
        found = {name: run.params[of] for name, of in days.items() if of in run.params}
        return found | own_symbols(run, settings)

    def open(self, app: DeskApp, look: Look | None = None) -> Run:
        universe = ",".join(self.symbols) if self.symbols else None
        return open_backtest(app, self.first, self.last, every=self.every, universe=universe, look=look)


WORKFLOWS = (
    Workflow(
        RunKind.BACKTEST,
        steps=(
            StepSpec(StepKind.BACKTEST, "ops", plan_walk, spine=True, after="the run", writes=("account",)),
            StepSpec(
                StepKind.BACKTEST_TRADE,
                "ops",
                open_trade_of_day,
                join=True,
                after="the screen of its day, a run of its own",
                writes=("candidate", "order", "preview", "fill", "position", "account", "equity_mark"),
            ),
            StepSpec(
                *(StepKind.BACKTEST_SESSION, "trade", mark_session),
                title="sessions",
                join=True,
                after="`backtest_trade` and the trade of its day",
                writes=("backtest_session", "equity_mark", "order", "preview", "fill", "position", "account"),
            ),
            StepSpec(
                *(StepKind.BACKTEST_RESULT, "ops", sum_up),
                join=True,
                after="every `backtest_session`",
                writes=("question", "thesis_question"),
            ),
        ),
        figures=backtest_figures,
        turns=walk_turns,
        request=BacktestRequest,
        by_hand="it walks over past sessions once",
    ),
)


# Arms by name alone: whether the models are shown whose past they judge.
READY = {"masked": {"mask": "names,dates,levels"}, "unmasked": {"mask": ""}}
ABLATED = ("research_roles", "lenses", "voices", "tools")
# Of a walk itself, the same for all arms: as options of the command, not as settings of an arm.
_OF_THE_WALK = (
    "universe", "replay_date", "market", "data", "data_prices", "starting_cash", "account", "broker", "approval",
    "trader_live", "max_orders_per_minute",
)  # fmt: skip


class Arm(NamedTuple):
    """A name, and the settings that this arm has in place of the desk's, as a user writes them."""

    name: str
    settings: Mapping[str, str]


def parsed(text: str) -> Arm:
    """Read "NAME: DESK_A=x; DESK_B=y". Without settings it is the desk as it is."""
    name, colon, rest = text.partition(":")
    settings = {}
    for part in (part.strip() for part in rest.split(";") if part.strip()):
        variable, equals, value = part.partition("=")
        setting = variable.strip().upper().removeprefix("DESK_").lower()
        if not equals or setting not in Settings.model_fields:
            raise UsageError(f"--arm {text!r}: {part!r} sets nothing", remedy="write NAME: DESK_SETTING=value; ...")
        if owner_of(setting) not in (Owner.RUN, Owner.ORDERS) or setting in _OF_THE_WALK:
            reason = f"--arm {text!r}: DESK_{setting.upper()} cannot differ between arms"
            raise UsageError(reason, remedy="choose a setting of runs or of orders: `desk config` names the owners")
        settings[setting] = value.strip()
    if not name.strip() or not colon:
        raise UsageError(f"--arm {text!r} has no name before a colon", remedy="write NAME: DESK_SETTING=value; ...")
    return Arm(name.strip(), settings)


def ready(names: str) -> list[Arm]:
    if unknown := [one for one in names.split(",") if one not in READY]:
        raise UsageError(f"--arms {names!r} has {', '.join(unknown)}", remedy=f"name {', '.join(READY)}, by comma")
    return [Arm(one, READY[one]) for one in names.split(",")]


def ablated(what: str, settings: Settings) -> list[Arm]:
    """Return the desk as it is, and an arm without each role, lens, voice or tool that it has. Without a required role
    an arm requires the others."""
    if what not in ABLATED:
        raise UsageError(f"--ablate {what!r}", remedy=f"choose among {', '.join(ABLATED)}")
    names: Sequence[str] = _in_use(what, settings)
    if len(names) < 2:
        setting = "DESK_WITHOUT_TOOLS" if what == "tools" else f"DESK_{what.upper()}"
        raise UsageError(f"--ablate {what}: the desk has only {', '.join(names) or 'none'}", remedy=f"set {setting}")
    arms = [Arm("all", {})]
    for one in names:
        left = {"without_tools": ",".join((*settings.without_tools, one))}
        changed = left if what == "tools" else {what: _without(names, one)}
        if what == "research_roles" and one in (required := required_roles(settings)):
            changed["required_roles"] = _without(required, one) or "none"
        arms.append(Arm(f"without {one}", changed))
    return arms


def _without(names: Sequence[str], one: str) -> str:
    return ",".join(other for other in names if other != one)


def _in_use(what: str, settings: Settings) -> Sequence[str]:
    if what == "research_roles":
        return research_roles(settings)
    if what == "voices":
        from chordesk.agents.board.voices import voices_of

        return tuple(voice.key for voice in voices_of(settings))
    if what == "tools":
        keys = (*map(lens_role, settings.lenses), *research_roles(settings), "trader")
        known = roles_in(settings)
        roles = [offered(known[key], settings) for key in keys if key in known]
        return tuple(dict.fromkeys(tool.name for role in roles for tool in role.tools))
    return tuple(settings.lenses)


def open_experiment(app: DeskApp, arms: Sequence[Arm], first: dt.date, last: dt.date, **options: Any) -> list[Run]:
    """Start a backtest for each arm. options: of `open_backtest`, the same for all. Raises UsageError for fewer than
    two, for two of one name, and for two that differ in nothing, before the first starts; SettingError for a value that
    a setting refuses."""
    names = [arm.name for arm in arms]
    if len(arms) < 2 or len(set(names)) < len(names):
        raise UsageError(f"the arms are {', '.join(names) or 'none'}", remedy="give two or more, each with its name")
    require_differences(app.desk.settings, arms, options.get("rounds", 0))
    shared = {**options, "experiment": new_id()}
    return [open_backtest(app, first, last, **shared, arm=arm.name, changes=arm.settings) for arm in arms]


# What changes no answer where rules alone answer.
_OF_MODELS = frozenset({"model", "effort", "summary", "prompts", "provider_url", "local_url"})


def require_differences(settings: Settings, arms: Iterable[Arm], rounds: int = 0) -> None:
    """rounds: of a walk without an own number. Raises UsageError for two arms that must be played alike."""
    seen: dict[str, str] = {}
    for arm in arms:
        try:
            used = with_values(settings, arm.settings)
        except ValidationError as error:
            first = error.errors()[0]
            reason = f"arm {arm.name}: {first['input']!r}: {first['msg']}"
            raise SettingError(reason, remedy="`desk config` has an example of each setting") from None
        used = with_lenses(used)
        require_prompts(used)
        require_maskable(used)
        prompts = {key: instructions(role, used) for key, role in sorted(roles_in(used).items())}
        made = {**snapshot(used), "prompts": prompts}
        rules = runtimes_of(used.on_backtest(backtest_account(""))) == {RULES.runtime}
        voices = int(arm.settings.get("rounds", rounds)) > 0
        idle = {*(_OF_MODELS if rules else ()), *(() if voices else ("voices",))}
        counted = str(sorted((name, value) for name, value in made.items() if name not in idle))
        if (other := seen.setdefault(counted, arm.name)) != arm.name:
            reason = f"the arms {other} and {arm.name} differ in nothing" + (" that rules read" if rules else "")
            silent = "" if voices else "; voices speak with --rounds 1 or 2"
            raise UsageError(reason, remedy=f"change a setting in one{silent}")
