"""The `acpremote` command: finds out which command is meant and loads only that one.

A mirror starts whenever its editor does, so it must not wait for what the other commands import.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys
from typing import Annotated, Any

import typer

from .foreign import ForeignCommand

__all__ = ["main"]

_SETTINGS: dict[str, dict[str, Any]] = {
    "expose": {"context_settings": {"allow_interspersed_args": False}, "cls": ForeignCommand},
    "serve": {},
    "mirror": {},
    "chat": {"context_settings": {"allow_interspersed_args": False}, "cls": ForeignCommand},
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
    app.callback()(_options)  # with a single command typer would take its name for an argument
    for name in names:
        module = importlib.import_module(f".{name}", __package__)
        app.command(name, **_SETTINGS[name])(getattr(module, name))
    return app


def _fill_standard_streams() -> None:
    """Fills the place of a standard stream that is closed (`<&-`, `2>&-`), before anything else takes it.

    uvloop aborts the process when its own descriptors get these numbers, and Python prints to standard output
    what is meant for a standard error that is not there. Writing to a closed standard output must go on
    failing, so it is opened for reading.
    """
    for descriptor, mode in ((0, os.O_RDONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, mode)  # the lowest free number is this one
    if sys.stderr is None:
        sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115 -- as long as we live


def _tell_version(wanted: bool) -> None:
    if wanted:
        print(f"acpremote {importlib.metadata.version('acpremote')}")
        raise typer.Exit


def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_tell_version, is_eager=True)
    ] = False,
) -> None:
    pass


def main() -> None:
    """Runs the command line."""
    _fill_standard_streams()
    chosen = [word for word in sys.argv[1:2] if word in _SETTINGS]
    gc.disable()  # imports make much and leave no garbage: looking for it is a twentieth of the start
    app = _app(chosen or list(_SETTINGS))
    gc.freeze()
    gc.enable()
    app()


if __name__ == "__main__":
    main()
