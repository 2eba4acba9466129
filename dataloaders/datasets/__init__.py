"""Data sets in the formats they come in: classic images, folders, tables, tokens, shards.

Each is read from local files, or made up; nothing is downloaded. Packages that a format needs
(Pillow, pyarrow, scikit-learn) are imported by the data set that needs them.
"""

from .cifar import CIFAR10 as CIFAR10
from .cifar import CIFAR100 as CIFAR100
from .image_decoding import decode_image as decode_image
from .image_decoding import open_image as open_image
from .image_folder import ImageFolder as ImageFolder
from .in_memory_images import PictureDataset as PictureDataset
from .mnist import KMNIST as KMNIST
from .mnist import MNIST as MNIST
from .mnist import FashionMNIST as FashionMNIST
from .mnist import read_idx as read_idx
from .npy import NpyDataset as NpyDataset
from .parquet import ParquetDataset as ParquetDataset
from .sparse import SparseDataset as SparseDataset
from .synthetic import FakeData as FakeData
from .synthetic import SyntheticClassification as SyntheticClassification
from .synthetic import SyntheticRegression as SyntheticRegression
from .synthetic import SyntheticTokens as SyntheticTokens
from .table import CSVDataset as CSVDataset
from .table import TableDataset as TableDataset
from .tar import BrokenShard as BrokenShard
from .tokens import TokenDataset as TokenDataset
from .transformed import TransformedDataset as TransformedDataset
from .uci_digits import digits as digits
from .webdataset import WebDataset as WebDataset

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
