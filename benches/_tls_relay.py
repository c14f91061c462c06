"""A TLS front for the null server: `python _tls_relay.py CERTIFICATE KEY UPSTREAM_PORT`.

Prints its port; ends when its stdin closes. Only memory is measured through it, no speed.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import ssl
import sys


async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()


async def main(certificate: str, key: str, upstream: int) -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", upstream)
        await asyncio.gather(copy(reader, inner_writer), copy(inner_reader, writer))

    server = await asyncio.start_server(relay, "127.0.0.1", 0, ssl=context, backlog=1024)
    os.write(1, b"%d\n" % server.sockets[0].getsockname()[1])
    over = asyncio.Event()
    asyncio.get_running_loop().add_reader(0, lambda: over.set() if not os.read(0, 99) else None)
    await over.wait()


if __name__ == "__main__":
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
    os._exit(0)
