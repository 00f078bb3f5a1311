"""How is a gate's verdict told: on a terminal, as a Markdown summary, and as JUnit XML, one case a rule.

In JUnit a broken rule is a failure and an open one an error: neither is a pass, and dashboards keep them apart.
"""

from __future__ import annotations

from typing import Any

from advisor.gate import GateVerdict, RuleOutcome
from api.report.content import Points, Report, Section, Table
from api.report.markdown import markdown

_MARKS = {"pass": "pass", "fail": "FAIL", "not yet": "not yet"}


def gate_report(verdict: GateVerdict) -> Report:
    """For a terminal: a sentence a rule."""
    lines = tuple(f"{_MARKS[rule.outcome]}: {rule.rule} {rule.text} [{rule.evidence}]" for rule in verdict.rules)
    return _report(verdict, Section(_subject(verdict), Points(lines)))


def summary(verdict: GateVerdict) -> str:
    """For a CI system's page: a Markdown table."""
    rows = tuple((rule.rule, _MARKS[rule.outcome], rule.text, rule.evidence) for rule in verdict.rules)
    return markdown(_report(verdict, Section(_subject(verdict), Table(("rule", "", "figure", "rests on"), rows))))


def junit_xml(verdict: GateVerdict) -> str:
    """As JUnit XML: a suite of one case a rule."""
    from junitparser import Error, Failure, JUnitXml, TestCase, TestSuite

    suite = TestSuite("specworth gate")
    suite.timestamp = verdict.judged_at.isoformat()
    for name, value in (
        ("outcome", verdict.outcome), ("kind", verdict.kind), ("subject", verdict.subject),
        ("confidence", f"{verdict.confidence:g}"),
    ):  # fmt: skip
        suite.add_property(name, _xml(value))
    for rule in verdict.rules:
        case = TestCase(rule.rule, f"specworth.gate.{verdict.kind}")
        if rule.outcome != "pass":
            kind = Failure if rule.outcome == "fail" else Error
            case.result = [kind(_xml(rule.text), rule.outcome)]
        case.system_out = _xml(_told(rule))
        suite.add_testcase(case)
    document: Any = JUnitXml("specworth gate")  # whose methods carry no types
    document.add_testsuite(suite)
    document.update_statistics()
    return str(document.tostring().decode())


def _report(verdict: GateVerdict, section: Section) -> Report:
    sections = (section, Section("To know", Points(tuple(verdict.notes)))) if verdict.notes else (section,)
    headline = f"{verdict.outcome.capitalize()}{verdict.text.removeprefix(verdict.outcome)}"
    return Report(
        headline=headline, enable=verdict.outcome == "pass", decisive=verdict.outcome != "not yet", sections=sections
    )


def _subject(verdict: GateVerdict) -> str:
    return f"{verdict.kind.capitalize()}: {verdict.subject}, at {verdict.confidence:g} confidence"


def _told(rule: RuleOutcome) -> str:
    return f"{rule.outcome}: {rule.text}; {rule.evidence}"


def _xml(text: str) -> str:
    """Text without the characters that XML 1.0 cannot hold."""
    return "".join(c if c.isprintable() or c in "\n\t" else " " for c in text)
