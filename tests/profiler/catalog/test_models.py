"""The catalog of models: names, counts, drafters, local files."""

import json
import re
import time
from pathlib import Path

import pytest

from profiler.architecture import read_architecture
from profiler.catalog import drafters_for, find_model, heads, load_model, models
from profiler.catalog.models import find_entry, names_of
from profiler.catalog.names import match_key
from profiler.errors import ArchitectureError, UnknownNameError

FAMILIES = ("Llama-3.1", "Llama-3.2", "Qwen2.5", "Qwen3-8B", "Qwen3-30B-A3B", "Qwen3-Next", "Mistral", "gemma-3",
            "phi-4", "gpt-oss", "DeepSeek-V3", "SmolLM2")  # fmt: skip


@pytest.mark.parametrize("entry", models(), ids=lambda entry: entry.name)
def test_parameter_counts(entry):
    """Every model's count, taken from its config, is within 1 % of the published one."""
    counted = entry.architecture.parameters
    if entry.counts_mtp:
        counted += entry.architecture.mtp_head.parameters
    assert counted == pytest.approx(entry.published_parameters, rel=0.01)


def test_size_of_the_catalog():
    """At least 30 models, and every family that is promised."""
    names = [entry.name for entry in models()]
    assert len(names) >= 30
    for family in FAMILIES:
        assert any(family.lower() in name.lower() for name in names), family


@pytest.mark.parametrize("entry", [*models(), *heads()], ids=lambda entry: entry.name)
def test_source_and_date(entry):
    """Every entry says where its facts are from and when they were published, and is found where it would be sought."""
    assert entry.source.startswith("https://")
    assert re.fullmatch(r"20\d\d-\d\d", entry.date)
    assert entry.fidelity in ("checked", "recalled")
    assert find_entry(entry.name) is entry
    for alias in entry.aliases:
        assert find_entry(alias) is entry


def test_names_are_unambiguous():
    """No two entries answer to the same name, the organisation left out."""
    seen = {}
    for entry in [*models(), *heads()]:
        for name in names_of(entry):
            key = match_key(name.rsplit("/", 1)[-1])
            assert seen.setdefault(key, entry) is entry, name


@pytest.mark.parametrize(
    "name",
    ["meta-llama/Llama-3.1-8B-Instruct", "llama-3.1-8b", "META-LLAMA/META-LLAMA-3.1-8B", "Llama 3.1 8B Instruct"],
)
def test_aliases(name):
    """Case, organisation and separators do not matter, base and instruct variants have one architecture."""
    assert find_model(name).name == "meta-llama/Llama-3.1-8B-Instruct"


def test_another_organisation_is_another_model():
    """A name with an organisation that the catalog does not list is not taken for its namesake."""
    with pytest.raises(UnknownNameError):
        find_model("somebody/Llama-3.1-8B-Instruct")


def test_unknown_name():
    """An unknown model is refused with its nearest neighbours and the field."""
    with pytest.raises(UnknownNameError) as caught:
        find_model("Qwen/Qwen3-9B")
    assert "Qwen/Qwen3-8B" in caught.value.line()
    assert caught.value.field == "deployment.target"
    with pytest.raises(UnknownNameError) as caught:
        find_model("zzzz")
    assert "nearest" not in caught.value.line()
    assert "config.json" in caught.value.line()


@pytest.mark.parametrize("head", heads(), ids=lambda head: head.name)
def test_heads_are_heads(head):
    """Each head is read as one, with the width of every target that it names and fewer parameters."""
    assert head.architecture.head_kind == head.method
    for target in head.targets:
        entry = find_entry(target)
        assert entry is not None
        assert entry.name == target
        assert entry.architecture.hidden_size == head.architecture.hidden_size
        assert entry.architecture.vocab_size == head.architecture.vocab_size
        assert head.architecture.parameters < entry.architecture.parameters


