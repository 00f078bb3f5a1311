"""How are a review's figures drawn? By matplotlib, told apart by line styles, marks and hatches, never by colour alone.

Everything is named where it stands, so that a copy in black and white says the same.
"""

from __future__ import annotations

import logging
from typing import Any

from api.report.review import svg
from api.report.review.document import Bars, Curve, Figure, Reading, Stack
from api.report.terminal import printable

_INK, _ACCENT, _PALE = "#1a1a1a", "#0b3d78", "#d5dde8"
_WIDTH = 7.2  # inches
_FONT = 9.5  # points
_LONGEST = 40  # characters of a label: names come from files
_HATCHES = ("", "////", "...", "\\\\\\\\", "xx")
_FILLS = ("#8796ab", "#ffffff", "#e6eaf0", "#ffffff", "#c4ccd8")


def draw(figure: Figure) -> str:
    """The figure as an SVG element."""
    logging.getLogger("matplotlib").setLevel(logging.ERROR)  # where its font cache lies says nothing to a reader
    import matplotlib
    from matplotlib.figure import Figure as Canvas

    with matplotlib.rc_context(svg.SETTINGS | {"font.size": _FONT, "hatch.linewidth": 0.7}):
        canvas = Canvas(figsize=(_WIDTH, _height(figure.chart)), layout="constrained")
        axes = canvas.subplots()
        axes.spines[["top", "right"]].set_visible(False)
        if isinstance(figure.chart, Curve):
            _curve(axes, figure.chart)
        elif isinstance(figure.chart, Stack):
            _stack(canvas, axes, figure.chart)
        elif figure.chart.upright:
            _standing(axes, figure.chart)
        else:
            _lying(axes, figure.chart)
        return svg.embeddable(
            canvas, name=figure.name, title=printable(figure.title), description=printable(figure.description)
        )


def _short(label: str) -> str:
    shown = printable(label)
    return shown if len(shown) <= _LONGEST else f"{shown[: _LONGEST - 1]}…"


def _height(chart: Curve | Bars | Stack) -> float:
    if isinstance(chart, Curve):
        return 3.5
    if isinstance(chart, Stack):
        return 1.5 + 0.45 * len(chart.rows)
    return 2.5 if chart.upright else 0.7 + 0.3 * len(chart.bars)


def _curve(axes: Any, chart: Curve) -> None:  # noqa: ANN401
    """The line in its band, the threshold, where it pays, and the asked traffic."""
    if chart.line:
        xs = [x for x, _ in chart.line]
        lows, highs = zip(*(_bounds(reading) for _, reading in chart.line), strict=True)
        axes.fill_between(
            xs, lows, highs, facecolor=_PALE, edgecolor=_ACCENT, hatch="////", linewidth=0.6, alpha=0.55,
            label=f"{chart.level:.0%} interval",
        )  # fmt: skip
        axes.plot(
            xs, [r.value for _, r in chart.line], color=_INK, linewidth=1.8, marker="o", markersize=4, label="predicted"
        )
    if chart.measured:
        _measured(axes, chart)
    everything = [x for x, _ in (*chart.line, *chart.measured)]
    axes.set_xscale("log", base=2)
    low, high = min(everything), max(everything)
    axes.set_xlim(low / 1.12, high * 1.12)
    ticks = _ticks(everything)
    axes.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
    axes.set_xticks([], minor=True)
    axes.set_xlabel("requests at once (logarithmic)")
    axes.set_ylabel(chart.y_label)
    axes.axhline(
        chart.threshold, color=_INK, linewidth=1.1, linestyle=(0, (6, 3)), label=f"pays from {chart.threshold:g}x"
    )
    if abs(chart.threshold - 1.0) > 1e-9:
        axes.axhline(1.0, color=_INK, linewidth=0.9, linestyle=(0, (1, 2)), label="1x: no difference")
    if chart.crossover is not None and chart.crossover <= high * 1.12:
        axes.axvline(
            chart.crossover, color=_ACCENT, linewidth=1.3, linestyle=(0, (6, 2, 1, 2)),
            label=f"pays up to {chart.crossover:,}",
        )  # fmt: skip
    for place, (first, last) in enumerate(chart.pays):
        axes.plot(
            [max(first, low), min(last, high)], [1.0, 1.0], color=_INK, linewidth=4.5, solid_capstyle="butt",
            clip_on=False, transform=axes.get_xaxis_transform(), label="pays" if place == 0 else None,
        )  # fmt: skip
    if chart.here is not None and low <= chart.here <= high:
        axes.plot(
            [chart.here], [0.0], marker="^", markersize=10, color=_INK, clip_on=False, linestyle="none",
            transform=axes.get_xaxis_transform(), label=f"your traffic: {chart.here:,}", zorder=5,
        )  # fmt: skip
    axes.figure.legend(loc="outside upper center", ncols=3, frameon=False, fontsize=_FONT - 0.5)


