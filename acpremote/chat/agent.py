"""What a conversation asks of an agent: ACP's requests, and their answers read with care."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version

from ..components.menu import Chosen, Menu, MenuRow
from ..errors import AgentStartError
from .peer import AgentError, Peer
from .view import View

__all__ = ["Agent", "OpenedSession"]

PROTOCOL_VERSION = 1

_CAPABILITIES = {
    "fs": {"readTextFile": False, "writeTextFile": False},
    "terminal": False,
    "elicitation": {"form": {}, "url": {}},
}


@dataclass(frozen=True, slots=True)
class OpenedSession:
    """A session that was opened; `modes` are names by id."""

    id: str
    modes: Mapping[str, str] = field(default_factory=dict)
    mode: str | None = None


class Agent:
    """An agent behind a peer."""

    def __init__(self, peer: Peer, view: View, cwd: str) -> None:
        self._peer = peer
        self._view = view
        self._cwd = cwd
        self._members: Mapping[str, object] = {}

    @property
    def name(self) -> str:
        """How the agent calls itself."""
        info = _mapping(self._members.get("agentInfo"))
        return _text(info.get("title")) or _text(info.get("name"))

    @property
    def can_load(self) -> bool:
        """Whether it can open earlier sessions."""
        return _mapping(self._members.get("agentCapabilities")).get("loadSession") is True

    @property
    def can_list(self) -> bool:
        """Whether it can list its sessions."""
        capabilities = _mapping(_mapping(self._members.get("agentCapabilities")).get("sessionCapabilities"))
        return isinstance(capabilities.get("list"), Mapping)

    async def initialize(self) -> None:
        """Begins.

        Raises:
            AgentStartError: the agent refuses, or speaks another version.
        """
        params = {
            "protocolVersion": PROTOCOL_VERSION,
            "clientCapabilities": _CAPABILITIES,
            "clientInfo": {
                "name": "acpremote-chat",
                "title": "acpremote chat",
                "version": version("acpremote"),
            },
        }
        try:
            self._members = _mapping(await self._peer.request("initialize", params))
        except AgentError as error:
            raise AgentStartError(f"the agent refused to begin: {error}") from error
        spoken = self._members.get("protocolVersion")
        if spoken != PROTOCOL_VERSION:
            raise AgentStartError(f"the agent speaks version {spoken!r} of ACP, not {PROTOCOL_VERSION}")

    async def open_session(self, session_id: str | None) -> OpenedSession:
        """Opens a new session, or loads one; logs in first where the agent asks for it.

        Raises:
            AgentError: the agent opened none.
        """
        params: dict[str, object] = {"cwd": self._cwd, "mcpServers": []}
        if session_id is None:
            answer = _mapping(await self._with_login("session/new", params))
            session_id = _text(answer.get("sessionId"))
            if not session_id:
                raise AgentError(0, "the agent opened a session without an id")
        else:
            answer = _mapping(await self._with_login("session/load", {**params, "sessionId": session_id}))
        modes = _mapping(answer.get("modes"))
        names = dict(_named(modes.get("availableModes"), "id", "name"))
        return OpenedSession(session_id, names, _text(modes.get("currentModeId")) or None)

    async def _with_login(self, method: str, params: Mapping[str, object]) -> object:
        try:
            return await self._peer.request(method, params)
        except AgentError as error:
            methods = dict(_named(self._members.get("authMethods"), "id", "name"))
            if not error.asks_for_login or not methods:
                raise
            outcome = await self._view.choose(
                Menu("The agent asks you to log in.", tuple(MenuRow(*method) for method in methods.items()))
            )
            if not isinstance(outcome, Chosen):
                raise
        await self._peer.request("authenticate", {"methodId": outcome.id})
        return await self._peer.request(method, params)

    async def sessions(self) -> dict[str, str]:
        """The agent's sessions of this directory: titles by id, of the first page.

        Raises:
            AgentError: the agent does not say.
        """
        answer = _mapping(await self._peer.request("session/list", {"cwd": self._cwd}))
        return dict(_named(answer.get("sessions"), "sessionId", "title"))

    async def set_mode(self, session_id: str, mode: str) -> None:
        """Changes a session's mode.

        Raises:
            AgentError: the agent does not.
        """
        await self._peer.request("session/set_mode", {"sessionId": session_id, "modeId": mode})

    async def prompt(self, session_id: str, text: str) -> str:
        """Runs a turn and returns its stop reason.

        Raises:
            AgentError: the turn failed.
        """
        content = [{"type": "text", "text": text}]
        answer = await self._peer.request("session/prompt", {"sessionId": session_id, "prompt": content})
        return _text(_mapping(answer).get("stopReason")) or "end_turn"

    async def cancel(self, session_id: str) -> None:
        """Asks for the end of the running turn."""
        await self._peer.notify("session/cancel", {"sessionId": session_id})


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _named(values: object, identifier: str, name: str) -> Iterator[tuple[str, str]]:
    """Names by id, of a list of objects that have both; the id stands for a missing name."""
    if isinstance(values, Sequence) and not isinstance(values, str):
        for value in values:
            key = _text(_mapping(value).get(identifier))
            if key:
                yield key, _text(_mapping(value).get(name)) or key
