"""Models that train apart for some steps, and are averaged then."""

from . import averagers as averagers
from . import hierarchical_model_averager as hierarchical_model_averager
