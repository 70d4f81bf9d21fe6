"""The contract of typed elicitation, row by row, with plain objects as clients."""

from __future__ import annotations

import enum
import json
import linecache
import warnings
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import FrozenInstanceError, dataclass
from types import SimpleNamespace
from typing import Any

import anyio.lowlevel
import pytest
from acp import RequestError
from acp.schema import (
    AcceptElicitationResponse,
    CancelElicitationResponse,
    ClientCapabilities,
    CreateElicitationResponse,
    DeclineElicitationResponse,
    ElicitationFormRequestMode,
    ElicitationFormSessionMode,
    ElicitationMode,
    ElicitationSchema,
    ElicitationStringPropertySchema,
    ElicitationUrlSessionMode,
    EnumOption,
    OtherElicitationResponse,
)
from pydantic import AnyUrl

from acpremote.elicitation import (
    AcpSessionContext,
    ChoiceElicitationAccepted,
    ChoiceElicitationCancelled,
    ChoiceElicitationDeclined,
    ElicitationChoice,
    ElicitationUnsupportedError,
    InvalidElicitationFallbackError,
    InvalidElicitationResponseError,
)
from acpremote.errors import AcpRemoteError

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Target(enum.Enum):
    PREVIEW = "preview"
    PRODUCTION = "production"


@dataclass
class Region:
    """A mutable dataclass: comparable, but not hashable."""

    name: str


TARGETS = [
    ElicitationChoice(value=Target.PREVIEW, label="Preview"),
    ElicitationChoice(
        value=Target.PRODUCTION, label="Production", description="Deploy to production.", default=True
    ),
]

Answer = Callable[[ElicitationStringPropertySchema], object]


