"""Structured answers: a caller's type as the JSON schema that is sent, and the answer as the caller's type."""

from __future__ import annotations

from typing import Any

import orjson
from langchain_core.exceptions import OutputParserException
from langchain_core.output_parsers import BaseOutputParser
from langchain_core.outputs import Generation
from langchain_core.utils.function_calling import convert_to_json_schema
from langchain_core.utils.pydantic import is_basemodel_subclass
from pydantic import BaseModel


def answer_schema(schema: dict[str, Any] | type) -> dict[str, Any]:
    """Return the JSON schema of an answer's type."""
    if isinstance(schema, type) and issubclass(schema, BaseModel):
        return schema.model_json_schema()
    return dict(convert_to_json_schema(schema))


class AnswerParser(BaseOutputParser[Any]):
    """Parser of a structured answer: an object of the pydantic model, or a dict."""

    answer_type: Any

    def parse_result(self, result: list[Generation], *, partial: bool = False) -> Any:
        text = result[0].text
        if partial and not text:
            return None
        return self.parse(text)

    def parse(self, text: str) -> Any:
        """Return the answer in a text. Raises OutputParserException."""
        try:
            value = orjson.loads(text.encode())  # LangChain's text is of a class of its own
            kind = self.answer_type
            if not (isinstance(kind, type) and is_basemodel_subclass(kind)):
                return value
            old: Any = kind  # pydantic 1
            return kind.model_validate(value) if issubclass(kind, BaseModel) else old.parse_obj(value)
        except ValueError as error:
            raise OutputParserException(f"the answer does not fit: {error}", llm_output=text) from error

    @property
    def _type(self) -> str:
        return "codex_answer"
