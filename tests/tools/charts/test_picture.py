"""The picture of a chart, looked at pixel by pixel."""

from __future__ import annotations

import io
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image

from chordesk.models.database.store import Store
from chordesk.models.errors import NotFound
from chordesk.tools.charts.picture import (
    FALL,
    PEOPLE,
    PLAN,
    RESISTANCE,
    RISE,
    SUPPORT,
    TREND,
    Panel,
    Segment,
    Strip,
    picture,
)
from chordesk.tools.charts.scale import price_ticks, scale_of
from chordesk.tools.charts.study import DrawnLevel
from chordesk.tools.market.replay.market import ReplayMarket
from chordesk.tools.model_tools.charts import picture_for_people
from tests.tools.charts.samples import apple, apple_market, walk
from tests.tools.conftest import Call, MakeContext
from tests.tools.ledger_rows import filled_order
from tests.tools.market.far_market import daily

Pixels = npt.NDArray[np.uint8]
PLOT = slice(6, 690)  # columns of the candles; the labels are right of them
COUNT = 126


def pixels(data: bytes) -> Pixels:
    image = Image.open(io.BytesIO(data))
    assert image.format == "PNG"
    return np.asarray(image.convert("RGB"))


def is_colour(found: Pixels, colour: str) -> npt.NDArray[np.bool_]:
    rgb = [int(colour[at : at + 2], 16) for at in (1, 3, 5)]
    same: npt.NDArray[np.bool_] = (found == rgb).all(axis=2)
    return same


def lines(found: Pixels, colour: str, share: float) -> list[int]:
    """Rows of which at least so large a share has the colour."""
    return np.flatnonzero(is_colour(found[:, PLOT], colour).mean(axis=1) > share).tolist()


def candle_rows(found: Pixels, first: int, last: int) -> tuple[int, int]:
    """The highest and lowest row of candles among these rows."""
    rows = (is_colour(found[first:last, PLOT], RISE) | is_colour(found[first:last, PLOT], FALL)).any(axis=1)
    seen = np.flatnonzero(rows) + first
    return int(seen[0]), int(seen[-1])


def price_of(found: Pixels, row: int, low: float, high: float) -> float:
    """The price of a row, by the rows that the highest high and the lowest low of the candles have."""
    top, bottom = candle_rows(found, 36, 368)
    return high - (row - top) / (bottom - top) * (high - low)


def test_each_level_is_drawn_at_its_price(make_context: MakeContext, call: Call) -> None:
    context = make_context(apple_market())
    arguments = {"symbols": ["AAPL"], "overlays": ["levels"]}
    answer = call(context, "chart_render", **arguments)
    assert answer.image is not None
    bare = pixels(call(context, "chart_render", symbols=["AAPL"], overlays=[]).image.data)  # type: ignore[union-attr]
    found, shown = pixels(answer.image.data), apple().last(COUNT)
    low, high = float(shown.low.min()), float(shown.high.max())
    top, bottom = candle_rows(bare, 36, 368)
    pixel = (high - low) / (bottom - top)
    (row,) = answer.payload["charts"]
    drawn = {one["id"]: one["price"] for one in row["levels"]}
    assert list(drawn) == ["S1", "S2", "S3", "S4", "S5", "R1"]
    for colour, letter in ((SUPPORT, "S"), (RESISTANCE, "R")):
        rows = lines(found, colour, 0.7)
        prices = sorted((price for id, price in drawn.items() if id[0] == letter), reverse=True)
        assert [price_of(bare, at, low, high) for at in rows] == pytest.approx(prices, abs=1.01 * pixel)
    assert lines(bare, SUPPORT, 0.1) == []


def test_only_the_levels_that_a_model_names_are_drawn(make_context: MakeContext, call: Call) -> None:
    context = make_context(apple_market())
    answer = call(context, "chart_render", symbols=["AAPL"], overlays=["levels", "fib", "trendlines"], ids=["S2", "TR"])
    (row,) = answer.payload["charts"]
    assert [one["id"] for one in row["levels"]] == ["S2"]
    assert [one["id"] for one in row["trendlines"]] == ["TR"]
    assert answer.image is not None
    assert len(lines(pixels(answer.image.data), SUPPORT, 0.7)) == 1
    wrong = call(context, "chart_render", symbols=["AAPL"], ids=["S9"])
    (gap,) = wrong.payload["missing"]
    assert gap["what"] == "ids"
    assert gap["reason"].startswith("no S9 in the study; it has C1, C2, F23.6")
    assert wrong.payload["charts"][0]["levels"] == []


