"""When screens start, and that beat keeps the time: with a real beat on a real Redis."""

from __future__ import annotations

import datetime as dt
import json
import signal
from collections.abc import Callable, Iterator
from functools import partial

import pytest
import redis
from celery import Celery
from celery.schedules import crontab
from sqlmodel import select

from chordesk.models.database.store import Store
from chordesk.models.exchanges import HOME
from chordesk.models.tables.runs import Run, Step
from chordesk.models.text import NEW_YORK
from chordesk.tasks import schedules
from chordesk.tasks.redis_clients import redis_url
from chordesk.tasks.schedules import beat_state
from chordesk.tasks.worker.scheduler import WatchedScheduler
from chordesk.tasks.workflows import scheduled, screen
from chordesk.tasks.workflows.screen import session_slot
from chordesk.tools.orders import audit
from tests.parts import of_feature
from tests.patience import PATIENCE
from tests.stack import Processes, processes, wait_for
from tests.tasks.worker.steps import queued

FRIDAY = dt.datetime(2026, 11, 20, 12, tzinfo=NEW_YORK)


def next_tick(app: Celery, name: str, now: dt.datetime) -> dt.datetime:
    """When the entry is next due, in New York time."""
    entry = app.conf.beat_schedule[name]["schedule"]
    timed = crontab(
        minute=entry._orig_minute,
        hour=entry._orig_hour,
        day_of_week=entry._orig_day_of_week,
        nowfun=lambda: now,
        app=app,
    )
    return (now.astimezone(dt.UTC) + timed.remaining_estimate(now)).astimezone(NEW_YORK)


@pytest.mark.parametrize(
    ("name", "now", "due"),
    [
        ("premarket", FRIDAY, dt.datetime(2026, 11, 23, 8, 30, tzinfo=NEW_YORK)),  # over the weekend
        ("midday", FRIDAY, dt.datetime(2026, 11, 20, 12, 30, tzinfo=NEW_YORK)),
        # The same New York hour on both sides of the change to summer time.
        ("midday", dt.datetime(2026, 3, 6, 20, tzinfo=NEW_YORK), dt.datetime(2026, 3, 9, 12, 30, tzinfo=NEW_YORK)),
        ("midday", dt.datetime(2026, 3, 10, 15, tzinfo=dt.UTC), dt.datetime(2026, 3, 10, 12, 30, tzinfo=NEW_YORK)),
    ],
)
def test_screens_start_at_new_york_hours_on_weekdays(
    app: Celery, name: str, now: dt.datetime, due: dt.datetime
) -> None:
    assert app.conf.timezone == "America/New_York"
    assert next_tick(app, name, now) == due


def test_off_is_off(make_app: Callable[..., Celery]) -> None:
    assert set(make_app(premarket="off", midday="off").conf.beat_schedule) == set()
    assert set(make_app(premarket="off", midday="15:05").conf.beat_schedule) == {"midday"}


def test_an_episode_is_opened_once_a_session(make_app: Callable[..., Celery], monkeypatch: pytest.MonkeyPatch) -> None:
    opening = of_feature("chordesk.tasks.board.episode.opening")
    app = make_app(episode="16:30")
    app.loader.import_default_modules()
    monkeypatch.setattr(opening, "session_slot", lambda exchange: session_slot(exchange, FRIDAY))
    first = app.tasks["desk.brief"](schedule="episode")
    assert app.tasks["desk.brief"](schedule="episode") is None
    (run,) = runs(app.desk.store)
    assert (run.id, run.kind, run.schedule, run.slot) == (first, "episode", "episode", "2026-11-20")
    assert [name for name, _ in queued(app)["ops"]] == ["desk.brief"]
    monkeypatch.setattr(opening, "session_slot", lambda exchange: None)
    assert app.tasks["desk.brief"](schedule="episode") is None, "the exchange is closed"


@pytest.mark.parametrize(
    ("day", "slot"),
    [
        ("2026-11-20", "2026-11-20"),
        ("2026-11-21", None),  # a Saturday
        ("2026-11-26", None),  # Thanksgiving, a Thursday
        ("2026-11-27", "2026-11-27"),  # a short session is one
    ],
)
def test_a_slot_is_a_session_of_the_exchange(day: str, slot: str | None) -> None:
    assert session_slot(HOME, dt.datetime.fromisoformat(f"{day}T08:30").replace(tzinfo=NEW_YORK)) == slot


