"""The spec of a tool, the context of a call, its answer, and the protocol of a turn's toolset."""

from __future__ import annotations

import base64
import datetime as dt
import json
import warnings
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Protocol

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, GetJsonSchemaHandler, TypeAdapter
from typing_extensions import TypedDict

from chordesk.models.answers import RogueKind, share_symbol
from chordesk.models.database.store import Store
from chordesk.models.descriptions import NAME, NAME_RULE, said
from chordesk.models.errors import DeskError
from chordesk.models.market import Missing
from chordesk.models.settings import Settings
from chordesk.models.text import fenced
from chordesk.tools.market.protocol import MarketClock, MarketData
from chordesk.tools.market.universe import SYMBOL_RULE, is_symbol

MAX_SYMBOLS = 150


class Disguise(Protocol):
    """What hides a run from its models, as far as a tool has to know of it."""

    def withheld(self, tool: str) -> str | None:
        """Return why a tool is not to be called, None for one that may."""

    def drawn(self, panel: Any) -> Any:
        """Return a chart's panel as a model is shown it."""


@dataclass(frozen=True, slots=True)
class ToolContext:
    """The data that a call may read; one per turn. disguise: of a run that hides what its data are of."""

    market: MarketData
    clock: MarketClock
    store: Store | None
    settings: Settings
    account: str
    run_id: str | None
    disguise: Disguise | None = None


class Arguments(BaseModel):
    """Base of all tool arguments; an unknown one is refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


def _symbol(value: str) -> str:
    if not is_symbol(value):
        raise ValueError(f"a symbol is {SYMBOL_RULE}")
    return value


def tickers(most: int, how: str = "all in one call") -> Any:
    return Field(min_length=1, max_length=most, description=f"1 to {most} tickers, {how}")


DISTINCT = AfterValidator(lambda values: list(dict.fromkeys(values)))
Symbol = Annotated[str, BeforeValidator(share_symbol), AfterValidator(_symbol)]
Symbols = Annotated[list[Symbol], tickers(MAX_SYMBOLS), DISTINCT]


@dataclass(frozen=True, slots=True)
class ToolImage:
    """Image that goes to the model beside a tool's JSON, of at most 1 MB. mime_type: such as image/png."""

    data: bytes
    mime_type: str

    def data_url(self) -> str:
        return f"data:{self.mime_type};base64,{base64.b64encode(self.data).decode()}"


class Answer(TypedDict):
    """The frame of an answer, as `payload` makes it: market time and source before the data, gaps after it."""

    asOf: dt.datetime
    source: str
    available: bool
    missing: list[Missing]


