"""Which API keys are known, and whose is the one that came?

A key is `specworth_<name>_<secret>` with 256 random bits, made by `specworth keys new`. Kept is only its HMAC-SHA256
under a random salt of its own: a slow hash protects secrets that people choose, and nobody can guess at 2^256; so a
leaked file gives no key, and checking one costs microseconds. Names, scopes, an expiry and a limit stand beside it:

    - name: ci
      scopes: [advise, read]
      hash: hmac-sha256$<salt>$<digest>
      expires: 2027-06-30        # optional: the first day on which it is refused, UTC
      rate_limit: 60/minute      # optional

The list may also stand under `keys:`.

A file that changes is read again within a second, so that a key is withdrawn without a restart; a file that cannot be
read any more leaves the keys as they were, and the log says so.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import os
import re
import secrets
import time
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from api.access.rate import checked_rate
from profiler.errors import InputError

Scope = Literal["read", "advise", "profile", "admin"]
SCOPES: tuple[Scope, ...] = ("read", "advise", "profile", "admin")
_PREFIX = "specworth"
_LOOK_AGAIN_S = 1.0
_HASH = re.compile(r"hmac-sha256\$([0-9a-f]{64})\$([0-9a-f]{64})")

KeyName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]{0,39}$")]

logger = logging.getLogger("specworth.access")


def _a_hash(value: str) -> str:
    if not _HASH.fullmatch(value):
        raise ValueError("what `specworth keys new` prints: hmac-sha256$<salt>$<digest>")
    return value


class ApiKey(BaseModel):
    """One key as it is kept."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: KeyName
    scopes: Annotated[frozenset[Scope], Field(min_length=1)]
    hash: Annotated[str, AfterValidator(_a_hash)]
    expires: date | None = None
    rate_limit: Annotated[str, AfterValidator(checked_rate)] | None = None

    def allows(self, scope: Scope) -> bool:
        """May its owner do this? An admin key may do everything."""
        return scope in self.scopes or "admin" in self.scopes

    def is_of(self, presented: str) -> bool:
        """Is this the key that came?"""
        found = _HASH.fullmatch(self.hash)
        assert found is not None
        return hmac.compare_digest(_digest(presented, found[1]), found[2])


class _Keys(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    keys: Annotated[list[ApiKey], Field(min_length=1)]


def _digest(presented: str, salt: str) -> str:
    return hmac.new(bytes.fromhex(salt), presented.encode(), hashlib.sha256).hexdigest()


def new_key(name: str) -> tuple[str, str]:
    """A fresh key, which nobody can tell again, and the hash to keep."""
    key, salt = f"{_PREFIX}_{name}_{secrets.token_urlsafe(32)}", secrets.token_hex(32)
    return key, f"hmac-sha256${salt}${_digest(key, salt)}"


def read_keys(text: str, *, source: str) -> dict[str, ApiKey]:
    """Keys by name; raises InputError that names the place in the text, and never a hash."""
    import yaml

    try:
        found = yaml.safe_load(text)
        listed = _Keys.model_validate({"keys": found} if isinstance(found, list) else found).keys
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" (line {mark.line + 1})" if mark else ""
        raise InputError(f"{source} is not YAML{where}", expected="a list of keys", field=source) from None
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=True)[0]
        place = ".".join(str(step) for step in first["loc"]) or "the whole"
        got = "something else" if "hash" in first["loc"] else repr(first["input"])[:80]
        expected = str(first["msg"]).removeprefix("Value error, ")
        raise InputError(f"{source}: {place} cannot be used", expected=expected, got=got, field=source) from None
    by_name = {key.name: key for key in listed}
    if len(by_name) < len(listed):
        twice = next(k.name for k in listed if sum(k.name == other.name for other in listed) > 1)
        raise InputError(f"{source} has two keys of one name", expected="each name once", got=twice, field=source)
    return by_name


class Keyring:
    """The keys of a service, from a file or a text."""

    def __init__(self, *, file: Path | None = None, text: str | None = None) -> None:
        """Raises InputError where the keys cannot be read, or both places are given."""
        if file is not None and text is not None:
            raise InputError(
                "SPECWORTH_API_KEYS and SPECWORTH_API_KEYS_FILE are both given", expected="one of them",
                field="SPECWORTH_API_KEYS",
            )  # fmt: skip
        self._file = file
        self._seen: object = None
        self._looked = time.monotonic()
        self._keys = read_keys(text, source="SPECWORTH_API_KEYS") if text is not None else {}
        if file is not None:
            self._keys = self._read(file)

    def __bool__(self) -> bool:
        return bool(self._keys)

    def find(self, presented: str) -> ApiKey | None:
        """The key that came, if it is known and has not expired."""
        self._look_again()
        prefix, _, rest = presented.partition("_")
        key = self._keys.get(rest.partition("_")[0])
        if prefix != _PREFIX or key is None or not key.is_of(presented):
            return None
        return None if key.expires is not None and datetime.now(UTC).date() >= key.expires else key

    def _read(self, file: Path) -> dict[str, ApiKey]:
        try:
            status, text = os.stat(file), file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = (getattr(error, "strerror", None) or str(error)).lower()
            raise InputError(
                f"SPECWORTH_API_KEYS_FILE: {file} cannot be read", expected="a YAML file with keys", got=reason,
                field="SPECWORTH_API_KEYS_FILE",
            ) from None  # fmt: skip
        self._seen = (status.st_ino, status.st_mtime_ns, status.st_size)
        return read_keys(text, source=str(file))

    def _look_again(self) -> None:
        now = time.monotonic()
        if self._file is None or now - self._looked < _LOOK_AGAIN_S:
            return
        self._looked = now
        try:
            status = os.stat(self._file)
            if (status.st_ino, status.st_mtime_ns, status.st_size) != self._seen:
                self._keys = self._read(self._file)
                logger.info("API keys read again: %s", ", ".join(sorted(self._keys)))
        except (OSError, InputError) as error:
            logger.error("the API keys stay as they were: %s", error)