def _measured(axes: Any, chart: Curve) -> None:  # noqa: ANN401
    bounds = [_bounds(reading) for _, reading in chart.measured]
    values = [reading.value for _, reading in chart.measured]
    off = [
        [value - low for value, (low, _) in zip(values, bounds, strict=True)],
        [high - value for value, (_, high) in zip(values, bounds, strict=True)],
    ]
    axes.errorbar(
        [x for x, _ in chart.measured], values, yerr=off, fmt="s", color=_INK, markerfacecolor="white", markersize=6,
        capsize=4, linewidth=1.2, zorder=4, label=f"measured, {chart.level:.0%} interval",
    )  # fmt: skip


def _ticks(concurrencies: list[int]) -> list[int]:
    """Powers of two over the range, and both ends where they stand alone."""
    low, high = min(concurrencies), max(concurrencies)
    powers = [2**i for i in range(17) if low <= 2**i <= high]
    ends = [end for end in (low, high) if all(max(end, p) / min(end, p) > 1.35 for p in powers)]
    return sorted({*powers, *ends})


def _bounds(reading: Reading) -> tuple[float, float]:
    low = reading.value if reading.low is None else reading.low
    return low, reading.value if reading.high is None else reading.high


def _errors(bars: tuple[tuple[str, Reading], ...]) -> list[list[float]] | None:
    if all(reading.low is None and reading.high is None for _, reading in bars):
        return None
    return [
        [reading.value - _bounds(reading)[0] for _, reading in bars],
        [_bounds(reading)[1] - reading.value for _, reading in bars],
    ]


def _standing(axes: Any, chart: Bars) -> None:  # noqa: ANN401
    labels = [_short(label) for label, _ in chart.bars]
    values = [reading.value for _, reading in chart.bars]
    drawn = axes.bar(
        range(len(values)), values, width=0.6, color=_PALE, edgecolor=_INK, yerr=_errors(chart.bars), capsize=3
    )
    axes.bar_label(drawn, [f"{value:{chart.form}}" for value in values], padding=2)
    axes.set_xticks(range(len(labels)), labels)
    axes.set_ylabel(chart.axis)
    axes.set_xlim(-0.6, max(len(values), 4) - 0.4)
    axes.set_ylim(chart.start, chart.most)


def _lying(axes: Any, chart: Bars) -> None:  # noqa: ANN401
    """First bar on top; bars to the left of the start are hatched."""
    labels = [_short(label) for label, _ in chart.bars]
    values = [reading.value for _, reading in chart.bars]
    places = range(len(values))
    drawn = axes.barh(
        places, [value - chart.start for value in values], left=chart.start, height=0.62, color=_PALE, edgecolor=_INK,
        xerr=_errors(chart.bars), capsize=3,
    )  # fmt: skip
    for bar, value in zip(drawn, values, strict=True):
        if value < chart.start:
            bar.set_hatch("////")
            bar.set_facecolor("white")
    for place, (_, reading) in enumerate(chart.bars):
        end = max(_bounds(reading)[1], chart.start)
        if chart.most is not None and end > chart.most:  # the bar's line leaves the chart: where to is written on it
            axes.annotate(
                f"{reading.value:{chart.form}}, up to {end:{chart.form}} →", (chart.most, place), xytext=(-2, 3),
                textcoords="offset points", va="bottom", ha="right",
            )  # fmt: skip
        else:
            axes.annotate(
                f"{reading.value:{chart.form}}", (end, place), xytext=(5, 0), textcoords="offset points", va="center"
            )
    axes.set_yticks(places, labels)
    axes.invert_yaxis()
    axes.set_xlabel(chart.axis)
    axes.axvline(chart.start, color=_INK, linewidth=1.0)
    axes.xaxis.set_major_formatter("{x:,g}")
    axes.margins(x=0.12)
    if chart.most is not None:
        axes.set_xlim(right=chart.most)
    if all(value >= chart.start for value in values):
        axes.set_xlim(left=chart.start)


def _stack(canvas: Any, axes: Any, chart: Stack) -> None:  # noqa: ANN401
    """A whole in its parts: each with a hatch, its amount in it where there is room."""
    whole = max(sum(values[row] for _, values in chart.parts) for row in range(len(chart.rows)))
    left = [0.0] * len(chart.rows)
    for place, (name, values) in enumerate(chart.parts):
        hatch = _HATCHES[place % len(_HATCHES)]
        axes.barh(
            range(len(chart.rows)), values, left=left, height=0.6, label=_short(name), edgecolor=_INK,
            facecolor=_FILLS[place % len(_FILLS)], hatch=hatch, linewidth=0.9,
        )  # fmt: skip
        for row, value in enumerate(values):
            if value > 0.07 * whole:
                axes.text(
                    left[row] + value / 2, row, f"{value:,.1f}", ha="center", va="center",
                    bbox={"facecolor": "white", "edgecolor": "none", "boxstyle": "round,pad=0.15"},
                )  # fmt: skip
        left = [begun + value for begun, value in zip(left, values, strict=True)]
    axes.set_yticks(range(len(chart.rows)), [_short(row) for row in chart.rows])
    axes.invert_yaxis()
    axes.set_xlabel(chart.axis)
    axes.set_xlim(0, whole * 1.01)
    canvas.legend(loc="outside upper center", ncols=3, frameon=False, fontsize=_FONT - 0.5)
