"""The tokens of a screen by role: its model answers by the rulebook, in texts as long as a model writes them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sqlmodel import Session, col, select

from chordesk.agents.roles import mode_of
from chordesk.agents.rulebook.cases import Call as Move
from chordesk.agents.rulebook.cases import Case, Output, Payload, case_of, fill, schema_of
from chordesk.agents.rulebook.policies import POLICIES
from chordesk.models.tables.runs import Run, Verdict
from chordesk.tasks.bootstrap import desk_of
from chordesk.tasks.workflows.screen import open_screen
from tests.bench.screen import has_ended
from tests.bench.tokens.calls import ModelCall, Tokens, counted, model_call, total
from tests.bench.tokens.lengths import LONG
from tests.fakes.chat import Calls, FakeChat
from tests.fakes.responses import Call, Text
from tests.stack import processes, wait_for

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
        store = desk_of(desk.app).store
        run = open_screen(desk.app, "sp500", max_candidates=candidates)
        assert run is not None
        wait_for(lambda: has_ended(store, run.id), "the screen ends", RUN_SECONDS)
        with store.read() as session:
            assert session.get_one(Run, run.id).state == "done", session.get_one(Run, run.id).notes
            return ScreenTokens(counted(model.calls), _symbols(session, run.id))


def _symbols(session: Session, run_id: str) -> tuple[str, ...]:
    return tuple(session.exec(select(Verdict.symbol).where(Verdict.run_id == run_id).order_by(col(Verdict.symbol))))
