"""Puts small faults into the code, one at a time, and counts how many the fast tests find.

`python -m tests.mutants OUT.json` draws 300 over the code that trades, runs steps and judges answers; `--guards` takes
each comparison, `not`, `and`, `or` and guard of it. A mutant is named by function, kind and text: `--again BASE.json`
finds it in a later tree. Each runs in a fork of this process, with the tests that reach its lines.
"""

from __future__ import annotations

import argparse
import ast
import gc
import json
import os
import random
import resource
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import CodeType, FunctionType

import coverage
import pytest
from _pytest.runner import runtestprotocol
from hypothesis import settings

ORDERS = ("tools/orders", "tools/risk", "tools/brokers")
GUARDED = (*ORDERS, "tasks/engine", "agents/verdicts/research_verdict.py", "agents/grounding")
TARGETS = (*GUARDED, "tasks/worker/work.py")
TESTS = [
    f"tests/{name}" for name in (*ORDERS, "tasks/engine", "tasks/worker", "agents/grounding", "agents/test_verdict.py")
]
SLOW = 4.0  # seconds; a slower test is left out
SWAPS = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip
ENDS = (ast.Return, ast.Raise, ast.Continue, ast.Break)
Site = tuple[str, range, Callable[[], None]]  # its kind and text, its statement's lines, and what applies it


def _expressions(node: ast.AST, lines: range) -> Iterator[Site]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.JoinedStr, ast.stmt)):
            continue  # words of messages; statements have their own turn
        if isinstance(child, ast.Compare):
            for at, op in enumerate(child.ops):
                name = f"compare {type(op).__name__} | {ast.unparse(child)}"
                yield name, lines, partial(child.ops.__setitem__, at, SWAPS[type(op)]())
        elif isinstance(child, ast.BoolOp):
            yield f"bool | {ast.unparse(child)}", lines, partial(setattr, child, "op", SWAPS[type(child.op)]())
        elif isinstance(child, ast.UnaryOp) and isinstance(child.op, ast.Not):
            twice = ast.copy_location(ast.UnaryOp(ast.Not(), child.operand), child)
            yield f"not | {ast.unparse(child)}", lines, partial(setattr, child, "operand", twice)
        elif isinstance(child, ast.Constant) and type(child.value) in (int, float):
            yield (
                f"number {child.value} | {ast.unparse(node)}",
                lines,
                partial(setattr, child, "value", child.value + 1),
            )
        yield from _expressions(child, lines)


def _statements(body: list[ast.stmt]) -> Iterator[Site]:
    for at, node in enumerate(body):
        inner = [getattr(node, name) for name in ("body", "orelse", "finalbody") if getattr(node, name, None)]
        inner += [part.body for part in (*getattr(node, "handlers", ()), *getattr(node, "cases", ()))]
        last = min((part[0].lineno for part in inner), default=(node.end_lineno or node.lineno) + 1)
        lines = range(node.lineno, max(last, node.lineno + 1))
        guard = isinstance(node, ast.If) and not node.orelse and isinstance(node.body[-1], ENDS)
        written = isinstance(node, ast.Assign) and isinstance(node.targets[0], (ast.Attribute, ast.Subscript))
        called = isinstance(node, ast.Expr) and not isinstance(node.value, ast.Constant)
        if guard or written or called or isinstance(node, (ast.AugAssign, ast.Raise)):
            removed = partial(body.__setitem__, at, ast.copy_location(ast.Pass(), node))
            text = f"if {ast.unparse(node.test)}" if isinstance(node, ast.If) else ast.unparse(node)
            yield f"{'guard' if guard else 'remove'} | {text}", lines, removed
        if not isinstance(node, (ast.Raise, ast.FunctionDef, ast.AsyncFunctionDef)):
            yield from _expressions(node, lines)
        for part in inner:
            yield from _statements(part)


def sites(tree: ast.Module, module: str) -> dict[str, Site]:
    """Return the mutants of a module by name. A constant outside of functions has none."""
    found, todo = dict[str, Site](), [(module, node) for node in tree.body]
    for prefix, node in todo:
        if isinstance(node, ast.ClassDef):
            todo += [(f"{prefix}.{node.name}", inner) for inner in node.body]
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            seen: Counter[str] = Counter()
            for site in _statements(node.body):
                seen[site[0]] += 1
                found[f"{prefix}.{node.name} | {site[0]} #{seen[site[0]]}"] = site
    return found


def _codes(code: CodeType) -> list[CodeType]:
    return [code, *(one for part in code.co_consts if isinstance(part, CodeType) for one in _codes(part))]


