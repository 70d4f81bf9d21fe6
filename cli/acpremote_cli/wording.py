"""Says a library's error in the words of the command line: fields of options objects by their flags.

The options know nothing of flags, and most flags are called as their fields are; the others stand here.
"""

from __future__ import annotations

import os

from acpremote.errors import OptionError

__all__ = ["VARIABLE", "explain", "flag_of"]

VARIABLE = "ACPREMOTE_"
"""How the variables begin that stand in for a server's flags."""

_PARAMETERS = {
    "unix_path": "unix",
    "allowed_hosts": "allow_host",
    "allowed_origins": "allow_origin",
    "tls_certificate": "tls_cert",
    "metrics_address": "metrics",
    "record_dir": "record",
    "max_size": "max_message_size",
    "use_unstable_protocol": "unstable_protocol",
    "headers": "header",
}
_ARGUMENTS = {"bearer_token": "the token", "command": "COMMAND"}


def flag_of(option: str) -> str:
    """What a field (`ServerOptions.unix_path`) is called on the command line: `--unix`."""
    field = option.rpartition(".")[2]
    return _ARGUMENTS.get(field) or "--" + _PARAMETERS.get(field, field).replace("_", "-")


def explain(error: Exception, *, from_environment: bool = False) -> str:
    """The error's message. `from_environment`: a value may have come from the flag's variable."""
    if not isinstance(error, OptionError):
        return str(error)
    name = flag_of(error.option)
    variable = VARIABLE + name.removeprefix("--").replace("-", "_").upper()
    if from_environment and variable in os.environ:
        name = f"{name} (or {variable})"
    return f"{name} {error.problem}"
