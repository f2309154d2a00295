"""The roles of the desk, an entry each, their order, and the screeners' pure steps from a universe to candidates."""

from __future__ import annotations

import datetime as dt
import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import orjson

from chordesk.agents import first_calls
from chordesk.agents.analysts import (
    complete_chart,
    complete_options,
    complete_research,
    has_chain,
    has_chart,
    has_source,
)
from chordesk.agents.role import SCREENER, Role, analyst, role_of_file, screener_of_file, trader, validator
from chordesk.agents.runtime import ApprovalKind
from chordesk.agents.subjects import SkepticSubject, SynthesisSubject
from chordesk.agents.turn_answers import AnswerError, RecordedCall
from chordesk.models import features
from chordesk.models.analysis import (
    PLANNERS,
    ChartAnalysis,
    ChartOutput,
    OptionsAnalysis,
    OptionsOutput,
    ResearchAnalysis,
    ResearchOutput,
    SynthesisOutput,
)
from chordesk.models.answers import ActionKind, Instrument, ScreenCandidate, ScreenConfidence, ScreenOutput
from chordesk.models.descriptions import said
from chordesk.models.errors import DeskError, SettingError
from chordesk.models.features import Feature, GraphRole
from chordesk.models.settings import LENSES, UNIFIED, Settings
from chordesk.models.states import Mode
from chordesk.tools.model_tools.charts import CHART_RENDER, CHART_STUDY_GET, PRICE_HISTORY_GET
from chordesk.tools.model_tools.company import COMPANY_GET
from chordesk.tools.model_tools.company_data import ANALYST_RATINGS, EARNINGS_DATES, INSIDER_TRADES, SHORT_INTEREST
from chordesk.tools.model_tools.filings import SEC_FILINGS
from chordesk.tools.model_tools.news import NEWS_INDEX, NEWS_LIST
from chordesk.tools.model_tools.order_preview import ORDERS_PREVIEW
from chordesk.tools.model_tools.pages import PAGE_READ
from chordesk.tools.model_tools.portfolio import PORTFOLIO_GET
from chordesk.tools.model_tools.reports import REPORT_LATEST
from chordesk.tools.model_tools.screens import SP500_MOVERS, UNIVERSE_LIST
from chordesk.tools.model_tools.signals import SIGNALS_GET, TECHNICALS_GET
from chordesk.tools.options.activity_tool import OPTIONS_UNUSUAL, VOLATILITY_GET
from chordesk.tools.options.chain_tool import OPTION_CHAIN_GET, OPTION_GREEKS_GET
from chordesk.tools.registry import ToolSpec

_ENTRIES = (ActionKind.OPEN, ActionKind.ADD)
Action = Mapping[str, Any]


def complete_plan(answer: dict[str, Any], subject: Mapping[str, Any], calls: Sequence[RecordedCall]) -> dict[str, Any]:
    """Return the answer as it is. Raises AnswerError for a stop or target on the wrong side of its entry, a review
    before today, and two listings of one company."""
    sizes = {row["symbol"]: row["sizing"] for row in subject["verdicts"] if row.get("sizing")}
    companies: dict[str, str] = {}
    for one in answer["actions"]:
        if one["action"] not in _ENTRIES:
            continue
        size = sizes.get(one["symbol"], {})
        if not one.get("contract") and not one.get("legs"):
            _require_sides(one, size.get("price"))
        _require_later(one, str(subject.get("day") or ""))
        other = companies.setdefault(size.get("company", one["symbol"]), one["symbol"])
        if other != one["symbol"]:
            raise AnswerError(f"{other} and {one['symbol']} are listings of one company: open or add to one of them")
    return answer


def _require_sides(action: Action, price: float | None) -> None:
    plan, entry = action.get("plan") or {}, action.get("limit_price") or price
    if entry is None:
        return
    long, symbol = action["side"] != "sell", action["symbol"]
    for name, below in (("stop", long), ("target", not long)):
        level = plan.get(name)
        if level is not None and (level >= entry if below else level <= entry):
            side = "below" if below else "above"
            raise AnswerError(f"{symbol}: the {name} {level:g} is not {side} its entry of {entry:g}")


