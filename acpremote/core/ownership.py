"""Host ownership: whose files and terminals an agent works on, the client's or its own machine's.

`RemoteOwnership` makes them the agent's: the client's file and terminal capabilities become false and the
`cwd` of its sessions becomes the server's directory. Only those values are replaced, in the bytes that the
client wrote. `additionalDirectories` are passed on as they are: there is nothing to replace them with.
`OwnershipHint` changes nothing and tells a person, once, that the option exists.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from . import scan
from .envelope import Envelope
from .policy import MethodSet, Verdict, refuse
from .side import Side
from .splice import DuplicateKey, Edit, ObjectView, WrongType, splice

__all__ = ["INVALID_PARAMS", "OwnershipHint", "RemoteOwnership"]

INVALID_PARAMS = -32602

_INITIALIZE = MethodSet("initialize")
_SESSIONS = MethodSet("session/new", "session/load", "session/resume", "session/fork", "session/list")
_NO_DIRECTORY = (
    "the server does not tell its directory: host ownership 'remote' turns off files and terminals of this "
    "machine, but the agent gets the editor's cwd"
)


class RemoteOwnership:
    """Hands files, terminals and the working directory to the agent's machine."""

    def __init__(self, remote_cwd: str | None) -> None:
        """`remote_cwd` is the server's directory; None if it does not tell, and then a note says so once."""
        self._cwd = None if remote_cwd is None else msgspec.json.encode(remote_cwd)
        self._notes_left = remote_cwd is None

    def concerns(self, raw_method: bytes) -> bool:
        """See `Policy.concerns`."""
        return raw_method in _INITIALIZE or raw_method in _SESSIONS

    def judge(self, side: Side, frame: bytes, envelope: Envelope) -> Verdict:
        """See `Policy.judge`. What cannot be judged for certain is refused, never passed half-edited."""
        if side is not Side.CLIENT:
            return Verdict(frame)
        try:
            edits = list(self._edits(frame, envelope))
        except DuplicateKey as error:
            return refuse(envelope, str(error))
        except WrongType as error:
            return refuse(envelope, str(error), INVALID_PARAMS)
        return Verdict(splice(frame, edits), note=self._note(envelope))

    def _edits(self, frame: bytes, envelope: Envelope) -> Iterator[Edit]:
        message = ObjectView(frame)
        message.require_unique("id", "method")
        params = message.find_object("params")
        if params is None:
            return
        if bytes(envelope.method) in _SESSIONS:
            yield from self._directory(frame, params)
            return
        capabilities = params.find_object("clientCapabilities")
        if capabilities is not None:
            yield from capabilities.replace("terminal", b"false")
            files = capabilities.find_object("fs")
            for key in files.keys() if files is not None else ():
                if files is not None and key != "_meta":  # `_meta` is no capability
                    yield from files.replace(key, b"false")

    def _directory(self, frame: bytes, params: ObjectView) -> Iterator[Edit]:
        """Replaces a string only: null asks `session/list` for all; the rest is the agent's to refuse."""
        found = params.find("cwd")
        if self._cwd is not None and found is not None and frame.startswith(b'"', found[0]):
            yield from params.replace("cwd", self._cwd)

    def _note(self, envelope: Envelope) -> str | None:
        if not self._notes_left or bytes(envelope.method) not in _SESSIONS:
            return None
        self._notes_left = False
        return _NO_DIRECTORY


class OwnershipHint:
    """Notes once that the client's working directory is another than the server's."""

    def __init__(self, remote_cwd: str) -> None:
        self._remote_cwd = remote_cwd
        self._noted = False

    def concerns(self, raw_method: bytes) -> bool:
        """See `Policy.concerns`."""
        return not self._noted and raw_method in _SESSIONS

    def judge(self, side: Side, frame: bytes, envelope: Envelope) -> Verdict:
        """See `Policy.judge`."""
        try:
            params = ObjectView(frame).find_object("params")
            found = params.find("cwd") if params is not None else None
        except (DuplicateKey, WrongType):
            return Verdict(frame)
        if side is not Side.CLIENT or found is None:
            return Verdict(frame)
        cwd = frame[slice(*found)]
        if not cwd.startswith(b'"') or (client_cwd := scan.unescape(cwd)) == self._remote_cwd:
            return Verdict(frame)
        self._noted = True
        return Verdict(
            frame,
            note=f"the client wants to work in {client_cwd!r}, but the agent was started in "
            f"{self._remote_cwd!r}: if the files are on the agent's machine, say --host-ownership remote "
            "(in Python host_ownership='remote'); if they are on this one, all is well",
        )
