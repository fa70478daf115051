"""Products of matrices for the NumPy runtime, in double precision: NumPy's own round two equal columns differently.

A critic that answers by two-hot bins weighs tiny differences between such columns by up to e^20. onnxruntime rounds them alike.
"""

from typing import Any

import numpy as np
from onnx.reference.op_run import OpRun


class MatMul(OpRun):
    op_domain = ""

    def _run(self, a: Any, b: Any) -> tuple[np.ndarray]:
        return (np.matmul(widened(a), widened(b)).astype(a.dtype),)


class Gemm(OpRun):
    op_domain = ""

    def _run(self, a: Any, b: Any, c: Any = None, **how: Any) -> tuple[np.ndarray]:
        a, b = (x.T if how.get(flag) else x for x, flag in ((a, "transA"), (b, "transB")))
        product = how.get("alpha", 1.0) * (widened(a) @ widened(b))
        return ((product if c is None else product + how.get("beta", 1.0) * widened(c)).astype(a.dtype),)


def widened(x: np.ndarray) -> np.ndarray:
    return x.astype(np.float64) if x.dtype == np.float32 else x
