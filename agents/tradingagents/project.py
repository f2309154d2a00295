"""The installed TradingAgents: found by its registry of providers, since a package of its name is another project."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from chordesk.models.errors import UsageError

TESTED = "v0.3.0"
INSTALL = f'pip install "git+https://github.com/TauricResearch/TradingAgents@{TESTED}"'
PACKAGE = "tradingagents"
REGISTRY, SPEC = "OPENAI_COMPATIBLE_PROVIDERS", "ProviderSpec"


@dataclass(frozen=True, slots=True)
class Project:
    """The parts of an installation that a provider needs. root: the folder of its packages. menus: the models that its
    command line offers by provider; None where it has no such table."""

    root: Path
    providers: MutableMapping[str, Any]
    spec: Callable[..., Any]
    menus: MutableMapping[str, Any] | None

    def command(self) -> Callable[..., Any]:
        """Return its command line. Raises UsageError where it has none, or another package hides it."""
        module = _loaded("cli.main")
        if Path(str(module.__file__)).parents[1] != self.root:
            problem = f"the package `cli` of {module.__file__} hides TradingAgents' own"
            raise UsageError(problem, remedy="start the command from another folder")
        found: Callable[..., Any] = module.app
        return found


def find_project() -> Project:
    """Return the installed TradingAgents. Raises UsageError where there is none, or another project of its name."""
    package = _loaded(PACKAGE)
    try:
        module = _loaded(f"{PACKAGE}.llm_clients.openai_client")
        providers, spec = getattr(module, REGISTRY), getattr(module, SPEC)
    except (AttributeError, _NotThere):
        raise _foreign(_folder(package)) from None
    try:
        menus = _loaded(f"{PACKAGE}.llm_clients.model_catalog").MODEL_OPTIONS
    except (AttributeError, _NotThere):
        menus = None
    return Project(_folder(package).parent, providers, spec, menus)


def require_installed() -> None:
    """Raise UsageError as `find_project` where TradingAgents is not there, or is another project; loads nothing."""
    try:
        spec = find_spec(PACKAGE)
    except (ImportError, ValueError):  # Python's mark of a module that is not to be found
        spec = None
    if spec is None or not spec.submodule_search_locations:
        raise UsageError("TradingAgents is not installed", remedy=INSTALL)
    folder = Path(next(iter(spec.submodule_search_locations)))
    try:
        text = (folder / "llm_clients" / "openai_client.py").read_text(encoding="utf-8")
    except OSError:
        text = ""
    if REGISTRY not in text:
        raise _foreign(folder)


class _NotThere(UsageError):
    """A module that an installation does not have."""


def _loaded(name: str) -> ModuleType:
    """Return a module of TradingAgents. Raises UsageError for one that is not there or does not load."""
    try:
        return import_module(name)
    except ImportError as error:
        missing = error.name or str(error)
        if name == missing == PACKAGE:
            raise _NotThere("TradingAgents is not installed", remedy=INSTALL) from None
        if name == missing or name.startswith(f"{missing}."):
            raise _NotThere(f"TradingAgents has no {name} here", remedy=INSTALL) from None
        raise UsageError(
            f"TradingAgents does not load: {error}", remedy=f"install it with all it needs: {INSTALL}"
        ) from (error)


def _foreign(folder: Path) -> UsageError:
    problem = f"{folder} is another project of the name {PACKAGE}, or older than 0.3.0: it has no {REGISTRY}"
    return UsageError(problem, remedy=f"pip uninstall {PACKAGE}, then {INSTALL}")


def _folder(package: ModuleType) -> Path:
    return Path(next(iter(package.__path__)))
