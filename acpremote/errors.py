"""Every exception this package raises on purpose.

    AcpRemoteError
    ├── ConfigError            an option, argument or set-up is wrong; the user mends it
    │   └── OptionError        one field of an options object is wrong
    ├── LocalProtocolError     our caller misused an object (sent on a closed channel, …)
    ├── RemoteProtocolError    the peer broke the rules of ACP, JSON-RPC, WebSocket or the link
    ├── ChannelClosed          a channel is closed; carries the `Ending`
    ├── ConnectError           an endpoint could not be reached, or TLS failed
    │   └── ConnectRefused     the endpoint answered the handshake with an HTTP error
    ├── ListenError            the address cannot be listened on
    └── AgentStartError        the agent's command could not be started

`elicitation.py` adds its own beside them.
Errors of libraries are translated into these in the module that calls the library.
"""

from __future__ import annotations

from .ending import Ending, EndingKind, ExitStatus

__all__ = [
    "AcpRemoteError",
    "AgentStartError",
    "ChannelClosed",
    "ConfigError",
    "ConnectError",
    "ConnectRefused",
    "ListenError",
    "LocalProtocolError",
    "OptionError",
    "RemoteProtocolError",
]


class AcpRemoteError(Exception):
    """Root of every exception this package raises on purpose."""

    exit_status = ExitStatus.INTERNAL


class ConfigError(AcpRemoteError, ValueError):
    """Says that an option, argument or set-up is wrong and what is allowed."""

    exit_status = ExitStatus.USAGE


class OptionError(ConfigError):
    """Says that one field of an options object is not allowed.

    `option` names it as Python does (`ServerOptions.port`), `problem` is the rest of the sentence: whoever
    took the value from elsewhere, as a command line does, can name it as it is called there.
    """

    def __init__(self, option: str, problem: str) -> None:
        super().__init__(f"{option} {problem}")
        self.option = option
        self.problem = problem


class LocalProtocolError(AcpRemoteError):
    """Says that the caller used an object in a state that does not allow it."""


class RemoteProtocolError(AcpRemoteError):
    """Says that the peer broke the rules.

    `kind` is the ending that follows.
    """

    def __init__(self, message: str, kind: EndingKind = EndingKind.PROTOCOL) -> None:
        super().__init__(message)
        self.kind = kind

    @property
    def ending(self) -> Ending:
        """The ending that follows from this error."""
        return Ending(self.kind, str(self))


class ChannelClosed(AcpRemoteError):
    """Says that a channel is closed, and by its `ending` why."""

    def __init__(self, ending: Ending) -> None:
        super().__init__(str(ending))
        self.ending = ending


class ConnectError(AcpRemoteError):
    """Says that an endpoint could not be reached.

    `final` is true when another try cannot help (a wrong certificate, a wrong address).
    """

    exit_status = ExitStatus.CANNOT_CONNECT

    def __init__(self, message: str, *, final: bool = False) -> None:
        super().__init__(message)
        self.final = final


class ConnectRefused(ConnectError):
    """Says that the endpoint answered the handshake with HTTP `status` instead of 101."""

    def __init__(self, message: str, status: int) -> None:
        retryable = status >= 500 or status in (408, 425, 429)
        super().__init__(message, final=not retryable)
        self.status = status
        self.exit_status = ExitStatus.CANNOT_CONNECT if retryable else ExitStatus.REFUSED


class ListenError(AcpRemoteError):
    """Says that the address cannot be listened on."""

    exit_status = ExitStatus.CANNOT_CONNECT


class AgentStartError(AcpRemoteError):
    """Says that the agent's command could not be started."""

    exit_status = ExitStatus.AGENT_FAILED
