"""The command line, by its installed script: verdicts, listings, exit codes, and errors of one line."""

from __future__ import annotations

import gzip
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

TARGET = ("--target", "meta-llama/Llama-3.1-8B-Instruct")
GPU = ("--gpu", "H200")


def refused(result: subprocess.CompletedProcess[str], code: int = 2) -> str:
    """The one line on standard error of a command that refused."""
    assert result.returncode == code, (result.stdout, result.stderr)
    assert result.stdout == ""
    lines = result.stderr.splitlines()
    assert len(lines) == 1, result.stderr
    assert lines[0].startswith("specworth: ")
    assert "Traceback" not in result.stderr
    return lines[0]


def test_wrong_usage_of_the_installed_script_is_one_line_and_exit_2(specworth, prompts):
    """What the shell sees of a refusal."""
    assert "Missing option '--target'" in refused(specworth("advise", prompts))
    assert "H200" in refused(specworth("advise", prompts, *TARGET, "--gpu", "H2000"))


def test_help_explains_by_example(specworth):
    """Each command shows how it is called."""
    for arguments in ((), ("advise",), ("memory",), ("catalog",), ("catalog", "models"), ("serve",)):
        result = specworth(*arguments, "--help")
        assert result.returncode == 0
        assert "specworth " + " ".join(arguments) in result.stdout
    assert "specworth advise prompts.jsonl --target" in specworth("--help").stdout


def test_no_arguments_show_the_help(specworth):
    """A new user who types the name alone is told what to do."""
    assert "specworth advise prompts.jsonl" in specworth().stdout


def test_help_imports_nothing_heavy():
    """What makes the start slow is imported by the command that needs it."""
    code = (
        "import sys; from api.main import run; run(['advise', '--help']); "
        "heavy = {'numpy', 'sklearn', 'scipy', 'pydantic', 'fastapi', 'uvicorn', 'rich', 'pyarrow', 'yaml', 'orjson'}; "
        "print(sorted(heavy & set(sys.modules)), file=sys.stderr)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stderr.strip() == "[]"


def test_version(specworth):
    """The distribution's own version."""
    from importlib.metadata import version

    assert specworth("--version").stdout == f"specworth {version('specworth')}\n"


def test_advise_tells_verdict_interval_chart_memory_reasons_and_command(specworth, prompts):
    """All that is needed to act stands in the answer."""
    result = specworth("advise", prompts, *TARGET, *GPU, "--concurrency", "4")
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    first = " ".join(result.stdout.split("\n\n")[0].split())
    assert re.match(r"(Enable|Not decisive, leaning to enable) speculative decoding: EAGLE-3 ", first)
    assert re.search(r"x end to end at 4 concurrent requests \(90% interval \d\.\d\d to \d\.\d\d\)\.", first)
    assert ("Measure before you rely on it." in first) == first.startswith("Not decisive")
    for part in (
        "Speedup end to end",
        "90% interval",
        "by concurrency",
        "◀ your traffic",
        "Why, largest effect first",
        "Alternatives",
        "KV cache",
        "3 of 3 records usable",
        "vllm serve meta-llama/Llama-3.1-8B-Instruct",
    ):
        assert part in result.stdout, part
    assert "\x1b" not in result.stdout


def test_json_is_the_http_answer_but_for_its_id(specworth, client, tmp_path):
    """The same request gives the same numbers at both edges."""
    records = [
        {"messages": [{"role": "user", "content": "Return the invoice as JSON."}], "temperature": 0, "max_tokens": 64},
        {"prompt": "Write a Python function that merges intervals.", "max_tokens": 200},
        {"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Why is the sky blue?"}]},
    ]
    path = tmp_path / "p.jsonl"
    path.write_text("\n".join(map(json.dumps, records)), encoding="utf-8")
    options = {"--concurrency": 16, "--temperature": 0.3, "--max-model-len": 8192, "--min-speedup": 1.1}
    arguments = [str(part) for pair in options.items() for part in pair]
    result = specworth("advise", path, *TARGET, *GPU, "--json", *arguments)
    assert result.returncode == 0, result.stderr
    by_command = json.loads(result.stdout)
    by_http = client.post(
        "/v1/recommendations",
        json={
            "prompts": records,
            "deployment": {"target": TARGET[1], "gpu": GPU[1], "max_model_len": 8192},
            "traffic": {"concurrency": 16, "temperature": 0.3},
            "policy": {"min_speedup": 1.1},
        },
    ).json()
    for answer in (by_command, by_http):
        del answer["id"]
        del answer["workload"]["format"]  # a file has a format, a list in a request is a list
    assert by_command == by_http


