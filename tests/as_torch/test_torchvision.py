"""The torchvision of `shmtensor.as_torch`: data sets, transforms, models, pictures."""

from __future__ import annotations

from pathlib import Path

from tests.as_torch.run_program import run, write_mnist

TRANSFORMS = """
import numpy as np
import torch
import torchvision.transforms.functional as TF
from PIL import Image
from torchvision import transforms as T

torch.manual_seed(0)
array = np.arange(6 * 8 * 3, dtype=np.uint8).reshape(6, 8, 3)
image, x = Image.fromarray(array), torch.from_numpy(array.transpose(2, 0, 1).copy())

def same(tensor, expected):
    assert np.array_equal(np.asarray(tensor), expected), (tensor, expected)

same(T.ToTensor()(image), array.transpose(2, 0, 1) / np.float32(255))
same(T.ToTensor()(array[..., 0]), array[None, ..., 0] / np.float32(255))
same(T.PILToTensor()(image), x)
same(T.ToPILImage()(x), array)
same(T.ToPILImage()(T.ToTensor()(image)), array)
for value in (image, x):
    pixels = array if value is image else array.transpose(2, 0, 1)
    rows, columns = (0, 1) if value is image else (1, 2)
    middle = pixels.take(range(1, 5), rows).take(range(2, 6), columns)
    same(T.CenterCrop(4)(value), middle)
    same(T.RandomHorizontalFlip(p=1)(value), np.flip(pixels, columns))
    same(T.RandomVerticalFlip(p=1)(value), np.flip(pixels, rows))
    same(T.RandomHorizontalFlip(p=0)(value), pixels)
    sides = [(0, 0)] * 3
    sides[rows], sides[columns] = (2, 2), (1, 1)
    same(T.Pad((1, 2))(value), np.pad(pixels, sides))
    same(T.Pad((1, 2), padding_mode="reflect")(value), np.pad(pixels, sides, "reflect"))
    assert TF.get_dimensions(T.Resize(3)(value)) == [3, 3, 4]
    assert TF.get_dimensions(T.Resize((5, 7))(value)) == [3, 5, 7]
    assert TF.get_image_size(value) == [8, 6]
    assert TF.get_dimensions(T.CenterCrop((7, 10))(value)) == [3, 7, 10]
    assert TF.get_dimensions(T.RandomResizedCrop(5)(value)) == [3, 5, 5]
    assert TF.get_dimensions(T.Grayscale()(value))[0] == 1
    crops = {np.asarray(T.RandomCrop((6, 5))(value)).tobytes() for _ in range(40)}
    every = [pixels.take(range(left, left + 5), columns).tobytes() for left in range(4)]
    assert crops == set(every)
    try:
        T.RandomCrop(7)(value)
    except ValueError as error:
        assert "smaller than the crop: 6 x 8, 7 x 7" in str(error)
    else:
        raise AssertionError
    assert TF.get_dimensions(T.RandomCrop(7, pad_if_needed=True)(value)) == [3, 7, 7]
grey = np.asarray(T.Grayscale()(image), int)
assert abs(grey - T.Grayscale()(x).numpy()[0]).max() <= 1
small = np.asarray(T.Resize((3, 4))(image), int)
assert abs(small - T.Resize((3, 4))(x).permute(1, 2, 0).numpy()).max() <= 1
both = T.Compose([T.ToTensor(), T.Normalize((0.1, 0.2, 0.3), (0.5, 1.0, 2.0))])
expected = (array / 255 - [0.1, 0.2, 0.3]) / [0.5, 1.0, 2.0]
assert np.allclose(both(image), expected.transpose(2, 0, 1), atol=1e-6)
y = torch.rand(3, 2, 2)
assert T.Normalize([0.5] * 3, [1.0] * 3, inplace=True)(y) is y
assert T.Lambda(lambda v: v * 2)(3) == 6
assert T.ConvertImageDtype(torch.float32)(x).max() == array.max() / 255
print(T.Compose([T.ToTensor(), T.Resize(4)]))
"""


def test_transforms_have_numpys_values(tmp_path: Path) -> None:
    text = run("-c", TRANSFORMS, folder=tmp_path)
    assert text == "Compose(\n    ToTensor()\n    Resize(size=4)\n)\n"


