"""Put in front of a Python double by PYTHONPATH: it listens on loopback only, and its fixed file in the temporary folder stays away.

The double itself is not touched and nothing of it is imported here.
"""

from __future__ import annotations

import builtins
import os
import socket
from typing import Any

_bind = socket.socket.bind
_open = builtins.open


def bind(self: socket.socket, address: Any) -> None:
    """Bind to loopback where all interfaces were asked for."""
    if isinstance(address, tuple) and address[0] in ("", "::", "0.0.0.0"):
        host = "::ffff:127.0.0.1" if self.family == socket.AF_INET6 else "127.0.0.1"
        address = (host, *address[1:])
    _bind(self, address)


def open_elsewhere(file: Any, *args: Any, **kwargs: Any) -> Any:
    """Open a file; two doubles must not share the one that is named in the code."""
    if isinstance(file, str) and os.path.basename(file) == "localstripe.pickle":
        file = os.devnull
    return _open(file, *args, **kwargs)


socket.socket.bind = bind  # type: ignore[method-assign]
builtins.open = open_elsewhere
