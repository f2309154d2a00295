"""The screen: shards of the universe times lenses as a group, and their merge into candidates."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, StrictBool
from sqlalchemy.exc import IntegrityError
from sqlmodel import Session, select

from chordesk.agents.desk_roles import (
    is_of_the_desk,
    is_own,
    kept_lenses,
    known_lenses,
    lens_of,
    role_of,
)
from chordesk.agents.prompting import shard_size
from chordesk.agents.role import lens_role
from chordesk.agents.role_models import RULES_MODEL, role_models
from chordesk.agents.roles import ROLES, Hit, RankedCandidate, accept, rank, shards
from chordesk.agents.subjects import rule_of, screener_subject
from chordesk.models.answers import Instrument, ReportStatus, ScreenCandidate, ScreenConfidence, ScreenOutput
from chordesk.models.errors import UsageError
from chordesk.models.settings import Settings
from chordesk.models.settings.running_desk import with_values
from chordesk.models.settings.schema import LensName
from chordesk.models.states import RunKind, StepKind
from chordesk.models.tables.columns import new_id
from chordesk.models.tables.orders import Account, Position
from chordesk.models.tables.runs import Candidate, CandidateHit, Run, ScreenHit, Step
from chordesk.tasks.bootstrap import Desk
from chordesk.tasks.engine.kinds import StepSpec, Workflow
from chordesk.tasks.engine.leases import HeldStep
from chordesk.tasks.engine.steps import ClaimedStep, NewStep
from chordesk.tasks.reading.memory import lens_memory
from chordesk.tasks.schedules import exchange_at
from chordesk.tasks.worker.endings import Done, Ending
from chordesk.tasks.worker.messages import DeskApp
from chordesk.tasks.workflows.holding_reviews import SCREENED
from chordesk.tasks.workflows.research import all_roles, candidate_steps, researchers, spare_turns, unscreened
from chordesk.tasks.workflows.runs import Look, Request, Symbol, new_run, open_run, own_symbols
from chordesk.tools.market.clock import exchange_day, exchange_hours
from chordesk.tools.market.prices import share_of
from chordesk.tools.market.universe import resolve_universe
from chordesk.tools.risk.exposure import underlying_of

if TYPE_CHECKING:
    from chordesk.tools.lenses.files import Lens

RULED = "rule"  # in place of a shard's number: code looks at the whole universe
NO_CANDIDATES = "no candidates; no decision was made"


def open_screen(
    app: DeskApp,
    universe: str | None = None,
    lenses: Sequence[str] | None = None,
    max_candidates: int | None = None,
    schedule: str | None = None,
    slot: str | None = None,
    look: Look | None = None,
    *,
    trade: bool = True,
) -> Run | None:
    """Start a screen over a universe. None when this slot of the schedule has its run already. trade: False ends it
    with the verdicts."""
    desk = app.desk
    asked = {"universe": universe, "lenses": lenses, "max_candidates": max_candidates}
    settings = with_values(desk.settings, {name: value for name, value in asked.items() if value})
    settings = with_lenses(settings, lenses)
    symbols = resolve_universe(settings.universe, desk.market)
    require_figures(desk, settings, symbols, lenses or settings.lenses)
    params = screen_params(settings, symbols, lenses)
    params |= {} if trade else {"trade": False}
    run = new_run(desk, RunKind.SCREEN, params, schedule=schedule, slot=slot, settings=settings)
    try:
        return open_run(app, run, lambda session, row, finish: [NewStep(StepKind.SCREEN, finish)], look)
    except IntegrityError:
        if schedule is None:
            raise
        return None


def with_lenses(settings: Settings, lenses: Sequence[str] | None = None) -> Settings:
    """Return the settings of a run, which keeps the texts of its own lenses as they are now. Raises UsageError for an
    unknown or faulty one."""
    names = known_lenses(lenses or settings.lenses, settings)
    for name in filter(is_own, names):
        if (own := lens_of(name, settings)) is not None:
            require_means(own, settings)
    return settings.model_copy(update={"own_lenses": kept_lenses(names, settings)})


def require_figures(desk: Desk, settings: Settings, symbols: Sequence[str], lenses: Sequence[str]) -> None:
    """Raise UsageError for a rule over company figures that the market does not have: its lens could find nothing."""
    files = (lens_of(name, settings) for name in lenses if not is_of_the_desk(name))
    if ruled := [lens for lens in files if lens is not None and begins_with_code(lens)]:
        from chordesk.tools.lenses.figures import require_all  # most screens have no such lens
        from chordesk.tools.lenses.rules import sectors_for

        context = desk.tool_context()
        for lens in ruled:
            require_all(context, symbols, lens.used)
            sectors_for(lens, context.market, symbols)


def require_means(lens: Lens, settings: Settings) -> None:
    """Raise UsageError where neither a rule nor a model could look through an own lens."""
    by_rules = role_models(settings)[lens_role(lens.name)].model == RULES_MODEL
    if is_own(lens.name) and lens.rule is None and by_rules:
        reason = f"the lens {lens.name} has words alone, and no model reads them on the provider {settings.provider}"
        raise UsageError(reason, remedy='give it where = "...", or choose a model: desk setup')


def screen_params(settings: Settings, symbols: Sequence[str], lenses: Sequence[str] | None = None) -> dict[str, Any]:
    return {
        "universe": settings.universe,
        "symbols": list(symbols),
        "lenses": list(lenses or settings.lenses),
        **researchers(settings),
        "max_candidates": settings.max_candidates,
    }


def session_slot(exchange: str, now: dt.datetime | None = None) -> str | None:
    """Return the slot of a scheduled screen, the date where the exchange is; None when it is closed all day."""
    today = exchange_day(now or dt.datetime.now(dt.UTC), exchange)
    return today.isoformat() if exchange_hours(exchange).is_session(today) else None


def scheduled_exchange(desk: Desk, schedule: str) -> str:
    """Return the exchange whose sessions are the slots of an entry of the schedule."""
    with desk.store.read() as session:
        return exchange_at(session, desk.settings, schedule)


def open_scheduled(app: DeskApp, schedule: str) -> str | None:
    """None when its exchange is closed today or the slot has its run already."""
    slot = session_slot(scheduled_exchange(app.desk, schedule))
    run = open_screen(app, schedule=schedule, slot=slot) if slot is not None else None
    return run.id if run else None


def split_universe(desk: Desk, step: ClaimedStep, held: HeldStep) -> Ending:
    with desk.store.read() as session:
        run = session.get_one(Run, step.run_id)
        params, capital = run.params, session.get_one(Account, run.account).cash
    join = NewStep(StepKind.MERGE, str(step.parent_id), waits=True)
    settings = desk.settings_of(step.run_id)
    sizes = shard_sizes(params["lenses"], settings)
    children = [
        NewStep(
            StepKind.SCREEN_SHARD,
            join.id,
            subject=f"{lens}:{number}",
            role=lens_role(lens),
            payload={"lens": lens, "shard": number, "symbols": list(symbols), "capital": capital},
        )
        for lens in params["lenses"]
        for number, symbols in _slices(params["symbols"], sizes.get(lens))
    ]
    result: dict[str, Any] = {"symbols": len(params["symbols"]), "shards": len(children)}
    if notes := smaller(params["lenses"], settings):
        result["notes"] = notes
    return Done(result, children=[join, *children])


def _slices(symbols: Sequence[str], size: int | None) -> Iterable[tuple[int | str, Sequence[str]]]:
    """Return the numbered slices of turns; without a size the whole, for code."""
    return [(RULED, symbols)] if size is None else enumerate(shards(symbols, size))


def shard_sizes(lenses: Sequence[str], settings: Settings) -> dict[str, int]:
    """Return the symbols of one turn of each lens whose turns are the first to look; a turn gets no symbols that it
    could not look at."""
    by_turns = (lens for lens in lenses if not begins_with_code(lens_of(lens, settings)))
    return {lens: shard_size(role_of(lens_role(lens), settings), settings) for lens in by_turns}


def smaller(lenses: Sequence[str], settings: Settings) -> list[str]:
    """Return a note for each lens whose turns have fewer symbols than is set."""
    return [
        f"lens {lens}: {size} symbols a turn in place of {settings.shard_size} (DESK_SHARD_SIZE), for the context of "
        f"{role_models(settings)[lens_role(lens)].label(settings)} has no room for more"
        for lens, size in shard_sizes(lenses, settings).items()
        if size < settings.shard_size
    ]


def begins_with_code(lens: Lens | None) -> bool:
    """Return whether code looks at a lens's universe before, or in place of, a model."""
    return lens is not None and (lens.by != "model" or bool(lens.universe))


