"""Data sets in the formats they come in: classic images, folders, tables, tokens, shards.

Each is read from local files, or made up; nothing is downloaded. Packages that a format needs
(Pillow, pyarrow, scikit-learn) are imported by the data set that needs them.
"""

from ..uci import digits as digits
from .cifar import CIFAR10 as CIFAR10
from .cifar import CIFAR100 as CIFAR100
from .folder import ImageFolder as ImageFolder
from .idx import KMNIST as KMNIST
from .idx import MNIST as MNIST
from .idx import FashionMNIST as FashionMNIST
from .idx import read_idx as read_idx
from .image import decode_image as decode_image
from .image import open_image as open_image
from .npy import NpyDataset as NpyDataset
from .parquet import ParquetDataset as ParquetDataset
from .picture import PictureDataset as PictureDataset
from .shard import BrokenShard as BrokenShard
from .sparse import SparseDataset as SparseDataset
from .synthetic import FakeData as FakeData
from .synthetic import SyntheticClassification as SyntheticClassification
from .synthetic import SyntheticRegression as SyntheticRegression
from .synthetic import SyntheticTokens as SyntheticTokens
from .table import CSVDataset as CSVDataset
from .table import TableDataset as TableDataset
from .token import TokenDataset as TokenDataset
from .transformed import TransformedDataset as TransformedDataset
from .web import WebDataset as WebDataset

__all__ = [
    "CIFAR10",
    "CIFAR100",
    "KMNIST",
    "MNIST",
    "BrokenShard",
    "CSVDataset",
    "FakeData",
    "FashionMNIST",
    "ImageFolder",
    "NpyDataset",
    "ParquetDataset",
    "PictureDataset",
    "SparseDataset",
    "SyntheticClassification",
    "SyntheticRegression",
    "SyntheticTokens",
    "TableDataset",
    "TokenDataset",
    "TransformedDataset",
    "WebDataset",
    "decode_image",
    "digits",
    "open_image",
    "read_idx",
]
