"""Finds out what a model server can do for a model: what it says of itself, and what small real calls show.

The answers are kept in the home for that server, version and model. Each later use looks at the server again, without a
model call, and asks anew where it is another one.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chordesk.agents.gateway.facts import ServerFacts, keep_facts, known_facts
from chordesk.models.errors import ModelMissing, ServerAway
from chordesk.models.urls import masked

if TYPE_CHECKING:
    from chordesk.agents.gateway.look import Look
    from chordesk.agents.gateway.wire import ModelServer

ASK_SECONDS = 240.0  # of all calls together
MAX_AGE = dt.timedelta(days=7)
UNFINISHED_AGE = dt.timedelta(hours=1)  # of facts that a server was too slow for
FRESH_SECONDS = 30.0  # for which a process uses facts without a look at the server


async def look_at_server(url: str, key: str | None, model: str, ca_file: Path | None = None) -> ServerFacts:
    """Without a model call: models, context and slots. Ways are those of its kind, and `whole` is False. Raises
    ServerAway, KeyRefused, WrongApi, ModelMissing."""
    from chordesk.agents.gateway.look import look

    async with _reaching(url, key, ca_file) as server:
        return _unasked(url, model, await look(server, model), "not asked yet")


async def look_at_endpoint(url: str, key: str | None, ca_file: Path | None = None) -> None:
    """Raise WrongApi, KeyRefused or ServerAway. No answer is requested."""
    from chordesk.agents.gateway.look import require_responses

    async with _reaching(url, key, ca_file) as server:
        await require_responses(server)


async def ask_server(
    url: str, key: str | None, model: str, *, seconds: float = ASK_SECONDS, ca_file: Path | None = None
) -> ServerFacts:
    """Return what a server can do for a model, by small real calls. seconds: after which no further call is made; what
    is not known then has its reason in `why`. Raises ServerAway, KeyRefused, WrongApi, ModelMissing,
    ModelServerError."""
    from chordesk.agents.gateway.look import look

    async with _reaching(url, key, ca_file) as server:
        seen = await look(server, model)
        facts = await _ask(server, url, model, seen, seconds)
        if facts.context is None:  # some servers say it of a loaded model alone
            facts = _as_seen(facts, await look(server, model))
        return facts


async def _ask(server: ModelServer, url: str, model: str, seen: Look, seconds: float) -> ServerFacts:
    from chordesk.agents.gateway import calls

    asked = calls.Questions(server, model, seen, seconds)
    found = await calls.first_call(asked)
    found["schema_way"] = await calls.ask_schema(asked)
    found |= await calls.ask_tools(asked)
    for fact, way in zip(("schema_way", "tool_way"), calls.assumed_ways(seen), strict=True):
        if found.get(fact) is None:
            found[fact], asked.why[fact] = way, f"assumed: {asked.tired}"
    if found["tool_way"] == "native":
        found["beside"] = await calls.ask_beside(asked, found["schema_way"])
    found["images"] = await calls.ask_images(asked)
    found |= await calls.ask_speed(asked)
    if asked.thinks:
        found["reasoning"] = True
    return _facts(url, model, seen, asked.why, whole=not asked.tired, **found)


async def facts_for(
    home: Path, url: str, key: str | None, model: str, *, max_age: dt.timedelta = MAX_AGE, ca_file: Path | None = None
) -> ServerFacts:
    """The kept facts where they still hold, else new ones. Raises ServerAway, KeyRefused, WrongApi, ModelMissing,
    ModelServerError."""
    from chordesk.agents.gateway.look import look

    kept = known_facts(home, url, model)
    async with _reaching(url, key, ca_file) as server:
        seen = await look(server, model)
    if kept is not None:
        _require_same_model(kept, seen)
        age = dt.datetime.now(dt.UTC) - kept.asked_at
        if age < (max_age if kept.whole else min(max_age, UNFINISHED_AGE)) and _holds(kept, seen):
            now = _as_seen(kept, seen)
            if now != kept:  # what is queued for and fitted to it reads the kept ones
                keep_facts(home, now)
            return now
    facts = await ask_server(url, key, model, ca_file=ca_file)
    keep_facts(home, facts)
    return facts


def _holds(kept: ServerFacts, seen: Look) -> bool:
    return (kept.server, kept.version, kept.mark) == (seen.server, seen.version, seen.mark)


def _require_same_model(kept: ServerFacts, seen: Look) -> None:
    if seen.single and not seen.has(kept.model) and kept.models != seen.models:
        before, now = ", ".join(kept.models), ", ".join(seen.models)
        raise ModelMissing(
            f"the model server at {masked(kept.url)}, asked for {kept.model}, has {now} now, and had {before}",
            remedy=f"start it with the earlier model, set DESK_MODEL={now}, or accept this one by `desk doctor`",
        )


class KnownServer:
    """The facts of a server's models, as one process uses them: kept here and in the home, asked for once however many
    turns begin at the same time. For one event loop. key: of the server; ca_file: PEM of its trust roots."""

    def __init__(self, home: Path, url: str, key: str | None = None, ca_file: Path | None = None) -> None:
        self._home, self._url, self._key, self._ca_file = home, url, key, ca_file
        self._known: dict[str, tuple[float, ServerFacts]] = {}
        self._asking: dict[str, asyncio.Task[ServerFacts]] = {}
        self._one = asyncio.Lock()

    async def __call__(self, model: str) -> ServerFacts:
        """Return the facts of a model. Raises ServerAway, KeyRefused, WrongApi, ModelMissing, ModelServerError."""
        at, facts = self._known.get(model, (0.0, None))
        if facts is not None and time.monotonic() - at < FRESH_SECONDS:
            return facts
        if (asking := self._asking.get(model)) is None:
            asking = self._asking[model] = asyncio.create_task(self._ask(model))
            asking.add_done_callback(partial(self._asked, model))
        # A turn that is ended while it waits takes the answer from no other.
        return await asyncio.shield(asking)

    def _asked(self, model: str, task: asyncio.Task[ServerFacts]) -> None:
        del self._asking[model]
        if not task.cancelled():
            task.exception()  # it is told to those who wait, and nobody may be left

    async def _ask(self, model: str) -> ServerFacts:
        async with self._one:
            try:
                facts = await facts_for(self._home, self._url, self._key, model, ca_file=self._ca_file)
            except ServerAway:
                # A server may be too busy to say something of itself. The turn's own call shows whether it is away.
                if model not in self._known:
                    raise
                facts = self._known[model][1]
            self._known[model] = (time.monotonic(), facts)
            return facts


@asynccontextmanager
async def _reaching(url: str, key: str | None, ca_file: Path | None) -> AsyncIterator[ModelServer]:
    # The HTTP library takes a quarter of a second: only what asks a server loads it.
    from chordesk.agents.gateway.wire import reaching

    async with reaching(url, key, ca_file) as server:
        yield server


def _unasked(url: str, model: str, seen: Look, reason: str) -> ServerFacts:
    from chordesk.agents.gateway.calls import assumed_ways

    schema_way, tool_way = assumed_ways(seen)
    why = {"schema_way": f"{reason}; taken from what is known of {seen.server}", "tool_way": reason}
    return _facts(url, model, seen, why, whole=False, schema_way=schema_way, tool_way=tool_way)


def _facts(url: str, model: str, seen: Look, why: dict[str, str], **found: Any) -> ServerFacts:
    found = {name: value for name, value in {"parallel_tools": seen.parallel, **found}.items() if value is not None}
    found["reasoning"] = bool(seen.reasoning) or found.get("reasoning")
    if seen.single and not seen.has(model):
        why["model"] = f"the server has {seen.models[0]} alone, and answers as it whatever model is asked for"
    now = dt.datetime.now(dt.UTC)
    return ServerFacts.of(seen, url=url, model=model, why={**seen.why, **why}, asked_at=now, **found)


def _as_seen(facts: ServerFacts, seen: Look) -> ServerFacts:
    """Return facts with what the server says of itself now; what it does not say now is as it was."""
    why = {name: text for name, text in facts.why.items() if name not in ("context", "slots")}
    context = seen.context or facts.context
    why |= {name: text for name, text in seen.why.items() if not (name == "context" and context)}
    now = {"models": seen.models, "context": context, "slots": seen.slots or facts.slots, "why": why}
    return facts.model_copy(update=now)
