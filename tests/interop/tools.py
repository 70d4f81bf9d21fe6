"""Where the third-party programs of the interop tests are; `install-tools` puts them there."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

__all__ = ["NODE", "NODE_PACKAGES", "PEER", "PYTHON", "needs_node", "needs_python_tools"]

_TOOLS = Path(os.environ.get("ACPREMOTE_TEST_TOOLS", "tools-are-not-installed"))

PYTHON = _TOOLS / "python" / "bin" / "python"
"""An interpreter with the Python SDK, the WebSocket libraries of its age, and uvicorn."""
PEER = _TOOLS / "python" / "bin" / "acpremote"
"""The command of the published `acpremote` 1.10.0, which is another program of this name."""
NODE_PACKAGES = _TOOLS / "node" / "node_modules"
"""`acp-sdk-2`, `acp-sdk-1` (the TypeScript SDK), `ws` and `stdio-to-ws`."""
NODE = shutil.which("node") or "node"

_HOW = "ACPREMOTE_TEST_TOOLS must name a directory that tests/interop/install-tools has filled"

needs_python_tools = pytest.mark.skipif(not PEER.exists(), reason=_HOW)
needs_node = pytest.mark.skipif(not (NODE_PACKAGES / "ws").exists(), reason=_HOW)
