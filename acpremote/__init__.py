"""WebSocket remote proxy and relay for the Agent Client Protocol (ACP).

Importing this package is cheap: names are imported from their modules at first use, so that programs
which only relay frames never load the ACP SDK.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the same names, for type checkers and editors; a test keeps the two alike
    from .client import run_mirror as run_mirror
    from .command import serve_command as serve_command
    from .command import serve_stdio_command as serve_stdio_command
    from .components import ActionRegistry as ActionRegistry
    from .components import ChoiceListComponent as ChoiceListComponent
    from .components import Resolved as Resolved
    from .components import Unresolved as Unresolved
    from .components import create_action_confirmation as create_action_confirmation
    from .components import define_component_manifest as define_component_manifest
    from .components import format_fallback as format_fallback
    from .components import resolve_component_frame as resolve_component_frame
    from .components import select_choice as select_choice
    from .elicitation import AcpSessionContext as AcpSessionContext
    from .elicitation import ChoiceElicitationAccepted as ChoiceElicitationAccepted
    from .elicitation import ChoiceElicitationCancelled as ChoiceElicitationCancelled
    from .elicitation import ChoiceElicitationDeclined as ChoiceElicitationDeclined
    from .elicitation import ElicitationChoice as ElicitationChoice
    from .elicitation import ElicitationUnsupportedError as ElicitationUnsupportedError
    from .elicitation import InvalidElicitationFallbackError as InvalidElicitationFallbackError
    from .elicitation import InvalidElicitationResponseError as InvalidElicitationResponseError
    from .ending import Ending as Ending
    from .ending import EndingKind as EndingKind
    from .ending import ExitStatus as ExitStatus
    from .errors import AcpRemoteError as AcpRemoteError
    from .errors import AgentStartError as AgentStartError
    from .errors import ChannelClosed as ChannelClosed
    from .errors import ConfigError as ConfigError
    from .errors import ConnectError as ConnectError
    from .errors import ConnectRefused as ConnectRefused
    from .errors import ListenError as ListenError
    from .errors import LocalProtocolError as LocalProtocolError
    from .errors import RemoteProtocolError as RemoteProtocolError
    from .options import ClientOptions as ClientOptions
    from .options import CommandOptions as CommandOptions
    from .options import ServerOptions as ServerOptions
    from .options import TransportOptions as TransportOptions
    from .sdk import RemoteAgent as RemoteAgent
    from .sdk import RemoteClientConnection as RemoteClientConnection
    from .sdk import connect_acp as connect_acp
    from .sdk import connect_remote_agent as connect_remote_agent
    from .sdk import serve_acp as serve_acp
    from .server import Server as Server

_MODULE_OF = {
    "AcpRemoteError": "errors",
    "AcpSessionContext": "elicitation",
    "ActionRegistry": "components",
    "AgentStartError": "errors",
    "ChannelClosed": "errors",
    "ChoiceElicitationAccepted": "elicitation",
    "ChoiceElicitationCancelled": "elicitation",
    "ChoiceElicitationDeclined": "elicitation",
    "ChoiceListComponent": "components",
    "ClientOptions": "options",
    "CommandOptions": "options",
    "ConfigError": "errors",
    "ConnectError": "errors",
    "ConnectRefused": "errors",
    "ElicitationChoice": "elicitation",
    "ElicitationUnsupportedError": "elicitation",
    "Ending": "ending",
    "EndingKind": "ending",
    "ExitStatus": "ending",
    "InvalidElicitationFallbackError": "elicitation",
    "InvalidElicitationResponseError": "elicitation",
    "ListenError": "errors",
    "LocalProtocolError": "errors",
    "RemoteAgent": "sdk",
    "RemoteClientConnection": "sdk",
    "RemoteProtocolError": "errors",
    "Resolved": "components",
    "Server": "server",
    "ServerOptions": "options",
    "TransportOptions": "options",
    "Unresolved": "components",
    "connect_acp": "sdk",
    "connect_remote_agent": "sdk",
    "create_action_confirmation": "components",
    "define_component_manifest": "components",
    "format_fallback": "components",
    "resolve_component_frame": "components",
    "run_mirror": "client",
    "select_choice": "components",
    "serve_acp": "sdk",
    "serve_command": "command",
    "serve_stdio_command": "command",
}

__all__ = sorted(_MODULE_OF)


if not TYPE_CHECKING:  # a type checker would take every name for an object, also a misspelt one

    def __getattr__(name: str) -> object:
        module = _MODULE_OF.get(name)
        if module is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value: object = getattr(importlib.import_module(f".{module}", __name__), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
