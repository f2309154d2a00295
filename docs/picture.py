"""Draws docs/picture.svg, the desk on one page: `python docs/picture.py`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from pathlib import Path

WIDTH, HEIGHT = 1120, 580
LINE = 18  # between two lines of text
LETTER = 8.2  # width of a wide font's average letter at 14.5 px, to keep text inside its box
# Colours of the two schemes: page, text, quiet text, arrows; then fill and border of each kind of box.
LIGHT = ("#ffffff", "#1f2733", "#5b6675", "#7a8594")
DARK = ("#12171f", "#e8edf4", "#a3afbf", "#8893a3")
KINDS = {
    "plain": (("#f3f5f8", "#b9c2ce"), ("#1c2430", "#46536a")),
    "model": (("#e8effc", "#6d93d8"), ("#1a2a4a", "#5d86cf")),
    "code": (("#e9f6ee", "#5fa87c"), ("#16331f", "#4f9a6d")),
    "gate": (("#fdf1e1", "#d79a45"), ("#3a2a12", "#c98d3a")),
}


@dataclass(frozen=True, slots=True)
class Box:
    """A box at its left upper corner, with a title and lines below it."""

    x: float
    y: float
    width: float
    height: float
    kind: str
    title: str
    lines: Sequence[str] = ()

    @property
    def right(self) -> float:
        return self.x + self.width

    @property
    def middle(self) -> float:
        return self.y + self.height / 2

    @property
    def centre(self) -> float:
        return self.x + self.width / 2

    def svg(self) -> str:
        """Return the box; raise ValueError when a line is too long for it."""
        rows = [self.title, *self.lines]
        for row in rows:
            if len(row) * LETTER > self.width - 8:
                raise ValueError(f"{row!r} is too long for a box of {self.width}")
        top = self.middle - (len(rows) - 1) * LINE / 2 + 5
        text = [
            f'<text x="{self.centre}" y="{top + index * LINE}" class="{"s" if index else "t"}">{escape(row)}</text>'
            for index, row in enumerate(rows)
        ]
        shape = f'<rect x="{self.x}" y="{self.y}" width="{self.width}" height="{self.height}" rx="8"'
        return f'{shape} class="{self.kind}"/>' + "".join(text)


def arrow(*points: tuple[float, float]) -> str:
    path = " L ".join(f"{x} {y}" for x, y in points)
    return f'<path d="M {path}" class="a" marker-end="url(#tip)"/>'


def across(left: Box, right: Box) -> str:
    return arrow((left.right, left.middle), (right.x - 2, right.middle))


def heading(x: float, y: float, text: str) -> str:
    return f'<text x="{x}" y="{y}" class="h">{escape(text)}</text>'


def research() -> list[str]:
    """Return the upper row: from the universe to the trader."""
    universe = Box(20, 84, 118, 74, "plain", "Universe", ("500+ symbols",))
    screen = Box(170, 84, 150, 74, "model", "Screeners", ("4 lenses, each in", "shards, at once"))
    merge = Box(352, 84, 118, 74, "code", "Merge", ("about 20", "candidates"))
    quick = Box(502, 84, 124, 74, "model", "Quick report", ("a REJECT ends", "the research"))
    roles = [
        Box(662, 57 + 46 * index, 130, 36, "model", title)
        for index, title in enumerate(("Fundamentals", "Risk", "Catalyst"))
    ]
    verdict = Box(828, 84, 118, 74, "code", "Verdict", ("reduced from", "the reports"))
    trader = Box(982, 84, 118, 74, "model", "Trader", ("recommends", "and stops"))
    joined = [arrow((quick.right, quick.middle), (one.x - 2, one.middle)) for one in roles]
    ends = (verdict.middle - 22, verdict.middle, verdict.middle + 22)
    joined += [arrow((one.right, one.middle), (verdict.x - 2, end)) for one, end in zip(roles, ends, strict=True)]
    straight = [across(*pair) for pair in ((universe, screen), (screen, merge), (merge, quick), (verdict, trader))]
    boxes = (universe, screen, merge, quick, *roles, verdict, trader)
    down = arrow((trader.centre, trader.y + trader.height), (trader.centre, 223))
    return [heading(20, 36, "Research: models report, code joins"), *straight, *joined, down, *drawn(boxes)]


def orders() -> list[str]:
    """Return the middle row, from right to left: from the decision to its fills."""
    names = (
        ("code", "Draft", ("one order row", "for each action")),
        ("code", "Checks", ("limits, prices,", "verdict, account")),
        ("code", "Preview", ("priced, sized,", "hashed")),
        ("gate", "Gate", ("live switch,", "approval, mandate")),
        ("code", "Submit", ("once, fenced;", "else looked up")),
        ("plain", "Broker", ("paper or Alpaca;", "fills, audit log")),
    )
    width, gap = 155, 30
    boxes = [Box(1100 - width - index * (width + gap), 225, width, 74, *one) for index, one in enumerate(names)]
    links = [arrow((left.x, left.middle), (right.right + 2, right.middle)) for left, right in pairwise(boxes)]
    return [heading(20, 205, "Orders: code alone, no model"), *links, *drawn(boxes)]


def ground() -> list[str]:
    """Return the lower rows: the processes that all of this runs on."""
    workers = Box(20, 370, 250, 74, "plain", "Celery workers", ("queues: screen, research,", "ops, trade"))
    redis = Box(20, 480, 250, 74, "plain", "Redis", ("messages, thread registry,", "live events"))
    database = Box(
        320, 480, 300, 74, "plain", "Database", ("each step, report, event and order", "is a row; Redis may be lost")
    )
    runner = Box(
        320, 370, 300, 74, "code", "Role runner", ("prompt, tools, schema, one repair;", "no tool submits an order")
    )
    server = Box(670, 370, 190, 74, "plain", "Codex app-server", ("a kept thread for a", "role and its subject"))
    model = Box(910, 370, 190, 74, "model", "Model", ("Codex, an endpoint or", "the fixed rulebook"))
    person = Box(
        670,
        480,
        430,
        74,
        "plain",
        "You",
        ("desk screen, watch, approve, halt, runs show;", "HTTP API, events, metrics, traces"),
    )
    links = [
        across(workers, runner),
        across(runner, server),
        across(server, model),
        arrow((workers.centre, workers.y + workers.height), (workers.centre, redis.y - 2)),
        arrow((runner.centre, runner.y + runner.height), (runner.centre, database.y - 2)),
        arrow((person.x, person.middle), (database.right + 2, database.middle)),
    ]
    return [
        heading(20, 350, "What it runs on"),
        *links,
        *drawn((workers, redis, database, runner, server, model, person)),
    ]


def drawn(boxes: Iterable[Box]) -> list[str]:
    return [box.svg() for box in boxes]


def style() -> str:
    """Return the CSS of both colour schemes; a viewer that knows no schemes shows the light one."""
    return f"{_rules(LIGHT, 0)}@media (prefers-color-scheme: dark){{{_rules(DARK, 1)}}}"


def _rules(colours: tuple[str, str, str, str], scheme: int) -> str:
    page, text, quiet, line = colours
    boxes = "".join(f".{kind}{{fill:{each[scheme][0]};stroke:{each[scheme][1]}}}" for kind, each in KINDS.items())
    return (
        f".p{{fill:{page}}}.t{{fill:{text};font-weight:600}}.s{{fill:{quiet}}}.h{{fill:{text};font-weight:600}}"
        f".a{{stroke:{line};fill:none}}.m{{fill:{line}}}{boxes}"
    )


def legend() -> list[str]:
    entries = (("model", "a model's turn"), ("code", "code"), ("gate", "what a person controls"))
    places = (660, 820, 904)
    return [
        f'<rect x="{x}" y="24" width="14" height="14" rx="3" class="{kind}"/>'
        f'<text x="{x + 20}" y="36" class="l s">{text}</text>'
        for x, (kind, text) in zip(places, entries, strict=True)
    ]


def picture() -> str:
    """Return the whole SVG."""
    fixed = "text{font:14.5px system-ui,sans-serif;text-anchor:middle}.h{font-size:16px;text-anchor:start}"
    fixed += ".l{text-anchor:start}rect{stroke-width:1.3}.a{stroke-width:1.5}"
    tip = '<marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    body = [*research(), *orders(), *ground(), *legend()]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">',
            "<title>The desk: screeners, reports, verdicts and a trader; then code checks and sends orders</title>",
            f"<style>{fixed}{style()}</style>",
            f'<defs>{tip}<path d="M 0 0 L 8 4 L 0 8 z" class="m"/></marker></defs>',
            f'<rect width="{WIDTH}" height="{HEIGHT}" class="p" stroke="none"/>',
            *body,
            "</svg>\n",
        ]
    )


if __name__ == "__main__":
    Path(__file__).with_name("picture.svg").write_text(picture(), encoding="utf-8")
