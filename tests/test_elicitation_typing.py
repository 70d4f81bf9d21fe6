"""The types of typed elicitation: what mypy --strict must infer, and what it must refuse.

Type checkers read this file: `assert_type` is the assertion, and an ignore that is not needed is an error.
The functions also run, so that the shown code is known to work.
"""

from __future__ import annotations

import enum
from typing import assert_never, assert_type, cast

import pytest
from acp.interfaces import Client
from acp.schema import ClientCapabilities

import acpremote
from acpremote.elicitation import (
    AcpSessionContext,
    ChoiceElicitationAccepted,
    ChoiceElicitationCancelled,
    ChoiceElicitationDeclined,
    ChoiceElicitationResult,
    ElicitationChoice,
)

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Target(enum.Enum):
    PREVIEW = "preview"
    PRODUCTION = "production"


CHOICES = [
    ElicitationChoice(value=Target.PREVIEW, label="Preview"),
    ElicitationChoice(value=Target.PRODUCTION, label="Production"),
]
assert_type(CHOICES, list[ElicitationChoice[Target]])

Result = ChoiceElicitationAccepted[Target] | ChoiceElicitationDeclined | ChoiceElicitationCancelled


def session() -> AcpSessionContext:
    client = cast(Client, None)  # the SDK's own type fits; this client can do nothing and is never called
    return AcpSessionContext(session_id="s", client=client, client_capabilities=ClientCapabilities())


async def later() -> ChoiceElicitationAccepted[Target]:
    return ChoiceElicitationAccepted(Target.PREVIEW)


def production() -> ChoiceElicitationResult[Target]:
    return ChoiceElicitationAccepted(Target.PRODUCTION)


async def test_the_result_has_the_type_of_the_offered_values() -> None:
    result = await session().ask_choice("Where?", CHOICES, fallback=production)
    assert_type(result, Result)
    assert result.status == "accepted"
    assert_type(result, ChoiceElicitationAccepted[Target])


async def test_isinstance_narrows() -> None:
    result = await session().ask_choice("Where?", CHOICES, fallback=later)
    if isinstance(result, ChoiceElicitationAccepted):
        assert_type(result.value, Target)
    elif isinstance(result, ChoiceElicitationDeclined):
        assert_type(result, ChoiceElicitationDeclined)
    else:
        assert_type(result, ChoiceElicitationCancelled)
    assert isinstance(result, ChoiceElicitationAccepted)


async def test_status_narrows_and_match_is_exhaustive() -> None:
    result = await session().ask_choice("Where?", CHOICES, fallback=ChoiceElicitationCancelled)
    if result.status == "accepted":
        assert_type(result.value, Target)
    elif result.status == "declined":
        assert_type(result, ChoiceElicitationDeclined)
    else:
        assert_type(result, ChoiceElicitationCancelled)
    match result:
        case ChoiceElicitationAccepted(value):
            assert_type(value, Target)
        case ChoiceElicitationDeclined() | ChoiceElicitationCancelled():
            pass
        case _:
            assert_never(result)
    assert result.status == "cancelled"


async def test_a_value_cannot_be_read_before_the_result_is_narrowed() -> None:
    result = await session().ask_choice("Where?", CHOICES, fallback=lambda: ChoiceElicitationDeclined())
    with pytest.raises(AttributeError):
        result.value  # type: ignore[union-attr]  # noqa: B018


async def test_none_among_the_values_is_part_of_the_type() -> None:
    choices: list[ElicitationChoice[Target | None]] = [*CHOICES, ElicitationChoice(value=None, label="None")]
    result = await session().ask_choice("Where?", choices, fallback=lambda: ChoiceElicitationAccepted(None))
    assert result.status == "accepted"
    assert_type(result.value, Target | None)


async def test_unknown_modes_are_refused_by_the_checker() -> None:
    assert not session().supports_elicitation("audio")  # type: ignore[arg-type]


def test_the_names_have_their_types_at_the_package_root_too() -> None:
    choice = acpremote.ElicitationChoice(value=Target.PREVIEW, label="Preview")
    assert_type(choice, ElicitationChoice[Target])
