"""`specworth plan`: reads what is asked and the curve, asks `advisor.plan`, shows its answer."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from advisor.plan import CapacityPlan, plan_capacity
from api.commands.plan_request import Asked, asked_plan, in_words
from api.commands.report_file import check_report, planned_by, write_report
from api.commands.results import check_place, write_whole
from profiler.errors import InputError

_CHARTS = (".svg", ".png")


def run_plan(options: Mapping[str, Any]) -> int:
    """Plan, and show it; returns the exit code."""
    output, chart = options["output"], options["chart"]
    for option, place in (("--output", output), ("--chart", chart)):
        if place is not None:
            check_place(place, option=option)
    if chart is not None and chart.suffix.lower() not in _CHARTS:
        got = chart.suffix or "no suffix"
        raise InputError(f"--chart: {chart}: unknown kind of picture", expected="FILE.svg or FILE.png", got=got)
    check_report(options["report"])
    asked = asked_plan(options)
    try:
        plan = plan_capacity(asked.request, samples=asked.samples)
    except InputError as error:
        raise in_words(error, asked) from None
    if chart is not None:
        from api.report.plan_chart import draw_plan

        draw_plan(plan, chart)
    written = options["report"] is None or _review(plan, asked, options)
    _show(plan, asked, output=output, as_json=options["json"])
    for what, place in (("chart", chart), ("report", output)):
        if place is not None:
            print(f"specworth: {what} written to {place}", file=sys.stderr)
    return 0 if written else 1


def _review(plan: CapacityPlan, asked: Asked, options: Mapping[str, Any]) -> bool:
    """Write the review of a plan; whether it is there."""
    from api.commands.plan import plan as command
    from api.report.review.planned import review_plan

    came = replace(planned_by(command, options, asked.samples), answer_id=plan.id, model_version=plan.model_version)
    return write_report(options["report"], review_plan(plan, asked.request, came))


def _show(plan: CapacityPlan, asked: Asked, *, output: Path | None, as_json: bool) -> None:
    from api.report.plan import plan_report

    if output is not None:
        from api.report.markdown import markdown

        try:
            write_whole(output, markdown(plan_report(plan, every_gpu=True)))
        except OSError as error:
            got = (error.strerror or "an error").lower()
            raise InputError(f"--output: {output} cannot be written", expected="a file that can be", got=got) from None
    if as_json:
        print(plan.model_dump_json(indent=2))
        return
    from api.report.terminal import print_report

    print_report(plan_report(plan))
