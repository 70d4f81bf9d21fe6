"""Forms filled in by a person: every kind of field, the review, and every way to leave."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import anyio
import pytest

from acpremote.chat.filling import fill_form
from acpremote.chat.view import TextQuestion
from acpremote.components.bridge import FormQuestion, read_elicitation
from acpremote.components.menu import Menu, Unchosen

from .scripted import ScriptedView

pytestmark = pytest.mark.anyio

PARCEL: dict[str, Any] = {
    "name": {"type": "string", "title": "Name", "minLength": 1},
    "size": {"type": "string", "title": "Size", "enum": ["S", "M"], "default": "M"},
    "copies": {"type": "integer", "title": "Copies", "minimum": 1, "maximum": 5, "default": 1},
    "gift": {"type": "boolean", "title": "A gift?", "default": False},
    "extras": {
        "type": "array",
        "title": "Extras",
        "items": {"type": "string", "enum": ["ribbon", "card"]},
        "minItems": 1,
    },
}


async def filled(
    answers: list[Any], properties: Mapping[str, Any] = PARCEL, required: tuple[str, ...] = ("name", "size")
) -> tuple[object, ScriptedView]:
    schema = {"properties": dict(properties), "required": list(required)}
    question = read_elicitation({"mode": "form", "message": "Who gets it?", "requestedSchema": schema})
    assert isinstance(question, FormQuestion)
    view = ScriptedView([], answers)
    with anyio.fail_after(10):
        return await fill_form(question, view), view


async def test_every_kind_of_field_is_asked_and_reviewed_before_it_is_sent() -> None:
    def review(menu: Menu) -> str:
        assert [row.label for row in menu.rows] == [
            "Send this",
            "Name: Li",
            "Size: S",
            "Copies: 3",
            "A gift?: yes",
            "Extras: card",
        ]
        return "Send this"

    result, _ = await filled(["Li", "S", "3", "Yes", "[ ] card", "Done", review])
    content = {"name": "Li", "size": "S", "copies": 3, "gift": True, "extras": ["card"]}
    assert result == {"action": "accept", "content": content}


async def test_fields_that_need_not_be_filled_can_be_left_out() -> None:
    skipped = Unchosen.SKIPPED
    result, view = await filled(["Li", "S", "", skipped, skipped, "Send this"])
    assert result == {"action": "accept", "content": {"name": "Li", "size": "S"}}
    menus = [asked for asked in view.asked if isinstance(asked, Menu)]
    assert [menu.skip for menu in menus[:3]] == [None, "leave out", "leave out"]


async def test_defaults_are_where_a_person_begins() -> None:
    def name(question: TextQuestion) -> str:
        return question.default or "Li"

    def size(menu: Menu) -> str:
        return next(row.label for row in menu.rows if row.id == menu.highlighted)

    result, _ = await filled([name, size, name, size, Unchosen.SKIPPED, "Send this"])
    assert result == {"action": "accept", "content": {"name": "Li", "size": "M", "copies": 1, "gift": False}}


async def test_what_does_not_fit_is_asked_again_and_a_field_can_be_changed_in_the_review() -> None:
    answers = ["", "Li", "M", "9", "x", "2", "No", Unchosen.SKIPPED, "Name: Li", "Bo", "Send this"]
    result, _ = await filled(answers)
    assert isinstance(result, dict)
    assert result["content"] == {"name": "Bo", "size": "M", "copies": 2, "gift": False}


async def test_several_of_a_list_are_ticked_and_must_be_as_many_as_wanted() -> None:
    extras = {"extras": PARCEL["extras"]}
    answers = [
        "Done (at least 1 of them)",
        "[ ] ribbon",
        "[ ] card",
        "[x] ribbon",
        "Done",
        "Send this",
    ]
    result, _ = await filled(answers, extras, ())
    assert result == {"action": "accept", "content": {"extras": ["card"]}}


@pytest.mark.parametrize(
    ("answers", "action"),
    [
        (["Li", Unchosen.DECLINED], "decline"),
        (["Li", Unchosen.CANCELLED], "cancel"),
        ([Unchosen.DECLINED], "decline"),
        ([Unchosen.CANCELLED], "cancel"),
        (["Li", "M", "1", "No", Unchosen.SKIPPED, Unchosen.DECLINED], "decline"),
    ],
)
async def test_a_form_can_be_declined_or_cancelled_anywhere(answers: list[Any], action: str) -> None:
    assert (await filled(answers))[0] == {"action": action}


@pytest.mark.parametrize(
    ("answer", "action"),
    [("Decline", "decline"), (Unchosen.CANCELLED, "cancel")],
)
async def test_a_required_field_of_an_unknown_kind_can_only_be_refused(answer: object, action: str) -> None:
    result, view = await filled([answer], {"sketch": {"type": "_drawing", "title": "A sketch"}}, ("sketch",))
    assert result == {"action": action}
    (menu,) = view.asked
    assert isinstance(menu, Menu)
    assert "A sketch" in menu.prompt


async def test_an_empty_form_is_only_reviewed() -> None:
    assert (await filled(["Send this"], {}, ()))[0] == {"action": "accept", "content": {}}
