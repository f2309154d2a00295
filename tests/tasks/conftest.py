"""The kinds of runs and steps, which an app registers too: tests without one read them as well."""

from __future__ import annotations

import tasks.workflows  # noqa: F401
