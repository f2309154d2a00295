"""Answers of agents (screens, reports, trader actions), verdicts, and the outcomes of turns."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping
from enum import StrEnum
from functools import cache
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.alias_generators import to_camel

from chordesk.models.exchanges import MONEY
from chordesk.models.order_terms import OrderType, TimeInForce

# A ticker, in a form that every dialect of regular expressions reads alike: it also goes to the model.
SYMBOL_PATTERN = "^[A-Z0-9][A-Z0-9.&-]{0,19}$"


def upper(value: Any) -> Any:
    return value.strip().upper() if isinstance(value, str) else value


_OF_A_CLASS = re.compile(r"([A-Z0-9]{1,6})([-./ ])([A-Z])")
_SLASHED = re.compile(rf"([A-Z0-9]{{1,10}})/({MONEY})")
_OF_HONG_KONG = re.compile(r"0*(\d{1,5})\.HK")
_LISTED_ABROAD = "FLTV"  # after a dot these letters are exchanges: BAC-L is a share, and VOD.L one of London


def spelled(text: str) -> str:
    """Return a symbol in the desk's spelling, whichever source wrote it: a class of shares has a dot, so that BRK-B,
    BRK/B, `brk b` and BRK.B are one share; a pair has a hyphen, so that BTC/USD is BTC-USD; a number of Hong Kong has
    four digits or more, so that 700.HK is 0700.HK."""
    symbol = text.strip().upper()
    if (pair := _SLASHED.fullmatch(symbol)) is not None:
        return f"{pair[1]}-{pair[2]}"
    if (number := _OF_HONG_KONG.fullmatch(symbol)) is not None:
        return f"{number[1]:0>4}.HK"
    found = _OF_A_CLASS.fullmatch(symbol)
    if found is None:
        return symbol
    return f"{found[1]}{'-' if found[3] in _LISTED_ABROAD and found[2] != '.' else '.'}{found[3]}"


def share_symbol(value: Any) -> Any:
    return spelled(value) if isinstance(value, str) else value


class Frozen(BaseModel):
    # What validates is built on first use: a command has use for few of the hundreds of shapes that it imports.
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    @classmethod
    def of(cls, *rows: object, **fields: Any) -> Self:
        """Return one with these fields; each other field is taken from the first of the rows that has it."""
        found = {name: getattr(row, name) for row in reversed(rows) for name in cls.model_fields if hasattr(row, name)}
        return cls.model_validate(found | fields)


class Wire(BaseModel):
    """A payload a model reads or writes: camelCase on the wire, snake_case here."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True, defer_build=True
    )


class Instrument(StrEnum):
    EQUITY = "equity"
    ETF = "etf"
    OPTION = "option"


class ScreenConfidence(StrEnum):
    HIGH = "high"
    MEDIUM = "medium"
    SPECULATIVE = "speculative"


class Confidence(StrEnum):
    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class Stance(StrEnum):
    """A validator's verdict on one candidate."""

    CONFIRMED = "CONFIRMED"
    CAUTION = "CAUTION"
    REJECT = "REJECT"


class Rating(StrEnum):
    """The desk's verdict on one candidate, reduced from its reports."""

    BUY = "BUY"
    HOLD = "HOLD"
    CAUTION = "CAUTION"
    PASS = "PASS"
    INSUFFICIENT = "INSUFFICIENT"


# What of a schema only its subject says: the values of a field (CHOICES), the most items of a list (MOST).
CHOICES, MOST = "choices", "most"


class ScreenCandidate(Wire):
    symbol: str = Field(min_length=1, max_length=21, json_schema_extra={CHOICES: "symbols"})
    instrument: Instrument
    confidence: ScreenConfidence
    thesis: str = Field(min_length=1, max_length=4000)


class ScreenOutput(Wire):
    """The answer of a screener for one shard."""

    candidates: list[ScreenCandidate] = Field(json_schema_extra={MOST: "candidates"})


