"""What a model may ask of the desk's rows: each tool is a look-up of `desk ask`, bounded by the account and the clock
of the run.

No tool acts. A figure stands in `facts` as the row has it. What models, venues and people wrote stands between the
marks of outside text: `outside` is the look-up's own text, whose lines quote them, and in `facts` every string whose
field is not of code.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field
from typing_extensions import TypedDict

from chordesk.models.errors import NotConfigured
from chordesk.models.text import delimited
from chordesk.tools.model_tools.portfolio import store_of
from chordesk.tools.registry import DISTINCT, Answer, Arguments, Gaps, Symbol, ToolContext, ToolSpec, payload

if TYPE_CHECKING:
    from chordesk.tasks.asking.answers import Answer as Found
    from chordesk.tasks.asking.answers import Desk

MOST_ROWS, MOST_TEXT = 80, 12_000  # of a list, and of the look-up's text
_ID = r"^[0-9a-f]{6,32}$"
_SINCE = "real time: 6h, 2d, 1w, today, yesterday, close, week, month or a day"
Some = Annotated[list[Symbol], Field(max_length=20, description="tickers; none for all"), DISTINCT]
Named = Annotated[list[Symbol], Field(min_length=1, max_length=5, description="1 to 5 tickers"), DISTINCT]
Since = Annotated[str, Field(max_length=40, description=_SINCE)]
Until = Annotated[str, Field(max_length=40)]
Count = Annotated[int, Field(ge=1, le=50)]
RunId = Annotated[str, Field(pattern=_ID, description="id of a run, or its first characters")]


class SourceRow(TypedDict):
    kind: str
    id: str


class RowsAnswer(Answer):
    account: str
    facts: dict[str, Any]
    outside: str
    sources: list[SourceRow]


class NoArguments(Arguments):
    pass


class SymbolArguments(Arguments):
    symbols: Some = []


class NamedArguments(Arguments):
    symbols: Named


class SinceArguments(Arguments):
    since: Since = ""
    until: Until = ""


class ChangeArguments(SinceArguments):
    symbols: Some = []


class WhyArguments(Arguments):
    symbols: Named
    about: Literal["any", "bought", "sold", "denied", "not bought"] = "any"


class OrderArguments(SinceArguments):
    symbols: Some = []
    state: Literal["any", "open", "filled", "denied", "rejected", "unknown"] = "any"
    count: Count = 12


class FillArguments(SinceArguments):
    symbols: Some = []
    side: Literal["any", "buy", "sell"] = "any"
    count: Count = 12


class HoldingArguments(Arguments):
    symbols: Some = []
    order: Literal["all", "weakest", "strongest"] = Field("all", description="weakest and strongest: the first `count`")
    count: Count = 3


class GainArguments(SinceArguments):
    symbols: Named


class RunsArguments(Arguments):
    symbols: Some = []
    count: Count = 5


class RunArguments(Arguments):
    run: RunId
    other: Annotated[str, Field(pattern=rf"^$|{_ID}", description="a run to compare with")] = ""


class CostArguments(SinceArguments):
    run: Annotated[str, Field(pattern=rf"^$|{_ID}", description="of a run alone")] = ""


class ScoreArguments(Arguments):
    kind: Literal["any", "voice", "tool", "lens", "role", "rating", "thesis"] = "any"
    name: Annotated[str, Field(max_length=60, description="such as a lens's")] = ""


class SettingArguments(Arguments):
    names: list[Annotated[str, Field(pattern=r"^[A-Za-z_]{3,60}$")]] = Field(
        min_length=1, max_length=12, description="such as DESK_PROTECT"
    )


def _looked(
    context: ToolContext,
    *intents: str,
    symbols: Sequence[str] = (),
    ids: Sequence[str] = (),
    moments: SinceArguments | None = None,
    count: int | None = None,
    words: Sequence[str] = (),
    settings: Sequence[str] = (),
    standing: bool = False,
) -> dict[str, Any]:
    """Return what the look-ups of intents find. standing: it tells how the account is now, so that it is not to be
    told where the account's rows go beyond the clock."""
    from chordesk.tasks.asking.answers import Desk
    from chordesk.tasks.asking.lookup import answering
    from chordesk.tasks.asking.questions import Question

    if context.settings.mask:
        raise NotConfigured("not available: this desk hides names, dates or levels (DESK_MASK), and rows would tell")
    now = context.clock.now()
    desk = Desk(context.settings, store_of(context), context.account, lambda: context.market, now)
    if standing and (why := _beyond(desk)) is not None:
        gaps = Gaps()
        gaps.add(intents[0], why)
        return payload(context, gaps, available=False, account=desk.account, facts={}, outside="", sources=[])
    text = " ".join(words)
    question = Question(
        text=text, intent=intents[0], symbols=tuple(symbols), ids=tuple(ids), count=count, settings=tuple(settings),
        since=(moments.since or None) if moments else None, until=(moments.until or None) if moments else None,
        words=frozenset(text.lower().split()),
    )  # fmt: skip
    return _told(context, desk, *(answering(intent)(desk, question) for intent in intents))


