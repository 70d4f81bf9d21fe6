"""The public names are a promise: this test is where a change to them is noticed."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import acpremote

NAMES = """
AcpRemoteError AcpSessionContext AgentStartError ChannelClosed ChoiceElicitationAccepted
ChoiceElicitationCancelled ChoiceElicitationDeclined ConfigError ConnectError ConnectRefused
ElicitationChoice ElicitationUnsupportedError Ending EndingKind ExitStatus
InvalidElicitationFallbackError InvalidElicitationResponseError ListenError LocalProtocolError
RemoteProtocolError
ActionRegistry ChoiceListComponent Resolved Unresolved create_action_confirmation define_component_manifest
format_fallback resolve_component_frame select_choice
RemoteAgent RemoteClientConnection connect_acp connect_remote_agent serve_acp
run_mirror serve_command serve_stdio_command
TransportOptions ServerOptions CommandOptions ClientOptions Server
""".split()


def test_all_is_pinned() -> None:
    assert sorted(acpremote.__all__) == sorted(NAMES)


def test_every_public_name_can_be_imported() -> None:
    for name in acpremote.__all__:
        value = getattr(acpremote, name)
        assert getattr(value, "__name__", name) == name  # a constant has no name of its own


def test_type_checkers_see_the_same_names_from_the_same_modules() -> None:
    tree = ast.parse(Path(acpremote.__file__).read_text())
    (checked,) = [
        node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    ]
    seen: dict[str | None, str | None] = {}
    for node in checked.body:
        assert isinstance(node, ast.ImportFrom)
        seen |= {alias.asname: node.module for alias in node.names if alias.name == alias.asname}
    assert seen == acpremote._MODULE_OF


def test_importing_the_package_does_not_import_the_acp_sdk() -> None:
    code = "import sys, acpremote; print(sorted({'acp', 'pydantic', 'websockets'} & set(sys.modules)))"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout == "[]\n"
