"""What shall be measured? A grid of engines, each with its traffic points, read from YAML.

    shapes: shapes.yaml                     # model dimensions, by name; relative to the grid file
    settings: {max_model_len: 32768}        # vLLM engine arguments of every engine
    traffic:
      core: [[1, 128, 128], [16, 1024, 128]]                  # concurrency, input tokens, output tokens
      mixed: [{concurrency: 8, input_tokens: 128, output_tokens: 128, unmatched_share: 0.5}]
    engines:
      - {name: base, target: Llama-3.1-8B, traffic: [core]}
      - {name: k3, target: Llama-3.1-8B, traffic: [core], speculation: {method: eagle3, num_speculative_tokens: 3,
         draft: Llama-3.1-8B-eagle3, acceptance_length: 2.5}}

Engines come in the order of their `priority` (0 first); within one priority those of one target stay together, so that
what torch.compile made for it is used again. Refused: unknown fields, unknown shapes or point lists, nothing to
measure, names that could be no file's, a synthetic acceptance length outside [1, k + 1], a drafter that is missing,
points longer than max_model_len or than what the target was made for.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol, Self, TypeVar

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from profiler.errors import InputError

Tokens = Annotated[int, Field(ge=1)]
_NEED_A_DRAFT = ("draft_model", "eagle", "eagle3", "medusa", "mlp_speculator")
_OURS = ("model", "speculative_config", "load_format")  # engine arguments that the rest of the grid says


class GridError(InputError):
    """A grid file that cannot be measured as it stands."""


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


GridFile = TypeVar("GridFile", bound=BaseModel)


class Named(Protocol):
    """An engine of any grid."""

    @property
    def name(self) -> str:
        """By which rows, logs and --only know it."""


class GridOfEngines(Protocol):
    """A grid that was read, whatever its engines are asked."""

    @property
    def engines(self) -> Sequence[Named]:
        """In the order in which they are measured."""

    def model_copy(self, *, update: dict[str, Any]) -> Self:
        """The same grid with other engines."""


AnyGrid = TypeVar("AnyGrid", bound=GridOfEngines)


class Point(_Frozen):
    """One traffic point: a constant number of requests in flight, all of one length."""

    concurrency: Tokens
    input_tokens: Tokens
    output_tokens: Tokens
    temperature: float = Field(default=0.0, ge=0.0)
    unmatched_share: float = Field(default=0.0, ge=0.0, le=1.0)
    """Share of the running requests sampled at temperature 1: with dummy weights their text is random, so that a
    prompt-lookup drafter finds nothing in it, while greedy text repeats and always matches."""

    def label(self) -> str:
        """`concurrency x input + output`, with what differs from the plain case."""
        plain = f"{self.concurrency}x{self.input_tokens}+{self.output_tokens}"
        return (
            plain
            + (f" T{self.temperature:g}" if self.temperature else "")
            + (f" unmatched {self.unmatched_share:g}" if self.unmatched_share else "")
        )


class SweptSpeculation(_Frozen):
    """One way of speculating, with the acceptance that is imposed on it (None: what the weights give)."""

    method: str
    num_speculative_tokens: Annotated[int, Field(ge=1, le=16)]
    draft: str | None = None
    acceptance_length: float | None = None
    draft_sample_method: Literal["greedy", "probabilistic"] = "greedy"
    schedule: tuple[tuple[int, int, int], ...] | None = None
    prompt_lookup_min: int | None = None
    prompt_lookup_max: int | None = None

    @model_validator(mode="after")
    def _check_acceptance(self) -> SweptSpeculation:
        most = self.num_speculative_tokens + 1
        if self.acceptance_length is not None and not 1.0 <= self.acceptance_length <= most:
            raise ValueError(f"acceptance_length must lie in [1, {most}], got {self.acceptance_length}")
        if self.method in _NEED_A_DRAFT and self.draft is None:
            raise ValueError(f"{self.method} needs a draft: name a shape")
        return self


class EngineSpec(_Frozen):
    """One engine and what is asked of it."""

    name: str
    target: str
    speculation: SweptSpeculation | None = None
    quantization: str | None = None
    settings: dict[str, Any] = {}
    points: tuple[Point, ...]
    priority: int = 0
    engine_process: Literal["separate", "in_process"] = "separate"

    def key(self, point: Point) -> str:
        """What makes a cell this cell and no other, as text; a resumed sweep skips the keys that it finds."""
        facts = self.model_dump(exclude={"name", "points", "priority"}, exclude_defaults=True)
        if self.speculation is not None and self.speculation.method == "eagle3":
            facts["drafter_lm_head"] = "own"  # cells of protocol 1 drafted with the target's and are other cells
        return json.dumps(facts | point.model_dump(exclude_defaults=True), sort_keys=True, separators=(",", ":"))


class Grid(_Frozen):
    """The engines in the order in which they are measured, and the shapes they name."""

    engines: tuple[EngineSpec, ...]
    shapes: dict[str, dict[str, Any]]


def _as_point(given: object) -> object:
    """`[concurrency, input tokens, output tokens]` as what it stands for."""
    if not isinstance(given, list):
        return given
    if len(given) != 3:
        raise ValueError(f"a point is [concurrency, input tokens, output tokens] or a mapping, got {len(given)} values")
    return dict(zip(("concurrency", "input_tokens", "output_tokens"), given, strict=True))


class _EngineEntry(_Frozen):
    name: str = Field(pattern=r"^\w[\w.+@-]*$", max_length=100)  # its log's name, too
    target: str
    traffic: tuple[str, ...] = Field(min_length=1)
    speculation: SweptSpeculation | None = None
    quantization: str | None = None
    settings: dict[str, Any] = {}
    temperature: float | None = None
    priority: int = 0
    engine_process: Literal["separate", "in_process"] = "separate"


class _GridFile(_Frozen):
    shapes: str
    settings: dict[str, Any] = {}
    traffic: dict[str, Annotated[list[Annotated[Point, BeforeValidator(_as_point)]], Field(min_length=1)]]
    engines: list[_EngineEntry] = Field(min_length=1)


def read_grid(path: Path) -> Grid:
    """Read and check a grid file; GridError says what is wrong and where."""
    file = parse_grid(path, _GridFile)
    shapes = load_yaml(path.parent / file.shapes)
    for name, shape in shapes.items():
        if not isinstance(shape, dict):
            raise GridError(f"{file.shapes}: {name} is no shape", expected="a config's mapping", got=repr(shape)[:80])
    engines = [_resolve(entry, file, shapes) for entry in file.engines]
    refuse_one_name(engine.name for engine in engines)
    return Grid(engines=tuple(order_engines(engines)), shapes=shapes)


def only_engines(grid: AnyGrid, names: Sequence[str] | None) -> AnyGrid:
    """The grid with these engines alone; the whole grid for None or no name. Refuses a name that it lacks."""
    if not names:
        return grid
    known = {engine.name for engine in grid.engines}
    for name in names:
        if name not in known:
            raise GridError(
                "--only: the grid has no such engine",
                expected=f"one of {', '.join(e.name for e in grid.engines)}",
                got=repr(name),
            )
    return grid.model_copy(update={"engines": tuple(engine for engine in grid.engines if engine.name in names)})


def order_engines(engines: list[EngineSpec]) -> list[EngineSpec]:
    """By priority; within one, targets in the order of their first appearance, each target's engines together."""
    first: dict[tuple[int, str], int] = {}
    for place, engine in enumerate(engines):
        first.setdefault((engine.priority, engine.target), place)
    return sorted(engines, key=lambda engine: (engine.priority, first[engine.priority, engine.target]))


