"""What a finished run left behind as evidence: rows in the database and threads on disk."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sqlmodel import col, func, select

from models.order_tables import Order
from models.store import Store
from models.tables import Candidate, Decision, Run, ScreenHit, Turn, Verdict


@dataclass(frozen=True, slots=True)
class Proofs:
    """Counts of one run. tokens are those the model's server reported."""

    run_id: str
    state: str
    screened: int
    lenses: Mapping[str, int]
    candidates: int
    verdicts: Mapping[str, int]
    decisions: int
    orders: Mapping[str, int]
    turns: int
    tokens: int
    threads: int
    rollouts: int

    def lacking(self) -> list[str]:
        """What a run of the whole desk must have and this one has not."""
        wanted = {
            "a finished run": self.state == "done",
            "turns": self.turns > 0,
            "rollout files on disk": self.rollouts > 0,
            "candidates": self.candidates > 0,
            "verdicts": bool(self.verdicts),
            "a trader's decision": self.decisions > 0,
        }
        return [name for name, there in wanted.items() if not there]


def gather(database: str, home: Path) -> Proofs | None:
    """Counts of the newest run in this database; None when it has no run."""
    store = Store(database)
    try:
        with store.read() as session:
            run = session.exec(select(Run).order_by(col(Run.created_at).desc()).limit(1)).first()
            if run is None:
                return None
            hits = session.exec(select(ScreenHit.lens).where(ScreenHit.run_id == run.id)).all()
            ratings = session.exec(select(Verdict.rating).where(Verdict.run_id == run.id)).all()
            orders = session.exec(select(Order.state).where(Order.run_id == run.id)).all()
            turns = session.exec(select(Turn).where(Turn.run_id == run.id)).all()
            candidates = session.exec(select(func.count()).where(col(Candidate.run_id) == run.id)).one()
            decisions = session.exec(select(func.count()).where(col(Decision.run_id) == run.id)).one()
    finally:
        store.close()
    return Proofs(
        run_id=run.id,
        state=run.state,
        screened=len(run.params.get("symbols", [])),
        lenses=Counter(hits),
        candidates=candidates,
        verdicts=Counter(ratings),
        decisions=decisions,
        orders=Counter(orders),
        turns=len(turns),
        tokens=sum(turn.total_tokens for turn in turns),
        threads=len({turn.thread_id for turn in turns if turn.thread_id}),
        rollouts=sum(1 for _ in home.glob("codex/*/*/sessions/**/rollout-*.jsonl")),
    )
