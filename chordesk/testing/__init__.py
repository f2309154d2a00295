"""Tests that packages of others run on what they add: `chordesk.testing.broker`. They need pytest."""

import pytest

pytest.register_assert_rewrite("chordesk.testing.broker")
