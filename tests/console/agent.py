"""An agent for the browser tests: the prompt's first word says what it does. One turn at a time."""

from __future__ import annotations

import itertools
import json
import sys
import time
from collections.abc import Iterator
from typing import Any

Json = dict[str, Any]

SVG = "<svg onload=ran('svg')><script>ran('script')</script></svg>"
HOSTILE = (
    f"<img src=x onerror=ran('img')>{SVG}<a href='https://evil.example/'>link</a> https://evil.example/ "
    "[click](javascript:ran('md')) ![p](https://evil.example/p.png) "
    "\u202egnp.exe \u2066x\u2069 \u200b\x1b[31mred\x07 "
)
"""What a hostile agent puts into every text that it may write."""

MARKDOWN = """\
## What happens

The relay keeps **every frame** until the other side has *acknowledged* it. Three things matter:

1. The number of a frame is its place in the stream.
2. `ack` says what was *taken*, not what was read.
3. A cut connection goes on where it stopped.

| part | keeps |
|---|---|
| journal | frames without an `ack` |
| window | at most 16 MiB |

```python
def replay(journal, received):
    return [frame for number, frame in journal if number > received]
```
"""

OLD = """\
def retry(dial, limit=5):
    pause = 1
    for attempt in range(limit):
        try:
            return dial()
        except OSError:
            time.sleep(pause)
    raise ConnectionError("gave up")
"""
NEW = OLD.replace(
    "            time.sleep(pause)\n",
    "            time.sleep(pause * random.uniform(0.75, 1.25))\n            pause = min(pause * 2, 30)\n",
)

OUTPUT = (
    "\x1b[1m$ pytest -q tests/test_client.py\x1b[0m\n"
    "\x1b[32m........\x1b[0m                                  [100%]\n"
    "\x1b[32m8 passed\x1b[0m in 0.41s\n"
)
DONE = """\
Done. The pause now **doubles up to 30 seconds** and varies by a quarter, so clients no longer return \
in step. All eight tests pass.

Two things you may want to know:

- `limit` still means tries, not seconds.
- A refused connection counts as a try.
"""


