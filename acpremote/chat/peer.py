"""JSON-RPC over a channel: requests in both directions, notifications in order.

Notifications and answers are handled in the order they came, synchronously; each request of the other side
runs in a task of its own and is answered exactly once. `$/cancel_request` ends one with error -32800.
It must never be given a channel that delivers noise: a relay stands before it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Protocol

import anyio
import msgspec
from anyio.abc import TaskGroup

from ..core.envelope import (
    INTERNAL_ERROR,
    METHOD_NOT_FOUND,
    REQUEST_LOST,
    Envelope,
    InvalidFrame,
    Kind,
    error_frame,
    peek,
)
from ..ending import Ending, EndingKind
from ..errors import ChannelClosed, RemoteProtocolError
from ..transport.channel import Channel

__all__ = ["INVALID_PARAMS", "METHOD_NOT_FOUND", "AgentError", "Handler", "Peer", "RequestRefused"]

REQUEST_CANCELLED = -32800
INVALID_PARAMS = -32602
AUTH_REQUIRED = -32000
"""ACP's code for "authentication required"."""


class AgentError(RemoteProtocolError):
    """Says that the agent answered a request with an error."""

    def __init__(self, code: int, message: str, data: object = None) -> None:
        super().__init__(message)
        self.code = code
        self.data = data

    @property
    def asks_for_login(self) -> bool:
        """Whether the agent wants `authenticate` first."""
        return self.code == AUTH_REQUIRED


