"""Where does --report go, and as what? Refused before the work where it cannot be written; the suffix says how.

What an answer was made from is told with it: the command, the prompts' hash, and the files that were read.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from api.commands.results import check_place, write_whole
from profiler.errors import InputError
from profiler.prompts.sample import PromptSample

if TYPE_CHECKING:
    from api.report.review.document import Review
    from api.report.review.provenance import Provenance

_SUFFIXES = (".html", ".htm", ".md", ".markdown")
# Options that name a file.
_FILES = {
    "profile": "Profile", "traffic": "Observed traffic", "tokenizer": "Tokenizer", "file": "Plan", "demand": "Demand",
}  # fmt: skip


def check_report(report: Path | None) -> None:
    """Raise InputError for a suffix that nothing is known for, or a place where no file can be made."""
    if report is None:
        return
    if report.suffix.lower() not in _SUFFIXES:
        got = f"the suffix {report.suffix}" if report.suffix else "no suffix"
        raise InputError(f"--report: {report}: unknown kind of report", expected="FILE.html or FILE.md", got=got)
    check_place(report, option="--report")


def write_report(report: Path, review: Review) -> bool:
    """Write it, as its suffix says, and say so. Whether the file is there: a full disk is one line, not an end."""
    if report.suffix.lower().startswith(".htm"):
        from api.report.review.html import html as rendered
    else:
        from api.report.review.markdown import markdown as rendered
    try:
        write_whole(report, rendered(review))
    except OSError as error:
        why = (error.strerror or "an error").lower()
        print(f"specworth: --report: {report} cannot be written: {why}", file=sys.stderr)
        return False
    print(f"specworth: report written to {report}", file=sys.stderr)
    return True


def asked_by(name: str, command: Callable[..., Any], options: Mapping[str, Any], sample: PromptSample) -> Provenance:
    """How an answer of the command line came about."""
    from api.report.review.provenance import Provenance, Source, command_line, now, sha256_of_prompts

    drawn = len(sample.prompts)
    how = (
        "all that could be read"
        if drawn == sample.usable
        else f"drawn of {sample.usable:,} (--sample-size {options['sample_size']}) with seed {options['seed']}"
    )
    made = now()
    return Provenance(
        asked=command_line(name, command, options),
        source=Source(
            name=sample.source, prompts=drawn, sha256=sha256_of_prompts(sample.prompts),
            of="messages, max_tokens and temperature of those, as JSON with sorted keys", drawn=how,
        ),
        answered_at=made,
        made_at=made,
        others=tuple(_digests(options)),
    )  # fmt: skip


def planned_by(
    command: Callable[..., Any], options: Mapping[str, Any], samples: Mapping[str, PromptSample]
) -> Provenance:
    """How a plan of the command line came about; samples: prompts of its classes, where there are some."""
    from api.report.review.provenance import Provenance, Source, command_line, now, sha256_of_prompts

    read = [prompt for _, sample in sorted(samples.items()) for prompt in sample.prompts]
    source = Source(
        name=", ".join(filter(None, (sample.source for _, sample in sorted(samples.items())))) or None,
        prompts=len(read), sha256=sha256_of_prompts(read),
        of="messages, max_tokens and temperature of those, class by class, as JSON with sorted keys",
    )  # fmt: skip
    made = now()
    return Provenance(
        asked=command_line("plan", command, options), source=source if samples else None, answered_at=made,
        made_at=made, others=tuple(_digests(options)),
    )  # fmt: skip


def _digests(options: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The files that options name, by their content."""
    found = []
    for option, what in _FILES.items():
        path = options.get(option)
        if isinstance(path, Path) and path.is_file():
            with path.open("rb") as file:
                found.append((f"{what} {path}", hashlib.file_digest(file, "sha256").hexdigest()))
    evidence = options.get("evidence")
    if isinstance(evidence, str) and not evidence.lstrip().startswith("{"):
        path = Path(evidence).expanduser()
        if path.is_file():
            found.append((f"Counts {evidence}", hashlib.sha256(path.read_bytes()).hexdigest()))
    return found
