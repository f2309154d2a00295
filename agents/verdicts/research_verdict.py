"""The verdict of a candidate, reduced from its reports, and a trader's actions as they count."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal

from chordesk.agents.grounding.figures import read
from chordesk.agents.grounding.report import capped, ground, lack
from chordesk.agents.roles import GRAPH_ROLES, forecasts, rejecting
from chordesk.agents.thesis_pooling import EVEN, Basis, Rule, StatedThesis, arithmetic, pool, rated
from chordesk.agents.turn_answers import RecordedCall
from chordesk.models.analysis import PLANNERS, RoleReport, VerdictResult
from chordesk.models.answers import (
    ROGUE_CONFIDENCE,
    ActionKind,
    Confidence,
    Grounding,
    Rating,
    ReportStatus,
    Stance,
    is_grounded,
)
from chordesk.models.thesis import KeptThesis, Pooled

MIN_COMPLETED = 2  # fewer reports of the desk's own roles than this decide nothing but a PASS
LEAST_SOURCED = 2  # figures with a source of a report that a BUY rests on
COMPANY = ("fundamentals", "catalyst", "research")  # roles that look beyond the price: one of them must have had data
SUMMARY_CHARS = 300  # of one role's summary
_NOT = {rating: f"Not {rating}:" for rating in (Rating.BUY, Rating.CAUTION, Rating.PASS)}
_RULE = "Rule:"
_HELD = tuple(_NOT.values())
ALONE = "By the reports alone"  # begins the line of a summary that says why a view is rated otherwise
_STRENGTH = {Confidence.LOW: 0, Confidence.MEDIUM: 1, Confidence.HIGH: 2}


def conclude(
    reports: Sequence[RoleReport],
    required: Sequence[str],
    rule: Rule,
    weights: Mapping[str, float] | None = None,
    basis: Basis | None = None,
) -> VerdictResult:
    """Return the verdict of a candidate by its reports' theses, or as the rule says by their stances.

    By theses: a REJECT that ended the research -> PASS, unless it is of a contract alone; else as
    `thesis_pooling.rated` says of the pooled theses, and a BUY that no report supports, or that a required one rejects
    or has proven wrong, is HOLD. What is not grounded raises no probability, and a thesis that was proven wrong since
    has none. weights: of roles, and basis: of the share, as of `thesis_pooling.pool`. Guards and confidence are those
    of `reduce_reports`.
    """
    if rule.by == "stances":
        return reduce_reports(reports, required)
    judging = [one for one in reports if one.role not in PLANNERS]
    base = EVEN if basis is None or basis.chance is None else basis.chance
    stated = [StatedThesis(one.role, _counted_thesis(one, base), forecasts(one.role)) for one in judging]
    pooled = pool(stated, weights, basis)

    def decide(completed: Sequence[RoleReport]) -> tuple[Rating, list[str]]:
        ended = [one.role for one in completed if one.verdict is Stance.REJECT and one.role in _ending()]
        own = sum(one.role not in GRAPH_ROLES for one in completed)
        rating, why = rated(pooled, rule, own, MIN_COMPLETED)
        if ended:
            rating, why = Rating.PASS, f"{', '.join(ended)} rejected it, which ended its research"
        return rating, [arithmetic(pooled), f"{_RULE} {why}.", *_of_graphs(rating, completed)]

    return _reduced(reports, required, decide, pooled)


def _ending() -> frozenset[str]:
    """Return the roles whose REJECT ends research and speaks of the share: a contract that pays too little does not."""
    return frozenset(rejecting()) - PLANNERS


def _counted_thesis(report: RoleReport, base: float) -> KeptThesis | None:
    stated = report.thesis if report.status is ReportStatus.COMPLETED and report.crossed_on is None else None
    if stated is None or report.is_grounded or (stated.probability or 0.0) <= base:
        return stated
    return None


def way_of(report: RoleReport, *, by_theses: bool = True) -> Literal["up", "down"] | None:
    """Return which way an order gains that may rest on a completed report: an entry on one that points up, an exit on
    one that points down.

    None where its figures may not be believed, or too few stand in a tool's answer: an entry takes LEAST_SOURCED, an
    exit one. A REJECT is down; else the thesis says it by its probability, unless it was proven wrong since, and up by
    its direction too. Where no probability does, or by stances, a CAUTION is down; not that of a role which states a
    risk alone.
    """
    sourced = report.sourced if report.sourced is not None else LEAST_SOURCED
    thesis = report.thesis if by_theses and report.crossed_on is None else None
    chance = thesis.probability if thesis is not None else None
    if not report.is_grounded or not sourced:
        return None
    if by_theses and report.verdict is Stance.CAUTION and not forecasts(report.role):
        return None
    if report.verdict is Stance.REJECT or (report.verdict is Stance.CAUTION if chance is None else chance < EVEN):
        return "down"
    rises = thesis is not None and thesis.direction == "up" and chance is not None and chance > EVEN
    return "up" if rises and sourced >= LEAST_SOURCED else None


def rejects(report: RoleReport) -> bool:
    """Return whether a completed report rejects its share with figures that may be believed."""
    sourced = report.sourced if report.sourced is not None else LEAST_SOURCED
    return report.verdict is Stance.REJECT and report.is_grounded and sourced > 0


BAND = 0.05  # by which a pooled probability is to fall before a holding is reduced once more


def kept_because(rating: str | None, pooled: Pooled | None, rejected: bool, reduced_at: float | None) -> str | None:
    """Return why a share that is held is not sold on its verdict; None where it may be.

    A PASS sells, and so does a role that rejects with figures. Else the expected move is to be below what selling it
    and buying it again costs, for a holding that is left alone earns its move. The same evidence sells once:
    after a reduction the probability is to be BAND below the one that it was reduced on. A verdict of stances has no
    expected move, and None.

    rejected: by a role, with figures. reduced_at: the pooled probability on which the holding was reduced last, None
    where it never was, or was added to since.
    """
    if rating in (None, Rating.PASS) or pooled is None or pooled.probability is None:
        return None
    if not rejected:
        if pooled.move is None:
            return "no thesis or base rate states an expected move"
        if pooled.move >= -pooled.cost:
            return f"its expected move of {pooled.move:+.2%} is not below the {pooled.cost:.2%} that a sale costs"
    if reduced_at is not None and pooled.probability > reduced_at - BAND:
        return f"it was reduced at {reduced_at:.3f}, and {pooled.probability:.3f} is not {BAND:g} below"
    return None


def _unsupported(completed: Sequence[RoleReport], required: Sequence[str]) -> str | None:
    """Return why a BUY of pooled theses has no report to rest on; None where it has."""
    for one in completed:
        if one.role in required and one.verdict is Stance.REJECT:
            return f"{one.role}, which a BUY requires, rejects it"
        if (one.thesis is None or not forecasts(one.role)) and one.verdict is Stance.REJECT:
            return f"{one.role}, which states no probability, rejects it"
        if one.crossed_on is not None and one.is_grounded and one.thesis is not None and one.thesis.direction == "up":
            return (
                f"the thesis of {one.role} was proven wrong on {one.crossed_on}, at {one.thesis.invalidation_price:g}"
            )
    if not any(way_of(one) == "up" for one in completed):
        return f"no report with {LEAST_SOURCED} figures of its tools has a thesis that points up"
    return None


def reduce_reports(reports: Sequence[RoleReport], required: Sequence[str]) -> VerdictResult:
    """Return the verdict of a candidate by stances. It is on its shares: a report of PLANNERS is on an instrument and
    counts for nothing here. Its rating is the first that holds over the completed reports:

    any REJECT -> PASS; fewer than two of the desk's own roles -> INSUFFICIENT (never tradable); a required role without
    a completed report -> HOLD; at least half CAUTION -> CAUTION; any CAUTION -> HOLD; a required role with fewer than
    `LEAST_SOURCED` figures that stand in a tool's answer -> HOLD (without required roles: no report that has them);
    else BUY.

    Confidence is the lowest of the completed (low when there is none); a role without a completed report is listed
    in `missing` as "role: status (reason)" and caps it at medium. A BUY without a completed report of a role of COMPANY
    is of low confidence. The summary names each rule that held a verdict back. Raises ValueError for a role that
    reported twice and for a completed report without verdict or confidence.
    """

    def decide(completed: Sequence[RoleReport]) -> tuple[Rating, list[str]]:
        own = sum(report.role not in GRAPH_ROLES for report in completed)
        rating = _rating([report.verdict for report in completed], own)
        return rating, _of_graphs(rating, completed)

    return _reduced(reports, required, decide)


def _of_graphs(rating: Rating, completed: Sequence[RoleReport]) -> list[str]:
    if rating is not Rating.INSUFFICIENT or not any(one.role in GRAPH_ROLES for one in completed):
        return []
    return [f"No order rests on {' or '.join(GRAPH_ROLES)}: {MIN_COMPLETED} reports of other roles are needed."]


def _reduced(
    reports: Sequence[RoleReport],
    required: Sequence[str],
    decide: Callable[[Sequence[RoleReport]], tuple[Rating, list[str]]],
    pooled: Pooled | None = None,
) -> VerdictResult:
    """decide: returns the rating of completed reports, and lines that explain it. pooled: of theses."""
    _check(reports)
    reports = [report for report in reports if report.role not in PLANNERS]
    completed = [report for report in reports if report.status is ReportStatus.COMPLETED]
    missing = [_absence(report) for report in reports if report.status is not ReportStatus.COMPLETED]
    rating, lines = decide(completed)
    confidence = _confidence([report.confidence for report in completed if report.confidence], bool(missing))
    roles = {report.role for report in completed}
    lacking = _lacking(roles, required)
    why = lacking or _unfounded(completed, required)
    if pooled is not None:
        why = why or _unsupported(completed, required)
    rejected = any(one.verdict is Stance.REJECT for one in completed)
    # Each of these moves money, a CAUTION where a person allows it. A rejection needs no second report: to leave a
    # candidate out takes no risk.
    if (rating is Rating.BUY and why) or (lacking and rating in _NOT and not (rating is Rating.PASS and rejected)):
        lines.append(f"{_NOT[rating]} {why}.")
        rating = Rating.HOLD
    if rating is Rating.BUY and roles.isdisjoint(COMPANY):
        confidence = Confidence.LOW
        lines.append(f"Low confidence: none of {', '.join(COMPANY)} had any data.")
    return VerdictResult(
        rating=rating,
        confidence=confidence,
        summary=_summary(rating, completed, missing, lines),
        key_risks=list(dict.fromkeys(risk for report in completed for risk in report.key_risks)),
        completed=[report.role for report in completed],
        missing=missing,
        pooled=pooled,
    )


def with_rogue(result: VerdictResult, why: str | None) -> VerdictResult:
    """Return a verdict as it counts where a turn that it rests on made rogue calls. why: names them, None without."""
    if why is None:
        return result
    head, _, rest = result.summary.partition("\n")
    summary = f"{head}\nLow confidence: {why}." + (f"\n{rest}" if rest else "")
    return result.model_copy(update={"confidence": ROGUE_CONFIDENCE, "summary": summary})


def _lacking(roles: Collection[str], required: Sequence[str]) -> str | None:
    lacking = [role for role in required if role not in roles]
    return f"no completed report of {', '.join(lacking)}, which the desk requires" if lacking else None


def _unfounded(completed: Sequence[RoleReport], required: Sequence[str]) -> str | None:
    """Return why a BUY has nothing to rest on; None where each required report has figures of the tools, and not more
    that no tool gave, or without required roles one report has."""
    asked = [one for one in completed if one.role in required] or completed
    thin = [
        one.role for one in asked if one.sourced is not None and not (one.is_grounded and one.sourced >= LEAST_SOURCED)
    ]
    if not thin or (len(thin) < len(asked) and not required):
        return None
    return f"{', '.join(thin)} without {LEAST_SOURCED} figures that stand in a tool's answer, on which a BUY rests"


def _check(reports: Sequence[RoleReport]) -> None:
    roles = [report.role for report in reports]
    twice = sorted({role for role in roles if roles.count(role) > 1})
    if twice:
        raise ValueError(f"more than one report of {', '.join(twice)}: give each role's last report only")
    for report in reports:
        if report.status is ReportStatus.COMPLETED and (report.verdict is None or report.confidence is None):
            raise ValueError(f"the completed report of {report.role} has no verdict or no confidence")


def _rating(stances: Sequence[Stance | None], own: int) -> Rating:
    cautions = stances.count(Stance.CAUTION)
    if Stance.REJECT in stances:
        return Rating.PASS
    if own < MIN_COMPLETED:
        return Rating.INSUFFICIENT
    if 2 * cautions >= len(stances):
        return Rating.CAUTION
    return Rating.HOLD if cautions else Rating.BUY


def deciding_rule(rating: str, stances: Mapping[str, str], summary: str) -> str:
    """Return the rule that gave a verdict its rating. stances: of its completed reports by role; summary: of the
    verdict, which names what kept it from a BUY, and of theses the rule itself."""
    if (other := next((line for line in summary.splitlines() if line.startswith(ALONE)), None)) is not None:
        return other
    stances = {role: stance for role, stance in stances.items() if role not in PLANNERS}
    lines = summary.splitlines()
    if any(line.startswith(_RULE) for line in lines):
        found = (line for name in (_HELD, _RULE) for line in lines if line.startswith(name))
        return next(found).partition(":")[2].strip().rstrip(".")
    count, cautions = len(stances), [role for role, stance in stances.items() if stance == Stance.CAUTION]
    match rating:
        case Rating.PASS:
            rejecting = [role for role, stance in stances.items() if stance == Stance.REJECT]
            return f"any REJECT is a PASS: {', '.join(rejecting)}"
        case Rating.INSUFFICIENT:
            graphs = [role for role in stances if role in GRAPH_ROLES]
            beside = f" beside {', '.join(graphs)}" if graphs else ""
            return f"{count - len(graphs)} completed reports{beside}; fewer than {MIN_COMPLETED} decide nothing"
        case Rating.CAUTION:
            return f"{len(cautions)} of {count} reports are CAUTION, at least half: {', '.join(cautions)}"
        case Rating.HOLD if (held := next((line for line in lines if line.startswith(_HELD)), None)) is not None:
            return held.partition(":")[2].strip().rstrip(".")
        case Rating.HOLD:
            return f"any CAUTION is a HOLD: {', '.join(cautions)}" if cautions else "a required report is missing"
        case Rating.BUY:
            return f"all {count} completed reports are CONFIRMED"
    return ""


def _confidence(stated: Sequence[Confidence], capped: bool) -> Confidence:
    lowest = min(stated, key=_STRENGTH.__getitem__, default=Confidence.LOW)
    return Confidence.MEDIUM if capped and lowest is Confidence.HIGH else lowest


def _absence(report: RoleReport) -> str:
    return f"{report.role}: {report.status.value} ({report.reason or 'no reason given'}){_age(report)}"


def _age(report: RoleReport) -> str:
    """Return the age of a report that an earlier run made, as a suffix; nothing for one of this run."""
    return "" if report.age_hours is None else f", {report.age_hours:.0f} h before"


def _summary(rating: Rating, completed: Sequence[RoleReport], missing: Sequence[str], held_back: Sequence[str]) -> str:
    parts = [f"{rating.value} from {len(completed)} of {len(completed) + len(missing)} reports.", *held_back]
    for report in completed:
        text = report.summary if len(report.summary) <= SUMMARY_CHARS else report.summary[: SUMMARY_CHARS - 1] + "…"
        parts.append(f"{report.role} {report.verdict} ({report.confidence}){_age(report)}: {text}")
    if missing:
        parts.append("Missing: " + "; ".join(missing) + ".")
    return "\n".join(parts)


def cap_confidence(
    actions: Iterable[Mapping[str, Any]], verdicts: Mapping[str, tuple[str, str]]
) -> list[dict[str, Any]]:
    """Return the trader's actions, each at most as confident as its symbol's verdict; a capped action's reasoning names
    both. verdicts: rating and confidence by symbol. An action without a verdict, on a holding, stays as it is."""
    return [_capped_by_verdict(action, verdicts.get(str(action["symbol"]))) for action in actions]


def _capped_by_verdict(action: Mapping[str, Any], verdict: tuple[str, str] | None) -> dict[str, Any]:
    if verdict is None or _STRENGTH[Confidence(action["confidence"])] <= _STRENGTH[Confidence(verdict[1])]:
        return dict(action)
    note = f"(The confidence was {action['confidence']}; that of the verdict {verdict[0]} is {verdict[1]}.)"
    return {**action, "confidence": verdict[1], "reasoning": f"{action['reasoning']} {note}"}


# A trader's actions as they count: what no verdict, report or figure supports becomes no order.
#
# The risk rules deny what takes exposure on without a verdict, or on one of PASS or INSUFFICIENT, and never stop an
# exit:
# they are for a person and for code too. What a model asks for needs a reason beside them.

_ENTRIES = frozenset({ActionKind.OPEN, ActionKind.ADD})
_EXITS = frozenset({ActionKind.REDUCE, ActionKind.CLOSE})
# The trader's prompt lets it hold and watch on these, and a weak model does not read it.
_WAITING = frozenset({Rating.HOLD, Rating.CAUTION})
_FIGURES = ("quantity", "notional", "limit_price", "stop_price", "trail_percent")
_TERMS = ("side", "order_type", "time_in_force", "legs", "plan", *_FIGURES)
# Parts of the trader's subject that code made, and of each of its verdicts. The texts of verdicts and notes are other
# models' words.
_KNOWN = ("portfolio", "limits", "constraints", "stress")
_JUDGED = ("symbol", "pooled", "probability", "sizing")
_WHOLE = "reasoning"


def ground_decision(
    decision: Mapping[str, Any], calls: Iterable[RecordedCall], subject: Mapping[str, Any]
) -> Grounding:
    """Return the grounding of a trader's reasoning, of the whole and of each action by its ordinal, on the tools'
    answers and the account. Exits come first: of very many figures the first alone are kept."""
    actions = decision["actions"]
    question: dict[str, Any] = {name: subject.get(name) for name in _KNOWN}
    verdicts = subject.get("verdicts") or ()
    question["verdicts"] = [{name: one[name] for name in _JUDGED if one.get(name) is not None} for one in verdicts]
    # What a trader says of its whole decision counts verdicts and actions.
    question["counted"] = {
        "verdicts": Counter(one.get("rating") for one in verdicts if one.get("rating")),
        "actions": Counter(one["action"] for one in actions),
        "all": [len(verdicts), len(actions)],
    }
    order = sorted(range(len(actions)), key=lambda at: actions[at]["action"] not in _EXITS)
    # The symbol names the rows of which an action's reasoning seldom says that they are its own.
    texts = {str(at): f"{actions[at]['symbol']}: {actions[at]['reasoning']}" for at in order}
    texts[_WHOLE] = decision["reasoning"]
    answers = [(call.answer.tool, call.arguments, call.answer.payload) for call in calls]
    return _without_own(ground(texts, answers, question), actions)


def _without_own(found: Grounding, actions: Sequence[Mapping[str, Any]]) -> Grounding:
    """Return the grounding without the figures that state an order's own terms: they are not made up, and no reason for
    it either."""
    terms = {str(at): [one[name] for name in _FIGURES if one.get(name)] for at, one in enumerate(actions)}
    terms[_WHOLE] = [value for values in terms.values() for value in values]
    unsupported = [one for one in found.unsupported if not _states(one.figure, terms[one.text])]
    figures = found.figures - (len(found.unsupported) - len(unsupported))
    share = round(found.supported / figures, 4) if figures else None
    return found.model_copy(update={"figures": figures, "share": share, "unsupported": unsupported})


def _states(text: str, values: Iterable[float]) -> bool:
    figures = read(text).figures
    return any(abs(figure.value - value) <= figure.tolerance for figure in figures for value in values)


def supported_actions(
    actions: Sequence[Mapping[str, Any]],
    ratings: Mapping[str, str],
    against: Collection[str],
    held: Collection[str],
    grounding: Grounding,
    kept: Mapping[str, str] = MappingProxyType({}),
) -> list[dict[str, Any]]:
    """Return the actions; an unsupported one trades nothing, and its reasoning says why.

    An entry is supported by a BUY, an exit by a report with figures against the symbol or by figures in the action's
    own reasoning, unless its verdict keeps it. Denials of the risk rules are left to them.

    ratings: of verdicts, by symbol. against: symbols with such a report. held: symbols of the account. grounding: of
    `ground_decision`. kept: of `kept_because`, by symbol.
    """
    founded = _founded(grounding)
    return [
        _capped_by_grounding(
            _supported(
                one,
                ratings.get(one["symbol"]),
                one["symbol"] in against or at in founded,
                held,
                kept.get(one["symbol"]),
            ),
            grounding,
        )
        for at, one in enumerate(actions)
    ]


def note(grounding: Grounding) -> str:
    """Return the line on the figures of a decision that have no source, after its reasoning; empty without any."""
    why = lack(grounding)
    return f" ({why}.)" if why else ""


def with_rogue_calls(actions: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [{**action, "confidence": ROGUE_CONFIDENCE.value} for action in actions]


def _supported(
    action: Mapping[str, Any], rating: str | None, founded: bool, held: Collection[str], kept: str | None
) -> Mapping[str, Any]:
    kind = action["action"]
    if kind in _ENTRIES and rating in _WAITING:
        return untraded(action, held, f"a verdict of {rating} supports none")
    if kind in _ENTRIES and rating == Rating.BUY and action["side"] == "sell" and not _has_contracts(action):
        return untraded(action, held, "a BUY supports no sale of shares that are not held")
    if kind in _EXITS and not founded and action["symbol"] in held:
        return untraded(action, held, "no report with figures speaks against it, and its own have no source")
    if kind in _EXITS and kept is not None and action["symbol"] in held and not _has_contracts(action):
        return untraded(action, held, kept)
    return action


def _has_contracts(action: Mapping[str, Any]) -> bool:
    return bool(action["contract"] or action["legs"])


def untraded(action: Mapping[str, Any], held: Collection[str], why: str) -> dict[str, Any]:
    """Return an action that trades nothing, and says why. held: symbols of the account."""
    kind = ActionKind.HOLD if action["symbol"] in held else ActionKind.WATCH
    reasoning = f"{action['reasoning']} ({action['action']} was asked for; {why}.)"
    return {**action, **dict.fromkeys(_TERMS), "action": kind.value, "reasoning": reasoning}


def _capped_by_grounding(action: Mapping[str, Any], grounding: Grounding) -> dict[str, Any]:
    if grounding.is_grounded:
        return dict(action)
    return {**action, "confidence": capped(action["confidence"], grounding)}


def _founded(grounding: Grounding) -> set[int]:
    """Return the ordinals of the actions with a figure that a tool or the account has, among figures that may be
    believed."""
    has = Counter(one.text for one in grounding.citations)
    lacks = Counter(one.text for one in grounding.unsupported)
    stands = {one.text for one in grounding.citations if not one.path.startswith("/arguments") and one.text != _WHOLE}
    return {int(text) for text in stands if is_grounded(has[text] + lacks[text], has[text])}
