"""A whole chain by hand, from the order to the threads and screen hits, with rows beside it that must not show."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any

from sqlmodel import Session

from chordesk.models.states import OrderState, RunKind, StepKind, StepState
from chordesk.models.tables.orders import Order, Preview
from chordesk.models.tables.runs import (
    CandidateHit,
    Decision,
    Report,
    Run,
    ScreenHit,
    ToolCall,
    Turn,
    Verdict,
    VerdictReport,
)
from tests.builders import MARKET_NOW, a_candidate, a_run, a_step, a_turn

MODEL = "rulebook (rules, no model)"


@dataclass(frozen=True, slots=True)
class Chain:
    """The ids of the chain of ACME, and how many turns its run has."""

    run_id: str
    order_id: str
    preview_hash: str
    decision_id: str
    verdict_id: str
    turns: int

    def expected(self) -> dict[str, Any]:
        return {
            "orders": [(self.order_id, self.preview_hash, self.decision_id, self.verdict_id, "thread-trader")],
            "verdict": self.verdict_id,
            "reports": [("quick", "thread-ACME-quick", 2), ("risk", "thread-ACME-risk", 1)],
            "hits": [("catalyst", "thread-catalyst"), ("technical", "thread-technical")],
        }

    @staticmethod
    def ids_of(found: Any) -> dict[str, Any]:
        """Return the ids of a lineage, in the form of `expected`."""
        decisions, previews = parts(found, "decision"), parts(found, "preview")
        hashes = {row["order_id"]: row["payload_hash"] for row in previews}
        (decision,) = decisions or [{"id": None, "thread_id": None}]
        return {
            "orders": [
                (row["id"], hashes.get(row["id"]), decision["id"], row["verdict_id"], decision["thread_id"])
                for row in parts(found, "order")
            ],
            "verdict": parts(found, "verdict")[0]["id"],
            "reports": [(row["role"], row["thread_id"], len(row["calls"])) for row in parts(found, "report")],
            "hits": [(row["lens"], row["thread_id"]) for row in parts(found, "hit")],
        }


def parts(found: Any, kind: str) -> list[dict[str, Any]]:
    """Return the nodes of a kind, of a chain as read or as JSON, each with its facts beside its own fields."""
    nodes = found["nodes"] if isinstance(found, dict) else [node.model_dump() for node in found.nodes]
    return [{**node, **node["facts"]} for node in nodes if node["kind"] == kind]


def a_chain(session: Session) -> Chain:
    """A screen of two symbols with orders on both, and an older run of the same symbols beside it."""
    _researched(session, a_run(session), ("ACME", "IBM"))
    run = a_run(session)
    verdicts = _researched(session, run, ("ACME", "IBM"))
    decision = _decided(session, run, ("ACME", "IBM"))
    order = an_order(session, run, decision, verdicts["ACME"], 0, state=OrderState.PREVIEWED)
    preview = a_preview(session, order)
    an_order(session, run, decision, verdicts["IBM"], 1, denial_code="cooldown", denial_reason="too soon")
    return Chain(run.id, order.id, preview.payload_hash, decision.id, verdicts["ACME"].id, turns=7)


def a_trade(session: Session, source: str, verdict_id: str) -> Run:
    """A trade on the verdicts of `source`, with an order on ACME."""
    run = a_run(session, kind=RunKind.TRADE, params={"source_run": source}, parent_run_id=source)
    decision = _decided(session, run, ("ACME",))
    an_order(session, run, decision, session.get_one(Verdict, verdict_id), 0, state=OrderState.DRAFTED)
    return run


def _researched(session: Session, run: Run, symbols: tuple[str, ...]) -> dict[str, Verdict]:
    candidates = {name: a_candidate(session, run, name, rank=place) for place, name in enumerate(symbols, start=1)}
    for lens in ("technical", "catalyst"):
        step = a_step(session, run, kind=StepKind.SCREEN_SHARD, role=f"screener_{lens}", state=StepState.DONE)
        turn = a_turn(session, step, thread_id=f"thread-{lens}", model=MODEL, total_tokens=1000)
        hits = [_hit(run, step.id, turn.id, lens, name) for name in symbols]
        session.add_all(hits)
        session.flush()
        session.add_all(CandidateHit(candidate_id=candidates[hit.symbol].id, hit_id=hit.id) for hit in hits)
    return {name: _judged(session, run, name, candidate.id) for name, candidate in candidates.items()}


def _hit(run: Run, step_id: str, turn_id: str, lens: str, symbol: str) -> ScreenHit:
    thesis = f"[bold]{lens}[/] likes {symbol}"
    about = {"run_id": run.id, "market_at": run.market_now, "step_id": step_id, "turn_id": turn_id, "symbol": symbol}
    return ScreenHit(**about, lens=lens, instrument="equity", confidence="high", thesis=thesis)


def _judged(session: Session, run: Run, symbol: str, candidate_id: str) -> Verdict:
    about = {"run_id": run.id, "candidate_id": candidate_id, "symbol": symbol}
    judged = {"rating": "BUY", "confidence": "medium", "summary": "two of two", "market_at": run.market_now}
    verdict = Verdict(**about, **judged)
    session.add(verdict)
    session.flush()
    for role, calls in (("quick", 2), ("risk", 1)) if symbol == "ACME" else (("quick", 0), ("risk", 0)):
        step = a_step(session, run, subject=symbol, role=role, state=StepState.DONE)
        turn = a_turn(session, step, thread_id=f"thread-{symbol}-{role}", model=MODEL, total_tokens=100)
        _called(session, turn, calls)
        said = {"status": "completed", "verdict": "CONFIRMED", "confidence": "high", "summary": "steady"}
        made = {"step_id": step.id, "turn_id": turn.id, "author": MODEL, "market_at": MARKET_NOW}
        report = Report(**about, **said, **made, role=role)
        session.add(report)
        session.flush()
        session.add(VerdictReport(verdict_id=verdict.id, report_id=report.id))
    return verdict


def _called(session: Session, turn: Turn, count: int) -> None:
    call = {"tool": "signals_get", "output": "{}", "success": True, "has_data": True, "seconds": 0.1}
    session.add_all(ToolCall(turn_id=turn.id, ordinal=ordinal, **call) for ordinal in range(count))


def _decided(session: Session, run: Run, symbols: tuple[str, ...]) -> Decision:
    step = a_step(session, run, kind=StepKind.DECIDE, state=StepState.DONE, subject="")
    turn = a_turn(session, step, role="trader", subject="paper", thread_id="thread-trader", model=MODEL)
    about = {"run_id": run.id, "step_id": step.id, "turn_id": turn.id, "account": "paper", "author": MODEL}
    actions = [an_action(name) for name in symbols]
    decision = Decision(**about, status="completed", actions=actions, reasoning="both are good")
    session.add(decision)
    session.flush()
    return decision


def an_action(symbol: str, **changes: Any) -> dict[str, Any]:
    action = {
        "symbol": symbol, "action": "open", "side": "buy", "quantity": None, "notional": 5000.0,
        "order_type": "market", "limit_price": None, "confidence": "medium", "reasoning": f"{symbol} is good",
    }  # fmt: skip
    return {**action, **changes}


def an_order(session: Session, run: Run, decision: Decision, verdict: Verdict, ordinal: int, **values: Any) -> Order:
    defaults: dict[str, Any] = {
        "id": str(uuid.uuid5(uuid.NAMESPACE_OID, f"{decision.id}/{ordinal}")), "run_id": run.id,
        "decision_id": decision.id, "verdict_id": verdict.id, "ordinal": ordinal, "account": run.account,
        "symbol": verdict.symbol, "action": "open", "side": "buy", "quantity": 50.0, "order_type": "market",
        "state": OrderState.DENIED, "market_at": MARKET_NOW,
    }  # fmt: skip
    order = Order(**{**defaults, **values})
    session.add(order)
    session.flush()
    return order


def a_preview(session: Session, order: Order) -> Preview:
    preview = Preview(
        order_id=order.id, payload="{}", payload_hash="ab" * 32, price=100.0, priced_at=MARKET_NOW, notional=5000.0
    )
    session.add(preview)
    session.flush()
    return preview
