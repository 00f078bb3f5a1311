import numpy as np
import pytest

from models.output_length import PRIOR_LOG_SD, PRIOR_TOKENS, predicted_output_tokens


def predict(inputs: list[float], translation: float = 0.0, summary: float = 0.0, **kw: float):
    size = len(inputs)
    return predicted_output_tokens(
        input_tokens=np.array(inputs), translation_share=np.full(size, translation),
        summary_share=np.full(size, summary), **kw,
    )  # fmt: skip


def test_the_prior_is_the_published_means() -> None:
    """Without anything known the geometric mean of the published data sets stands, with their spread."""
    estimate = predict([10.0, 5000.0])
    np.testing.assert_allclose(estimate.value, PRIOR_TOKENS)
    np.testing.assert_allclose(estimate.log_sd, PRIOR_LOG_SD)
    assert 200 < PRIOR_TOKENS < 215


def test_translations_follow_their_source() -> None:
    """As long as the source, and surer of it than the prior is of anything."""
    estimate = predict([40.0, 900.0], translation=1.0)
    np.testing.assert_allclose(estimate.value, [40.0, 900.0])
    assert (estimate.log_sd < PRIOR_LOG_SD).all()


def test_summaries_are_no_longer_than_what_they_summarise() -> None:
    """A short text gives a short summary, a long one the prior."""
    estimate = predict([30.0, 9000.0], summary=1.0)
    np.testing.assert_allclose(estimate.value, [30.0, PRIOR_TOKENS])


def test_known_answers_move_the_centre() -> None:
    """A workload's own geometric mean replaces the prior's."""
    assert predict([10.0], centre=20.0).value[0] == pytest.approx(20.0)