def by_rule_alone(lens: Lens | None) -> bool:
    return lens is not None and lens.by == "rule"


def screen_turns(params: Mapping[str, Any], settings: Settings, held: int = 0) -> dict[str, int]:
    looking = [lens for lens in params["lenses"] if not by_rule_alone(lens_of(lens, settings))]
    sizes = {lens: shard_size(role_of(lens_role(lens), settings), settings) for lens in looking}
    candidates = min(params["max_candidates"], len(params["symbols"])) + held
    found = {lens_role(lens): len(shards(params["symbols"], size)) for lens, size in sizes.items()}
    found |= {role: candidates for role in params["roles"] if role in ROLES}
    return found | ({"trader": 1} if params.get("trade", True) else {})


def run_shard(desk: Desk, step: ClaimedStep, held: HeldStep) -> Ending:
    asked = step.payload
    lens, symbols, settings = asked["lens"], asked["symbols"], desk.settings_of(step.run_id)
    file = lens_of(lens, settings)
    if file is not None and asked["shard"] == RULED:
        from chordesk.tasks.worker.ruled_shards import ruled_step  # with numpy, which the API has no use for

        return ruled_step(desk, step, file)
    rule = rule_of(file, asked.get("passed")) if file is not None and not is_of_the_desk(lens) else None
    brief = screener_subject(lens, asked["shard"], symbols, settings, asked["capital"], rule)
    from chordesk.tasks.workflows.reusing import hits_again, look_at_shard, shard_basis_of

    earlier = look_at_shard(desk, step, brief)
    if earlier is not None and earlier.basis is not None:
        return hits_again(desk, step, earlier)
    memory = partial(lens_memory, context=desk.tool_context(step.run_id), lens=lens, symbols=symbols)
    known, given = (brief, ()) if earlier is None else (earlier.brief, earlier.again.given)
    run = held.turns.run(step.role, f"shard-{asked['shard']}", known, memory=memory, given=given)
    status, reason, turn = run.status, run.reason, run.last_turn
    hits: list[ScreenHit] = []
    notes: list[str] = []
    if status is ReportStatus.COMPLETED and turn is not None:
        output = ScreenOutput.model_validate(run.value)
        kept, notes = accept(output, lens, symbols, options_allowed=settings.options_allowed)
        now = desk.market_of(step.run_id).clock.now()
        hits = [_hit(step, turn.id, lens, version_of(file), item, now) for item in kept]
        if (rogue := run.rogue_note) is not None:
            notes = [*notes, rogue]
            for hit in hits:
                hit.confidence = ScreenConfidence.SPECULATIVE
    result = {"status": status, "reason": reason, "hits": len(hits), "notes": notes, **run.left_out_entry}
    error = reason if status is ReportStatus.FAILED else None
    return Done(result, (*run.rows, hits, shard_basis_of(desk, step, earlier, run, notes)), error=error)


