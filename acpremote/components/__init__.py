"""The component protocol (`agentskit.chat.component`, version 1): ChoiceList, typed actions, shells.

Read `frames.py` first (what travels), then `manifest.py` (what is shown), then `confirmation.py` (what
may run). Only `bridge.py` knows the Agent Client Protocol and only `terminal.py` knows prompt_toolkit;
neither is imported here.
"""

from __future__ import annotations

from .choicelist import (
    Choice,
    ChoiceAction,
    ChoiceListProps,
    InvalidPropsError,
    choice_list_frame,
    select_choice,
)
from .frames import (
    Diagnostic,
    DiagnosticCode,
    Fallback,
    InteractionEvent,
    InvalidFrameError,
    RenderFrame,
    SelectionEvent,
    decode_component_event,
    decode_component_frame,
    format_fallback,
)
from .manifest import (
    ChoiceListComponent,
    ComponentDefinition,
    ComponentManifest,
    EventDefinition,
    Resolved,
    Unresolved,
    create_component_interaction,
    define_component_manifest,
    resolve_component_frame,
)

__all__ = [
    "Choice",
    "ChoiceAction",
    "ChoiceListComponent",
    "ChoiceListProps",
    "ComponentDefinition",
    "ComponentManifest",
    "Diagnostic",
    "DiagnosticCode",
    "EventDefinition",
    "Fallback",
    "InteractionEvent",
    "InvalidFrameError",
    "InvalidPropsError",
    "RenderFrame",
    "Resolved",
    "SelectionEvent",
    "Unresolved",
    "choice_list_frame",
    "create_component_interaction",
    "decode_component_event",
    "decode_component_frame",
    "define_component_manifest",
    "format_fallback",
    "resolve_component_frame",
    "select_choice",
]
