"""What does a real pair gain by class of prompts? One PNG a target and temperature: a panel an engine, a line a class.

Speedup of throughput over concurrency; runs of one cell are averaged. Crossovers are where a line falls through 1.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from statistics import geometric_mean
from typing import Any

from profiler.measurements.curves import crossovers
from profiler.measurements.plots import new_panels, scale_axes
from profiler.measurements.table import Row

# Okabe and Ito's palette, which colour-blind readers tell apart.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#F0E442")
_MARKERS = "os^Dv<>P"

Curve = dict[int, float]  # speedup by concurrency


def real_curves(rows: Iterable[Row]) -> dict[tuple[str, float], dict[str, dict[str, Curve]]]:
    """Speedups by target and temperature, engine, class and concurrency; rows without a baseline are left out."""
    found: dict[tuple[str, float], dict[str, dict[str, dict[int, list[float]]]]] = {}
    for row in rows:
        if row["speedup_end_to_end"]:
            engines = found.setdefault((row["target"], row["temperature"]), {})
            classes = engines.setdefault(row["engine"], {})
            classes.setdefault(row["structure"], defaultdict(list))[row["concurrency"]].append(
                row["speedup_end_to_end"]
            )
    return {
        group: {
            engine: {
                structure: {slots: geometric_mean(values) for slots, values in sorted(points.items())}
                for structure, points in classes.items()
            }
            for engine, classes in engines.items()
        }
        for group, engines in found.items()
    }


def draw_real_speedups(rows: Iterable[Row], folder: Path) -> list[Path]:
    """Write real-pair-TARGET-T0.png and one for each other temperature; the files. None without speedups."""
    written = []
    folder.mkdir(parents=True, exist_ok=True)
    for (target, temperature), engines in real_curves(rows).items():
        path = folder / f"real-pair-{target}-T{temperature:g}.png"
        _draw(f"{target}, temperature {temperature:g}, real prompts and answers", engines).savefig(path, dpi=110)
        written.append(path)
    return written


def _draw(title: str, engines: dict[str, dict[str, Curve]]) -> Any:  # noqa: ANN401  # matplotlib is imported late
    figure, panels = new_panels(len(engines))
    classes = sorted({structure for curves in engines.values() for structure in curves})
    ticks = sorted({slots for curves in engines.values() for curve in curves.values() for slots in curve})
    handles: dict[str, Any] = {}
    for panel, (engine, curves) in zip(panels, engines.items(), strict=True):
        panel.set_title(engine, fontsize=9)
        for structure, curve in curves.items():
            place = classes.index(structure) % len(_COLOURS)
            look = {"color": _COLOURS[place], "marker": _MARKERS[place], "markersize": 4, "linewidth": 1.4}
            (handles[structure],) = panel.plot(list(curve), list(curve.values()), label=structure, **look)
            for crossover in crossovers(list(curve), list(curve.values())):
                panel.plot([crossover], [1.0], marker="x", markersize=8, markeredgewidth=2, color=_COLOURS[place])
        scale_axes(panel, ticks)
    figure.suptitle(f"{title}; a cross marks where the line passes 1", fontsize=10)
    figure.legend([handles[c] for c in classes], classes, loc="outside lower center", ncols=len(classes), fontsize=9)
    return figure
