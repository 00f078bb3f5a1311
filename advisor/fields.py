"""What may stand in a request's fields: numbers with bounds, closed objects, and errors that name their place.

Every refusal says what was expected and what came. Numbers are strict (no "16" for 16, no true for 1), finite and
bounded: beyond these bounds no server runs, so a larger number is a slip of the pen.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    ValidationError,
    model_validator,
)
from pydantic_core import InitErrorDetails, PydanticCustomError, core_schema


def refuse(what: str, *path: str, got: object = None, kind: str = "contradiction") -> ValidationError:
    """A validation error at `path` below the model that raises it."""
    details = InitErrorDetails(type=PydanticCustomError(kind, "{what}", {"what": what}), loc=path, input=got)
    return ValidationError.from_exception_data("request", [details])


class Closed(BaseModel):
    """A frozen object that refuses fields it does not know and names the nearest one that it does."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, defer_build=True)

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
        from rapidfuzz import fuzz, process  # only errors need it

        nearest = process.extractOne(key, list(cls.model_fields), scorer=fuzz.ratio, score_cutoff=60)
        hint = f"did you mean {nearest[0]!r}?" if nearest else "known are " + ", ".join(sorted(cls.model_fields))
        return f"unknown field {key!r}; {hint}"


def shown(value: object) -> str:
    """A value as a message shows it: short, on one line."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


@dataclass(frozen=True, slots=True)
class Bounds:
    """An annotation that admits numbers within bounds, and tells them in the schema."""

    low: float
    high: float
    whole: bool
    above: bool = False  # the lower bound itself is excluded

    def check(self, value: object) -> object:
        """The value as it is, or a refusal that says what was expected."""
        number = isinstance(value, int if self.whole else (int, float)) and not isinstance(value, bool)
        if not number or not self._within(value):
            expected = f"a {'whole ' if self.whole else ''}number {'above' if self.above else 'from'} "
            expected += f"{self._told(self.low)} to {self._told(self.high)}"
            what = f"expected {expected}, got {shown(value)}"
            raise PydanticCustomError("number", "{what}", {"what": what})
        return value

    def _within(self, value: object) -> bool:
        assert isinstance(value, (int, float))
        return self.low <= value <= self.high and not (self.above and value == self.low)  # false for nan

    def _told(self, bound: float) -> str:
        return f"{bound:,.0f}" if bound == int(bound) else f"{bound:g}"

    def __get_pydantic_core_schema__(self, source: type, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        return core_schema.no_info_before_validator_function(self.check, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, object]:
        lower = "exclusiveMinimum" if self.above else "minimum"
        return {**handler(schema), lower: self.low, "maximum": self.high}


def whole(low: int, high: int) -> Bounds:
    """An annotation that admits whole numbers from `low` to `high`."""
    return Bounds(low, high, whole=True)


def number(low: float, high: float, *, above: bool = False) -> Bounds:
    """An annotation that admits finite numbers from `low` (excluded where `above`) to `high`."""
    return Bounds(low, high, whole=False, above=above)


_VERSION = re.compile(r"v?\d+\.\d+(\.\d+)?([.+-]?[0-9A-Za-z.+-]+)?")


def _version_check(value: object) -> object:
    if not isinstance(value, str) or not _VERSION.fullmatch(value):
        what = f"expected a vLLM version such as '0.26.0', got {shown(value)}"
        raise PydanticCustomError("engine_version", "{what}", {"what": what})
    return value.removeprefix("v")


def _flag_check(value: object) -> object:
    if not isinstance(value, bool):
        raise PydanticCustomError("flag", "{what}", {"what": f"expected true or false, got {shown(value)}"})
    return value


EngineVersion = Annotated[str, BeforeValidator(_version_check)]
Flag = Annotated[bool, BeforeValidator(_flag_check)]
