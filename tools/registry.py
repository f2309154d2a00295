"""What a tool is: its spec, the context it may see, its answer, and the toolset that a turn is given."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Protocol

import orjson
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from models.errors import DeskError
from models.market import Missing
from models.research import upper
from models.settings import Settings
from models.store import Store
from tools.market.protocol import MarketClock, MarketData
from tools.market.universe import SYMBOL_RULE, is_symbol

MAX_SYMBOLS = 150


@dataclass(frozen=True, slots=True)
class ToolContext:
    """What a call may see; one per turn."""

    market: MarketData
    clock: MarketClock
    store: Store | None
    settings: Settings
    account: str
    run_id: str | None


class Arguments(BaseModel):
    """Base of all tool arguments: what a tool does not know is refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def _symbol(value: str) -> str:
    if not is_symbol(value):
        raise ValueError(f"a symbol is {SYMBOL_RULE}")
    return value


def _distinct(symbols: list[str]) -> list[str]:
    return list(dict.fromkeys(symbols))


Symbol = Annotated[str, BeforeValidator(upper), AfterValidator(_symbol)]
Symbols = Annotated[
    list[Symbol],
    Field(min_length=1, max_length=MAX_SYMBOLS, description=f"1 to {MAX_SYMBOLS} tickers, all in one call"),
    AfterValidator(_distinct),
]


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """data: the tool speaks of the market; a report needs at least one such answer with data."""

    name: str
    description: str
    arguments: type[BaseModel]
    function: Callable[[ToolContext, Any], dict[str, Any]]
    data: bool = True

    @property
    def input_schema(self) -> dict[str, Any]:
        """JSON schema of the arguments, self-contained. Shared: do not change it."""
        return _schema(self.arguments)


@cache
def _schema(arguments: type[BaseModel]) -> dict[str, Any]:
    schema: dict[str, Any] = _untitled(arguments.model_json_schema())
    if "$defs" in schema:
        raise TypeError(f"{arguments.__name__}: tool arguments are plain values, no nested models or enums")
    schema.pop("description", None)
    return schema


def _untitled(node: Any) -> Any:
    if isinstance(node, list):
        return [_untitled(item) for item in node]
    if not isinstance(node, dict):
        return node
    return {key: _untitled(value) for key, value in node.items() if not (key == "title" and isinstance(value, str))}


@dataclass(frozen=True, slots=True)
class ToolAnswer:
    """success is False when the call failed; has_data is True when a data tool gave at least one datum."""

    tool: str
    success: bool
    payload: dict[str, Any]
    data: bool
    has_data: bool
    seconds: float

    def text(self) -> str:
        """Compact JSON."""
        return orjson.dumps(self.payload).decode()


def failed(tool: str, error: str, *, data: bool = False, seconds: float = 0.0) -> ToolAnswer:
    """The answer of a call that did not work."""
    return ToolAnswer(tool, False, {"error": error, "success": False}, data, False, seconds)


class Toolset(Protocol):
    """The tools of one turn."""

    def specs(self) -> Sequence[ToolSpec]: ...

    async def call(self, name: str, arguments: Mapping[str, Any]) -> ToolAnswer:
        """Never raises but for cancellation: an error is an answer, {"error": "...", "success": false}."""


class Gaps:
    """What could not be said, once each."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str | None, str], Missing] = {}

    def add(self, what: str, reason: str | DeskError, symbol: str | None = None) -> None:
        self._rows.setdefault((symbol, what), Missing(symbol=symbol, what=what, reason=str(reason)))

    def only(self, symbols: Container[str]) -> int:
        """Forget what is missing of other symbols than these; how many rows that were."""
        before = len(self._rows)
        self._rows = {key: row for key, row in self._rows.items() if key[0] is None or key[0] in symbols}
        return before - len(self._rows)

    def rows(self) -> list[dict[str, Any]]:
        return [row.model_dump(mode="json", by_alias=True, exclude_none=True) for row in self._rows.values()]


def payload(context: ToolContext, gaps: Gaps, *, available: bool, **data: Any) -> dict[str, Any]:
    """The frame of every answer: market time and source before the data, what is missing after it."""
    head = {"asOf": context.clock.now().isoformat(), "source": context.market.name, "available": available}
    return {**head, **data, "missing": gaps.rows()}
