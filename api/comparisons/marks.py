"""Which tokens of an answer were accepted drafts, and which text are they?

vLLM's detailed per-request metrics list, step by step, how many drafts were accepted (`per_step_accepted`); a step that
accepted a emits a + 1 tokens, the drafts first and then the target's own. Steps without drafts are not listed and emit
one token. So the list is laid over the pieces of the stream, each of them one step unless the server was behind with
sending; where they do not fit, over the tokens themselves if each step drafted; else nothing is said.

Tokens become text by the server's own tokenizer (`/tokenize` with `return_token_strs`), in its notation: byte-level
(GPT-2's bytes_to_unicode, published with its encoder.py) or SentencePiece (a lower block for a space, <0x0A> for a
byte). Refused (None): text that these tokens do not spell, or whose pieces end elsewhere than tokens do.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from itertools import accumulate, groupby

Spans = list[tuple[str, bool]]  # text, and whether it is of accepted drafts
_BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")


def accepted_flags(pieces: Sequence[int], per_step_accepted: Sequence[int], tokens: int) -> list[bool] | None:
    """For each token of the answer whether it was an accepted draft; None where the list does not tell.

    pieces: tokens of each piece of the stream. The last step may have accepted more than was still sent.
    """
    flags = _over_pieces(pieces, per_step_accepted) if sum(pieces) == tokens else None
    if flags is None and 1 + sum(accepted + 1 for accepted in per_step_accepted) == tokens:
        flags = [False]  # the first token is the prefill's; each step drafted, so the list is the whole answer
        for accepted in per_step_accepted:
            flags += [True] * accepted + [False]
    return flags


def _over_pieces(pieces: Sequence[int], per_step_accepted: Sequence[int]) -> list[bool] | None:
    if not pieces or pieces[0] != 1:
        return None
    counted = [accepted for accepted in per_step_accepted if accepted]
    seen = [tokens - 1 for tokens in pieces if tokens > 1]
    cut = len(counted) == len(seen) + 1 and per_step_accepted[-1] > 0 and pieces[-1] == 1 < len(pieces)
    if cut:
        counted.pop()  # the last step accepted more than the one token that was still sent
    if len(counted) != len(seen) or counted[:-1] != seen[:-1] or (seen and counted[-1] < seen[-1]):
        return None
    flags: list[bool] = []
    last = len(pieces) - 1
    for index, tokens in enumerate(pieces):
        cut = cut or (index == last and tokens > 1 and counted[-1] > tokens - 1)
        flags += [True] * (tokens - 1) + [cut and index == last]
    return flags


def spans(text: str, token_strings: Sequence[str], flags: Sequence[bool], ends: Sequence[tuple[int, int]]) -> Spans:
    """The text in runs of drafts and of the target's own tokens; empty where tokens and text do not fit.

    ends: after each piece of the stream, how many tokens and how many characters had come.
    """
    content = text.encode()
    spelled = _spelled(token_strings, content)
    if spelled is None or len(flags) - len(spelled) not in (0, 1):  # the last token may be an end of text without one
        return []
    offsets = [0, *accumulate(map(len, spelled))]
    for tokens, characters in ends:
        if offsets[min(tokens, len(spelled))] != len(text[:characters].encode()):
            return []
    found: Spans = []
    start = 0
    for is_draft, run in groupby(range(len(spelled)), key=lambda i: flags[i]):
        end = offsets[list(run)[-1] + 1]
        while end < len(content) and content[end] & 0xC0 == 0x80:  # a character in two tokens goes with its last
            end += 1
        if end > start:
            found.append((content[start:end].decode(), is_draft))
            start = end
    return found


def _spelled(token_strings: Sequence[str], content: bytes) -> list[bytes] | None:
    """The bytes of each token, in the notation that spells the content."""
    for read in (_byte_level, _sentence_piece):
        found = [read(token) for token in token_strings]
        known = [piece for piece in found if piece is not None]
        if len(known) == len(found) and b"".join(known) == content:
            return known
    return None


def _byte_level(token: str) -> bytes | None:
    table = _byte_of_character()
    return bytes(table[c] for c in token) if all(c in table for c in token) else None


def _sentence_piece(token: str) -> bytes:
    byte = _BYTE.fullmatch(token)
    return bytes([int(byte[1], 16)]) if byte else token.replace("\u2581", " ").encode()


@cache
def _byte_of_character() -> dict[str, int]:
    """Printable bytes stand for themselves, the others for characters from 256 on, in order."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(b): b for b in printable} | {chr(256 + i): b for i, b in enumerate(others)}
