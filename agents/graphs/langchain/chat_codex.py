"""ChatCodex: a LangChain chat model whose calls are turns of the Codex app-server."""

from __future__ import annotations

import asyncio
import base64
import concurrent.futures
import os
import queue
import warnings
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlsplit

import orjson
from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import LanguageModelInput, ModelProfile
from langchain_core.language_models.base import LangSmithParams
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.output_parsers import BaseTransformOutputParser
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable, RunnableMap, RunnablePassthrough
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_json_schema, convert_to_openai_tool
from langchain_core.utils.pydantic import is_basemodel_subclass
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, SecretStr, ValidationError, model_validator

from chordesk.agents.graphs.langchain.ephemeral_turns import (
    AnswerSchemaError,
    AnswerShape,
    Bridge,
    ChatAnswer,
    ChatCall,
    ChatError,
    ConversationError,
    Growing,
    RateLimited,
    TimedOut,
    ToolSchemaError,
    current,
    reply_format,
)
from chordesk.agents.graphs.langchain.runtimes import (
    LITELLM,
    Connection,
    Provider,
    answering,
    arguments_of,
    own_bridge,
    require_known,
)
from chordesk.models.answers import Usage
from chordesk.models.files import data_folder
from chordesk.models.urls import masked, require_http
from chordesk.tools.toolsets import IMAGE_TOKENS, tokens_of

# LangChain messages as items of the Responses API, each with its real role.
#
# Nothing is written as tagged text, so that no headline in a tool's result can pass for a message of another role.

Item = dict[str, Any]
# Input and output tokens, by the beginning of a model's name (OpenAI's page of gpt-5, read on 2026-11-28: a context of
# 400,000 of which 128,000 are for the answer).
_LIMITS: Mapping[str, tuple[int, int]] = {"gpt-5": (272_000, 128_000)}
MAX_TEXT_CHARS = 1_000_000  # of one message: more than any model's context holds
MAX_IMAGE_BYTES = 20 * 1024 * 1024
_ROLES: Mapping[type[BaseMessage], str] = {SystemMessage: "developer", HumanMessage: "user", AIMessage: "assistant"}


# Ends a conversation in which nobody asks after the model's own message: some servers would write that message further.
_GO_ON: Item = {
    "type": "message",
    "role": "user",
    "content": [{"type": "input_text", "text": "Go on: answer what was asked, by all that was said."}],
}


def items_of(messages: Sequence[BaseMessage]) -> tuple[Item, ...]:
    """Return the items of a conversation, in its order; system messages keep their places. Raises ConversationError for
    an empty conversation, one that ends with calls that have no result, and content that cannot be sent."""
    if not messages:
        raise ConversationError("the conversation is empty", remedy="give at least one message")
    _check(messages)
    items = tuple(item for message in messages for item in _items(message))
    asks = isinstance(messages[-1], AIMessage) or all(isinstance(message, SystemMessage) for message in messages)
    return (*items, _GO_ON) if asks else items


def _check(messages: Sequence[BaseMessage]) -> None:
    last = messages[-1]
    if isinstance(last, AIMessage) and last.tool_calls:
        raise ConversationError(
            "the conversation ends with calls that have no results", remedy="add the tools' results"
        )
    called = {call["id"] for one in messages if isinstance(one, AIMessage) for call in one.tool_calls}
    for message in messages:
        if isinstance(message, ToolMessage) and message.tool_call_id not in called:
            raise ConversationError(
                f"a tool's result is for the call {message.tool_call_id!r}, which no message makes",
                remedy="keep the message with the call before its result",
            )


def _items(message: BaseMessage) -> Iterator[Item]:
    if isinstance(message, ToolMessage):
        yield {"type": "function_call_output", "call_id": message.tool_call_id, "output": _output(message)}
        return
    role = next((role for kind, role in _ROLES.items() if isinstance(message, kind)), None)
    if role is None:
        raise ConversationError(
            f"a message of type {message.type!r} has no role", remedy="use system, human, ai and tool messages"
        )
    parts = _parts(message, "output_text" if role == "assistant" else "input_text")
    if parts:
        yield {"type": "message", "role": role, "content": parts}
    if isinstance(message, AIMessage):
        for call in message.tool_calls:
            arguments = orjson.dumps(call["args"], default=str).decode()
            yield {"type": "function_call", "call_id": call["id"], "name": call["name"], "arguments": arguments}


