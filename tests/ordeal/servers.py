"""Postgres, Redis and Prometheus of the rehearsal: each in a folder, on a port and under a user of its own, with TLS.

They are never the machine's own services: other data, other ports, and they end with this process.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import signal
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import psycopg
import redis
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from deploy import credentials
from tests.patience import PATIENCE
from tests.postgres import binaries, parent_guard, unprivileged
from tests.stack import free_port, listens

USER = DATABASE = "desk"
# Each process of the desk has up to 16 connections, and the sweep and the limits some of their own.
CONNECTIONS = 250
# What a desk needs of Redis: everything on all keys and channels but administration; INFO and KEYS are its own.
RIGHTS = "~* &* +@all -@dangerous -@admin +info +keys"
_QUIET_HBA = "hostssl all all 127.0.0.1/32 scram-sha-256\n"


@dataclass(slots=True)
class Server:
    """One server process. command: with all its arguments; ready: raises until it answers; end: signal that stops it
    in order; dies_by: signal when this process dies; on_start: called with each new process's id."""

    name: str
    folder: Path
    port: int
    command: Sequence[str]
    ready: Callable[[], None]
    end: signal.Signals = signal.SIGTERM
    dies_by: signal.Signals = signal.SIGKILL
    on_start: Callable[[int], None] = lambda pid: None
    process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self.process is not None, f"{self.name} does not run"
        return self.process.pid

    @property
    def log(self) -> Path:
        return self.folder / "log"

    def start(self, seconds: float = PATIENCE) -> None:
        """Start it and return once it answers. From the thread that lives longest: the kernel ties it to that."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                list(self.command), cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True, preexec_fn=parent_guard(self.dies_by), **unprivileged(self.folder),
            )  # fmt: skip
        self.on_start(self.process.pid)
        until = time.monotonic() + seconds
        while True:
            assert self.process.poll() is None, f"{self.name} ended: {self.log.read_text(errors='replace')[-2000:]}"
            try:
                self.ready()
                return
            except (OSError, psycopg.Error, redis.RedisError) as error:
                if time.monotonic() > until:
                    raise TimeoutError(f"{self.name} does not answer within {seconds:g} s: {error}") from None
            time.sleep(0.05)

    def stop(self, seconds: float = 30.0) -> None:
        """End it in order, or by SIGKILL when it does not end in time."""
        if self.process is None:
            return
        self.process.send_signal(self.end)
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process = None

    def restart(self) -> float:
        """Stop and start it; return the seconds until it answered again."""
        began = time.monotonic()
        self.stop()
        self.start()
        return time.monotonic() - began


def _own_folder(folder: Path) -> dict[str, Any]:
    folder.mkdir(mode=0o700)
    return unprivileged(folder)


def _give(paths: Iterable[Path]) -> None:
    """Let the server's user own files that were written for it."""
    for path in paths:
        unprivileged(path)


