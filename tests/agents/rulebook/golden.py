"""The rules' answers on ten symbols of the replay market, by which a change of a rule is reviewed.

`python -m tests.agents.rulebook.golden` writes them anew. Read the difference before it is committed.
"""

from __future__ import annotations

import datetime as dt
import json
import tempfile
from pathlib import Path
from typing import Any

from chordesk.agents.roles import ROLES, Hit, accept, default_roles, rank, required_roles, shards
from chordesk.agents.subjects import (
    JudgedSymbol,
    Thesis,
    analyst_subject,
    screener_subject,
    trader_subject,
    validator_subject,
)
from chordesk.agents.thesis_pooling import Rule, kept
from chordesk.agents.verdicts.research_verdict import conclude
from chordesk.models.analysis import PLANNERS, AnalysisRequest, RoleReport, ValidatorOutput
from chordesk.models.answers import ReportStatus, ScreenOutput
from chordesk.models.settings import LENSES, Settings
from tests.agents.rulebook.play import RealDesk, unsupported

FILE = Path(__file__).parents[2] / "golden" / "rules" / "answers.json"
SYMBOLS = ("IBM", "KO", "AFL", "AIG", "EL", "JWN", "WFC", "X", "GE", "AAPL")
PORTFOLIO = {"cash": 100_000.0, "equity": 100_000.0, "buyingPower": 100_000.0, "positions": []}


def desk(home: Path) -> RealDesk:
    return RealDesk(Settings(home=home, replay_date=dt.date(2010, 8, 12), replay_options="modelled"))


def answers(found: RealDesk) -> dict[str, Any]:
    """Everything that the rules say, from the screen of the whole universe to the trader's actions."""
    hits = screen(found)
    told: dict[str, Any] = {"screen": {lens: [hit.symbol for hit in hits if hit.lens == lens] for lens in LENSES}}
    best = [hit for hit in hits if hit.symbol in {one.symbol for one in rank(hits, 10)}]
    told["theses"] = [{"lens": hit.lens, "symbol": hit.symbol, "thesis": hit.thesis} for hit in best]
    judged = []
    for candidate in rank(hits, 10):
        theses = [Thesis(lens=hit.lens, confidence=hit.confidence, thesis=hit.thesis) for hit in candidate.hits]
        subject = validator_subject(candidate.symbol, candidate.instrument, theses, found.settings)
        reports = [report(found, key, subject) for key in default_roles()]
        verdict = conclude(reports, required_roles(found.settings), Rule())
        told[f"verdict {candidate.symbol}"] = [one.model_dump(mode="json") for one in reports]
        kept = verdict.model_dump(include={"rating", "confidence", "summary", "missing"})
        judged.append(
            JudgedSymbol(
                symbol=candidate.symbol, instrument=candidate.instrument, keyRisks=verdict.key_risks, **kept
            )
        )  # fmt: skip
    told["ratings"] = {one["symbol"]: one["rating"] for one in judged}
    for one in judged:
        one["sizing"] = {"most": 5_000.0, "bound": "equal risk", "stop": None}
    told["trader"] = found.turn("trader", trader_subject("paper", judged, PORTFOLIO, found.settings))[0].answer
    for symbol in SYMBOLS:
        told[f"csp {symbol}"] = analysis(found, symbol, "csp")
    for strategy in ("covered_call", "equity"):
        told[f"{strategy} AFL"] = analysis(found, "AFL", strategy)
    return told


def screen(found: RealDesk) -> list[Hit]:
    symbols, hits = [listing.symbol for listing in found.market.universe("sp500")], list[Hit]()
    for lens in LENSES:
        for number, shard in enumerate(shards(symbols, found.settings.shard_size)):
            played, _ = found.turn(f"screener_{lens}", screener_subject(lens, number, shard, found.settings))
            assert unsupported(played.answer, played.outputs) == []
            kept, notes = accept(ScreenOutput.model_validate(played.answer), lens, shard, options_allowed=False)
            assert notes == []
            hits += [
                Hit(f"{lens}{number}{one.symbol}", lens, one.symbol, one.instrument, one.confidence, one.thesis)
                for one in kept
            ]
    return hits


def report(found: RealDesk, key: str, subject: Any) -> RoleReport:
    played, seen = found.turn(key, subject)
    if not any(call.answer.has_data for call in seen):
        return RoleReport(role=key, status=ReportStatus.NO_DATA, reason="no tool had data")
    answer = ValidatorOutput.model_validate(played.answer)
    fields = answer.model_dump(exclude={"thesis"})
    return RoleReport(role=key, status=ReportStatus.COMPLETED, **fields, thesis=kept(answer.thesis, subject, seen))


def analysis(found: RealDesk, symbol: str, strategy: Any) -> dict[str, Any]:
    """The analysts of a strategy one after the other, each with the answers before it."""
    earlier: dict[str, Any] = {}
    candidate = validator_subject(symbol, "equity", [], found.settings)
    request = AnalysisRequest(strategy=strategy)
    for key in request.roles:
        read = {name: one for name, one in earlier.items() if name in ROLES[key].reads}
        asked = analyst_subject(candidate, request if key in PLANNERS else None, read)
        earlier[key] = found.report(key, asked)[0]
    return earlier


def written(told: dict[str, Any]) -> str:
    """The answers as a file: a line for each."""
    lines = (f"{json.dumps(name)}: {json.dumps(one, sort_keys=True)}" for name, one in told.items())
    return "{\n" + ",\n".join(lines) + "\n}\n"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as home:
        FILE.write_text(written(answers(desk(Path(home)))))