def _output(message: ToolMessage) -> str | list[Item]:
    parts = _parts(message, "input_text")
    failed = [{"type": "input_text", "text": "The tool failed."}] if message.status == "error" else []
    found = [*failed, *parts]
    if all(part["type"] == "input_text" for part in found):
        return "\n".join(part["text"] for part in found)
    return found


def _parts(message: BaseMessage, text_type: str) -> list[Item]:
    parts = list(_blocks(message, text_type))
    if (chars := sum(len(part.get("text", "")) for part in parts)) > MAX_TEXT_CHARS:
        what = f"the result of {message.name or 'a tool'}" if isinstance(message, ToolMessage) else message.type
        raise ConversationError(
            f"{what} has {chars:,} characters, at most {MAX_TEXT_CHARS:,}", remedy="shorten it or summarise it"
        )
    return parts


def _blocks(message: BaseMessage, text_type: str) -> Iterator[Item]:
    blocks = [message.content] if isinstance(message.content, str) else message.content
    for block in blocks:
        if isinstance(block, str):
            if block:
                yield _text(block, text_type)
            continue
        kind = block.get("type")
        if kind in ("text", "input_text", "output_text"):
            if not isinstance(text := block.get("text", ""), str):
                raise ConversationError(
                    f"a {message.type} message has {type(text).__name__} as its text", remedy="decode it"
                )
            if text:
                yield _text(text, text_type)
        elif kind in ("image", "image_url", "input_image"):
            if text_type == "output_text":
                raise ConversationError("a message of the model has an image", remedy="leave it out")
            yield {"type": "input_image", "image_url": _image_url(block)}
        elif kind not in ("tool_use", "tool_call", "reasoning", "thinking", "function_call"):
            raise ConversationError(
                f"a {message.type} message has content of type {kind!r}", remedy="send text and images"
            )


def _text(text: str, text_type: str) -> Item:
    sendable = text.replace("\x00", "\ufffd").encode("utf-8", "replace").decode()  # half a surrogate pair is no text
    return {"type": text_type, "text": sendable}


def _image_url(block: Mapping[str, Any]) -> str:
    found = block.get("source")
    source = found if isinstance(found, Mapping) else {}
    url = block.get("image_url") or block.get("url") or source.get("url")
    url = url.get("url") if isinstance(url, Mapping) else url
    if isinstance(url, str):
        if not url.startswith("data:"):  # the app-server answers it with a bare -32600
            raise ConversationError(
                f"an image is given by the URL {url!r:.120}: a call carries a picture's own data, on each provider, "
                "as the app-server takes no other and nothing here fetches what a message names",
                remedy="read the picture and send its data: data:image/png;base64,...",
            )
        _check_image(url)
        return url
    data = block.get("base64") or block.get("data") or source.get("data")
    mime = block.get("mime_type") or block.get("media_type") or source.get("media_type")
    if isinstance(data, bytes):
        data = base64.b64encode(data).decode()
    if not isinstance(data, str) or not isinstance(mime, str):
        raise ConversationError("an image has neither a URL nor data with a media type", remedy="give one of them")
    _check_image(data)
    return f"data:{mime};base64,{data}"


def _check_image(text: str) -> None:
    if not text.strip():
        raise ConversationError("an image is empty", remedy="give its data with a media type")
    if len(text.partition("base64,")[2] or text) > (MAX_IMAGE_BYTES + 2) // 3 * 4:
        raise ConversationError(f"an image has more than {MAX_IMAGE_BYTES // 2**20} MB", remedy="make it smaller")


def _tokens(item: Any) -> int:
    """Return the tokens of an item, estimated; a picture has IMAGE_TOKENS, however large its data is."""
    if isinstance(item, list):
        return sum(_tokens(one) for one in item)
    if isinstance(item, Mapping):
        if item.get("type") == "input_image":
            return IMAGE_TOKENS
        return sum(1 + _tokens(value) for value in item.values())
    return tokens_of(str(item))


