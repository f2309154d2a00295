"""What a package of others needs to add a tool, a role, a workflow, a market or a broker: its feature names them by the
entry point `chordesk.features`. Each name loads its module when it is imported, and no other."""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from chordesk.agents.role import validator as validator
    from chordesk.agents.rulebook.cases import PREFIX as PREFIX
    from chordesk.agents.rulebook.cases import Call as Call
    from chordesk.agents.rulebook.cases import Case as Case
    from chordesk.agents.rulebook.cases import Payload as Payload
    from chordesk.agents.rulebook.cases import policy as policy
    from chordesk.models.database.store import Store as Store
    from chordesk.models.errors import DeskError as DeskError
    from chordesk.models.errors import UsageError as UsageError
    from chordesk.models.features import Command as Command
    from chordesk.models.features import Feature as Feature
    from chordesk.models.settings import Settings as Settings
    from chordesk.tasks.bootstrap import Desk as Desk
    from chordesk.tasks.engine.kinds import StepSpec as StepSpec
    from chordesk.tasks.engine.kinds import Workflow as Workflow
    from chordesk.tasks.engine.leases import HeldStep as HeldStep
    from chordesk.tasks.engine.steps import ChildRun as ChildRun
    from chordesk.tasks.engine.steps import ClaimedStep as ClaimedStep
    from chordesk.tasks.engine.steps import NewStep as NewStep
    from chordesk.tasks.worker.messages import DeskApp as DeskApp
    from chordesk.tasks.worker.turns import retry_of as retry_of
    from chordesk.tasks.worker.turns import run_role as run_role
    from chordesk.tasks.worker.work import Done as Done
    from chordesk.tasks.worker.work import RetryLater as RetryLater
    from chordesk.tasks.workflows.runs import new_run as new_run
    from chordesk.tasks.workflows.runs import open_run as open_run
    from chordesk.tools.benchmarks.benchmark import Benchmark as Benchmark
    from chordesk.tools.benchmarks.benchmark import Given as Given
    from chordesk.tools.benchmarks.benchmark import Measured as Measured
    from chordesk.tools.benchmarks.benchmark import Row as Row
    from chordesk.tools.brokers.protocol import Broker as Broker
    from chordesk.tools.history import histories as histories
    from chordesk.tools.market.protocol import Bars as Bars
    from chordesk.tools.market.protocol import MarketClock as MarketClock
    from chordesk.tools.market.protocol import MarketData as MarketData
    from chordesk.tools.registry import Arguments as Arguments
    from chordesk.tools.registry import Gaps as Gaps
    from chordesk.tools.registry import Symbols as Symbols
    from chordesk.tools.registry import ToolContext as ToolContext
    from chordesk.tools.registry import ToolImage as ToolImage
    from chordesk.tools.registry import ToolSpec as ToolSpec
    from chordesk.tools.registry import payload as payload

# Type checkers read the imports above; `__getattr__` finds there where each name is, so that none is listed twice.
_TYPED = next(part for part in ast.parse(Path(__file__).read_text()).body if isinstance(part, ast.If))
_MODULES = {part.names[0].name: str(part.module) for part in _TYPED.body if isinstance(part, ast.ImportFrom)}
__all__ = sorted(_MODULES)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"chordesk.plugins has no {name}")
    return getattr(import_module(_MODULES[name]), name)
