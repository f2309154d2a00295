"""What a test takes from a feature whose folder it is not in.

A feature can be left out of the tree, so no module outside its folders imports it: neither could the test be collected
then nor would the types be checked. A test of the core that looks at a feature beside it asks here, where it uses it.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest

from chordesk.models.features import OWN


def of_feature(name: str) -> Any:
    """What a feature's module has, by "module:name", or the module. The test that asks is skipped where the tree has no
    such feature; a program that is no test ends with that line."""
    module, _, member = name.partition(":")
    feature = module.split(".")[2]
    if feature not in {one.split(".")[2] for one in OWN}:
        pytest.skip(f"the feature {feature} is not in this tree", allow_module_level=True)
    loaded = import_module(module)
    return getattr(loaded, member) if member else loaded