class GraphDebate(Wire):
    """How the debate on investing ended: the manager's judgement, and the last argument of each side."""

    judge: str
    bull: str
    bear: str


class GraphRisk(Wire):
    """How the debate on risk ended."""

    judge: str
    aggressive: str
    conservative: str
    neutral: str


class GraphReport(Wire):
    """The report of one analyst of a graph."""

    analyst: str
    text: str


class GraphReflection(Wire):
    """What a graph made of the outcome of an earlier signal. raw: the symbol's return over the sessions; alpha: that
    above the benchmark; both are fractions."""

    report_id: str
    symbol: str
    day: dt.date
    rating: str
    raw: float
    alpha: float
    sessions: int
    benchmark: str
    text: str


class GraphSignal(Wire):
    """The answer of the role `tradingagents`: its rating with the desk's stance for it, its decisions, and the ends of
    its debates. confidence: of the agreement of its three decisions, for it states none."""

    rating: Literal["Buy", "Overweight", "Hold", "Underweight", "Sell"]
    verdict: Stance
    confidence: Confidence
    summary: str
    key_risks: list[str]
    decision: str
    price_target: str | None
    time_horizon: str | None
    plan: str
    proposal: str
    debate: GraphDebate
    risk: GraphRisk
    reports: list[GraphReport]
    reflections: list[GraphReflection] = []


class ActionKind(StrEnum):
    OPEN = "open"
    ADD = "add"
    REDUCE = "reduce"
    CLOSE = "close"
    HOLD = "hold"
    WATCH = "watch"


Level = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class ActionPlan(Wire):
    """What a trader plans for a position that it opens or adds to. A null field is filled by code."""

    stop: Level | None = Field(None, description="price at which the thesis is wrong")
    target: Level | None = Field(None, description="price to close at with a gain")
    horizon: Annotated[int, Field(ge=1, le=120)] | None = Field(None, description="sessions after which it is closed")
    review: Annotated[str, Field(pattern="^[0-9]{4}-[0-9]{2}-[0-9]{2}$")] | None = Field(None, description="YYYY-MM-DD")


class AskedOrder(BaseModel):
    """An order as a model asks for it. Exactly one of quantity and notional; without a contract or legs it trades the
    shares of `symbol`. time_in_force: None is day."""

    model_config = ConfigDict(defer_build=True)

    symbol: Annotated[str, Field(pattern=SYMBOL_PATTERN), BeforeValidator(share_symbol)]
    action: ActionKind
    side: Literal["buy", "sell"] | None = None
    quantity: Level | None = Field(None, description="shares or contracts")
    notional: Level | None = Field(None, description="account currency, instead of quantity")
    order_type: OrderType | None = None
    limit_price: Level | None = None
    stop_price: Level | None = None
    trail_percent: Annotated[float, Field(ge=0.1, le=50)] | None = Field(None, description="of a trailing stop")
    time_in_force: TimeInForce | None = None
    contract: Annotated[str, Field(min_length=1, max_length=21)] | None = Field(
        None, description="OCC symbol of an option on the symbol"
    )
    legs: list[Annotated[str, Field(min_length=1, max_length=40)]] | None = Field(
        None, description="contracts traded together, each such as: sell 1 AAPL261218P00180000; limit_price is net"
    )


class TraderAction(AskedOrder, Wire):
    """One recommendation. plan: of what opens or adds."""

    plan: ActionPlan | None = None
    confidence: Confidence
    reasoning: str


class TraderOutput(Wire):
    actions: list[TraderAction]
    reasoning: str


class Usage(Frozen):
    """Tokens of one or more model calls. A field is None if one call gave no finite, non-negative number for it: the
    sum of the others would pass for the whole."""

    input_tokens: int | None = 0
    cached_input_tokens: int | None = 0
    output_tokens: int | None = 0
    reasoning_tokens: int | None = 0
    total_tokens: int | None = 0

    @classmethod
    def unknown(cls) -> Usage:
        return cls(**dict.fromkeys(cls.model_fields))

    @property
    def missing(self) -> list[str]:
        return [name for name in Usage.model_fields if getattr(self, name) is None]

    def __add__(self, other: Usage) -> Usage:
        both = {name: (getattr(self, name), getattr(other, name)) for name in Usage.model_fields}
        return Usage(**{name: None if None in two else sum(two) for name, two in both.items()})


