"""How long will the answers be, where neither past answers nor stated lengths tell?

Answers differ far more between workloads than any formula of the prompt explains, so this is a wide prior and says so:
the geometric mean of published data sets, with their spread. Two limits are physical: a translation is about as long as
its source, a summary is no longer. `max_tokens` is a ceiling, not a forecast.
"""

from __future__ import annotations

import numpy as np

from models.estimate import Estimate, Floats

# Mean tokens of an answer: Alpaca 58.45 and ShareGPT 337.99 (Kwon et al. 2023, arXiv 2309.06180, figure 11),
# LMSYS-Chat-1M 214.5 (Zheng et al. 2023, arXiv 2309.11998, table 1), WildChat 441.34 (Zhao et al. 2024,
# arXiv 2405.01470, table 2).
PUBLISHED_MEANS = (58.45, 337.99, 214.5, 441.34)
PRIOR_TOKENS = float(np.exp(np.mean(np.log(PUBLISHED_MEANS))))
PRIOR_LOG_SD = float(np.std(np.log(PUBLISHED_MEANS), ddof=1))
# One text in two languages: tokens of the same sentences relative to English under cl100k are 1.58 (German) to 2.30
# (Japanese) (Petrov et al. 2023, arXiv 2305.15425); the direction is not known, so about 1 with this spread.
TRANSLATION_LOG_SD = float(np.mean(np.log((1.58, 2.30))))


def predicted_output_tokens(
    *,
    input_tokens: Floats,
    translation_share: Floats,
    summary_share: Floats,
    centre: float = PRIOR_TOKENS,
) -> Estimate:
    """Output tokens of each prompt (arrays of one length) as lognormal.

    centre: the geometric mean to start from, the workload's own where some of its answers are known.
    """
    source = np.maximum(input_tokens, 1.0)
    log_prior = np.log(centre)
    log_summary = np.minimum(log_prior, np.log(source))
    rest = np.clip(1.0 - translation_share - summary_share, 0.0, 1.0)
    log_value = rest * log_prior + translation_share * np.log(source) + summary_share * log_summary
    log_sd = (1.0 - translation_share) * PRIOR_LOG_SD + translation_share * TRANSLATION_LOG_SD
    return Estimate(np.exp(log_value), np.asarray(log_sd, dtype=np.float64))