AnswerType = dict[str, Any] | type


def answer_schema(given: AnswerType) -> dict[str, Any]:
    """given: a pydantic model, a TypedDict, a JSON schema, a function's schema, or the `response_format` of an OpenAI
    model, which has the schema under a name. Raises ToolSchemaError."""
    if not isinstance(given, type | Mapping):
        raise ToolSchemaError(f"the answer's schema is {given!r:.200}", remedy="give a JSON schema or a type")
    if isinstance(given, type) and issubclass(given, BaseModel):
        return given.model_json_schema()
    if isinstance(given, type) or "parameters" in given or "input_schema" in given or given.get("type") == "function":
        return dict(convert_to_json_schema(given))
    if given == {"type": "json_object"}:
        return {"type": "object"}
    named = given.get("json_schema") if given.get("type") == "json_schema" else given
    if not isinstance(named, Mapping):
        raise ToolSchemaError(f"response_format {given!r:.200} has no json_schema", remedy="give a JSON schema")
    inner = named.get("schema")
    return dict(inner if isinstance(inner, Mapping) and "name" in named else named)


def _answer(kind: AnswerType | None, schema: Mapping[str, Any], value: Any) -> Any:
    """Return the answer as an object of its type. Raises ValueError for a value that does not fit."""
    if isinstance(kind, type) and is_basemodel_subclass(kind):
        if not issubclass(kind, BaseModel):
            old: Any = kind  # pydantic 1
            return old.parse_obj(value)
        try:
            return kind.model_validate(value)
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False)[0]
            where = ".".join(str(part) for part in first["loc"])
            raise ValueError(f"{where}: {first['msg']}" if where else first["msg"]) from None
    _check_schema(schema, value)
    return value


def _check_schema(schema: Mapping[str, Any], value: Any) -> None:
    # Loaded here: with all of its formats installed it compiles a grammar, for a second or more.
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import UnknownType, best_match
    from jsonschema.validators import validator_for
    from referencing.exceptions import Unresolvable

    try:
        found = best_match(validator_for(schema, Draft202012Validator)(schema).iter_errors(value))
    except (Unresolvable, UnknownType) as error:
        raise ToolSchemaError(f"no answer fits the schema: {error}", remedy="correct it") from None
    if found is not None:
        raise ValueError(f"{found.json_path}: {found.message}")


class AnswerParser(BaseTransformOutputParser[Any]):
    """Parser of a structured answer: an object of the pydantic model, or a dict. Of a stream of dicts it gives what of
    the first answer there is, and the checked answer last."""

    answer_type: Any

    def _transform(self, input: Iterator[str | BaseMessage]) -> Iterator[Any]:
        chunks: list[Any] = []
        for chunk in input:
            chunks.append(chunk)
            yield from _parts_of(chunk)
        yield self._whole(chunks)

    async def _atransform(self, input: AsyncIterator[str | BaseMessage]) -> AsyncIterator[Any]:
        chunks: list[Any] = []
        async for chunk in input:
            chunks.append(chunk)
            for part in _parts_of(chunk):
                yield part
        yield self._whole(chunks)

    def _whole(self, chunks: Sequence[Any]) -> Any:
        return self.parse("".join(one if isinstance(one, str) else str(one.text) for one in chunks))

    def parse(self, text: str) -> Any:
        kind = self.answer_type
        try:
            value = orjson.loads(text.encode())  # LangChain's text is of a class of its own
            return _answer(kind, answer_schema(kind), value)
        except ValueError as error:
            raise AnswerSchemaError(f"the answer does not fit: {error}") from error

    @property
    def _type(self) -> str:
        return "codex_answer"


PART = "part_of_answer"  # field of a chunk, beside its text; joined chunks have none


def _parts_of(chunk: Any) -> Iterator[dict[str, Any]]:
    if (part := getattr(chunk, PART, None)) is not None:
        yield part


IGNORED = (
    "temperature",
    "top_p",
    "max_tokens",
    "max_completion_tokens",
    "presence_penalty",
    "frequency_penalty",
    "seed",
)
TIMEOUTS = {"request_timeout", "timeout"}  # the first: LangChain's other name


