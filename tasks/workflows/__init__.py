"""Workflows, one module a kind of run. Importing the package registers what each of its modules declares."""

from importlib import import_module
from pkgutil import iter_modules

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")
