"""Items as bytes: each a record of the same length, its leaves one after the other without gaps."""

import itertools
from typing import Any

import numpy as np
from jaxtyping import PyTree, UInt8

from .layout import Layout


class Records:
    """Turns items of one layout into records and back."""

    def __init__(self, layout: Layout):
        self.layout = layout
        sizes = [int(np.prod(shape)) * dtype.itemsize for shape, dtype in zip(layout.shapes, layout.dtypes, strict=True)]
        self._ends = list(itertools.accumulate(sizes))
        self.num_bytes = self._ends[-1]

    def encode(self, rows: list[np.ndarray]) -> UInt8[np.ndarray, "N bytes"]:
        """Records of a batch, given as the leaves of its items."""
        records = np.empty((len(rows[0]), self.num_bytes), np.uint8)
        start = 0
        for x, end in zip(rows, self._ends, strict=True):
            if x.size:
                records[:, start:end] = np.ascontiguousarray(x).reshape(len(x), -1).view(np.uint8)
            start = end
        return records

    def decode(self, records: UInt8[np.ndarray, "N bytes"]) -> PyTree:
        """The items of records."""
        leaves, start = [], 0
        for shape, dtype, end in zip(self.layout.shapes, self.layout.dtypes, self._ends, strict=True):
            leaves.append(np.ascontiguousarray(records[:, start:end]).view(dtype).reshape(len(records), *shape))
            start = end
        return self.layout.structure.unflatten(leaves)

    def describe(self) -> list[dict[str, Any]]:
        """For the header of a folder: names, dtypes and shapes of the leaves, in order."""
        parts = zip(self.layout.names, self.layout.dtypes, self.layout.shapes, strict=True)
        return [{"name": name, "dtype": dtype.name, "shape": list(shape)} for name, dtype, shape in parts]
