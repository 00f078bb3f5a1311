"""`specworth advise`: reads the prompts and the request, asks `advisor.advise`, shows its answer."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from advisor import Recommendation, RecommendationRequest, advise
from api.commands.profiled import with_profile
from api.commands.report_file import asked_by, check_report, write_report
from api.commands.request import print_notes, request_fields, validated
from profiler.errors import InputError
from profiler.prompts import read_prompts
from profiler.prompts.sample import PromptSample

DISABLED, UNDECIDED = 10, 11


def run_advise(options: Mapping[str, Any]) -> int:
    """Answer one command line; returns its exit code."""
    given = options
    options, profile = with_profile(options)
    fields, odd = request_fields(options)
    if profile is not None:
        fields["evidence"] = {"profile": profile}
    taken: tuple[str, ...] = ()
    if options["traffic"] is not None:
        from api.commands.observed import with_observed
        from profiler.observe.observation import read_observation

        fields, taken = with_observed(fields, read_observation(options["traffic"]))
    request = validated(RecommendationRequest, fields)
    output: Path | None = options["output"]
    check_report(options["report"])
    if options["tokenizer"] is not None and not options["tokenizer"].is_file():
        got = f"{options['tokenizer']}, which is no file"
        raise InputError("--tokenizer: cannot be read", expected="a tokenizer.json", got=got)
    if output is not None:
        _check_writable(output)
    sample = read_prompts(
        options["file"],
        format=options["format"],
        column=options["column"],
        sample_size=options["sample_size"],
        seed=options["seed"],
    )
    answer = advise(request, sample=sample, tokenizer=options["tokenizer"])
    if taken:
        workload = answer.workload.model_copy(update={"estimated": [*taken, *answer.workload.estimated]})
        answer = answer.model_copy(update={"workload": workload})
    print_notes(odd)
    written = options["report"] is None or _review(answer, request, sample, given)  # first: nobody need read the rest
    _show(answer, request, sample, output=output, as_json=options["json"])
    if not written:
        return 1
    if options["exit_code"]:
        return UNDECIDED if not answer.decisive else DISABLED if answer.verdict == "disable" else 0
    return 0


def _show(
    answer: Recommendation, request: RecommendationRequest, sample: PromptSample, *, output: Path | None, as_json: bool
) -> None:
    from api.report.content import answer_json, build_report

    if as_json:
        print(answer_json(answer))
    if as_json and output is None:
        return
    report = build_report(answer, request, sample)
    if output is not None:
        from api.report.markdown import markdown

        _write(output, markdown(report))
    if not as_json:
        from api.report.terminal import print_report

        print_report(report)
    if output is not None:
        print(f"specworth: report written to {output}", file=sys.stderr)


def _review(
    answer: Recommendation, request: RecommendationRequest, sample: PromptSample, given: Mapping[str, Any]
) -> bool:
    """Write the review of an answer; whether it is there."""
    from api.commands.advise import advise as command
    from api.report.review.advice import review_advice

    provenance = replace(
        asked_by("advise", command, given, sample), answer_id=answer.id, model_version=answer.model_version
    )
    return write_report(given["report"], review_advice(answer, request, provenance, sample=sample))


def _check_writable(output: Path) -> None:
    """Refuse before the work what could not be written after it."""
    if output.is_dir() or not output.parent.is_dir():
        got = "a folder" if output.is_dir() else f"no folder {output.parent}"
        raise InputError("--output: cannot write there", expected="a file in a folder that exists", got=got)


def _write(output: Path, text: str) -> None:
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        got = (error.strerror or "an error").lower()
        raise InputError(f"--output: {output} cannot be written", expected="a file that can be", got=got) from None
