"""WebSocket remote proxy and relay for the Agent Client Protocol (ACP).

Importing this package is cheap: names are imported from their modules at first use, so that programs
which only relay frames never load the ACP SDK.
"""

from __future__ import annotations

import importlib

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
    "RemoteProtocolError": "errors",
    "Resolved": "components",
    "Unresolved": "components",
    "create_action_confirmation": "components",
    "define_component_manifest": "components",
    "format_fallback": "components",
    "resolve_component_frame": "components",
    "select_choice": "components",
}

__all__ = sorted(_MODULE_OF)


def __getattr__(name: str) -> object:
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(importlib.import_module(f".{module}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
