"""A stub agent on stdio, standard library only: a prompt turn has updates and a question to the client."""

import json
import sys
from typing import Any


def send(**message: Any) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def receive() -> dict[str, Any]:
    line = sys.stdin.readline()
    if not line:
        sys.exit(0)
    message: dict[str, Any] = json.loads(line)
    return message


def say(session: str, text: str) -> None:
    update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}
    send(method="session/update", params={"sessionId": session, "update": update})


def prompt(params: dict[str, Any]) -> dict[str, Any]:
    session = params["sessionId"]
    for text in ("You said: ", params["prompt"][0]["text"], " \u2028 "):
        say(session, text)
    options = [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}]
    call = {"toolCallId": "t1", "title": "Think"}
    # The id 0 is also one that clients use: both sides count for themselves.
    send(
        id=0,
        method="session/request_permission",
        params={"sessionId": session, "toolCall": call, "options": options},
    )
    answer = receive()
    say(session, f"permission {answer['result']['outcome']['optionId']}")
    return {"stopReason": "end_turn"}


def answer(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    match method:
        case "initialize":
            return {"protocolVersion": 1, "agentCapabilities": {}, "authMethods": []}
        case "session/new":
            return {"sessionId": "session-1"}
        case "session/prompt":
            return prompt(params)
    return None


def main() -> None:
    while True:
        message = receive()
        if "id" not in message or "method" not in message:
            continue
        result = answer(message["method"], message.get("params") or {})
        if result is None:
            send(id=message["id"], error={"code": -32601, "message": "Method not found"})
        else:
            send(id=message["id"], result=result)


main()
