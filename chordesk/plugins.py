"""What a package of others needs to add a tool, a role, a lens, a workflow, a market or a broker. Its feature names
them by the entry point `chordesk.features`. Each name loads its module when it is imported, and no other.
`MarketEntry` and `BrokerEntry` name a module in a feature; `MarketData` and `Broker` are what that module makes.

`python -m chordesk.plugins FOLDER` writes a whole example package into a new folder.
"""

from __future__ import annotations

import ast
import shutil
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from chordesk.agents.role import Role as Role
    from chordesk.agents.role import analyst as analyst
    from chordesk.agents.role import screener as screener
    from chordesk.agents.role import trader as trader
    from chordesk.agents.role import validator as validator
    from chordesk.agents.rulebook.cases import PREFIX as PREFIX
    from chordesk.agents.rulebook.cases import Call as Call
    from chordesk.agents.rulebook.cases import Case as Case
    from chordesk.agents.rulebook.cases import Payload as Payload
    from chordesk.agents.rulebook.cases import number as number
    from chordesk.agents.rulebook.cases import policy as policy
    from chordesk.agents.rulebook.cases import symbols_of as symbols_of
    from chordesk.agents.rulebook.policies.validators import UNDECIDED as UNDECIDED
    from chordesk.agents.runtime import Conversation as Conversation
    from chordesk.agents.runtime import ConversationSpec as ConversationSpec
    from chordesk.agents.runtime import ProcessStatus as ProcessStatus
    from chordesk.agents.runtime import Runtime as Runtime
    from chordesk.agents.runtime import TurnResult as TurnResult
    from chordesk.agents.subjects import AnalystSubject as AnalystSubject
    from chordesk.agents.subjects import ResearchSubject as ResearchSubject
    from chordesk.agents.subjects import SkepticSubject as SkepticSubject
    from chordesk.agents.subjects import validator_subject as validator_subject
    from chordesk.models.analysis import ValidatorOutput as ValidatorOutput
    from chordesk.models.answers import Frozen as Frozen
    from chordesk.models.answers import Usage as Usage
    from chordesk.models.answers import Wire as Wire
    from chordesk.models.benchmarks import Benchmark as Benchmark
    from chordesk.models.benchmarks import Given as Given
    from chordesk.models.benchmarks import Measured as Measured
    from chordesk.models.benchmarks import Row as Row
    from chordesk.models.database.package_tables import Dated as Dated
    from chordesk.models.database.package_tables import DeskTable as DeskTable
    from chordesk.models.database.package_tables import Identified as Identified
    from chordesk.models.database.package_tables import Utc as Utc
    from chordesk.models.database.package_tables import utcnow as utcnow
    from chordesk.models.database.store import Store as Store
    from chordesk.models.errors import DeskError as DeskError
    from chordesk.models.errors import MarketError as MarketError
    from chordesk.models.errors import MarketUnavailable as MarketUnavailable
    from chordesk.models.errors import NotConfigured as NotConfigured
    from chordesk.models.errors import ServiceError as ServiceError
    from chordesk.models.errors import SettingError as SettingError
    from chordesk.models.errors import UsageError as UsageError
    from chordesk.models.event_log import append_events as append_events
    from chordesk.models.events import EventType as EventType
    from chordesk.models.events import event as event
    from chordesk.models.features import BrokerEntry as BrokerEntry
    from chordesk.models.features import Command as Command
    from chordesk.models.features import Denial as Denial
    from chordesk.models.features import Feature as Feature
    from chordesk.models.features import GraphRole as GraphRole
    from chordesk.models.features import HoldingsSource as HoldingsSource
    from chordesk.models.features import Keep as Keep
    from chordesk.models.features import MarketEntry as MarketEntry
    from chordesk.models.features import MessengerEntry as MessengerEntry
    from chordesk.models.features import NoticeWords as NoticeWords
    from chordesk.models.features import Pass as Pass
    from chordesk.models.features import Program as Program
    from chordesk.models.features import RuntimeEntry as RuntimeEntry
    from chordesk.models.features import Shown as Shown
    from chordesk.models.features import View as View
    from chordesk.models.market import Headline as Headline
    from chordesk.models.market import Listing as Listing
    from chordesk.models.market import Quote as Quote
    from chordesk.models.money import FxRate as FxRate
    from chordesk.models.money import parse_pair as parse_pair
    from chordesk.models.notices import note as note
    from chordesk.models.orders import AccountFill as AccountFill
    from chordesk.models.orders import AccountView as AccountView
    from chordesk.models.orders import BrokerAnswer as BrokerAnswer
    from chordesk.models.orders import BrokerFill as BrokerFill
    from chordesk.models.orders import BrokerOrder as BrokerOrder
    from chordesk.models.orders import BrokerPosition as BrokerPosition
    from chordesk.models.orders import BrokerState as BrokerState
    from chordesk.models.orders import HeldPosition as HeldPosition
    from chordesk.models.orders import OrderTicket as OrderTicket
    from chordesk.models.orders import RiskContext as RiskContext
    from chordesk.models.orders import Settlement as Settlement
    from chordesk.models.plans import SizeBound as SizeBound
    from chordesk.models.settings import Settings as Settings
    from chordesk.models.settings.schema import of_desk as of_desk
    from chordesk.models.settings.schema import of_process as of_process
    from chordesk.models.settings.schema import of_run as of_run
    from chordesk.models.settings.schema import own_settings as own_settings
    from chordesk.models.settings.variables import broker_keys as broker_keys
    from chordesk.models.statements import Holding as Holding
    from chordesk.models.statements import Snapshot as Snapshot
    from chordesk.models.statements import Statement as Statement
    from chordesk.models.states import RUN_FINAL as RUN_FINAL
    from chordesk.models.tables.orders import Preview as Preview
    from chordesk.models.tables.runs import Run as Run
    from chordesk.models.tables.runs import Step as Step
    from chordesk.models.tables.runs import Turn as Turn
    from chordesk.models.tables.runtime import Notice as Notice
    from chordesk.tasks.bootstrap import Desk as Desk
    from chordesk.tasks.cli.shell import Json as Json
    from chordesk.tasks.cli.show.run_display import progress_line as progress_line
    from chordesk.tasks.cli.start import Wait as Wait
    from chordesk.tasks.cli.start import connected as connected
    from chordesk.tasks.cli.start import see as see
    from chordesk.tasks.doctor.check import Check as Check
    from chordesk.tasks.doctor.check import CheckContext as CheckContext
    from chordesk.tasks.doctor.check import CheckEntry as CheckEntry
    from chordesk.tasks.doctor.check import fail as fail
    from chordesk.tasks.doctor.check import ok as ok
    from chordesk.tasks.doctor.check import warn as warn
    from chordesk.tasks.engine.kinds import StepSpec as StepSpec
    from chordesk.tasks.engine.kinds import Workflow as Workflow
    from chordesk.tasks.engine.leases import HeldStep as HeldStep
    from chordesk.tasks.engine.steps import ChildRun as ChildRun
    from chordesk.tasks.engine.steps import ClaimedStep as ClaimedStep
    from chordesk.tasks.engine.steps import NewStep as NewStep
    from chordesk.tasks.engine.steps import named_step as named_step
    from chordesk.tasks.proposals import Office as Office
    from chordesk.tasks.proposals import Proposable as Proposable
    from chordesk.tasks.proposals import ProposalArguments as ProposalArguments
    from chordesk.tasks.proposals import ProposalCard as ProposalCard
    from chordesk.tasks.proposals import ProposalOutcome as ProposalOutcome
    from chordesk.tasks.proposals import ProposalScope as ProposalScope
    from chordesk.tasks.proposals import Proposed as Proposed
    from chordesk.tasks.questions import AskedQuestion as AskedQuestion
    from chordesk.tasks.questions import ModelAnswer as ModelAnswer
    from chordesk.tasks.reading.runs import progress as progress
    from chordesk.tasks.reading.runs import view as view
    from chordesk.tasks.web.context import Context as Context
    from chordesk.tasks.web.security import JsonRoute as JsonRoute
    from chordesk.tasks.worker.endings import Done as Done
    from chordesk.tasks.worker.endings import Ending as Ending
    from chordesk.tasks.worker.endings import RetryLater as RetryLater
    from chordesk.tasks.worker.messages import DeskApp as DeskApp
    from chordesk.tasks.workflows.runs import new_run as new_run
    from chordesk.tasks.workflows.runs import open_run as open_run
    from chordesk.tools.brokers.paper import PaperBroker as PaperBroker
    from chordesk.tools.brokers.protocol import Broker as Broker
    from chordesk.tools.brokers.protocol import Streaming as Streaming
    from chordesk.tools.decimals import exact as exact
    from chordesk.tools.decimals import plain as plain
    from chordesk.tools.decimals import stepped as stepped
    from chordesk.tools.market.clock import LiveClock as LiveClock
    from chordesk.tools.market.clock import ReplayClock as ReplayClock
    from chordesk.tools.market.clock import exchange_hours as exchange_hours
    from chordesk.tools.market.fetching import AgedCache as AgedCache
    from chordesk.tools.market.fetching import Kept as Kept
    from chordesk.tools.market.fetching import OutOfTime as OutOfTime
    from chordesk.tools.market.fetching import Pace as Pace
    from chordesk.tools.market.fetching import Source as Source
    from chordesk.tools.market.fetching import retry_after as retry_after
    from chordesk.tools.market.fetching import within as within
    from chordesk.tools.market.prices import History as History
    from chordesk.tools.market.prices import intraday_of as intraday_of
    from chordesk.tools.market.protocol import Bars as Bars
    from chordesk.tools.market.protocol import Intraday as Intraday
    from chordesk.tools.market.protocol import MarketClock as MarketClock
    from chordesk.tools.market.protocol import MarketData as MarketData
    from chordesk.tools.market.replay.market import ReplayMarket as ReplayMarket
    from chordesk.tools.market.replay.market import replay_data as replay_data
    from chordesk.tools.model_tools.signals import SIGNALS_GET as SIGNALS_GET
    from chordesk.tools.prices.daily_bars import histories as histories
    from chordesk.tools.registry import Answer as Answer
    from chordesk.tools.registry import Arguments as Arguments
    from chordesk.tools.registry import Gaps as Gaps
    from chordesk.tools.registry import Symbols as Symbols
    from chordesk.tools.registry import ToolContext as ToolContext
    from chordesk.tools.registry import ToolImage as ToolImage
    from chordesk.tools.registry import ToolSpec as ToolSpec
    from chordesk.tools.registry import payload as payload

