"""Command that runs TradingAgents' own command line, or a program that uses it, on the chat model of the desk."""

from __future__ import annotations

import argparse
import logging
import os
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from chordesk.models.errors import DeskError, UsageError
from chordesk.models.settings import Settings
from chordesk.models.settings.sources import load_settings

if TYPE_CHECKING:
    from chordesk.agents.graphs.tradingagents.preflight import CheckResult
    from chordesk.agents.graphs.tradingagents.provider import Options

PROVIDER = "TRADINGAGENTS_LLM_PROVIDER"
DEEP, QUICK = "TRADINGAGENTS_DEEP_THINK_LLM", "TRADINGAGENTS_QUICK_THINK_LLM"
WRONG, FAILED = 2, 1
EPILOG = """Further arguments are those of TradingAgents' command line (`-- --help` shows them); where the first one is
a file, such as its main.py, that program runs instead. After -- all arguments are TradingAgents'."""


def parser() -> argparse.ArgumentParser:
    found = argparse.ArgumentParser(
        "python -m chordesk.agents.graphs.tradingagents", description=__doc__, epilog=EPILOG, allow_abbrev=False
    )
    found.add_argument("--check", action="store_true", help="check binary, login, limits and models, and run nothing")
    found.add_argument("--deep", metavar="MODEL", help="deep-thinking model; DESK_MODEL by default")
    found.add_argument("--quick", metavar="MODEL", help="quick-thinking model; DESK_MODEL by default")
    for name in ("effort", "verbosity", "summary"):
        found.add_argument(f"--{name}", help=f"DESK_{name.upper()} by default")
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    given, rest = parser().parse_known_args(arguments)
    # TradingAgents' output is left alone: our warnings alone are logged, to stderr.
    quiet = structlog.make_filtering_bound_logger(logging.WARNING)
    structlog.configure(wrapper_class=quiet, logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    try:
        return _run(given, rest[1:] if rest[:1] == ["--"] else rest)
    except UsageError as error:
        return _failed(error, WRONG)
    except DeskError as error:
        return _failed(error, FAILED if getattr(error, "kind", None) else WRONG)


def _run(given: argparse.Namespace, rest: Sequence[str]) -> int:
    settings = load_settings(agree=False)
    _require_langchain()
    from chordesk.agents.graphs.tradingagents.preflight import require_able
    from chordesk.agents.graphs.tradingagents.provider import enter, options_of

    options = options_of(settings, effort=given.effort, verbosity=given.verbosity, summary=given.summary)
    if given.check:
        return _shown(_checks(given, settings, options))
    require_able(options)
    project = enter(options)  # its packages read the user's .env, which comes before what is not given
    _choose(given, settings)
    if rest and rest[0].endswith(".py"):
        return _program(Path(rest[0]), rest)
    sys.argv = ["tradingagents", *rest]
    project.command()(args=list(rest), prog_name="tradingagents")
    return 0


def _checks(given: argparse.Namespace, settings: Settings, options: Options) -> list[CheckResult]:
    from chordesk.agents.graphs.tradingagents.preflight import CheckResult, run_checks
    from chordesk.agents.graphs.tradingagents.project import find_project

    try:
        installed = CheckResult("project", f"TradingAgents in {find_project().root}")
    except UsageError as error:
        installed = CheckResult("project", str(error.args[0]), error.remedy)
    return [installed, *run_checks(options, _choose(given, settings))]


def _require_langchain() -> None:
    try:
        import langchain_core  # noqa: F401
    except ModuleNotFoundError:
        raise UsageError("LangChain is not installed", remedy="pip install 'chordesk[langchain]'") from None


def _choose(given: argparse.Namespace, settings: Settings) -> tuple[str, str]:
    """Put provider and models where TradingAgents reads them, and return the deep and the quick model."""
    if os.environ.get(PROVIDER, "codex").lower() != "codex":
        print(f"{PROVIDER}={os.environ[PROVIDER]} has no effect here: the provider is codex", file=sys.stderr)
    os.environ[PROVIDER] = "codex"
    for variable, model in ((DEEP, given.deep), (QUICK, given.quick)):
        os.environ[variable] = model or os.environ.get(variable) or settings.model
    return os.environ[DEEP], os.environ[QUICK]


def _program(path: Path, arguments: Sequence[str]) -> int:
    if not path.is_file():
        raise UsageError(f"no program at {path}", remedy="give the path of TradingAgents' main.py, or of your own")
    sys.argv = list(arguments)
    sys.path.insert(0, str(path.resolve().parent))
    runpy.run_path(str(path), run_name="__main__")
    return 0


def _shown(checks: Sequence[CheckResult]) -> int:
    for one in checks:
        print(f"{'ok' if one.passed else 'FAIL':5} {one.name:11} {one.detail}")
        if not one.passed:
            print(f"{'':5} {'':11} -> {one.remedy}")
    return 0 if all(one.passed for one in checks) else WRONG


def _failed(error: DeskError, code: int) -> int:
    print(f"error: {error}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
