"""A board as the specification's example has it, and answers of voices on it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence
from typing import Any

from chordesk.agents.board.board_text import Board
from chordesk.agents.board.citations import JudgedCitation, judge
from chordesk.agents.board.karma import ConductNote, conduct
from chordesk.models.questions import (
    BoardQuestion,
    CitationStance,
    CitedSignal,
    SignalState,
    VoiceForecast,
    VoicePosition,
)
from chordesk.models.tables.board import Signal

NOW = dt.datetime(2026, 2, 17, 21, 0, tzinfo=dt.UTC)
FUNDING = (
    "BTC funding rate -0.015% on HyperLiquid (shorts paying). Negative 6 of last 8 intervals. Market leaning bearish "
    "but getting expensive to hold shorts."
)
HEAT = (
    "Portfolio heat: 34%. Current positions correlated at 0.71 (all crypto-long). Kelly recommends max 12% of bankroll "
    "on next position. Diversification flag: need non-crypto bet."
)
TEMPORAL = (
    "BTC 4h momentum diverging from daily. Volume declining into bounce. Pattern matches 3 prior instances, 2/3 "
    "reversed within 48h. Weak bounce signal."
)
DIVERGENCE = "ETH/BTC ratio divergence: Polymarket 62% vs Manifold 54% on ETH outperforming BTC in Feb. 8-point spread."
AUDIT = (
    "Strategy audit: consensus clustering at 78%, voices agreeing too much. Contrarian positions historically +14% "
    "when consensus above 75%. Fade alert."
)


def signal(tool: str, headline: str, **changes: Any) -> Signal:
    made: dict[str, Any] = {
        "label": f"{tool}-1",
        "id": f"id-{tool}",
        "tool": tool,
        "owner": "desk",
        "state": SignalState.LIVE,
        "headline": headline,
        "data": {},
        "source": "a venue",
        "as_of": NOW,
    }
    return Signal(run_id="run-9", **made | changes)


def question(label: str, **changes: Any) -> BoardQuestion:
    made: dict[str, Any] = {
        "label": label,
        "id": f"id-{label}",
        "text": "Will BTC stand above $100k at the end of March?",
        "subjects": ("BTC",),
        "baseline": 0.5,
        "baseline_source": "manifold",
        "closes_at": dt.datetime(2026, 3, 31, tzinfo=dt.UTC),
    }
    return BoardQuestion.model_validate(made | changes)


SIGNALS = (
    signal(
        "divergence",
        DIVERGENCE,
        owner="witness",
        confidence=0.72,
        direction="long",
        subjects=("Q2",),
        data={"polymarket": 0.62, "manifold": 0.54, "spread": 0.08},
    ),
    signal(
        "funding",
        FUNDING,
        owner="mediator",
        confidence=0.85,
        direction="bearish",
        subjects=("BTC",),
        data={"fundingRate": -0.00015, "negative": 6, "intervals": 8, "venue": "HyperLiquid"},
    ),
    signal(
        "portfolio", HEAT, owner="sizer", confidence=0.68, data={"heat": 0.34, "correlation": 0.71, "kellyMost": 0.12}
    ),
    signal("factors", AUDIT, owner="auditor", confidence=0.61, direction="contrarian", data={"consensus": 0.78}),
    signal(
        "temporal",
        TEMPORAL,
        owner="weaver",
        confidence=0.55,
        direction="bearish",
        subjects=("BTC",),
        data={"instances": 3, "reversed": 2, "hours": 48},
    ),
    signal("events", "No event within 7 days.", owner="challenger", state=SignalState.DORMANT),
    signal("arbitrage", "the venue answered 503", state=SignalState.OFFLINE),
)
QUESTIONS = (
    question("Q1"),
    question("Q2", text="Will ETH outperform BTC in February?", subjects=("ETH",)),
    question("Q3", text="A venue without a price", subjects=("SOL",), baseline=None),
)
BOARD = Board(QUESTIONS, SIGNALS, 9, dt.date(2026, 2, 17), run_id="run-9")

# Honest claims, in the voice's own language, on the signal of each tool.
HONEST = {
    "funding": "Those who bet on a fall pay 0.015% each time, 6 times of 8: bearish pressure is about to tire.",
    "portfolio": "The book's heat of 34% leaves room for one more bet of 12% at most.",
    "factors": "78% on one side of anything is a crowd; I lean against it.",
    "temporal": "A bounce that loses volume after 3 such patterns is worth a small fade.",
    "divergence": "Two venues are 8 points apart on ETH, and the dearer one is usually right.",
}


def cite(label: str, claim: str = "", stance: CitationStance = "build") -> CitedSignal:
    """Return a citation; its claim is the honest one of its tool where none is given."""
    return CitedSignal(signal=label, stance=stance, claim=claim or HONEST[label.rsplit("-", 1)[0]])


def position(
    citations: Iterable[CitedSignal] = (),
    *,
    voice: str = "mediator",
    number: int = 1,
    label: str = "Q1",
    probability: float = 0.6,
    because: str = "",
    chain: Sequence[str] = (),
    stake: float = 0.1,
) -> VoicePosition:
    forecast = VoiceForecast(
        question=label,
        probability=probability,
        stake=stake,
        because=because,
        citations=list(citations),
        chain=list(chain),
    )
    return VoicePosition(voice=voice, round=number, forecast=forecast, forecast_id=f"{voice}-{number}-{label}")


def judged(*positions: VoicePosition, board: Board = BOARD) -> list[JudgedCitation]:
    return [one for each in positions for one in judge(each, board)]


def noted(
    *positions: VoicePosition, voice: str = "mediator", own: str = "funding", board: Board = BOARD
) -> list[ConductNote]:
    return conduct(voice, own, positions, judged(*positions, board=board), board)
