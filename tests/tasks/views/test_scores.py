"""Scores of everything from one database, and the terminal's tables of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from sqlmodel import Session, select

from chordesk.models.database.store import Store
from chordesk.models.errors import NotFound
from chordesk.models.settings import Settings
from chordesk.models.tables.board import Episode, KarmaEntry, Question, ScoreMark
from chordesk.models.tables.runs import Run
from chordesk.tasks.cli.show.run_display import run_report
from chordesk.tasks.reading.runs import view
from chordesk.tasks.reading.scores import ScoreBoard, kept_scores, scores
from chordesk.tools.questions.medians import Resolved
from chordesk.tools.questions.resolving import settle
from chordesk.tools.scoring.verdict_calibration import store_odds, verdict_odds
from tests.builders import a_candidate, a_report, a_step, a_turn, a_verdict_on
from tests.databases import make_database
from tests.parts import of_feature
from tests.tasks.cli.console import rendered
from tests.tools.scoring.rows import a_forecast, a_question, a_run_on, a_signal, on_board, on_day
from tests.tools.scoring.test_records import a_hit, a_verdict

CUTOFFS = "gpt-5.5=2010-01-31"
DAYS = 40


@pytest.fixture(scope="module")
def episodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """40 days, each the third, with a question each: ada knows the chance, bo flips coins, cy is certain of what the
    dice show.

    Ada's model was trained until the tenth day. On each board a signal with the chance; on each day a verdict BUY with
    a report and a hit of a lens.
    """
    url = f"sqlite:///{tmp_path_factory.mktemp('episodes') / 'desk.db'}"
    make_database(url)
    store, draws = Store(url), np.random.default_rng(8)
    with store.session() as session:
        _play(session, draws)
        yield session
    store.close()


def _play(session: Session, draws: np.random.Generator) -> None:
    for day in range(DAYS):
        chance = 0.3 if day % 2 else 0.8
        run, outcome = a_run_on(session, 3 * day), float(draws.random() < chance)
        question = a_question(session, f"q{day}", outcome, 3 * day, source="verdict")
        on_board(session, run, question, "Q1", blind=0.5, informed=chance)
        about = {"run_id": run.id, "account": "paper", "number": day, "content": "", "created_at": on_day(0)}
        session.add(Episode(**about, rounds=2, used_round=1 + day % 2))
        a_signal(session, run, "momentum", chance, "AAPL")
        a_forecast(session, run, question, "ada", 0.5, author="codex:gpt-5.5")
        a_forecast(session, run, question, "ada", chance, round=2, author="codex:gpt-5.5")
        a_forecast(session, run, question, "bo", float(draws.random()))
        a_forecast(session, run, question, "cy", 0.98 if draws.random() < 0.5 else 0.02)
        _judge(session, run, question.id)
    asked = session.exec(select(Question.id).limit(2)).all()
    for question_id, amount in zip(asked, (1.5, -3.5), strict=True):
        entry = {"account": "paper", "voice": "ada", "run_id": run.id, "market_at": on_day(0)}
        session.add(KarmaEntry(**entry, question_id=question_id, amount=amount))
    session.flush()
    a_forecast(session, run, a_question(session, "open", None, 3 * DAYS), "ada", 0.9)


def test_kept_scores_are_those_from_scratch_whatever_happens(tmp_path: Path) -> None:
    """A question that resolves, a replay's run on a day whose questions have, one of its roles still at work, karma."""
    settings = Settings(home=tmp_path)
    make_database(settings.database)
    store = Store(settings.database)

    def same(kept: bool) -> None:
        with store.read() as session:
            before, now = session.get(ScoreMark, "paper"), scores(session, "paper", CUTOFFS)
        assert kept_scores(store, "paper", CUTOFFS) == now
        with store.read() as session:
            voices = scores(session, "paper", CUTOFFS, "voice", "ada")
            after = session.get(ScoreMark, "paper")
        assert kept_scores(store, "paper", CUTOFFS, "voice", "ada") == voices
        assert (before is not None and after is not None and before.since == after.since) == kept

    with store.session() as session:
        for day in range(3):
            run = a_run_on(session, day)
            question = a_question(session, f"q{day}", 1.0, day, source="verdict")
            a_forecast(session, run, question, "ada", 0.7, author="codex:gpt-5.5")
            _judge(session, run, question.id)
        waits = a_question(session, "waits", None, 5)
        a_forecast(session, run, waits, "ada", 0.9)
        ids = run.id, question.id, waits.id
    same(kept=False)
    same(kept=True)
    with store.session() as session:
        earned = {"run_id": ids[0], "question_id": ids[1], "amount": 2.5, "market_at": on_day(0)}
        session.add(KarmaEntry(account="paper", voice="ada", **earned))
    same(kept=True)
    with store.session() as session:
        settle(session, ids[2], Resolved(0.0, {}), "somebody")
    same(kept=False)
    same(kept=True)
    with store.session() as session:
        again = a_run_on(session, 2, state="running")
        a_hit(session, again, "technical", "AAPL")
        a_forecast(session, again, session.get_one(Question, ids[1]), "ada", 0.2)
        again_id = again.id
    same(kept=True)  # of the state before: while the run goes on nothing is kept
    with store.session() as session:
        session.get_one(Run, again_id).state = "done"
    same(kept=False)
    same(kept=True)
    with store.session() as session:
        a_run_on(session, 2 * 365)
    same(kept=False)
    with store.read() as session:
        assert scores(session, "paper", CUTOFFS).rows == []
        assert scores(session, "paper", CUTOFFS, ever=True).rows != []
    store.close()


def _judge(session: Session, run: Run, question_id: str) -> None:
    a_hit(session, run, "technical", "AAPL")
    step = a_step(session, run, role="risk")
    report = a_report(session, step, a_turn(session, step))
    a_verdict_on(session, report.candidate_id, question_id)


