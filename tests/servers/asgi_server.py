"""Serves the ASGI application that a file defines as `app`: `asgi_server.py FILE`. Prints its URL first."""

from __future__ import annotations

import runpy
import socket
import sys

import uvicorn

if __name__ == "__main__":
    listener = socket.create_server(("127.0.0.1", 0), backlog=256)
    print(f"http://127.0.0.1:{listener.getsockname()[1]}/mcp", flush=True)
    app = runpy.run_path(sys.argv[1])["app"]
    config = uvicorn.Config(app, log_level="warning", lifespan="off", timeout_graceful_shutdown=1)
    uvicorn.Server(config).run(sockets=[listener])