class Failure(Frozen):
    """The reason for which a turn failed. kind is a short snake_case name, the same in tables, logs and tests.

    reset_seconds: the pause that the provider asks for; None when the app-server does not pass it on.
    """

    kind: str
    retryable: bool
    message: str
    reset_seconds: float | None = None


class Completed(Frozen):
    outcome: Literal["completed"] = "completed"
    value: dict[str, Any]


class Refused(Frozen):
    """The model declined. An outcome, not an error."""

    outcome: Literal["refused"] = "refused"
    text: str


class Interrupted(Frozen):
    outcome: Literal["interrupted"] = "interrupted"


class Failed(Failure):
    outcome: Literal["failed"] = "failed"


class Skipped(Frozen):
    """No turn was run, on purpose. no_data: because there was nothing to judge by."""

    outcome: Literal["skipped"] = "skipped"
    reason: str
    no_data: bool = False


Outcome = Annotated[Completed | Refused | Interrupted | Failed | Skipped, Field(discriminator="outcome")]


class ReportStatus(StrEnum):
    COMPLETED = "completed"
    NO_DATA = "no_data"
    REFUSED = "refused"
    FAILED = "failed"
    SKIPPED = "skipped"


@cache
def output_schema(model: type[BaseModel]) -> dict[str, Any]:
    """Strict: every property required, nothing else allowed, no references, fields' descriptions alone. Shared: do not
    change it."""
    schema = model.model_json_schema(by_alias=True)
    strict: dict[str, Any] = _strict(_undescribed(schema), schema.get("$defs", {}), _OF_NO_USE | _BOUNDS)
    return strict


