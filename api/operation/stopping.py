"""How do streams of events learn that the service stops? A server waits for them as for any request, and they last.

Whoever serves the application (uvicorn, alone or in several processes) has set its handlers of SIGTERM and SIGINT
before the application starts; ours go before them.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from types import FrameType


def tell_when_stopping(stopping: asyncio.Event) -> None:
    """Have `stopping` set by the signals that end the service; called on the event loop, as the application starts."""
    if threading.current_thread() is not threading.main_thread():
        return  # signals come to the main thread alone
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        servers = signal.getsignal(number)
        if not callable(servers):
            continue

        def handle(given: int, frame: FrameType | None, servers: object = servers) -> None:
            loop.call_soon_threadsafe(stopping.set)
            if callable(servers):
                servers(given, frame)

        signal.signal(number, handle)
