"""NumPy's messages in the words of tensors, after a failure: dimensions in place of axes."""

from __future__ import annotations

import re
from collections.abc import Callable

# A pattern of NumPy's message, and the text in its place: a template, or a function of the match.
Text = str | Callable[[re.Match[str]], str]


def sizes(text: str) -> str:
    """The sizes of a shape as NumPy prints it; it calls -1 "newaxis"."""
    return ", ".join(text.replace("newaxis", "-1").replace(",", " ").split())


def invalid_reshape(match: re.Match[str]) -> str:
    n, shape = match[1], sizes(match[2])
    return (
        f"shape '[{shape}]' is invalid for input of size {n}: {n} elements do not fill "
        f"({shape}{',' * (shape.isnumeric() or shape == '-1')})"
    )


def not_broadcast(match: re.Match[str]) -> str:
    shapes = re.findall(r"\([^()]*\)", match[1])
    return f"shapes cannot be broadcast: {' and '.join(map(printed, shapes))}"


def printed(shape: str) -> str:
    """A shape as Python prints it: (2, 3) for NumPy's (2,3)."""
    inner = sizes(shape.strip("()"))
    return f"({inner}{',' * inner.isnumeric()})"


def value_does_not_fit(match: re.Match[str]) -> str:
    value, place = printed(match[1]), printed(match[2])
    return f"a value of shape {value} cannot be broadcast to the indexed part, of shape {place}"


TEXTS: list[tuple[str, Text]] = [
    (r"cannot reshape array of size (\d+) into shape \((.*)\)", invalid_reshape),
    (r"operands could not be broadcast together with (?:remapped )?shapes (.*)", not_broadcast),
    (r"shape mismatch: objects cannot be broadcast to a single shape\.?(.*)", not_broadcast),
    (r"shape mismatch: indexing arrays could not be broadcast together with shapes (.*)",
     lambda m: f"the shapes of the indices cannot be broadcast: {not_broadcast(m)[28:]}"),
    (r"could not broadcast input array from shape (\(.*?\)) into shape (\(.*?\))",
     value_does_not_fit),
    (r"shape mismatch: value array of shape (\(.*?\))\s+could not be broadcast to indexing result "
     r"of shape (\(.*?\))", value_does_not_fit),
    (r"NumPy boolean array indexing assignment cannot assign (\d+) input values to the (\d+) "
     r"output values where the mask is true",
     r"\1 values cannot be assigned to the \2 elements where the mask is true"),
    (r"input operand has more dimensions than allowed by the axis remapping",
     "the value has more dimensions than the indexed part"),
    (r"too many indices for array: array is (\d+)-dimensional, but (\d+) were indexed",
     r"too many indices for tensor of dimension \1: \2 dimensions are indexed"),
    (r"boolean index did not match indexed array along axis (\d+); size of axis is (\d+) but size "
     r"of corresponding boolean axis is (\d+)",
     r"the shape of the mask does not match the shape of the indexed tensor: size \3 at dimension "
     r"\1, expected \2"),
    (r"index (-?\d+) is out of bounds for axis (\d+) with size (\d+)",
     r"index \1 is out of bounds for dimension \2 with size \3"),
    (r"only integers, slices \(`:`\), ellipsis \(`\.\.\.`\), numpy\.newaxis \(`None`\) and integer "
     r"or boolean arrays are valid indices",
     "only integers, slices (`:`), ellipsis (`...`), None and integer or boolean tensors are "
     "valid indices"),
    (r"(?:duplicate value in 'axis'|repeated axis.*)", "a dim appears multiple times"),
    (r"axis1 and axis2 cannot be the same", "dim1 and dim2 cannot be the same"),
    (r"When changing to a larger dtype, its size must be a divisor of the total size in bytes of "
     r"the last axis of the array\.?",
     "the bytes of the last dimension are no multiple of the size of the larger dtype"),
    (r"could not convert string to float: (?:np\.str_\()?('.*?')\)?", r"\1 is not a number"),
    (r"invalid literal for int\(\) with base 10: (?:np\.str_\()?('.*?')\)?",
     r"\1 is not an integer"),
    (r"setting an array element with a sequence\..*",
     "a number is needed in place of a sequence, or sequences of one length"),
    (r"ufunc '\w+' (?:did not contain a loop|not supported for the input types).*",
     "an argument is of a class that this function does not take"),
    (r"'(\w+)' object cannot be interpreted as an integer", r"an integer is needed, not \1"),
    (r"must be real number, not (\w+)", r"a number is needed, not \1"),
    (r"'(\w+)' object is not iterable", r"an argument cannot be a single \1"),
    (r"object of type '(\w+)' has no len\(\)", r"an argument cannot be a single \1"),
    (r"'\S+' not supported between instances of .*",
     "an argument is of a class that this function does not take"),
]  # fmt: skip


def translate(message: str) -> str:
    """A message with NumPy's sentences in our words; other messages as they are."""
    for pattern, text in TEXTS:
        if match := re.search(pattern, message, re.DOTALL):
            new = text(match) if callable(text) else match.expand(text)
            return message[: match.start()] + new + message[match.end() :].rstrip()
    return message
