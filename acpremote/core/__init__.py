"""Pure logic: no event loop, sockets, processes, clocks, logging or environment."""
