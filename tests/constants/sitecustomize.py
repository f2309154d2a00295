"""Run by Python at the start of a process that has this folder in its PYTHONPATH."""

import os

from tests.constants import apply

apply(os.environ)