def _told(context: ToolContext, desk: Desk, *found: Found) -> dict[str, Any]:
    gaps = Gaps()
    for one in found:
        for line in one.missing:
            what, _, why = line.partition(": ")
            gaps.add(what, why or "the rows do not have it")
    text = "\n".join(one.text for one in found)[:MOST_TEXT]
    facts = {name: value for one in found for name, value in one.facts.items()}
    sources = {one.id: {"kind": one.kind, "id": one.id} for answer in found for one in answer.sources}
    return payload(
        context, gaps, available=True, account=desk.account, facts=_marked(facts), outside=delimited(text),
        sources=list(sources.values())[:MOST_ROWS],
    )  # fmt: skip


def _beyond(desk: Desk) -> str | None:
    """Return why the account cannot be told as it stood at the clock; None where its rows end there."""
    from sqlmodel import col, select

    from chordesk.models.tables.orders import Fill, Order
    from chordesk.models.tables.runs import Run
    from chordesk.models.text import utc

    tables: tuple[tuple[Any, Any], ...] = ((Run, Run.market_now), (Order, Order.market_at), (Fill, Fill.filled_at))
    with desk.store.read() as session:
        for table, at in tables:
            later = select(col(at)).where(table.account == desk.account, col(at) > desk.clock)
            if (found := session.exec(later.limit(1)).first()) is not None:
                return f"the account has rows of {utc(found)}, which is later than this clock"
    return None


# Fields whose strings are code's own: symbols, states, names of the desk's parts, days.
_OWN = frozenset({
    "symbol", "side", "quantity", "state", "currency", "kind", "rating", "confidence", "verdict", "role", "day", "id",
    "action", "denial_code", "instrument", "marked_at", "market_at", "filled_at", "created_at", "until", "account",
    "trading", "order_type", "time_in_force",
})  # fmt: skip
_PLAIN = re.compile(r"[-+]?[\d.,:TZ+-]{1,40}|[A-Z0-9.^=&-]{1,24}")  # a figure, a day, a time, a symbol


def _marked(value: Any, field: str = "") -> Any:
    if isinstance(value, str):
        return value if field in _OWN or not value or _PLAIN.fullmatch(value) else delimited(value)
    if isinstance(value, Mapping):
        return {str(name): _marked(one, str(name)) for name, one in value.items()}
    if isinstance(value, Sequence):
        return [_marked(one, field) for one in value[:MOST_ROWS]]
    return value


def desk_status(context: ToolContext, arguments: NoArguments) -> dict[str, Any]:
    return _looked(context, "status", standing=True)


def waiting_list(context: ToolContext, arguments: NoArguments) -> dict[str, Any]:
    return _looked(context, "waiting", standing=True)


def changes_list(context: ToolContext, arguments: ChangeArguments) -> dict[str, Any]:
    return _looked(context, "changes", symbols=arguments.symbols, moments=arguments, standing=True)


def desk_why(context: ToolContext, arguments: WhyArguments) -> dict[str, Any]:
    words = [] if arguments.about == "any" else arguments.about.split()
    return _looked(context, "why", symbols=arguments.symbols, words=words)


def orders_list(context: ToolContext, arguments: OrderArguments) -> dict[str, Any]:
    words = [] if arguments.state == "any" else [arguments.state]
    return _looked(context, "orders", symbols=arguments.symbols, moments=arguments, count=arguments.count, words=words)


def fills_list(context: ToolContext, arguments: FillArguments) -> dict[str, Any]:
    words = [] if arguments.side == "any" else [arguments.side]
    return _looked(
        context, "fills", "fees", symbols=arguments.symbols, moments=arguments, count=arguments.count, words=words
    )


def holdings_list(context: ToolContext, arguments: HoldingArguments) -> dict[str, Any]:
    if arguments.order == "all":
        return _looked(context, "holdings", symbols=arguments.symbols, standing=True)
    return _looked(context, arguments.order, count=arguments.count, standing=True)


def equity_get(context: ToolContext, arguments: SinceArguments) -> dict[str, Any]:
    return _looked(context, "equity", moments=arguments, words=["cash"], standing=True)


def gains_list(context: ToolContext, arguments: GainArguments) -> dict[str, Any]:
    return _looked(context, "gain", symbols=arguments.symbols, moments=arguments, standing=True)


