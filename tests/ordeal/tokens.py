"""What model calls read and write, in tokens, and how much of what they read stands in a prefix that was seen before.

A request is counted as the text that a provider makes of it: its tools, the schema of its answer, the instructions,
then the messages, calls and tool answers in their order. Tokens are those of cl100k_base, whose file comes with
LiteLLM; another model's are some per cent more or fewer. Calls come one after another here: of those that start at
once, a provider has seen none of the others'.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from sqlmodel import Session, col, select

from chordesk.agents.roles import mode_of
from chordesk.agents.rulebook.cases import Call as Move
from chordesk.agents.rulebook.cases import Case, Output, Payload, case_of, fill, schema_of
from chordesk.agents.rulebook.policies import POLICIES
from chordesk.models.tables.runs import Run, Verdict
from chordesk.tasks.workflows.screen import open_screen
from tests.fakes.chat import Calls, FakeChat
from tests.fakes.responses import Call, Text
from tests.ordeal.timing import has_ended
from tests.stack import processes, wait_for

# Of OpenAI's cache of prompts: the least prefix that is kept, and the steps in which it is found again.
LEAST, STEP = 1024, 128
ANSWER = "answer"  # the kind of a tool's answer
_BREAK = -1  # between two parts: what two requests have in common ends where a part does
_SYSTEM = ("system", "developer")


@dataclass(frozen=True, slots=True)
class ModelCall:
    """One call of a model. parts: kind and text of each part of its request, in the provider's order."""

    role: str
    parts: tuple[tuple[str, str], ...]
    written: str


@dataclass(slots=True)
class Tokens:
    """Tokens of some calls. seen: of those read, in a prefix that an earlier call had. kept: of these, what a cache of
    OpenAI's rule holds. answers: of those read, in answers of tools."""

    calls: int = 0
    read: int = 0
    seen: int = 0
    kept: int = 0
    answers: int = 0
    written: int = 0

    def __iadd__(self, other: Tokens) -> Tokens:
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        return self

    @property
    def paid(self) -> float:
        """Tokens read, where a provider takes a tenth for those of a prefix that it has seen."""
        return self.read - 0.9 * self.seen

    def share(self, part: int) -> float:
        return part / max(self.read, 1)


def model_call(role: str, body: Mapping[str, Any], written: str) -> ModelCall:
    """Return the call of a request in the form of the Responses API or of chat completions."""
    parts = [("tools", _compact(body.get("tools") or [])), ("schema", _compact(_schema(body)))]
    parts.append(("instructions", body.get("instructions") or ""))
    for item in body.get("input") or body.get("messages") or ():
        parts += _parts(item)
    return ModelCall(role, tuple((kind, text) for kind, text in parts if text not in ("", "[]", "null")), written)


def _schema(body: Mapping[str, Any]) -> Any:
    given = (body.get("text") or {}).get("format") or body.get("response_format") or {}
    return (given.get("json_schema") or given).get("schema")


