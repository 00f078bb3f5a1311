"""How much of an answer is read? As much as such an answer has, and no byte more.

A server that never ends an answer, or packs one a thousandfold, would otherwise fill this process: within the seconds
that it is waited for, loopback carries gigabytes.
"""

from __future__ import annotations

import aiohttp

LISTING_BYTES = 2**20  # /v1/models, /version
TOKENS_BYTES = 2**24  # /tokenize: 8 bytes for an id, some 10 for a token's text; of prompts of up to a million tokens
METRICS_BYTES = 2**23  # of one engine some 100 kB, and as much again for each data-parallel rank
REFUSAL_BYTES = 2**16  # of which a message shows 300 characters
STREAM_BYTES = 2**20  # comments, and what stands in the last event alone
TOKEN_BYTES = 2**13  # of each token that was asked for: an event has some 300 bytes, 2,000 with its 20 likeliest others


class TooLongError(aiohttp.ClientError):
    """The answer goes on beyond what such an answer can have."""

    def __init__(self, most: int) -> None:
        super().__init__(f"it sends more than {most:,} bytes where a short answer is due")


async def whole(reply: aiohttp.ClientResponse, *, most: int) -> bytes:
    """The answer's body, unpacked. Raises TooLongError, and what a broken connection raises."""
    found = bytearray()
    async for part in reply.content.iter_any():
        found += part
        if len(found) > most:
            reply.close()  # what is still under way is not waited for
            raise TooLongError(most)
    return bytes(found)


async def beginning(reply: aiohttp.ClientResponse, *, most: int = REFUSAL_BYTES) -> str:
    """What an answer begins with, as text; bytes that are none are replaced, whatever encoding it claims."""
    found = bytearray()
    async for part in reply.content.iter_any():
        found += part
        if len(found) > most:
            reply.close()
            break
    return found[:most].decode(errors="replace")
