"""A program with the SDK's second major: what `desk mcp` answers to it, as JSON. Started with the name of an
interpreter, or with the server's URL and token."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

import httpx2  # type: ignore[import-not-found,unused-ignore]
from mcp import Client, StdioServerParameters  # type: ignore[attr-defined,unused-ignore]
from mcp.client.streamable_http import streamable_http_client

SYMBOLS = ("IBM", "KO")
COMMAND = ["-P", "-m", "chordesk.tasks.cli.main", "mcp"]


async def error_of(asked: Any) -> str:
    try:
        await asked
    except Exception as error:
        return str(error)
    return "answered"


async def seen(target: Any) -> dict[str, Any]:
    async with Client(target) as client:
        tools = (await client.list_tools()).tools
        asked = [client.call_tool("company_get", {"symbols": [symbol]}) for symbol in SYMBOLS]
        companies = [answer.structured_content["companies"][0]["symbol"] for answer in await asyncio.gather(*asked)]
        wrong = await client.call_tool("technicals_get", {"symbols": ["IBM"], "self": 1})
        chart = await client.read_resource("desk://charts/IBM?sessions=60")
        return {
            "protocol": client.protocol_version,
            "tools": [tool.name for tool in tools if tool.output_schema and tool.annotations.read_only_hint],
            "companies": companies,
            "wrong": wrong.content[0].text if wrong.is_error else "answered",
            "chart": chart.contents[0].mime_type,
            "prompts": [prompt.name for prompt in (await client.list_prompts()).prompts],
            "risk": (await client.get_prompt("risk")).messages[0].content.text,
            "no_run": await error_of(client.read_resource("desk://runs/nope")),
            "no_prompt": await error_of(client.get_prompt("nobody")),
        }


async def main(where: str, token: str = "") -> dict[str, Any]:
    if not where.startswith("http"):
        return await seen(StdioServerParameters(command=where, args=COMMAND, env=dict(os.environ)))
    async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=120) as client:
        return await seen(streamable_http_client(where, http_client=client))


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(*sys.argv[1:]))))
