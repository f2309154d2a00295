"""The error tree of the desk.

DeskError
  SettingError         a setting is wrong: fix it and start again
  UsageError           a request that cannot be fulfilled
    NotFound           the named object does not exist
      NothingYet       there is none of its kind yet
  NotWaiting           an answer to a request that is closed
  ServiceError         a service is not reachable (retried)
    RedisDown
    DatabaseDown
      DatabaseUnfit    its schema is not this version's, or it cannot be written
        DatabaseNew    no desk has run on it yet
      DatabaseUnsound  it is damaged
    BlobsDown
  CodexError           the model runtime
    BinaryMissing
    LoginMissing
    ModelMissing
    ModelServerError        a model server that does not serve the desk
      ServerAway       it cannot be reached, or does not answer (retried)
      KeyRefused
      WrongApi         the address has a page, or an API that the desk does not speak
    ContextWindow      a prompt that its model's context cannot hold
    RpcError           the app-server answered with an error
    RpcTimeout         (retried)
    ProcessDied        (retried)
    ThreadInUse        (retried)
  MarketError          market data
    NotConfigured      the source needs a setting or an extra
    MarketUnavailable  (retried)
  OrderError           an order that may not proceed
    FencedOff          another process submits for the account now
  BackupError          a backup that cannot be made, or is not as it was made
  HistoryTrimmed       requested events are no longer kept
  LeaseLost            another owner holds the step; the work is dropped
  Postponed            a turn may not start now; its step is given back and no attempt is used up

Each class defines whether it is retried (`retryable`) and what the user should do (`remedy`).
"""

from __future__ import annotations

import datetime as dt


class DeskError(Exception):
    """Base of all errors the desk raises on purpose."""

    retryable: bool = False
    remedy: str = ""

    def __init__(self, message: str, *, remedy: str | None = None) -> None:
        super().__init__(message)
        if remedy is not None:
            self.remedy = remedy

    def __str__(self) -> str:
        text = super().__str__()
        return f"{text} ({self.remedy})" if self.remedy else text


class SettingError(DeskError):
    remedy = "correct the setting and start again; `desk config` shows every value and where it came from"


class UsageError(DeskError):
    remedy = "see `desk --help`"


class NotFound(UsageError):
    """Nothing has this name or id."""


class NothingYet(NotFound):
    """None of its kind is there yet, so that none could be named."""


class NotWaiting(DeskError):
    remedy = "`desk approvals` lists what waits"


class ServiceError(DeskError):
    retryable = True


class RedisDown(ServiceError):
    remedy = "start the services with `desk up`, or set DESK_REDIS_URL to a running server"


class DatabaseDown(ServiceError):
    remedy = "check DESK_DATABASE_URL and run `desk db upgrade`"


class DatabaseUnfit(DatabaseDown):
    retryable = False


class DatabaseNew(DatabaseUnfit):
    remedy = (
        "start `desk up`, which makes it, or run `desk db upgrade`; "
        "one that was there has been moved, or its disk is not mounted"
    )


class DatabaseUnsound(DatabaseDown):
    remedy = (
        "stop the desk, and restore the newest sound backup into a new folder: desk restore PLACE --into FOLDER; "
        "keep the damaged folder"
    )
    retryable = False


class BlobsDown(ServiceError):
    remedy = "check DESK_BLOB_URL, or leave it out to keep them in the database"


class CodexError(DeskError):
    """A failure of the model runtime."""


class BinaryMissing(CodexError):
    remedy = "install the package openai-codex-cli-bin, or set DESK_CODEX_BINARY to the binary's path"


class LoginMissing(CodexError):
    remedy = "run `desk login` on this host, or choose DESK_PROVIDER=rulebook or endpoint"


class ModelMissing(CodexError):
    remedy = "set DESK_MODEL to a model that the provider serves"


class ModelServerError(CodexError):
    remedy = "see the server's log"


