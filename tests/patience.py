"""The one limit on how long a test waits for an event that must come: it costs no time where the event comes.

Tests assert the order of events or the recorded reason. A shorter limit would fail on a busy machine, where the desk
is right and slow.
"""

from __future__ import annotations

PATIENCE = 240.0  # seconds: six times the 40 that suffice on two idle cores, and less than pytest's own limit
