"""`specworth data`: coverage and plots of the measurements, by the installed script."""

from __future__ import annotations

from pathlib import Path

DATA = Path(__file__).parents[2] / "data" / "measurements"


def test_check_prints_coverage_defects_noise_memory_and_schema(specworth):
    """What a reader must know of the data set, in one command that ends well while its schema holds."""
    result = specworth("data", "check", "--data", DATA)
    assert result.returncode == 0, result.stderr
    told = (
        "cells by concurrency", "By input tokens", "By target", "By k", "Flags", "Noise floor", "KV cache in tokens",
        "Schema: holds for every file", "0 speculative cells have no baseline",
    )  # fmt: skip
    for said in told:
        assert said in result.stdout
    assert "eagle3" in result.stdout


def test_check_ends_with_1_where_a_file_breaks_its_schema(specworth, tmp_path):
    """So that a build can rest on it; each violation is a line on standard error."""
    folder = tmp_path / "measurements"
    folder.mkdir()
    (tmp_path / "grids").symlink_to(DATA.parent / "grids")
    (folder / "engines.csv").write_text((DATA / "engines.csv").read_text())
    text = (DATA / "cost_cells.csv").read_text()
    (folder / "cost_cells.csv").write_text(text.replace(",eagle3,", ",sorcery,", 1))
    result = specworth("data", "check", "--data", folder)
    assert result.returncode == 1
    assert "cost_cells.csv: method" in result.stderr


def test_a_folder_without_measurements_is_one_line(specworth, tmp_path):
    """The installed package carries no measurements: the message says where they lie."""
    for command in (("data", "check"), ("data", "plot", "--out", tmp_path / "plots")):
        result = specworth(*command, "--data", tmp_path)
        assert result.returncode == 2
        assert result.stderr.count("\n") == 1
        assert "data/measurements in a checkout" in result.stderr


def test_plot_names_the_files_that_it_drew(specworth, tmp_path):
    """One picture a target."""
    result = specworth("data", "plot", "--data", DATA, "--out", tmp_path / "plots")
    assert result.returncode == 0, result.stderr
    written = [Path(line) for line in result.stdout.splitlines()]
    assert len(written) >= 3
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in written)
