"""`torch.utils.data._utils.collate`: the collate functions by that path."""

import re

import numpy as np

from ....dataloaders import collate as collate
from ....dataloaders import default_collate as default_collate
from ....dataloaders import default_collate_fn_map as default_collate_fn_map
from ....dataloaders import default_convert as default_convert
from ....tensor import Tensor

__all__ = [
    "collate",
    "collate_float_fn",
    "collate_int_fn",
    "collate_numpy_array_fn",
    "collate_numpy_scalar_fn",
    "collate_str_fn",
    "collate_tensor_fn",
    "default_collate",
    "default_collate_err_msg_format",
    "default_collate_fn_map",
    "default_convert",
    "np_str_obj_array_pattern",
]

collate_tensor_fn = default_collate_fn_map[Tensor]
collate_numpy_array_fn = default_collate_fn_map[np.ndarray]
collate_numpy_scalar_fn = default_collate_fn_map[np.bool_, np.number]
collate_float_fn = default_collate_fn_map[float]
collate_int_fn = default_collate_fn_map[int]
collate_str_fn = default_collate_fn_map[str]

# For functions that users derive from PyTorch's: arrays of text and objects stay lists.
np_str_obj_array_pattern = re.compile("[SaUO]")
default_collate_err_msg_format = (
    "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {}"
)
