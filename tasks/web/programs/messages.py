"""Messages of the WebSocket. A request has an id of its sender's choice, and its answer has the same one."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints, TypeAdapter, ValidationError

from chordesk.models.answers import Frozen
from chordesk.models.errors import UsageError
from chordesk.models.events import Domain, EventType
from chordesk.tasks.events import sources
from chordesk.tasks.web.idempotency import KEY_RULE
from chordesk.tasks.web.schemas import MOST_SEQUENCE, AskRequest, DenyRequest, Person, Reason

_Key = Annotated[str, StringConstraints(min_length=1, max_length=64, pattern=r"^[0-9A-Za-z_.:-]+$")]
_Place = Annotated[str, StringConstraints(max_length=sources.LONGEST, pattern=sources.FORM)]


class _Request(Frozen):
    id: _Key


class _Write(_Request):
    """A request that acts. key: a new one for each intention: the same request with it, over another connection too,
    acts once and has the same answer for a day."""

    key: Annotated[str, StringConstraints(pattern=KEY_RULE)] | None = None


class Hello(_Request):
    """The first message."""

    do: Literal["hello"]
    token: Annotated[str, StringConstraints(min_length=1, max_length=500)]


class Subscribe(_Request):
    """Events of a run after a sequence, then live ones; without a run those of all, after a place or from now on. The
    request's id names the subscription."""

    do: Literal["subscribe"]
    run: _Key | None = None
    since: int = Field(default=0, ge=0, le=MOST_SEQUENCE)
    after: _Place | None = None
    types: list[EventType | Domain] = Field(default_factory=list, max_length=50)
    bodies: bool = True
    deltas: bool = False


class Unsubscribe(_Request):
    do: Literal["unsubscribe"]
    subscription: _Key


class SendTurn(_Write):
    """One more turn in a fork; answered when it has ended."""

    do: Literal["turn"]
    thread: _Key
    by: Person
    text: Annotated[str, StringConstraints(min_length=1, max_length=20_000, pattern=r"^[^\x00]*$")]

    def question(self) -> AskRequest:
        return AskRequest(by=self.by, text=self.text)


class InterruptTurn(_Write):
    """The end of a running turn, by the runtime's own ids."""

    do: Literal["interrupt"]
    thread: _Key
    turn: _Key
    by: Person


class CallbackIdentity(Frozen):
    """A runtime's request: its approval id when the runtime gave one, else thread, turn and item."""

    approval: _Key | None = None
    thread: _Key | None = None
    turn: _Key | None = None
    item: _Key | None = None


class DecideRequest(_Write):
    """An answer to an order or to a model's request. about: the id that `GET /approvals` has, or the callback's
    identity; answers: to a model's questions, by question id."""

    do: Literal["approve", "deny"]
    about: _Key | CallbackIdentity
    by: Person
    why: Reason | None = None
    answers: dict[str, list[Annotated[str, StringConstraints(min_length=1, max_length=2000)]]] = Field(
        default_factory=dict, max_length=20
    )

    def refusal(self) -> DenyRequest:
        """Raises UsageError for one without a reason."""
        if self.why is None:
            raise UsageError("a refusal needs a reason", remedy="send why")
        return DenyRequest(answer="deny", by=self.by, why=self.why)


class StopRun(_Write):
    do: Literal["stop"]
    run: _Key
    by: Person


Asked = Hello | Subscribe | Unsubscribe | SendTurn | InterruptTurn | DecideRequest | StopRun
_ASKED: TypeAdapter[Asked] = TypeAdapter(Annotated[Asked, Field(discriminator="do")])
_LONGEST_VALUE = 80


def parse(text: str | None) -> tuple[str | None, Asked | str]:
    """Return the id of a message, as far as it has one, and the request, or what is wrong with it."""
    try:
        body: Any = json.loads(text or "")
    except ValueError:
        return None, "a message is one JSON object, as text"
    given = body.get("id") if isinstance(body, dict) else None
    id_ = given if isinstance(given, str) and len(given) <= _LONGEST_VALUE else None
    try:
        return id_, _ASKED.validate_python(body)
    except ValidationError as error:
        return id_, "; ".join(_wrong(item) for item in error.errors())


def _wrong(item: Any) -> str:
    where = ".".join(str(part) for part in item["loc"])
    given = item.get("input")
    # A token never shows.
    shown = f"={given!r:.{_LONGEST_VALUE}}" if isinstance(given, (int, str)) and "token" not in item["loc"] else ""
    return f"{where}{shown}: {item['msg']}"
