"""Products with their biases as one operation: jax2onnx writes two, and on small networks each costs as much as what it computes."""

from typing import TYPE_CHECKING

import numpy as np

from .onnx_parts import messages

if TYPE_CHECKING:
    import onnx


def with_biases(model: "onnx.ModelProto") -> "onnx.ModelProto":
    """The same program, with `Gemm(x, w, 0) + bias` as `Gemm(x, w, bias)`."""
    from onnx import GraphProto, NodeProto, numpy_helper

    graph = model.graph
    constants = {x.name: x for x in graph.initializer}
    users: dict[str, list[onnx.NodeProto]] = {}
    for node in graph.node:
        for name in node.input:
            users.setdefault(name, []).append(node)
    # What must keep its name: outputs, and what the bodies of loops and branches take from outside.
    bodies = [part for node in graph.node for part in messages(node) if part is not node]
    kept = {name for part in bodies if isinstance(part, NodeProto) for name in part.input}
    kept |= {x.name for part in [graph, *bodies] if isinstance(part, GraphProto) for x in part.output}
    joined = []
    for gemm in graph.node:
        if gemm.op_type != "Gemm" or len(gemm.input) < 3 or gemm.output[0] in kept or len(users.get(gemm.output[0], [])) != 1:
            continue
        add, weight, zero = users[gemm.output[0]][0], constants.get(gemm.input[1]), constants.get(gemm.input[2])
        how = {attribute.name: attribute for attribute in gemm.attribute}
        if add.op_type != "Add" or weight is None or zero is None or numpy_helper.to_array(zero).any() or "transB" in how:
            continue
        bias = constants.get(next((name for name in add.input if name != gemm.output[0]), ""))
        width = weight.dims[1]
        if bias is None or tuple(bias.dims)[-1:] != (width,) or int(np.prod(bias.dims)) != width:
            continue
        gemm.input[2], gemm.output[0] = bias.name, add.output[0]
        if "beta" in how:
            how["beta"].f = 1.0
        joined.append(add)
    for add in joined:
        graph.node.remove(add)
    needed = {name for node in graph.node for name in node.input} | kept
    for name in [name for name in constants if name not in needed]:
        graph.initializer.remove(constants[name])
    return model
