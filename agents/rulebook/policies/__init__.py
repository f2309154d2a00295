"""The rules of each role. Importing the package enters the policies of all its modules in the table."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType

from chordesk.agents.rulebook.cases import POLICIES
from chordesk.models import features

__all__ = ["POLICIES"]

_of_features = features.places("modules")
for _module in iter_modules(__path__, f"{__name__}."):
    if _module.name not in _of_features:
        import_module(_module.name)
for _ in features.parts("policies", kind=ModuleType):
    pass  # a module enters its policies when it is loaded
