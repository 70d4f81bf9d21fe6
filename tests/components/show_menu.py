"""Run in a terminal by the tests: shows the menu that is given as JSON and prints how it was left."""

from __future__ import annotations

import asyncio
import json
import sys

from acpremote.components.menu import Chosen, Menu, MenuRow
from acpremote.components.terminal import choose_in_terminal


async def main() -> None:
    given = json.loads(sys.argv[1])
    rows = tuple(MenuRow(*row) for row in given.pop("rows"))
    print("before")
    if given.pop("wait", False):
        print("waiting", flush=True)
        await asyncio.get_running_loop().run_in_executor(None, input)
    try:
        outcome = await choose_in_terminal(Menu(rows=rows, **given))
    except KeyboardInterrupt:
        print("outcome: interrupted")
    else:
        print("outcome:", outcome.id if isinstance(outcome, Chosen) else outcome.value)


asyncio.run(main())
