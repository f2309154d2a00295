"""Launch of the app-server: flags, catalog, provider, environment, and what of it reaches the model's wire."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psutil
import pytest

from chordesk.agents.codex.launch import (
    ALLOCATOR,
    LEAN,
    LOOPBACK_PEM,
    link_login,
    login_digest,
    prepare,
    slim_catalog,
)
from chordesk.models.errors import BinaryMissing, CodexError, LoginMissing
from tests.agents.codex.kit import FINAL, Codex, Kit, config, one_turn, running, spec
from tests.fakes.responses import FakeResponses, tool_then_final

NOWHERE = "http://127.0.0.1:9/v1"


def test_the_catalog_has_one_model_without_what_hides_tools() -> None:
    bundled = {
        "models": [{"slug": "gpt-5.5", "tool_mode": "code_mode_only", "context_window": 1}, {"slug": "b", "x": 2}]
    }
    (entry,) = slim_catalog(bundled, ["gpt-5.5"])["models"]
    assert (entry["slug"], entry["tool_mode"], entry["context_window"]) == ("gpt-5.5", None, 1)
    (entry,) = slim_catalog(bundled, ["local-llm"])["models"]
    assert (entry["slug"], entry["context_window"]) == ("local-llm", 1)
    with pytest.raises(CodexError, match=r"neither local-llm nor gpt-5.5; it has b"):
        slim_catalog({"models": bundled["models"][1:]}, ["local-llm"])


@pytest.mark.parametrize("name", ["gpt-5.5", "gpt-6-sol", "some-local-model"])
async def test_any_model_sees_exactly_our_tools(model: FakeResponses, codex: Codex, name: str) -> None:
    """Most bundled entries would hide them behind a script tool."""
    kit = Kit()
    model.policy = tool_then_final("quotes_get", '{"symbols":["ACME"]}', FINAL)
    async with codex(model=name) as runtime:
        result = await one_turn(runtime, spec(kit, model=name))
    assert result.text == FINAL
    assert len(kit.calls) == 1
    assert [seen.tools for seen in model.calls()] == [["quotes_get"], ["quotes_get"]]
    assert {seen.body["model"] for seen in model.calls()} == {name}


async def test_a_key_goes_out_as_a_bearer_token_and_nowhere_else(
    model: FakeResponses, codex: Codex, tmp_path: Path
) -> None:
    changes: dict[str, Any] = {"provider": "endpoint", "provider_key": "sk-secret"}
    async with codex(**changes) as runtime:
        await one_turn(runtime, spec())
        assert model.requests[-1].headers["authorization"] == "Bearer sk-secret"
        assert "sk-secret" not in " ".join(psutil.Process(runtime.status()[0].pid).cmdline())
        assert "sk-secret" not in str(psutil.Process(runtime.status()[0].pid).environ())
    assert "sk-secret" not in repr(config(model, tmp_path, **changes))
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and b"sk-secret" in path.read_bytes()]  # noqa: ASYNC240


async def test_the_environment_is_minimal(codex: Codex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BROKER_SECRET", "x")
    async with codex(environ={"HTTPS_PROXY": "http://proxy:1"}) as runtime:
        await one_turn(runtime, spec())
        environ = psutil.Process(runtime.status()[0].pid).environ()
    home = str(tmp_path / "codex" / "w" / "ephemeral")
    pem = tmp_path / "codex" / "catalog" / "loopback.pem"
    assert environ == {
        "PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "HTTPS_PROXY": "http://proxy:1",
        "SSL_CERT_FILE": str(pem), "HOME": home, "CODEX_HOME": home, ALLOCATOR: LEAN,
    }  # fmt: skip
    assert pem.read_text() == LOOPBACK_PEM


async def test_the_codex_login_is_linked_and_used(model: FakeResponses, tmp_path: Path, registry: str) -> None:
    login = tmp_path / "login"
    login.mkdir()
    (login / "auth.json").write_text('{"auth_mode":"apikey","OPENAI_API_KEY":"sk-login"}')
    flags = {"openai_base_url": model.url}
    changes: dict[str, Any] = {"provider": "codex", "provider_url": None, "login_home": login, "flags": flags}
    async with running(model, tmp_path / "home", registry, **changes) as runtime:
        result = await one_turn(runtime, spec())
    assert result.status == "completed"
    assert model.requests[-1].headers["authorization"] == "Bearer sk-login"
    assert model.requests[-1].tools == ["quotes_get"]
    link = tmp_path / "home" / "codex" / "w" / "ephemeral" / "auth.json"
    assert link.resolve() == login / "auth.json"


def test_no_login_is_an_error_with_a_remedy(tmp_path: Path) -> None:
    wanted = config(NOWHERE, tmp_path, provider="codex", provider_url=None, login_home=tmp_path / "none")
    with pytest.raises(LoginMissing, match="desk login"):
        link_login(wanted, tmp_path)


async def test_no_binary_is_an_error_with_a_remedy(tmp_path: Path) -> None:
    with pytest.raises(BinaryMissing, match="DESK_CODEX_BINARY"):
        await prepare(config(NOWHERE, tmp_path, binary=tmp_path / "codex"))


async def test_a_binary_that_fails_is_an_error(tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.write_text("#!/bin/sh\necho no luck >&2\nexit 7\n")
    broken.chmod(0o755)
    with pytest.raises(CodexError, match=r"ended with 7: no luck"):
        await prepare(config(NOWHERE, tmp_path, binary=broken))


def test_another_login_has_another_digest(tmp_path: Path) -> None:
    def digest(text: str) -> str:
        (tmp_path / "auth.json").write_text(text)
        return login_digest(config(NOWHERE, tmp_path, provider="codex", provider_url=None, login_home=tmp_path))

    first, again, other = (
        digest(f'{{"tokens":{{"account_id":"{account}","access_token":"{token}"}}}}')
        for account, token in (("acct-1", "x"), ("acct-1", "y"), ("acct-2", "y"))
    )
    assert first == again, "a token that was renewed is the same account's"
    assert first != other
    assert "acct" not in first
    assert digest('{"tokens":null,"OPENAI_API_KEY":"sk-login"}') == digest("no JSON") == digest("[]") == ""
    assert login_digest(config(NOWHERE, tmp_path)) == "", "other providers have no login"


@pytest.mark.parametrize(
    ("provider", "ca_file", "roots", "passed"),
    [
        ("rulebook", None, "loopback.pem", False),
        ("endpoint", Path("/etc/roots.pem"), "loopback.pem", False),
        ("codex", None, None, True),
        ("codex", Path("/etc/roots.pem"), "roots.pem", True),
    ],
)
async def test_trust_roots_and_proxies_are_for_the_login_alone(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    provider: str,
    ca_file: Path | None,
    roots: str | None,
    passed: bool,
) -> None:
    """Any other model is on loopback for it, where loading roots would be most of a turn's cost."""
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:1")
    (tmp_path / "auth.json").write_text("{}")
    url = "http://127.0.0.1:8000/v1" if provider == "rulebook" else "https://api.example.com/v1"
    env = (await prepare(config(url, tmp_path, provider=provider, ca_file=ca_file, login_home=tmp_path))).env
    assert (Path(env["SSL_CERT_FILE"]).name if "SSL_CERT_FILE" in env else None) == roots
    assert env.get("HTTPS_PROXY") == ("http://proxy:1" if passed else None)