def _parts(item: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    kind, role = item.get("type", "message"), item.get("role")
    if kind == "function_call_output":
        yield ANSWER, _text(item["output"])
    elif kind == "function_call":
        yield "call", item["name"] + item["arguments"]
    elif role == "tool":
        yield ANSWER, _text(item.get("content"))
    else:
        question, mark, given = _text(item.get("content")).partition("```answers\n")
        yield ("instructions" if role in _SYSTEM else str(role)), question + mark
        yield ANSWER, given
        for call in item.get("tool_calls") or ():
            yield "call", call["function"]["name"] + call["function"]["arguments"]


def _text(content: Any) -> str:
    return content if isinstance(content, str) else "".join(part.get("text") or "" for part in content or ())


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def counted(calls: Iterable[ModelCall]) -> dict[str, Tokens]:
    """Return the tokens of calls by role. The calls are of one model, in the order in which they came."""
    seen: set[int] = set()
    found: dict[str, Tokens] = defaultdict(Tokens)
    for call in calls:
        found[call.role] += _count(call, seen)
    return dict(found)


def _count(call: ModelCall, seen: set[int]) -> Tokens:
    """Return the tokens of a call; its prefixes are added to those seen, each as a hash."""
    before, prefixes = 0, _prefixes(call)
    while before < len(prefixes) and prefixes[before] in seen:
        before += 1
    seen.update(prefixes)
    kept = before // STEP * STEP if before >= LEAST else 0
    answers = sum(len(tokens_of(text)) for kind, text in call.parts if kind == ANSWER)
    return Tokens(1, len(prefixes), before, kept, answers, len(tokens_of(call.written)))


def _prefixes(call: ModelCall) -> list[int]:
    """Return a hash for each prefix of what a call reads, the shortest first."""
    found, before = [], 0
    for _, text in call.parts:
        before = hash((before, _BREAK))
        for token in tokens_of(text):
            before = hash((before, token))
            found.append(before)
    return found


def total(rows: Iterable[Tokens]) -> Tokens:
    found = Tokens()
    for row in rows:
        found += row
    return found


@cache
def tokens_of(text: str) -> Sequence[int]:
    return tuple(_encoding().encode(text, disallowed_special=()))


@cache
def _encoding() -> Any:
    """Return the encoding from the file that LiteLLM brings: the library itself would fetch it."""
    import tiktoken

    library = find_spec("litellm")
    assert library is not None
    assert library.origin is not None
    os.environ.setdefault("TIKTOKEN_CACHE_DIR", str(Path(library.origin).parent / "litellm_core_utils" / "tokenizers"))
    return tiktoken.get_encoding("cl100k_base")


class Lengths(NamedTuple):
    """Characters of a text, and of a field of a structured answer; 0 is one sentence."""

    text: int
    field: int


SHORT = Lengths(0, 0)
# Four published reports that TradingAgents made with real models, with one round of each debate, have 55,000 to 71,000
# characters in up to 12 texts: some 5,000 a text, and some 900 in a field of a structured answer.
LONG = Lengths(4_000, 800)


RUN_SECONDS = 600.0
PENDING: Payload = {"available": False}  # in place of an answer that is asked for in the same message
# Characters of the texts that other turns read: rules write fewer.
LENGTHS = {"summary": LONG.field, "thesis": LONG.field // 2}
FILLER = " Nothing else that was looked up changes this."  # without a figure, which would need a source


@dataclass(slots=True)
class Recorded:
    """A model that keeps its calls. together: it asks in one message for all that it can ask for at once, as models do;
    the rulebook asks for one answer after another."""

    together: bool
    calls: list[ModelCall] = field(default_factory=list)

    def __call__(self, body: dict[str, Any]) -> Any:
        items = [item for item in body["input"] if isinstance(item, dict)]
        case = case_of(body.get("instructions"), items, body.get("tools"))
        reply = self._reply(case, schema_of(body) or {})
        written = reply.text if isinstance(reply, Text) else "".join(one.name + one.arguments for one in reply.calls)
        self.calls.append(model_call(case.role, body, written))
        return reply

    def _reply(self, case: Case, schema: Payload) -> Text | Calls:
        asked: list[Move] = []
        while isinstance(move := POLICIES[case.role](_with(case, asked)), Move):
            asked.append(move)
            if not self.together:
                break
        if asked:
            return Calls(tuple(Call(one.tool, json.dumps(one.arguments)) for one in asked))
        return Text(json.dumps(lengthened(fill(schema, move))))


def _with(case: Case, asked: Sequence[Move]) -> Case:
    return replace(case, outputs=[*case.outputs, *(Output(one.tool, PENDING) for one in asked)])


def lengthened(value: Any, name: str = "") -> Any:
    """Return an answer whose texts are as long as a model's. name: of the field that the value is in."""
    if isinstance(value, Mapping):
        return {key: lengthened(item, key) for key, item in value.items()}
    if isinstance(value, list):
        return [lengthened(item) for item in value]
    more = LENGTHS.get(name, 0) - len(value) if isinstance(value, str) else 0
    return f"{value}{FILLER * (more // len(FILLER))}" if more > 0 else value


@dataclass(frozen=True, slots=True)
class ScreenTokens:
    """Tokens of a screen by role, and the symbols of its verdicts."""

    roles: Mapping[str, Tokens]
    symbols: tuple[str, ...]

    @property
    def research(self) -> Tokens:
        """Tokens of the reports that the verdicts were reduced from."""
        return total(tokens for role, tokens in self.roles.items() if mode_of(role) == "research")


def screen_tokens(candidates: int, *, together: bool) -> ScreenTokens:
    model = Recorded(together)
    with FakeChat(model, log=False) as served, processes(forked=False, DESK_RULEBOOK_URL=served.url) as desk:
        desk.workers("research", "ops", "trade")
        store = desk.app.desk.store
        run = open_screen(desk.app, "sp500", max_candidates=candidates)
        assert run is not None
        wait_for(lambda: has_ended(store, run.id), "the screen ends", RUN_SECONDS)
        with store.read() as session:
            assert session.get_one(Run, run.id).state == "done", session.get_one(Run, run.id).notes
            return ScreenTokens(counted(model.calls), _symbols(session, run.id))


def _symbols(session: Session, run_id: str) -> tuple[str, ...]:
    return tuple(session.exec(select(Verdict.symbol).where(Verdict.run_id == run_id).order_by(col(Verdict.symbol))))
