"""What to do: speedups composed, a verdict, a configuration, and the reasons for them."""

from advisor.advise import advise
from advisor.recommendation import Recommendation
from advisor.request import RecommendationRequest

__all__ = ["Recommendation", "RecommendationRequest", "advise"]
