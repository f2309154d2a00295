"""A trader's actions as they count: what no verdict, report or figure supports becomes no order.

The risk rules deny what takes exposure on without a verdict, or on one of PASS or INSUFFICIENT, and never stop an exit:
they are for a person and for code too. What a model asks for needs a reason beside them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from chordesk.agents.answers import RecordedCall
from chordesk.agents.grounding.figures import read
from chordesk.agents.grounding.report import Grounding, capped, ground, is_grounded, lack
from chordesk.models.research import ActionKind, Rating

_ENTRIES = frozenset({ActionKind.OPEN, ActionKind.ADD})
_EXITS = frozenset({ActionKind.REDUCE, ActionKind.CLOSE})
# The trader's prompt lets it hold and watch on these, and a weak model does not read it.
_WAITING = frozenset({Rating.HOLD, Rating.CAUTION})
_FIGURES = ("quantity", "notional", "limit_price", "stop_price", "trail_percent")
_TERMS = ("side", "order_type", "time_in_force", "legs", *_FIGURES)
# Parts of the trader's subject that code made. The texts of verdicts and notes are other models' words.
_KNOWN = ("portfolio", "limits", "constraints")
_WHOLE = "reasoning"


def ground_decision(
    decision: Mapping[str, Any], calls: Iterable[RecordedCall], subject: Mapping[str, Any]
) -> Grounding:
    """Return the grounding of a trader's reasoning, of the whole and of each action by its ordinal, on the tools'
    answers and the account. Exits come first: of very many figures the first alone are kept."""
    actions = decision["actions"]
    question = {name: subject.get(name) for name in _KNOWN}
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
) -> list[dict[str, Any]]:
    """Return the actions, each that nothing supports as one that trades nothing; its reasoning says why.

    Taking exposure on is supported by a BUY. Giving it back is supported by a report with figures that speaks against
    the symbol, or by figures of the action's own reasoning. What the risk rules deny is left to them: an entry by its
    verdict, an exit of what is not held.

    ratings: of verdicts, by symbol. against: symbols that such a report speaks against. held: symbols of the account.
    grounding: of `ground_decision`.
    """
    founded = _founded(grounding)
    return [
        _capped(_supported(one, ratings.get(one["symbol"]), one["symbol"] in against or at in founded, held), grounding)
        for at, one in enumerate(actions)
    ]


def note(grounding: Grounding) -> str:
    """Return the line on the figures of a decision that have no source, after its reasoning; empty without any."""
    why = lack(grounding)
    return f" ({why}.)" if why else ""


def _supported(
    action: Mapping[str, Any], rating: str | None, founded: bool, held: Collection[str]
) -> Mapping[str, Any]:
    kind = action["action"]
    if kind in _ENTRIES and rating in _WAITING:
        return _untraded(action, held, f"a verdict of {rating} supports none")
    if kind in _EXITS and not founded and action["symbol"] in held:
        return _untraded(action, held, "no report with figures speaks against it, and its own have no source")
    return action


def _untraded(action: Mapping[str, Any], held: Collection[str], why: str) -> dict[str, Any]:
    kind = ActionKind.HOLD if action["symbol"] in held else ActionKind.WATCH
    reasoning = f"{action['reasoning']} ({action['action']} was asked for; {why}.)"
    return {**action, **dict.fromkeys(_TERMS), "action": kind.value, "reasoning": reasoning}


def _capped(action: Mapping[str, Any], grounding: Grounding) -> dict[str, Any]:
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
