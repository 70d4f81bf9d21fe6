"""Command lines: flags to one options object, to one call, to an exit status."""
