"""ONNX Runtime on a small graph, inputs and outputs bound once; where there are two graphs, the faster."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from peer_common import Arrays, Call, fastest, kept, library

ort: Any = library("onnxruntime")
onnx: Any = library("onnx")

Node = tuple[str, list[str], str, dict[str, Any]]
"""Operator, inputs, output, attributes. `"eps"` is the number of that name; constants start with #."""

GRAPHS: dict[str, list[Node]] = {
    "softmax": [("Softmax", ["x"], "y", {"axis": 1})],
    "layernorm": [("LayerNormalization", ["x", "g", "b"], "y", {"axis": 1, "epsilon": "eps"})],
    "rmsnorm": [("RMSNormalization", ["x", "g"], "y", {"axis": 1, "epsilon": "eps"})],
    "batchnorm_inference": [("BatchNormalization", ["x", "g", "b", "mean", "var"], "y", {"epsilon": "eps"})],
    "batchnorm_training": [
        ("ReduceMean", ["x", "#023"], "m4", {"keepdims": 1}),
        ("Sub", ["x", "m4"], "d", {}),
        ("Mul", ["d", "d"], "dd", {}),
        ("ReduceMean", ["dd", "#023"], "v4", {"keepdims": 1}),
        ("Reshape", ["m4", "#all"], "mean", {}),
        ("Reshape", ["v4", "#all"], "var", {}),
        ("BatchNormalization", ["x", "g", "b", "mean", "var"], "y", {"epsilon": "eps"}),
    ],
    "relu": [("Relu", ["x"], "y", {})],
    "gelu": [("Gelu", ["x"], "y", {})],
    "silu": [("Sigmoid", ["x"], "t", {}), ("Mul", ["x", "t"], "y", {})],
    "swiglu_gate": [("Sigmoid", ["g"], "t", {}), ("Mul", ["g", "t"], "r", {}), ("Mul", ["r", "u"], "y", {})],
    "bias_relu": [("Add", ["x", "b"], "t", {}), ("Relu", ["t"], "y", {})],
    "add": [("Add", ["a", "b"], "y", {})],
    "reduce_mean_0": [("ReduceMean", ["x", "#0"], "y", {"keepdims": 0})],
    "reduce_mean_1": [("ReduceMean", ["x", "#1"], "y", {"keepdims": 0})],
    "matmul": [("MatMul", ["a", "b"], "c", {})],
    "bmm": [("MatMul", ["a", "b"], "c", {})],
    "conv2d": [("Conv", ["x", "f"], "y", {"pads": [1, 1, 1, 1]})],
    "gemv": [("MatMul", ["a", "x"], "y", {})],
    "dot": [("MatMul", ["a", "b"], "y", {})],
    "saxpy": [("Mul", ["#alpha", "x"], "t", {}), ("Add", ["t", "y"], "y_after", {})],
    "transpose": [("Transpose", ["x"], "y", {"perm": [1, 0]})],
    "cumsum": [("CumSum", ["x", "#axis"], "y", {})],
    "attention": [
        ("Transpose", ["k"], "kt", {"perm": [0, 2, 1]}),
        ("MatMul", ["q", "kt"], "s", {}),
        ("Mul", ["s", "#scale"], "s2", {}),
        ("Add", ["s2", "#mask"], "s3", {}),
        ("Softmax", ["s3"], "p", {"axis": -1}),
        ("MatMul", ["p", "v"], "y", {}),
    ],
}

OTHERS: dict[str, list[Node]] = {
    "attention": [
        ("Unsqueeze", ["q", "#0"], "q4", {}),
        ("Unsqueeze", ["k", "#0"], "k4", {}),
        ("Unsqueeze", ["v", "#0"], "v4", {}),
        ("Attention", ["q4", "k4", "v4"], "y4", {"is_causal": 1, "scale": "scale"}),
        ("Squeeze", ["y4", "#0"], "y", {}),
    ],
    "gemv": [
        ("Unsqueeze", ["x", "#0"], "x2", {}),
        ("Gemm", ["x2", "a"], "y2", {"transB": 1}),
        ("Squeeze", ["y2", "#0"], "y", {}),
    ],
    "dot": [("Mul", ["a", "b"], "t", {}), ("ReduceSum", ["t"], "y", {"keepdims": 0})],
}
"""Other ways to compute the same."""


def _constant(name: str, arrays: Arrays) -> np.ndarray[Any, Any]:
    match name:
        case "#0" | "#1":
            return np.array([int(name[1])], np.int64)
        case "#axis":
            return np.array(1, np.int64)
        case "#023":
            return np.array([0, 2, 3], np.int64)
        case "#all":
            return np.array([-1], np.int64)
        case "#mask":
            size = arrays["q"].shape[1]
            return np.triu(np.full((size, size), -math.inf, np.float32), 1)
    return np.array(arrays[name[1:]], np.float32)


def _run(nodes: list[Node], arrays: Arrays, threads: int) -> Call:
    helper = onnx.helper
    made = []
    for kind, inputs, output, attributes in nodes:
        known = {
            key: float(arrays[value]) if isinstance(value, str) else value for key, value in attributes.items()
        }
        made.append(helper.make_node(kind, inputs, [output], **known))
    used = dict.fromkeys(name for _, inputs, _, _ in nodes for name in inputs)
    outputs = [output for _, _, output, _ in nodes]
    takes = [name for name in arrays if name in used and name not in outputs]
    gives = [name for name in outputs if name.removesuffix("_after") in arrays]
    places = {name: arrays[name.removesuffix("_after")] for name in gives}
    graph = helper.make_graph(
        made,
        "row",
        [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, arrays[name].shape) for name in takes],
        [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, places[name].shape) for name in gives],
        [onnx.numpy_helper.from_array(_constant(name, arrays), name) for name in used if name.startswith("#")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10)
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    for name in takes:
        binding.bind_cpu_input(name, arrays[name])
    values = {name: ort.OrtValue.ortvalue_from_numpy(place) for name, place in places.items()}
    for name, value in values.items():
        binding.bind_ortvalue_output(name, value)

    def keep(_: object) -> None:
        for name, value in values.items():
            np.copyto(places[name], value.numpy())

    return kept(lambda: session.run_with_iobinding(binding), keep)


def bind(operation: str, arrays: Arrays, threads: int) -> Call:
    """The operation by ONNX Runtime."""
    ways = [graphs[operation] for graphs in (GRAPHS, OTHERS) if operation in graphs]
    calls = [_run(nodes, arrays, threads) for nodes in ways]
    return calls[0] if len(calls) == 1 else fastest(*calls)
