"""The content of an episode by code: what stands out of its board and rounds, as JSON and as markdown."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from chordesk.agents.board.board_text import Board, one_line, percent
from chordesk.agents.board.citations import NOTE, JudgedCitation, compare
from chordesk.agents.board.karma import (
    BoardConsensus,
    ConductNote,
    Convergence,
    Herding,
    QuestionAggregate,
    board_consensus,
    disagreements,
    last_positions,
    valid_chain,
)
from chordesk.models.questions import ROUNDS, SignalState, VoicePosition, implied, log_odds
from chordesk.tools.scoring.inference import Estimate

MOST_QUOTES = 3
QUOTE_CHARS = 280
MOST_TOOLS = 3  # that add to the merit


def best_quotes(
    positions: Iterable[VoicePosition], judged: Sequence[JudgedCitation], board: Board
) -> list[dict[str, Any]]:
    """Return the reasons of highest merit, one a voice. Of last positions with a citation that counts, and whose reason
    is not near a headline: the most tools cited (up to three), then a chain, then a disagreement, then the distance
    from the baseline in log odds; then by voice and question."""
    ranked = sorted(
        (
            (_merit(one, judged, board), one)
            for one in last_positions(positions)
            if one.forecast.because.strip() and _tools(one, judged) and not _near_a_headline(one, board)
        ),
        key=lambda pair: (pair[0], pair[1].voice, pair[1].forecast.question),
    )
    taken: dict[str, dict[str, Any]] = {}
    for _merits, one in ranked:
        taken.setdefault(one.voice, _quote(one, judged))
    return list(taken.values())[:MOST_QUOTES]


def _merit(one: VoicePosition, judged: Sequence[JudgedCitation], board: Board) -> tuple[float, ...]:
    question = board.question(one.forecast.question)
    baseline = question.baseline if question else None
    moved = 0.0 if baseline is None else abs(log_odds(one.forecast.probability) - log_odds(baseline))
    return (
        -float(min(len(_tools(one, judged)), MOST_TOOLS)),
        -float(bool(valid_chain(one, judged))),
        -float(bool(disagreements(one, judged))),
        -moved,
    )


def _tools(one: VoicePosition, judged: Iterable[JudgedCitation]) -> list[str]:
    key = one.voice, one.round, one.forecast.question
    return sorted({c.tool for c in judged if c.counts and c.tool and (c.voice, c.round, c.question) == key})


def _near_a_headline(one: VoicePosition, board: Board) -> bool:
    return any(compare(one.forecast.because, signal.headline).score >= NOTE for signal in board.live)


def _quote(one: VoicePosition, judged: Sequence[JudgedCitation]) -> dict[str, Any]:
    return {
        "voice": one.voice,
        "question": one.forecast.question,
        "round": one.round,
        "probability": one.forecast.probability,
        "text": one_line(one.forecast.because, QUOTE_CHARS),
        "tools": _tools(one, judged),
    }


TEXT_CHARS = 400


@dataclass(frozen=True, slots=True)
class VoiceStanding:
    """A voice that took part, with its karma after this episode and its record. resolved: n of its alpha."""

    voice: str
    faction: str = ""
    skill: float = 0.0
    alpha: Estimate | None = None

    @property
    def resolved(self) -> int:
        return self.alpha.n if self.alpha else 0


@dataclass(frozen=True)
class EpisodeTally:
    """What an episode came to."""

    board: Board
    standings: tuple[VoiceStanding, ...]
    positions: tuple[VoicePosition, ...] = ()
    judged: tuple[JudgedCitation, ...] = ()
    conduct: tuple[ConductNote, ...] = ()
    rounds: Mapping[int, Sequence[QuestionAggregate]] = field(default_factory=dict)  # the aggregates of each
    used_round: int | None = None  # the one whose are published, None without a round
    convergence: tuple[Convergence, ...] = ()
    herding: Herding | None = None
    notes: Mapping[str, Sequence[str]] = field(default_factory=dict)  # of answers, by voice

    @property
    def aggregates(self) -> Sequence[QuestionAggregate]:
        return () if self.used_round is None else self.rounds[self.used_round]


def content(tally: EpisodeTally) -> dict[str, Any]:
    return {
        "episode": tally.board.number,
        "day": tally.board.day.isoformat(),
        "used_round": tally.used_round,
        "signals": _signals(tally),
        "quotes": best_quotes(tally.positions, tally.judged, tally.board),
        "questions": [_question(one.label, tally) for one in tally.board.questions],
        "positions": [_positions(one.voice, tally) for one in tally.standings],
        "leaderboard": _leaderboard(tally),
        "chains": _chains(tally),
        "disagreements": _disagreements(tally),
        "citations": {
            "given": len(tally.judged),
            "counting": sum(one.counts for one in tally.judged),
            "copied": sum(one.quoted for one in tally.judged),
        },
        "lint": _lint(tally),
        "consensus": _consensus(board_consensus(tally.aggregates)),
        "notes": {voice: list(lines) for voice, lines in sorted(tally.notes.items()) if lines},
    }


def _signals(tally: EpisodeTally) -> dict[str, Any]:
    counts = Counter(str(one.state) for one in tally.board.signals)
    used = {one.tool for one in tally.judged if one.counts}
    return {
        "states": {state.value: counts[state] for state in SignalState},
        "offline": sorted({one.tool for one in tally.board.signals if one.state == SignalState.OFFLINE}),
        "unused": sorted({one.tool for one in tally.board.live} - used),
    }


def _question(label: str, tally: EpisodeTally) -> dict[str, Any]:
    question = tally.board.questions_by_label[label]
    made: dict[str, Any] = {
        "question": label,
        "id": question.id,
        "text": one_line(question.text, TEXT_CHARS),
        "baseline": question.baseline,
        "closes_at": question.closes_at.isoformat(),
        "aggregate": None,
    }
    for one in tally.aggregates:
        if one.question == label:
            made["aggregate"] = _aggregate(one)
    return made


def _aggregate(one: QuestionAggregate) -> dict[str, Any]:
    agreement = one.agreement
    return {
        "round": one.round,
        "probability": one.probability,
        "voices": one.voices,
        "diversity": one.diversity,
        "effective_voices": one.effective,
        "consensus": agreement.corrected if agreement else None,
        "by_faction": {name: each.corrected if each else None for name, each in sorted(one.by_faction.items())},
        "dissent": [{**asdict(each), "because": one_line(each.because, TEXT_CHARS)} for each in one.dissent],
    }


def _positions(voice: str, tally: EpisodeTally) -> dict[str, Any]:
    rounds: dict[str, dict[str, float]] = {}
    for one in tally.positions:
        if one.voice == voice:
            rounds.setdefault(one.forecast.question, {})[str(one.round)] = one.forecast.probability
    return {"voice": voice, "forecasts": rounds}


def _leaderboard(tally: EpisodeTally) -> list[dict[str, Any]]:
    return [
        {
            "voice": one.voice,
            "faction": one.faction,
            "skill": one.skill,
            "conduct": [
                {"conduct": str(each.conduct), "note": each.note} for each in tally.conduct if each.voice == one.voice
            ],
            "resolved": one.resolved,
            "alpha": one.alpha.mean if one.alpha else None,
            "alpha_low": one.alpha.low if one.alpha else None,
            "alpha_high": one.alpha.high if one.alpha else None,
        }
        for one in sorted(tally.standings, key=lambda one: (-one.skill, one.voice))
    ]


def _chains(tally: EpisodeTally) -> list[dict[str, Any]]:
    found = []
    for one in _ordered(tally.positions):
        chain = valid_chain(one, tally.judged)
        if chain:
            found.append({"voice": one.voice, "question": one.forecast.question, "round": one.round, "signals": chain})
    return found


def _disagreements(tally: EpisodeTally) -> list[dict[str, Any]]:
    found = []
    for one in _ordered(tally.positions):
        for label in disagreements(one, tally.judged):
            signal = tally.board.signals_by_label[label]
            baseline = tally.board.questions_by_label[one.forecast.question].baseline
            found.append(
                {
                    "voice": one.voice,
                    "question": one.forecast.question,
                    "round": one.round,
                    "signal": label,
                    "implied": None if baseline is None else implied(signal, baseline),
                    "probability": one.forecast.probability,
                    "claim": _claim_of(one, label, tally.judged),
                }
            )
    return found


def _claim_of(position: VoicePosition, label: str, judged: Iterable[JudgedCitation]) -> str:
    key = position.voice, position.round, position.forecast.question, label
    claims = (c.cited.claim for c in judged if c.counts and (c.voice, c.round, c.question, c.cited.signal) == key)
    return one_line(next(claims, ""), TEXT_CHARS)


def _lint(tally: EpisodeTally) -> dict[str, Any]:
    made: dict[str, Any] = {"convergence": [asdict(one) for one in tally.convergence], "herding": None}
    if tally.herding is not None:
        held, gain = tally.herding, tally.herding.gain
        made["herding"] = {
            "blind": held.blind,
            "informed": held.informed,
            "left": held.left,
            "alarm": held.alarm,
            "resolved": gain.n if gain else 0,
            "gain": gain.mean if gain else None,
            "gain_low": gain.low if gain else None,
            "gain_high": gain.high if gain else None,
        }
    return made


def _consensus(found: BoardConsensus) -> dict[str, Any]:
    return {"overall": found.overall, "by_faction": dict(found.by_faction)}


def _ordered(positions: Iterable[VoicePosition]) -> list[VoicePosition]:
    known = {number: at for at, number in enumerate(ROUNDS)}
    return sorted(positions, key=lambda one: (known.get(one.round, one.round), one.voice, one.forecast.question))


# The summary as markdown. Texts of voices and venues are escaped: none makes a line, cell or link.

_MARKED = re.compile(r"[\\`*_{}\[\]()<>|~#&$!^=]")
_LINK = re.compile(r"://|(?i:\bwww\.)|@")
_CELL, _LINE = 80, 400


def markdown(summary: Mapping[str, Any]) -> str:
    """Return a summary as a page: quotes, questions, positions with a row a voice, leaderboard, chains, lint."""
    parts = [
        [f"# Episode {summary['episode']}, {escaped(str(summary['day']), _CELL)}"],
        _quotes(summary["quotes"]),
        _questions(summary["questions"], summary["used_round"]),
        _positions_lines(summary["positions"], [row["question"] for row in summary["questions"]]),
        _leaderboard_lines(summary["leaderboard"]),
        _list("Chains", [_chain(one, held) for one, held in _by_round(summary["chains"], "signals")]),
        _list(
            "Disagreements", [_disagreement(one, held) for one, held in _by_round(summary["disagreements"], "signal")]
        ),
        _list("Checks of the second round", _lint_lines(summary["lint"])),
        _list("The board", _board(summary)),
    ]
    return "\n\n".join("\n".join(part) for part in parts if part) + "\n"


def escaped(text: str, most: int = _LINE) -> str:
    """Return a text for a line or a cell of markdown, in which nothing of it is markup, HTML or a link."""
    marked = _MARKED.sub(lambda found: f"\\{found[0]}", one_line(text, most))
    return _LINK.sub(lambda found: _broken(found[0]), marked)


def _broken(found: str) -> str:
    """Return the start of a link with a backslash in it, which a page does not show and no reader follows."""
    return {"://": ":\\/\\/", "@": "\\@"}.get(found, f"{found[:-1]}\\.")


def _quotes(quotes: Sequence[Mapping[str, Any]]) -> list[str]:
    rows = [
        f"**{escaped(one['voice'], _CELL)}** on {escaped(one['question'], _CELL)}, {percent(one['probability'])}: "
        f'"{escaped(one["text"])}"'
        for one in quotes
    ]
    return _list("Best quotes", rows)


def _questions(questions: Sequence[Mapping[str, Any]], used: int | None) -> list[str]:
    if not questions:
        return []
    head = "Aggregate" if used is None else f"Aggregate of round {used}"
    rows = [["Question", "Text", "Baseline", head, "Consensus above chance", "Dissent"]]
    for one in questions:
        found = one["aggregate"] or {}
        dissent = ", ".join(f"{each['voice']} {percent(each['probability'])}" for each in found.get("dissent", ()))
        rows.append(
            [
                one["question"],
                one["text"],
                percent(one["baseline"]),
                percent(found.get("probability")),
                _decimal(found.get("consensus")),
                dissent or "none",
            ]
        )
    return _table("Questions", rows)


def _positions_lines(positions: Sequence[Mapping[str, Any]], labels: Sequence[str]) -> list[str]:
    rows = [["Voice", *labels]]
    for one in positions:
        rows.append([one["voice"], *(_rounds(one["forecasts"].get(label, {})) for label in labels)])
    return _table("Positions", rows) if positions else []


def _rounds(given: Mapping[str, float]) -> str:
    return " → ".join(percent(given[number]) for number in sorted(given)) or "none"


def _leaderboard_lines(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    table = [["Voice", "Skill", "Resolved", "Alpha", "Conduct"]]
    for one in rows:
        alpha = "none" if one["alpha"] is None else f"{one['alpha']:+.4f}"
        if one["alpha_low"] is not None:
            alpha += f", {one['alpha_low']:+.4f} to {one['alpha_high']:+.4f}"
        given = [
            f"{one['skill']:+.2f}",
            str(one["resolved"]),
            alpha,
            ", ".join(each["conduct"].replace("_", " ") for each in one["conduct"]) or "none",
        ]
        table.append([one["voice"], *given])
    return _table("Leaderboard", table) if rows else []


def _by_round(rows: Iterable[Mapping[str, Any]], name: str) -> list[tuple[Mapping[str, Any], str]]:
    """Return the last row of each voice, question and signal, with the rounds that have it."""
    found: dict[str, tuple[Mapping[str, Any], str]] = {}
    for one in rows:
        key = repr((one["voice"], one["question"], one[name]))
        before = found[key][1] + " and " if key in found else ""
        found[key] = one, f"{before}{one['round']}"
    return list(found.values())


def _chain(one: Mapping[str, Any], rounds: str) -> str:
    signals = " + ".join(escaped(label, _CELL) for label in one["signals"])
    return f"{escaped(one['voice'], _CELL)} on {escaped(one['question'], _CELL)}, round {rounds}: {signals}"


def _disagreement(one: Mapping[str, Any], rounds: str) -> str:
    return (
        f"{escaped(one['voice'], _CELL)} on {escaped(one['question'], _CELL)}, round {rounds}, with "
        f"{escaped(one['signal'], _CELL)} ({percent(one['implied'])} against {percent(one['probability'])}): "
        f'"{escaped(one["claim"])}"'
    )


def _lint_lines(lint: Mapping[str, Any]) -> Iterable[str]:
    for one in lint["convergence"]:
        verb = "copied" if one["copied"] else "came near"
        yield (
            f"{escaped(one['voice'], _CELL)} {verb} {escaped(one['source'], _CELL)} on "
            f"{escaped(one['question'], _CELL)} ({one['score']:.2f})"
        )
    herding = lint["herding"]
    if herding is not None and herding["left"] is not None:
        alarm = {True: "herding", False: "no herding", None: "whether it helps is not known yet"}[herding["alarm"]]
        yield (
            f"the spread of log odds is {herding['left']:.2f} times that of round 1: {alarm} "
            f"({herding['resolved']} resolved questions)"
        )


def _board(summary: Mapping[str, Any]) -> Iterable[str]:
    signals, citations = summary["signals"], summary["citations"]
    yield "Signals: " + ", ".join(f"{count} {state}" for state, count in signals["states"].items())
    for title, tools in (("Offline", signals["offline"]), ("Used by no voice", signals["unused"])):
        if tools:
            yield f"{title}: " + ", ".join(escaped(one, _CELL) for one in tools)
    yield f"Citations: {citations['given']}, {citations['counting']} count, {citations['copied']} copied"
    for voice, lines in summary["notes"].items():
        for line in lines:
            yield f"{escaped(voice, _CELL)}: {escaped(line)}"


def _list(title: str, rows: Iterable[str]) -> list[str]:
    found = [f"- {row}" for row in rows]
    return [f"## {title}", "", *found] if found else []


def _table(title: str, rows: Sequence[Sequence[str]]) -> list[str]:
    head, *rest = ["| " + " | ".join(escaped(cell, _LINE) for cell in row) + " |" for row in rows]
    return [f"## {title}", "", head, "|" + "---|" * len(rows[0]), *rest]


def _decimal(value: float | None) -> str:
    return "none" if value is None else f"{value:+.2f}"