@dataclass(slots=True)
class Postgres:
    """A server that takes TLS alone, with passwords by SCRAM; `desk` is no superuser."""

    server: Server
    root: Path
    password: str
    admin: str

    @classmethod
    def make(cls, binaries: Path, folder: Path, authority: Authority) -> Postgres:
        """Set up a server in a folder that is not there yet; it does not run."""
        user, port = _own_folder(folder), free_port()
        admin, data, secret = secrets.token_urlsafe(24), folder / "data", folder / "admin"
        secret.touch(mode=0o600)
        secret.write_text(admin, encoding="utf-8")
        _give([secret])
        setup = [binaries / "initdb", "-D", data, "-U", "postgres", "-A", "scram-sha-256", "--pwfile", secret]
        setup += ["-E", "UTF8", "--locale=C"]
        subprocess.run(setup, cwd=folder, capture_output=True, check=True, timeout=PATIENCE, **user)
        secret.unlink()
        pair = authority.issue(folder, "postgres")
        root = authority.write_root(folder / "root.crt")
        (data / "pg_hba.conf").write_text(_QUIET_HBA, encoding="utf-8")
        _give([pair.certificate, pair.key, root, data / "pg_hba.conf"])
        settings = {
            "listen_addresses": ADDRESS, "port": port, "unix_socket_directories": "", "max_connections": CONNECTIONS,
            "ssl": "on", "ssl_cert_file": pair.certificate, "ssl_key_file": pair.key,
        }  # fmt: skip
        command = [str(binaries / "postgres"), "-D", str(data)]
        command += [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        made = cls(Server("postgres", folder, port, command, lambda: None), root, secrets.token_urlsafe(24), admin)
        made.server.ready = lambda: made.connect("postgres").close()
        # SIGINT cuts open connections; SIGTERM would wait for their ends, which pools never come to.
        made.server.end, made.server.dies_by = signal.SIGINT, signal.SIGQUIT
        return made

    def connect(self, database: str = DATABASE) -> psycopg.Connection[tuple[Any, ...]]:
        """Return a connection of the superuser's, each statement committed by itself. Raises psycopg.Error."""
        return psycopg.connect(
            host=ADDRESS, port=self.server.port, user="postgres", password=self.admin, dbname=database,
            sslmode="verify-full", sslrootcert=str(self.root), autocommit=True, connect_timeout=5,
        )  # fmt: skip

    def make_database(self) -> None:
        with self.connect("postgres") as connection:
            # SCRAM: the server keeps a hash alone. A password of this alphabet needs no quoting.
            connection.execute(f"create role {USER} login password '{self.password}'".encode())
            connection.execute(f"create database {DATABASE} owner {USER}".encode())

    def url(self, root: Path) -> str:
        """Return the desk's URL. root: the path of the authority's certificate where it is used."""
        query = urllib.parse.urlencode({"sslmode": "verify-full", "sslrootcert": str(root)})
        return f"postgresql+psycopg://{USER}:{self.password}@{ADDRESS}:{self.server.port}/{DATABASE}?{query}"


@dataclass(slots=True)
class Redis:
    """A server that takes TLS alone and knows one user, with what a desk needs."""

    server: Server
    root: Path
    password: str

    @classmethod
    def make(cls, binary: Path, folder: Path, authority: Authority) -> Redis:
        """Set up a server in a folder that is not there yet; it does not run."""
        _own_folder(folder)
        port, password = free_port(), secrets.token_urlsafe(24)
        pair, root = authority.issue(folder, "redis"), authority.write_root(folder / "root.crt")
        lines = [
            "port 0", f"tls-port {port}", f"bind {ADDRESS}", "tls-auth-clients no",
            f"tls-cert-file {pair.certificate}", f"tls-key-file {pair.key}", f"tls-ca-cert-file {root}",
            f"dir {folder}", "appendonly yes", "appendfsync everysec", 'save ""', "maxmemory-policy noeviction",
            "user default off resetpass allkeys allchannels +@all", f"user {USER} on >{password} {RIGHTS}",
        ]  # fmt: skip
        file = folder / "redis.conf"
        file.touch(mode=0o600)
        file.write_text("\n".join(lines) + "\n", encoding="utf-8")
        _give([pair.certificate, pair.key, root, file])
        made = cls(Server("redis", folder, port, [str(binary), str(file)], lambda: None), root, password)
        made.server.ready = made._ping
        return made

    def _ping(self) -> None:
        with contextlib.closing(self.client()) as client:
            client.ping()

    def client(self) -> redis.Redis:
        return redis.Redis.from_url(self.url(self.root), socket_timeout=5, socket_connect_timeout=5)

    def url(self, root: Path) -> str:
        """Return the desk's URL. root: the path of the authority's certificate where it is used."""
        query = urllib.parse.urlencode({"ssl_cert_reqs": "required", "ssl_ca_certs": str(root)})
        return f"rediss://{USER}:{self.password}@{ADDRESS}:{self.server.port}/0?{query}"


@dataclass(slots=True)
class Prometheus:
    """A server that scrapes what its list of targets names; processes come and go, as a cluster's do."""

    server: Server
    targets: Path
    listed: dict[str, int] = field(default_factory=dict)

    @classmethod
    def make(cls, binary: Path, folder: Path, interval: float) -> Prometheus:
        """Set up a server in a folder that is not there yet; it does not run. interval: seconds between scrapes."""
        _own_folder(folder)
        port, targets, file = free_port(), folder / "targets.json", folder / "prometheus.yml"
        config = {
            "global": {"scrape_interval": f"{interval * 1000:.0f}ms"},
            "scrape_configs": [
                {"job_name": "desk", "file_sd_configs": [{"files": [str(targets)], "refresh_interval": "2s"}]}
            ],
        }
        file.write_text(json.dumps(config), encoding="utf-8")  # YAML that is JSON
        targets.write_text("[]", encoding="utf-8")
        _give([file, targets])
        command = [
            str(binary), f"--config.file={file}", f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address={ADDRESS}:{port}", "--log.level=warn",
        ]  # fmt: skip
        made = cls(Server("prometheus", folder, port, command, lambda: None), targets)
        made.server.ready = made._ready
        return made

    def _ready(self) -> None:
        urllib.request.urlopen(f"http://{ADDRESS}:{self.server.port}/-/ready", timeout=5).close()

    def watch(self, ports: dict[str, int]) -> None:
        """Scrape these processes from now on, and no others. ports: by the process's name."""
        if ports == self.listed:
            return
        rows = [
            {"targets": [f"{ADDRESS}:{port}"], "labels": {"process": name, "role": name.partition("-")[0]}}
            for name, port in ports.items()
        ]
        fresh = self.targets.with_suffix(".new")
        fresh.write_text(json.dumps(rows), encoding="utf-8")
        _give([fresh])
        fresh.rename(self.targets)
        self.listed = dict(ports)

    def query(self, expression: str) -> list[tuple[dict[str, str], float]]:
        """Return the labels and the value of each series of an instant query. Raises OSError."""
        address = f"http://{ADDRESS}:{self.server.port}/api/v1/query"
        asked = f"{address}?{urllib.parse.urlencode({'query': expression})}"
        with urllib.request.urlopen(asked, timeout=10) as answer:
            found = json.load(answer)["data"]["result"]
        return [(row["metric"], float(row["value"][1])) for row in found]


DAYS = 2
ADDRESS = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Pair:
    """Paths of a certificate and of its key, PEM."""

    certificate: Path
    key: Path


class Authority:
    """A private root. Its key is in memory alone."""

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self.root = credentials.root(self._key, DAYS)

    def write_root(self, path: Path) -> Path:
        """Write the root's certificate, which clients verify by, and return its path."""
        path.write_bytes(self.root.public_bytes(serialization.Encoding.PEM))
        return path

    def issue(self, folder: Path, name: str) -> Pair:
        """Write a server's certificate for 127.0.0.1 and `localhost`, and its key, which only its owner can read."""
        key = ec.generate_private_key(ec.SECP256R1())
        signed = credentials.server(key, self.root, self._key, (ADDRESS,), DAYS)
        pair = Pair(folder / f"{name}.crt", folder / f"{name}.key")
        pair.certificate.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
        pair.key.touch(mode=0o600)
        pair.key.write_bytes(credentials.pem(key))
        return pair


PACKAGES = {"postgres": "postgresql", "redis-server": "redis-server", "prometheus": "prometheus"}
# What asks it whether a package may start its service: 101 is no.
POLICY = Path("/usr/sbin/policy-rc.d")
REFUSE = "#!/bin/sh\nexit 101\n"
APT_SECONDS = 300.0


class Unavailable(Exception):
    """A program that is not there, with the remedy."""


@dataclass(frozen=True, slots=True)
class Programs:
    """Paths of the servers. postgres: the folder of `initdb` and `postgres`."""

    postgres: Path
    redis: Path
    prometheus: Path


def found() -> dict[str, Path]:
    """Return those that are on the PATH or, of PostgreSQL, where the distribution keeps it; by command."""
    there = {name: Path(path) for name in PACKAGES if (path := shutil.which(name))}
    there.pop("postgres", None)
    if (folder := binaries()) is not None:
        there["postgres"] = folder
    return there


def require() -> Programs:
    """Return the servers' paths; install those that are missing where that is possible. Raises Unavailable."""
    there = found()
    if missing := [PACKAGES[name] for name in PACKAGES if name not in there]:
        _install(missing)
        there = found()
    if missing := [PACKAGES[name] for name in PACKAGES if name not in there]:
        raise Unavailable(f"{', '.join(missing)}: installed, and still not found on the PATH")
    return Programs(there["postgres"], there["redis-server"], there["prometheus"])


def _install(packages: list[str]) -> None:
    command = f"apt-get install --no-install-recommends {' '.join(packages)}"
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise Unavailable(
            f"not on this machine: {', '.join(packages)}. As root of a Debian machine `{command}` brings them; "
            "elsewhere put postgres, initdb, redis-server (6.2 or newer, with TLS) and prometheus on the PATH"
        )
    print(f"installing {', '.join(packages)}", flush=True)
    environ = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    with _no_service_starts():
        for step in (["apt-get", "update", "-qq"], [*command.split(), "-y", "-qq"]):
            done = subprocess.run(step, env=environ, capture_output=True, text=True, timeout=APT_SECONDS, check=False)
            if done.returncode != 0:
                raise Unavailable(f"`{' '.join(step)}` failed: {done.stderr.strip()[-500:]}")
    _disable(packages)


def _disable(packages: list[str]) -> None:
    """A package enables its service for the next start of the machine. The rehearsal never uses it."""
    if systemctl := shutil.which("systemctl"):
        subprocess.run([systemctl, "disable", "-q", *packages], capture_output=True, timeout=60, check=False)


@contextlib.contextmanager
def _no_service_starts() -> Iterator[None]:
    """While the block runs, a package that is installed starts no service of the system."""
    if POLICY.exists():
        yield
        return
    POLICY.write_text(REFUSE, encoding="utf-8")
    POLICY.chmod(0o755)
    try:
        yield
    finally:
        POLICY.unlink(missing_ok=True)


MARK = "CHORDESK_FLEET"  # in the environment of each process, with a value of its own in each rehearsal
END_SECONDS = 10.0


@dataclass(slots=True)
class Leftovers:
    """What must be gone at the end. pids: with the time of their start, for ids are used again."""

    mark: str
    pids: dict[int, float] = field(default_factory=dict)
    ports: set[int] = field(default_factory=set)
    folders: set[Path] = field(default_factory=set)

    def note(self, pid: int) -> None:
        """Remember a server: it overwrites its environment, so that the mark is lost."""
        with contextlib.suppress(psutil.NoSuchProcess):
            self.pids[pid] = psutil.Process(pid).create_time()

    def processes(self) -> list[psutil.Process]:
        """Return those that live, without this one."""
        return [process for process in psutil.process_iter() if process != psutil.Process() and self._ours(process)]

    def _ours(self, process: psutil.Process) -> bool:
        try:
            if process.status() == psutil.STATUS_ZOMBIE:
                return False
            noted = self.pids.get(process.pid) == process.create_time()
            return noted or process.environ().get(MARK) == self.mark
        except psutil.Error:
            return False  # it has just ended, or is another user's

    def end_processes(self, seconds: float = END_SECONDS) -> list[str]:
        """Wait for those that are about to end, kill the others by their ids, and return their names."""
        until = time.monotonic() + seconds
        while (left := self.processes()) and time.monotonic() < until:
            time.sleep(0.2)
        names = [_described(process) for process in left]
        for process in left:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(left, 5)
        return names

    def listening(self) -> list[int]:
        return sorted(port for port in self.ports if listens(port))

    def there(self) -> list[str]:
        return sorted(str(folder) for folder in self.folders if folder.exists())


def _described(process: psutil.Process) -> str:
    with contextlib.suppress(psutil.Error):
        return f"{process.pid} {' '.join(process.cmdline())[:80]}"
    return str(process.pid)


def shown(kind: str, found: Iterable[object]) -> str:
    """Return a line for people: how many are left, and which."""
    listed = [str(one) for one in found]
    return f"{len(listed)} {kind}" + (f" ({', '.join(listed)})" if listed else "")