def _hit(
    step: ClaimedStep, turn_id: str, lens: str, version: str | None, item: ScreenCandidate, now: dt.datetime
) -> ScreenHit:
    ids = {"run_id": step.run_id, "step_id": step.id, "turn_id": turn_id}
    return ScreenHit(**ids, lens=lens, lens_version=version, market_at=now, **item.model_dump())


def version_of(lens: Lens | None) -> str | None:
    """Return what a hit keeps of its lens; the desk's and the packages' own have the version of their program."""
    return lens.version if lens is not None and is_own(lens.name) else None


def merge_hits(desk: Desk, step: ClaimedStep, held: HeldStep) -> Ending:
    settings = desk.settings_of(step.run_id)
    with desk.store.read() as session:
        run = session.get_one(Run, step.run_id)
        hits = session.exec(select(ScreenHit).where(ScreenHit.run_id == run.id)).all()
        positions = session.exec(select(Position).where(Position.account == run.account)).all()
        capital = session.get_one(Account, run.account).cash
        notes, spare = lens_notes(session, run.id), spare_turns(session, settings, run.id)
    chosen = rank(map(_ranked_hit, hits), run.params["max_candidates"])
    candidates = [_candidate(run.id, item) for item in chosen]
    paired = list(zip(candidates, chosen, strict=True))
    taken, market = {candidate.symbol for candidate in candidates}, desk.market_of(step.run_id)
    # Holdings are researched again in every screen, whether a lens named them or not; a contract as its share.
    shares = dict.fromkeys(share_of(market, underlying_of(position.symbol)) for position in positions)
    held_too = [symbol for symbol in shares if symbol not in taken]
    candidates += unscreened(run.id, held_too, "position", first=len(taken) + 1)
    links = [CandidateHit(candidate_id=one.id, hit_id=hit.id) for one, item in paired for hit in item.hits]
    theses = {item.symbol: [_thesis(hit) for hit in item.hits] for item in chosen}
    result = {"hits": len(hits), "candidates": len(candidates), "notes": notes}
    if not candidates:
        return Done({**result, "notes": [*notes, NO_CANDIDATES]})
    # A day of a backtest trades in a run of its own: this one ends with the verdicts.
    joins = _joins(str(step.parent_id), settings.rounds) if run.params.get("trade", True) else []
    parent = joins[-1].id if joins else str(step.parent_id)
    asked = all_roles(run, SCREENED)
    steps = candidate_steps(candidates, lambda symbol: asked, capital, parent, theses, spare=spare)
    return Done(result, (candidates, links), [*joins, *steps])


