"""The language of a lens's rule: `momentum60 > 0.05 and rsi14 < 65`, over the figures of all names at once.

An expression is read with Python's parser and rebuilt from an allow-list of nodes: numbers, names of figures, the four
signs of arithmetic, comparisons, `and or not`, and calls of `FUNCTIONS`. Nothing of it is ever executed as Python. It
is compiled to numpy over columns, one value a name.

A missing figure is not a number (nan in a column) and stays unknown through arithmetic; so does what is divided by zero
or too large. Truth has three values, by Kleene's logic: `unknown and false` is false, `unknown or true` is true, all
else with an unknown is unknown. What is unknown is never a hit.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial, reduce
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from chordesk.models.errors import UsageError

MOST_CHARACTERS = 1_000
MOST_NODES = 100  # numbers, names, operations and calls

Numbers = npt.NDArray[np.float64]  # nan: unknown
Columns = Mapping[str, Numbers]
Kind = Literal["number", "truth"]


class Truth(NamedTuple):
    """Three-valued truth of each name. Where neither is set it is unknown."""

    true: npt.NDArray[np.bool_]
    false: npt.NDArray[np.bool_]

    @property
    def unknown(self) -> npt.NDArray[np.bool_]:
        return ~(self.true | self.false)


@dataclass(frozen=True, slots=True)
class Expression:
    """A checked expression. figures: the names in it."""

    text: str
    kind: Kind
    figures: frozenset[str]
    _numbers: Callable[[Columns, int], Numbers] | None = None
    _truth: Callable[[Columns, int], Truth] | None = None

    def numbers(self, columns: Columns, size: int) -> Numbers:
        """Return the value of each name, nan where it is unknown. columns: by figure, of so many names; a figure
        without a column is unknown for all."""
        assert self._numbers is not None, f"{self.text!r} is true or false"
        with np.errstate(all="ignore"):
            return self._numbers(columns, size)

    def truth(self, columns: Columns, size: int) -> Truth:
        assert self._truth is not None, f"{self.text!r} is a number"
        with np.errstate(all="ignore"):
            return self._truth(columns, size)


def read(text: str, figures: Collection[str], kind: Kind, what: str = "the expression") -> Expression:
    """Return the expression of a text. figures: the names it may use; what: how an error calls it. Raises UsageError
    for a text that is not in the language, is too long, or is a number where truth is asked for, and the reverse."""
    tree = _tree(text, what)
    counted = sum(isinstance(node, ast.expr) for node in ast.walk(tree))
    if counted > MOST_NODES:
        raise UsageError(
            f"{what} has {counted} parts, and at most {MOST_NODES} are allowed: {_cut(text)!r}",
            remedy="split it into two lenses, or leave terms out",
        )
    reader = _Reader(what, frozenset(figures))
    given, made = reader.made(tree)
    if given != kind:
        is_, wanted = ("a number", "true or false") if given == "number" else ("true or false", "a number")
        example = "momentum20 > 0.05" if kind == "truth" else "momentum20 + 0.5 * momentum60"
        raise UsageError(f"{what} is {is_}, and {wanted} is asked for: {_cut(text)!r}", remedy=f"write {example}")
    used = frozenset(node.id for node in ast.walk(tree) if isinstance(node, ast.Name)) & reader.figures
    return Expression(text, kind, used, *((made, None) if kind == "number" else (None, made)))


_TOKEN = re.compile(
    r"\s+|(?P<number>(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)(?![A-Za-z0-9_.])"
    r"|(?P<name>[A-Za-z_][A-Za-z0-9_]*)|<=|>=|==|!=|[-+*/()<>,]"
)
FORM = "write comparisons of figures, such as momentum60 > 0.05 and rsi14 < 65"


def _tree(text: str, what: str) -> ast.expr:
    if not text.strip():
        raise UsageError(f"{what} is empty", remedy=FORM)
    if len(text) > MOST_CHARACTERS:
        remedy = "split it into two lenses, or leave terms out"
        reason = f"{what} has {len(text):,} characters, and at most {MOST_CHARACTERS:,} are allowed"
        raise UsageError(reason, remedy=remedy)
    at = 0
    while at < len(text):
        # Python's parser would take letters of other alphabets for the plain ones that they look like.
        if (token := _TOKEN.match(text, at)) is None:
            raise UsageError(f"{what} has {_cut(text[at : at + 12])!r} at character {at + 1}", remedy=FORM)
        at = token.end()
    try:
        return ast.parse(f"({' '.join(text.split())})", mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        why = error.msg if isinstance(error, SyntaxError) else "it is nested too deeply"
        raise UsageError(f"{what} cannot be read, {why}: {_cut(text)!r}", remedy=FORM) from None


def _cut(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:77]}..."


_Number = Callable[[Columns, int], Numbers]
_Truth = Callable[[Columns, int], Truth]
_Made = tuple[Literal["number"], _Number] | tuple[Literal["truth"], _Truth]


def _known(values: Numbers) -> Numbers:
    """Return the values with nan for what arithmetic made infinite."""
    return np.where(np.isfinite(values), values, np.nan)


def _ranks(values: Numbers) -> Numbers:
    """Return each known value's place among the known ones as a fraction, the highest 1; equal values share the mean of
    their places. As pandas' rank(pct=True)."""
    found, known = np.full(len(values), np.nan), ~np.isnan(values)
    if (given := values[known]).size:
        ordered = np.sort(given)
        below, upto = np.searchsorted(ordered, given, "left"), np.searchsorted(ordered, given, "right")
        found[known] = (below + 1 + upto) / 2 / given.size
    return found


