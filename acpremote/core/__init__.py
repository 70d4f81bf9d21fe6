"""Pure logic: no event loop, sockets, processes, clocks, logging or environment.

Values are msgspec structs where they hold no secret that a `repr` must leave out: making a frozen, slotted
dataclass compiles its methods anew at every start, eight times the work, and making one of its objects is
slower too. With one for every value here a mirror started 3 % later and an expose 5 %.
"""
