"""The model stand-in's own record of its requests: the turn, the attempt, the kind of answer."""

from __future__ import annotations

import asyncio
import json
import re
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from chordesk.agents.roles import ROLES
from chordesk.models.answers import ScreenOutput
from tests.fakes.chat import Dropped, HalfJson, send_reply
from tests.fakes.figures import quoted
from tests.fakes.obedient import obedient
from tests.fakes.responses import Call, Cut, FakeResponses, Malformed, Receive, Reply, Seen, Send, Slow, Text, answered
from tests.parts import of_feature

CLIENT = "chordesk.agents.litellm.client"
# How a call ended.
FINAL = "final"  # a whole and valid answer: the turn is paid for
TOOL = "tool"
FAULT = "fault"  # what a scenario made the stand-in do instead


@dataclass(slots=True)
class Asked:
    """One model call. at, ended: time.monotonic(); ended is None while it is open; gone: the caller hung up."""

    at: float
    run_id: str
    step_id: str
    attempt: int
    role: str
    turn: str
    answer: str = ""
    ended: float | None = None
    gone: bool = False


@dataclass(slots=True)
class Journal:
    """Every call in the order in which it came; thread-safe. `file` gets a line a call when it has ended."""

    file: Path | None = None
    asked: list[Asked] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def begin(self, metadata: dict[str, Any]) -> Asked:
        call = Asked(
            time.monotonic(),
            str(metadata.get("run_id", "")),
            str(metadata.get("step_id", "")),
            int(metadata.get("attempt", 0)),
            str(metadata.get("role", "")),
            str(metadata.get("turn_id", "")),
        )
        with self.lock:
            self.asked.append(call)
        return call

    def end(self, call: Asked, *, gone: bool) -> None:
        call.gone, call.ended = gone, time.monotonic()
        if self.file is not None:
            with self.lock, self.file.open("a") as lines:
                lines.write(json.dumps(asdict(call)) + "\n")

    def of(self, runs: Iterable[str]) -> list[Asked]:
        wanted = set(runs)
        with self.lock:
            return [call for call in self.asked if call.run_id in wanted]

    def open(self, where: Callable[[Asked], bool] = lambda call: True) -> list[Asked]:
        """Calls that wait for their answer now."""
        with self.lock:
            return [call for call in self.asked if call.ended is None and where(call)]


def doubled(calls: Iterable[Asked], excused: set[tuple[str, int]]) -> list[str]:
    """Turns that were asked for again without a reason, one sentence each.

    A reason is: the process of the earlier attempt was killed (`excused`, pairs of step and attempt), or the
    stand-in itself failed that attempt. Within an attempt a second turn needs a fault in the first (a repair, or
    the client's own second try).
    """
    attempts: dict[str, dict[int, list[Asked]]] = defaultdict(lambda: defaultdict(list))
    for call in calls:
        attempts[call.step_id][call.attempt].append(call)
    found = []
    for step, by_attempt in attempts.items():
        *earlier, last = sorted(by_attempt)
        for attempt in earlier:
            if (step, attempt) not in excused and not _faulted(by_attempt[attempt]):
                role = by_attempt[attempt][0].role
                found.append(f"step {step} ({role}): attempt {attempt} was asked again as {last}")
        for attempt, asked in by_attempt.items():
            finals = sum(call.answer == FINAL and not call.gone for call in asked)
            turns = len({call.turn for call in asked})
            if finals > 1 or (turns > 1 and not _faulted(asked)):
                found.append(f"step {step} ({asked[0].role}) attempt {attempt}: {turns} turns, {finals} answers")
    return found


def _faulted(calls: Iterable[Asked]) -> bool:
    return any(call.answer == FAULT for call in calls)


# What a scenario puts in the way: a reply instead of the model's own, or None to let it answer.
Fault = Callable[[Asked, dict[str, Any]], Reply | None]

SLOW_SECONDS = 6.0
CHAT = "/chat/completions"
_SUBJECT = re.compile(r"^```subject\n(.*?)\n```", re.DOTALL | re.MULTILINE)
_DATA_TOOLS = ("signals_get", "technicals_get", "sp500_movers", "company_get")


def no_fault(asked: Asked, body: dict[str, Any]) -> Reply | None:
    return None


class FaultyModel(FakeResponses):
    """`fault`, `own`, `wait` and `slow` may be changed while it serves. own: what it answers to a role where no fault
    comes; latency: seconds before each answer; roles in `slow` take SLOW_SECONDS longer."""

    def __init__(self, latency: float, file: Path | None = None) -> None:
        super().__init__(latency=0.0, log=False)
        self.wait = latency
        self.slow: frozenset[str] = frozenset()
        self.journal = Journal(file)
        self.fault: Fault = no_fault
        self.own: Callable[[Asked, dict[str, Any]], Reply] = lambda asked, body: own_reply(asked.role, body)

    async def answer(self, seen: Seen, receive: Receive, send: Send) -> None:
        chat = seen.path.endswith(CHAT)
        asked = self.journal.begin(
            json.loads(seen.headers[of_feature(f"{CLIENT}:METADATA_HEADER")]) if chat else seen.metadata
        )
        body = as_responses(seen.body) if chat else seen.body
        fault = self.fault(asked, body)
        reply = fault if fault is not None else self.own(asked, body)
        asked.answer = FAULT if fault is not None else TOOL if isinstance(reply, Call) else FINAL
        seconds = self.wait + (SLOW_SECONDS if asked.role in self.slow else 0.0)
        late = Slow(seconds, as_chat(reply, fault is not None)) if chat else Slow(seconds, reply)
        stream = bool(seen.body.get("stream"))
        replying = asyncio.ensure_future(
            send_reply(late, seen.path, send, stream=stream) if chat else self._reply(late, send)
        )
        leaving = asyncio.ensure_future(_hung_up(receive))
        gone = True
        try:
            await asyncio.wait((replying, leaving), return_when=asyncio.FIRST_COMPLETED)
            gone = not replying.done()
        finally:
            for task in (replying, leaving):
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
            self.journal.end(asked, gone=gone)