def on(monkeypatch: pytest.MonkeyPatch, now: dt.datetime) -> None:
    monkeypatch.setattr(screen, "session_slot", lambda exchange: session_slot(exchange, now))


def tick(app: Celery, name: str) -> str | None:
    app.loader.import_default_modules()
    run_id: str | None = app.tasks["desk.screen"](schedule=name)
    return run_id


def runs(store: Store) -> list[Run]:
    with store.read() as session:
        return list(session.exec(select(Run)).all())


def test_a_closed_day_opens_no_run(app: Celery, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    on(monkeypatch, dt.datetime(2026, 11, 26, 8, 30, tzinfo=NEW_YORK))
    assert tick(app, "premarket") is None
    assert (runs(store), queued(app)) == ([], {})


def test_a_slot_that_ticks_twice_opens_one_run(
    make_app: Callable[..., Celery], monkeypatch: pytest.MonkeyPatch
) -> None:
    app = make_app(universe="IBM,AAPL")
    store = app.desk.store
    on(monkeypatch, FRIDAY)
    first = tick(app, "premarket")
    assert tick(app, "premarket") is None
    other = tick(app, "midday")
    found = runs(store)
    assert {(run.id, run.schedule, run.slot) for run in found} == {
        (first, "premarket", "2026-11-20"),
        (other, "midday", "2026-11-20"),
    }
    with store.read() as session:
        steps = session.exec(select(Step.id).where(Step.kind == "screen")).all()
    assert sorted(queued(app)["screen"]) == sorted(("desk.screen", [step_id]) for step_id in steps)


def test_an_entry_with_a_request_starts_its_run_once_on_its_days(
    make_app: Callable[..., Celery], monkeypatch: pytest.MonkeyPatch
) -> None:
    app = make_app()
    store, settings = app.desk.store, app.desk.settings
    with store.session() as session:
        given = ["symbols=IBM,AAPL", "budget_tokens=7000"]
        schedules.add(session, settings, "weekly", "research", "09:45", "ann", days="fri", given=given)
        schedules.change(session, settings, "midday", "ann", schedules.Change(days="fri"))
        sent = schedules.beat_schedule_now(session, settings, FRIDAY)
    assert {name: one["task"] for name, one in sent.items()} == {
        "premarket": "desk.screen", "midday": "desk.scheduled", "weekly": "desk.scheduled"
    }  # fmt: skip
    for moment, names in ((FRIDAY - dt.timedelta(days=1), []), (FRIDAY, ["midday", "weekly"])):
        monkeypatch.setattr(scheduled, "utcnow", partial(moment.astimezone, dt.UTC))
        on(monkeypatch, moment)
        for name in ("weekly", "midday", "weekly", "nightly"):
            app.tasks["desk.scheduled"](schedule=name)
        assert sorted(str(run.schedule) for run in runs(store)) == names
    (run,) = [one for one in runs(store) if one.kind == "research"]
    assert (run.params["symbols"], run.slot, run.settings["budget_run_tokens"]) == (
        ["IBM", "AAPL"], "2026-11-20", 7000
    )  # fmt: skip


def test_what_could_not_start_is_in_the_audit_log(
    make_app: Callable[..., Celery], monkeypatch: pytest.MonkeyPatch
) -> None:
    app = make_app()
    monkeypatch.setattr(scheduled, "utcnow", partial(FRIDAY.astimezone, dt.UTC))
    with app.desk.store.session() as session:
        schedules.add(session, app.desk.settings, "holdings", "research", "09:45", "ann")
    assert scheduled.open_entry(app, "holdings") is None
    recorded = audit.log_path(app.desk.settings).read_text(encoding="utf-8")
    assert "schedule_not_started" in recorded
    assert "2026-11-20" in recorded
    assert runs(app.desk.store) == []


@pytest.fixture(scope="module")
def beating() -> Iterator[Processes]:
    with processes(DESK_MIDDAY="off") as desk:
        desk.desk("beat", "beat")
        yield desk


def test_a_redis_that_has_lost_the_schedule_gets_it_again(beating: Processes) -> None:
    """Lost with the lock, as after a restart without its file; and without it, as where an access list drops the
    transactions of a file."""

    def scheduled(client: redis.Redis) -> bool:
        state = beat_state(client)
        return state.running and [entry.name for entry in state.entries] == ["premarket"]

    with redis.Redis.from_url(redis_url(beating.settings)) as client:
        wait_for(lambda: scheduled(client), "beat has written its schedule")
        client.delete("desk:beat:premarket", "desk:beat::schedule", "desk:beat::statics")
        wait_for(lambda: scheduled(client), "it is written again")
        client.flushall()
        wait_for(lambda: scheduled(client), "it is written again, with the lock")


def test_what_came_due_while_the_schedule_was_lost_is_sent(
    make_app: Callable[..., Celery], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = dt.datetime.now(NEW_YORK) - dt.timedelta(minutes=2)
    app = make_app(premarket=f"{before:%H:%M}", midday="off")
    with redis.Redis.from_url(redis_url(app.desk.settings)) as client:
        for seen, due in ((None, False), (before - dt.timedelta(days=4), True)):  # four days have a weekday among them
            client.flushall()
            monkeypatch.setattr(WatchedScheduler, "last_tick", seen)
            WatchedScheduler(app)
            (entry,) = beat_state(client).entries
            assert (entry.next <= dt.datetime.now(dt.UTC)) is due


def test_beat_takes_over_what_people_change(beating: Processes) -> None:
    """A new time counts from then on: it is not due because it lies between now and the last start."""
    before = (dt.datetime.now(NEW_YORK) - dt.timedelta(minutes=2)).strftime("%H:%M")

    def names(client: redis.Redis) -> dict[str, bool]:
        return {entry.name: entry.next > dt.datetime.now(dt.UTC) for entry in beat_state(client).entries}

    with redis.Redis.from_url(redis_url(beating.settings)) as client:
        wait_for(lambda: names(client).get("premarket"), "beat has written its schedule")
        make_overdue(client, "premarket", due=False)
        store, settings = beating.app.desk.store, beating.settings
        with store.session() as session:
            schedules.change(session, settings, "premarket", "ann", schedules.Change(at=before))
            schedules.add(session, settings, "late", "screen", before, "ann")
        wait_for(lambda: names(client) == {"premarket": True, "late": True}, "both are there, and neither is due")
        with store.session() as session:
            schedules.change(session, settings, "premarket", "ann", schedules.Change(enabled=False))
        wait_for(lambda: set(names(client)) == {"late"}, "what is off is not sent")
        with store.session() as session:
            schedules.remove(session, settings, "premarket", "ann")
            schedules.remove(session, settings, "late", "ann")
        wait_for(lambda: names(client) == {"premarket": True}, "the settings are in force again")
        assert client.llen("screen") == 0


def make_overdue(client: redis.Redis, name: str, *, due: bool = True) -> None:
    """As if beat had last been up a year ago. due: it also looks at once."""
    key = f"desk:beat:{name}"
    meta = json.loads(client.hget(key, "meta"))
    meta["last_run_at"]["year"] -= 1
    client.hset(key, "meta", json.dumps(meta))
    if due:
        client.zadd("desk:beat::schedule", {key: 0})


def test_the_state_of_a_real_beat_has_what_was_sent_and_what_is_due(beating: Processes) -> None:
    with redis.Redis.from_url(redis_url(beating.settings)) as client:
        wait_for(lambda: beat_state(client).running, "beat has its lock")
        (entry,) = beat_state(client).entries
        assert entry.name == "premarket"
        assert entry.last is None
        assert entry.next > dt.datetime.now(dt.UTC)
        assert client.llen("screen") == 0
        make_overdue(client, "premarket")
        wait_for(lambda: client.llen("screen") == 1, "beat sends what it missed")
        headers = json.loads(client.lindex("screen", 0))["headers"]
        assert (headers["task"], bool(headers["expires"])) == ("desk.screen", True)
        (entry,) = entries = beat_state(client).entries
        assert entry.last is not None
        assert abs(dt.datetime.now(dt.UTC) - entry.last) < dt.timedelta(seconds=PATIENCE)
        beating.end("beat", signal.SIGKILL)
        wait_for(lambda: not beat_state(client).running, "its lock has run out")
        assert beat_state(client).entries == entries
