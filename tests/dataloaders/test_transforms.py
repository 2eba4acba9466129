"""Transforms of batches: their values, and random numbers that depend on the sample alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import memory
from shmtensor.dataloaders import transforms

IMAGES = np.random.default_rng(0).integers(0, 256, (12, 3, 10, 8)).astype(np.uint8)
FLOATS = IMAGES.astype(np.float32) / 255
LABELS = np.arange(12) % 4
KEYS = transforms.make_keys(5, np.arange(12))

RANDOM: list[transforms.Transform] = [
    transforms.RandomCrop((6, 5), padding=2),
    transforms.RandomCrop((6, 5), padding=(1, 2, 3, 4), padding_mode="reflect"),
    transforms.RandomHorizontalFlip(),
    transforms.RandomVerticalFlip(),
    transforms.RandomResizedCrop(6),
    transforms.RandomErasing(value="random"),
    transforms.RandomErasing(0.7, value=[1, 2, 3]),
    transforms.RandomApply(transforms.RandomErasing(1.0)),
    transforms.Compose([transforms.RandomHorizontalFlip(), transforms.RandomCrop(8, padding=1)]),
]


@pytest.mark.parametrize("transform", RANDOM, ids=repr)
def test_a_sample_is_changed_by_its_key_and_not_by_its_batch(transform: Any) -> None:
    full = transform(FLOATS, keys=KEYS)
    assert (transform(FLOATS, keys=KEYS) == full).all()
    for some in ([3], [7, 2, 11], [0, 1, 2, 3]):
        assert (transform(FLOATS[some], keys=KEYS[some]) == full[some]).all()
    assert (transform(FLOATS, keys=transforms.make_keys(6, np.arange(12))) != full).any()


@pytest.mark.parametrize("transform", RANDOM, ids=repr)
def test_without_keys_the_default_generator_decides(transform: Any) -> None:
    outputs = []
    for seed in (1, 1, 2):
        st.manual_seed(seed)
        outputs.append(transform(FLOATS))
    assert (outputs[0] == outputs[1]).all()
    assert (outputs[0] != outputs[2]).any()


def test_the_input_is_unchanged_and_the_output_is_shared() -> None:
    for transform in (*RANDOM, transforms.Normalize(0.5, 0.5), transforms.Pad(1)):
        x = FLOATS.copy()
        result = transform(x)
        assert (x == FLOATS).all(), transform
        assert memory.is_shared(result), transform
        assert not np.shares_memory(result, x)


def test_tensors_give_tensors_and_one_image_is_a_batch_of_one() -> None:
    crop = transforms.RandomCrop(4)
    result = crop(st.tensor(IMAGES), keys=KEYS)
    assert isinstance(result, st.Tensor)
    assert (result.numpy() == crop(IMAGES, keys=KEYS)).all()
    one = crop(st.tensor(IMAGES[3]), keys=KEYS[3:4])
    assert one.shape == (3, 4, 4)
    assert (one.numpy() == result.numpy()[3]).all()


def test_labels_go_along() -> None:
    images, labels = transforms.RandomHorizontalFlip()(st.tensor(IMAGES), st.tensor(LABELS))
    assert isinstance(images, st.Tensor)
    assert labels.tolist() == LABELS.tolist()
    one, label = transforms.RandomCrop(4)(IMAGES[2], 3)
    assert one.shape == (3, 4, 4)
    assert label == 3


# ------------------------------------------------------------------ geometry
def test_crops_are_parts_of_the_padded_image_in_all_places() -> None:
    x = np.arange(200 * 9, dtype=np.int64).reshape(200, 1, 3, 3) + 1
    crops = transforms.RandomCrop(3, padding=1)(x, keys=transforms.make_keys(0, np.arange(200)))
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    offsets = set()
    for n in range(200):
        at = [
            (i, j)
            for i in range(3)
            for j in range(3)
            if (padded[n, :, i : i + 3, j : j + 3] == crops[n]).all()
        ]
        assert len(at) == 1
        offsets.add(at[0])
    assert len(offsets) == 9


@pytest.mark.parametrize("mode", ["edge", "reflect", "symmetric"])
def test_padding_modes_are_numpys(mode: Any) -> None:
    want = np.pad(IMAGES, ((0, 0), (0, 0), (2, 4), (1, 3)), mode)
    assert (transforms.Pad((1, 2, 3, 4), padding_mode=mode)(IMAGES) == want).all()
    crop = transforms.RandomCrop((16, 12), padding=(1, 2, 3, 4), padding_mode=mode)
    assert (crop(IMAGES) == want).all()


def test_a_crop_larger_than_the_image_is_an_error_or_padded() -> None:
    with pytest.raises(ValueError, match="10 x 8 with padding, 12 x 8, use pad_if_needed"):
        transforms.RandomCrop((12, 8))(IMAGES)
    result = transforms.RandomCrop((12, 8), pad_if_needed=True, fill=7)(IMAGES)
    assert result.shape == (12, 3, 12, 8)
    assert (result == 7).any(axis=(1, 2, 3)).all()


def test_center_crop_and_pad() -> None:
    assert (transforms.CenterCrop((4, 2))(IMAGES) == IMAGES[:, :, 3:7, 3:5]).all()
    wide = transforms.CenterCrop((10, 12))(IMAGES)
    assert (wide[..., 2:10] == IMAGES).all()
    assert not wide[..., :2].any()
    assert (transforms.Pad((1, 2), fill=9)(IMAGES)[..., 0] == 9).all()


def test_flips_mirror_about_half_of_the_samples() -> None:
    keys = transforms.make_keys(0, np.arange(1000))
    x = np.zeros((1000, 1, 2, 2), np.uint8)
    x[..., 0, 0] = 1
    right = transforms.RandomHorizontalFlip()(x, keys=keys)[:, 0, 0, 1]
    assert 430 < right.sum() < 570
    below = transforms.RandomVerticalFlip(p=0.1)(x, keys=keys)[:, 0, 1, 0]
    assert 60 < below.sum() < 140
    composed = transforms.Compose(
        [transforms.RandomHorizontalFlip(), transforms.RandomHorizontalFlip()]
    )(x, keys=keys)[:, 0, 0, 1]
    assert 430 < composed.sum() < 570  # each has its own numbers: they do not cancel


def test_resize_agrees_with_interpolate() -> None:
    want = st.nn.functional.interpolate(
        st.tensor(FLOATS), (5, 4), mode="bilinear", antialias=True
    ).numpy()
    assert np.allclose(transforms.Resize((5, 4))(FLOATS), want)
    bytes_ = transforms.Resize((5, 4))(IMAGES)
    assert bytes_.dtype == np.uint8
    assert np.abs(bytes_ / 255 - want).max() < 0.6 / 255
    assert transforms.Resize(4)(IMAGES).shape == (12, 3, 5, 4)
    assert transforms.Resize((20, 16), "nearest")(IMAGES)[..., ::2, ::2].tolist() == IMAGES.tolist()
    bright = np.full((1, 1, 4, 4), 255, np.uint8)
    bright[..., 0, 0] = 0
    assert transforms.Resize(9, "bicubic")(bright).max() == 255  # clipped, not wrapped


def test_resized_crops_take_boxes_within_scale_and_ratio() -> None:
    from shmtensor.dataloaders.transforms.crop_flip_resize import sample_boxes

    keys = transforms.make_keys(1, np.arange(2000))
    boxes = sample_boxes(keys, 100, 60, (0.1, 0.5), (0.5, 2.0))
    top, left, height, width = boxes.T
    assert (top >= 0).all()
    assert (left >= 0).all()
    assert (top + height <= 100).all()
    assert (left + width <= 60).all()
    area, shape = height * width / 6000, width / height
    assert 0.09 < area.min() < 0.13
    assert 0.42 < area.max() < 0.52
    assert 0.47 < shape.min() < 0.6
    assert 1.5 < shape.max() < 2.1
    impossible = sample_boxes(keys, 100, 2, (0.9, 1.0), (1.0, 1.0))
    assert (impossible == [49, 0, 2, 2]).all()  # the middle


# ------------------------------------------------------------------ pixels
def test_dtype_and_scale() -> None:
    assert np.allclose(transforms.ToDtype(np.float32, scale=True)(IMAGES), FLOATS)
    assert (transforms.ToDtype(np.float64)(IMAGES) == IMAGES).all()
    restored = transforms.ToDtype(np.uint8, scale=True)(FLOATS)
    assert (restored == IMAGES).all()


def test_normalize_is_channelwise_and_wants_floats() -> None:
    mean, std = [0.1, 0.2, 0.3], [1.0, 2.0, 4.0]
    want = (FLOATS - np.reshape(mean, (3, 1, 1))) / np.reshape(std, (3, 1, 1))
    assert np.allclose(transforms.Normalize(mean, std)(FLOATS), want, atol=1e-6)
    assert np.allclose(transforms.Normalize(0.5, 2)(FLOATS), (FLOATS - 0.5) / 2, atol=1e-6)
    with pytest.raises(TypeError, match="not floats: uint8"):
        transforms.Normalize(0.5, 2)(IMAGES)
    with pytest.raises(ValueError, match="2 numbers for 3 channels"):
        transforms.Normalize([1, 2], 1)(FLOATS)
    with pytest.raises(ValueError, match="a std other than 0"):
        transforms.Normalize([1, 2], 0)


def test_erasing_overwrites_one_box() -> None:
    x = np.ones((300, 2, 20, 20), np.float32)
    images = transforms.RandomErasing(p=0.5, scale=(0.1, 0.2), value=[5, 6])(
        x, keys=transforms.make_keys(0, np.arange(300))
    )
    is_changed = (images != 1).any(axis=(1, 2, 3))
    assert 110 < is_changed.sum() < 190
    for image in images[is_changed]:
        rows, columns = np.nonzero(image[0] == 5)
        box = image[:, rows.min() : rows.max() + 1, columns.min() : columns.max() + 1]
        assert (box[0] == 5).all()
        assert (box[1] == 6).all()
        assert 0.07 < (image[0] == 5).mean() < 0.24
        assert (image != 1).sum() == box.size


# ------------------------------------------------------------------ labels
def test_one_hot_changes_the_last_argument() -> None:
    want = np.eye(4)[LABELS]
    assert (transforms.OneHot(4)(LABELS) == want).all()
    images, rows = transforms.OneHot(4, np.int64)(IMAGES, LABELS)
    assert images is not None
    assert rows.dtype == np.int64
    assert (rows == want).all()
    with pytest.raises(ValueError, match=r"not in 0 \.\. 2: from 0 to 3"):
        transforms.OneHot(3)(LABELS)
    with pytest.raises(ValueError, match=r"not in 0 \.\. 2: from -1 to 2"):
        transforms.OneHot(3)(np.array([2, -1]))
    with pytest.raises(TypeError, match="not whole numbers: float32"):
        transforms.OneHot(3)(FLOATS)


@pytest.mark.parametrize("kind", [transforms.MixUp, transforms.CutMix])
def test_labels_are_mixed_as_the_pixels_are(kind: Any) -> None:
    x = np.zeros((12, 1, 16, 16), np.float32)
    x[::2] = 1  # the pixel mean of an image tells how much of it came from an even sample
    labels = np.arange(12) % 2
    images, shares = kind(alpha=1.0, num_classes=2)(x, labels, keys=KEYS)
    assert np.allclose(shares.sum(1), 1)
    assert np.allclose(images.mean(axis=(1, 2, 3)), shares[:, 0], atol=1e-6)
    assert len(np.unique(shares.round(4))) > 4
    repeated = kind(alpha=1.0)(x, np.eye(2, dtype=np.float32)[labels], keys=KEYS)
    assert (repeated[1] == shares).all()
    with pytest.raises(ValueError, match="num_classes is needed"):
        kind()(x, labels)
    with pytest.raises(TypeError, match="images and labels are needed"):
        kind()(x)


def test_compose_runs_functions_too() -> None:
    both = transforms.Compose(
        [
            transforms.ToDtype(scale=True),
            transforms.Lambda(lambda x: x * 2),
            lambda x, y: (x + 1, y + 1),
            transforms.OneHot(5),
        ]
    )
    images, labels = both(IMAGES, LABELS)
    assert np.allclose(images, FLOATS * 2 + 1)
    assert labels.argmax(1).tolist() == (LABELS + 1).tolist()
    assert repr(both).startswith("Compose([ToDtype(dtype=dtype('float32'), scale=True), Lambda(")


def test_invalid_arguments_are_refused() -> None:
    for make, text in (
        (lambda: transforms.RandomHorizontalFlip(2), "not a probability: 2"),
        (lambda: transforms.RandomCrop(0), "not one or two positive whole numbers: 0"),
        (lambda: transforms.Pad((1, 2, 3)), "not 1, 2 or 4 whole numbers"),
        (lambda: transforms.Pad(1, padding_mode="mirror"), "padding_mode is not one of"),
        (lambda: transforms.Resize(3, "cubic"), "interpolation is not"),
        (lambda: transforms.MixUp(0), "alpha is not positive"),
        (lambda: transforms.RandomErasing(value="white"), "not a number or 'random'"),
        (lambda: transforms.OneHot(0), "num_classes is not positive"),
    ):
        with pytest.raises(ValueError, match=text):
            make()
    with pytest.raises(NotImplementedError, match="Transform: change is not implemented"):
        transforms.Transform()(FLOATS)
