"""The component protocol (`agentskit.chat.component`, version 1): ChoiceList, typed actions, shells.

Read `frames.py` first (what travels), then `manifest.py` (what is shown), then `confirmation.py` (what
may run). Only `bridge.py` knows the Agent Client Protocol and only `terminal.py` knows prompt_toolkit;
neither is imported here.
"""

from __future__ import annotations

from .actions import Action, ActionRefusal, ActionRefusedError, ActionRegistry, NoArguments
from .choicelist import (
    Choice,
    ChoiceAction,
    ChoiceListProps,
    InvalidPropsError,
    choice_list_frame,
    select_choice,
)
from .confirmation import (
    ActionConfirmation,
    ActionHandle,
    ActionOutcome,
    ActionPhase,
    ActionStatus,
    create_action_confirmation,
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
from .shell import ComponentShell, SelectionResult
from .submission import UNAVAILABLE, ChoiceReservation, ChoiceSubmissions

__all__ = [
    "UNAVAILABLE",
    "Action",
    "ActionConfirmation",
    "ActionHandle",
    "ActionOutcome",
    "ActionPhase",
    "ActionRefusal",
    "ActionRefusedError",
    "ActionRegistry",
    "ActionStatus",
    "Choice",
    "ChoiceAction",
    "ChoiceListComponent",
    "ChoiceListProps",
    "ChoiceReservation",
    "ChoiceSubmissions",
    "ComponentDefinition",
    "ComponentManifest",
    "ComponentShell",
    "Diagnostic",
    "DiagnosticCode",
    "EventDefinition",
    "Fallback",
    "InteractionEvent",
    "InvalidFrameError",
    "InvalidPropsError",
    "NoArguments",
    "RenderFrame",
    "Resolved",
    "SelectionEvent",
    "SelectionResult",
    "Unresolved",
    "choice_list_frame",
    "create_action_confirmation",
    "create_component_interaction",
    "decode_component_event",
    "decode_component_frame",
    "define_component_manifest",
    "format_fallback",
    "resolve_component_frame",
    "select_choice",
]