@pytest.mark.parametrize(
    ("head", "published_bytes", "own_table"),
    [
        ("yuhuili/EAGLE3-LLaMA3.1-Instruct-8B", 849_765_096, 0),
        ("RedHatAI/Qwen3-8B-speculator.eagle3", 2_044_116_968, 151_936 * 4096),
        ("RedHatAI/Qwen3-14B-speculator.eagle3", 2_775_244_776, 151_936 * 5120),
        ("RedHatAI/Qwen3-32B-speculator.eagle3", 3_121_274_856, 151_936 * 5120),
    ],
)
def test_head_sizes(head, published_bytes, own_table):
    """Heads weigh what their published files hold, the copy of the target's token table in some of them aside."""
    assert find_model(head).weight_bytes + 2 * own_table == pytest.approx(published_bytes, rel=0.005)


def test_drafters_of_llama():
    """Llama-3.1-8B is drafted by its EAGLE heads and by the 1B and 3B models of its family."""
    found = {entry.name: entry for entry in drafters_for("Llama-3.1-8B")}
    assert found["yuhuili/EAGLE3-LLaMA3.1-Instruct-8B"].method == "eagle3"
    assert found["yuhuili/EAGLE3-LLaMA3.1-Instruct-8B"].trained_context == 2048
    assert found["meta-llama/Llama-3.2-1B-Instruct"].method == "draft_model"
    assert "meta-llama/Llama-3.1-8B-Instruct" not in found
    assert "TinyLlama/TinyLlama-1.1B-Chat-v1.0" not in found


def test_drafters_share_the_vocabulary():
    """No draft model of another vocabulary size is offered: Qwen2.5's small models have another than its large ones."""
    for entry in models():
        for drafter in drafters_for(entry.architecture):
            if drafter.method == "draft_model":
                assert drafter.architecture.vocab_size == entry.architecture.vocab_size
                assert drafter.architecture.decode_weight_bytes(1.0) < entry.architecture.decode_weight_bytes(1.0)
    assert {d.name for d in drafters_for("Qwen2.5-32B-Instruct")} == {"Qwen/Qwen2.5-7B-Instruct"}
    assert "Qwen/Qwen2.5-0.5B-Instruct" in {d.name for d in drafters_for("Qwen2.5-1.5B-Instruct")}


def test_drafters_of_an_unlisted_target():
    """A target from a config of one's own has no known drafters."""
    assert drafters_for(load_model("Qwen3-8B"))
    config = dict(find_entry("Qwen3-8B").config)
    assert drafters_for(read_architecture(config, name="my-own-8b")) == []


def test_local_config(tmp_path: Path):
    """A folder with a config.json, or the file itself, is read; a quantisation beside it counts."""
    folder = tmp_path / "my-llama"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(find_entry("Llama-3.2-1B").config))
    assert load_model(str(folder)).parameters == find_model("Llama-3.2-1B").parameters
    assert load_model(str(folder / "config.json")).name == "my-llama"
    assert load_model("Llama-3.2-1B", quantization="fp8").weight_bytes < find_model("Llama-3.2-1B").weight_bytes


@pytest.mark.parametrize(
    ("content", "says"), [("{", "JSON"), ("[1, 2]", "a JSON object"), ('{"model_type": "llama"}', "hidden_size")]
)
def test_local_config_that_is_none(tmp_path: Path, content: str, says: str):
    """A file that is no JSON, no object, or no config is refused with the reason."""
    path = tmp_path / "config.json"
    path.write_text(content)
    with pytest.raises(ArchitectureError) as caught:
        load_model(str(path))
    assert says in caught.value.line()


def test_folder_without_config(tmp_path: Path):
    """A folder that holds no config says what was sought."""
    with pytest.raises(ArchitectureError, match=r"config\.json"):
        load_model(str(tmp_path))


def test_lookup_is_quick():
    """What one request needs of the catalog takes a fraction of 40 ms once its family is read."""
    find_model("Qwen3-8B")
    drafters_for("Qwen3-8B")
    start = time.perf_counter()
    for _ in range(10):
        drafters_for(find_model("Qwen3-8B"))
    assert (time.perf_counter() - start) / 10 < 0.04