class ServerAway(ModelServerError):
    retryable = True
    remedy = "start the server, or set DESK_PROVIDER_URL to the address of one that runs"


class KeyRefused(ModelServerError):
    remedy = "check DESK_PROVIDER_KEY"


class WrongApi(ModelServerError):
    remedy = "set DESK_PROVIDER_URL to the base URL of an API of chat completions, such as http://127.0.0.1:11434/v1"


class ContextWindow(CodexError):
    """A prompt that does not fit into the context of its model, however short it is made."""


class RpcError(CodexError):
    """An error response of the app-server.

    code: the JSON-RPC error code; -32001 means overloaded.
    """

    def __init__(self, method: str, code: int, message: str) -> None:
        super().__init__(f"{method} failed with {code}: {message}")
        self.method = method
        self.code = code


class RpcTimeout(CodexError):
    retryable = True


class ProcessDied(CodexError):
    retryable = True


class ThreadInUse(CodexError):
    """An earlier conversation, or a process that nobody ended, still writes a kept thread in this home."""

    retryable = True


class MarketError(DeskError):
    """Market data is missing or cannot be fetched."""


class NotConfigured(MarketError):
    """A source that needs a setting or an extra; the message reads `not available: configure X`."""


class MarketUnavailable(MarketError):
    retryable = True


class OrderError(DeskError):
    """An order that may not proceed."""


class FencedOff(OrderError):
    """Another process has taken over the account: this one may submit nothing for it any more."""

    remedy = "one process submits for an account: end this one, or the other and start this one again"


class Postponed(DeskError):
    """A turn that may not start yet. seconds: when to retry; until: the end of a provider's limit that lasts."""

    retryable = True

    def __init__(self, message: str, seconds: float, until: dt.datetime | None = None) -> None:
        super().__init__(message)
        self.seconds, self.until = seconds, until


class GraphError(DeskError):
    """A LangGraph graph that a run plays cannot go on."""


class GraphRaised(GraphError):
    """Code of the graph's own raised an error."""

    remedy = "correct the graph, and start it again"


class GraphEndless(GraphError):
    remedy = "give the graph an edge to its end, or a recursion_limit by with_config"


class GraphState(GraphError):
    """State or output that cannot be stored."""

    remedy = "keep text, numbers, lists, mappings, messages and dataclasses in the graph's state"


class GraphWaits(GraphError):
    """A person refused what the graph asked, or nobody answered in time."""

    remedy = "desk graph --resume RUN goes on at the node that asked, which asks again"


class GraphChanged(GraphError):
    """The code of a graph is another than when it asked a person: the answer may not fit it."""

    remedy = "desk graph --resume RUN goes on at the node that asked with the code of now, and asks again"


class BudgetUsed(DeskError):
    """A call that a used-up budget of tokens does not admit."""


class BackupError(DeskError):
    remedy = "see docs/retention.md"


class HistoryTrimmed(DeskError):
    """Requested events that are no longer kept. trimmed: the last sequence that was deleted; last: the newest."""

    def __init__(self, run_id: str, after: int, trimmed: int, last: int) -> None:
        remedy = f"read from {trimmed} on, or read the run itself for its result"
        super().__init__(f"the events of {run_id} after {after} are gone up to {trimmed}", remedy=remedy)
        self.run_id, self.after, self.trimmed, self.last = run_id, after, trimmed, last


class WrongCode(DeskError):
    """A login code that never was one, was used, or is too old."""

    remedy = "run `desk page` again: it makes a new link, which works once and for a minute"


class TooManyCodes(DeskError):
    """More wrong login codes than a person mistypes."""

    remedy = "wait a minute, then run `desk page` again"


class LeaseLost(DeskError):
    """Another owner holds the step, or the step is final: this owner's work is dropped."""


def kind_of(error: DeskError) -> str:
    from pydantic.alias_generators import to_snake  # not for a command that only shows its help

    return to_snake(type(error).__name__)
