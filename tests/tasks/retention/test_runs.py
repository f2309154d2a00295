"""Deletion of runs: nothing that an order, a later verdict, an open run, a review or a score rests on."""

from __future__ import annotations

import datetime as dt
import random
import threading

import pytest
from sqlalchemy import text
from sqlmodel import Session, select

from chordesk.models.database.store import Store
from chordesk.models.settings import Settings
from chordesk.models.states import RunKind, RunState, StepKind, StepState
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.runs import Run, Step
from chordesk.tasks.engine.steps import PARENT_STEP
from chordesk.tasks.retention import run_deletion
from chordesk.tasks.retention.retention_policy import EVIDENCE, Policy, policy_of, total
from tests.builders import MARKET_NOW, a_run, a_step
from tests.patience import PATIENCE
from tests.tasks.retention import histories
from tests.tasks.retention.histories import Key, a_history, of_runs, reachable

OLD = dt.timedelta(days=400)


@pytest.fixture
def policy(settings: Settings) -> Policy:
    return policy_of(settings, utcnow())


def kept(store: Store) -> set[str]:
    with store.read() as session:
        return set(session.exec(select(Run.id)).all())


def an_old_run(session: Session, **values: object) -> Run:
    at = utcnow() - OLD
    return a_run(session, **{"state": RunState.DONE, "finished_at": at, "created_at": at, **values})


@pytest.mark.parametrize("seed", range(2))
def test_nothing_that_anything_rests_on_is_deleted(seed: int, store: Store, policy: Policy) -> None:
    with store.session() as session:
        made = a_history(session, random.Random(seed), 30)
    before = histories.rows(store)
    orders = {key for key in before if key[0] in {"order", "preview", "role_schedule"}}
    must_stay = reachable(before, of_runs(before, made.whole) | orders)
    scored = reachable(before, of_runs(before, made.scored))
    counted, gone = run_deletion.due(store, policy), run_deletion.collect(store, policy)
    assert {name: one.rows for name, one in gone.items()} == {name: one.rows for name, one in counted.items()}
    # PostgreSQL's size of a row depends on the plan that reads it.
    assert total(gone.values()).bytes == pytest.approx(
        total(counted.values()).bytes, rel=0.0 if store.is_sqlite else 0.05
    )
    after = histories.rows(store)
    assert must_stay - after.keys() == set()
    assert {key for key in scored - after.keys() if key[0] not in EVIDENCE} == set()
    assert set(after.keys() - before.keys()) == set()
    _assert_whole(after)
    assert len(after) < len(before), "a history in which something goes"
    assert run_deletion.collect(store, policy) == {} == run_deletion.due(store, policy)
    assert histories.rows(store) == after


def _assert_whole(found: dict[Key, dict[str, object]]) -> None:
    """No row refers to one that is gone, and of a deleted run there is none left."""
    there = {key[1][0] for key in found if key[0] == "run"}
    assert {values["run_id"] for values in found.values() if values.get("run_id")} <= there


def test_a_run_that_scores_rest_on_keeps_its_results_and_names_what_it_lost(store: Store, policy: Policy) -> None:
    with store.session() as session:
        made = a_history(session, random.Random(0), 40)
    scored_alone = made.scored - made.whole
    assert scored_alone
    run_deletion.collect(store, policy)
    with store.read() as session:
        found = session.exec(select(Run)).all()
    noted = {run.id for run in found if any("DESK_KEEP_RUN_DAYS" in note for note in run.notes)}
    assert noted
    assert noted.isdisjoint(made.whole)


def test_a_run_that_an_open_one_waited_for_stays(store: Store, policy: Policy) -> None:
    with store.session() as session:
        walk = a_run(session, kind=RunKind.BACKTEST)
        step = a_step(session, walk, kind=StepKind.BACKTEST_SESSION, state=StepState.WAITING)
        day = an_old_run(session, params={PARENT_STEP: step.id})
        other = an_old_run(session)
        ids = {walk.id, day.id}
        del other
    run_deletion.collect(store, policy)
    assert kept(store) == ids