def _trust_roots() -> Path | None:
    found = os.environ.get("DESK_CODEX_CA_FILE")
    return Path(found) if found else None


def _is_url(text: str) -> bool:
    try:
        require_http(text)
    except ValueError:
        return False
    return True


class ChatCodex(BaseChatModel):
    """A chat model on the Codex app-server, by the host's Codex login or any Responses endpoint.

    model: name sent to the provider, with the provider before it where that is not the login: `ollama:qwen3`. provider:
    `codex` (the login of `desk login`), `endpoint` (a Responses API; a base_url alone means it), `local` (a server of
    chat completions, such as Ollama) or `litellm` (PROVIDER/MODEL of the library LiteLLM, by that provider's own
    variables). base_url, api_key: of `endpoint` and `local`. effort, verbosity, summary: None leaves the model's own.
    timeout: seconds of a call, its start and its repair included. max_retries: further tries of a call that failed for
    a passing reason; a rate limit is raised (with a login the app-server waits for it once), and what five tries of the
    app-server failed at. home: data folder; the desk's own by default. binary: of Codex; that of the pinned wheel by
    default. ca_file: PEM of trust roots; that of DESK_CODEX_CA_FILE by default. Each call is a thread of its own:
    nothing is remembered between calls.

    Within a worker of the desk the runtime, the provider and the limits are the desk's.
    """

    model_config = ConfigDict(populate_by_name=True, arbitrary_types_allowed=True)

    model_name: str = Field(default="gpt-5.5", alias="model")
    provider: Provider = "codex"
    base_url: str | None = None
    api_key: SecretStr | None = None
    effort: str | None = Field(default=None, alias="reasoning_effort")
    verbosity: str | None = None
    summary: str | None = None
    timeout: float | None = Field(default=180.0, gt=0)
    max_retries: int = Field(default=2, ge=0)
    home: Path | None = None
    binary: Path | None = None
    ca_file: Path | None = Field(default_factory=_trust_roots)
    stop: list[str] | None = None
    streaming: bool = False  # LangChain reads it: whether `invoke` streams where callbacks listen

    _warned: bool = PrivateAttr(default=False)
    _by_settings: ClassVar[bool] = False  # its arguments are made of the desk's settings, which errors name then

    @model_validator(mode="before")
    @classmethod
    def _endpoint_of_a_url(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        known = cls.arguments()
        if unknown := sorted(set(data) - known):
            raise ValueError(f"ChatCodex takes no {', '.join(unknown)}; it takes {', '.join(sorted(known))}")
        found = {key: value for key, value in data.items() if key not in IGNORED}
        for name in TIMEOUTS & set(found):
            found["timeout"] = found.pop(name)
        if ignored := [name for name in IGNORED if name in data]:
            _warn(ignored)
        name = "model" if "model" in found else "model_name"
        if isinstance(found.get(name), str):
            if not found[name].strip():
                raise ValueError("model is empty: name a model, such as gpt-5.5, or leave it out")
            found |= arguments_of(found.pop(name), found)
        if found.get("base_url"):
            found.setdefault("provider", "endpoint")
        if found.get("provider") == LITELLM and (own := [key for key in ("base_url", "api_key") if found.get(key)]):
            raise ValueError(f"{own[0]} is not taken: LiteLLM reads the variables of the model's provider")
        if (provider := found.get("provider")) in ("endpoint", "local") and not found.get("base_url"):
            raise ValueError(f"provider={provider!r} needs a base_url")
        if (url := found.get("base_url")) and not _is_url(str(url)):
            raise ValueError(f"base_url={masked(str(url))!r} is not a URL: write it as http://HOST:PORT/v1")
        if url and found.get("api_key") and "@" in urlsplit(str(url)).netloc:
            raise ValueError("base_url has a login, and api_key is given: a request carries one of them")
        return found

    @classmethod
    def arguments(cls) -> set[str]:
        fields = cls.model_fields
        return {*fields, *(one.alias for one in fields.values() if one.alias), *IGNORED, *TIMEOUTS}

    @property
    def _llm_type(self) -> str:
        return "codex"

    @classmethod
    def is_lc_serializable(cls) -> bool:
        return True

    @classmethod
    def get_lc_namespace(cls) -> list[str]:
        return ["chordesk", "langchain"]

    @property
    def lc_secrets(self) -> dict[str, str]:
        return {"api_key": "DESK_PROVIDER_KEY"}

    def get_num_tokens(self, text: str) -> int:
        """Return the tokens of a text, estimated, rather too many: no tokenizer of a model is asked."""
        return tokens_of(text)

    def get_num_tokens_from_messages(
        self,
        messages: list[BaseMessage],
        tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool] | None = None,
    ) -> int:
        """Return the tokens of a conversation, estimated, as `trim_messages(token_counter=model)` asks."""
        items = [item for message in messages for item in _items(message)]
        found = sum(_tokens(item) for item in items)
        return found + sum(_tokens(convert_to_openai_tool(tool)) for tool in tools or ())

    @property
    def _identifying_params(self) -> dict[str, Any]:
        names = ("model_name", "provider", "base_url", "effort", "verbosity", "summary")
        return {name: getattr(self, name) for name in names}

    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> LangSmithParams:
        bridge = current()
        served = bridge.serving(self.model_name) if bridge is not None else None
        who = answering(*(served or (self.provider, self.model_name)), None if served else self.base_url)
        return {**super()._get_ls_params(stop, **kwargs), "ls_provider": who}

    def _resolve_model_profile(self) -> ModelProfile:
        """Return what every model does here, as LangChain chooses its strategy for structured answers by it; and the
        limits in tokens of a model whose maker states them, of which middleware takes fractions."""
        limits = next((limits for begin, limits in _LIMITS.items() if self.model_name.startswith(begin)), None)
        return {
            "text_inputs": True,
            "text_outputs": True,
            "tool_calling": True,
            "tool_choice": True,
            "structured_output": True,
            **({} if limits is None else {"max_input_tokens": limits[0], "max_output_tokens": limits[1]}),
        }

    def bind_tools(
        self,
        tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool],
        *,
        tool_choice: str | bool | Mapping[str, Any] | None = None,
        parallel_tool_calls: bool | None = None,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, AIMessage]:
        given = {"tools": [convert_to_openai_tool(tool) for tool in tools], **kwargs}
        if tool_choice is not None:
            given["tool_choice"] = _choice(tool_choice)
        if parallel_tool_calls is not None:
            given["parallel_tool_calls"] = parallel_tool_calls
        return self.bind(**given)

    def with_structured_output(
        self, schema: dict[str, Any] | type, *, include_raw: bool = False, **kwargs: Any
    ) -> Runnable[LanguageModelInput, Any]:
        """Return the model with answers of a schema: a pydantic model, a TypedDict or a JSON schema. method and strict
        are taken and make no difference: every answer is of a strict schema."""
        ignored = {"method", "strict", "tools"}
        if unknown := set(kwargs) - ignored:
            raise ValueError(f"with_structured_output takes no {', '.join(sorted(unknown))}")
        asked = answer_schema(schema)
        tracing = {"kwargs": {"method": kwargs.get("method") or "json_schema"}, "schema": schema}
        model = self.bind(
            response_format=asked, answer_type=schema, lenient=include_raw, ls_structured_output_format=tracing
        )
        parser = AnswerParser(answer_type=schema)
        if not include_raw:
            return model | parser
        assign = RunnablePassthrough.assign(parsed=itemgetter("raw") | parser, parsing_error=lambda _: None)
        none = RunnablePassthrough.assign(parsed=lambda _: None)
        return RunnableMap(raw=model) | assign.with_fallbacks([none], exception_key="parsing_error")

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        bridge, call = self._bridge(), self._call(messages, run_manager, kwargs)
        for left in range(self.max_retries, -1, -1):
            try:
                return _result(call, _ended(bridge.submit(bridge.answer(call))), self._stops(stop))
            except ChatError as error:
                if not self._again(error, left, call):
                    raise
        raise AssertionError("unreachable")

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        bridge, call = self._bridge(), self._call(messages, run_manager, kwargs)
        for left in range(self.max_retries, -1, -1):
            try:
                answer = await asyncio.wrap_future(bridge.submit(bridge.answer(call)))
                return _result(call, answer, self._stops(stop))
            except ChatError as error:
                if not self._again(error, left, call):
                    raise
        raise AssertionError("unreachable")

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        bridge, call = self._bridge(), self._call(messages, run_manager, kwargs)
        texts: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        future = bridge.submit(bridge.answer(call, texts.put))
        future.add_done_callback(lambda _future: texts.put(None))
        growing = Growing(call.format, self._stops(stop), parts=_in_parts(kwargs))
        try:
            while (text := texts.get()) is not None:
                if chunk := _growth(growing, text):
                    yield _emitted(chunk, run_manager)
        finally:
            future.cancel()
        yield from (_emitted(chunk, run_manager) for chunk in self._last(call, future, growing))

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        bridge, call = self._bridge(), self._call(messages, run_manager, kwargs)
        loop, texts = asyncio.get_running_loop(), asyncio.Queue[str | None]()

        def put(text: str | None) -> None:
            loop.call_soon_threadsafe(texts.put_nowait, text)

        future = bridge.submit(bridge.answer(call, put))
        future.add_done_callback(lambda _future: put(None))
        growing = Growing(call.format, self._stops(stop), parts=_in_parts(kwargs))
        try:
            while (text := await texts.get()) is not None:
                if chunk := _growth(growing, text):
                    yield await _aemitted(chunk, run_manager)
        finally:
            future.cancel()
        for chunk in self._last(call, future, growing):
            yield await _aemitted(chunk, run_manager)

    def _last(
        self, call: ChatCall, future: concurrent.futures.Future[ChatAnswer], growing: Growing
    ) -> Iterator[ChatGenerationChunk]:
        """Yield what was not streamed: the rest of the text, the calls, and what the call used. Raises ChatError."""
        answer = future.result()
        if rest := growing.rest(answer.reply.content):
            yield _piece(rest)
        calls = [
            tool_call_chunk(name=one["name"], args=orjson.dumps(one["args"]).decode(), id=one["id"], index=place)
            for place, one in enumerate(answer.reply.calls)
        ]
        message = AIMessageChunk(
            content="",
            tool_call_chunks=calls,
            usage_metadata=_usage(answer.usage),
            response_metadata=_metadata(call, answer),
            chunk_position="last",
        )
        yield ChatGenerationChunk(message=message)

    def _bridge(self) -> Bridge:
        if (bridge := current()) is not None:
            return bridge
        require_known(self.model_name, self.provider)
        home = self.home.expanduser().resolve() if self.home is not None else data_folder()  # Codex runs elsewhere
        key = self.api_key.get_secret_value() if self.api_key is not None else None
        return own_bridge(
            Connection(
                self.model_name, self.provider, self.base_url, key, home, self.binary, self.ca_file, self._by_settings
            )
        )

    def _call(self, messages: Sequence[BaseMessage], run_manager: Any, given: Mapping[str, Any]) -> ChatCall:
        known = {
            "tools",
            "tool_choice",
            "parallel_tool_calls",
            "response_format",
            "answer_type",
            "lenient",
            "ls_structured_output_format",
            "effort",
        }
        self._warn_once(set(given) - known - {"strict", "stream", "reasoning_effort"})
        found = reply_format(
            given.get("tools") or (),
            given.get("tool_choice"),
            parallel=given.get("parallel_tool_calls", True) is not False,
            answer=_shape(given),
        )
        metadata = getattr(run_manager, "metadata", None) or {}
        return ChatCall(
            model=self.model_name,
            items=items_of(messages),
            format=found,
            seconds=self.timeout or 86_400.0,
            lenient=bool(given.get("lenient")),
            effort=given.get("effort") or given.get("reasoning_effort") or self.effort,
            summary=self.summary,
            verbosity=self.verbosity,
            node=str(metadata.get("langgraph_node") or ""),
        )

    def _again(self, error: ChatError, left: int, call: ChatCall) -> bool:
        """With a login the app-server has tried what the server failed at five times by itself."""
        tried = error.kind == "server_error" and self.provider == "codex"
        return left > 0 and error.retryable and not tried and not isinstance(error, RateLimited | TimedOut)

    def _stops(self, stop: list[str] | None) -> list[str]:
        return [*(stop or ()), *(self.stop or ())]

    def _warn_once(self, names: set[str]) -> None:
        if names and not self._warned:
            self._warned = True
            _warn(sorted(names))