class Agent:
    def __init__(self) -> None:
        self.ids = itertools.count(1)
        self.modes = {
            "currentModeId": "ask",
            "availableModes": [{"id": "ask", "name": "Ask"}, {"id": "auto", "name": "Auto"}],
        }
        self.cancelled = False
        self.session = ""

    def send(self, **message: Any) -> None:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()

    def read(self) -> Json:
        line = sys.stdin.readline()
        if not line:
            raise SystemExit(0)
        message: Json = json.loads(line)
        self.cancelled = self.cancelled or message.get("method") == "session/cancel"
        return message

    def ask(self, method: str, **params: Any) -> Json:
        """Sends a request and waits for its answer; a cancel on the way is remembered."""
        number = next(self.ids)
        self.send(id=number, method=method, params={"sessionId": self.session, **params})
        while True:
            message = self.read()
            if message.get("id") == number and "method" not in message:
                return message

    def update(self, kind: str, /, **fields: Any) -> None:
        update = {"sessionUpdate": kind, **fields}
        self.send(method="session/update", params={"sessionId": self.session, "update": update})

    def say(self, text: str, **fields: Any) -> None:
        self.update("agent_message_chunk", content={"type": "text", "text": text}, **fields)

    def serve(self) -> None:
        while True:
            message = self.read()
            handler = getattr(self, "on_" + message.get("method", "").replace("/", "_"), None)
            if "id" not in message or "method" not in message:
                continue
            if handler is None:
                self.send(id=message["id"], error={"code": -32601, "message": "no such method"})
                continue
            result = handler(message["params"])
            self.send(
                id=message["id"], **({"error": result["error"]} if "error" in result else {"result": result})
            )

    def on_initialize(self, params: Json) -> Json:
        self.asked = params
        return {
            "protocolVersion": 1,
            "agentInfo": {"name": "scripted", "title": "Scripted", "version": "2.1"},
            "agentCapabilities": {"loadSession": True, "sessionCapabilities": {"list": {}}},
        }

    def on_session_new(self, params: Json) -> Json:
        if params["cwd"] == "/missing":
            return {
                "error": {"code": -32602, "message": "no such directory", "data": {"details": "/missing"}}
            }
        self.session = f"session-{next(self.ids)}"
        return {
            "sessionId": self.session,
            "modes": self.modes,
            "configOptions": [
                {
                    "id": "model",
                    "name": "Model",
                    "type": "select",
                    "currentValue": "large",
                    "options": [{"value": "large", "name": "Large"}, {"value": "small", "name": "Small"}],
                }
            ],
        }

    def on_session_list(self, params: Json) -> Json:
        return {"sessions": [{"sessionId": "kept-1", "cwd": "/srv/site", "title": "Rename the flags"}]}

    def on_session_load(self, params: Json) -> Json:
        self.session = params["sessionId"]
        self.update("user_message_chunk", content={"type": "text", "text": "rename the flags"})
        self.say("Both flags have new names.")
        return {"modes": self.modes}

    def on_session_set_mode(self, params: Json) -> Json:
        self.modes["currentModeId"] = params["modeId"]
        return {}

    def on_session_prompt(self, params: Json) -> Json:
        self.session = params["sessionId"]
        self.cancelled = False
        text = "".join(block.get("text", "") for block in params["prompt"])
        word, _, rest = text.partition(" ")
        act = getattr(self, "do_" + word.lower(), self.do_echo)
        failure = act(rest)
        return failure or {"stopReason": "cancelled" if self.cancelled else "end_turn"}

    # ---- what a prompt can ask for

    def do_echo(self, rest: str) -> Json | None:
        self.say(f"You said: {rest}")
        return None

    def do_markdown(self, rest: str) -> Json | None:
        for piece in MARKDOWN.splitlines(keepends=True):
            self.say(piece)
        return None

    def do_slow(self, rest: str) -> Json | None:
        """Numbers until the turn is cancelled."""
        for number in range(int(rest or 200)):
            self.say(f"[{number}] ")
            time.sleep(0.02)
        return None

    def do_wait(self, rest: str) -> Json | None:
        """Waits for a cancel."""
        self.say("Waiting.")
        while not self.cancelled:
            self.read()
        return None

    def do_fail(self, rest: str) -> Json | None:
        return {
            "error": {"code": -32603, "message": "the model is out of reach", "data": {"details": "timeout"}}
        }

    def do_die(self, rest: str) -> Json | None:
        raise SystemExit(3)

    def do_permission(self, rest: str) -> Json | None:
        self.update("tool_call", toolCallId="t1", title="Write notes.txt", kind="edit", status="pending")
        options = [
            {"optionId": "yes/1", "name": "Allow", "kind": "allow_once"},
            {"optionId": "no 2", "name": "Reject", "kind": "reject_once"},
        ]
        answer = self.ask("session/request_permission", toolCall={"toolCallId": "t1"}, options=options)
        self.say(f"Answer: {json.dumps(answer['result'])}")
        return None

    def do_choice(self, rest: str) -> Json | None:
        zone = {
            "type": "string",
            "default": "eu west/2",
            "oneOf": [
                {"const": "eu west/2", "title": "Europe", "description": "Default region"},
                {"const": "us", "title": "America"},
            ],
        }
        schema = {"type": "object", "required": ["zone"], "properties": {"zone": zone}}
        answer = self.ask(
            "elicitation/create", mode="form", message="Target for the upload?", requestedSchema=schema
        )
        self.say(f"Answer: {json.dumps(answer['result'])}")
        return None

    def do_form(self, rest: str) -> Json | None:
        properties = {
            "name": {
                "type": "string",
                "title": "Project name",
                "minLength": 2,
                "description": "Shown on the page.",
            },
            "mail": {"type": "string", "title": "Contact", "format": "email"},
            "port": {"type": "integer", "title": "Port", "minimum": 1, "maximum": 65535, "default": 8080},
            "public": {"type": "boolean", "title": "Open to everyone", "default": False},
            "tier": {"type": "string", "title": "Tier", "enum": ["small", "large"]},
            "parts": {
                "type": "array",
                "title": "Parts",
                "minItems": 1,
                "items": {"anyOf": [{"const": "a", "title": "API"}, {"const": "w", "title": "Worker"}]},
            },
        }
        schema = {"type": "object", "required": ["name", "port", "parts"], "properties": properties}
        answer = self.ask(
            "elicitation/create", mode="form", message="Set up the service", requestedSchema=schema
        )
        self.say(f"Answer: {json.dumps(answer['result'])}")
        return None

    def do_url(self, rest: str) -> Json | None:
        url = rest or "https://login.example.org/device?code=AB-12"
        answer = self.ask("elicitation/create", mode="url", message="Sign in.", elicitationId="e1", url=url)
        self.send(method="elicitation/complete", params={"elicitationId": "e1"})
        self.say(f"Answer: {json.dumps(answer['result'])}")
        return None

    def do_withdraw(self, rest: str) -> Json | None:
        """Asks, and takes the question back."""
        number = next(self.ids)
        schema = {"type": "object", "properties": {"x": {"type": "string", "enum": ["a"]}}}
        params = {
            "sessionId": self.session,
            "mode": "form",
            "message": "Never mind?",
            "requestedSchema": schema,
        }
        self.send(id=number, method="elicitation/create", params=params)
        self.send(method="$/cancel_request", params={"requestId": number})
        answer = self.read()
        self.say(f"Answer: {json.dumps(answer['result'])}")
        return None

    def do_frame(self, rest: str) -> Json | None:
        """Sends the component frames that the prompt holds, in pieces."""
        for number, frame in enumerate(json.loads(rest)):
            text = frame if isinstance(frame, str) else json.dumps(frame)
            for at in range(0, len(text), 40):
                self.say(text[at : at + 40], messageId=f"m{number}")
        return None

    def do_unknown(self, rest: str) -> Json | None:
        answer = self.ask("fs/read_text_file", path="/etc/hostname")
        self.say(f"Answer: {answer['error']['code']}")
        return None

    def do_hostile(self, rest: str) -> Json | None:
        for send in self.hostile():
            send()
        return None

    def hostile(self) -> Iterator[Any]:
        text = {"type": "text", "text": HOSTILE}
        self.say("{0}\n\n# {0}\n\n- {0}\n\n```{0}\n{0}\n```\n\n".replace("{0}", HOSTILE))
        self.update("agent_thought_chunk", content=text)
        self.update("plan", entries=[{"content": HOSTILE, "priority": "high", "status": "in_progress"}])
        parts: list[Json] = [
            text,
            {"type": "resource_link", "name": HOSTILE, "uri": "javascript:ran('uri')"},
            {"type": "resource", "resource": {"uri": HOSTILE, "text": HOSTILE}},
            {"type": "image", "mimeType": "image/svg+xml", "data": "PHN2Zz4="},
            {"type": "image", "mimeType": 'image/png"onerror="ran(1)', "data": "AA=="},
            {"type": "image", "mimeType": "image/png", "data": '"onerror="ran(1)'},
        ]
        content = [{"type": "content", "content": part} for part in parts]
        content.append({"type": "diff", "path": HOSTILE, "oldText": "", "newText": HOSTILE})
        tool = {"title": HOSTILE, "kind": "execute", "status": "failed", "content": content}
        more = {
            "locations": [{"path": HOSTILE, "line": 1}],
            "rawInput": {HOSTILE: HOSTILE},
            "rawOutput": HOSTILE,
        }
        self.update("tool_call", toolCallId="__proto__", **tool, **more)
        commands = [{"name": HOSTILE, "description": HOSTILE}]
        self.update("available_commands_update", availableCommands=commands)
        self.update("session_info_update", title=HOSTILE)
        self.update("notice", severity="warning", title=HOSTILE, description=HOSTILE)
        self.update("usage_update", used=1, size=2, cost={"amount": 1, "currency": HOSTILE})
        option = {"id": "x", "name": HOSTILE, "type": "select", "currentValue": "a"}
        options: list[Json] = [{"value": "a", "name": HOSTILE}]
        self.update("config_option_update", configOptions=[{**option, "options": options}])
        choices = [{"id": "a", "label": HOSTILE[:250], "description": HOSTILE}]
        frame = {
            "protocol": "agentskit.chat.component",
            "version": 1,
            "type": "render",
            "componentKey": "choice-list",
            "instanceId": "constructor",
            "props": {"prompt": HOSTILE, "choices": choices},
            "fallback": {"kind": "choice-list", "summary": HOSTILE},
        }
        self.say(json.dumps(frame), messageId="f1")
        self.say(json.dumps({**frame, "componentKey": "other"}), messageId="f2")
        options = [{"optionId": HOSTILE, "name": HOSTILE, "kind": HOSTILE}]
        yield lambda: self.ask(
            "session/request_permission", toolCall={"toolCallId": HOSTILE, "title": HOSTILE}, options=options
        )
        item = {"title": HOSTILE, "description": HOSTILE}
        properties = {
            HOSTILE: {"type": "string", **item},
            "__proto__": {"type": "string", **item, "default": HOSTILE},
            "enum": {"type": "string", **item, "oneOf": [{"const": HOSTILE, **item}]},
            "number": {"type": "number", **item},
        }
        schema = {"type": "object", **item, "properties": properties}
        yield lambda: self.ask("elicitation/create", mode="form", message=HOSTILE, requestedSchema=schema)
        yield lambda: self.ask(
            "elicitation/create", mode="url", message=HOSTILE, elicitationId="e", url="javascript:ran('url')"
        )

    def do_story(self, rest: str) -> Json | None:
        """One realistic turn, with everything in it."""
        thought = "The retry loop sleeps the same second each time. It should grow, with some jitter."
        self.update("agent_thought_chunk", content={"type": "text", "text": thought})
        steps = ["Read the retry loop", "Let the pause grow, with jitter", "Run the tests"]

        def plan(done: int) -> None:
            states = ["completed"] * done + ["in_progress"] + ["pending"] * 3
            self.update(
                "plan",
                entries=[
                    {"content": s, "priority": "medium", "status": t}
                    for s, t in zip(steps, states, strict=False)
                ],
            )

        plan(0)
        self.update(
            "tool_call",
            toolCallId="r",
            title="Read client.py",
            kind="read",
            status="completed",
            locations=[{"path": "src/client.py", "line": 41}],
        )
        plan(1)
        self.say("The pause is always one second, so clients come back in step. I will let it grow:")
        diff = [{"type": "diff", "path": "src/client.py", "oldText": OLD, "newText": NEW}]
        self.update(
            "tool_call", toolCallId="e", title="Edit client.py", kind="edit", status="pending", content=diff
        )
        options = [
            {"optionId": "o", "name": "Allow", "kind": "allow_once"},
            {"optionId": "a", "name": "Always allow edits", "kind": "allow_always"},
            {"optionId": "r", "name": "Reject", "kind": "reject_once"},
        ]
        self.ask(
            "session/request_permission",
            toolCall={"toolCallId": "e", "title": "Edit client.py"},
            options=options,
        )
        self.update("tool_call_update", toolCallId="e", status="completed")
        plan(2)
        meta = {"terminal_output": {"terminal_id": "1", "data": OUTPUT}, "terminal_exit": {"exit_code": 0}}
        shell = {"toolCallId": "x", "title": "pytest -q tests/test_client.py", "kind": "execute"}
        content = [{"type": "terminal", "terminalId": "1"}]
        self.update("tool_call", **shell, status="completed", content=content, _meta=meta)
        plan(3)
        self.say(DONE)
        self.update("usage_update", used=18400, size=200000)
        return None


if __name__ == "__main__":
    Agent().serve()
