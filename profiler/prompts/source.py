"""Bytes from a file, a stream or standard input, decompressed on the way, with a look at the beginning.

Refused here: what is no text at all, named for what it is (an HTML page, a Git LFS pointer, an archive, a picture),
since the commonest prompt file that holds none is a download that went wrong.
"""

from __future__ import annotations

import bz2
import io
import lzma
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Protocol

from profiler.errors import PromptsError

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

CHUNK_BYTES = 1 << 18
HEAD_BYTES = 1 << 17  # read ahead to recognise the format
LONGEST_HEAD_BYTES = 1 << 23  # where even the first line is longer than that
EXPECTED = (
    "JSON lines, a JSON array, CSV, Parquet or plain text with one prompt a line, each also gzip or zstd compressed"
)
REMEDY = "see `specworth advise --help` for the shapes that are read"

COMPRESSIONS = {
    b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"BZh": "bzip2", b"\xfd7zXZ\x00": "xz",
}  # fmt: skip
PARQUET = b"PAR1"
# Signatures as file(1) knows them, with the way out.
FOREIGN = (
    (0, b"PK\x03\x04", "a ZIP archive or an Office workbook", "unpack it, or save the sheet as CSV"),
    (0, b"PK\x05\x06", "an empty ZIP archive", ""),
    (257, b"ustar", "a tar archive", "unpack it and give the file inside"),
    (0, b"%PDF", "a PDF document", "give its text, one prompt a line"),
    (0, b"ARROW1", "an Arrow IPC file", "convert it to Parquet or JSON lines"),
    (0, b"\xff\xff\xff\xff", "an Arrow stream", "convert it to Parquet or JSON lines"),
    (0, b"SQLite format 3", "an SQLite database", "export its table as CSV"),
    (0, b"\x89PNG", "a PNG picture", ""), (0, b"\xff\xd8\xff", "a JPEG picture", ""), (0, b"GIF8", "a GIF picture", ""),
    (0, b"\x7fELF", "a program", ""), (0, b"\x93NUMPY", "a NumPy array", ""), (0, b"GGUF", "a GGUF model", ""),
    (0, b"\x80\x04\x95", "a Python pickle", "write its rows as JSON lines"), (0, b"7z\xbc\xaf", "a 7z archive",
    "unpack it"),
    (0, b"Obj\x01", "an Avro file", "convert it to JSON lines"), (0, b"ORC", "an ORC file", "convert it to Parquet"),
    (0, b"\xd0\xcf\x11\xe0", "an Office document", "save the sheet as CSV"),
)  # fmt: skip


class _Decompressor(Protocol):
    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, /) -> bytes: ...


@dataclass
class Source:
    """An opened source: its stream from the first decompressed byte, and its beginning to look at."""

    name: str | None
    stream: BinaryIO
    head: bytes
    compressions: tuple[str, ...]
    cut: list[str]  # why the data ended too early, empty where they did not
    path: Path | None = None

    @property
    def is_whole(self) -> bool:
        """Whether the head is all there is."""
        return len(self.head) < HEAD_BYTES

    @property
    def suffix(self) -> str:
        """The file name's extension without that of the compression, in lower case."""
        name = (self.name or "").lower()
        for end in (".gz", ".gzip", ".zst", ".zstd", ".bz2", ".xz"):
            name = name.removesuffix(end)
        return Path(name).suffix

    def called(self) -> str:
        """How to name it in a message."""
        return self.name or "the list of prompts"


@contextmanager
def open_source(source: str | Path | BinaryIO) -> Iterator[Source]:
    """Open a path, "-" for standard input, or a binary stream.

    Raises:
        PromptsError: it cannot be opened, is empty, or is no text.
    """
    if isinstance(source, str | Path) and str(source) != "-":
        path = Path(source)
        try:
            with path.open("rb") as stream:
                yield _prepare(stream, str(source), path)
        except FileNotFoundError:
            remedy = "download it first" if "://" in str(source) else "check the path"
            raise PromptsError(f"there is no file {str(source)!r}", expected=EXPECTED, remedy=remedy) from None
        except IsADirectoryError:
            raise PromptsError(
                f"{str(source)!r} is a folder", expected="a file of prompts", remedy="name one of its files"
            ) from None
        except PermissionError:
            raise PromptsError(f"{str(source)!r} may not be read", remedy="check its permissions") from None
    elif isinstance(source, str | Path):
        yield _prepare(sys.stdin.buffer, "standard input", None)
    else:
        name = getattr(source, "name", None)
        yield _prepare(source, str(name) if isinstance(name, str) else "the stream", None)