def _least(*values: Numbers) -> Numbers:
    return reduce(np.minimum, values)  # nan where one is nan


def _most(*values: Numbers) -> Numbers:
    return reduce(np.maximum, values)


# With the least and the most numbers that each takes, and what it returns of them.
FUNCTIONS: Mapping[str, tuple[int, int, Callable[..., Numbers]]] = {
    "abs": (1, 1, np.abs),
    "min": (2, 20, _least),
    "max": (2, 20, _most),
    "rank": (1, 1, _ranks),
}
BETWEEN = "between"  # between(x, low, high): low <= x <= high
CALLS = {"abs": "abs(x)", "min": "min(x, y)", "max": "max(x, y)", "rank": "rank(x)", BETWEEN: "between(x, low, high)"}
_OPERATIONS: Mapping[type[ast.operator], Callable[[Numbers, Numbers], Numbers]] = {
    ast.Add: np.add, ast.Sub: np.subtract, ast.Mult: np.multiply, ast.Div: np.divide,
}  # fmt: skip
_COMPARISONS: Mapping[type[ast.cmpop], Callable[[Numbers, Numbers], npt.NDArray[np.bool_]]] = {
    ast.Lt: np.less, ast.LtE: np.less_equal, ast.Gt: np.greater, ast.GtE: np.greater_equal,
    ast.Eq: np.equal, ast.NotEq: np.not_equal,
}  # fmt: skip


def _both(first: Truth, second: Truth) -> Truth:
    return Truth(first.true & second.true, first.false | second.false)


def _either(first: Truth, second: Truth) -> Truth:
    return Truth(first.true | second.true, first.false & second.false)


