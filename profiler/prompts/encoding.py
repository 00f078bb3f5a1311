"""In which encoding a file is written, and its lines.

UTF-8 is tried first, line by line, since files are put together from several sources; what is not UTF-8 is read in one
other encoding, found from the beginning of the file or at the first such line, and this is told. Files with two or four
bytes a character are told by their byte order mark or by their NULs.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from typing import BinaryIO

from profiler.errors import PromptsError
from profiler.prompts.account import Remarks
from profiler.prompts.cleaning import NULS, SURROGATES
from profiler.prompts.source import CHUNK_BYTES, EXPECTED, REMEDY, as_stream

MAX_LINE_BYTES = 1 << 26  # 64 MiB: a longer line is no record but a sign that the format is another
TOO_LONG = "a line longer than 64 MiB"
BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF32_LE, "utf-32-le"), (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"),
)  # fmt: skip
# Bytes that no text has, in any encoding whose letters are single bytes: control codes other than tab, line feed, form
# feed, carriage return, escape (colours of logs), record separator (JSON text
# sequences) and NUL (padding; judged apart).
CONTROL_BYTES = bytes(set(range(1, 32)) - {9, 10, 12, 13, 27, 30}) + b"\x7f"
MOST_CONTROL_BYTES = 0.02  # compressed and binary data have about 10 % of them, text none


class Lines:
    """The lines of a stream as UTF-8 bytes or text, counted from 1; `encoding` is what was found, in words."""

    def __init__(self, stream: BinaryIO, head: bytes, name: str, remarks: Remarks) -> None:
        """Find the encoding from `head`.

        Raises:
            PromptsError: the beginning is binary.
        """
        self.remarks = remarks
        self.encoding = "UTF-8"
        self.number = 0
        self._fallback: str | None = None
        self._text_head = head
        wide = self._wide_encoding(head)
        if wide is not None:
            self.encoding = wide.upper().removesuffix("-LE").removesuffix("-BE")
            stream = as_stream(_recoded(stream, wide))
            # surrogatepass: half a pair may stand at the end of the head
            self.head = head[: len(head) // 4 * 4].decode(wide, "replace").lstrip("\ufeff")
        else:
            refuse_binary(head, name)
            mark = head.startswith(codecs.BOM_UTF8)
            if mark:
                stream.read(3)
                head = head[3:]
            if b"\r" in head and b"\n" not in head:
                stream = as_stream(_with_line_feeds(stream))
                head = head.replace(b"\r", b"\n")
            try:  # a lone surrogate in three bytes, as some programs write it, is no other encoding
                codecs.getincrementaldecoder("utf-8")("surrogatepass").decode(head)
            except UnicodeDecodeError:
                self._fallback = find_encoding(head)
                self.encoding = _in_words(self._fallback)
            self.head = "".join(self.text(line) for line in head.splitlines(keepends=True))
        self.stream = stream

    @staticmethod
    def _wide_encoding(head: bytes) -> str | None:
        for mark, name in BYTE_ORDER_MARKS:
            if head.startswith(mark):
                return None if name == "utf-8" else name
        sample = head[:4096]
        if len(sample) >= 4 and sample.count(0) > 0.2 * len(sample):
            even, odd = sample[0::2].count(0), sample[1::2].count(0)
            if odd > 0.4 * len(sample) / 2 and even < 0.1 * odd:
                return "utf-16-le"
            if even > 0.4 * len(sample) / 2 and odd < 0.1 * even:
                return "utf-16-be"
        return _wide_by_letters(sample)

    def __iter__(self) -> Iterator[bytes]:
        """Lines as bytes, their ends kept; a line that is too long is cut to 64 MiB and the rest is passed over."""
        readline = self.stream.readline
        while line := readline(MAX_LINE_BYTES):
            self.number += 1
            yield line
            if len(line) == MAX_LINE_BYTES and line[-1] != 10:
                while (rest := readline(MAX_LINE_BYTES)) and rest[-1] != 10:
                    pass

    def text(self, line: bytes) -> str:
        """One line as text."""
        try:
            return line.decode("utf-8")
        except UnicodeDecodeError:
            whole = _with_surrogates(line)
            if whole is not None:
                self.remarks.line = self.number
                if self.number:
                    self.remarks.add(SURROGATES)
                return whole
            if self._fallback is None:
                self._fallback = find_encoding(line)
            self.remarks.line = self.number
            if self.number:
                self.remarks.add(f"lines that are not UTF-8 read as {_in_words(self._fallback)}")
            return line.decode(self._fallback, "replace")

    def texts(self) -> Iterator[str]:
        """Lines as text, their ends kept, NUL bytes dropped."""
        for line in self:
            text = self.text(line)
            if "\x00" in text:
                self.remarks.line = self.number
                self.remarks.add(NULS)
                text = text.replace("\x00", "")
            yield text

    def pieces(self) -> Iterator[str]:
        """The text in pieces that need not end with a line, for formats in which line ends mean nothing."""
        encoding = self._fallback or "utf-8"
        # Surrogates pass: those of a JSON value are replaced, and told, where it is read.
        decoder = codecs.getincrementaldecoder(encoding)("surrogatepass" if encoding == "utf-8" else "replace")
        while chunk := self.stream.read(CHUNK_BYTES):
            try:
                text = decoder.decode(chunk)
            except UnicodeDecodeError:
                encoding = find_encoding(chunk)
                self.remarks.line = 0
                self.remarks.add(f"parts that are not UTF-8 read as {_in_words(encoding)}")
                pending = decoder.getstate()[0]
                decoder = codecs.getincrementaldecoder(encoding)("replace")
                text = decoder.decode(pending + chunk)
            if "\x00" in text:
                self.remarks.line = 0
                self.remarks.add(NULS)
                text = text.replace("\x00", "")
            yield text
        yield codecs.getincrementaldecoder("utf-8")("replace").decode(decoder.getstate()[0], final=True)


def _wide_by_letters(sample: bytes) -> str | None:
    """UTF-16 without a byte order mark in a script without ASCII (Chinese), told by what it decodes to.

    Only bytes that are text in no other way are looked at: no UTF-8, and with control codes.
    """
    if len(sample) < 16 or _share_of_controls(sample) <= MOST_CONTROL_BYTES:
        return None
    for name in ("utf-16-le", "utf-16-be"):
        text = sample[: len(sample) // 2 * 2].decode(name, "replace")
        letters = sum(char.isascii() or 0x3000 <= ord(char) < 0x9FFF or 0xAC00 <= ord(char) < 0xD7A4 for char in text)
        usual = text.count("\n") + text.count(" ") + text.count("\u3002") > 0
        if usual and letters > 0.98 * len(text) and _share_of_controls(text.encode("utf-8", "replace")) == 0:
            return name
    return None


def _share_of_controls(sample: bytes) -> float:
    return (len(sample) - len(sample.translate(None, CONTROL_BYTES))) / max(len(sample), 1)


def _with_surrogates(line: bytes) -> str | None:
    """UTF-8 in which surrogates are written as characters (CESU-8, WTF-8): pairs joined, lone ones replaced."""
    try:
        text = line.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return None
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def find_encoding(data: bytes) -> str:
    """The likeliest encoding of bytes that are not UTF-8.

    Where few letters are beyond ASCII it is a western text, hence Windows-1252, which short texts do not tell from its
    relatives by frequencies; else charset-normalizer decides. Damaged UTF-8 stays UTF-8.
    """
    high = sum(byte >= 0x80 for byte in data[:65536])
    repaired = data[:65536].decode("utf-8", "replace")
    damaged = repaired.count("\ufffd")
    wide = sum(ord(char) > 0x7F for char in repaired) - damaged
    if wide > 4 * damaged:
        return "utf-8"
    letters = sum(65 <= byte <= 90 or 97 <= byte <= 122 for byte in data[:65536])
    if high <= 0.34 * (letters + high) or len(data) < 24:
        return "cp1252"
    from charset_normalizer import from_bytes

    best = from_bytes(data[:16384]).best()
    return best.encoding if best is not None else "cp1252"


def _in_words(encoding: str) -> str:
    return {"cp1252": "Windows-1252", "utf-8": "damaged UTF-8"}.get(encoding, encoding.replace("_", "-"))


def refuse_binary(head: bytes, name: str) -> None:
    """Raise PromptsError where the beginning has control codes that no text has."""
    sample = head[:65536]
    if _share_of_controls(sample) > MOST_CONTROL_BYTES or sample.count(0) > 0.5 * len(sample):
        raise PromptsError(
            f"{name} is a binary file, no text", expected=EXPECTED,
            got=f"it begins with {head[:16].hex(' ')}", remedy=REMEDY,
        )  # fmt: skip


def _recoded(stream: BinaryIO, encoding: str) -> Iterator[bytes]:
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    first = True
    while chunk := stream.read(CHUNK_BYTES):
        text = decoder.decode(chunk)
        if first and text:
            text, first = text.removeprefix("\ufeff"), False
        yield text.encode("utf-8", "replace")
    rest = decoder.decode(b"", final=True)
    if rest:
        yield rest.encode("utf-8", "replace")


def _with_line_feeds(stream: BinaryIO) -> Iterator[bytes]:
    while chunk := stream.read(CHUNK_BYTES):
        yield chunk.replace(b"\r", b"\n")
