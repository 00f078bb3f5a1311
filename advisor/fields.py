"""What may stand in a request's fields: numbers with bounds, closed objects, and errors that name their place.

Every refusal says what was expected and what came. Numbers are strict (no "16" for 16, no true for 1), finite and
bounded: beyond these bounds no server runs, so a larger number is a slip of the pen.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError
from rapidfuzz import fuzz, process


def refuse(what: str, *path: str, got: object = None, kind: str = "contradiction") -> ValidationError:
    """A validation error at `path` below the model that raises it."""
    details = InitErrorDetails(type=PydanticCustomError(kind, "{what}", {"what": what}), loc=path, input=got)
    return ValidationError.from_exception_data("request", [details])


class Closed(BaseModel):
    """A frozen object that refuses fields it does not know and names the nearest one that it does."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _only_known_fields(cls, data: object) -> object:
        if not isinstance(data, dict):
            return data
        unknown = [key for key in data if key not in cls.model_fields]
        if unknown:
            raise ValidationError.from_exception_data(
                cls.__name__,
                [
                    InitErrorDetails(
                        type=PydanticCustomError("unknown_field", "{what}", {"what": cls._unknown(str(key))}),
                        loc=(str(key),),
                        input=data[key],
                    )
                    for key in unknown
                ],
            )
        return data

    @classmethod
    def _unknown(cls, key: str) -> str:
        nearest = process.extractOne(key, list(cls.model_fields), scorer=fuzz.WRatio, score_cutoff=60)
        hint = f"did you mean {nearest[0]!r}?" if nearest else "known are " + ", ".join(sorted(cls.model_fields))
        return f"unknown field {key!r}; {hint}"


def shown(value: object) -> str:
    """A value as a message shows it: short, on one line."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _whole_check(low: int, high: int) -> Callable[[object], object]:
    def check(value: object) -> object:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            what = f"expected a whole number from {low:,} to {high:,}, got {shown(value)}"
            raise PydanticCustomError("whole_number", "{what}", {"what": what, "low": low, "high": high})
        return value

    return check


def _number_check(low: float, high: float, above: bool) -> Callable[[object], object]:
    def check(value: object) -> object:
        within = isinstance(value, (int, float)) and not isinstance(value, bool) and low <= value <= high  # nan is not
        if not within or (above and value == low):
            what = f"expected a number {'above' if above else 'from'} {low:g} to {high:g}, got {shown(value)}"
            raise PydanticCustomError("number", "{what}", {"what": what, "low": low, "high": high})
        return value

    return check


def whole(low: int, high: int) -> BeforeValidator:
    """An annotation that admits whole numbers from `low` to `high`."""
    return BeforeValidator(_whole_check(low, high))


def number(low: float, high: float, *, above: bool = False) -> BeforeValidator:
    """An annotation that admits finite numbers from `low` (excluded where `above`) to `high`."""
    return BeforeValidator(_number_check(low, high, above))


def _flag_check(value: object) -> object:
    if not isinstance(value, bool):
        raise PydanticCustomError("flag", "{what}", {"what": f"expected true or false, got {shown(value)}"})
    return value


_VERSION = re.compile(r"v?\d+\.\d+(\.\d+)?([.+-]?[0-9A-Za-z.+-]+)?")


def _version_check(value: object) -> object:
    if not isinstance(value, str) or not _VERSION.fullmatch(value):
        what = f"expected a vLLM version such as '0.26.0', got {shown(value)}"
        raise PydanticCustomError("engine_version", "{what}", {"what": what})
    return value.removeprefix("v")


EngineVersion = Annotated[str, BeforeValidator(_version_check)]
Flag = Annotated[bool, BeforeValidator(_flag_check)]
