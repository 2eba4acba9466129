"""By the names of torch.distributed.elastic.multiprocessing; see errors."""

from . import errors as errors
