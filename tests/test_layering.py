"""The import direction of DESIGN: every module imports only from layers below its own."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "acpremote"

LAYERS = "ending errors options core transport pump endpoint listening server command client chat doctor sdk".split()
"""Lowest first. `server` and `client` do not import each other."""

BESIDE_CORE = {"elicitation", "components", "console", "metadata", "metrics", "recording", "tls"}
"""Import at most `options` and below (and the SDK's schema where allowed)."""

SDK_ALLOWED = {"sdk", "elicitation", "components.bridge", "demo"}
IMPURE = {
    "asyncio",
    "anyio",
    "websockets",
    "socket",
    "subprocess",
    "time",
    "logging",
    "os",
    "uvloop",
    "threading",
}


def module_name(path: Path) -> str:
    relative = path.relative_to(PACKAGE).with_suffix("")
    return ".".join(part for part in relative.parts if part != "__init__")


def imports(path: Path) -> set[str]:
    """Absolute names of what a module imports, also inside functions and type-checking blocks."""
    package = ["acpremote", *path.relative_to(PACKAGE).parent.parts]
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package[: len(package) + 1 - node.level]) if node.level else ""
            head = ".".join(part for part in (base, node.module) if part)
            found |= {f"{head}.{alias.name}" if node.level else head for alias in node.names}
    return found


MODULES = {module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def layer_of(name: str) -> str:
    return name.split(".")[0]


def own_imports(name: str) -> set[str]:
    return {
        imported.removeprefix("acpremote.")
        for imported in imports(MODULES[name])
        if imported.startswith("acpremote.")
    }


@pytest.mark.parametrize("name", [name for name in MODULES if name])
def test_a_module_imports_only_from_layers_below_it(name: str) -> None:
    layer = layer_of(name)
    below: set[str] = set()
    if layer in LAYERS:
        below = set(LAYERS[: LAYERS.index(layer)])
        if layer in {"client", "chat", "doctor", "sdk"}:
            below |= BESIDE_CORE
        if layer in {"client", "doctor"}:  # either end runs without the other
            below -= {"server", "command"}
        if layer in {"endpoint", "listening", "server"}:
            below |= BESIDE_CORE
        if layer == "transport":
            below |= {"tls"}
        if layer == "pump":
            below |= {"recording", "metrics"}
    elif layer in BESIDE_CORE:
        below = {"ending", "errors", "options"}
    elif layer == "demo":
        below = set(LAYERS) | BESIDE_CORE
    else:
        pytest.fail(f"acpremote.{name} stands in no layer: add it to the design first")
    wrong = {imported for imported in own_imports(name) if layer_of(imported) not in below | {layer}}
    assert not wrong, f"acpremote.{name} imports {sorted(wrong)}"


@pytest.mark.parametrize("name", [name for name in MODULES if name.startswith("core")])
def test_the_core_is_pure(name: str) -> None:
    impure = {imported.split(".")[0] for imported in imports(MODULES[name])} & IMPURE
    assert not impure


@pytest.mark.parametrize(
    "name", [name for name in MODULES if name not in SDK_ALLOWED and layer_of(name) != "sdk"]
)
def test_only_named_modules_import_the_acp_sdk(name: str) -> None:
    assert "acp" not in {imported.split(".")[0] for imported in imports(MODULES[name])}


def test_only_the_cli_imports_typer_and_prints() -> None:
    for name, path in MODULES.items():
        assert "typer" not in {imported.split(".")[0] for imported in imports(path)}, name