# Type checkers read the imports above; `__getattr__` finds there where each name is, so that none is listed twice.
_TYPED = next(part for part in ast.parse(Path(__file__).read_text()).body if isinstance(part, ast.If))
_IMPORTS = [(part, name) for part in _TYPED.body if isinstance(part, ast.ImportFrom) for name in part.names]
_PLACES = {name.asname or name.name: (str(part.module), name.name) for part, name in _IMPORTS}
__all__ = sorted(_PLACES)


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"chordesk.plugins has no {name}; it has {', '.join(__all__)}")
    module, named = _PLACES[name]
    return getattr(import_module(module), named)


def write_example(folder: Path) -> None:
    """Write the example package. Raises UsageError for a folder that is there already."""
    from chordesk.models.errors import UsageError

    try:
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(Path(__file__).with_name("example"), folder, ignore=ignored)
    except OSError as error:
        raise UsageError(f"{folder} cannot be written: {error.strerror}", remedy="name a new folder") from None


def main(arguments: list[str]) -> int:
    from chordesk.models.errors import UsageError

    if len(arguments) != 1 or arguments[0].startswith("-"):
        print("python -m chordesk.plugins FOLDER: write an example package into a new folder", file=sys.stderr)
        return 2
    try:
        write_example(Path(arguments[0]))
    except UsageError as error:
        print(f"{error.args[0]}; {error.remedy}", file=sys.stderr)
        return 2
    print(f"written; pip install {arguments[0]} installs it, and desk doctor shows a package that does not load")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