def test_a_run_that_a_new_one_was_opened_on_meanwhile_stays(
    store: Store, policy: Policy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A person trades on an old run after it was looked up, and before it is deleted."""
    with store.session() as session:
        old = an_old_run(session).id
    looked_up = run_deletion.holds

    def then_traded(session: Session, before: dt.datetime) -> object:
        found = looked_up(session, before)
        with store.session() as other:
            a_run(other, kind=RunKind.TRADE, params={"source_run": old})
        return found

    monkeypatch.setattr(run_deletion, "holds", then_traded)
    assert run_deletion.collect(store, policy) == {}
    assert old in kept(store)


def test_the_foreign_keys_keep_what_the_lookup_should_miss(
    store: Store, policy: Policy, monkeypatch: pytest.MonkeyPatch
) -> None:
    with store.session() as session:
        old = an_old_run(session)
        step = a_step(session, old, state=StepState.DONE)
        a_step(session, a_run(session), parent_id=step.id)
    monkeypatch.setattr(run_deletion, "holds", lambda *_: {old.id: run_deletion.Hold.NOTHING})
    assert run_deletion.collect(store, policy) == {}
    with store.read() as session:
        assert session.get(Step, step.id) is not None


def test_one_that_ends_half_way_is_gone_on_with(store: Store, policy: Policy) -> None:
    """It dies after any of its transactions: each leaves a whole database, and the rest goes with the next pass."""
    for died_after in (0, 1, 5, 17):
        with store.session() as session:
            a_history(session, random.Random(died_after), 20)
        _die_after(store, policy, died_after)
        with store.read() as session:
            assert session.execute(text("pragma foreign_key_check")).first() is None
    run_deletion.collect(store, policy)
    assert run_deletion.collect(store, policy) == {}


class _Died(Exception):
    """The end of a process."""


def _die_after(store: Store, policy: Policy, transactions: int) -> None:
    own, left = store.session, transactions

    def session() -> object:
        nonlocal left
        left -= 1
        if left < 0:
            raise _Died
        return own()

    store.session = session  # type: ignore[method-assign,assignment]
    try:
        with pytest.raises(_Died):
            run_deletion.collect(store, policy)
    finally:
        store.session = own  # type: ignore[method-assign]


def test_two_at_once_delete_the_same(store: Store, policy: Policy) -> None:
    with store.session() as session:
        a_history(session, random.Random(3), 40)
    counted = run_deletion.due(store, policy)
    done: list[dict[str, object]] = []
    failed: list[BaseException] = []

    def collect() -> None:
        own = Store(store.url)
        try:
            done.append(dict(run_deletion.collect(own, policy)))
        except BaseException as error:
            failed.append(error)
        finally:
            own.close()

    both = [threading.Thread(target=collect) for _ in range(2)]
    for one in both:
        one.start()
    for one in both:
        one.join(PATIENCE)
    assert failed == []
    both_rows = {name: sum(found[name].rows for found in done if name in found) for name in counted}  # type: ignore[attr-defined]
    assert both_rows == {name: one.rows for name, one in counted.items()}
    assert run_deletion.due(store, policy) == {}


def test_the_market_day_of_a_question_holds_every_run_of_that_day(store: Store, policy: Policy) -> None:
    """A report of another run on the same symbol and day is scored by the question too."""
    with store.session() as session:
        a_history(session, random.Random(0), 40)
        day = session.execute(text("select rule from question")).scalars().first()
        assert day
        asked = session.exec(select(Run).where(Run.state == RunState.DONE)).first()
        assert asked
        same_day = an_old_run(session, market_now=MARKET_NOW).id
        session.execute(text("update question set rule = :rule"), {"rule": _rule(MARKET_NOW)})
    run_deletion.collect(store, policy)
    assert same_day in kept(store)


def _rule(at: dt.datetime) -> str:
    return f'{{"kind": "beats_median", "symbol": "IBM", "day": "{at:%Y-%m-%d}", "sessions": 10}}'


def test_zero_keeps_all_runs(store: Store, settings: Settings) -> None:
    with store.session() as session:
        an_old_run(session)
    off = settings.model_copy(update={"keep_run_days": 0.0})
    assert run_deletion.collect(store, policy_of(off, utcnow())) == {}
    day = dt.timedelta(days=1)
    assert run_deletion.collect(store, policy_of(off, utcnow(), day))["run"].rows == 1, "unless a person names an age"
