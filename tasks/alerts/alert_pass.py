"""The pass over alerts: each minute while an exchange is open, each five minutes else.

All subjects of all alerts are one set: their prices are fetched once. A pass has thirty seconds; what it did not come
to is first in the next. One process does it at a time, and of two looks at one time the database takes one.
"""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import structlog
from sqlalchemy import or_, update
from sqlmodel import Session, col, select

from chordesk.models.alerts.tables import AlertsAlert, AlertsFiring, AlertsPass, AlertsState
from chordesk.models.errors import DeskError, MarketUnavailable
from chordesk.models.events import DESK
from chordesk.models.exchanges import HOME, exchange_code
from chordesk.models.notices import note
from chordesk.models.tables.columns import absent_insert, utcnow
from chordesk.models.tables.runtime import Notice
from chordesk.models.text import one_line
from chordesk.tasks.alerts import firing
from chordesk.tasks.alerts.row_looks import row_look
from chordesk.tasks.worker.messages import DeskApp
from chordesk.tools.alerts import keeping
from chordesk.tools.alerts.conditions import Condition, condition_of
from chordesk.tools.alerts.crossing import Crossing, Terms, news, step
from chordesk.tools.alerts.market_looks import Look, MarketLooks
from chordesk.tools.market.clock import exchange_day, exchange_hours
from chordesk.tools.market.protocol import MarketData, Prefetching

log = structlog.get_logger(__name__)
NAME = "alerts"
PASS_SECONDS, LEASE = 30.0, dt.timedelta(seconds=90)
CLOSED, AWAY = dt.timedelta(seconds=290), dt.timedelta(minutes=5)
UNSEEN_SESSIONS = 3
# Of what is asked symbol by symbol: so many of a condition in a pass, and each so seldom.
MOST_NEWS, NEWS_APART, UNIVERSE_APART = 20, dt.timedelta(minutes=15), dt.timedelta(minutes=15)


def look_around(app: DeskApp) -> dict[str, int]:
    """Look at what is due, and start the runs of what fired. Counts for the log."""
    desk = app.desk
    with desk.store.read() as session:
        idle = not any(one.enabled for one in keeping.listed(session)) and not _starting(session)
    if idle:
        return {}
    now = utcnow()
    with desk.store.session() as session:
        session.connection().execute(absent_insert(session, AlertsPass), [{"name": NAME}])
        free = or_(col(AlertsPass.until).is_(None), col(AlertsPass.until) < now)
        taken = update(AlertsPass).where(col(AlertsPass.name) == NAME, free).values(owner=desk.owner, until=now + LEASE)
        mine = session.connection().execute(taken).rowcount == 1
        row = session.get_one(AlertsPass, NAME).model_copy()
    if not mine:
        return {"another": 1}
    ended: dict[str, dt.datetime] = {}
    try:
        found = {**_Pass(app, row).run(now), "started": firing.start_runs(app)}
        if not found["failed"]:  # what was not looked at must not count as looked at: the doctor asks for ended_at
            ended = {"ended_at": utcnow()}
        return found
    finally:
        with desk.store.session() as session:
            session.execute(
                update(AlertsPass)
                .where(col(AlertsPass.name) == NAME, col(AlertsPass.owner) == desk.owner)
                .values(until=None, **ended)
            )


def _starting(session: Session) -> bool:
    return session.exec(select(AlertsFiring.id).where(AlertsFiring.state == "starting").limit(1)).first() is not None


@dataclass(frozen=True, slots=True)
class Job:
    """One look that is due: an alert on a symbol, with what it remembers; None before its first look."""

    alert: AlertsAlert
    condition: Condition
    symbol: str
    state: AlertsState | None


