"""What programs of LangChain ask of a chat model beside its answers: tokens of a conversation, and its text form."""

from __future__ import annotations

from langchain_core.load import dumps, loads
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage, trim_messages

from chordesk.langchain import ChatCodex

PICTURE = {"type": "image", "base64": "A" * 100_000, "mime_type": "image/png"}
CALL = {"id": "1", "name": "get", "args": {"symbol": "IBM"}}


def test_a_conversation_is_trimmed_by_the_model_s_own_count() -> None:
    model = ChatCodex(model="gpt-5.5")
    asked = HumanMessage([{"type": "text", "text": "see"}, PICTURE])
    messages = [SystemMessage("short"), HumanMessage("word " * 2000), AIMessage("", tool_calls=[CALL])]
    messages += [ToolMessage("1.0", tool_call_id="1"), asked]
    kept = trim_messages(messages, max_tokens=2500, token_counter=model, strategy="last", include_system=True)
    assert kept == [messages[0], *messages[2:]]
    tool = {"name": "get", "description": "Get a price.", "parameters": {"type": "object", "properties": {}}}
    assert model.get_num_tokens_from_messages(messages, [tool]) > model.get_num_tokens_from_messages(messages) > 3000


def test_a_model_is_written_without_its_key_and_read_again() -> None:
    model = ChatCodex(model="gpt-5.5", base_url="http://127.0.0.1:1/v1", api_key="sk-secret", effort="low")
    text = dumps(model)
    assert "sk-secret" not in text
    secrets = {"DESK_PROVIDER_KEY": "sk-secret"}
    assert loads(text, allowed_objects=[ChatCodex], valid_namespaces=["chordesk"], secrets_map=secrets) == model
