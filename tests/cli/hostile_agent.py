"""An agent whose every text tries to act on the terminal. Run by the tests; needs nothing but Python."""

from __future__ import annotations

import json
import sys
from typing import Any

EVIL = "\x1b]0;owned\x07\x1b[2J\x1b[31m\x9b2J\x00\x08\x7f\u202egnp.exe\u202c\u2066\u200b\r!"
ENTITIES = "&#x202e;entity&#27;[2J&#x9b; [click](https://example.org/\u202e) <b>html</b> ![i](x)"


def write(**message: Any) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def update(what: str, **members: Any) -> None:
    params = {"sessionId": "s", "update": {"sessionUpdate": what, **members}}
    write(method="session/update", params=params)


def text(words: str) -> dict[str, str]:
    return {"type": "text", "text": words}


def ask(number: int, method: str, **params: Any) -> None:
    write(id=number, method=method, params={"sessionId": "s", **params})
    for line in sys.stdin:
        answer = json.loads(line)
        if answer.get("id") == number and "method" not in answer:
            update("agent_message_chunk", content=text(f"answer {number}: {json.dumps(answer['result'])}"))
            return


def frame(key: str, summary: str, props: object) -> str:
    envelope = {
        "protocol": "agentskit.chat.component",
        "version": 1,
        "type": "render",
        "componentKey": key,
        "instanceId": "i-1",
        "props": props,
        "fallback": {"kind": EVIL, "summary": summary},
    }
    return json.dumps(envelope)


def turn() -> None:
    update("agent_thought_chunk", content=text(f"thought {EVIL}\n"))
    update(
        "agent_message_chunk", content=text(f"message {EVIL}\n\n{ENTITIES}\n\n```{EVIL}\ncode {EVIL}\n```\n")
    )
    update("plan", entries=[{"content": f"step {EVIL}", "status": EVIL}])
    diff = {"type": "diff", "path": EVIL, "oldText": f"old {EVIL}\n", "newText": f"new {EVIL}\n"}
    content = [diff, {"type": "content", "content": text(f"output {EVIL}")}]
    update("tool_call", toolCallId="c", title=f"tool {EVIL}", kind=EVIL, status=EVIL, content=content)
    update("session_info_update", title=EVIL)
    update("available_commands_update", availableCommands=[{"name": f"x{EVIL}", "description": EVIL}])
    options = [{"optionId": EVIL, "name": f"option {EVIL}", "kind": "allow_once"}]
    options.append({"optionId": "no", "name": "no", "kind": "reject_once"})
    call = {"toolCallId": "d", "title": f"permission {EVIL}"}
    ask(1, "session/request_permission", toolCall=call, options=options)
    rules = {"type": "string", "oneOf": [{"const": "a", "title": f"choice {EVIL}", "description": EVIL}]}
    schema = {"properties": {"p": rules}, "required": ["p"]}
    ask(2, "elicitation/create", mode="form", message=f"question {EVIL}", requestedSchema=schema)
    rules = {"type": "string", "title": f"field {EVIL}", "description": EVIL, "format": EVIL, "default": EVIL}
    schema = {"properties": {"p": rules}, "required": ["p"], "title": EVIL}
    ask(3, "elicitation/create", mode="form", message=f"form {EVIL}", requestedSchema=schema)
    choices = [{"id": "a", "label": f"label {EVIL}", "description": EVIL}]
    update("agent_message_chunk", content=text(frame("future", f"summary {EVIL}", None)), messageId="f1")
    listed = frame("choice-list", "s", {"prompt": f"list {EVIL}", "choices": choices})
    update("agent_message_chunk", content=text(listed), messageId="f2")


def main() -> None:
    print(f"stderr {EVIL}", file=sys.stderr)
    for line in sys.stdin:
        request = json.loads(line)
        match request.get("method"):
            case "initialize":
                info = {"name": EVIL, "title": EVIL}
                write(id=request["id"], result={"protocolVersion": 1, "agentInfo": info})
            case "session/new":
                modes = {"currentModeId": "m", "availableModes": [{"id": "m", "name": EVIL}]}
                write(id=request["id"], result={"sessionId": "s", "modes": modes})
            case "session/prompt":
                turn()
                write(id=request["id"], result={"stopReason": EVIL})
            case _:
                pass
    sys.exit(7)


main()
