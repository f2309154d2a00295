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
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

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
        yield ("instructions" if role in _SYSTEM else str(role)), _text(item.get("content"))
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
