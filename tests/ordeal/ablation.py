"""What each part of a research turn's question, and each lens of a screen, is worth to the rules.

`python -m tests.ordeal.ablation` on the replay, `... FOLDER` on a folder of own data such as StockBench's.

Candidates of the screens of some days are researched with everything, then without one part at a time. A part is worth
what its absence changes: reports (verdict or thesis) and ratings; a lens, which candidates come first. Rules read
figures alone, so a part that is words for a model (the regime, the screeners' theses, the memory) changes nothing here,
and only its tokens are told.
"""

from __future__ import annotations

import datetime as dt
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from chordesk.agents.roles import ROLES, Hit, accept, default_roles, rank, required_roles, shards
from chordesk.agents.subjects import Thesis, screener_subject, validator_subject
from chordesk.agents.thesis_pooling import Rule, kept
from chordesk.agents.turn_answers import RecordedCall
from chordesk.agents.verdicts.research_verdict import conclude
from chordesk.models.analysis import RoleReport, ValidatorOutput
from chordesk.models.answers import ReportStatus, ScreenOutput
from chordesk.models.settings import LENSES, Settings
from chordesk.tools.market.factory import build_market
from chordesk.tools.registry import ToolAnswer, ToolContext
from chordesk.tools.scoring.market_regime import base_rates, rate_row, regime_row
from tests.agents.rulebook.play import Played, RealDesk, play
from tests.ordeal.tokens import tokens_of

DAYS = [dt.date(2010, month, 12) for month in (5, 7, 8)]
OWN_DAYS = [dt.date(2025, month, day) for month in (4, 5, 6) for day in (2, 16)]  # of the window of StockBench
CANDIDATES = 10
PARTS = ("regime", "baseRates", "screenTheses")