class Client:
    """Answers with whatever `answer` makes of the asked property, and keeps what it was asked."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.asked: list[tuple[str, ElicitationMode]] = []
        self.completed: list[str] = []

    async def create_elicitation(
        self, message: str, mode: ElicitationMode, **_: Any
    ) -> CreateElicitationResponse:
        self.asked.append((message, mode))
        return self.answer(self.asked_property)  # type: ignore[return-value]  # hostile clients return anything

    async def complete_elicitation(self, elicitation_id: str, **_: Any) -> None:
        self.completed.append(elicitation_id)

    @property
    def schema(self) -> ElicitationSchema:
        mode = self.asked[-1][1]
        assert isinstance(mode, ElicitationFormSessionMode)
        return mode.requested_schema

    @property
    def asked_property(self) -> ElicitationStringPropertySchema:
        (schema,) = (self.schema.properties or {}).values()
        assert isinstance(schema, ElicitationStringPropertySchema)
        return schema

    @property
    def options(self) -> list[EnumOption]:
        return self.asked_property.one_of or []


def capabilities(**elicitation: object) -> ClientCapabilities:
    return ClientCapabilities.model_validate({"elicitation": elicitation})


def session(client: Client, offered: ClientCapabilities | None = None) -> AcpSessionContext:
    return AcpSessionContext(
        session_id="s-1", client=client, client_capabilities=offered or capabilities(form={}, url={})
    )


def mute() -> Client:
    return Client(lambda _: pytest.fail("nothing may be sent"))


def without_forms(client: Client | None = None) -> AcpSessionContext:
    return session(client or mute(), capabilities(url={}))


def accept(content: object) -> Answer:
    return lambda _: AcceptElicitationResponse.model_construct(action="accept", content=content)


def pick(index: int) -> Answer:
    return lambda asked: AcceptElicitationResponse(
        action="accept", content={"choice": (asked.one_of or [])[index].const}
    )


# What is advertised


@pytest.mark.parametrize(
    ("sent", "form", "url"),
    [
        (None, False, False),
        ({}, False, False),
        ({"elicitation": None}, False, False),
        ({"elicitation": {}}, False, False),
        ({"elicitation": {"form": None, "url": None}}, False, False),
        ({"elicitation": {"form": {}}}, True, False),
        ({"elicitation": {"form": None, "url": {}}}, False, True),
        ({"elicitation": {"form": {}, "url": {}}}, True, True),
        ({"elicitation": {"form": {"_meta": {"x": 1}}}}, True, False),
        ({"elicitation": {"_form": {}, "FORM": {}}}, False, False),
    ],
)
def test_each_mode_is_supported_only_if_it_was_advertised(sent: object, form: bool, url: bool) -> None:
    offered = None if sent is None else ClientCapabilities.model_validate(sent)
    asked = AcpSessionContext(session_id="s", client=mute(), client_capabilities=offered)
    assert asked.supports_elicitation("form") is form
    assert asked.supports_elicitation("url") is url


def test_a_mode_nobody_knows_is_not_supported() -> None:
    assert session(mute()).supports_elicitation("field_meta") is False  # type: ignore[arg-type]


# What is sent


async def test_the_picked_value_comes_back_as_the_very_object() -> None:
    regions = [Region("eu"), Region("eu"), Region("us")]
    choices = [ElicitationChoice(value=region, label="Same label") for region in regions]
    for index, region in enumerate(regions):
        result = await session(Client(pick(index))).ask_choice("Where?", choices)
        assert isinstance(result, ChoiceElicitationAccepted)
        assert result.value is region


async def test_none_is_a_value_like_any_other() -> None:
    choices = [ElicitationChoice(value=None, label="Nothing"), ElicitationChoice(value=0, label="Zero")]
    for index, value in enumerate([None, 0]):
        result = await session(Client(pick(index))).ask_choice("What?", choices)
        assert result == ChoiceElicitationAccepted(value)


async def test_the_form_is_one_required_string_property_with_titled_options() -> None:
    client = Client(pick(0))
    await session(client).ask_choice("Choose a deployment target", TARGETS)
    ((message, mode),) = client.asked
    assert isinstance(mode, ElicitationFormSessionMode)
    assert (message, mode.session_id) == ("Choose a deployment target", "s-1")
    assert client.schema.type == "object"
    assert client.schema.required == list(client.schema.properties or {}) == ["choice"]
    assert client.asked_property.type == "string"
    assert client.asked_property.enum is None
    assert [option.title for option in client.options] == ["Preview", "Production"]


async def test_the_default_travels_as_the_token_of_its_choice() -> None:
    client = Client(pick(0))
    await session(client).ask_choice("Where?", TARGETS)
    assert client.asked_property.default == client.options[1].const
    await session(client).ask_choice("Where?", TARGETS[:1])
    assert client.asked_property.default is None


async def test_a_description_travels_in_the_standard_field_and_in_meta() -> None:
    client = Client(pick(0))
    blank = ElicitationChoice(value=Target.PREVIEW, label="Blank", description=" ")
    await session(client).ask_choice("Where?", [*TARGETS, blank])
    sent = [(option.description, option.field_meta) for option in client.options]
    text = "Deploy to production."
    assert sent == [(None, None), (text, {"acpkit.dev/choice-description": text}), (None, None)]


async def test_tokens_are_fresh_for_every_call_and_tell_nothing_of_the_value() -> None:
    client = Client(pick(0))
    seen: list[str] = []
    for _ in range(20):
        await session(client).ask_choice("Where?", TARGETS)
        seen += [option.const for option in client.options]
    assert len(set(seen)) == 40
    assert min(len(token) for token in seen) >= 22  # 128 bits in base64
    values = ("preview", "production", "s-1")
    assert not [token for token in seen if any(value in token.lower() for value in values)]


async def test_values_that_json_cannot_carry_never_travel() -> None:
    client = Client(pick(0))
    value = object()
    await session(client).ask_choice("Which?", [ElicitationChoice(value=value, label="This")])
    assert "object at" not in json.dumps(client.asked[0][1].model_dump(mode="json"))


async def test_choices_may_come_from_an_iterator() -> None:
    def choices() -> Iterator[ElicitationChoice[int]]:
        yield from (ElicitationChoice(value=number, label=str(number)) for number in range(3))

    iterator: Any = choices()
    result = await session(Client(pick(2))).ask_choice("Which?", iterator)
    assert result == ChoiceElicitationAccepted(2)


# What comes back


async def test_decline_and_cancel_are_outcomes_of_their_own() -> None:
    declined = await session(Client(lambda _: DeclineElicitationResponse(action="decline"))).ask_choice(
        "Where?", TARGETS
    )
    cancelled = await session(Client(lambda _: CancelElicitationResponse(action="cancel"))).ask_choice(
        "Where?", TARGETS
    )
    assert (declined, cancelled) == (ChoiceElicitationDeclined(), ChoiceElicitationCancelled())
    assert (declined.status, cancelled.status) == ("declined", "cancelled")
    assert ChoiceElicitationAccepted(None).status == "accepted"


def test_results_and_choices_are_frozen() -> None:
    with pytest.raises(FrozenInstanceError):
        TARGETS[0].value = Target.PRODUCTION  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError):
        ChoiceElicitationAccepted(1).value = 2  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError):
        ChoiceElicitationDeclined().status = "declined"  # type: ignore[misc]
    with pytest.raises(TypeError):
        ElicitationChoice(Target.PREVIEW, "Preview")  # type: ignore[call-arg]


@pytest.mark.parametrize(
    "content",
    [
        None,
        {},
        {"choice": None},
        {"choice": ""},
        {"choice": "Preview"},
        {"choice": "preview"},
        {"choice": 0},
        {"choice": True},
        {"choice": 1.5},
        {"choice": ["token"]},
        {"choice": {"const": "token"}},
        {"Choice": "token"},
        [],
        "token",
        7,
    ],
)
async def test_an_accepted_answer_without_an_offered_token_is_an_error(content: object) -> None:
    with pytest.raises(InvalidElicitationResponseError):
        await session(Client(accept(content))).ask_choice("Where?", TARGETS)


async def test_the_default_never_repairs_an_answer() -> None:
    only = [ElicitationChoice(value=1, label="One", default=True)]
    with pytest.raises(InvalidElicitationResponseError):
        await session(Client(accept(None))).ask_choice("Which?", only)


async def test_the_token_of_another_call_is_an_error() -> None:
    first = Client(pick(0))
    await session(first).ask_choice("Where?", TARGETS)
    stale = first.options[0].const
    with pytest.raises(InvalidElicitationResponseError):
        await session(Client(accept({"choice": stale}))).ask_choice("Where?", TARGETS)


@pytest.mark.parametrize("change", [str.swapcase, lambda token: f" {token}", lambda token: f"{token}\n"])
async def test_a_token_is_matched_exactly(change: Callable[[str], str]) -> None:
    def answer(asked: ElicitationStringPropertySchema) -> object:
        token = (asked.one_of or [])[0].const
        return AcceptElicitationResponse(action="accept", content={"choice": change(token)})

    with pytest.raises(InvalidElicitationResponseError):
        await session(Client(answer)).ask_choice("Where?", TARGETS)


async def test_properties_beside_a_valid_token_are_ignored() -> None:
    def answer(asked: ElicitationStringPropertySchema) -> object:
        token = (asked.one_of or [])[0].const
        return AcceptElicitationResponse(action="accept", content={"choice": token, "more": [1, None]})

    result = await session(Client(answer)).ask_choice("Where?", TARGETS)
    assert result == ChoiceElicitationAccepted(Target.PREVIEW)


@pytest.mark.parametrize(
    "response",
    [
        OtherElicitationResponse(action="_later"),
        OtherElicitationResponse(action="accepted"),
        SimpleNamespace(action=None),
        SimpleNamespace(action=["accept"]),
        None,
        {"action": "decline"},
    ],
)
async def test_an_unknown_action_is_an_error(response: object) -> None:
    with pytest.raises(InvalidElicitationResponseError):
        await session(Client(lambda _: response)).ask_choice("Where?", TARGETS)


async def test_the_error_does_not_repeat_what_the_user_sent() -> None:
    with pytest.raises(InvalidElicitationResponseError) as caught:
        await session(Client(accept({"choice": "hunter2"}))).ask_choice("Where?", TARGETS)
    assert "hunter2" not in str(caught.value)


async def test_a_json_rpc_error_passes_as_the_sdk_raises_it() -> None:
    def answer(_: object) -> object:
        raise RequestError.method_not_found("elicitation/create")

    with pytest.raises(RequestError) as caught:
        await session(Client(answer)).ask_choice("Where?", TARGETS, fallback=lambda: pytest.fail("called"))
    assert caught.value.code == -32601


# Bad calls


@pytest.mark.parametrize("supported", [True, False])
@pytest.mark.parametrize(
    ("question", "choices"),
    [
        ("", TARGETS),
        (" \n\t ", TARGETS),
        ("Where?", []),
        ("Where?", [ElicitationChoice(value=1, label="")]),
        ("Where?", [ElicitationChoice(value=1, label="One"), ElicitationChoice(value=2, label=" ")]),
        ("Where?", [ElicitationChoice(value=n, label=str(n), default=True) for n in (1, 2)]),
    ],
)
async def test_a_bad_call_is_a_value_error_before_anything_is_sent(
    question: str, choices: list[ElicitationChoice[object]], supported: bool
) -> None:
    asked = session(mute()) if supported else without_forms()
    with pytest.raises(ValueError, match=r"blank|no choices|default"):
        await asked.ask_choice(question, choices, fallback=lambda: pytest.fail("the fallback was called"))


# Without form support


async def test_without_forms_and_fallback_nothing_is_sent() -> None:
    with pytest.raises(ElicitationUnsupportedError, match=r"elicitation\.form"):
        await without_forms().ask_choice("Where?", TARGETS)


async def test_a_client_without_forms_is_never_asked_for_a_permission_instead() -> None:
    client = mute()
    client.request_permission = lambda **_: pytest.fail("a permission was asked")  # type: ignore[attr-defined]
    with pytest.raises(ElicitationUnsupportedError):
        await without_forms(client).ask_choice("Where?", TARGETS)


async def test_the_fallback_is_not_called_when_forms_work() -> None:
    result = await session(Client(pick(0))).ask_choice(
        "Where?", TARGETS, fallback=lambda: pytest.fail("the fallback was called")
    )
    assert result == ChoiceElicitationAccepted(Target.PREVIEW)


@pytest.mark.parametrize(
    "result",
    [
        ChoiceElicitationAccepted(Target.PRODUCTION),
        ChoiceElicitationDeclined(),
        ChoiceElicitationCancelled(),
    ],
)
async def test_a_fallback_answers_sync_or_async(result: Any) -> None:
    async def later() -> Any:
        return result

    for fallback in (lambda: result, later):
        assert await without_forms().ask_choice("Where?", TARGETS, fallback=fallback) == result


async def test_what_a_fallback_raises_passes() -> None:
    def fail() -> ChoiceElicitationDeclined:
        raise LookupError("no answer on file")

    async def fail_later() -> ChoiceElicitationDeclined:
        raise LookupError("no answer on file")

    fallbacks: list[Callable[[], ChoiceElicitationDeclined | Awaitable[ChoiceElicitationDeclined]]]
    fallbacks = [fail, fail_later]
    for fallback in fallbacks:
        with pytest.raises(LookupError):
            await without_forms().ask_choice("Where?", TARGETS, fallback=fallback)


class Strange:
    """Compares as `answer` says, or raises it."""

    def __init__(self, answer: object) -> None:
        self.answer = answer

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> Any:
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer


async def fall_back(value: object, *offered: object) -> object:
    choices = [ElicitationChoice(value=each, label="x") for each in offered]
    result = await without_forms().ask_choice(
        "Which?", choices, fallback=lambda: ChoiceElicitationAccepted(value)
    )
    assert isinstance(result, ChoiceElicitationAccepted)
    return result.value


async def test_an_equal_fallback_value_becomes_the_offered_one() -> None:
    offered = Region("eu")
    assert await fall_back(Region("eu"), Region("us"), offered) is offered
    assert type(await fall_back(True, 1)) is int


async def test_identity_wins_over_an_earlier_equal_value() -> None:
    first, second = Region("eu"), Region("eu")
    assert await fall_back(second, first, second) is second
    assert await fall_back(True, 1, True) is True


async def test_none_may_be_offered_and_fallen_back_to() -> None:
    assert await fall_back(None, 1, None) is None
    with pytest.raises(InvalidElicitationFallbackError):
        await fall_back(None, 1, 0, "", False)


@pytest.mark.parametrize(
    "answer", [1, "yes", [True], None, NotImplemented, ValueError("ambiguous"), RecursionError()]
)
async def test_an_eq_that_raises_or_returns_no_bool_is_no_match(answer: object) -> None:
    with pytest.raises(InvalidElicitationFallbackError):
        await fall_back(object(), Strange(answer))
    strange = Strange(answer)
    assert await fall_back(strange, Strange(answer), strange) is strange
    assert await fall_back("b", Strange(answer), "b") == "b"


async def test_a_value_that_is_not_equal_to_itself_matches_by_identity() -> None:
    nan = float("nan")
    assert await fall_back(nan, 1.0, nan) is nan


@pytest.mark.parametrize("value", ["production", "Production", 1, (), Region("us")])
async def test_a_fallback_value_that_was_not_offered_is_an_error(value: object) -> None:
    with pytest.raises(InvalidElicitationFallbackError):
        await fall_back(value, Target.PREVIEW, Target.PRODUCTION, Region("eu"))


async def test_a_plain_fallback_value_works_with_a_warning_that_points_at_the_caller() -> None:
    offered = Region("eu")
    choices = [ElicitationChoice(value=offered, label="Europe"), ElicitationChoice(value=None, label="None")]

    async def later() -> Region:
        await anyio.lowlevel.checkpoint()
        return Region("eu")

    plain: list[Any] = [lambda: Region("eu"), later, lambda: None]
    for fallback, expected in zip(plain, [offered, offered, None], strict=True):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            result = await without_forms().ask_choice("Where?", choices, fallback=fallback)
        assert isinstance(result, ChoiceElicitationAccepted)
        assert result.value is expected
        (warning,) = seen
        assert warning.category is DeprecationWarning
        assert warning.filename == __file__
        assert "ask_choice" in linecache.getline(__file__, warning.lineno)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
async def test_a_plain_fallback_value_is_checked_like_any_other() -> None:
    plain: Any = lambda: "elsewhere"  # noqa: E731
    with pytest.raises(InvalidElicitationFallbackError):
        await without_forms().ask_choice("Where?", TARGETS, fallback=plain)
    nothing: Any = lambda: None  # noqa: E731
    with pytest.raises(InvalidElicitationFallbackError):
        await without_forms().ask_choice("Where?", TARGETS, fallback=nothing)


# The low level

FORM = ElicitationFormSessionMode(session_id="s-1", requested_schema=ElicitationSchema())
REQUEST_FORM = ElicitationFormRequestMode(request_id=1, requested_schema=ElicitationSchema())
URL = ElicitationUrlSessionMode(session_id="s-1", elicitation_id="e-1", url=AnyUrl("https://example.org/"))


class Plain(Client):
    """Answers every elicitation with decline, of whatever mode it is."""

    def __init__(self) -> None:
        super().__init__(lambda _: None)

    async def create_elicitation(
        self, message: str, mode: ElicitationMode, **_: Any
    ) -> CreateElicitationResponse:
        self.asked.append((message, mode))
        return DeclineElicitationResponse(action="decline")


@pytest.mark.parametrize("mode", [FORM, REQUEST_FORM, URL])
async def test_low_level_elicitation_passes_mode_and_answer_unchanged(mode: ElicitationMode) -> None:
    client = Plain()
    response = await session(client).create_elicitation("Please", mode)
    assert response == DeclineElicitationResponse(action="decline")
    assert client.asked == [("Please", mode)]


@pytest.mark.parametrize(
    ("mode", "offered"), [(FORM, {"url": {}}), (REQUEST_FORM, {"url": {}}), (URL, {"form": {}}), (URL, {})]
)
async def test_a_mode_that_was_not_advertised_is_refused_before_sending(
    mode: ElicitationMode, offered: dict[str, object]
) -> None:
    client = Plain()
    with pytest.raises(ElicitationUnsupportedError):
        await session(client, capabilities(**offered)).create_elicitation("Please", mode)
    assert client.asked == []


async def test_completion_goes_only_to_clients_with_url_support() -> None:
    client = Plain()
    await session(client).complete_elicitation("e-1")
    assert client.completed == ["e-1"]
    with pytest.raises(ElicitationUnsupportedError):
        await session(client, capabilities(form={})).complete_elicitation("e-2")
    assert client.completed == ["e-1"]


def test_the_errors_belong_to_the_package() -> None:
    for error in (
        ElicitationUnsupportedError,
        InvalidElicitationFallbackError,
        InvalidElicitationResponseError,
    ):
        assert issubclass(error, AcpRemoteError)
