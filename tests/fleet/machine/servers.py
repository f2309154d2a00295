"""Postgres, Redis and Prometheus of the rehearsal: each in a folder, on a port and under a user of its own, with TLS.

They are never the machine's own services: other data, other ports, and they end with this process.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import signal
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import redis

from tests.fleet.machine.certificates import ADDRESS, Authority
from tests.patience import PATIENCE
from tests.postgres import tether, unprivileged
from tests.stack import free_port

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
                start_new_session=True, preexec_fn=tether(self.dies_by), **unprivileged(self.folder),
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
            "user default off", f"user {USER} on >{password} {RIGHTS}",
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
