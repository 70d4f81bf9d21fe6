"""The `acpremote` command."""

from __future__ import annotations

import typer

from . import demo, expose, mirror, serve

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Run a coding agent anywhere and use it from any ACP client.",
)
app.command(context_settings={"allow_interspersed_args": False})(expose.expose)
app.command()(serve.serve)
app.command()(mirror.mirror)
app.command()(demo.demo)


def main() -> None:
    """Runs the command line."""
    app()


if __name__ == "__main__":
    main()
