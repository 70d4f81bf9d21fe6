"""Typed questions: an agent asks its user to pick one application value and gets exactly that value.

Owns the way from a list of typed choices to an ACP form elicitation and back. It compiles to the SDK's own
schema types and adds no schema system of its own; values never travel, only fresh opaque tokens do.
Must never guess: an answer that names no offered token is an error, never a default, and a permission
request never stands in for a form. Read `demo.py` next for an agent that uses it.

    ask_choice ── bad call ─────────────────────────> ValueError
        │ no form support ── no fallback ───────────> ElicitationUnsupportedError
        │                 └─ fallback ── not offered > InvalidElicitationFallbackError
        └ elicitation/create ── JSON-RPC error ─────> acp.RequestError
                             ├─ no offered token ───> InvalidElicitationResponseError
                             └─ accepted, declined or cancelled
"""

from __future__ import annotations

import inspect
import secrets
import warnings
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, Protocol, TypeAlias, TypeVar

from acp.schema import (
    ClientCapabilities,
    CreateElicitationResponse,
    ElicitationFormRequestMode,
    ElicitationFormSessionMode,
    ElicitationMode,
    ElicitationSchema,
    ElicitationStringPropertySchema,
    EnumOption,
)
from pydantic import ValidationError

from .errors import AcpRemoteError, LocalProtocolError, RemoteProtocolError

__all__ = [
    "DESCRIPTION_META_KEY",
    "AcpSessionContext",
    "ChoiceElicitationAccepted",
    "ChoiceElicitationCancelled",
    "ChoiceElicitationDeclined",
    "ChoiceElicitationResult",
    "ChoiceFallback",
    "ElicitationChoice",
    "ElicitationUnsupportedError",
    "InvalidElicitationFallbackError",
    "InvalidElicitationResponseError",
]

DESCRIPTION_META_KEY = "acpkit.dev/choice-description"
"""Key in an option's `_meta` that repeats its description, for clients that read only that."""

_PROPERTY = "choice"
_TOKEN_BYTES = 16

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class ElicitationUnsupportedError(AcpRemoteError):
    """Says that the client did not advertise the elicitation mode; nothing was sent."""


class InvalidElicitationResponseError(RemoteProtocolError):
    """Says that the client's answer is none: no token that was offered in this call, or an unknown action."""


class InvalidElicitationFallbackError(LocalProtocolError):
    """Says that a fallback accepted a value that was not among the offered choices."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ElicitationChoice(Generic[T_co]):
    """One value that can be picked, with the words that the user sees.

    `value` may be anything, also None, unhashable or not serialisable: it stays in this process.
    `default` preselects the choice in the client's form; it never stands in for an answer.
    """

    value: T_co
    label: str
    description: str | None = None
    default: bool = False


@dataclass(frozen=True, slots=True)
class ChoiceElicitationAccepted(Generic[T_co]):
    """The user picked `value`: the very object that was offered."""

    value: T_co
    status: Literal["accepted"] = field(default="accepted", init=False)


@dataclass(frozen=True, slots=True)
class ChoiceElicitationDeclined:
    """The user refused to answer the question."""

    status: Literal["declined"] = field(default="declined", init=False)


@dataclass(frozen=True, slots=True)
class ChoiceElicitationCancelled:
    """The user dismissed the question without deciding."""

    status: Literal["cancelled"] = field(default="cancelled", init=False)


ChoiceElicitationResult: TypeAlias = (
    ChoiceElicitationAccepted[T] | ChoiceElicitationDeclined | ChoiceElicitationCancelled
)
"""What a question ended with. Narrow it with `isinstance` or by `.status`."""

ChoiceFallback: TypeAlias = Callable[[], ChoiceElicitationResult[T] | Awaitable[ChoiceElicitationResult[T]]]
"""Answers in the client's place when it cannot show forms; sync or async."""


class ElicitationClient(Protocol):
    """The part of the SDK's `Client` (the agent's connection) that is used here."""

    async def create_elicitation(
        self, message: str, mode: ElicitationMode, **kwargs: Any
    ) -> CreateElicitationResponse: ...

    async def complete_elicitation(self, elicitation_id: str, **kwargs: Any) -> None: ...