def verdicts_list(context: ToolContext, arguments: NamedArguments) -> dict[str, Any]:
    return _looked(context, "verdict", symbols=arguments.symbols)


def theses_list(context: ToolContext, arguments: NamedArguments) -> dict[str, Any]:
    return _looked(context, "thesis", symbols=arguments.symbols[:1])


def plans_list(context: ToolContext, arguments: SymbolArguments) -> dict[str, Any]:
    return _looked(context, "plan", symbols=arguments.symbols, standing=True)


def runs_list(context: ToolContext, arguments: RunsArguments) -> dict[str, Any]:
    return _looked(context, "runs", symbols=arguments.symbols, count=arguments.count)


def run_get(context: ToolContext, arguments: RunArguments) -> dict[str, Any]:
    if arguments.other:
        return _looked(context, "compare", ids=(arguments.run, arguments.other))
    return _looked(context, "run", ids=(arguments.run,))


def costs_get(context: ToolContext, arguments: CostArguments) -> dict[str, Any]:
    return _looked(context, "cost", ids=(arguments.run,) if arguments.run else (), moments=arguments)


def scores_get(context: ToolContext, arguments: ScoreArguments) -> dict[str, Any]:
    words = [word for word in (arguments.kind, arguments.name) if word and word != "any"]
    return _looked(context, "scores", words=words, standing=True)


def schedule_list(context: ToolContext, arguments: NoArguments) -> dict[str, Any]:
    return _looked(context, "schedule")


def alerts_list(context: ToolContext, arguments: SinceArguments) -> dict[str, Any]:
    return _looked(context, "alerts", moments=arguments, standing=True)


def settings_get(context: ToolContext, arguments: SettingArguments) -> dict[str, Any]:
    return _looked(context, "setting", settings=[name.upper() for name in arguments.names])


def _tool(name: str, description: str, arguments: type[Arguments], function: Callable[..., Any]) -> ToolSpec:
    return ToolSpec(
        name=name, description=description, arguments=arguments, function=function, data=False, answer=RowsAnswer
    )


DESK_STATUS = _tool(
    "desk_status", "How the desk stands: runs in work, halts, what waits, equity.", NoArguments, desk_status
)
WAITING_LIST = _tool(
    "waiting_list", "Orders and requests that wait for a person, with the reasons.", NoArguments, waiting_list
)
CHANGES_LIST = _tool(
    "changes_list",
    "What changed on the account: runs, ratings, orders, fills, theses, plans, halts, settings, equity, tokens.",
    ChangeArguments,
    changes_list,
)
DESK_WHY = _tool(
    "desk_why",
    "Why the desk bought, sold, denied or left alone a share: order, decision, verdict, reports and hits. Of several "
    "symbols the first that has rows.",
    WhyArguments,
    desk_why,
)
ORDERS_LIST = _tool(
    "orders_list", "The account's orders, the newest first, with what denied them.", OrderArguments, orders_list
)
FILLS_LIST = _tool(
    "fills_list", "What the account bought and sold, the newest first, and the fees of it.", FillArguments, fills_list
)
HOLDINGS_LIST = _tool(
    "holdings_list",
    "What the account holds with value and gain; or its weakest or strongest by rating, gain and probability.",
    HoldingArguments,
    holdings_list,
)
EQUITY_GET = _tool("equity_get", "Equity, cash and drawdown, and what they moved since.", SinceArguments, equity_get)
GAINS_LIST = _tool("gains_list", "What was gained on shares: by sales, and of what is held.", GainArguments, gains_list)
VERDICTS_LIST = _tool(
    "verdicts_list", "The last verdict on each share, and its reports.", NamedArguments, verdicts_list
)
THESES_LIST = _tool(
    "theses_list", "The theses of a share's last research, and how earlier ones ended.", NamedArguments, theses_list
)
PLANS_LIST = _tool("plans_list", "Stops, targets, last days and reviews of what is held.", SymbolArguments, plans_list)
RUNS_LIST = _tool("runs_list", "Runs and what they came to, the newest first.", RunsArguments, runs_list)
RUN_GET = _tool("run_get", "What a run did and cost; with `other`, how the two differ.", RunArguments, run_get)
COSTS_GET = _tool("costs_get", "Tokens and money of the day, since a moment, or of a run.", CostArguments, costs_get)
SCORES_GET = _tool(
    "scores_get", "Scores of voices, tools, lenses, roles, ratings and theses.", ScoreArguments, scores_get
)
SCHEDULE_LIST = _tool("schedule_list", "What is scheduled, and when it is next.", NoArguments, schedule_list)
ALERTS_LIST = _tool("alerts_list", "Notices of alerts since a moment.", SinceArguments, alerts_list)
SETTINGS_GET = _tool("settings_get", "Settings by name, without secrets.", SettingArguments, settings_get)