@dataclass(slots=True)
class _Pass:
    app: DeskApp
    row: AlertsPass
    market: MarketData = field(init=False)
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(("looked", "fired", "left", "failed"), 0))

    def __post_init__(self) -> None:
        self.market = self.app.desk.account_market()

    def run(self, now: dt.datetime) -> dict[str, int]:
        settings, until = self.app.desk.settings, time.monotonic() + PASS_SECONDS
        jobs = list(self._due(now))
        away = self.row.left_until is not None and self.row.left_until > now
        of_market = [job for job in jobs if job.condition.kind.looks != "rows"]
        if of_market and not away and isinstance(self.market, Prefetching):
            symbols = list(dict.fromkeys(job.symbol for job in of_market if job.condition.kind.looks != "news"))
            self.market.prefetch(symbols, PASS_SECONDS / 2)
        looks = MarketLooks(self.market, settings.max_quote_age_minutes)
        for place, job in enumerate(jobs):
            if time.monotonic() > until or self.app.desk.drain.requested:
                self.counts["left"] = len(jobs) - place
                break
            if away and job.condition.kind.looks != "rows":
                continue
            try:
                self._look(job, looks)
            except MarketUnavailable as error:
                away, why = True, str(error.args[0])
                self._could_not(job, why)
                self._leave(now + AWAY, why)
            except Exception as error:  # one alert's fault stops no other's look
                log.warning("alerts.look_failed", alert=job.alert.name, symbol=job.symbol, exc_info=True)
                self._could_not(job, f"the look failed: {type(error).__name__}: {one_line(str(error), 200)}")
        return self.counts

    def _look(self, job: Job, looks: MarketLooks) -> None:
        if job.condition.kind.looks != "rows":
            self._take(job, _market_look(looks, job))
            return
        with self.app.desk.store.read() as session:
            self._take(job, row_look(session, self.app.desk.settings, job.condition, job.symbol))

    def _could_not(self, job: Job, why: str) -> None:
        """Write why nothing was seen: people are told, and another alert is first in the next pass."""
        try:
            self._take(job, Look(why=why))
        except Exception:
            log.warning("alerts.not_written", alert=job.alert.name, symbol=job.symbol, exc_info=True)
            self.counts["failed"] += 1

    def _due(self, now: dt.datetime) -> Iterator[Job]:
        """Yield the looks that are due, those that were not made for the longest time first."""
        settings, replays = self.app.desk.settings, self.market.clock.day is not None
        with self.app.desk.store.read() as session:
            alerts = [one for one in keeping.listed(session) if one.enabled and not _is_over(one, now)]
            states = {(one.alert, one.symbol): one for one in session.exec(select(AlertsState)).all()}
            found = []
            for alert in alerts:
                try:
                    condition = condition_of(alert.condition)
                    symbols = keeping.symbols_of(session, settings, alert, self.market)
                except DeskError as error:
                    log.warning("alerts.no_subject", alert=alert.name, error=str(error))
                    continue
                found += [Job(alert, condition, one, states.get((alert.name, one))) for one in symbols]
        long_ago = dt.datetime.min.replace(tzinfo=dt.UTC)
        found.sort(key=lambda job: (job.state.looked_at if job.state else long_ago, job.alert.name, job.symbol))
        closed = self.row.ended_at is not None and now - self.row.ended_at < CLOSED and not self._any_open(found)
        asked: dict[str, int] = {}
        for job in found:
            if self._is_due(job, now, closed=closed, replays=replays):
                if job.condition.kind.looks == "news":
                    asked[job.alert.name] = asked.get(job.alert.name, 0) + 1
                    if asked[job.alert.name] > MOST_NEWS:
                        continue
                yield job

    def _any_open(self, jobs: Sequence[Job]) -> bool:
        codes = {exchange_code(job.symbol) if job.symbol else HOME for job in jobs}
        return any(self.market.clock.is_open(code) for code in codes)

    def _is_due(self, job: Job, now: dt.datetime, *, closed: bool, replays: bool) -> bool:
        kind, state = job.condition.kind, job.state
        if closed and not replays:
            return False
        if kind.looks == "rows":
            return True
        if self.row.left_until is not None and self.row.left_until > now:
            return False
        code = exchange_code(job.symbol)
        if job.alert.hours == "session" and kind.looks == "price" and not self.market.clock.is_open(code):
            return False
        if state is None:
            return True
        if replays or kind.looks == "company":  # such a look says the same all day
            return not _same_day(state, self.market, code)
        if kind.looks == "bars":  # of the last session that has ended; a source may be late with it
            late = state.unknown_since is not None and now - state.looked_at >= NEWS_APART
            return late or state.last_at is None or _closed_since(state.last_at, self.market, code)
        apart = UNIVERSE_APART if job.alert.subject == "universe" else NEWS_APART if kind.looks == "news" else None
        return apart is None or now - state.looked_at >= apart

    def _leave(self, until: dt.datetime, why: str) -> None:
        log.warning("alerts.market_away", error=why)
        with self.app.desk.store.session() as session:
            row = session.get_one(AlertsPass, NAME)
            row.left_until, row.left_why = until, why[:200]
            session.add(row)

    def _take(self, job: Job, look: Look) -> None:
        """Write what a look came to: the state, and of a firing all that it is, in one transaction."""
        self.counts["looked"] += 1
        settings = self.app.desk.settings
        state, whys = remembered(job, look, self.market)
        tells = _tells_unseen(state, job)
        state.unknown_told |= tells
        with self.app.desk.store.session() as session:
            if whys:
                # An alert that is written again under its name goes on counting: a slot is used once.
                state.fired = max(state.fired, _last_slot(session, job) + len(whys))
            if not _write_state(session, job.state, state):
                return  # another pass has looked meanwhile
            for number, why in enumerate(whys, start=1):
                made = AlertsFiring(
                    alert=job.alert.name, symbol=job.symbol, why=why, value=look.value, reference=look.reference,
                    slot=f"{_day(state, job)}:{state.fired - len(whys) + number}", market_at=state.last_at or utcnow(),
                )  # fmt: skip
                firing.write(session, settings, job.alert, made)
                self.counts["fired"] += 1
            if tells:
                note(session, _unseen(state))