class Without:
    """In `Annotated[Model, Without("a", b=int)]`: rows of a model that leave fields out; some may have others too."""

    def __init__(self, *names: str, **more: Any) -> None:
        self.names, self.more = names, more

    def __get_pydantic_json_schema__(self, core: Any, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        found = handler.resolve_ref_schema(handler(core))
        kept = {name: one for name, one in found["properties"].items() if name not in self.names}
        more = {name: TypeAdapter(kind).json_schema() for name, kind in self.more.items()}
        required = [name for name in found.get("required", ()) if name in kept]
        return {**found, "properties": {**kept, **more}, "required": required}


class Chosen(Without):
    """As Without, of rows that have a symbol and of the other fields what was asked for."""

    def __get_pydantic_json_schema__(self, core: Any, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {**super().__get_pydantic_json_schema__(core, handler), "required": ["symbol"]}


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool that a role may call."""

    name: str
    description: str
    arguments: type[BaseModel]
    # returns the payload, or the payload and an image
    function: Callable[[ToolContext, Any], dict[str, Any] | tuple[dict[str, Any], ToolImage]]
    data: bool = True  # it answers with market data; a report needs at least one answer that has some
    answer: Any = None  # TypedDict of the payload, an Answer with the tool's own data; None of a tool that states none
    # reads what a process reads once for such a call, such as a large file, before the call's time begins
    opens: Callable[[ToolContext, Mapping[str, Any]], None] | None = None

    @property
    def input_schema(self) -> dict[str, Any]:
        """JSON schema of the arguments, self-contained. Shared: do not change it."""
        return _schema(self.arguments)

    @property
    def output_schema(self) -> dict[str, Any] | None:
        """JSON schema of the payload of a call that succeeded. Shared: do not change it."""
        return _answer_schema(self.answer) if self.answer is not None else None

    def fault(self) -> str:
        """Return why no model could be offered the tool, or its arguments could not be checked; an empty text where it
        can. The desk's own are held to the same by its tests."""
        if not NAME.fullmatch(self.name):
            return f"its tool's name is {self.name!r}, and a name is {NAME_RULE}"
        if not self.description.strip():
            return f"its tool {self.name} has no description, which is all that a model knows of it"
        if not issubclass(self.arguments, Arguments):
            return f"the arguments of its tool {self.name}, {self.arguments.__name__}, derive from no Arguments"
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")  # of a default that is no JSON
                self.arguments.model_rebuild()  # names an annotation that is nowhere
                schemas = self.input_schema, self.output_schema
            json.dumps(schemas)
        except Exception as error:
            return f"its tool {self.name} has no schema: {said(error, placed=False)}"
        return ""


@cache
def _schema(arguments: type[BaseModel]) -> dict[str, Any]:
    schema: dict[str, Any] = _bare(arguments.model_json_schema(), "title")
    if "$defs" in schema:
        raise TypeError(f"{arguments.__name__}: tool arguments are plain values, no nested models or enums")
    schema.pop("description", None)
    return schema


@cache
def _answer_schema(answer: Any) -> dict[str, Any]:
    found: dict[str, Any] = _bare(TypeAdapter(answer).json_schema(), "title", "description")
    return found


def _bare(node: Any, *texts: str) -> Any:
    """Return a schema without such texts."""
    if isinstance(node, list):
        return [_bare(item, *texts) for item in node]
    if not isinstance(node, dict):
        return node
    return {key: _bare(value, *texts) for key, value in node.items() if not (key in texts and isinstance(value, str))}


@dataclass(frozen=True, slots=True)
class ToolAnswer:
    """success is False when the call failed; has_data is True when a data tool gave at least one datum. rogue: why it
    is not a call of a tool of its turn, None of one that is."""

    tool: str
    success: bool
    payload: dict[str, Any]
    data: bool
    has_data: bool
    seconds: float
    image: ToolImage | None = None
    rogue: RogueKind | None = None

    def text(self) -> str:
        """As every model is given it: outside text in it closes no fence."""
        return fenced(self.payload)


def failed(
    tool: str, error: str, *, data: bool = False, seconds: float = 0.0, rogue: RogueKind | None = None
) -> ToolAnswer:
    return ToolAnswer(tool, False, {"error": error, "success": False}, data, False, seconds, rogue=rogue)


class Toolset(Protocol):
    """The tools of one turn."""

    def specs(self) -> Sequence[ToolSpec]: ...

    async def call(self, name: str, arguments: Any) -> ToolAnswer:
        """Return the answer of a call. arguments: as the model gave them, an object if it is a call. An error is an
        answer too, {"error": "...", "success": false}; only cancellation is raised."""


class Gaps:
    """Missing data of an answer, each gap once."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str | None, str], Missing] = {}

    def add(self, what: str, reason: str | DeskError, symbol: str | None = None) -> None:
        self._rows.setdefault((symbol, what), Missing(symbol=symbol, what=what, reason=str(reason)))

    def take(self, others: Gaps) -> None:
        for key, row in others._rows.items():
            self._rows.setdefault(key, row)

    def only(self, symbols: Container[str]) -> int:
        """Remove the gaps of other symbols than these, and return their number."""
        before = len(self._rows)
        self._rows = {key: row for key, row in self._rows.items() if key[0] is None or key[0] in symbols}
        return before - len(self._rows)

    def rows(self) -> list[dict[str, Any]]:
        return [row.model_dump(mode="json", by_alias=True, exclude_none=True) for row in self._rows.values()]


def payload(context: ToolContext, gaps: Gaps, /, *, available: bool, **data: Any) -> dict[str, Any]:
    """Return an answer in the common frame: market time and source before the data, its gaps after it."""
    head = {"asOf": context.clock.now().isoformat(), "source": context.market.name, "available": available}
    return {**head, **data, "missing": gaps.rows()}