def test_a_folder_with_a_config_is_a_target_and_keeps_its_path(in_process, prompts, tmp_path, llama_config):
    """What vLLM would serve is named as the user named it."""
    (tmp_path / "ours").mkdir()
    (tmp_path / "ours" / "config.json").write_text(json.dumps(llama_config), encoding="utf-8")
    common = (*GPU, "--method", "ngram", "-k", "4", "--concurrency", "2", "--json", "--max-model-len", "8192")
    for named in ("./ours", "ours", "ours/config.json", tmp_path / "ours"):
        result = in_process("advise", prompts, "--target", named, *common)
        assert result.returncode == 0, result.stderr
        answer = json.loads(result.stdout)
        served = str(named).removesuffix("/config.json")
        assert answer["configuration"]["serve_arguments"][0] == served
        assert answer["memory"]["target_bytes"] > 16e9


def test_a_gpu_can_be_given_by_its_figures(in_process, prompts):
    """For an accelerator that the catalog lacks."""
    figures = '{"name": "ours", "memory_gib": 48, "bandwidth_gb_per_s": 1200, "bf16_tflops": 300}'
    result = in_process("advise", prompts, *TARGET, "--gpu", figures, "--max-model-len", "8192", "--json")
    assert result.returncode == 0, result.stderr


def test_evidence_comes_from_a_file_or_stands_on_the_line(in_process, prompts, tmp_path):
    """Counts of a run decide the acceptance length: AL 1 + 931 / 412."""
    counts = '{"drafts": 412, "accepted_tokens": 931, "drafted_tokens": 1236, "decode_tokens": 1343}'
    (tmp_path / "counts.json").write_text(counts, encoding="utf-8")
    for given in (counts, "counts.json"):
        result = in_process(
            "advise", prompts, *TARGET, *GPU, "--method", "ngram", "-k", "3", "--evidence", given, "--json"
        )
        assert result.returncode == 0, result.stderr
        answer = json.loads(result.stdout)
        assert answer["acceptance"]["basis"] == "measured"
        assert abs(answer["acceptance"]["length"]["value"] - (1 + 931 / 412)) < 0.05


def test_prompts_come_from_standard_input(specworth, prompts):
    """`-` reads a pipe."""
    text = prompts.read_text(encoding="utf-8")
    result = specworth("advise", "-", *TARGET, *GPU, "--json", stdin=text)
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["workload"]["prompts"] == 3


def test_a_prompt_of_a_million_characters_is_read(in_process, tmp_path):
    """It is long, not wrong: the answer counts its tokens."""
    (tmp_path / "long.txt").write_text("lorem ipsum " * 85_000, encoding="utf-8")
    result = in_process("advise", "long.txt", *TARGET, *GPU, "--concurrency", "1", "--json")
    if result.returncode == 0:
        assert json.loads(result.stdout)["workload"]["input_tokens"] > 100_000
    else:
        assert "token" in refused(result)


def test_concurrency_beyond_the_kv_cache_is_warned_of(in_process, prompts):
    """The answer holds for what can run, and says so."""
    result = in_process("advise", prompts, *TARGET, *GPU, "--concurrency", "60000", "--json")
    assert result.returncode == 0, result.stderr
    codes = [warning["code"] for warning in json.loads(result.stdout)["warnings"]]
    assert "concurrency_beyond_capacity" in codes


def test_a_draft_that_is_larger_than_its_target_is_refused(in_process, prompts):
    """Most likely the two were swapped."""
    line = refused(
        in_process(
            "advise", prompts, "--target", "meta-llama/Llama-3.2-1B-Instruct", *GPU,
            "--draft", "meta-llama/Llama-3.1-8B-Instruct",
        )
    )  # fmt: skip
    assert line.startswith("specworth: --draft: ")
    assert "not smaller than its target" in line


def test_output_is_a_markdown_report_beside_the_answer(specworth, prompts, tmp_path):
    """The file has the same verdict; standard output keeps to what it was asked for."""
    result = specworth("advise", prompts, *TARGET, *GPU, "--json", "--output", "report.md")
    assert result.returncode == 0, result.stderr
    answer = json.loads(result.stdout)
    report = (tmp_path / "report.md").read_text(encoding="utf-8")
    action = "enable speculative decoding" if answer["verdict"] == "enable" else "leave speculative decoding off"
    assert report.startswith("# ")
    assert action in report.splitlines()[0].lower()
    assert report.startswith("# Not decisive") != answer["decisive"]
    assert "| Speedup end to end |" in report
    assert "```sh\nvllm serve" in report
    assert "report.md" in result.stderr


