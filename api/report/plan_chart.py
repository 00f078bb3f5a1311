"""What does a plan look like over the hours? A panel a GPU type: replicas without speculation and with it, and demand.

Lines are the expected case, bands go from the optimistic to the pessimistic one.
"""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

from advisor.plan.answer import ArmPlan, CapacityPlan
from api.report.plan import arm_name
from profiler.errors import InputError

# Okabe and Ito's palette, which colour-blind readers tell apart.
_WITHOUT, _WITH, _DEMAND = "#0072B2", "#D55E00", "#999999"
_PANEL_INCHES = (9.0, 3.2)


def draw_plan(plan: CapacityPlan, path: Path) -> None:
    """Write the chart as SVG or PNG, by the suffix. Raises InputError where it cannot be written."""
    import matplotlib as mpl

    # Names of models and GPUs are the caller's: a dollar sign in them begins no formula.
    with mpl.rc_context({"svg.hashsalt": "specworth", "svg.fonttype": "none", "text.parse_math": False}):
        figure = _drawn(plan)
        try:
            figure.savefig(path, dpi=120, metadata={"Date": None} if path.suffix.lower() == ".svg" else None)
        except OSError as error:
            got = (error.strerror or "an error").lower()
            raise InputError(f"--chart: {path} cannot be written", expected="a file that can be", got=got) from None


def _drawn(plan: CapacityPlan) -> Any:  # noqa: ANN401  # matplotlib is imported late
    from matplotlib.figure import Figure

    gpus = [gpu for gpu in plan.gpus if gpu.without is not None]
    figure = Figure(figsize=(_PANEL_INCHES[0], _PANEL_INCHES[1] * len(gpus) + 0.6), layout="constrained")
    panels = figure.subplots(len(gpus), 1, squeeze=False)[:, 0]
    demand = [sum(hour.requests_per_s.values()) for hour in plan.demand]
    for panel, gpu in zip(panels, gpus, strict=True):
        behind = panel.twinx()
        behind.fill_between(range(len(demand) + 1), [*demand, demand[-1]], step="post", color=_DEMAND, alpha=0.18)
        behind.set_ylabel("requests per second", color="#666666", fontsize=8)
        behind.tick_params(labelsize=8)
        behind.set_ylim(0, 1.15 * max(demand))
        panel.set_zorder(behind.get_zorder() + 1)
        panel.patch.set_visible(False)
        for arm, colour in ((gpu.without, _WITHOUT), (gpu.speculative, _WITH)):
            if arm is not None:
                _steps(panel, arm, colour)
        panel.set_ylim(bottom=0)
        panel.set_xlim(0, len(demand))
        panel.set_xlabel("hour", fontsize=8)
        panel.set_ylabel("replicas", fontsize=8)
        title = textwrap.fill(f"{gpu.gpu}: {gpu.text}", int(13 * _PANEL_INCHES[0]))  # matplotlib's own reads formulas
        panel.set_title(title, fontsize=9, loc="left")
        panel.tick_params(labelsize=8)
        panel.legend(fontsize=8, loc="upper left")
    figure.suptitle(f"{plan.target}: replicas by the hour", fontsize=11)
    return figure


def _steps(panel: Any, arm: ArmPlan, colour: str) -> None:  # noqa: ANN401  # matplotlib is imported late
    def held(case: str) -> list[float]:
        found = [getattr(hour.replicas, case) for hour in arm.hours]
        values = [float("nan") if value is None else float(value) for value in found]
        return [*values, values[-1]]

    hours = range(len(arm.hours) + 1)
    label = f"{arm_name(arm)}: {_told(arm)}"
    panel.step(hours, held("expected"), where="post", color=colour, linewidth=1.8, label=label)
    panel.fill_between(
        hours, held("optimistic"), held("pessimistic"), step="post", color=colour, alpha=0.15, linewidth=0
    )


def _told(arm: ArmPlan) -> str:
    return "no number of replicas does" if arm.cost.expected is None else f"{arm.cost.expected:,.0f} in all"
