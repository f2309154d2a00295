"""Whether a process can have the models of a run: it has them already, or has their address and key, and may load
them beside its own."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from chordesk.agents.role_models import (
    LOCAL,
    RULES,
    models_in_use,
    require_keys,
    require_roles,
    role_models,
    voice_tiers,
)
from chordesk.models.errors import SettingError, UsageError
from chordesk.models.settings import Settings
from chordesk.models.settings.running_desk import counts, snapshot
from chordesk.models.urls import is_loopback

_ADDRESSES = ("provider_url", "local_url")


def covers(own: Settings, theirs: Settings) -> bool:
    served = {(one.runtime, one.model) for one in (*models_in_use(own), RULES)}
    wanted = {(one.runtime, one.model) for one in models_in_use(theirs)}
    return own.provider == theirs.provider and wanted <= served


def require_means(
    own: Settings, theirs: Settings, kept: Mapping[str, Any], label: str, environ: Mapping[str, str]
) -> None:
    """Raise UsageError, with the model as a noun, where a process with its own settings cannot have those of a run.
    theirs: the run's, with the process's own addresses and keys; kept: as the run has them; label: of its model. A key
    goes to the address of its own settings alone."""
    here = snapshot(own)
    try:
        for name in _ADDRESSES:
            if kept.get(name) != here[name] and name in kept and counts(name, kept) and _uses(name, theirs):
                raise UsageError(f"{label} at {kept[name]}" if here[name] is not None else label)
        require_roles(theirs)
        require_keys(theirs, environ)
    except SettingError as error:
        raise UsageError(f"{label}: {error.args[0]}") from None
    if theirs.provider == "endpoint" and own.provider != "endpoint" and own.provider_key is None:
        host = urlsplit(theirs.provider_url or "").hostname or ""
        if not is_loopback(host):
            raise UsageError(f"{label} and its key (DESK_PROVIDER_KEY)")


def _uses(name: str, theirs: Settings) -> bool:
    """Return whether a run's models are at an address; without one `models_in_use` would refuse them."""
    if name == "provider_url":
        return True
    named = (*role_models(theirs).values(), *voice_tiers(theirs))
    return theirs.provider != LOCAL and any(one.runtime == LOCAL for one in named)


def digest(theirs: Settings) -> str:
    """Return a short name of a run's models; runs with the same ones share what serves them."""
    used = sorted(f"{one.runtime}:{one.model}" for one in models_in_use(theirs))
    return hashlib.sha256("|".join((theirs.provider, *used)).encode()).hexdigest()[:8]