def board(session: Session, *which: str) -> ScoreBoard:
    return scores(session, "paper", CUTOFFS, *which)  # type: ignore[arg-type]


def test_every_source_is_scored_as_theory_has_it(episodes: Session) -> None:
    found = board(episodes)
    assert found.questions == {"open": 1, "resolved": DAYS}
    rows = {(row.kind, row.name): row for row in found.rows}
    assert set(rows) == {
        ("voice", "ada"), ("voice", "bo"), ("voice", "cy"), ("tool", "momentum"), ("lens", "technical"),
        ("role", "risk"), ("rating", "BUY"),
    }  # fmt: skip
    assert {row.brier.n for row in rows.values()} == {DAYS}
    ada, bo, cy = (rows["voice", name] for name in ("ada", "bo", "cy"))
    assert ada.alpha.mean > 0 > bo.alpha.mean > cy.alpha.mean
    assert ada.brier.mean == pytest.approx(rows["tool", "momentum"].brier.mean)
    assert bo.alpha.mean == pytest.approx(-1 / 12, abs=0.06)
    assert cy.brier.mean == pytest.approx(0.48, abs=0.1)
    assert all(row.alpha.error is not None for row in rows.values())
    judged = {("lens", "technical"): "high", ("role", "risk"): "CONFIRMED high", ("rating", "BUY"): "BUY high"}
    for (kind, name), label in judged.items():
        (rate,) = rows[kind, name].labels  # type: ignore[index]
        assert (rate.name, rate.rate.n, rate.brier.n) == (label, DAYS, DAYS)
        assert rows[kind, name].unrecorded == 5, "the first outcome is known on the 15th day"  # type: ignore[index]
        assert rows[kind, name].alpha.mean == pytest.approx(0, abs=0.02)


def test_sides_of_the_cutoff_are_split(episodes: Session) -> None:
    found = {row.name: row for row in board(episodes, "voice").rows}
    assert [(side.name, side.brier.n) for side in found["ada"].sides] == [("after", 30), ("before", 10)]
    assert [(side.name, side.brier.n) for side in found["bo"].sides] == [("exempt", DAYS)]
    unknown = scores(episodes, "paper", "", "voice", "ada").rows[0]
    assert [side.name for side in unknown.sides] == ["unknown"]


def test_a_voice_is_shown_by_round_with_its_gain_and_its_karma(episodes: Session) -> None:
    (ada,) = board(episodes, "voice", "ada").rows
    assert [(part.name, part.brier.n) for part in ada.rounds] == [("round 1", DAYS), ("round 2", DAYS)]
    assert ada.rounds[0].brier.mean == 0.25
    assert ada.revision is not None
    assert ada.revision.mean == pytest.approx(0.25 - ada.brier.mean)
    assert ada.karma == -2.0
    assert [(row.low, row.n) for row in ada.calibration] == [(0.3, 20), (0.8, 20)]


def test_the_crowd_is_shown_with_the_round_in_use(episodes: Session) -> None:
    found = board(episodes).crowd
    assert found is not None
    assert found.gain.mean == pytest.approx(found.rounds[0].brier.mean - found.rounds[1].brier.mean)
    assert found.better_round == 2
    published = board(episodes).published
    assert published is not None
    rounds = [part.brier.mean for part in found.rounds]
    assert min(rounds) < published.brier.mean < max(rounds), "half of the episodes used each"
    assert board(episodes, "tool").crowd is None


def test_an_unknown_name_is_refused_with_those_there_are(episodes: Session) -> None:
    with pytest.raises(NotFound, match="known are ada, bo, cy"):
        board(episodes, "voice", "dee")
    with pytest.raises(NotFound, match="nothing of the kind"):
        scores(episodes, "other", "", "tool", "momentum")


def test_without_an_outcome_there_are_no_scores(session: Session) -> None:
    a_forecast(session, a_run_on(session, 0), a_question(session, "q", None), "ada", 0.7)
    found = board(session, "voice", "ada")
    assert (found.rows, found.crowd, found.questions) == ([], None, {"open": 1})
    assert rendered(of_feature("chordesk.tasks.board.question_display:score_report")(found)) == (
        "Account paper. Questions: 1 open.\nNothing to score: none of its 1 questions has an outcome, 1 still open.\n"
    )


def test_questions_of_other_accounts_are_told_apart(session: Session) -> None:
    other = a_run_on(session, 0, account="backtest-1")
    for number in range(3):
        a_forecast(session, other, a_question(session, f"q{number}", 1.0), "ada", 0.7, account="backtest-1")
    found = board(session)
    assert (found.rows, found.questions, found.elsewhere) == ([], {}, 3)
    assert rendered(of_feature("chordesk.tasks.board.question_display:score_report")(found), 200) == (
        "Account paper. Questions: none yet.\nNothing to score: account paper has forecast or judged no question yet; "
        "3 resolved questions of the desk are not its own.\n"
    )


def test_a_verdict_shows_its_probability_once_there_is_one(session: Session) -> None:
    for day in range(30):
        a_verdict(session, day, "AAPL", float(day % 3 != 0))
    run = a_run_on(session, 120)
    a_verdict_on(session, a_candidate(session, run).id)
    assert view(session, run).candidates[0].verdict_probability is None
    odds = verdict_odds(session, "paper", {})
    store_odds(session, "paper", odds)
    shown = view(session, run)
    assert shown.candidates[0].verdict_probability == pytest.approx(2 / 3)
    assert "high 67%" in rendered(run_report(shown))
    assert "67% beat the median (49% to 81%), 30 questions on 30 dates" in rendered(
        of_feature("chordesk.tasks.board.question_display:odds_report")(odds, 30), 120
    )