@dataclass(frozen=True, kw_only=True, slots=True)
class AcpSessionContext:
    """Asks the client of one session.

    `client` is what the SDK gave to the agent's `on_connect`; `client_capabilities` is what the client sent
    with `initialize` (None if it sent nothing).
    """

    session_id: str
    client: ElicitationClient = field(repr=False)
    client_capabilities: ClientCapabilities | None

    def supports_elicitation(self, mode: Literal["form", "url"]) -> bool:
        """Says whether the client advertised `mode`.

        Each mode is advertised apart; an `elicitation` capability that is omitted, null or `{}` advertises
        none.
        """
        capabilities = self.client_capabilities
        if capabilities is None or capabilities.elicitation is None:
            return False
        by_mode = {"form": capabilities.elicitation.form, "url": capabilities.elicitation.url}
        return by_mode.get(mode) is not None

    async def create_elicitation(self, message: str, mode: ElicitationMode) -> CreateElicitationResponse:
        """Sends a form of any shape, or a URL, and returns the client's answer as it came.

        Cancelling this call stops waiting; the client is not told (ACP clients dismiss open questions on
        `session/cancel`).

        Raises:
            ElicitationUnsupportedError: the client did not advertise the mode; nothing was sent.
            InvalidElicitationResponseError: the answer is no elicitation response.
            acp.RequestError: the client answered with a JSON-RPC error, for instance -32601 when its
                receiving route is not registered.
        """
        is_form = isinstance(mode, ElicitationFormSessionMode | ElicitationFormRequestMode)
        self._require("form" if is_form else "url")
        try:
            return await self.client.create_elicitation(message, mode)
        except ValidationError as error:
            # Not chained: pydantic's text quotes what the user typed, and ends up in logs.
            count = error.error_count()
            raise InvalidElicitationResponseError(
                f"the client's answer to an elicitation is malformed ({count} errors)"
            ) from None

    async def complete_elicitation(self, elicitation_id: str) -> None:
        """Tells the client that what a URL elicitation asked for is done.

        Raises:
            ElicitationUnsupportedError: the client did not advertise URL elicitation; nothing was sent.
        """
        self._require("url")
        await self.client.complete_elicitation(elicitation_id)

    async def ask_choice(
        self,
        question: str,
        choices: Sequence[ElicitationChoice[T]],
        *,
        fallback: ChoiceFallback[T] | None = None,
    ) -> ChoiceElicitationResult[T]:
        """Asks the user to pick one of `choices` and returns the picked one's own value.

        Args:
            question: What the user is asked.
            choices: At least one, in the order shown; at most one of them is the default.
            fallback: Called without arguments, and only if the client cannot show forms. A value it accepts
                must be one of those offered (the same object, else an equal one).

        Raises:
            ValueError: a blank question or label, no choices, or two defaults; nothing was sent.
            ElicitationUnsupportedError: the client cannot show forms and there is no fallback; nothing was
                sent.
            InvalidElicitationResponseError: the answer names none of the choices, or its action is unknown.
            InvalidElicitationFallbackError: the fallback accepted a value that was not offered.
            acp.RequestError: as for `create_elicitation`.
        """
        offered = tuple(choices)
        _check_call(question, offered)
        if fallback is not None and not self.supports_elicitation("form"):
            return await _ask_fallback(fallback, offered)
        by_token = {secrets.token_urlsafe(_TOKEN_BYTES): choice for choice in offered}
        mode = ElicitationFormSessionMode(session_id=self.session_id, requested_schema=_schema(by_token))
        return _parse_answer(await self.create_elicitation(question, mode), by_token)

    def _require(self, mode: Literal["form", "url"]) -> None:
        if not self.supports_elicitation(mode):
            raise ElicitationUnsupportedError(
                f"the client did not advertise {mode} elicitation (clientCapabilities.elicitation.{mode}): "
                "use a client that supports it, or do without asking"
            )


def _check_call(question: str, choices: Sequence[ElicitationChoice[object]]) -> None:
    if not question.strip():
        raise ValueError("the question is blank")
    if not choices:
        raise ValueError("there are no choices")
    if any(not choice.label.strip() for choice in choices):
        raise ValueError("a choice has a blank label")
    if sum(choice.default for choice in choices) > 1:
        raise ValueError("more than one choice is the default")


def _schema(by_token: Mapping[str, ElicitationChoice[object]]) -> ElicitationSchema:
    default = next((token for token, choice in by_token.items() if choice.default), None)
    options = [_option(token, choice) for token, choice in by_token.items()]
    choice = ElicitationStringPropertySchema(type="string", one_of=options, default=default)
    return ElicitationSchema(type="object", properties={_PROPERTY: choice}, required=[_PROPERTY])


def _option(token: str, choice: ElicitationChoice[object]) -> EnumOption:
    description = choice.description if choice.description and choice.description.strip() else None
    meta = {DESCRIPTION_META_KEY: description} if description else None
    return EnumOption(const=token, title=choice.label, description=description, field_meta=meta)


def _parse_answer(
    response: object, by_token: Mapping[str, ElicitationChoice[T]]
) -> ChoiceElicitationResult[T]:
    match getattr(response, "action", None):
        case "accept":
            return ChoiceElicitationAccepted(_chosen(getattr(response, "content", None), by_token).value)
        case "decline":
            return ChoiceElicitationDeclined()
        case "cancel":
            return ChoiceElicitationCancelled()
        case _:
            raise InvalidElicitationResponseError("the client answered a choice with an unknown action")


def _chosen(content: object, by_token: Mapping[str, ElicitationChoice[T]]) -> ElicitationChoice[T]:
    token = content.get(_PROPERTY) if isinstance(content, Mapping) else None
    choice = by_token.get(token) if isinstance(token, str) else None
    if choice is None:  # what came instead is the user's text: it is not repeated
        raise InvalidElicitationResponseError(
            "the client accepted a choice without naming one that was offered"
        )
    return choice


async def _ask_fallback(
    fallback: ChoiceFallback[T], choices: Sequence[ElicitationChoice[T]]
) -> ChoiceElicitationResult[T]:
    outcome: object = fallback()
    if inspect.isawaitable(outcome):
        outcome = await outcome
    if isinstance(outcome, ChoiceElicitationDeclined | ChoiceElicitationCancelled):
        return outcome
    if isinstance(outcome, ChoiceElicitationAccepted):
        outcome = outcome.value
    else:
        warnings.warn(
            "a fallback that returns a plain value is deprecated: return ChoiceElicitationAccepted(value)",
            DeprecationWarning,
            stacklevel=3,  # the line that awaits ask_choice
        )
    return ChoiceElicitationAccepted(_offered_value(outcome, choices))


def _offered_value(value: object, choices: Sequence[ElicitationChoice[T]]) -> T:
    for is_match in (_is_same, _is_equal):
        for choice in choices:
            if is_match(choice.value, value):
                return choice.value
    raise InvalidElicitationFallbackError("the fallback accepted a value that is not among the choices")


def _is_same(offered: object, value: object) -> bool:
    return offered is value


def _is_equal(offered: object, value: object) -> bool:
    try:
        return (offered == value) is True
    except Exception:  # noqa: BLE001 - an application's __eq__ may raise anything; it is no match then
        return False
