"""Model averaging: each rank trains by itself for some steps, then the models are averaged."""

from . import averagers as averagers
from . import hierarchical_model_averager as hierarchical_model_averager
