"""What a model server can do, as it was found by asking it; kept for its URL, version and model."""

from __future__ import annotations

import datetime as dt
import hashlib
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from chordesk.models.answers import Frozen
from chordesk.models.files import replacing

# How an answer is made to fit its schema, the surest first.
SchemaWay = Literal["json_schema", "forced_tool", "json_object", "words"]
# How tools are put to the model: by the server's own tool calls, or as a part of the answer's schema.
ToolWay = Literal["native", "schema"]
Keywords = Literal["lengths", "bounds", "items", "patterns"]


class ServerWords(Frozen):
    """What a server says of itself and of one model. None: it does not say, or it could not be found out."""

    server: str = "unknown"  # such as llama.cpp, ollama, vllm, lmstudio
    version: str = ""
    models: tuple[str, ...] = ()  # those that the server has, with each one's other names
    mark: str = ""  # what tells the model from another one of the same name
    context: int | None = None  # tokens of one conversation
    slots: int | None = None  # turns it works on at once
    images: bool | None = None
    reasoning: bool | None = None
    why: dict[str, str] = {}  # the reason for each fact that is worse than the best, by the fact's name


class ServerFacts(ServerWords):
    url: str
    model: str
    schema_way: SchemaWay = "json_schema"
    tool_way: ToolWay = "native"
    # keywords: of a schema that the server keeps to beside types and literals; choices: most values of an enumeration
    keywords: tuple[Keywords, ...] = ()
    choices: int = 0
    dialect: tuple[str, ...] = ()  # what is done to read its calls of tools, where they are not in the common form
    beside: bool | None = None  # a schema is kept to where tools are offered too, and tools are called
    parallel_tools: bool | None = None
    streaming: bool | None = None
    usage: bool | None = None
    cached_tokens: bool | None = None
    # read_speed, write_speed: tokens a second at the time of asking, by one call
    read_speed: float | None = None
    write_speed: float | None = None
    # every fact was asked for; a server that is too slow for that gets ways that need the least of it
    whole: bool = True
    asked_at: dt.datetime

    @property
    def way(self) -> str:
        return f"chat completions; answer by {self.schema_way}; tools by {self.tool_way}"


def facts_path(home: Path, url: str, model: str) -> Path:
    name = hashlib.sha256(f"{url}\n{model}".encode()).hexdigest()[:16]
    return home / "servers" / f"{name}.json"


def known_facts(home: Path, url: str, model: str) -> ServerFacts | None:
    try:
        return ServerFacts.model_validate_json(facts_path(home, url, model).read_bytes())
    except (OSError, ValidationError):
        return None


def keep_facts(home: Path, facts: ServerFacts) -> None:
    path = facts_path(home, facts.url, facts.model)
    with replacing(path) as file:
        file.write(facts.model_dump_json(indent=1).encode())
