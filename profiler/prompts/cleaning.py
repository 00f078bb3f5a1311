"""Texts without what cannot be sent: NUL characters are dropped, lone surrogates replaced, and both are told."""

from __future__ import annotations

import re

from profiler.prompts.account import Remarks
from profiler.prompts.sample import Json

SURROGATES = "lone surrogates replaced by U+FFFD"
NULS = "NUL characters dropped"

_SURROGATE = re.compile("[\ud800-\udfff]")


def cleaned(value: Json, remarks: Remarks) -> Json:
    """The value without NULs and with every lone surrogate replaced: none of them can be encoded, so none was sent."""
    if not _is_unclean(value):
        return value
    cleaner = _Cleaner()
    value = cleaner.clean(value)
    if cleaner.surrogates:
        remarks.add(SURROGATES)
    if cleaner.nuls:
        remarks.add(NULS)
    return value


class _Cleaner:
    """Cleans texts inside a value, and remembers of what."""

    def __init__(self) -> None:
        self.surrogates = self.nuls = False

    def clean(self, value: Json) -> Json:
        if isinstance(value, str):
            if "\x00" in value:
                self.nuls = True
                value = value.replace("\x00", "")
            whole = value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
            self.surrogates = self.surrogates or whole != value
            return whole
        if isinstance(value, list):
            return [self.clean(item) for item in value]
        if isinstance(value, dict):
            return {self.clean(key): self.clean(item) for key, item in value.items()}
        return value


def _is_unclean(value: Json) -> bool:
    """Whether any text inside holds a surrogate or a NUL; nearly all texts are told by two fast tests."""
    if isinstance(value, str):
        return "\x00" in value or (not value.isascii() and _SURROGATE.search(value) is not None)
    if isinstance(value, dict):
        return any(_is_unclean(item) for item in value.values())
    if isinstance(value, list):
        return any(_is_unclean(item) for item in value)
    return False
