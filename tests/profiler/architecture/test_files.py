"""Model folders and files, as people have them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from profiler.architecture import load_architecture, read_config_file, read_config_files
from profiler.errors import ArchitectureError
from tests.profiler.architecture.configs import TINY


def test_a_folder_with_its_quantisation_file(tmp_path: Path) -> None:
    """config.json and the hf_quant_config.json beside it are read together, from the folder or the file."""
    (tmp_path / "config.json").write_text(json.dumps(TINY))
    (tmp_path / "hf_quant_config.json").write_text(json.dumps({"quantization": {"quant_algo": "FP8"}}))
    for path in (tmp_path, tmp_path / "config.json", str(tmp_path)):
        found = load_architecture(path)
        assert found.quantization == "modelopt"
        assert found.name == tmp_path.name


def test_params_json_where_there_is_no_config_json(tmp_path: Path) -> None:
    """Mistral's params.json is read where config.json is missing; config.json goes first, as in vLLM."""
    params = {"dim": 64, "n_layers": 2, "n_heads": 4, "n_kv_heads": 2, "hidden_dim": 128, "vocab_size": 1000}
    (tmp_path / "params.json").write_text(json.dumps(params))
    assert load_architecture(tmp_path).num_layers == 2
    (tmp_path / "config.json").write_text(json.dumps(TINY))
    assert load_architecture(tmp_path).num_layers == 4


def test_duplicate_keys_are_told(tmp_path: Path) -> None:
    """A key that stands twice does not stop the reading: the last one counts, and the note says which."""
    path = tmp_path / "config.json"
    path.write_text(json.dumps(TINY)[:-1] + ', "num_hidden_layers": 2, "vocab_size": 1000}')
    found = load_architecture(path)
    assert found.num_layers == 2
    assert any("num_hidden_layers twice" in note and "(2, not 4)" in note for note in found.notes)
    assert any("vocab_size twice, with the same value" in note for note in found.notes)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "empty file"),
        (b"  \n", "empty file"),
        (b"[1, 2]", "array"),
        (b"null", "null"),
        (b'"text"', "string"),
        (b"{'model_type': 'llama'}", "no JSON"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "Git LFS"),
        (b"<!DOCTYPE html><html></html>", "web page"),
        (b"\xff\xfe\x00\x01", "UTF-8"),
        (b'{"a": 1', "no JSON"),
        (b"[" * 100_000, "no JSON"),
    ],
    ids=["empty", "blank", "array", "null", "string", "python", "lfs", "html", "binary", "cut", "deep"],
)
def test_files_that_are_no_config(tmp_path: Path, content: bytes, words: str) -> None:
    """Each is refused for what it is, with the file's name."""
    path = tmp_path / "config.json"
    path.write_bytes(content)
    with pytest.raises(ArchitectureError) as caught:
        read_config_file(path)
    assert words in str(caught.value)
    assert "config.json" in str(caught.value)


def test_byte_order_mark_and_infinity(tmp_path: Path) -> None:
    """A byte order mark and Python's Infinity, both found in published files, are read."""
    path = tmp_path / "config.json"
    path.write_text("\ufeff" + json.dumps(TINY | {"time_step_limit": [0.0, float("inf")]}), encoding="utf-8")
    assert read_config_file(path)["hidden_size"] == 64


def test_nothing_there(tmp_path: Path) -> None:
    """A missing file and a folder without a config are refused with what is there instead."""
    with pytest.raises(ArchitectureError, match="No such file"):
        read_config_file(tmp_path / "nowhere")
    (tmp_path / "model.safetensors").write_bytes(b"x")
    with pytest.raises(ArchitectureError, match=r"model\.safetensors"):
        read_config_file(tmp_path)


def test_the_quantisation_file_alone_is_no_model(tmp_path: Path) -> None:
    """hf_quant_config.json given in place of the config is named for what it is."""
    path = tmp_path / "hf_quant_config.json"
    path.write_text("{}")
    with pytest.raises(ArchitectureError, match="quantisation, not a model"):
        read_config_files(path)
