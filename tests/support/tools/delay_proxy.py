"""Forward a port to another and let every byte arrive later: python tests/support/run.py delay_proxy PORT TO MS

Each direction takes half of the delay, as a network with that round trip would. Bytes keep their order.
"""

import asyncio
import sys
from contextlib import suppress

_PIECE = 1 << 20


async def _forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, seconds: float) -> None:
    """Write what is read, each piece so much later; pieces under way do not wait for each other."""
    loop, queue = asyncio.get_running_loop(), asyncio.Queue[tuple[float, bytes]]()

    async def read() -> None:
        while data := await reader.read(_PIECE):
            await queue.put((loop.time() + seconds, data))
        await queue.put((loop.time() + seconds, b""))

    reading = asyncio.create_task(read())
    try:
        while True:
            when, data = await queue.get()
            if (wait := when - loop.time()) > 0:
                await asyncio.sleep(wait)
            if not data:
                return
            writer.write(data)
            await writer.drain()
    finally:
        reading.cancel()
        writer.close()


async def serve(port: int, to: int, milliseconds: float) -> None:
    """Forward connections until cancelled."""
    half = milliseconds / 2000

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", to, limit=_PIECE)
        with suppress(ConnectionError):
            await asyncio.gather(_forward(reader, far_writer, half), _forward(far_reader, writer, half))

    server = await asyncio.start_server(connected, "127.0.0.1", port, limit=_PIECE)
    async with server:
        await server.serve_forever()


def main(port: str, to: str, milliseconds: str) -> None:
    """Run until a signal."""
    with suppress(KeyboardInterrupt):
        asyncio.run(serve(int(port), int(to), float(milliseconds)))


if __name__ == "__main__":
    main(*sys.argv[1:])
