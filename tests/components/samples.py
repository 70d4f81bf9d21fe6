"""Frames for the tests: one valid frame, and ways to spoil it."""

from __future__ import annotations

from acpremote.components import ChoiceListComponent, define_component_manifest

MANIFEST = define_component_manifest([ChoiceListComponent])


def choice(**changes: object) -> dict[str, object]:
    return {"id": "trunk", "label": "main", **changes}


def props(*choices: object, **changes: object) -> dict[str, object]:
    return {"prompt": "Which branch?", "choices": list(choices) or [choice()], **changes}


def frame(**changes: object) -> dict[str, object]:
    return {
        "protocol": "agentskit.chat.component",
        "version": 1,
        "type": "render",
        "componentKey": "choice-list",
        "instanceId": "pick-branch:m-17",
        "props": props(),
        "fallback": {"kind": "choice-list", "summary": "Pick main."},
        **changes,
    }


def action(arguments: object = None, **changes: object) -> dict[str, object]:
    given_input = {} if arguments is None else arguments
    return choice(action={"name": "git.stash", "input": given_input, **changes})


def without(value: dict[str, object], *keys: str) -> dict[str, object]:
    return {key: item for key, item in value.items() if key not in keys}


def nested(levels: int, leaf: object = 1) -> object:
    """`levels` objects around a scalar."""
    for _ in range(levels):
        leaf = {"k": leaf}
    return leaf
