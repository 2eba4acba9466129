"""`torch.hub` by name: models are not fetched, nothing here opens the network."""

from __future__ import annotations

from typing import Any, NoReturn

__all__ = ["download_url_to_file", "get_dir", "help", "list", "load", "load_state_dict_from_url"]


def refused(*args: Any, **named: Any) -> NoReturn:
    """Not there.

    Raises: NotImplementedError, always.
    """
    raise NotImplementedError(
        "hub: nothing here opens the network: download the file yourself, and read it with "
        "shmtensor.load, which takes PyTorch's .pt files"
    )


load = list = help = load_state_dict_from_url = download_url_to_file = get_dir = refused
