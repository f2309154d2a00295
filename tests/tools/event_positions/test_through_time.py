"""A venue's question from its import to its payout, and a venue that changes its mind."""

from __future__ import annotations

from chordesk.models.database.store import Store
from chordesk.models.settings import Settings
from chordesk.models.tables.board import Question
from chordesk.tools.event_positions import event_ledger, settle_event_positions, stake_run
from chordesk.tools.market.replay.market import ReplayMarket
from chordesk.tools.questions.importing import import_one
from chordesk.tools.questions.resolving import resolve_due
from chordesk.tools.venues.factory import build_venues
from tests.fakes.venues import FarVenues
from tests.tools.event_positions.test_staking import far, settings
from tests.tools.ledger_rows import add_run

__all__ = ["far", "settings"]  # fixtures


def test_a_position_is_paid_by_the_first_outcome_and_keeps_it(
    store: Store, far: FarVenues, settings: Settings, market: ReplayMarket
) -> None:
    venues = build_venues(settings)
    question = import_one(store, venues["kalshi"], "KX-1", "Ada").questions[0].question.id
    with store.session() as session:
        run_id = add_run(session).id
    (staked,) = stake_run(store, settings, run_id, {question: 0.9}, venues)
    assert staked.position is not None

    def resolve() -> tuple[int, int, float]:
        report = resolve_due(store, market, "paper", on_resolved=(settle_event_positions,), venues=venues)
        with store.read() as session:
            ledger = event_ledger(session, "paper", settings.event_bankroll)
        return len(report.resolved), len(report.changed), round(ledger.realised, 2)

    assert resolve() == (0, 0, 0.0)
    far.kalshi["KX-1"].update(status="determined", result="yes")
    assert resolve() == (0, 0, 0.0)
    far.kalshi["KX-1"].update(status="finalized", settlement_value_dollars="1.0000")
    assert resolve() == (1, 0, round(80 - staked.position.cost, 2))
    far.kalshi["KX-1"].update(result="no", settlement_value_dollars="0.0000")
    assert resolve() == (0, 1, round(80 - staked.position.cost, 2))
    assert resolve()[0] == 0
    with store.read() as session:
        row = session.get_one(Question, question)
        assert (row.outcome, row.note) == (1.0, "kalshi gave KX-1 the outcome 1.0 and now gives it 0.0")
