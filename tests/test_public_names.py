"""The public names are a promise: this test is where a change to them is noticed."""

from __future__ import annotations

import subprocess
import sys

import acpremote

NAMES = """
AcpRemoteError AcpSessionContext AgentStartError ChannelClosed ChoiceElicitationAccepted
ChoiceElicitationCancelled ChoiceElicitationDeclined ConfigError ConnectError ConnectRefused
ElicitationChoice ElicitationUnsupportedError Ending EndingKind ExitStatus
InvalidElicitationFallbackError InvalidElicitationResponseError ListenError LocalProtocolError
RemoteProtocolError
ActionRegistry ChoiceListComponent Resolved Unresolved create_action_confirmation define_component_manifest
format_fallback resolve_component_frame select_choice
""".split()


def test_all_is_pinned() -> None:
    assert sorted(acpremote.__all__) == sorted(NAMES)


def test_every_public_name_can_be_imported() -> None:
    for name in acpremote.__all__:
        value = getattr(acpremote, name)
        assert getattr(value, "__name__", name) == name  # a constant has no name of its own


def test_importing_the_package_does_not_import_the_acp_sdk() -> None:
    code = "import sys, acpremote; print(sorted({'acp', 'pydantic', 'websockets'} & set(sys.modules)))"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout == "[]\n"
