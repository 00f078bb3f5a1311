"""From a file, a stream or a list to a sample of prompts: the whole flow.

Bytes are decompressed, decoded and taken apart into records; every record is recognised by its keys and gives a prompt
or a reason why not; a seeded reservoir keeps a uniform sample, so that a log of any size fits in memory. Refused: a
source in which no record gives a prompt.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import BinaryIO

from profiler.errors import PromptsError
from profiler.prompts.account import Account, NoPrompt, Remarks
from profiler.prompts.cleaning import cleaned
from profiler.prompts.container import CONTAINERS, PARQUET_FILE, Container, recognise, records
from profiler.prompts.encoding import Lines
from profiler.prompts.json_text import Record
from profiler.prompts.reservoir import Reservoir
from profiler.prompts.sample import Prompt, PromptSample
from profiler.prompts.server_log import NO_REQUEST
from profiler.prompts.shapes import BY_SLUG, Shape, read_record
from profiler.prompts.source import EXPECTED, PARQUET, REMEDY, Source, open_source
from profiler.prompts.tables import parquet_records
from profiler.prompts.trace_shapes import TRACE, USAGE

SAMPLE_SIZE = 500
FORMATS = (*CONTAINERS, *BY_SLUG)


def read_prompts(
    source: str | Path | BinaryIO,
    *,
    format: str | None = None,
    column: str | None = None,
    sample_size: int = SAMPLE_SIZE,
    seed: int = 0,
    lengths_suffice: bool = False,
) -> PromptSample:
    """A seeded uniform sample of the prompts in a file, and an account of every record that gave none.

    Args:
        source: a path, "-" for standard input, or a binary stream.
        format: one of FORMATS, to read the source as that whatever it looks like.
        column: the field or column that holds the prompt.
        sample_size: how many prompts are kept.
        seed: equal seeds give equal samples of equal files.
        lengths_suffice: a source without texts whose records state lengths (a trace, a usage table) is returned as a
        sample
            without prompts instead of refused.

    Raises:
        PromptsError: nothing to read, with what was expected and what was found.
    """
    container_slug, shape = _forced(format)
    if sample_size < 1:
        raise PromptsError(
            "a sample needs at least one prompt",
            expected="a whole number from 1",
            got=str(sample_size),
            field="sample_size",
        )
    with open_source(source) as opened:
        remarks = Remarks()
        account = Account(Reservoir(sample_size, seed), remarks, seed=seed)
        is_parquet = opened.head.startswith(PARQUET)
        if container_slug == "parquet" and not is_parquet:
            raise PromptsError(
                f"{opened.called()} is no Parquet file", expected="a file that begins with PAR1",
                got=repr(opened.head[:4]), remedy="leave the format out to have it recognised", field="format",
            )  # fmt: skip
        if is_parquet:
            container, encoding = PARQUET_FILE, "UTF-8"
            remarks.unit = "row"
            found = parquet_records(opened, column)
        else:
            lines = Lines(opened.stream, opened.head, opened.called(), remarks)
            container = recognise(opened, lines, container_slug, column)
            encoding = lines.encoding
            found = records(container, lines, remarks)
        read_all(found, account, column=column, shape=shape)
        if opened.cut:
            remarks.line = 0
            remarks.add(f"{opened.cut[0]}: what came before was read")
        return _sample(account, container, encoding, opened, lengths_suffice)


def read_all(found: Iterable[Record], account: Account, *, column: str | None, shape: Shape | None) -> None:
    """Take or skip every record."""
    remarks, shapes, take = account.remarks, account.shapes, account.take
    for line, value in found:
        if isinstance(value, NoPrompt):
            account.skip(line, value)
            continue
        remarks.line = line
        try:
            name, prompt = read_record(value, remarks, column=column, shape=shape)
        except NoPrompt as reason:
            if reason.shape_name is not None:
                shapes[reason.shape_name] += 1
            account.skip(line, reason)
        else:
            shapes[name] += 1
            take(prompt)


def prompts_from_objects(
    objects: Sequence[object], *, sample_size: int | None = None, seed: int = 0, field: str = "prompts"
) -> PromptSample:
    """The prompts in a list as an HTTP body carries it: texts, lists of chat messages, or request objects.

    A request is to be right where a log may have bad lines: the first item that cannot be read is refused.

    Raises:
        PromptsError: an item that cannot be read; `field` says which ("prompts[3].temperature").
    """
    if not objects:
        raise PromptsError(
            "there are no prompts", expected="at least one text, list of chat messages or request object",
            got="an empty list",
            field=field,
        )  # fmt: skip
    remarks = Remarks(strict=True, unit="prompt")
    account = Account(Reservoir(sample_size, seed), remarks, seed=seed)
    for index, value in enumerate(objects):
        remarks.line = index + 1
        try:
            name, prompt = read_record(cleaned(value, remarks), remarks)
        except NoPrompt as reason:
            raise PromptsError(
                f"prompt {index + 1} cannot be read: {reason.text}",
                expected="a text, a list of chat messages, or an object with messages or prompt",
                field=f"{field}[{index}]" + (f".{reason.field}" if reason.field and isinstance(value, dict) else ""),
            ) from None
        account.shapes[name] += 1
        account.take(prompt)
    return PromptSample(
        prompts=tuple(account.reservoir.items()), format=_words(account.shapes), records=account.records,
        usable=account.usable, notes=tuple(remarks.sentences()),
    )  # fmt: skip


def _forced(format: str | None) -> tuple[str | None, Shape | None]:
    if format is None or format in CONTAINERS:
        return format, None
    if format in BY_SLUG:
        return None, BY_SLUG[format]
    from rapidfuzz import process

    nearest = process.extractOne(format, FORMATS)
    raise PromptsError(
        f"there is no format {format!r}", expected=f"one of {', '.join(FORMATS)}",
        remedy=f"did you mean {nearest[0]!r}?" if nearest and nearest[1] >= 60 else REMEDY, field="format",
    )  # fmt: skip


def _words(shapes: dict[str, int]) -> str:
    """The shapes met, the most frequent first; with their counts where there are several."""
    ranked = sorted(shapes.items(), key=lambda item: -item[1])
    if len(ranked) == 1:
        return ranked[0][0]
    return ", ".join(f"{name} ({count:,})" for name, count in ranked[:4])


def _sample(
    account: Account, container: Container, encoding: str, source: Source, lengths_suffice: bool
) -> PromptSample:
    words = _words(account.shapes)
    form = ", ".join(
        part
        for part in (
            words if container.slug not in ("text",) else "", container.words, *source.compressions,
            encoding if encoding != "UTF-8" else "",
        )
        if part
    )  # fmt: skip
    prompts: tuple[Prompt, ...] = tuple(account.reservoir.items())
    lengths = account.known_lengths()
    if not prompts and not (lengths_suffice and lengths is not None):
        raise _nothing_read(account, form, source)
    notes = account.remarks.sentences()
    if lengths is not None:
        count = account.lengths.offered
        notes.append(f"{count:,} record{'s state' if count != 1 else ' states'} a length without a text")
        notes.extend(reason for reason in (TRACE, USAGE) if reason in account.skipped)
    return PromptSample(
        prompts=prompts, format=form, records=account.records, usable=account.usable,
        skipped=dict(account.skipped.most_common()), first_skipped=tuple(account.first_skipped), notes=tuple(notes),
        lengths=lengths, source=source.name,
    )  # fmt: skip


def _nothing_read(account: Account, form: str, source: Source) -> PromptsError:
    reasons = account.skipped.most_common(3)
    what = f"no prompt could be read from {source.called()}"
    if len(reasons) == 1 and account.records > 1:
        what += f": {reasons[0][0]}"
    got = f"{account.records:,} record{'s' if account.records != 1 else ''} of {form}"
    places = [f"{account.remarks.unit} {item.line}: {item.reason}" for item in account.first_skipped[:3]]
    if places:
        got += f" ({'; '.join(places)})"
    remedy = REMEDY
    lengths = account.known_lengths()
    if lengths is not None and lengths.input_tokens:
        middle = sorted(lengths.input_tokens)[len(lengths.input_tokens) // 2]
        remedy = (
            f"give a file of prompts; the lengths are still worth using: {account.lengths.offered:,} requests, "
            f"median {middle:,} input tokens"
        )
        if lengths.output_tokens:
            remedy += f" and {sorted(lengths.output_tokens)[len(lengths.output_tokens) // 2]:,} output tokens"
    elif NO_REQUEST in account.skipped:
        remedy = "vLLM logs prompts only where it was started with --enable-log-requests"
    elif source.cut:
        remedy = f"{source.cut[0]}: fetch the file again"
    return PromptsError(what, expected=EXPECTED, got=got, remedy=remedy)
