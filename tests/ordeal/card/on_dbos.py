"""The loop on DBOS with plain steps, as its pages have it. A restart is the same command."""

import json
import os

from dbos import DBOS, SetWorkflowID
from openai import OpenAI

from tests.ordeal.card.material import text

DBOS(config={"name": "card", "system_database_url": os.environ["DATABASE"]})
client = OpenAI()
PARAMETERS = {"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]}
TOOLS = [{"type": "function", "function": {"name": "look", "parameters": PARAMETERS}}]


@DBOS.step()
def ask(messages):
    answer = client.chat.completions.create(model="gpt-5.5", messages=messages, tools=TOOLS)
    return answer.choices[0].message.model_dump(exclude_none=True)


@DBOS.step()
def look(number):
    return text(number)


@DBOS.workflow()
def loop(question):
    messages = [{"role": "user", "content": question}]
    while True:
        messages.append(answer := ask(messages))
        if not answer.get("tool_calls"):
            return answer["content"]
        for call in answer["tool_calls"]:
            found = look(**json.loads(call["function"]["arguments"]))
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": found})


DBOS.launch()
with SetWorkflowID("card"):
    DBOS.start_workflow(loop, "Begin.").get_result()
