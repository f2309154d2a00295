"""The models that its command line offers."""

from __future__ import annotations

MODEL_OPTIONS = {"openai": {"quick": [("A quick one", "quick-1")], "deep": [("A deep one", "deep-1")]}}