class Hunt:
    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        wanted = options.only or (GUARDED if options.guards else TARGETS)
        paths = [path for name in wanted for path in (Path(name).glob("*.py") if Path(name).is_dir() else [Path(name)])]
        self.sources = {str(path.resolve()): (str(path)[:-3].replace("/", "."), path.read_text()) for path in paths}
        self.items: dict[str, tuple[pytest.Item, float]] = {}

    def pytest_configure(self) -> None:
        settings.register_profile("fast", max_examples=20, derandomize=True, database=None)
        settings.load_profile("fast")

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [item for item in items if not any(map(item.get_closest_marker, ("process", "long", "postgres")))]

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        self._reach(session.items)
        gc.unfreeze()
        self.functions = [one for one in gc.get_objects() if isinstance(one, FunctionType)]
        names = {one: path for path, (module, text) in self.sources.items() for one in sites(ast.parse(text), module)}
        chosen, found = self._chosen(list(names)), dict[str, str]()
        until = time.monotonic() + self.options.minutes * 60
        for name in chosen:
            if time.monotonic() < until:
                found[name] = self._fate(names[name], name)
                self.options.out.write_text(json.dumps(found, indent=1))
        print(f"\n{len(names)} mutants, {len(chosen)} chosen, {len(found)} tried: {dict(Counter(found.values()))}")
        return True

    def _chosen(self, names: list[str]) -> list[str]:
        if self.options.again:
            moved: dict[str, list[str]] = {}
            for name in names:
                moved.setdefault(name.split(" | ", 1)[1], []).append(name)
            of = tuple(module for module, _ in self.sources.values()) if self.options.only else ("",)
            base = [name for name in json.loads(self.options.again.read_text()) if name in names or name.startswith(of)]
            rows = [[name] if name in names else moved.get(name.split(" | ", 1)[1], []) for name in base]
            print(f"\n{sum(len(row) != 1 for row in rows)} of {len(rows)} are no longer in the code")
            return [row[0] for row in rows if len(row) == 1]
        if self.options.guards:
            names = [name for name in names if name.split(" | ")[1].startswith(("compare", "bool", "not", "guard"))]
        return random.Random(29).sample(sorted(names), min(self.options.draw or len(names), len(names)))

    def _reach(self, items: list[pytest.Item]) -> None:
        """Run all tests once, and note which lines each reaches and how long it takes."""
        seen = coverage.Coverage(data_file=None, config_file=False, include=list(self.sources), concurrency=["thread"])
        for item, following in zip(items, [*items[1:], None], strict=True):
            seen.start()
            seen.switch_context(item.nodeid)
            began = time.thread_time()
            passed = not any(report.failed for report in runtestprotocol(item, log=False, nextitem=following))
            seen.stop()
            if passed and time.thread_time() - began < SLOW:
                self.items[item.nodeid] = (item, time.thread_time() - began)
        self.reached = {path: seen.get_data().contexts_by_lineno(path) for path in self.sources}
        print(f"\n{len(self.items)} of {len(items)} tests, {sum(cost for _, cost in self.items.values()):.0f} s")

    def _fate(self, path: str, name: str) -> str:
        module, text = self.sources[path]
        tree = ast.parse(text)
        _, lines, apply = sites(tree, module)[name]
        tests = {node for line in lines for node in self.reached[path].get(line, ()) if node in self.items}
        if not tests:
            return "not reached"
        apply()
        code = compile(ast.fix_missing_locations(tree), path, "exec")
        seconds = sum(self.items[node][1] for node in tests)
        sys.stdout.flush()
        if not (child := os.fork()):
            self._child(path, code, sorted(tests, key=lambda node: self.items[node][1]), int(seconds * 3) + 10)
        until = time.monotonic() + 600  # one that waits for ever; the limit of CPU ends one that works for ever
        while (end := os.waitpid(child, os.WNOHANG)) == (0, 0):
            time.sleep(0.01)
            if time.monotonic() > until:
                os.kill(child, signal.SIGKILL)
        return "survived" if end[1] == 0 else "killed" if os.WIFEXITED(end[1]) else "killed by time"

    def _child(self, path: str, code: CodeType, tests: list[str], seconds: int) -> None:
        """Give the module's functions their code of the mutant, run the tests until one fails, and end."""
        try:
            resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            os.dup2(1, 2)
            new = {(one.co_qualname, one.co_firstlineno): one for one in _codes(code)}
            for function in self.functions:
                old = function.__code__
                there = os.path.realpath(old.co_filename) == path and new.get((old.co_qualname, old.co_firstlineno))
                if there and len(there.co_freevars) == len(old.co_freevars):
                    function.__code__ = there
            for node in tests:
                if any(report.failed for report in runtestprotocol(self.items[node][0], log=False, nextitem=None)):
                    os._exit(1)
            os._exit(0)
        except BaseException:
            os._exit(2)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("out", type=Path)
    for option, kind, default in (("draw", int, 300), ("again", Path, None), ("minutes", float, 30.0)):
        parser.add_argument(f"--{option}", type=kind, default=default)
    parser.add_argument("--guards", action="store_true")
    parser.add_argument("--only", nargs="+", help="folders or modules")
    parser.add_argument("--tests", nargs="+", default=TESTS)
    given = parser.parse_args()
    sys.exit(pytest.main([*given.tests, "-q", "-p", "no:cacheprovider", "-W", "ignore"], plugins=[Hunt(given)]))