def _shape(given: Mapping[str, Any]) -> AnswerShape | None:
    if (wanted := given.get("response_format")) is None:
        return None
    schema, kind = answer_schema(wanted), given.get("answer_type") or wanted
    return AnswerShape(schema, partial(_answer, kind, schema))


def _warn(names: Any) -> None:
    warnings.warn(f"ChatCodex has no {', '.join(names)}: the app-server does not pass it on", stacklevel=4)


def _choice(choice: str | bool | Mapping[str, Any]) -> str:
    if isinstance(choice, bool):
        return "any" if choice else "none"
    if isinstance(choice, str):
        return choice
    return str((choice.get("function") or choice).get("name") or choice.get("type"))


def _ended(future: concurrent.futures.Future[ChatAnswer]) -> ChatAnswer:
    try:
        return future.result()
    except BaseException:
        future.cancel()  # as Ctrl-C leaves it: the turn would go on
        raise


def _result(call: ChatCall, answer: ChatAnswer, stop: Sequence[str]) -> ChatResult:
    message = AIMessage(
        content=cut(answer.reply.content, stop),
        tool_calls=list(answer.reply.calls),
        usage_metadata=_usage(answer.usage),
        response_metadata=_metadata(call, answer),
    )
    return ChatResult(generations=[ChatGeneration(message=message)], llm_output={"model_name": call.model})


