"""torch.distributed.elastic.multiprocessing's names: see errors.py."""

from . import errors as errors
