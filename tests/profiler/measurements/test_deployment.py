"""The deployment that a measured engine's row stands for."""

import pytest

from profiler.measurements import MeasurementsError, read_cells, read_engines
from profiler.measurements.deployment import measured_deployment, read_shapes


@pytest.fixture
def shapes(ours):
    return read_shapes(ours.parent / "grids")


def test_every_measured_cell_has_a_deployment(ours, shapes):
    """Method, k and sizes are those of the row; parameters are those that the sweep counted."""
    engines = {row["engine_id"]: row for row in read_engines(ours)}
    for cell in read_cells(ours):
        engine = engines[cell["engine_id"]]
        deployment, speculation = measured_deployment(engine, shapes)
        assert deployment.target.name == cell["target"]
        assert deployment.target.parameters == engine["target_parameters"]
        assert (speculation.method if speculation else "none") == cell["method"]
        assert (speculation.num_speculative_tokens if speculation else 0) == cell["num_speculative_tokens"]
        assert deployment.gpu.name.startswith("H200")


def test_a_head_that_shared_the_output_layer_has_the_targets_vocabulary(ours, shapes):
    """It ran over 128,256 tokens where a published head has 32,000: what it cost is what its architecture says."""
    engine = next(row for row in read_engines(ours) if row["engine"] == "llama8b-eagle3-k3")
    assert engine["drafter_lm_head"] == "target"
    _, shared = measured_deployment(engine, shapes)
    _, own = measured_deployment(engine | {"drafter_lm_head": "own"}, shapes)
    assert own.draft.draft_vocab_size == 32000
    assert shared.draft.draft_vocab_size == 128256
    more = shared.draft.decode_weight_bytes(1.0) - own.draft.decode_weight_bytes(1.0)
    assert more == pytest.approx((128256 - 32000) * 4096 * 2)


def test_the_shared_layer_shows_in_the_logged_weights(ours, shapes):
    """Loading target and head took the head's bytes without any output layer: that is how the defect is known."""
    rows = read_engines(ours)
    for engine in (row for row in rows if row["drafter_lm_head"] == "target"):
        alone = next(r for r in rows if r["method"] == "none" and r["target"] == engine["target"])
        _, own = measured_deployment(engine | {"drafter_lm_head": "own"}, shapes)
        head = own.draft.weight_bytes - 32000 * own.draft.hidden_size * 2
        assert engine["weight_bytes"] - alone["weight_bytes"] == pytest.approx(head, rel=0.03)


def test_what_cannot_be_known_is_refused(ours, shapes, tmp_path):
    """An engine that never came up, a shape that is gone, and a folder without shapes."""
    engine = read_engines(ours)[0]
    with pytest.raises(MeasurementsError, match="never came up"):
        measured_deployment(engine | {"engine_version": None, "error": "out of memory"}, shapes)
    with pytest.raises(MeasurementsError, match="not among the shapes"):
        measured_deployment(engine | {"target": "Unknown-7B", "drafter_lm_head": None}, shapes)
    with pytest.raises(MeasurementsError, match="grids' shapes"):
        read_shapes(tmp_path)