def cut(text: str, stop: Sequence[str]) -> str:
    places = [place for sequence in stop if sequence and (place := text.find(sequence)) >= 0]
    return text[: min(places)] if places else text


def _metadata(call: ChatCall, answer: ChatAnswer) -> dict[str, Any]:
    last = answer.turns[-1]
    return {
        "model_name": last.model or call.model,
        "model_provider": "codex",
        "thread_id": last.thread_id,
        "turn_id": last.turn_id,
        "turns": len(answer.turns),
        "finish_reason": "tool_calls" if answer.reply.calls else "stop",
    }


def _usage(usage: Usage) -> UsageMetadata | None:
    """Return the tokens of a call; None where the provider gave no figure for the parts that LangChain requires."""
    if usage.input_tokens is None or usage.output_tokens is None:
        return None
    total = usage.total_tokens
    found = UsageMetadata(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        total_tokens=total if total is not None else usage.input_tokens + usage.output_tokens,
    )
    if usage.cached_input_tokens is not None:
        found["input_token_details"] = {"cache_read": usage.cached_input_tokens}
    if usage.reasoning_tokens is not None:
        found["output_token_details"] = {"reasoning": usage.reasoning_tokens}
    return found


def _in_parts(given: Mapping[str, Any]) -> bool:
    """Whether the answer is a dict, of which half is a dict too: half of a model's object is none of the model."""
    kind = given.get("answer_type")
    return isinstance(kind, Mapping) or (isinstance(kind, type) and not is_basemodel_subclass(kind))


def _growth(growing: Growing, text: str) -> ChatGenerationChunk | None:
    if piece := growing.piece(text):
        return _piece(piece)
    if (part := growing.part(text)) is None:
        return None
    return ChatGenerationChunk(message=AIMessageChunk(content="", **{PART: part}))


def _piece(text: str) -> ChatGenerationChunk:
    return ChatGenerationChunk(message=AIMessageChunk(content=text))


def _emitted(chunk: ChatGenerationChunk, run_manager: CallbackManagerForLLMRun | None) -> ChatGenerationChunk:
    if run_manager is not None:
        run_manager.on_llm_new_token(chunk.text, chunk=chunk)
    return chunk


async def _aemitted(
    chunk: ChatGenerationChunk, run_manager: AsyncCallbackManagerForLLMRun | None
) -> ChatGenerationChunk:
    if run_manager is not None:
        await run_manager.on_llm_new_token(chunk.text, chunk=chunk)
    return chunk
