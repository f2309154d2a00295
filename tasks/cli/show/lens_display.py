"""Lenses as tables: the list, one with its rule, what it finds today, and a trial over past sessions."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from pathlib import Path

from rich.console import Group, RenderableType
from rich.text import Text

from chordesk.tasks.cli.output import facts, table
from chordesk.tasks.lenses import LensCheck, LensRow
from chordesk.tools.lenses.files import Lens
from chordesk.tools.lenses.trials import Outcome, Trial


def lens_list(rows: Sequence[LensRow]) -> RenderableType:
    shown = table(
        {
            "lens": lambda row: row.name,
            "version": lambda row: row.version or "-",
            "by": lambda row: row.by or "-",
            "of": lambda row: row.origin,
            "screens": lambda row: "yes" if row.used else "",
            "looks through": lambda row: row.purpose,
        },
        [row for row in rows if row.fault is None],
    )
    faults = [Text(f"left out: {row.fault}", style="yellow") for row in rows if row.fault is not None]
    return Group(shown, *faults)


def lens_report(lens: Lens) -> RenderableType:
    told = {
        "lens": lens.title, "looks through": lens.purpose, "by": lens.by, "universe": lens.universe or "the run's",
        "where": " ".join(lens.where.split()), "score": lens.score, "high": lens.high,
        "figures": ", ".join(lens.figures), "hits": str(lens.hits),
        "tools": "all of a screener" if lens.tools is None else ", ".join(lens.tools),
    }  # fmt: skip
    return Group(facts([(name, text) for name, text in told.items() if text]), Text(""), Text(lens.words))


def draft_report(path: Path, before: str | None, text: str) -> RenderableType:
    """The whole text, or what it changes in a file that there is."""
    if before is None:
        return Text(f"{path}\n\n{text}")
    lines = difflib.unified_diff(before.splitlines(), text.splitlines(), f"{path.name} now", path.name, lineterm="")
    return Text("\n".join(lines) or f"{path} has this text already")


def check_report(found: LensCheck) -> RenderableType:
    head = f"{found.lens}@{found.version} on {found.market}, {found.day}"
    if not found.compared:
        return Text(f"{head}: {'; '.join(found.notes)}")
    line = f"{head}: {found.passing} of {found.compared} names pass, {found.undecided} undecided; hits {found.hits}"
    unknown = ", ".join(f"{name} {count}" for name, count in found.unknown.items())
    lines = [Text(line), *([Text(f"unknown: {unknown}", style="dim")] if unknown else [])]
    rows = table(
        {
            "symbol": lambda row: row["symbol"],
            "confidence": lambda row: row["confidence"],
            "score": lambda row: f"{row['score']:.4g}" if "score" in row else "-",
            "figures": lambda row: ", ".join(
                f"{name} {'missing' if value is None else format(value, '.4g')}"
                for name, value in row["figures"].items()
            ),
        },
        found.passed,
    )
    return Group(*lines, *([rows] if found.passed else []))


def _figure(pair: tuple[str, float | None]) -> str:
    name, value = pair
    return f"{name} {'missing' if value is None else format(value, '.4g')}"


def trial_report(found: Trial) -> RenderableType:
    span = f"{found.first} to {found.last}, {found.sessions} sessions"
    turned = "" if found.turnover is None else f", {found.turnover:.0%} of them new each session"
    lines = [
        f"{found.lens}@{found.version}: {span}",
        f"{found.hits:,} hits, {found.a_session:.1f} a session{turned}; {found.undecided:.1%} of names undecided",
    ]
    if found.unknown:
        lines.append("unknown: " + ", ".join(f"{name} {share:.1%}" for name, share in found.unknown.items()))
    if found.overlap:
        lines.append("also hits of: " + ", ".join(f"{name} {share:.0%}" for name, share in found.overlap.items()))
    shown = table(
        {
            "sessions": lambda one: str(one.sessions),
            "n": lambda one: f"{one.n:,}",
            "over the median": _mean,
            "beat it": _beat,
            "luck of the best": lambda one: "-" if one.luck is None else f"{one.luck:+.2%}",
            "deflated": lambda one: "-" if one.deflated is None else f"{one.deflated:+.2%}",
            "luck does as well": lambda one: "-" if one.chance is None else f"{one.chance:.0%}",
        },
        found.outcomes,
        right=("sessions", "n"),
    )
    tried = f"{found.tries} versions of it were tried here" if found.tries > 1 else "the first version tried here"
    return Group(*map(Text, lines), shown, Text(f"{tried}; costs of trading are not counted", style="dim"))


def _mean(one: Outcome) -> str:
    if one.mean is None:
        return "-"
    if one.low is None or one.high is None:
        return f"{one.mean:+.2%} (too few)"
    return f"{one.mean:+.2%} ({one.low:+.2%} to {one.high:+.2%})"


def _beat(one: Outcome) -> str:
    if one.beat is None:
        return "-"
    bounds = "" if one.beat_low is None else f" ({one.beat_low:.0%} to {one.beat_high:.0%})"
    return f"{one.beat:.0%}{bounds}"