def _require_later(action: Action, today: str) -> None:
    day = (action.get("plan") or {}).get("review")
    if day is None:
        return
    try:
        dt.date.fromisoformat(day)
    except ValueError:
        raise AnswerError(f"{action['symbol']}: the review {day!r} is no day: write YYYY-MM-DD") from None
    if today and day < today:
        raise AnswerError(f"{action['symbol']}: the review {day} is before today, {today}")


# The role that argues against a BUY. It follows no other: the conclusion itself asks it.
SKEPTIC = "skeptic"
_CHARTS = (PRICE_HISTORY_GET, CHART_STUDY_GET, CHART_RENDER)
_CHAINS = (OPTION_CHAIN_GET, OPTION_GREEKS_GET, OPTIONS_UNUSUAL)
# What there is on a company beside its prices: the sources of the research role.
_OPINIONS = (SHORT_INTEREST, ANALYST_RATINGS, INSIDER_TRADES)
_RESEARCH = (NEWS_LIST, NEWS_INDEX, EARNINGS_DATES, *_OPINIONS, SEC_FILINGS)
SCREENING = (UNIVERSE_LIST, SP500_MOVERS, COMPANY_GET, TECHNICALS_GET, SIGNALS_GET, NEWS_LIST)
# What the file of a lens may name.
LENS_TOOLS: Mapping[str, ToolSpec] = {tool.name: tool for tool in (*SCREENING, VOLATILITY_GET, OPTIONS_UNUSUAL)}
_OPTION_RISK = (VOLATILITY_GET, OPTION_CHAIN_GET, OPTIONS_UNUSUAL)
LENS_FILES = Path(__file__).parent / "lenses"  # of the desk's own
_OF_OPTIONS = {"options": (VOLATILITY_GET, OPTIONS_UNUSUAL)}
_OWN: Mapping[str, Role] = {
    role.key: role
    for role in (
        *(
            screener_of_file(lens, LENS_FILES / f"{lens}.md", *SCREENING, *_OF_OPTIONS.get(lens, ()))
            for lens in (*LENSES, UNIFIED)
        ),
        validator("quick", SIGNALS_GET, first=first_calls.quick, keeps_thread=False, rejects=True),
        validator(
            "overview", COMPANY_GET, SIGNALS_GET, NEWS_LIST, REPORT_LATEST,
            first=first_calls.overview, after="quick", optional=True,
        ),
        validator(
            "fundamentals", COMPANY_GET, NEWS_LIST, REPORT_LATEST, first=first_calls.fundamentals, after="quick"
        ),
        validator("risk", SIGNALS_GET, TECHNICALS_GET, COMPANY_GET, *_OPTION_RISK,
            first=first_calls.risk, after="quick", forecasts=False,
        ),
        validator("catalyst", COMPANY_GET, NEWS_LIST, SP500_MOVERS, first=first_calls.catalyst, after="quick"),
        analyst(
            ChartOutput, "chart", *_CHARTS, SIGNALS_GET, after="quick",
            complete=complete_chart, completed=ChartAnalysis, evidence=has_chart,
        ),
        analyst(
            ResearchOutput, "research", *_RESEARCH, COMPANY_GET, PAGE_READ, after="chart", reads=("chart",),
            complete=complete_research, completed=ResearchAnalysis, evidence=has_source,
        ),
        analyst(
            OptionsOutput, "options", *_CHAINS, VOLATILITY_GET, CHART_STUDY_GET, after="research", reads=("chart",),
            rejects=False, complete=complete_options, completed=OptionsAnalysis, evidence=has_chain,
        ),
        validator(
            SKEPTIC, COMPANY_GET, SIGNALS_GET, TECHNICALS_GET, NEWS_LIST, keeps_thread=False, optional=True,
            question="ask_skeptic.md", subject=SkepticSubject, first=first_calls.skeptic,
        ),
        role_of_file(
            "research", "ask_synthesis.md", SynthesisSubject, SynthesisOutput, "synthesis", keeps_thread=False,
            optional=True, reports=False, of_market=False,
        ),
        trader(
            "trader", PORTFOLIO_GET, COMPANY_GET, NEWS_LIST, SIGNALS_GET, TECHNICALS_GET, ORDERS_PREVIEW,
            complete=complete_plan, first=first_calls.account,
        ),
    )
}  # fmt: skip