class Research:
    """One day's candidates."""

    def __init__(self, settings: Settings, symbols: Sequence[str]) -> None:
        self.settings = settings
        market = build_market(self.settings)
        self.context = ToolContext(market, market.clock, None, self.settings, "paper", None)
        self.subjects = list[dict[str, Any]]()
        names = symbols or [listing.symbol for listing in market.universe("sp500")]
        self.hits = screened(RealDesk(self.settings), names)
        for one in rank(self.hits, CANDIDATES):
            theses = [Thesis(lens=hit.lens, confidence=hit.confidence, thesis=hit.thesis) for hit in one.hits]
            rates = base_rates(self.context, [one.symbol])
            rows = [{"symbol": one.symbol, **rate_row(rate)} for rate in rates.get(one.symbol, [])]
            subject = validator_subject(one.symbol, one.instrument, theses, self.settings)
            self.subjects.append({**subject, "regime": regime_row(self.context), "baseRates": rows})
        self._answers: dict[str, dict[str, Any]] = {}

    def _answer(self, tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """As the tool gave it; the same for each way that the candidate is researched."""
        key = json.dumps([tool, arguments])
        if key not in self._answers:
            spec = next(one for role in ROLES.values() for one in role.tools if one.name == tool)
            found = spec.function(self.context, spec.arguments.model_validate(arguments))
            self._answers[key] = {"cite": "kqz-a", **found}  # type: ignore[dict-item]
        return self._answers[key]

    def verdict(self, subject: Mapping[str, Any], without: str, spent: dict[str, int]) -> tuple[str, list[str]]:
        """Return the rating, and each report as a text. spent: counts the tokens of each part, by its name."""
        shown = {name: part for name, part in subject.items() if name != without}
        reports = []
        for key in default_roles():
            tools = {
                tool.name: lambda given, name=tool.name: self._answer(name, given)
                for tool in ROLES[key].tools
                if tool.name != without
            }
            played = play(key, shown, tools)
            for name in PARTS:
                spent[name] = spent.get(name, 0) + (_tokens(shown[name]) if name in shown else 0)
            for call, answer in zip(played.calls, played.outputs, strict=True):
                spent[call.tool] = spent.get(call.tool, 0) + _tokens(answer)
            reports.append(self._report(key, played, shown))
        result = conclude(reports, required_roles(self.settings), Rule())
        return result.rating.value, [one.model_dump_json(exclude={"summary", "key_risks"}) for one in reports]

    def _report(self, key: str, played: Played, subject: Any) -> RoleReport:
        now = self.context.clock.now()
        seen = [
            RecordedCall(call.arguments, ToolAnswer(call.tool, True, answer, True, bool(answer["available"]), 0.0), now)
            for call, answer in zip(played.calls, played.outputs, strict=True)
        ]
        if not any(one.answer.has_data for one in seen):
            return RoleReport(role=key, status=ReportStatus.NO_DATA, reason="no tool had data")
        stated = ValidatorOutput.model_validate(played.answer)
        told = kept(stated.thesis, subject, seen)
        fields = stated.model_dump(exclude={"thesis"})
        return RoleReport(role=key, status=ReportStatus.COMPLETED, **fields, thesis=told)

    def without_lens(self, lens: str) -> float:
        """Return the share of the first candidates that are others without a lens."""
        first = {one.symbol for one in rank(self.hits, CANDIDATES)}
        left = {one.symbol for one in rank([hit for hit in self.hits if hit.lens != lens], CANDIDATES)}
        return len(first - left) / max(len(first), 1)


def screened(desk: RealDesk, symbols: Sequence[str]) -> list[Hit]:
    hits = list[Hit]()
    for lens in LENSES:
        for number, shard in enumerate(shards(symbols, desk.settings.shard_size)):
            played, _ = desk.turn(f"screener_{lens}", screener_subject(lens, number, shard, desk.settings))
            kept, _ = accept(ScreenOutput.model_validate(played.answer), lens, shard, options_allowed=False)
            hits += [
                Hit(f"{lens}{number}{one.symbol}", lens, one.symbol, one.instrument, one.confidence, one.thesis)
                for one in kept
            ]
    return hits


def _tokens(part: Any) -> int:
    return len(tokens_of(json.dumps(part, separators=(",", ":"), default=str)))


def played_days(home: Path, folder: Path | None) -> list[Research]:
    if folder is None:
        return [Research(Settings(home=home, replay_date=day), ()) for day in DAYS]
    names = sorted(one.stem for one in (folder / "bars").glob("*.csv"))
    market = {"market": "files", "data": folder}
    return [Research(Settings(home=home, replay_date=day, **market), names) for day in OWN_DAYS]


def main() -> None:
    with tempfile.TemporaryDirectory() as home:
        days = played_days(Path(home), Path(sys.argv[1]) if len(sys.argv) > 1 else None)
        found = Counter(hit.lens for day in days for hit in day.hits)
        for lens in LENSES:
            changed = sum(day.without_lens(lens) for day in days) / len(days)
            print(f"lens {lens:11} {found[lens]:4} hits, {changed:4.0%} of the first {CANDIDATES} candidates change")
        spent: dict[str, int] = {}
        whole = [day.verdict(subject, "", spent) for day in days for subject in day.subjects]
        reports = sum(len(one) for _, one in whole)
        print(f"{len(whole)} verdicts of {reports} reports on {len(days)} days; tokens are a verdict's")
        for part, tokens in sorted(spent.items(), key=lambda one: -one[1]):
            less = [day.verdict(subject, part, {}) for day in days for subject in day.subjects]
            both = list(zip(whole, less, strict=True))
            changed = sum(a != b for (_, old), (_, new) in both for a, b in zip(old, new, strict=True)) / reports
            ratings = sum(old != new for (old, _), (new, _) in both) / len(both)
            each = tokens / len(whole)
            print(f"{part:16} {each:6.0f} tokens, {changed:4.0%} of reports change, {ratings:4.0%} of ratings")


if __name__ == "__main__":
    main()
