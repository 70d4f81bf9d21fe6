"""Commands whose last words are a command of somebody else: which options are whose.

`--` parts them, and a command without options needs none. What must not happen is that an option goes to the
wrong program without a word: `expose my-agent --port 9000` listens on 8080, and my-agent is given the port.
"""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand

from acpremote.ending import ExitStatus

from .run import fail

__all__ = ["ForeignCommand", "is_address"]


def is_address(word: str) -> bool:
    """Whether a word is meant as an endpoint's address rather than as a program."""
    return "://" in word or word.startswith("unix:")


class ForeignCommand(TyperCommand):
    """A command that ends in another one's words. After an address, options are our own again."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Finds out whose the options behind the first word are, and refuses to guess."""
        given = list(args)
        rest = super().parse_args(ctx, args)
        words = _foreign_words(ctx)
        before = given[: len(given) - len(words)]
        if not words or before[-1:] == ["--"]:
            return rest
        if is_address(words[0]):
            ctx.params.clear()
            ctx.allow_interspersed_args = True
            return super().parse_args(ctx, given)
        self._refuse_own_options(ctx, words)
        return rest

    def _refuse_own_options(self, ctx: Any, words: list[str]) -> None:
        ours = {name for parameter in self.params for name in (*parameter.opts, *parameter.secondary_opts)}
        us = f"acpremote {ctx.info_name}"
        for word in words[1:]:
            option = word.partition("=")[0]
            if option.startswith("-") and option in ours:
                raise fail(
                    f"{option} can be for {us} or for {words[0]}: put -- before the command "
                    f"({us} {option} … -- {words[0]} …); what stands after it is the command's",
                    ExitStatus.USAGE,
                )


def _foreign_words(ctx: Any) -> list[str]:
    """What the command's only argument has taken."""
    names = [each.name for each in ctx.command.params if each.param_type_name == "argument"]
    return list(ctx.params.get(names[0]) or ())
