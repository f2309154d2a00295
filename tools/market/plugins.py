"""Loading of a plug-in's module, a market's or a broker's, by the name that the settings give it."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from chordesk.models.errors import NotConfigured, UsageError


def load_plugin(noun: str, modules: Mapping[str, str], name: str) -> Any:
    """Return the module of a name. Raises UsageError for an unknown name, NotConfigured when its extra, which is named
    as the name is before its hyphen, is not installed."""
    if name not in modules:
        raise UsageError(f"{name!r} is no {noun}", remedy=f"known are {', '.join(modules)}")
    try:
        return importlib.import_module(modules[name])
    except ModuleNotFoundError as missing:
        command = f"pip install chordesk[{name.partition('-')[0]}]"
        reason = f"DESK_{noun.upper()}={name} with `{command}` ({missing.name} is not installed)"
        raise NotConfigured(f"not available: configure {reason}") from None
