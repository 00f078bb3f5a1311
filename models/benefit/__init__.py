"""Does speculation pay? The probability that a predicted speedup reaches a threshold, calibrated on targets never seen.

from models.benefit import load_benefit

load_benefit().probability(prediction, log_sd, threshold)
"""

from models.benefit.classifier import BenefitClassifier, load_benefit

__all__ = ["BenefitClassifier", "load_benefit"]
