"""What does the speedup look like over concurrency? One PNG a target: a panel an engine, a line a context band.

Crossovers, where the line falls through 1, are marked and named.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from profiler.measurements.coverage import CONTEXT_BANDS, band_name
from profiler.measurements.curves import SpeedupCurve, speedup_curves
from profiler.measurements.table import Row

_COLUMNS = 3
_PANEL_INCHES = (4.4, 3.3)
_TICKS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
# Okabe and Ito's palette, which colour-blind readers tell apart; one colour a context band, in their order.
_COLOURS = ("#0072B2", "#009E73", "#E69F00", "#D55E00")
_MARKERS = ("o", "s", "^", "D")


def draw_speedups(rows: Iterable[Row], folder: Path) -> list[Path]:
    """Write speedup-TARGET.png for every target that has speedups; the files."""
    by_target: dict[str, list[SpeedupCurve]] = defaultdict(list)
    for curve in speedup_curves(rows):
        by_target[curve.target].append(curve)
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for target, curves in by_target.items():
        path = folder / f"speedup-{target}.png"
        _draw(target, curves).savefig(path, dpi=110)
        written.append(path)
    return written


def new_panels(count: int) -> tuple[Any, list[Any]]:
    """A figure that lays itself out, and so many empty panels on common axes."""
    from matplotlib.figure import Figure

    columns = min(_COLUMNS, count)
    lines = -(-count // columns)
    size = (_PANEL_INCHES[0] * max(columns, 2), _PANEL_INCHES[1] * lines + 0.9)
    figure = Figure(figsize=size, layout="constrained")
    panels = list(figure.subplots(lines, columns, squeeze=False, sharex=True, sharey=True).flat)
    for panel in panels[count:]:
        panel.remove()
    for panel in panels[:count]:
        panel.axhline(1.0, color="black", linewidth=0.8)  # below the curves
    return figure, panels[:count]


def scale_axes(panel: Any, ticks: Sequence[int]) -> None:  # noqa: ANN401  # matplotlib is imported late
    """Speedup over concurrency on a logarithmic axis."""
    panel.set_xscale("log", base=2)
    panel.set_xticks(ticks, [str(tick) for tick in ticks])
    panel.tick_params(labelbottom=True, labelleft=True, labelsize=8)
    panel.set_xlabel("concurrency", fontsize=8)
    panel.set_ylabel("speedup, end to end", fontsize=8)
    panel.grid(alpha=0.25)


def _draw(target: str, curves: list[SpeedupCurve]) -> Any:  # noqa: ANN401
    engines = list(dict.fromkeys(curve.engine for curve in curves))
    figure, panels = new_panels(len(engines))
    highest = max(max(curve.speedup) for curve in curves)
    lowest = min(min(curve.speedup) for curve in curves)
    for panel, engine in zip(panels, engines, strict=True):
        own = [curve for curve in curves if curve.engine == engine]
        panel.set_title(f"{own[0].method}, k = {own[0].num_speculative_tokens}\n{engine}", fontsize=9)
        for curve in own:
            _line(panel, curve)
        scale_axes(panel, _TICKS)
        panel.set_ylim(min(0.45, lowest - 0.1), highest + 0.15)
    handles: dict[str, Any] = {}
    for panel in figure.axes:
        for handle, label in zip(*panel.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    order = [label for label in (_label(band_name(band)) for band in CONTEXT_BANDS) if label in handles]
    figure.suptitle(f"{target}: speedup by input length; a cross marks where the line passes 1", fontsize=10)
    figure.legend([handles[label] for label in order], order, loc="outside lower center", ncols=len(order), fontsize=9)
    return figure


def _label(context: str) -> str:
    return f"{context} input tokens"


def _line(panel: Any, curve: SpeedupCurve) -> None:  # noqa: ANN401
    place = [band_name(band) for band in CONTEXT_BANDS].index(curve.context)
    colour = _COLOURS[place]
    panel.plot(
        curve.concurrency, curve.speedup, color=colour, marker=_MARKERS[place], markersize=4, linewidth=1.4,
        label=_label(curve.context),
    )  # fmt: skip
    for number, crossover in enumerate(curve.crossovers):
        down = -13 - 9 * place
        panel.plot([crossover], [1.0], marker="x", markersize=9, markeredgewidth=2.2, color=colour)
        panel.annotate(
            f"{crossover:.0f}", (crossover, 1.0), xytext=(0, down if number % 2 == 0 else -down - 7),
            textcoords="offset points", ha="center", fontsize=8, color=colour,
        )  # fmt: skip
