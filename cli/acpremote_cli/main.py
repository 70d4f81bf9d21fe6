"""The `acpremote` command: finds out which command is meant and loads only that one.

A mirror starts whenever its editor does, so it must not wait for what the other commands import.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

import typer

__all__ = ["main"]

_SETTINGS: dict[str, dict[str, Any]] = {
    "expose": {"context_settings": {"allow_interspersed_args": False}},
    "serve": {},
    "mirror": {},
    "chat": {"context_settings": {"allow_interspersed_args": False}},
    "demo": {},
    "doctor": {},
    "show": {},
}
"""Every command: the module of its name holds the function of its name."""


def _app(names: list[str]) -> typer.Typer:
    app = typer.Typer(
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        help="Run a coding agent anywhere and use it from any ACP client.",
    )
    app.callback()(lambda: None)  # with a single command typer would take its name for an argument
    for name in names:
        module = importlib.import_module(f".{name}", __package__)
        app.command(name, **_SETTINGS[name])(getattr(module, name))
    return app


def main() -> None:
    """Runs the command line."""
    chosen = [word for word in sys.argv[1:2] if word in _SETTINGS]
    _app(chosen or list(_SETTINGS))()


if __name__ == "__main__":
    main()