def _last_slot(session: Session, job: Job) -> int:
    """Return the ordinal of the newest firing under an alert's name on a symbol, 0 without one."""
    same = AlertsFiring.alert == job.alert.name, AlertsFiring.symbol == job.symbol
    newest = select(AlertsFiring.slot).where(*same).order_by(col(AlertsFiring.id).desc()).limit(1)
    slot = session.exec(newest).first()
    return int(slot.rpartition(":")[2]) if slot is not None else 0


def _market_look(looks: MarketLooks, job: Job) -> Look:
    alert = job.alert
    reference = job.state.reference if job.state is not None else None
    return looks.look(job.condition, job.symbol, alert.written_on, reference, lasting=alert.for_minutes > 0)


def _is_over(alert: AlertsAlert, now: dt.datetime) -> bool:
    return alert.expires_at is not None and alert.expires_at <= now


def _same_day(state: AlertsState, market: MarketData, code: str) -> bool:
    """Return whether the last look was at the same day of the same market."""
    if state.market != market.name or state.last_at is None:
        return False
    return exchange_day(state.last_at, code) == exchange_day(market.clock.now(), code)


def _closed_since(at: dt.datetime, market: MarketData, code: str) -> bool:
    hours = exchange_hours(code)
    return hours.last_closed(at) != hours.last_closed(market.clock.now())


