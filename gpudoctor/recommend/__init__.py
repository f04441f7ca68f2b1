"""Which build of a framework a machine should have, the next best ones, and why each other is ruled out."""

from gpudoctor.recommend.choice import recommend
from gpudoctor.recommend.frameworks import recommend_framework
from gpudoctor.recommend.records import Out, Recommendation, Recommended

__all__ = ["Out", "Recommendation", "Recommended", "recommend", "recommend_framework"]
