"""`SummaryWriter` for TensorBoard, as in `torch.utils.tensorboard`: tensorboardX's, which takes our
tensors.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from .. import dtypes
from ..tensor import Tensor

__all__ = ["SummaryWriter"]

EXTRA = 'pip install "shmtensor[tensorboard]", which installs tensorboardX'
GRAPHS = ("add_graph", "add_onnx_graph", "add_openvino_graph")


class SummaryWriter:
    """Writes event files that TensorBoard shows.

    Parameters
    ----------
    log_dir : str or path, optional
        The folder; by default runs/<date>_<host><comment>.
    comment : str, optional
        For the default folder's name.
    purge_step : int, optional
        Events of a crashed run from this step on are not shown.
    max_queue : int, optional
        The maximum number of events that wait.
    flush_secs : float, optional
        Seconds between two writes to the file.
    filename_suffix : str, optional
        Of the event files.

    Raises
    ------
    ImportError
        tensorboardX is missing; the message says what to install.

    Notes
    -----
    It has tensorboardX's methods, with PyTorch's names: `add_scalar`, `add_scalars`,
    `add_histogram`, `add_image`, `add_images`, `add_figure`, `add_video`, `add_audio`, `add_text`,
    `add_hparams`, `add_pr_curve`, `add_embedding`, `add_mesh`, `add_custom_scalars`, `flush`,
    `close`, ... Wherever they take an array they take a tensor, also in lists and dictionaries.
    The tensor may change after the call. A `with` block closes the writer at its end.

    Copies: none besides tensorboardX's own; bfloat16 once, to float32.

    Examples
    --------
    >>> import tensorboardX
    >>> from shmtensor.utils.tensorboard import SummaryWriter
    >>> with SummaryWriter("runs/first") as writer:
    ...     writer.add_scalar("loss", st.tensor(0.5), global_step=1)
    ...     writer.add_histogram("weights", st.randn(100), 1)
    >>> import os
    >>> len(os.listdir("runs/first"))
    1
    """

    def __init__(
        self,
        log_dir: Any = None,
        comment: str = "",
        purge_step: int | None = None,
        max_queue: int = 10,
        flush_secs: float = 120,
        filename_suffix: str = "",
    ) -> None:
        self._writer = import_tensorboardx().SummaryWriter(
            None if log_dir is None else str(log_dir),
            comment,
            purge_step,
            max_queue,
            flush_secs,
            filename_suffix,
        )

    @property
    def log_dir(self) -> str:
        """The folder."""
        return str(self._writer.logdir)

    def get_logdir(self) -> str:
        """The folder."""
        return self.log_dir

    def __enter__(self) -> SummaryWriter:
        return self

    def __exit__(self, *error: Any) -> None:
        self._writer.close()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("_") or not hasattr(self._writer, name):
            raise AttributeError(f"SummaryWriter: there is no method {name!r}")
        if name in GRAPHS:
            raise NotImplementedError(
                f"SummaryWriter.{name}: there is no traced graph: ops run as they are called"
            )
        method = getattr(self._writer, name)

        def write(*args: Any, **kwargs: Any) -> Any:
            return method(*to_arrays(args), **to_arrays(kwargs))

        write.__name__, write.__doc__ = name, method.__doc__
        return write


def import_tensorboardx() -> Any:
    """The library. Raises ImportError that says what to install if it is missing."""
    try:
        return import_module("tensorboardX")
    except ImportError as error:
        raise ImportError(
            f"SummaryWriter: tensorboardX cannot be imported: {error}; {EXTRA}"
        ) from error


def to_arrays(value: Any) -> Any:
    """The value with arrays instead of tensors, in the same memory."""
    if isinstance(value, Tensor):
        detached = value.detach()
        return (detached.float() if detached.dtype == dtypes.bfloat16 else detached).numpy()
    if value.__class__ in (list, tuple):
        return value.__class__([to_arrays(v) for v in value])
    if value.__class__ is dict:
        return {name: to_arrays(v) for name, v in value.items()}
    return value