def bounded_schema(model: type[BaseModel], known: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of `output_schema` with all that a server may enforce: lengths, bounds, numbers of items.
    known: what CHOICES and MOST stand for; a field whose choices it does not have has none."""
    schema = model.model_json_schema(by_alias=True)
    strict = _strict(_undescribed(schema), schema.get("$defs", {}), _OF_NO_USE)
    found: dict[str, Any] = _told(strict, known)
    return found


def _told(node: Any, known: Mapping[str, Any]) -> Any:
    if isinstance(node, list):
        return [_told(item, known) for item in node]
    if not isinstance(node, dict):
        return node
    made = {key: _told(value, known) for key, value in node.items() if key not in (CHOICES, MOST, "properties")}
    if "properties" in node:
        made["properties"] = {name: _told(one, known) for name, one in node["properties"].items()}
    if isinstance(node.get(CHOICES), str) and known.get(node[CHOICES]):
        made[CHOICES] = known[node[CHOICES]]
    if isinstance(node.get(MOST), str) and known.get(node[MOST]):
        made["maxItems"] = known[node[MOST]]
    return made


# Keywords that the strict mode of hosted providers refuses, and those of no use to a model.
_BOUNDS = frozenset({
    "minLength", "maxLength", "exclusiveMinimum", "minimum", "maximum", "maxItems", CHOICES, MOST,
})  # fmt: skip
_OF_NO_USE = frozenset({"$defs", "title", "default", "discriminator"})


def _strict(node: Any, defs: dict[str, Any], dropped: frozenset[str]) -> Any:
    if isinstance(node, list):
        return [_strict(item, defs, dropped) for item in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        own = {key: value for key, value in node.items() if key != "$ref"}
        return _strict(_undescribed(defs[node["$ref"].rsplit("/", 1)[-1]]) | own, defs, dropped)
    if (value := _nullable(node, defs, dropped)) is not None:
        return value
    kept = {key: value for key, value in node.items() if key not in dropped}
    if isinstance(kept.get("properties"), dict):
        kept["properties"] = {name: _strict(value, defs, dropped) for name, value in node["properties"].items()}
        kept["required"] = list(kept["properties"])
        kept["additionalProperties"] = False
    return {key: value if key == "properties" else _strict(value, defs, dropped) for key, value in kept.items()}


def _undescribed(node: dict[str, Any]) -> dict[str, Any]:
    """Return a model's schema without its docstring, which is for readers of the code."""
    return {key: value for key, value in node.items() if key != "description"}


def _nullable(node: dict[str, Any], defs: dict[str, Any], dropped: frozenset[str]) -> dict[str, Any] | None:
    """Return "a value or null" as one schema with two types, which is the shortest form; None for any other schema."""
    branches = node.get("anyOf", ())
    if len(branches) != 2 or branches[1] != {"type": "null"}:
        return None
    value = _strict(branches[0], defs, dropped)
    if not isinstance(value.get("type"), str):
        return None
    own = {key: text for key, text in node.items() if key != "anyOf" and key not in dropped}
    choices = {"enum": [*value["enum"], None]} if "enum" in value else {}
    return {**value, **choices, "type": [value["type"], "null"], **own}


# A report with so many unsupported figures, and a smaller share of supported ones, is ungrounded.
MOST_UNSUPPORTED = 1
GROUNDED_SHARE = 0.5


class Unsupported(Frozen):
    """A figure of a text that no source has. text: name of the text; start, end: offsets in it."""

    text: str
    figure: str
    start: int
    end: int


class Citation(Unsupported):
    """A figure of a text with its source.

    source: a tool's answer, the question (the turn's subject or a call's arguments), or derived from two figures of
    them. call: ordinal of the tool call in its turn; tool: its name; both None for the turn's subject. path: JSON
    pointer into the answer; value: what stands there. other_*: the second operand of a derived figure.
    """

    source: Literal["tool", "question", "derived"]
    call: int | None
    tool: str | None
    path: str
    value: float | str
    operation: str | None = None
    other_call: int | None = None
    other_path: str | None = None
    other_value: float | str | None = None


def is_grounded(figures: int, supported: int) -> bool:
    """With several unsupported figures, half of all need a source."""
    return figures - supported <= MOST_UNSUPPORTED or supported >= GROUNDED_SHARE * figures


class Grounding(Frozen):
    """figures: number of all; supported: of those with a source; share: of supported ones, None without figures.
    citations and unsupported are the first `KEPT` of each. sourced: number of the figures that a tool's answer has of
    the subject itself, or that follow from such; None where they were not counted yet.
    """

    figures: int
    supported: int
    share: float | None
    citations: list[Citation]
    unsupported: list[Unsupported]
    sourced: int | None = None

    @property
    def is_grounded(self) -> bool:
        return is_grounded(self.figures, self.supported)


class RogueKind(StrEnum):
    UNKNOWN = "unknown"  # no tool of the desk has the name
    FOREIGN = "foreign"  # a tool of the desk that the turn does not have
    MALFORMED = "malformed"  # a tool of the turn, with arguments that are no JSON object


# Most confidence of what rests on a turn with a rogue call: the call is the best sign of an injection there is.
ROGUE_CONFIDENCE = Confidence.LOW

_ACTING = re.compile(
    "orders?|buy|sell|short|submit|cancel|halt|resume|flatten|close|approvals?|approve|deny|trade|mandate|arm|disarm"
    "|transfer|withdraw|shell|exec|execute|command|bash|python|patch|write|delete"
)
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")


def plain_name(tool: str) -> str:
    """As a name may be shown and told to other models: letters, digits and a few signs, at most 64."""
    return re.sub(r"[^\w.:/-]+", "_", tool)[:64] or "(no name)"


def acts(tool: str) -> bool:
    return any(_ACTING.fullmatch(word.lower()) for word in _WORD.findall(tool))
