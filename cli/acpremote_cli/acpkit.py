"""The `acpkit` command."""

from __future__ import annotations

import typer

app = typer.Typer(no_args_is_help=True, add_completion=False)


def main() -> None:
    """Runs the command line."""
    app()


if __name__ == "__main__":
    main()
