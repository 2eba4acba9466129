"""Data sets by torchvision's names: samples are images of Pillow with their class, one by one.

The files are read by `dataloaders.datasets`; nothing is downloaded. Where Pillow is not installed,
images are uint8 tensors `(C, H, W)`, which `ToTensor` takes as well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from shmtensor.dtypes import uint8
from shmtensor.functions import randint, randn
from shmtensor.random import Generator

from ...dataloaders import datasets
from ...dataloaders.dataset import Dataset
from ...dataloaders.datasets.image_folder import IMG_EXTENSIONS as IMG_EXTENSIONS
from ...dataloaders.datasets.in_memory_images import transform_both
from .transforms.functional import image_of, to_pil_image

__all__ = [
    "CIFAR10",
    "CIFAR100",
    "IMG_EXTENSIONS",
    "KMNIST",
    "MNIST",
    "FakeData",
    "FashionMNIST",
    "ImageFolder",
    "VisionDataset",
]

Change = Callable[..., Any] | None


class VisionDataset(Dataset[Any]):
    """The base: a folder, and transforms of an image and of its class.

    Args:
        root: the folder.
        transforms: of both, `(image, target) -> (image, target)`.
        transform: of the image.
        target_transform: of the class.
    """

    def __init__(
        self,
        root: Any = None,
        transforms: Change = None,
        transform: Change = None,
        target_transform: Change = None,
    ) -> None:
        self.root = root
        self.transforms = transforms
        self.transform = transform
        self.target_transform = target_transform

    def transformed(self, image: Any, target: Any) -> tuple[Any, Any]:
        """The sample."""
        if self.transforms is not None:
            image, target = self.transforms(image, target)
        return transform_both(self, image, target)

    def __repr__(self) -> str:
        return f"Dataset {type(self).__name__}\n    Number of datapoints: {len(self)}"  # type: ignore[arg-type]


class Images(VisionDataset):
    """Images in memory, read by the data set `files` of `dataloaders.datasets`.

    Args:
        root: the folder of the published files, as torchvision lays it out, or of the files.
        train: the part to train on; the held-out one if False.
        transform: of one image.
        target_transform: of one class number.
        download: has no effect: nothing is downloaded.

    Raises:
        FileNotFoundError: the files are not there; says which, and where they are looked for.
    """

    files: type[Any]

    def __init__(
        self,
        root: Any,
        train: bool = True,
        transform: Change = None,
        target_transform: Change = None,
        download: bool = False,
    ) -> None:
        super().__init__(root, transform=transform, target_transform=target_transform)
        self.train = train
        self.keep(self.files(root, train))

    def keep(self, files: Any) -> None:
        """Takes images, classes and their names from the data set that has read them."""
        self.data: Any = files.data[:, 0]
        self.targets: Any = files.targets
        self.classes: list[str] = files.classes
        self.class_to_idx: dict[str, int] = files.class_to_idx

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, index: int) -> Any:
        return self.transformed(image_of(self.data[index]), int(self.targets[index]))


class MNIST(Images):
    """The MNIST digits; `data` is uint8 `(N, 28, 28)`. Arguments as of `Images`."""

    files = datasets.MNIST

    @property
    def train_data(self) -> Any:
        """`data`, by its former name."""
        return self.data

    @property
    def train_labels(self) -> Any:
        """`targets`, by their former name."""
        return self.targets

    test_data, test_labels = train_data, train_labels


class FashionMNIST(MNIST):
    """Fashion-MNIST; as `MNIST`."""

    files = datasets.FashionMNIST


class KMNIST(MNIST):
    """Kuzushiji-MNIST; as `MNIST`."""

    files = datasets.KMNIST


class CIFAR10(Images):
    """CIFAR-10; `data` is an array of uint8 `(N, 32, 32, 3)`, `targets` a list."""

    files = datasets.CIFAR10

    def keep(self, files: Any) -> None:
        super().keep(files)
        self.data = files.data.permute(0, 2, 3, 1).contiguous().numpy()
        self.targets = self.targets.tolist()


class CIFAR100(CIFAR10):
    """CIFAR-100; as `CIFAR10`."""

    files = datasets.CIFAR100


class ImageFolder(datasets.ImageFolder):
    """Images in folders that are named for their classes; samples are images of Pillow in RGB.

    Args:
        root: the folder.
        transform: of one image.
        target_transform: of one class number.
        loader: path -> image.
        is_valid_file: path -> whether it is an image, instead of looking at its extension.
        allow_empty: whether a class may have no images.
    """

    def __init__(
        self,
        root: Any,
        transform: Change = None,
        target_transform: Change = None,
        loader: Callable[[str], Any] | None = None,
        is_valid_file: Callable[[str], bool] | None = None,
        allow_empty: bool = False,
    ) -> None:
        super().__init__(
            root, transform, target_transform, loader or pil_loader, is_valid_file, allow_empty
        )


def pil_loader(path: str) -> Any:
    """The image of a file, in RGB."""
    from PIL import Image

    with open(path, "rb") as file:
        return Image.open(file).convert("RGB")


class FakeData(VisionDataset):
    """Random images with random classes; a sample depends on its index and `random_offset` alone.

    Args:
        size: how many.
        image_size: `(C, H, W)`.
        num_classes: how many classes.
        transform: of one image.
        target_transform: of one class number.
        random_offset: added to the index to get the seed.
    """

    def __init__(
        self,
        size: int = 1000,
        image_size: Sequence[int] = (3, 224, 224),
        num_classes: int = 10,
        transform: Change = None,
        target_transform: Change = None,
        random_offset: int = 0,
    ) -> None:
        super().__init__(transform=transform, target_transform=target_transform)
        self.size = size
        self.image_size = tuple(image_size)
        self.num_classes = num_classes
        self.random_offset = random_offset

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> Any:
        if not 0 <= index < self.size:
            raise IndexError(f"FakeData: index is out of range: {index} of {self.size} samples")
        generator = Generator().manual_seed(index + self.random_offset)
        values = randn(self.image_size, generator=generator)
        target = int(randint(0, self.num_classes, (), generator=generator))
        pixels = (values * 64 + 128).clamp(0, 255).to(uint8)
        return self.transformed(to_pil_image(pixels), target)
