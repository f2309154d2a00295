"""What a feature puts around every runtime: it sees what the desk asks of a model, and what the model answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from chordesk.agents.runtime import Runtime
from chordesk.models.database.store import Store
from chordesk.models.settings import Settings
from chordesk.tools.market.protocol import MarketData
from chordesk.tools.registry import Disguise


class DeskOfRuns(Protocol):
    """What a wrap knows of the desk that it is on."""

    settings: Settings

    @property
    def store(self) -> Store: ...

    @property
    def records(self) -> bool:
        """Whether what its runtimes do is of a run, and kept; not for a check."""
        ...

    def settings_of(self, run_id: str) -> Settings: ...

    def market_of(self, run_id: str) -> MarketData: ...


class Wrap(Protocol):
    """One is made for each process, with its desk."""

    def runtime(self, desk: DeskOfRuns, name: str, behind: Callable[[], Runtime]) -> Runtime:
        """Return a runtime in place of the one behind, or that one. desk: whose runtime it is, which may have other
        models than the process's own; name: of the runtime. What does not call `behind` starts no such runtime."""
        ...

    def disguise(self, run_id: str) -> Disguise | None:
        """Return what hides a run from its models, None where nothing does."""
        ...
