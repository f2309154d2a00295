"""The environment of the tests: of the caller's shell only what is named here reaches them.

A caller's desk, proxies, keys, interpreter options and folders would change what tests do, or send their requests
elsewhere. A list of what may pass also keeps out the variable of a library that nobody thought of.
"""

from __future__ import annotations

from collections.abc import MutableMapping

PASSED = {
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "PWD", "TMPDIR", "LANG", "LANGUAGE", "TZ", "TERM", "CI", "DISPLAY",
    "LD_LIBRARY_PATH", "MALFORMED_SEED", "VIRTUAL_ENV",
}  # fmt: skip
# The switches of the tests themselves, of what runs and counts them, and where packages and browsers come from.
PASSED_PREFIXES = ("DESK_TEST_", "LC_", "PYTEST_", "COV_", "COVERAGE_", "HYPOTHESIS_", "PIP_", "UV_", "PLAYWRIGHT_")


def passes(name: str) -> bool:
    return name in PASSED or name.startswith(PASSED_PREFIXES)


def clean(environ: MutableMapping[str, str]) -> None:
    """Remove every variable that a test must not see."""
    for name in [name for name in environ if not passes(name)]:
        del environ[name]