def _joins(finish: str, rounds: int) -> list[NewStep]:
    """Return the steps that wait for the verdicts: the trader's and, with rounds of voices, their brief before it."""
    decide = NewStep(StepKind.DECIDE, finish, waits=True)
    return [decide, NewStep(StepKind.BRIEF, decide.id, waits=True)] if rounds else [decide]


def _ranked_hit(row: ScreenHit) -> Hit:
    instrument, confidence = Instrument(row.instrument), ScreenConfidence(row.confidence)
    return Hit(row.id, row.lens, row.symbol, instrument, confidence, row.thesis)


def _thesis(hit: Hit) -> dict[str, str]:
    return {"lens": hit.lens, "confidence": hit.confidence, "thesis": hit.thesis}


def _candidate(run_id: str, item: RankedCandidate) -> Candidate:
    return Candidate(
        id=new_id(),
        run_id=run_id,
        symbol=item.symbol,
        instrument=item.instrument,
        confidence=item.confidence,
        origin="screen",
        rank=item.rank,
        score=item.score,
    )


def lens_notes(session: Session, run_id: str) -> list[str]:
    """One line for each lens and reason; a failing lens never fails the screen."""
    rows = session.exec(select(Step).where(Step.run_id == run_id, Step.kind == StepKind.SCREEN_SHARD)).all()
    reasons: Counter[tuple[str, str]] = Counter()
    shards_of: Counter[str] = Counter()
    for row in rows:
        shards_of[lens := str(row.payload["lens"])] += 1
        status = row.result.get("status", "failed")
        if status != ReportStatus.COMPLETED:
            reasons[lens, f"{status}: {row.result.get('reason') or row.error}"] += 1
    return [
        f"lens {lens}: {why} ({count} of {shards_of[lens]} shards)" for (lens, why), count in sorted(reasons.items())
    ]


class ScreenRequest(Request):
    """A screen, then research on its candidates and a decision. symbols: the universe, by default the one of the
    settings; so are lenses and most, the number of candidates kept. trade: false for a screen that ends with the
    verdicts."""

    kind: Literal["screen"]
    symbols: list[Symbol] | None = Field(default=None, min_length=1, max_length=20_000)
    lenses: list[LensName] | None = Field(default=None, min_length=1, max_length=12)
    most: int | None = Field(default=None, ge=1, le=500)
    trade: StrictBool = True

    @classmethod
    def like(cls, run: Run, settings: Settings) -> dict[str, Any]:
        found = own_symbols(run, settings)
        if not run.params.get("trade", True):
            found["trade"] = False
        for name, of, usual in (
            ("lenses", "lenses", [*settings.lenses]),
            ("most", "max_candidates", settings.max_candidates),
        ):
            if (value := run.params.get(of, usual)) != usual:
                found[name] = value
        return found

    def open(self, app: DeskApp, look: Look | None = None) -> Run:
        universe = ",".join(self.symbols) if self.symbols else None
        made = open_screen(app, universe, self.lenses, self.most, look=look, trade=self.trade)
        assert made is not None, "only a scheduled slot can be taken already"
        return made


WORKFLOWS = (
    Workflow(
        RunKind.SCREEN,
        "screener",
        (
            StepSpec(
                StepKind.SCREEN,
                "screen",
                split_universe,
                "screener",
                opens=open_scheduled,
                daily=("premarket", "midday"),
                after="the run",
            ),
            StepSpec(
                *(StepKind.SCREEN_SHARD, "screen", run_shard, "screener", "screen"),
                turn=True,
                fan_out="group",
                after="`screen`, or the step of its lens's rule",
                writes=("screen_hit", "shard_basis"),
            ),
            StepSpec(
                *(StepKind.MERGE, "ops", merge_hits, "screener"),
                spine=True,
                join=True,
                after="every `screen_shard`",
                writes=("candidate", "candidate_hit"),
            ),
        ),
        turns=screen_turns,
        request=ScreenRequest,
        without_orders={"trade": False},
    ),
)