DATASETS = """
import pickle
import torch, torchvision
from PIL import Image
from torchvision import datasets, transforms

data = datasets.MNIST("data", train=False, download=True)
assert data.data.shape == (64, 28, 28) and data.data.dtype == torch.uint8 and len(data) == 64
assert isinstance(data[3][0], Image.Image) and data[3][1] == int(data.targets[3])
assert torch.equal(transforms.PILToTensor()(data[3][0])[0], data.data[3])
loader = torch.utils.data.DataLoader(
    datasets.MNIST("data", transform=transforms.ToTensor(), target_transform=int.__neg__),
    batch_size=64, num_workers=1,
)
x, y = next(iter(loader))
assert x.shape == (64, 1, 28, 28) and x.max() <= 1 and -9 <= y.min() <= y.max() == 0
for name in ("cat", "dog"):
    import os
    os.makedirs(f"images/{name}")
    colour = (250, 0, 0) if name == "cat" else (0, 0, 250)
    Image.new("RGB", (5, 4), colour).save(f"images/{name}/1.png")
folder = datasets.ImageFolder("images", transforms.ToTensor())
assert folder.classes == ["cat", "dog"] and [y for _, y in folder] == [0, 1]
assert folder[1][0].shape == (3, 4, 5) and folder[1][0].amax((1, 2)).tolist()[:2] == [0, 0]
fake = datasets.FakeData(5, (3, 8, 8), 3, transform=transforms.ToTensor())
assert len(fake) == 5 and torch.equal(fake[2][0], fake[2][0])
assert not torch.equal(fake[1][0], fake[2][0])
assert all(0 <= y < 3 for _, y in fake)
for make in (datasets.FashionMNIST, datasets.CIFAR10, datasets.CIFAR100):
    try:
        make("nowhere", download=True)
    except FileNotFoundError as error:
        text = str(error)
        names_files = "train" in text or "data_batch_1" in text
        print(text.partition(":")[0], names_files and "nothing is downloaded" in text)
"""


def test_data_sets_read_their_files_and_name_absent_ones(tmp_path: Path) -> None:
    write_mnist(tmp_path / "data")
    text = run("-c", DATASETS, folder=tmp_path)
    assert text == "FashionMNIST True\nCIFAR10 True\nCIFAR100 True\n"


PICTURES = """
import io
import numpy as np
import torch
from PIL import Image
from torchvision.utils import make_grid, save_image

x = torch.arange(5 * 3 * 2 * 2.0).reshape(5, 3, 2, 2) / 60
grid = make_grid(x, nrow=3, padding=1, pad_value=0.5)
assert grid.shape == (3, 7, 10)
assert torch.equal(grid[:, 1:3, 4:6], x[1]) and torch.equal(grid[:, 4:6, 1:3], x[3])
assert (grid[:, 0] == 0.5).all() and (grid[:, 4:6, 7:9] == 0.5).all()
assert make_grid(x[:, :1]).shape == (3, 6, 5 * 4 + 2)
assert torch.equal(make_grid(x[0]), x[0]) and make_grid(list(x), padding=0).shape == (3, 2, 10)
scaled = make_grid(x * 7 - 2, normalize=True, padding=0)
assert scaled.min() == 0 and abs(scaled.max() - 1) < 1e-6
each = make_grid(x, normalize=True, scale_each=True, padding=0)
assert all(abs(each[:, :, i : i + 2].max() - 1) < 1e-6 for i in range(0, 10, 2))
save_image(x, "a.png", nrow=3, padding=1)
with Image.open("a.png") as image:
    pixels = np.asarray(image)
expected = (make_grid(x, 3, 1) * 255 + 0.5).clamp(0, 255).byte()
assert np.array_equal(pixels, expected.permute(1, 2, 0))
file = io.BytesIO()
save_image(x[0], file, format="jpeg")
assert file.getvalue()[:2] == bytes([255, 216])
"""


def test_grids_and_files_of_pictures(tmp_path: Path) -> None:
    run("-c", PICTURES, folder=tmp_path)


MODELS = """
import torch
from torchvision import models
from torchvision.models.resnet import BasicBlock, ResNet

# The sizes that the paper's networks have.
for name, size, keys in (("resnet18", 11_689_512, 122), ("resnet50", 25_557_032, 320)):
    model = models.__dict__[name]()
    assert sum(p.numel() for p in model.parameters()) == size, name
    assert len(model.state_dict()) == keys
model = models.resnet18(weights=None, num_classes=10)
for key in ("conv1.weight", "layer2.0.downsample.1.running_var", "layer4.1.bn2.bias", "fc.weight"):
    assert key in model.state_dict()
assert [name for name, _ in model.named_children()] == [
    "conv1", "bn1", "relu", "maxpool", "layer1", "layer2", "layer3", "layer4", "avgpool", "fc"
]
assert isinstance(model, ResNet) and isinstance(model.layer1[0], BasicBlock)
y = model(torch.rand(2, 3, 64, 64))
assert y.shape == (2, 10)
y.sum().backward()
assert all(p.grad is not None for p in model.parameters())
weights = models.ResNet50_Weights
assert weights.DEFAULT is weights.IMAGENET1K_V2
for option, text in (
    ({"pretrained": True}, "pretrained=True"),
    ({"weights": weights.DEFAULT}, "weights=ResNet50_Weights.IMAGENET1K_V2"),
    ({"weights": "DEFAULT"}, "weights=DEFAULT"),
):
    try:
        models.resnet50(**option)
    except ValueError as error:
        assert f"nothing is downloaded: {text}, load a file" in str(error), error
    else:
        raise AssertionError
"""


def test_residual_networks_have_torchvisions_keys(tmp_path: Path) -> None:
    run("-c", MODELS, folder=tmp_path)