@pytest.mark.parametrize("where", ["no/such/folder/report.md", "."])
def test_an_output_that_cannot_be_written_is_refused_before_the_work(specworth, prompts, where):
    """Nobody waits for an answer that cannot be kept."""
    line = refused(specworth("advise", prompts, *TARGET, *GPU, "--output", where))
    assert "--output" in line


def test_exit_codes_tell_the_verdict_only_when_asked(in_process, prompts):
    """0 for any verdict; with --exit-code 10 for disable and 11 for not decisive."""
    never = ("--method", "ngram", "-k", "4", "--evidence", '{"drafts": 0, "accepted_tokens": 0, "decode_tokens": 2000}')
    common = ("advise", prompts, *TARGET, *GPU, "--concurrency", "16", "--json", *never)
    plain, coded = in_process(*common), in_process(*common, "--exit-code")
    answer = json.loads(plain.stdout)
    assert answer["verdict"] == "disable"
    assert plain.returncode == 0
    assert coded.returncode == (10 if answer["decisive"] else 11)


def test_memory_shows_the_plan_with_and_without_a_drafter(in_process):
    """The logged case of an H200 with Qwen3-4B and a 0.6B drafter: about 471,360 tokens of KV cache."""
    result = in_process(
        "memory", "-t", "Qwen/Qwen3-4B", "--draft", "Qwen/Qwen3-0.6B", "-k", "4", *GPU,
        "--max-model-len", "4096", "--max-num-batched-tokens", "8192", "--json",
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    plans = list(json.loads(result.stdout)["plans"].values())
    assert len(plans) == 2
    assert plans[0]["drafter_weight_bytes"] == 0 < plans[1]["drafter_weight_bytes"]
    assert abs(plans[1]["kv_tokens"] / 471_360 - 1) < 0.02
    shown = in_process("memory", "-t", "Qwen/Qwen3-4B", "--draft", "Qwen/Qwen3-0.6B", *GPU, "--max-model-len", "4096")
    assert "draft model Qwen3-0.6B" in shown.stdout
    assert "KV cache, tokens" in shown.stdout


def test_memory_without_a_drafter_lists_all_that_are_known(in_process):
    """One line a drafter, short enough to read."""
    shown = in_process("memory", "-t", "meta-llama/Llama-3.1-8B-Instruct", *GPU)
    assert shown.returncode == 0, shown.stderr
    rows = shown.stdout.splitlines()[2:]
    assert rows[0].split()[0] == "without"
    assert [row.split()[0] for row in rows[1:3]] == ["EAGLE-3", "EAGLE-3"]
    assert max(map(len, rows)) < 120


def test_memory_of_a_target_that_does_not_fit_says_how_many_gpus_would_do(in_process):
    """70B on one L4."""
    line = refused(in_process("memory", "-t", "meta-llama/Llama-3.3-70B-Instruct", "-g", "L4"))
    assert "of these GPUs" in line


def test_catalog_lists_and_searches(in_process):
    """Both catalogs; --json is the HTTP service's answer."""
    assert "meta-llama/Llama-3.1-8B-Instruct" in in_process("catalog", "models", "--search", "llama").stdout
    gpus = json.loads(in_process("catalog", "gpus", "-s", "h200", "--json").stdout)["gpus"]
    assert gpus[0]["name"] == "H200"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("advise",), "Missing argument 'FILE'"),
        (("advise", "FILE"), "'--target'"),
        (("advise", "FILE", *TARGET), "'--gpu'"),
        (("advise", "FILE", *TARGET, *GPU, "--concurency", "4"), "--concurrency"),
        (("advise", "FILE", *TARGET, *GPU, "--concurrency", "many"), "--concurrency"),
        (("advise", "FILE", *TARGET, *GPU, "--concurrency", "-3"), "--concurrency: expected a whole number from 1"),
        (("advise", "FILE", *TARGET, *GPU, "--temperature", "nan"), "--temperature: expected a number from 0 to 2"),
        (("advise", "FILE", *TARGET, *GPU, "--temperature", "-1"), "from 0 to 2; got -1"),
        (("advise", "FILE", *TARGET, *GPU, "--concurrency", "4", "--request-rate", "2"), "--request-rate"),
        (("advise", "FILE", *TARGET, *GPU, "--method", "eagel3"), "did you mean 'eagle3'"),
        (("advise", "FILE", *TARGET, *GPU, "--method", "ngram", "-k", "0"), "from 1 to 16; got 0"),
        (("advise", "FILE", *TARGET, *GPU, "--method", "ngram", "-k", "50"), "from 1 to 16; got 50"),
        (("advise", "FILE", *TARGET, "--gpu", "H2000"), "H200"),
        (("advise", "FILE", *TARGET, "--gpu", '{"name": "x"}'), "--gpu"),
        (("advise", "FILE", *TARGET, "--gpu", '{"name": "x", "name": "y"}'), "twice"),
        (("advise", "FILE", *TARGET, "--gpu", "{nonsense"), "--gpu is not valid JSON"),
        (("advise", "FILE", "--target", "Qwen/Qwen3-9B", *GPU), "Qwen/Qwen3-8B"),
        (("advise", "FILE", "--target", "./nowhere", *GPU), "No such file: nowhere"),
        (("advise", "FILE", *TARGET, *GPU, "--evidence", '{"drafts": 1, "accepted_tokens": 1}'), "evidence"),
        (("advise", "FILE", *TARGET, *GPU, "--method", "ngram", "-k", "3", "--evidence", '{"drafts": NaN}'), "NaN"),
        (("advise", "FILE", *TARGET, *GPU, "--method", "ngram", "-k", "3", "--evidence", "[1]"), "is no file"),
        (("advise", "FILE", *TARGET, *GPU, "--method", "ngram", "-k", "3", "--evidence",
          '{"drafts": 10, "accepted_tokens": 99}'), "at most 30"),
        (("advise", "FILE", *TARGET, *GPU, "--tokenizer", "nowhere.json"), "--tokenizer"),
        (("advise", "nowhere.jsonl", *TARGET, *GPU), "nowhere.jsonl"),
        (("advise", "FILE", *TARGET, *GPU, "--format", "klingon"), "klingon"),
        (("advise", "FILE", *TARGET, *GPU, "--confidence", "3"), "--confidence"),
        (("memory", "-t", "Qwen/Qwen3-4B", *GPU, "--max-model-len", "-4"), "--max-model-len"),
        (("serve", "--port", "99999"), "--port"),
        (("advice",), "No such command 'advice'"),
    ],
)  # fmt: skip
def test_wrong_usage_is_one_line_and_exit_2(in_process, prompts, arguments, said):
    """The line names the option as the user typed it, what was expected and what came."""
    line = refused(in_process(*(prompts if argument == "FILE" else argument for argument in arguments)))
    assert said in line


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("empty.jsonl", b"", "is empty"),
        ("binary.bin", bytes(range(256)) * 40, "is a binary file"),
        (
            "cut.jsonl.gz",
            gzip.compress(b'{"prompt": "Hello there, how are you?"}\n' * 4000, mtime=0)[:12],
            "the gzip data end too early",
        ),
        ("page.jsonl", b"<!DOCTYPE html><html><body>404 Not Found</body></html>", "HTML"),
    ],
)
def test_files_without_prompts_are_named_for_what_they_are(in_process, tmp_path, name, content, said):
    """One line that names the file, and exit code 2."""
    (tmp_path / name).write_bytes(content)
    line = refused(in_process("advise", name, *TARGET, *GPU))
    assert said in line
    assert name in line


