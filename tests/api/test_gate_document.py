"""What docs/gate.md shows works as it stands there."""

import re
from pathlib import Path

import yaml

from advisor.gate.policy import Rules
from api.commands.gate_policy import read_policy
from api.commands.run_gate import EXIT_CODES

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "gate.md").read_text(encoding="utf-8")


def block(language):
    return re.search(rf"```{language}\n(.*?)```", TEXT, re.DOTALL)[1]


def test_the_documented_policy_is_one_and_has_every_rule(tmp_path):
    """Copied into a file it is read, and no rule is missing from it."""
    path = tmp_path / "policy.toml"
    path.write_text(block("toml"), encoding="utf-8")
    assert read_policy(path).rules.stated == tuple(Rules.model_fields)


def test_every_rule_and_exit_code_is_in_the_tables():
    """One row each."""
    rows = re.findall(r"^\| `?([\w ]+)`? \|", TEXT, re.MULTILINE)
    assert set(Rules.model_fields) <= set(rows)
    assert {str(code) for code in EXIT_CODES.values()} <= set(rows)


def test_the_workflow_is_valid_and_its_gate_uses_real_options(in_process):
    """YAML with jobs and steps; the gate's command line is accepted up to the files that are not here."""
    workflow = yaml.safe_load(block("yaml"))
    steps = {step.get("name"): step for step in workflow["jobs"]["gate"]["steps"]}
    command = re.search(r"specworth (gate .*?) \|\| code", steps["Gate"]["run"])[1].split()
    done = in_process(*command)
    assert done.returncode == 2
    assert "--policy: serving/policy.toml cannot be read" in done.stderr
    assert "advise serving/prompts.jsonl" in steps["Ask for a recommendation"]["run"]
    assert "code == '0'" in steps["Roll out"]["if"]