def as_responses(body: dict[str, Any]) -> dict[str, Any]:
    """Return a request for a chat completion in the form of the Responses API, as far as replies depend on it."""
    items: list[dict[str, Any]] = []
    for message in body["messages"]:
        if message["role"] == "tool":
            items.append({"type": "function_call_output", "output": message["content"]})
        elif message["role"] == "user":
            content = message["content"]
            parts = [{"text": content}] if isinstance(content, str) else content
            items.append({"type": "message", "role": "user", "content": parts})
    if isinstance(body.get("tool_choice"), dict):
        items.append({"type": "function_call_output"})  # the answer is forced: there is no call before it
    return {"input": items, "tools": [tool["function"] for tool in body["tools"]]}


def as_chat(reply: Reply, is_fault: bool) -> Any:
    """Return a reply as the chat completions have it: an answer by the answer tool, a fault as it would look there."""
    if isinstance(reply, Cut):
        return Dropped()
    if isinstance(reply, Malformed):
        return HalfJson()
    return Call(of_feature(f"{CLIENT}:ANSWER"), reply.text) if isinstance(reply, Text) and not is_fault else reply


async def _hung_up(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def own_reply(role: str, body: dict[str, Any]) -> Reply:
    """One data tool a turn, then the role's answer: every symbol is a candidate, every report confirms, the trader
    closes what is held and opens the first verdict's symbol. A graph's node, which has no subject, is obeyed."""
    subject = subject_of(body)
    if subject is None:
        return obedient(body)
    offered = {tool.get("name") for tool in body.get("tools") or []}
    tool = next((name for name in _DATA_TOOLS if name in offered), "")
    if tool and not answered(body):
        return Call(tool, json.dumps(arguments_of(tool, subject)))
    answer = answer_of(role, subject)
    if "summary" in answer:
        answer["summary"] += quoted(body, subject["symbol"])
    return Text(json.dumps(answer))


def subject_of(body: dict[str, Any]) -> dict[str, Any] | None:
    for item in reversed(body.get("input") or []):
        if item.get("role") == "user":
            text = "".join(part.get("text", "") for part in item.get("content") or [])
            if found := _SUBJECT.search(text):
                subject: dict[str, Any] = json.loads(found.group(1))
                return subject
    return None


def arguments_of(tool: str, subject: dict[str, Any]) -> dict[str, Any]:
    if tool == "sp500_movers":
        return {"direction": "up", "limit": 3}
    symbols = subject.get("symbols") or [subject["symbol"]] if "verdicts" not in subject else ["IBM"]
    return {"symbols": symbols[:4]}


def answer_of(role: str, subject: dict[str, Any]) -> dict[str, Any]:
    if role == "trader":
        return {"actions": list(_actions(subject)), "reasoning": "a stand-in"}
    if ROLES[role].schema is ScreenOutput:
        names = [
            {"symbol": symbol, "instrument": "equity", "confidence": "medium", "thesis": "a stand-in's"}
            for symbol in subject["symbols"]
        ]
        return {"candidates": names}
    if getattr(ROLES[role].schema, "__name__", "") == "VoiceOutput":
        return {"forecasts": list(_forecasts(subject))}
    thesis = {"direction": "up", "probability": 0.66, "move": 0.04}
    return {"verdict": "CONFIRMED", "confidence": "high", "summary": "a stand-in's", "keyRisks": [], "thesis": thesis}


def _forecasts(subject: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A forecast of each question by the first live signal that concerns it."""
    for question in subject["questions"]:
        about = {question["id"], *question["about"]}
        live = [row for row in subject["signals"] if row["state"] == "live" and about & set(row["about"])]
        claims = [
            {"signal": row["id"], "stance": "build", "claim": f"The {row['tool']} figure is a stand-in's reason."}
            for row in live[:1]
        ]
        forecast = {"question": question["id"], "probability": 0.6, "stake": 0.1, "because": "a stand-in's"}
        yield {**forecast, "citations": claims, "chain": []}


def _actions(subject: dict[str, Any]) -> list[dict[str, Any]]:
    shape = {"orderType": "market", "limitPrice": None, "confidence": "high", "reasoning": "a stand-in's"}
    held = {row["symbol"]: row["quantity"] for row in subject["portfolio"].get("positions", [])}
    closing = [
        {
            "symbol": s,
            "action": "close",
            "side": "sell",
            "quantity": n,
            "notional": None,
            **shape,
            "reasoning": f"a stand-in's: {n:g} shares of {s} are held",
        }
        for s, n in held.items()
    ]
    fresh = [row["symbol"] for row in subject["verdicts"] if row["symbol"] not in held][:1]
    opening = [
        {"symbol": s, "action": "open", "side": "buy", "quantity": None, "notional": 2000.0, **shape} for s in fresh
    ]
    return closing + opening