def remembered(job: Job, look: Look, market: MarketData) -> tuple[AlertsState, list[str]]:
    """Return the state after a look, and why the alert fires, once for each firing.

    What was seen of another market, or at a later time than now, is of another course of things: the look is a first
    one, as on a replay that went to an earlier day.
    """
    rows, before = job.condition.kind.looks == "rows", job.state
    label, now = ("rows", utcnow()) if rows else (market.name, market.clock.now())
    later = before is not None and not rows and before.last_at is not None and before.last_at > now
    if before is None or before.market != label or later:
        before = AlertsState(
            alert=job.alert.name, symbol=job.symbol, market=label, version=before.version if before else 0,
            fired=before.fired if before else 0,
        )  # fmt: skip
    after = AlertsState(**before.model_dump())
    after.version, after.last_at, after.looked_at = before.version + 1, now, utcnow()
    code = exchange_code(job.symbol) if job.symbol else HOME
    if look.found is None and (not look.ticks or look.ticks[-1].beyond is None):
        after.held_at = None
        if look.ticks:
            _crossed(after, job, Look(ticks=look.ticks[-1:]), code, before.last_at)
        after.unknown_since = after.unknown_since or exchange_day(now, code)
        after.unknown_why = look.why[:300] or "nothing is known"
        return after, []
    after.unknown_since, after.unknown_why, after.unknown_told = None, None, False
    after.last_value = look.value
    whys = _happened(after, look) if look.found is not None else _crossed(after, job, look, code, before.last_at)
    after.fired += len(whys)
    if whys:
        after.fired_at = now
        after.reference = look.value if not rows else None
    elif after.reference is None and not rows:
        after.reference = look.value
    return after, whys


def _happened(after: AlertsState, look: Look) -> list[str]:
    """One firing for all that is new at a look."""
    texts = dict(look.found or ())
    after.seen, fresh = news(after.seen, list(texts))
    after.armed = True
    if not fresh:
        return []
    more = f" (and {len(fresh) - 1} more)" if len(fresh) > 1 else ""
    return [f"{texts[fresh[0]]}{more}"]


def _crossed(after: AlertsState, job: Job, look: Look, code: str, last_at: dt.datetime | None) -> list[str]:
    """last_at: of the look before."""
    alert, hours, whys = job.alert, exchange_hours(code), list[str]()
    rearm = alert.rearm if alert.rearm in ("cooldown", "once") else "outside"
    terms = Terms(alert.for_minutes, rearm, alert.cooldown_minutes, hours, job.condition.anew)  # type: ignore[arg-type]
    fired_on, looked_on = (exchange_day(at, code) if at is not None else None for at in (after.fired_at, last_at))
    now = Crossing(after.armed, after.distance, after.held_at, after.fired_at, fired_on, looked_on)
    for place, tick in enumerate(look.ticks):
        now, fires = step(now, tick, terms)
        if fires:
            what = look.texts[place] if place < len(look.texts) else ""
            lasted = f" for {alert.for_minutes} minutes" if alert.for_minutes else ""
            whys.append(f"{job.symbol or alert.subject} {job.condition.said}{lasted}: {what}")
    after.armed, after.distance, after.held_at = now.armed, now.distance, now.held_at
    return whys


def _write_state(session: Session, before: AlertsState | None, after: AlertsState) -> bool:
    values, wire = after.model_dump(), session.connection()
    if before is None:
        return wire.execute(absent_insert(session, AlertsState), values).rowcount == 1
    same = col(AlertsState.alert) == after.alert, col(AlertsState.symbol) == after.symbol
    changed = update(AlertsState).where(*same, col(AlertsState.version) == before.version).values(values)
    return wire.execute(changed).rowcount == 1


def _day(state: AlertsState, job: Job) -> dt.date:
    assert state.last_at is not None
    return exchange_day(state.last_at, exchange_code(job.symbol) if job.symbol else HOME)


def _tells_unseen(state: AlertsState, job: Job) -> bool:
    if state.unknown_since is None or state.unknown_told:
        return False
    hours = exchange_hours(exchange_code(job.symbol) if job.symbol else HOME)
    return len(hours.between(state.unknown_since, _day(state, job))) >= UNSEEN_SESSIONS


def _unseen(state: AlertsState) -> Notice:
    since = str(state.unknown_since)
    facts = {"alert": state.alert, "since": since, "why": state.unknown_why}
    return Notice(
        key=f"alert:{state.alert}:{state.symbol}:unseen:{since}", kind="alerts_unseen", subject=state.symbol,
        facts=facts, run_id=DESK, occurred_at=utcnow(),
    )  # fmt: skip
