"""Facts of a model server are kept, and hold for the server, version and model that they were found out for."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from chordesk.agents.gateway import probe
from chordesk.agents.gateway.facts import ServerFacts, facts_path, keep_facts, known_facts
from chordesk.agents.gateway.probe import KnownServer, facts_for
from chordesk.models.errors import ModelMissing, ServerAway
from tests.fakes.local_server import Abilities, LocalServer, Status


async def known(home: Path, server: LocalServer, **options: Any) -> ServerFacts:
    return await facts_for(home, server.url, None, "small", **options)


async def test_facts_are_asked_for_once(tmp_path: Path) -> None:
    with LocalServer() as server:
        found = await known(tmp_path, server)
        calls = len(server.chats())
        assert await known(tmp_path, server) == found
        assert len(server.chats()) == calls
    assert known_facts(tmp_path, found.url, "small") == found
    assert facts_path(tmp_path, found.url, "small").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("change", [{"version": "1.2.4"}, {"model": "small", "kind": "vllm"}])
async def test_another_server_or_version_is_asked_anew(tmp_path: Path, change: Mapping[str, Any]) -> None:
    with LocalServer(abilities=Abilities(schema=False, tools=False)) as server:
        assert (await known(tmp_path, server)).schema_way == "json_object"
        vars(server).update(change, abilities=Abilities())
        assert (await known(tmp_path, server)).schema_way == "json_schema"


async def test_what_a_server_says_of_itself_is_that_of_now(tmp_path: Path) -> None:
    with LocalServer(context=8192, slots=1) as server:
        await known(tmp_path, server)
        calls = len(server.chats())
        server.pages["/props"] = Status(
            200,
            {"default_generation_settings": {"n_ctx": 2048}, "total_slots": 4, "build_info": "1.2.3",
             "model_path": "small", "chat_template": "{{ messages }}"},
        )  # fmt: skip
        server.pages["/v1/models"] = Status(
            200, {"data": [{"id": "small", "meta": {"n_ctx": 8192, "n_ctx_train": 8192, "n_params": 134_515_008}}]}
        )
        found = await known(tmp_path, server)
        assert len(server.chats()) == calls
    assert (found.context, found.slots) == (2048, 4)


async def test_old_facts_are_asked_for_anew(tmp_path: Path) -> None:
    with LocalServer() as server:
        found = await known(tmp_path, server)
        old = found.model_copy(update={"asked_at": found.asked_at - dt.timedelta(days=8), "schema_way": "words"})
        keep_facts(tmp_path, old)
        assert (await known(tmp_path, server)).schema_way == "json_schema"
        keep_facts(tmp_path, found.model_copy(update={"schema_way": "words"}))
        assert (await known(tmp_path, server, max_age=dt.timedelta(0))).schema_way == "json_schema"


@pytest.mark.parametrize("asked_as", ["small", "any name"])
async def test_a_server_that_has_another_model_now_does_not_pass_for_it(tmp_path: Path, asked_as: str) -> None:
    """llama.cpp answers with the model that it has, whatever is asked for."""
    with LocalServer(kind="llama.cpp") as server:
        await facts_for(tmp_path, server.url, None, asked_as)
        server.restart("other.gguf")
        with pytest.raises(ModelMissing, match=r"has other\.gguf now, and had small") as found:
            await facts_for(tmp_path, server.url, None, asked_as)
        assert "DESK_MODEL=other.gguf" in found.value.remedy
        keep_facts(tmp_path, await probe.ask_server(server.url, None, asked_as))  # as `desk doctor` does
        assert (await facts_for(tmp_path, server.url, None, asked_as)).models == ("other.gguf",)


async def test_turns_that_start_together_ask_once(tmp_path: Path) -> None:
    with LocalServer() as server:
        alone = KnownServer(tmp_path / "alone", server.url)
        await alone("small")
        calls = len(server.chats())
        together = KnownServer(tmp_path / "together", server.url)
        found = await asyncio.gather(*(together("small") for _ in range(8)))
        assert len(server.chats()) == 2 * calls
        looks = len(server.requests)
        assert await together("small") == found[0]
        assert len(server.requests) == looks


async def test_a_server_that_does_not_answer_a_look_is_taken_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probe, "FRESH_SECONDS", 0.0)
    with LocalServer() as server:
        facts = KnownServer(tmp_path, server.url)
        found = await facts("small")
    assert await facts("small") == found
    with pytest.raises(ServerAway):
        await KnownServer(tmp_path, server.url)("small")