def _prepare(stream: BinaryIO, name: str, path: Path | None) -> Source:
    cut: list[str] = []
    compressions: list[str] = []
    for _ in range(3):  # a compressed file may be compressed once more by a transfer
        start = stream.read(8)
        stream = _joined(start, stream)
        kind = next((kind for magic, kind in COMPRESSIONS.items() if start.startswith(magic)), None)
        if kind is None:
            break
        compressions.append(kind)
        stream = io.BufferedReader(_Chunks(_decompressed(stream, kind, name, cut)), CHUNK_BYTES)
    head = _read_head(stream)
    if not head.strip(b"\x00 \t\r\n\xef\xbb\xbf\xff\xfe"):
        if cut:
            raise PromptsError(f"{name} breaks off: {cut[0]}", expected=EXPECTED, remedy="fetch the file again")
        what = f"{name} is empty" if not head else f"{name} holds only blank lines"
        raise PromptsError(what, expected=EXPECTED, got=f"{len(head):,} bytes", remedy=REMEDY)
    refuse_foreign(head, name)
    return Source(
        name=name, stream=_joined(head, stream), head=head, compressions=tuple(compressions), cut=cut,
        path=path if path is not None and not compressions else None,
    )  # fmt: skip


def _read_head(stream: BinaryIO) -> bytes:
    head = bytearray()
    while len(head) < HEAD_BYTES or (b"\n" not in head and b"\r" not in head and len(head) < LONGEST_HEAD_BYTES):
        chunk = stream.read(HEAD_BYTES)
        if not chunk:
            break
        head += chunk
    return bytes(head)


class _Chunks(io.RawIOBase):
    """An iterator of byte strings as a raw stream."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        while not self._rest:
            chunk = next(self._chunks, None)
            if chunk is None:
                return 0
            self._rest = memoryview(chunk)
        target = memoryview(buffer)
        size = min(len(target), len(self._rest))
        target[:size] = self._rest[:size]
        self._rest = self._rest[size:]
        return size


def as_stream(chunks: Iterator[bytes]) -> BinaryIO:
    """A buffered stream over an iterator of byte strings."""
    return io.BufferedReader(_Chunks(chunks), CHUNK_BYTES)


def _joined(head: bytes, stream: BinaryIO) -> BinaryIO:
    def chunks() -> Iterator[bytes]:
        if head:
            yield head
        while chunk := stream.read(CHUNK_BYTES):
            yield chunk

    return as_stream(chunks())


def _decompressor(kind: str) -> Callable[[], _Decompressor]:
    if kind == "gzip":
        return lambda: zlib.decompressobj(wbits=31)
    if kind == "bzip2":
        return bz2.BZ2Decompressor
    if kind == "xz":
        return lzma.LZMADecompressor
    import zstandard

    return lambda: zstandard.ZstdDecompressor().decompressobj()


def _decompressed(stream: BinaryIO, kind: str, name: str, cut: list[str]) -> Iterator[bytes]:
    """Decompressed chunks of one or several members; what comes before a break is given, and the break is told."""
    make = _decompressor(kind)
    errors: tuple[type[Exception], ...] = (zlib.error, OSError, lzma.LZMAError, EOFError)
    if kind == "zstd":
        import zstandard

        errors = (*errors, zstandard.ZstdError)
    member, started = make(), False
    while chunk := stream.read(1 << 15):  # small: one chunk may decompress to a thousand times its size
        while chunk:
            if member.eof:
                if not chunk.strip(b"\x00"):
                    break  # padding after the last member
                member = make()
            try:
                data = member.decompress(chunk)
            except errors as error:
                if started and member.eof is False and not cut:
                    cut.append(f"the {kind} data are damaged ({error})")
                    return
                raise PromptsError(
                    f"{name} looks like {kind} but cannot be decompressed",
                    got=str(error),
                    remedy="fetch the file again",
                ) from None
            started = started or bool(data)
            if data:
                yield data
            chunk = member.unused_data if member.eof else b""
    if not member.eof:
        cut.append(f"the {kind} data end too early")


def refuse_foreign(head: bytes, name: str) -> None:
    """Raise PromptsError where the beginning says that this is no file of prompts."""
    for offset, magic, what, remedy in FOREIGN:
        if head[offset : offset + len(magic)] == magic:
            raise PromptsError(f"{name} is {what}, no file of prompts", expected=EXPECTED, remedy=remedy or REMEDY)
    start = head[:2048].lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if start.startswith(b"version https://git-lfs.github.com/spec/"):
        raise PromptsError(
            f"{name} is a Git LFS pointer, not the file that it points to", expected=EXPECTED,
            remedy="run `git lfs pull`, or download the file itself",
        )  # fmt: skip
    if b"/annex/objects/" in start[:300]:
        raise PromptsError(
            f"{name} is a git-annex pointer, not the file that it points to", remedy="run `git annex get`"
        )
    if start.startswith((b"<!doctype html", b"<html", b"<head", b"<body")):
        raise PromptsError(
            f"{name} is an HTML page (often the error page of a download), no file of prompts", expected=EXPECTED,
            got=_title(head), remedy="open it in a browser to see what it says, and fetch the file again",
        )  # fmt: skip
    if start.startswith((b"<?xml", b"<error>", b"<svg")):
        raise PromptsError(
            f"{name} is an XML document, no file of prompts", expected=EXPECTED, got=_title(head), remedy=REMEDY
        )


def _title(head: bytes) -> str:
    return repr(" ".join(head[:160].decode("utf-8", "replace").split()))
