"""A whole conversation of a client with an agent, written down so that two can be compared."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

from acp import PROTOCOL_VERSION, RequestError, helpers, schema

from .full_client import FullClient, shown

CAPABILITIES = schema.ClientCapabilities.model_validate(
    {
        "fs": {"readTextFile": True, "writeTextFile": True},
        "terminal": True,
        "elicitation": {"form": {}},
        "_meta": {"of": "capabilities"},
    }
)
PROMPTS = "count 20,permission,files,terminal,elicit,extension,fail,crash".split(",")


async def outcome(call: Awaitable[object]) -> object:
    """What a call gave: its result or its error, as plain values."""
    try:
        return shown(await call)
    except RequestError as error:
        return ("error", error.code, str(error), error.data)


async def converse(agent: Any, client: FullClient) -> list[object]:
    """Calls everything that an agent has; returns, step by step, what came back and what the client saw."""
    calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
        ("initialize", (PROTOCOL_VERSION, CAPABILITIES), {"trace": {"id": 1}}),
        ("authenticate", ("key",), {"m": 1}),
        ("authenticate", ("other",), {}),
        ("new_session", ("/work",), {"additional_directories": ["/more"], "m": [1]}),
        ("list_sessions", ("/work", "cursor"), {"m": True}),
        ("list_sessions", (), {}),
        ("load_session", ("/work", "s-1"), {"m": "x"}),
        ("load_session", ("/work", "none"), {}),
        ("resume_session", ("s-1", "/work"), {}),
        ("fork_session", ("s-1", "/work"), {"m": 2}),
        ("set_session_mode", ("s-1", "a"), {}),
        ("set_config_option", ("c", "s-1", "value"), {}),
        ("set_config_option", ("c", "s-1", True), {}),
        ("ext_notification", ("noted", {"n": 1}), {}),
        ("ext_method", ("thing", {"a": None, "b": [1.5]}), {}),
        ("ext_method", ("fails", {"a": 1}), {}),
        *(("prompt", ("s-1", [helpers.text_block(text)]), {"turn": text}) for text in PROMPTS),
        ("close_session", ("s-1",), {}),
    ]
    steps: list[object] = []
    for method, arguments, meta in calls:
        result = await outcome(getattr(agent, method)(*arguments, **meta))
        steps.append((method, result, list(client.log)))
        client.log.clear()
    return steps
