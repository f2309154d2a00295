"""The summary of an episode as markdown. Texts of voices and venues are escaped: none makes a line, cell or link."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from chordesk.agents.board.board import one_line, percent

_MARKED = re.compile(r"[\\`*_{}\[\]()<>|~#&$!^=]")
_LINK = re.compile(r"://|(?i:\bwww\.)|@")
_CELL, _LINE = 80, 400


def markdown(summary: Mapping[str, Any]) -> str:
    """Return a summary as a page: quotes, questions, positions with a row a voice, leaderboard, chains, lint."""
    parts = [
        [f"# Episode {summary['episode']}, {escaped(str(summary['day']), _CELL)}"],
        _quotes(summary["quotes"]),
        _questions(summary["questions"], summary["used_round"]),
        _positions(summary["positions"], [row["question"] for row in summary["questions"]]),
        _leaderboard(summary["leaderboard"]),
        _list("Chains", [_chain(one, held) for one, held in _by_round(summary["chains"], "signals")]),
        _list(
            "Disagreements", [_disagreement(one, held) for one, held in _by_round(summary["disagreements"], "signal")]
        ),
        _list("Checks of the second round", _lint(summary["lint"])),
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


def _positions(positions: Sequence[Mapping[str, Any]], labels: Sequence[str]) -> list[str]:
    rows = [["Voice", *labels]]
    for one in positions:
        rows.append([one["voice"], *(_rounds(one["forecasts"].get(label, {})) for label in labels)])
    return _table("Positions", rows) if positions else []


def _rounds(given: Mapping[str, float]) -> str:
    return " → ".join(percent(given[number]) for number in sorted(given)) or "none"


def _leaderboard(rows: Sequence[Mapping[str, Any]]) -> list[str]:
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


def _lint(lint: Mapping[str, Any]) -> Iterable[str]:
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
