"""Figures written to files, for the examples; needs matplotlib, but no display."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def panels(path: str, rows: int = 1, columns: int = 1, size: float = 3.0) -> Iterator[list[Any]]:
    """Axes in rows x columns, each `size` inches wide; the figure is written to path at the end."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(
        rows, columns, figsize=(size * columns, size * rows), squeeze=False
    )
    yield list(axes.flat)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def show(panel: Any, image: Any, title: str = "") -> None:
    """An image (H, W), (1, H, W) or (3, H, W) with values from 0 to 1, without axes."""
    pixels = image.detach().cpu().numpy()
    if pixels.ndim == 3:
        pixels = pixels[0] if len(pixels) == 1 else pixels.transpose(1, 2, 0)
    panel.imshow(pixels.clip(0, 1), cmap="gray_r", vmin=0, vmax=1)
    panel.set_title(title, fontsize=9)
    panel.axis("off")


def draw_curve(
    path: str, values: Any, title: str, yscale: str = "linear", unit: str = "step"
) -> None:
    """One value per step, or other unit; few values are marked, because one alone is no line."""
    with panels(path, size=4) as (panel,):
        panel.plot(values, marker="o" if len(values) <= 10 else "")
        panel.set(title=title, xlabel=unit, yscale=yscale)
        panel.xaxis.get_major_locator().set_params(integer=True)