def test_a_config_that_lacks_a_field_is_refused_by_that_field(specworth, prompts, tmp_path, llama_config):
    """The message names the option and the field."""
    del llama_config["num_hidden_layers"]
    (tmp_path / "config.json").write_text(json.dumps(llama_config), encoding="utf-8")
    line = refused(specworth("advise", prompts, "--target", "./config.json", *GPU))
    assert "--target" in line
    assert "num_hidden_layers" in line


def test_unexpected_failures_are_one_line_with_a_pointer_to_debug(tmp_path):
    """Only --debug shows a traceback; the exit code is 1."""
    code = (
        "import sys, api.listing, api.main\n"
        "def fail(search): raise RuntimeError('inside')\n"
        "api.listing.listed_gpus = fail\n"
        "sys.exit(api.main.run(sys.argv[1:]))"
    )
    plain, debug = (
        subprocess.run([sys.executable, "-c", code, *more, "catalog", "gpus"], capture_output=True, text=True)
        for more in ((), ("--debug",))
    )
    line = refused(plain, code=1)
    assert "RuntimeError: inside" in line
    assert "--debug" in line
    assert debug.returncode == 1
    assert "Traceback" in debug.stderr


def test_a_reader_that_stops_early_is_no_error(tmp_path):
    """`specworth ... | head -1` is quiet."""
    script = Path(sys.executable).with_name("specworth")
    for command in (f"'{script}' catalog models --json | head -c 1", f"'{script}' --help | true"):
        result = subprocess.run(command, shell=True, capture_output=True, text=True, cwd=tmp_path)
        assert result.stderr == ""