PROMPTS = Path(__file__).parent / "prompts"


# The folders with the packages' prompts, by feature. One that is left out later keeps its own: its roles are here.
PROMPT_FOLDERS: dict[str, Path] = {}


def _prompts() -> dict[str, set[str]]:
    """Return the names of the prompts of each package; the desk's own are those of "". A package with a name that there
    is already is left out: which of the two a role had would depend on their order."""
    found = {"": _names(PROMPTS)}
    for feature, folder in features.folders("prompts", "prompts"):
        mine = _names(folder)
        if again := sorted(mine & set().union(*found.values())):
            first = next(name for name, names in found.items() if again[0] in names)
            features.skip(feature, f"among the prompts there is {again[0]} already{features.whose(first or None)}")
        else:
            found.setdefault(feature.name, set()).update(mine)
            PROMPT_FOLDERS[feature.name] = folder
    return found


def _names(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def _with_features(own: Mapping[str, Role]) -> dict[str, Role]:
    """Return the roles with what features add. Of a package that is left out for one of its parts nothing stays: a role
    without its tools would take part in each run."""
    while True:
        before = len(features.in_force())
        found = _gathered(own)
        if len(features.in_force()) == before:
            return found


def _gathered(own: Mapping[str, Role]) -> dict[str, Role]:
    found, prompts = dict(own), _prompts()
    for feature, given in features.parts("roles", kind=Role, many=True):
        roles = [role for some in given for role in some]
        if why := _unfit(feature, roles, prompts[""] | prompts.get(feature.name, set()), found):
            features.skip(feature, why)
            continue
        features.add(found, feature, {role.key: role for role in roles}, "roles")
        found |= _lenses_of(feature, found)
        if without := [lens for lens in feature.lenses if f"screener_{lens}" not in found]:
            features.skip(feature, f"its lens {without[0]} has no role screener_{without[0]}")
    owners: dict[str, str | None] = {tool.name: None for role in found.values() for tool in role.tools}
    for feature, tools in features.parts("tools", kind=ToolSpec):
        names = [tool.name for tool in tools]
        if again := sorted(name for name in names if name in owners or names.count(name) > 1):
            features.skip(feature, f"among the tools there is {again[0]} already{features.whose(owners.get(again[0]))}")
        elif strange := sorted({key for keys in feature.tools.values() for key in keys} - found.keys()):
            features.skip(feature, f"its tools are for {', '.join(strange)}, and there is no such role")
        elif not features.is_own(feature) and (faulty := [why for tool in tools if (why := tool.fault())]):
            features.skip(feature, faulty[0])
        else:
            owners |= dict.fromkeys(names, feature.name)
            for tool, keys in zip(tools, feature.tools.values(), strict=True):
                found |= {key: replace(found[key], tools=(*found[key].tools, tool)) for key in keys}
    return found


def _lenses_of(feature: Feature, found: Mapping[str, Role]) -> dict[str, Role]:
    """Return the roles of a feature's lenses that are files; none where one of them is faulty: it is left out."""
    made: dict[str, Role] = {}
    for name, place in feature.lenses.items():
        package, _, inside = place.partition(":")
        if not inside.endswith(".md"):
            continue
        try:
            file = features.place_of(package) / inside
            role = screener_of_file(name, file, *_tools_of(name, file))
        except (OSError, UnicodeDecodeError, ValueError, DeskError) as error:
            features.skip(feature, f"its lens {name} cannot be read: {said(error, placed=False)}")
            return {}
        if role.key in found:
            features.skip(feature, f"among the roles there is {role.key} already")
            return {}
        made[role.key] = role
    return made


def _tools_of(name: str, file: Path) -> tuple[ToolSpec, ...]:
    """Return the tools that a package's file names. Raises UsageError for a faulty file."""
    from chordesk.tools.lenses.files import read_lens

    found = read_lens(name, file.read_text(encoding="utf-8"), frozenset(LENS_TOOLS)).tools
    return SCREENING if found is None else tuple(LENS_TOOLS[one] for one in found)


def _unfit(feature: Feature, roles: Sequence[Role], prompts: set[str], known: Mapping[str, Role]) -> str:
    """Return why the roles of a feature cannot be the desk's; an empty text where they can."""
    keys = [role.key for role in roles]
    if twice := sorted(key for key in keys if keys.count(key) > 1):
        return f"among its roles {twice[0]} is there twice"
    if without := [name for role in roles for name in (role.prompt, role.question) if name not in prompts]:
        return f"it has no prompt {without[0]}"
    if features.is_own(feature):
        return ""
    for role in roles:
        if lost := [key for key in (role.after, *role.reads) if key is not None and key not in {*known, *keys}]:
            return f"its role {role.key} follows or reads {lost[0]}, and there is no such role"
    shared = {tool.name: tool for role in known.values() for tool in role.tools}
    given = {tool.name: tool for role in roles for tool in role.tools}
    if again := sorted(name for name, tool in given.items() if shared.get(name, tool) is not tool):
        return f"among the tools there is {again[0]} already"
    return next((why for role in roles if (why := role.fault())), "")


ROLES: Mapping[str, Role] = _with_features(_OWN)
# Roles that a graph plays: they have no prompt, schema or tools of the desk's, and
# run only where the settings name them.
GRAPH_ROLES: Mapping[str, GraphRole] = features.added({}, "graph_roles")
# Every tool there is, by name. None may submit an order: a model recommends, code acts.
TOOLS: Mapping[str, ToolSpec] = {tool.name: tool for role in ROLES.values() for tool in role.tools}


def validators() -> tuple[str, ...]:
    own = (key for key, role in ROLES.items() if role.mode == "research" and role.reports)
    return (*own, *GRAPH_ROLES)


def default_roles() -> tuple[str, ...]:
    return tuple(key for key in validators() if key in ROLES and not ROLES[key].optional)


def roots(keys: Iterable[str]) -> tuple[str, ...]:
    """Roles that follow no other role of the run; a role whose predecessor is left out follows the one before it."""
    given = tuple(keys)
    return tuple(key for key in given if key != SKEPTIC and _after(key, given) is None)


def following(keys: Iterable[str], key: str) -> tuple[str, ...]:
    given = tuple(keys)
    return tuple(one for one in given if _after(one, given) == key)


def after(roles: Iterable[str], role: str) -> set[str]:
    """Return the roles that follow a role, and those that follow these."""
    given = tuple(roles)
    found = set(following(given, role))
    return found.union(*(after(given, later) for later in found))


def beside(roles: Iterable[str]) -> tuple[str, ...]:
    """Roles that wait only for the rejection of one that starts at once, without graphs, which are many turns."""
    given = tuple(roles)
    found = (later for first in roots(given) if first in rejecting() for later in following(given, first))
    return tuple(role for role in found if role not in GRAPH_ROLES and not _reads(role, given))


def ends_all(roles: Iterable[str], role: str) -> bool:
    """Return whether the REJECT of a role ends the whole research of a candidate: all its other roles come after."""
    given = set(roles)
    return given - {role} <= after(given, role)


def _reads(role: str, given: Sequence[str]) -> bool:
    return role in ROLES and not set(given).isdisjoint(ROLES[role].reads)


def forecasts(key: str) -> bool:
    """Return whether a role's probability is pooled; that of a graph, or of a role that no longer exists, is."""
    return ROLES[key].forecasts if key in ROLES else True


def rejecting() -> tuple[str, ...]:
    return tuple(key for key, role in ROLES.items() if role.rejects)


def _after(key: str, given: Sequence[str]) -> str | None:
    before = _predecessor(key)
    while before is not None and before not in given:
        before = _predecessor(before)
    return before


def _predecessor(key: str) -> str | None:
    if key in ROLES:
        return ROLES[key].after
    return GRAPH_ROLES[key].after if key in GRAPH_ROLES else None


def mode_of(role: str) -> Mode:
    if role in GRAPH_ROLES:
        return "research"
    known = ROLES.get(role)
    if known is None and role.startswith(SCREENER):  # of a lens that only some run has
        return "screener"
    return known.mode if known is not None else "other"


def offered(role: Role, settings: Settings) -> Role:
    """Return a role with the tools that the settings leave it."""
    without = set(settings.without_tools)
    return replace(role, tools=tuple(tool for tool in role.tools if tool.name not in without)) if without else role


def toolset_hash(
    specs: Sequence[ToolSpec],
    approvals: frozenset[ApprovalKind] = frozenset(),
    web_search: tuple[str, ...] | None = None,
    own_prompt: str | None = None,
) -> str:
    """SHA-256 over tools, allowed requests, search hosts and a user's prompt: a thread keeps those it was started
    with."""
    table: list[Any] = [[spec.name, spec.description, spec.input_schema] for spec in specs]
    table += sorted(approvals)
    table += [] if web_search is None else [["web_search", *web_search]]
    table += [] if own_prompt is None else [["prompt", own_prompt]]
    return hashlib.sha256(orjson.dumps(table, option=orjson.OPT_SORT_KEYS)).hexdigest()


def research_roles(settings: Settings) -> tuple[str, ...]:
    """In the order in which they report. Raises SettingError."""
    if (named := settings.research_roles) is None:
        return default_roles()
    for key in named:
        if key not in validators():
            raise SettingError(
                f"research_roles (DESK_RESEARCH_ROLES) has {key!r}",
                remedy=f"choose among {', '.join(validators())}, or {features.remedy_for('graph_roles', key)}",
            )
    return tuple(key for key in validators() if key in named)


def required_roles(settings: Settings) -> tuple[str, ...]:
    """Return the roles without whose completed report no verdict is BUY. Unless they are named: risk, and of the roles
    that research those whose REJECT ends it, for its absence would pass for its consent. Raises SettingError for a role
    that does not research: no verdict could be BUY then."""
    if settings.required_roles == ("none",):
        return ()
    asked = research_roles(settings)
    ending = (one for one in rejecting() if one in asked and one not in PLANNERS)
    required = settings.required_roles if settings.required_roles is not None else (*ending, "risk")
    for key in required:
        if key in PLANNERS:
            raise SettingError(
                f"required_roles (DESK_REQUIRED_ROLES) has {key!r}, which judges the plan and never rates the share",
                remedy=f"choose among {', '.join(one for one in asked if one not in PLANNERS)}, or none",
            )
        if key not in asked:
            raise SettingError(
                f"required_roles (DESK_REQUIRED_ROLES) has {key!r}, which does not research: no verdict could be BUY",
                remedy=f"choose among {', '.join(asked)} (DESK_RESEARCH_ROLES), or none",
            )
    return tuple(dict.fromkeys(required))


# What one lens adds to a symbol's score, in tenths so that sums are exact: two speculative lenses weigh more than one
# medium lens and less than one high lens.
WEIGHTS: Mapping[ScreenConfidence, int] = {
    ScreenConfidence.HIGH: 10,
    ScreenConfidence.MEDIUM: 7,
    ScreenConfidence.SPECULATIVE: 4,
}
# When lenses disagree on the instrument as often: the plainer one.
_PLAINNESS = {Instrument.EQUITY: 0, Instrument.ETF: 1, Instrument.OPTION: 2}


@dataclass(frozen=True, slots=True)
class Hit:
    """A symbol that one lens put forward. id: the row it is kept in."""

    id: str
    lens: str
    symbol: str
    instrument: Instrument
    confidence: ScreenConfidence
    thesis: str


@dataclass(frozen=True, slots=True)
class RankedCandidate:
    """A symbol with all its hits. rank counts from 1; score is the sum of its lenses' weights, 1.0 a high one."""

    symbol: str
    instrument: Instrument
    confidence: ScreenConfidence
    rank: int
    score: float
    lenses: tuple[str, ...]
    hits: tuple[Hit, ...]


def shards(symbols: Sequence[str], size: int) -> list[tuple[str, ...]]:
    """The fewest shards of at most `size`, whose lengths differ by at most one. Raises ValueError for a size below
    1."""
    if size < 1:
        raise ValueError(f"shard size {size}: must be at least 1")
    count = -(-len(symbols) // size)
    edges = [len(symbols) * place // count for place in range(count + 1)] if count else []
    return [tuple(symbols[start:end]) for start, end in pairwise(edges)]


def accept(
    output: ScreenOutput, lens: str, symbols: Iterable[str], *, options_allowed: bool
) -> tuple[list[ScreenCandidate], list[str]]:
    """Candidates in the shard, named once, of an allowed instrument; and a note for each other one."""
    allowed = set(symbols)
    kept: dict[str, ScreenCandidate] = {}
    notes: list[str] = []
    for candidate in output.candidates:
        symbol = candidate.symbol.strip().upper()
        if symbol not in allowed:
            notes.append(f"{lens}: {symbol[:21]} is not in its shard and was dropped")
        elif symbol in kept:
            notes.append(f"{lens}: {symbol} was named twice; the first counts")
        elif candidate.instrument is Instrument.OPTION and not options_allowed:
            notes.append(f"{lens}: {symbol} was named as an option, which the constraints forbid, and was dropped")
        else:
            kept[symbol] = candidate.model_copy(update={"symbol": symbol})
    return list(kept.values()), notes


def rank(hits: Iterable[Hit], cap: int) -> list[RankedCandidate]:
    """The best `cap` by score, then symbol; each lens counts once. The order of the hits changes nothing."""
    by_symbol: dict[str, list[Hit]] = {}
    for hit in sorted(hits, key=lambda hit: (hit.symbol, hit.lens, -WEIGHTS[hit.confidence], hit.id)):
        by_symbol.setdefault(hit.symbol, []).append(hit)
    scored = sorted(
        ((_weight(group), group) for group in by_symbol.values()), key=lambda pair: (-pair[0], pair[1][0].symbol)
    )
    return [_candidate(group, place, weight) for place, (weight, group) in enumerate(scored[: max(cap, 0)], start=1)]


def _weight(group: Sequence[Hit]) -> int:
    best: dict[str, int] = {}
    for hit in group:
        best[hit.lens] = max(best.get(hit.lens, 0), WEIGHTS[hit.confidence])
    return sum(best.values())


def _candidate(group: Sequence[Hit], place: int, weight: int) -> RankedCandidate:
    return RankedCandidate(
        symbol=group[0].symbol,
        instrument=_instrument(group),
        confidence=max((hit.confidence for hit in group), key=WEIGHTS.__getitem__),
        rank=place,
        score=weight / 10,
        lenses=tuple(dict.fromkeys(hit.lens for hit in group)),
        hits=tuple(group),
    )


def _instrument(group: Sequence[Hit]) -> Instrument:
    named = Counter(hit.instrument for hit in group)
    return min(named, key=lambda instrument: (-named[instrument], _PLAINNESS[instrument]))
