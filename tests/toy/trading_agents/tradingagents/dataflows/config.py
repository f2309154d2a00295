"""Its configuration, of the whole process."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from tradingagents.default_config import DEFAULT_CONFIG

_config: dict[str, Any] = deepcopy(DEFAULT_CONFIG)
SET: list[dict[str, Any]] = []  # each that was set, for tests


def set_config(config: dict[str, Any]) -> None:
    SET.append(config)
    for name, value in deepcopy(config).items():
        if isinstance(value, dict) and isinstance(_config.get(name), dict):
            _config[name].update(value)
        else:
            _config[name] = value


def get_config() -> dict[str, Any]:
    return deepcopy(_config)