def test_ctrl_c_is_quiet(tmp_path):
    """The server and a read from a terminal end without a traceback."""
    script = Path(sys.executable).with_name("specworth")
    with subprocess.Popen(
        [script, "advise", "-", *TARGET, *GPU], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        cwd=tmp_path, text=True,
    ) as process:  # fmt: skip
        time.sleep(1.5)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
    assert process.returncode == 130
    assert (out, err) == ("", "")


def test_output_fits_narrow_terminals_and_narrow_encodings(specworth, prompts):
    """ASCII output has no character that it cannot show, and nothing fails."""
    result = specworth("advise", prompts, *TARGET, *GPU, PYTHONIOENCODING="ascii", COLUMNS="40")
    assert result.returncode == 0, result.stderr
    result.stdout.encode("ascii")
    assert "your traffic" in result.stdout


def test_serve_says_where_it_cannot_listen():
    """A port that is taken is a failure in one line; a host that is none is wrong usage."""
    script = Path(sys.executable).with_name("specworth")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = subprocess.run([script, "serve", "--port", str(port)], capture_output=True, text=True, timeout=60)
    assert ended.returncode == 1
    assert f"cannot listen on 127.0.0.1 port {port}; got address already in use" in ended.stderr
    assert "Traceback" not in ended.stderr
    ended = subprocess.run([script, "serve", "--host", "no such host"], capture_output=True, text=True, timeout=60)
    assert ended.returncode == 2
    assert "--host: 'no such host' is no address" in ended.stderr


def test_a_candidate_that_cannot_run_is_told_as_such(tmp_path):
    """The headline does not recommend against a speedup that nobody can have; it says that it cannot be had."""
    script = Path(sys.executable).with_name("specworth")
    prompts = tmp_path / "prompts.txt"
    prompts.write_text("Write a Rust function.\n")
    asked = ["advise", prompts, "-t", "Qwen/Qwen3-8B", "-g", "H200", "--method", "eagle3", "--engine-version", "0.8.0"]
    told = subprocess.run([script, *map(str, asked)], capture_output=True, text=True, timeout=60).stdout
    headline = " ".join(told.split("Numbers")[0].split())
    assert "cannot run here" in headline
    assert "expected to give" not in headline
    assert "if it could run here" in " ".join(told.split())


def test_serve_listens_on_loopback_and_stops_on_a_signal(tmp_path):
    """`specworth serve` answers over HTTP; a mistyped setting is told."""
    import httpx

    script = Path(sys.executable).with_name("specworth")
    environment = os.environ | {"SPECWORTH_MAX_PROMPT": "3"}
    with subprocess.Popen(
        [script, "serve", "--port", "0"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=tmp_path, text=True,
        env=environment,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        lines = []
        for line in process.stdout:
            lines.append(line)
            if "Uvicorn running on" in line:
                break
        url = lines[-1].split("running on ")[1].split()[0]
        assert url.startswith("http://127.0.0.1:")
        assert httpx.get(url + "/healthz", trust_env=False).status_code == 200
        process.send_signal(signal.SIGINT)
        lines.append(process.communicate(timeout=20)[0])
    assert any("SPECWORTH_MAX_PROMPT (nearest: SPECWORTH_MAX_PROMPTS)" in line for line in lines)
    assert "Traceback" not in "".join(lines)


def test_features_are_printed_without_a_word_of_the_prompts(in_process, prompts):
    """What the explorer and a request's `workload` take."""
    told = in_process("features", prompts)
    assert told.returncode == 0
    assert json.loads(told.stdout)["prompts"] == 3
    assert not [word for word in ("invoice", "intervals", "door") if word in told.stdout]
    refused = in_process("features", prompts, "--tokenizer", "none.json")
    assert refused.returncode == 2
    assert "expected a tokenizer.json; got none.json, which is no file" in refused.stderr
