"""Rows of a board, with a text of others in each place where one can stand."""

from __future__ import annotations

from sqlmodel import Session

from chordesk.models.states import StepKind, StepState
from chordesk.models.tables.board import Forecast, Question, Signal
from chordesk.models.tables.runs import Run
from tests.builders import a_step
from tests.tools.scoring import rows

HOSTILE = "rise\x1b[2J of [bold]1 %[/]"


def a_question(session: Session, run: Run, label: str, symbol: str) -> Question:
    row = rows.a_question(session, f"{symbol} {label}", None, symbol=symbol)
    rows.on_board(session, run, row, label)
    return row


def a_signal(session: Session, run: Run, tool: str, probability: float | None = 0.7, **values: object) -> Signal:
    return rows.a_signal(session, run, tool, probability, label=f"{tool}-1", headline=HOSTILE, **values)


def a_forecast(session: Session, run: Run, question: Question, voice: str, probability: float) -> Forecast:
    step = a_step(
        session, run, kind=StepKind.VOICE, role=f"voice_{voice}", subject="round-1", state=StepState.DONE,
        result={"status": "completed", "forecasts": 1, "left_out": ["Q9: no question of this board"]},
    )  # fmt: skip
    cited = [{"signal": "momentum-1", "stance": "build", "claim": HOSTILE}]
    texts = {"because": HOSTILE, "change": HOSTILE}
    return rows.a_forecast(session, run, question, voice, probability, step=step, citations=cited, **texts)
