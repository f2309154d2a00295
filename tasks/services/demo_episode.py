"""The demo's third part: tools post signals on a board, and voices forecast questions by them, in one round."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass

from chordesk.models.database.store import Store
from chordesk.models.states import RunKind
from chordesk.tasks.services.demo import newest
from chordesk.tasks.views.board.board_view import BoardView, board_view

COMMAND = ("episode", "--rounds", "1")


@dataclass(frozen=True, slots=True)
class EpisodeProofs:
    """What the newest episode left: signals by state, forecasts by voice, citations and those that count."""

    run_id: str
    signals: Mapping[str, int]
    questions: int
    forecasts: Mapping[str, int]
    citations: int
    counting: int
    number: int | None

    def lacking(self) -> list[str]:
        """Return what an episode must have and this one lacks."""
        wanted = {
            "live signals": self.signals.get("live", 0) > 0,
            "forecasts of several voices": len(self.forecasts) > 1,
            "citations that count": self.counting > 0,
            "a tally": self.number is not None,
        }
        return [name for name, there in wanted.items() if not there]


def episode_proofs(database: str) -> EpisodeProofs | None:
    """Return the newest episode of this database; None when it has none with a board."""
    with closing(Store(database)) as store, store.read() as session:
        run = session.exec(newest(RunKind.EPISODE)).first()
        board = board_view(session, run) if run is not None else None
    return _proofs(board) if board is not None else None


def _proofs(board: BoardView) -> EpisodeProofs:
    cited = [one for row in board.forecasts for one in row.citations]
    return EpisodeProofs(
        run_id=board.run_id,
        signals=Counter(one.state.value for one in board.signals),
        questions=len(board.questions),
        forecasts=Counter(one.voice for one in board.forecasts),
        citations=len(cited),
        counting=sum(bool(one.counts) for one in cited),
        number=board.tally.number if board.tally is not None else None,
    )
