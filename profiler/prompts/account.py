"""What became of every record: counted, with its reason, and what a reader of the sample must know besides.

Nothing here reads a format. A reader raises `NoPrompt` for a record that gives none, and adds a remark where it read
one with a reservation; both are counted per kind, so that a log of any size gives an account of a few lines.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from profiler.prompts.reservoir import Reservoir
from profiler.prompts.sample import Lengths, Prompt, Skipped

FIRST_SKIPPED = 10  # how many skipped records are told with their line, and how many of them for the same reason
FIRST_OF_A_REASON = 3
LENGTHS_KEPT = 10_000  # a sample this size pins a mean length to 1 % even where lengths spread like an exponential
DUPLICATES_SOUGHT = 100_000  # hashes kept in memory (about 8 MB)
LONG_PROMPT_CHARACTERS = 400_000  # at 4 characters a token more than 100k tokens: beyond most served contexts


class NoPrompt(Exception):
    """A record that gives no prompt: the kind of reason (countable), the detail, and lengths it states all the same."""

    def __init__(
        self,
        reason: str,
        detail: str = "",
        *,
        field: str = "",
        input_tokens: int | None = None,
        output_tokens: int | None = None,
    ) -> None:
        """`field` is a dotted path inside the record, for those who must mend it."""
        super().__init__(reason)
        self.reason = reason
        self.detail = detail
        self.field = field
        self.input_tokens = input_tokens
        self.output_tokens = output_tokens
        self.shape_name: str | None = None  # what kind of record it was, where that was recognised

    @property
    def text(self) -> str:
        """Reason and detail as one phrase."""
        return f"{self.reason}: {self.detail}" if self.detail else self.reason


@dataclass(slots=True)
class Remarks:
    """Reservations about records that were read, counted by kind; `strict` turns bad values into refusals."""

    strict: bool = False
    line: int = 0
    counts: dict[str, list[int]] = field(default_factory=dict)  # kind -> [count, first line]
    unit: str = "line"
    identities: set[int] = field(default_factory=set)

    def add(self, kind: str) -> None:
        """Count one more record of this kind at the present line."""
        entry = self.counts.get(kind)
        if entry is None:
            self.counts[kind] = [1, self.line]
        else:
            entry[0] += 1

    def bad_value(self, name: str, value: object, expected: str) -> None:
        """A setting that cannot be right: left out and told of in a log, refused in a request."""
        if self.strict:
            shown = repr(value) if len(repr(value)) < 60 else repr(value)[:57] + "..."
            raise NoPrompt(f"{name} must be {expected}", f"got {shown}", field=name)
        self.add(f"{name} left out where it is not {expected}")

    def identify(self, identity: object) -> None:
        """Remark on a record whose own id stood before (among the first 100,000)."""
        if not isinstance(identity, str | int) or len(self.identities) >= DUPLICATES_SOUGHT:
            return
        key = hash(identity)
        if key in self.identities:
            self.add("records with an id that stood before, read all the same")
        else:
            self.identities.add(key)

    def sentences(self) -> list[str]:
        """Each kind as one sentence with its count and first place."""
        lines = []
        for kind, (count, line) in self.counts.items():
            records = "1 record" if count == 1 else f"{count:,} records"
            where = f"{self.unit} {line}" if count == 1 else f"first: {self.unit} {line}"
            lines.append(f"{kind} ({records}, {where})" if line else kind)
        return lines


class Account:
    """The running count over one source; `take` and `skip` are called once for each record."""

    def __init__(self, reservoir: Reservoir[Prompt], remarks: Remarks, *, seed: int) -> None:
        """Keep the sample in `reservoir` and the lengths of records without text in one of the account's own."""
        self.reservoir = reservoir
        self.remarks = remarks
        self.records = 0
        self.usable = 0
        self.skipped: Counter[str] = Counter()
        self.first_skipped: list[Skipped] = []
        self.shapes: Counter[str] = Counter()
        self.lengths: Reservoir[tuple[int | None, int | None]] = Reservoir(LENGTHS_KEPT, seed)
        self._seen: set[int] = set()

    def take(self, prompt: Prompt) -> None:
        """One readable record."""
        self.records += 1
        self.usable += 1
        self.reservoir.offer(prompt)
        text = prompt.messages[-1].text
        if len(self._seen) < DUPLICATES_SOUGHT:
            # Python's string hash: 64 bits, so a false match among 100,000 has odds of one to 10^9.
            key = hash(text) if len(prompt.messages) == 1 else hash(prompt.text)
            if key in self._seen:
                self.remarks.add("prompts that stood before, word for word")
            else:
                self._seen.add(key)
        if len(text) > LONG_PROMPT_CHARACTERS:
            self.remarks.add(f"prompts longer than {LONG_PROMPT_CHARACTERS:,} characters")

    def skip(self, line: int, reason: NoPrompt) -> None:
        """One record without a prompt."""
        self.records += 1
        self.skipped[reason.reason] += 1
        if len(self.first_skipped) < FIRST_SKIPPED and self.skipped[reason.reason] <= FIRST_OF_A_REASON:
            self.first_skipped.append(Skipped(line, reason.text))
        if reason.input_tokens or reason.output_tokens:
            self.lengths.offer((reason.input_tokens, reason.output_tokens))

    def known_lengths(self) -> Lengths | None:
        """Lengths of records that state them without a text; None where there are none."""
        if not self.lengths.offered:
            return None
        kept = self.lengths.items()
        return Lengths(
            input_tokens=tuple(i for i, _ in kept if i is not None),
            output_tokens=tuple(o for _, o in kept if o is not None),
            requests=self.lengths.offered,
        )
