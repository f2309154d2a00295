"""The rules of each role. Importing the package enters the policies of all its modules in the table."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from chordesk.agents.rulebook.cases import POLICIES
from chordesk.models import features

__all__ = ["POLICIES"]

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")
for _ in features.parts("policies"):
    pass  # a module enters its policies when it is loaded