def test_a_candle_is_as_high_as_its_prices() -> None:
    bars = daily("X", [100, 110, 90, 105])
    found = pixels(picture([Panel("X", bars)]))
    columns = np.flatnonzero((is_colour(found[36:368, PLOT], RISE) | is_colour(found[36:368, PLOT], FALL)).any(axis=0))
    starts = columns[np.r_[True, np.diff(columns) > 1]] + 6
    assert len(starts) == 4
    high, low = candle_rows(found, 36, 368)
    for start, opened, close in zip(starts, bars.open, bars.close, strict=True):
        colour = RISE if close >= opened else FALL
        rows = np.flatnonzero(is_colour(found[36:368, start : start + 1], colour)) + 36
        for row, price in ((rows[0], max(opened, close)), (rows[-1], min(opened, close))):
            assert row == pytest.approx(high + (110 - price) / 20 * (low - high), abs=1)


def test_the_same_charts_are_the_same_bytes_in_every_thread() -> None:
    panels = [
        Panel("W", walk(at).last(COUNT), marks=[DrawnLevel("S1", 100.0, "support", 99.0, 101.0)]) for at in range(4)
    ]
    expected = [picture([panel]) for panel in panels]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda at: picture([panels[at % 4]]), range(32))) == expected * 8


def test_people_get_the_same_chart_larger_and_a_line_that_leaves_it_says_where_it_ends() -> None:
    bars = walk(2).last(COUNT)
    low, last = float(bars.low.min()), len(bars.dates) - 1
    leaving = Segment("TS", (0, float(bars.low[0])), (last, low / 2))
    strength = Strip("rsi14", np.linspace(20, 80, COUNT), 0.0, 100.0, (30.0, 70.0))
    marks = [DrawnLevel("S1", low, "support", low, low * 1.02), DrawnLevel("strike", low, "plan", low, low)]
    panel = Panel("W", bars, marks, [leaving], strips=[strength], days=[(60, "E")])
    found = pixels(picture([panel], PEOPLE))
    assert found.shape == (1600, 2400, 3)
    words = is_colour(found[:, :2100], TREND).sum()
    quiet = pixels(picture([Panel("W", bars, marks, strips=[strength], days=[(60, "E")])], PEOPLE))
    assert words > is_colour(quiet[:, :2100], TREND).sum() + 500


def test_ticks_are_round_and_few_and_a_price_that_never_moved_is_in_the_middle() -> None:
    for low, high, expected in (
        (188.0, 273.0, "200 220 240 260"),
        (0.0101, 0.0184, "0.012 0.014 0.016 0.018"),
        (7.1, 8.9, "7.5 8.0 8.5"),
        (10.2, 11.4, "10.25 10.50 10.75 11.00 11.25"),
    ):
        ticks, digits = price_ticks(low, high, 6)
        assert " ".join(f"{tick:.{digits}f}" for tick in ticks) == expected
    scale = scale_of(50, 50, 10, 600, 301)
    assert (scale.y(50), scale.holds(50.4), scale.holds(51)) == (150, True, False)


@pytest.mark.parametrize(
    ("terms", "drawn"),
    [
        ({"state": "submitted", "plan": {"entry": 251.0, "stop": 240.0, "target": 265.0}}, 3),
        ({"state": "submitted", "plan": {}, "contract": "AAPL100918P00240000", "limit_price": 4.0}, 2),
        ({"state": "submitted", "plan": {"entry": 251.0, "stop": 1.0}}, 1),
        ({"state": "filled", "plan": {"entry": 251.0}}, 0),
        ({"state": "cancelled", "plan": {"entry": 251.0}}, 0),
    ],
)
def test_the_plan_of_an_open_order_or_a_position_is_drawn(
    market: ReplayMarket, make_context: MakeContext, store: Store, terms: dict[str, Any], drawn: int
) -> None:
    """A filled order is of no position here: none is held."""
    with store.session() as session:
        order = filled_order(session)
        for name, value in terms.items():
            setattr(order, name, value)
        session.add(order)
    found = pixels(picture_for_people(make_context(market, store), "AAPL", COUNT, "day"))
    assert int((is_colour(found[72:, 12:2180], PLAN).mean(axis=1) > 0.5).sum()) == drawn * PEOPLE.zoom


def test_a_person_may_ask_for_a_symbol_that_no_model_may(market: ReplayMarket, make_context: MakeContext) -> None:
    with pytest.raises(NotFound, match=r"\^GSPC-OF-CHICAGO"):
        picture_for_people(make_context(market), "^GSPC-OF-CHICAGO", COUNT, "day")
