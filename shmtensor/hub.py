"""The names of `torch.hub`, which raise: shmtensor does not use the network."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

__all__ = ["download_url_to_file", "get_dir", "help", "list", "load", "load_state_dict_from_url"]


def refuse(*args: Any, **kwargs: Any) -> NoReturn:
    """Not supported.

    Raises: NotImplementedError, always.
    """
    raise NotImplementedError(
        "hub: shmtensor does not use the network: download the file yourself, and read it with "
        "shmtensor.load, which takes PyTorch's .pt files"
    )


load = list = help = load_state_dict_from_url = download_url_to_file = get_dir = refuse


if TYPE_CHECKING:
    from tqdm import tqdm as tqdm
else:

    def __getattr__(name: str) -> Any:
        """`tqdm`, which programs import from here; imported at first use."""
        if name == "tqdm":
            from tqdm import tqdm

            return tqdm
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
