"""`python -m benchmarks.services.model`: serve the scripted model on a free port of 127.0.0.1; one JSON line says where.

It ends when standard input does, so it never outlives whoever started it.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import threading

import uvicorn

from benchmarks.services.model.app import build


def main() -> None:
    """Serve until standard input closes."""
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.bind(("127.0.0.1", 0))
    listening.listen(64)
    threading.Thread(target=_end_with_input, daemon=True).start()
    print(json.dumps({"url": f"http://127.0.0.1:{listening.getsockname()[1]}", "pid": os.getpid()}), flush=True)
    config = uvicorn.Config(build(), ws="none", loop="asyncio", lifespan="off", log_level="warning", access_log=False)
    uvicorn.Server(config).run(sockets=[listening])


def _end_with_input() -> None:
    while os.read(sys.stdin.fileno(), 4096):
        pass
    os._exit(0)


if __name__ == "__main__":
    main()
