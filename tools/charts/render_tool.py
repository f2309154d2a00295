"""chart_render: the chart of up to four symbols as a PNG beside the figures that are drawn in it."""

from __future__ import annotations

import dataclasses
import datetime as dt
import importlib
from functools import cache
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from chordesk.tools.charts import overlays as of
from chordesk.tools.charts.frames import frames
from chordesk.tools.charts.overlays import OVERLAYS, Overlay
from chordesk.tools.charts.study import Study, study_of
from chordesk.tools.charts.study_tool import LEVELS, ChartArguments, distinct, head, note_lacks
from chordesk.tools.decimals import rounded
from chordesk.tools.market.protocol import Floats
from chordesk.tools.registry import Gaps, Symbol, ToolContext, ToolImage, ToolSpec, payload

MOST_SYMBOLS, MOST_IDS = 4, 20
_DEFAULT: tuple[Overlay, ...] = ("levels", "trendlines", "swings", "sma50")


class RenderArguments(ChartArguments):
    symbols: Annotated[
        list[Symbol],
        Field(min_length=1, max_length=MOST_SYMBOLS, description=f"1 to {MOST_SYMBOLS} tickers, a chart each"),
        AfterValidator(distinct),
    ]
    overlays: Annotated[
        list[Overlay],
        Field(max_length=len(OVERLAYS), description="what to draw beside candles and volume"),
        AfterValidator(distinct),
    ] = Field(list(_DEFAULT), validate_default=True)
    ids: list[Annotated[str, Field(pattern="^[A-Z]{1,2}[0-9.]{0,5}$")]] = Field(
        [], max_length=MOST_IDS, description="draw only these levels and lines of the study, such as S1, F61.8, TS"
    )


def chart_render(context: ToolContext, arguments: RenderArguments) -> dict[str, Any] | tuple[dict[str, Any], ToolImage]:
    """Return the figures drawn and the picture; no picture where no symbol has bars."""
    gaps, panels, rows = Gaps(), [], []
    for frame in frames(context, arguments.symbols, gaps, arguments.sessions, arguments.interval):
        study = study_of(frame, arguments.lookback, LEVELS)
        note_lacks(study, gaps)
        _note_unknown_ids(study, arguments.ids, gaps)
        panel, row = _panel(study, arguments, gaps)
        panels.append(panel)
        rows.append(row)
    if not panels:
        return payload(context, gaps, available=False, charts=[])
    width, height = _picture().size_of(len(panels))
    found = payload(context, gaps, available=True, image={"width": width, "height": height}, charts=rows)
    return found, ToolImage(_picture().picture(panels), "image/png")


def _panel(study: Study, arguments: RenderArguments, gaps: Gaps) -> tuple[Any, dict[str, Any]]:
    """Return the drawing of one symbol, and the row of the figures in it."""
    frame, module, overlays = study.frame, _picture(), arguments.overlays
    indicators = of.series(frame, overlays)
    oscillators = {"rsi14": of.relative_strength(frame)} if "rsi14" in overlays else {}
    levels = [one for one in of.levels(study, overlays) if _wanted(one.id, arguments)]
    lines = [one for one in of.lines(study, overlays) if _wanted(one.id, arguments)]
    bare = module.Panel(_title(study), frame.shown, series=indicators, oscillators=oscillators)
    scale = module.panel_scale(bare)
    inside = [one for one in levels if scale.holds(one.price)]
    first, last = len(frame.shown.dates) - len(frame.bars.dates), len(frame.shown.dates) - 1
    panel = dataclasses.replace(
        bare,
        marks=[module.Mark(*one) for one in inside],
        segments=[module.Segment(one.id, (first + one.start.at, one.start.price), (last, one.now)) for one in lines],
        swings=[(first + one.at, one.price, one.kind == "high") for one in study.swings if "swings" in overlays],
    )
    row = {
        **head(study),
        "levels": [{"id": one.id, "price": rounded(one.price)} for one in inside],
        "outside": [{"id": one.id, "price": rounded(one.price)} for one in levels if one not in inside],
        "trendlines": [{"id": one.id, "now": rounded(one.now)} for one in lines],
        "indicators": _values(indicators | oscillators, study, gaps),
    }
    return panel, row


def _wanted(id: str, arguments: RenderArguments) -> bool:
    return not arguments.ids or id in arguments.ids


def _values(indicators: dict[str, Floats], study: Study, gaps: Gaps) -> dict[str, float | None]:
    """Return each indicator at the last bar; one that has no value there is added to `gaps`."""
    found = {name: of.last_value(values) for name, values in indicators.items()}
    frame = study.frame
    if lacking := [name for name, value in found.items() if value is None]:
        gaps.add(", ".join(lacking), f"too few {frame.period.noun}: {len(frame.long.dates)}", frame.symbol)
    return {name: rounded(value) for name, value in found.items()}


def _note_unknown_ids(study: Study, ids: list[str], gaps: Gaps) -> None:
    known = study.prices()
    if wrong := [one for one in ids if one not in known]:
        reason = f"no {', '.join(wrong)} in the study; it has {', '.join(known) or 'none'}"
        gaps.add("ids", reason, study.frame.symbol)


_NOUNS = {"day": "daily", "week": "weekly", "hour": "hourly, New York time", "15min": "15 minutes, New York time"}


def _title(study: Study) -> str:
    frame, dates = study.frame, study.frame.shown.dates
    open_end = f", the last {'week' if frame.interval == 'week' else 'bar'} not over" if frame.incomplete else ""
    first, last = (
        f"{day:%Y-%m-%d %H:%M}" if isinstance(day, dt.datetime) else str(day) for day in (dates[0], dates[-1])
    )
    return f"{frame.symbol}  {_NOUNS[frame.interval]}{open_end}  {first} to {last}  close {study.close:.2f}"


@cache
def _picture() -> Any:
    """Return the module that draws, imported with the first picture: Pillow is no use to a process that draws none."""
    return importlib.import_module("chordesk.tools.charts.picture")


CHART_RENDER = ToolSpec(
    name="chart_render",
    description=(
        "One picture (PNG) of the charts of up to 4 symbols: candles, volume, and the overlays: levels (support and "
        "resistance), fib, trendlines, swings, sma20, sma50, sma200, bollinger, rsi14. With it the figures drawn, by "
        "the ids of chart_study_get over the same bars; `outside` are levels beyond the prices shown. Bars cannot be "
        "passed."
    ),
    hint="a picture of the chart with levels, lines and indicators; `symbols`, `overlays`.",
    arguments=RenderArguments,
    function=chart_render,
)
