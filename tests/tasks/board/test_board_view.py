"""The board of a run as rows of tables, made by hand."""

from __future__ import annotations

import pytest
from sqlmodel import Session

from chordesk.models.errors import UsageError
from chordesk.models.states import RunKind, RunState
from chordesk.models.tables.board import SignalCitation
from chordesk.tasks.board.board_display import board_report
from chordesk.tasks.board.board_view import board_view
from chordesk.tasks.reading.chain import chain as read_chain
from tests.builders import a_candidate, a_run
from tests.tasks.cli.console import rendered
from tests.tasks.views.board_rows import HOSTILE, a_forecast, a_question, a_signal
from tests.tasks.views.chain import parts


def test_a_board_before_its_tally_has_citations_as_written_and_after_it_as_decided(session: Session) -> None:
    run = a_run(session, kind=RunKind.EPISODE)
    question = a_question(session, run, "Q1", "ACME")
    signal = a_signal(session, run, "momentum")
    a_signal(session, run, "funding", None, state="dormant", direction="neutral")
    forecast = a_forecast(session, run, question, "weaver", 0.7)
    found = board_view(session, run)
    assert (found.citations, [one["signal"] for one in found.forecasts[0].citations]) == ([], ["momentum-1"])
    assert "momentum-1 build not judged yet" in rendered(board_report(found))
    assert {row.label: row.probability for row in found.signals} == {"funding-1": None, "momentum-1": 0.7}
    assert found.tally is None
    session.add(
        SignalCitation(
            run_id=run.id, forecast_id=forecast.id, signal_id=signal.id, ordinal=0, label="momentum-1", stance="build",
            claim=HOSTILE, counts=False, reason="copied: 0.90 of the headline", copied=0.9,
        )
    )  # fmt: skip
    session.flush()
    (cited,) = board_view(session, run).citations
    assert (cited.counts, cited.copied) == (False, 0.9)
    text = rendered(board_report(board_view(session, run)))
    assert "\x1b" not in text
    assert "[bold]1 %[/]" in text, "what a voice wrote is no markup"
    for part in (
        "momentum-1 live bullish",
        "Q1 weaver: 70.0%",
        "wrong if: ",
        "void (copied: 0.90 of the headline)",
        "Q9: no question",
    ):
        assert part in text, text


def test_labels_are_in_the_order_of_their_numbers(session: Session) -> None:
    run = a_run(session, kind=RunKind.EPISODE)
    for number in (10, 2, 1):
        a_question(session, run, f"Q{number}", f"S{number}")
    assert [row.label for row in board_view(session, run).questions] == ["Q1", "Q2", "Q10"]


def test_an_episode_without_a_board_has_its_reason(session: Session) -> None:
    for state, reason in (
        (RunState.RUNNING, "its questions are not chosen yet"),
        (RunState.DONE, "it had no question"),
    ):
        with pytest.raises(UsageError, match=f"has no board: {reason}"):
            board_view(session, a_run(session, kind=RunKind.EPISODE, state=state))


def test_the_lineage_of_a_symbol_goes_on_to_its_forecasts_citations_and_signals(session: Session) -> None:
    run = a_run(session)
    a_candidate(session, run, "ACME")
    question, other = a_question(session, run, "Q1", "ACME"), a_question(session, run, "Q2", "IBM")
    signal = a_signal(session, run, "momentum")
    forecast = a_forecast(session, run, question, "weaver", 0.7)
    a_forecast(session, run, other, "sizer", 0.3)
    session.add(
        SignalCitation(
            run_id=run.id, forecast_id=forecast.id, signal_id=signal.id, ordinal=0, label="momentum-1", stance="build",
            claim="as it says", counts=True,
        )
    )  # fmt: skip
    session.flush()
    chain = read_chain(session, run, "ACME")
    (found,) = parts(chain, "forecast")
    assert (found["id"], found["voice"], found["thread_id"]) == (forecast.id, "weaver", "thread-weaver")
    (cited,) = found["citations"]
    assert (cited["signal_id"], cited["counts"]) == (signal.id, True)
    assert [(row["id"], row["tool"]) for row in parts(chain, "signal")] == [(signal.id, "momentum")]