class RequestRefused(Exception):
    """Raised by a handler to answer a request with an error."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class Handler(Protocol):
    """What the other side reaches."""

    async def handle_request(self, method: str, params: object) -> object:
        """Answers a request with its result.

        Raises:
            RequestRefused: it is answered with an error.
        """
        ...

    def handle_notification(self, method: str, params: object) -> None:
        """Takes a notification; must not raise."""
        ...


class _Pending:
    """A request that was sent and waits for its answer."""

    def __init__(self) -> None:
        self.answered = anyio.Event()
        self.result: object = None
        self.error: AgentError | ChannelClosed | None = None


class Peer:
    """One end of a JSON-RPC connection. `run` must be running for anything else to work."""

    def __init__(self, channel: Channel, handler: Handler) -> None:
        self._channel = channel
        self._handler = handler
        self._pending: dict[int, _Pending] = {}
        self._running: dict[str, anyio.CancelScope] = {}
        self._next_id = 0
        self._ending: Ending | None = None

    async def run(self) -> Ending:
        """Receives until the channel is closed, and returns why; everything that waits is told."""
        async with anyio.create_task_group() as tasks:
            try:
                while True:
                    for frame in await self._channel.receive():
                        await self._take(frame, tasks)
            except ChannelClosed as closed:
                self._ending = closed.ending
                tasks.cancel_scope.cancel()
            finally:
                lost = self._ending or Ending(EndingKind.LOST, "the conversation was closed")
                for waiting in self._pending.values():
                    waiting.error = ChannelClosed(lost)
                    waiting.answered.set()
        if self._ending is None:
            raise AssertionError("the loop ends only with the channel")
        return self._ending

    async def request(self, method: str, params: Mapping[str, object]) -> object:
        """Sends a request and waits for its result.

        Raises:
            AgentError: it was answered with an error.
            ChannelClosed: there will be no answer.
        """
        self._check_open()
        self._next_id += 1
        number, waiting = self._next_id, _Pending()
        self._pending[number] = waiting
        try:
            await self._send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
            await waiting.answered.wait()
        finally:
            self._pending.pop(number, None)
        if waiting.error is not None:
            raise waiting.error
        return waiting.result

    async def notify(self, method: str, params: Mapping[str, object]) -> None:
        """Sends a notification.

        Raises:
            ChannelClosed: it cannot be delivered.
        """
        self._check_open()
        await self._send({"jsonrpc": "2.0", "method": method, "params": params})

    def _check_open(self) -> None:
        if self._ending is not None:
            raise ChannelClosed(self._ending)

    async def _send(self, message: Mapping[str, object]) -> None:
        await self._channel.send([_encode(message)])

    async def _take(self, frame: bytes, tasks: TaskGroup) -> None:
        try:
            envelope = peek(frame)
        except InvalidFrame:
            return  # the relay lets none through
        message = _decode(frame)
        match envelope.kind:
            case Kind.RESPONSE:
                self._take_response(envelope, message)
            case Kind.NOTIFICATION if message is not None:
                self._take_notification(message)
            case Kind.REQUEST if message is not None:
                tasks.start_soon(self._answer, bytes(envelope.id), message)
            case Kind.REQUEST:
                unread = error_frame(bytes(envelope.id), INTERNAL_ERROR, "this request cannot be read here")
                await self._channel.send([unread])
            case _:
                pass

    def _take_response(self, envelope: Envelope, message: Mapping[str, object] | None) -> None:
        number = _decode_value(bytes(envelope.id))
        waiting = self._pending.get(number) if type(number) is int else None
        if waiting is None:
            return
        if message is None:
            waiting.error = AgentError(INTERNAL_ERROR, "the answer cannot be read here")
        elif "error" in message:
            error = _agent_error(message["error"])
            waiting.error = ChannelClosed(_lost_ending(error)) if error.code == REQUEST_LOST else error
        else:
            waiting.result = message.get("result")
        waiting.answered.set()

    def _take_notification(self, message: Mapping[str, object]) -> None:
        method, params = message.get("method"), message.get("params")
        if method == "$/cancel_request":
            number = params.get("requestId", params.get("id")) if isinstance(params, Mapping) else None
            scope = self._running.get(_encode_value(number))
            if scope is not None:
                scope.cancel()
        elif isinstance(method, str):
            self._handler.handle_notification(method, params)

    async def _answer(self, raw_id: bytes, message: Mapping[str, object]) -> None:
        key = _encode_value(message.get("id"))
        with anyio.CancelScope() as scope:
            self._running[key] = scope
            try:
                answer = await self._result(raw_id, message)
            finally:
                self._running.pop(key, None)
        if scope.cancelled_caught:
            answer = error_frame(raw_id, REQUEST_CANCELLED, "the request was cancelled")
        try:
            await self._channel.send([answer])
        except ChannelClosed:
            return  # `run` says so

    async def _result(self, raw_id: bytes, message: Mapping[str, object]) -> bytes:
        method = message.get("method")
        if not isinstance(method, str):
            return error_frame(raw_id, INVALID_PARAMS, "the method is no string")
        try:
            result = await self._handler.handle_request(method, message.get("params"))
        except RequestRefused as refused:
            return error_frame(raw_id, refused.code, str(refused))
        return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (raw_id, _encode(result))


def _agent_error(error: object) -> AgentError:
    members = error if isinstance(error, Mapping) else {}
    code, message = members.get("code"), members.get("message")
    text = message if isinstance(message, str) and message else "the agent answered with an error"
    data = members.get("data")
    detail = data.get("details") if isinstance(data, Mapping) else data
    if isinstance(detail, str) and detail and detail not in text:
        text = f"{text}: {detail}"
    return AgentError(code if isinstance(code, int) else INTERNAL_ERROR, text, data)


def _lost_ending(error: AgentError) -> Ending:
    """Why the relay says that an answer will never come."""
    data = error.data if isinstance(error.data, Mapping) else {}
    status = data.get("status")
    try:
        kind = EndingKind(data.get("ending"))
    except ValueError:
        kind = EndingKind.LOST
    reason = str(error).removeprefix("no answer will come: ")
    return Ending(kind, reason, status if isinstance(status, int) else None)


def _encode(value: object) -> bytes:
    try:
        return msgspec.json.encode(value)
    except (msgspec.MsgspecError, UnicodeEncodeError, OverflowError):  # lone surrogates, huge integers
        return json.dumps(value, separators=(",", ":")).encode()


def _encode_value(value: object) -> str:
    return json.dumps(value)


def _decode_value(raw: bytes) -> object:
    try:
        return json.loads(raw)
    except ValueError:
        return None


def _decode(frame: bytes) -> Mapping[str, object] | None:
    try:
        message = json.loads(frame)
    except (ValueError, RecursionError):  # valid, and beyond Python: nested too deeply, too many digits
        return None
    return message if isinstance(message, dict) else None