class _Reader:
    """Makes functions of columns from the nodes of one expression."""

    def __init__(self, what: str, figures: frozenset[str]) -> None:
        self.what, self.figures = what, figures

    def made(self, node: ast.expr) -> _Made:
        match node:
            case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
                return "number", self._constant(node, value)
            case ast.Name():
                return "number", self._figure(node.id)
            case ast.UnaryOp(op=ast.USub() | ast.UAdd()):
                inner, sign = self.number(node.operand), -1.0 if isinstance(node.op, ast.USub) else 1.0
                return "number", lambda columns, size: sign * inner(columns, size)
            case ast.UnaryOp(op=ast.Not()):
                truth = self.truth(node.operand)
                return "truth", lambda columns, size: Truth(*reversed(truth(columns, size)))
            case ast.BinOp(op=ast.Add() | ast.Sub() | ast.Mult() | ast.Div()):
                first, second, does = self.number(node.left), self.number(node.right), _OPERATIONS[type(node.op)]
                return "number", lambda columns, size: _known(does(first(columns, size), second(columns, size)))
            case ast.BoolOp():
                parts, joined = list(map(self.truth, node.values)), _both if isinstance(node.op, ast.And) else _either
                return "truth", lambda columns, size: reduce(joined, (part(columns, size) for part in parts))
            case ast.Compare():
                return "truth", self._compared(node)
            case ast.Call(func=ast.Name(id=name), keywords=[]):
                return self._called(name, node.args)
        raise self._wrong(f"has {_cut(ast.unparse(node))!r}", FORM)

    def number(self, node: ast.expr) -> _Number:
        kind, made = self.made(node)
        if kind == "number":
            return made  # type: ignore[return-value]
        raise self._wrong(f"counts with {_cut(ast.unparse(node))!r}, which is true or false", "compare numbers alone")

    def truth(self, node: ast.expr) -> _Truth:
        kind, made = self.made(node)
        if kind == "truth":
            return made  # type: ignore[return-value]
        written = _cut(ast.unparse(node))
        raise self._wrong(f"has {written!r} where true or false is asked for", f"compare it, such as {written} > 0")

    def _constant(self, node: ast.expr, value: float) -> _Number:
        try:
            given = float(value)
        except OverflowError:
            given = math.inf
        if not math.isfinite(given):
            raise self._wrong("has a number that is too large", "write a smaller number")
        return lambda _columns, size: np.full(size, given)

    def _figure(self, name: str) -> _Number:
        if name not in self.figures:
            if name in CALLS:
                raise self._wrong(f"has {name!r} without what it is of", f"it is a function: write {CALLS[name]}")
            near = get_close_matches(name, [*self.figures, *CALLS], 1)
            meant = f"did you mean {CALLS.get(near[0], near[0])}? " if near else ""
            choice = ", ".join(sorted(self.figures))
            raise self._wrong(f"has {name[:40]!r}, which is not a figure", f"{meant}choose among {choice}")
        return partial(_column, name)

    def _compared(self, node: ast.Compare) -> _Truth:
        terms = list(map(self.number, (node.left, *node.comparators)))
        if strange := [one for one in node.ops if type(one) not in _COMPARISONS]:
            raise self._wrong(f"compares with {type(strange[0]).__name__}", "compare with < <= > >= == !=")
        holds = [_COMPARISONS[type(one)] for one in node.ops]

        def compared(columns: Columns, size: int) -> Truth:
            values = [term(columns, size) for term in terms]
            pairs = (_compare(hold, *pair) for hold, *pair in zip(holds, values[:-1], values[1:], strict=True))
            return reduce(_both, pairs)

        return compared

    def _called(self, name: str, given: list[ast.expr]) -> _Made:
        if name != BETWEEN and name not in FUNCTIONS:
            raise self._wrong(f"calls {name[:40]!r}", f"there are {', '.join((*FUNCTIONS, BETWEEN))}")
        least, most = (3, 3) if name == BETWEEN else FUNCTIONS[name][:2]
        if not least <= len(given) <= most:
            takes = f"{least}" if least == most else f"{least} to {most}"
            raise self._wrong(f"gives {name} {len(given)} values", f"it takes {takes}")
        terms = list(map(self.number, given))
        if name != BETWEEN:
            does = FUNCTIONS[name][2]
            return "number", lambda columns, size: does(*(term(columns, size) for term in terms))

        def within(columns: Columns, size: int) -> Truth:
            value, low, high = (term(columns, size) for term in terms)
            return _both(_compare(np.less_equal, low, value), _compare(np.less_equal, value, high))

        return "truth", within

    def _wrong(self, reason: str, remedy: str) -> UsageError:
        return UsageError(f"{self.what} {reason}", remedy=remedy)


def _column(name: str, columns: Columns, size: int) -> Numbers:
    found = columns.get(name)
    return np.full(size, np.nan) if found is None else _known(found)


def _compare(hold: Callable[[Numbers, Numbers], npt.NDArray[np.bool_]], first: Numbers, second: Numbers) -> Truth:
    known, holds = ~(np.isnan(first) | np.isnan(second)), hold(first, second)
    return Truth(known & holds, known & ~holds)
