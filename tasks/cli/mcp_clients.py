"""Programs that speak MCP: the command that adds the desk's server to one, and its file with that entry written."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
import tomllib
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from platformdirs import user_config_path

from chordesk.models.errors import UsageError
from chordesk.models.files import replacing

NAME = "desk"  # of the server in a client's file


class McpClient(StrEnum):
    """A program that speaks MCP, by its command."""

    CLAUDE = "claude"
    CODEX = "codex"
    VSCODE = "vscode"


@dataclass(frozen=True, slots=True)
class Server:
    """How a client starts `desk mcp` on a home."""

    command: str
    arguments: tuple[str, ...]
    home: Path

    @property
    def entry(self) -> dict[str, Any]:
        return {"command": self.command, "args": list(self.arguments), "env": {"DESK_HOME": str(self.home)}}

    def command_for(self, client: McpClient) -> str:
        """Return the shell's command that has the client write the entry by itself."""
        if client is McpClient.VSCODE:
            return shlex.join(["code", "--add-mcp", json.dumps({"name": NAME, **self.entry})])
        home = f"DESK_HOME={self.home}"
        return shlex.join([client, "mcp", "add", NAME, "--env", home, "--", self.command, *self.arguments])


def server_of(home: Path, run: str | None) -> Server:
    beside = Path(sys.executable).with_name("desk")  # a client has another PATH than this shell
    arguments = ("mcp", *(("--run", run) if run is not None else ()))
    return Server(str(beside) if beside.is_file() else "desk", arguments, home.resolve())


def file_of(client: McpClient) -> Path:
    """Return the file of a client's servers for all folders of this person."""
    home = Path.home()
    if client is McpClient.CLAUDE:
        return Path(os.environ.get("CLAUDE_CONFIG_DIR") or home) / ".claude.json"
    if client is McpClient.CODEX:
        return Path(os.environ.get("CODEX_HOME") or home / ".codex") / "config.toml"
    return user_config_path("Code", appauthor=False, roaming=True) / "User" / "mcp.json"


def write_entry(client: McpClient, server: Server) -> str:
    """Write the entry into the client's file, and return what was done. All else in the file stays; the file as it was
    is kept beside it. Raises UsageError for a file that does not parse or cannot be written."""
    path = file_of(client).resolve()  # what a link in the folder points to is the file
    try:
        before = path.read_text(encoding="utf-8") if path.exists() else ""
        after = _in_toml(before, server) if client is McpClient.CODEX else _in_json(before, client, server)
        if after == before:
            return f"{path} has this server already"
        kept = path.with_name(f"{path.name}.before-{NAME}")
        if path.exists():
            shutil.copy2(path, kept)
        with replacing(path) as file:
            file.write(after.encode())
        if not before:
            return f"wrote {path}"
        shutil.copymode(kept, path)
        return f"wrote {path}; as it was: {kept}"
    except (OSError, ValueError) as error:
        raise UsageError(
            f"{path} cannot be changed: {error}", remedy=f"correct it, or run: {server.command_for(client)}"
        ) from None


def _in_json(before: str, client: McpClient, server: Server) -> str:
    found = json.loads(before) if before.strip() else {}
    key = "servers" if client is McpClient.VSCODE else "mcpServers"
    servers = found.get(key, {}) if isinstance(found, dict) else None
    if not isinstance(servers, dict):
        raise ValueError(f"it is not an object with an object {key!r}")
    entry = {"type": "stdio", **server.entry}
    if servers.get(NAME) == entry:
        return before
    return json.dumps({**found, key: {**servers, NAME: entry}}, indent=2, ensure_ascii=False) + "\n"


def _in_toml(before: str, server: Server) -> str:
    """Return the text with a table more: comments and order of the rest are a person's."""
    servers, entry = tomllib.loads(before).get("mcp_servers", {}), server.entry
    if not isinstance(servers, dict):
        raise ValueError("mcp_servers is not a table")
    if (present := servers.get(NAME)) is not None:
        if present == entry:
            return before
        raise ValueError(f"it has another server {NAME!r}; remove that with: codex mcp remove {NAME}")
    # A string of JSON is one of TOML.
    lines = [f"{key} = {json.dumps(entry[key], ensure_ascii=False)}" for key in ("command", "args")]
    lines += [f"env = {{ DESK_HOME = {json.dumps(entry['env']['DESK_HOME'], ensure_ascii=False)} }}", ""]
    after = "\n".join([*([before.rstrip("\n"), ""] if before.strip() else []), f"[mcp_servers.{NAME}]", *lines])
    tomllib.loads(after)  # an inline table takes no further one
    return after