def parse_grid(path: Path, kind: type[GridFile]) -> GridFile:
    """A grid file as it stands; GridError says what is wrong and where."""
    try:
        return kind.model_validate(load_yaml(path))
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        raise GridError(f"{path}: {field}: {first['msg']}", field=field) from error


def refuse_one_name(engines: Iterable[str]) -> None:
    """Rows and logs go by the engines' names: no two may have one."""
    names = sorted(engines)
    if len(set(names)) < len(names):
        raise GridError("two engines of the grid have one name", got=", ".join(names), field="engines.name")


def load_yaml(path: Path) -> dict[str, Any]:
    """A file's mapping; GridError where it is none."""
    try:
        loaded = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise GridError(
            f"cannot read {str(path)!r}", got=error.strerror, remedy="name an existing grid file"
        ) from error
    except UnicodeDecodeError as error:
        raise GridError(f"{path} is not YAML", expected="text in UTF-8", got=error.reason) from error
    except yaml.YAMLError as error:
        raise GridError(f"{path} is not YAML", got=str(error)) from error
    if not isinstance(loaded, dict):
        raise GridError(f"{path} holds no mapping", expected="a mapping at the top", got=type(loaded).__name__)
    return loaded


def _resolve(entry: _EngineEntry, file: _GridFile, shapes: dict[str, Any]) -> EngineSpec:
    speculation = entry.speculation
    for shape in (entry.target, speculation.draft if speculation else None):
        if shape is not None and shape not in shapes:
            raise GridError(
                f"engine {entry.name} names a shape that {file.shapes} lacks",
                got=shape,
                expected=", ".join(sorted(shapes)),
            )
    points: list[Point] = []
    for group in entry.traffic:
        if group not in file.traffic:
            raise GridError(
                f"engine {entry.name} names unknown traffic",
                got=group,
                expected=", ".join(sorted(file.traffic)),
                field="engines.traffic",
            )
        points += [_point(given, entry.temperature) for given in file.traffic[group]]
    settings = file.settings | entry.settings
    for name in _OURS:
        if name in settings:
            raise GridError(f"engine {entry.name}: settings.{name} is set by the sweep itself", remedy="leave it out")
    longest = settings.get("max_model_len", shapes[entry.target].get("max_position_embeddings"))
    if longest is not None and (not isinstance(longest, int) or longest < 1):
        raise GridError(
            f"engine {entry.name}: max_model_len is no length", expected="a whole number of tokens", got=repr(longest),
            field="engines.settings.max_model_len",
        )  # fmt: skip
    for point in points:
        if longest is not None and point.input_tokens + point.output_tokens > longest:
            raise GridError(
                f"engine {entry.name}: point {point.label()} does not fit",
                expected=f"at most {longest}",
                field="engines.settings.max_model_len",
            )
    return EngineSpec(
        name=entry.name,
        target=entry.target,
        speculation=speculation,
        quantization=entry.quantization,
        settings=settings,
        points=tuple(dict.fromkeys(points)),
        priority=entry.priority,
        engine_process=entry.engine_process,
    )


def _point(given: Point, temperature: float | None) -> Point:
    return given if temperature is None else given.model_copy(update={"temperature": temperature})
