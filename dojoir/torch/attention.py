"""Attention as two products and a softmax, in the types that matrix units have."""

from __future__ import annotations

import math
from typing import Any

import torch

aten: Any = torch.ops.aten

HALVES = (torch.bfloat16, torch.float16)

BLOCK = 128
"""Of so many rows of a causal attention each reads the same keys."""


@torch.library.custom_op("dojoir::attention", mutates_args=())
def whole_attention(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scale: float, is_causal: bool
) -> torch.Tensor:
    """`attention` without a mask, for inference, as one operator: the loops of its text end at the block of a
    causal row. Of such rows there are as many as keys, a multiple of BLOCK."""
    given = query, key, value, None, 0.0, is_causal
    made: torch.Tensor = aten._scaled_dot_product_attention_math.default(*given, scale=scale)[0]
    return made


@whole_attention.register_fake
def _(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scale: float, is_causal: bool) -> torch.Tensor:
    return query.new_empty((*query.shape[:-1], value.shape[-1]))


def attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> torch.Tensor:
    """`softmax(scale * query key^T + mask) value` in bf16 and f16, as two products and a softmax.

    Scores stay in f32, and weights are rounded to the type of `value`, as in FlashAttention (Dao et al., 2022). For
    inference the second product is divided by the sum of the weights; for training the weights are, since autograd
    keeps the product in its type, in which an undivided one may overflow. Other types, dropout and empty dimensions
    take PyTorch's own definition. Shapes and errors are those of `scaled_dot_product_attention`."""
    query, key, value, attn_mask = (_as_autocast(one) for one in (query, key, value, attn_mask))
    terms = query.shape[-1], key.shape[-2]
    if query.dtype not in HALVES or dropout_p or any(isinstance(n, int) and n == 0 for n in terms):
        given = query, key, value, attn_mask, dropout_p, is_causal
        made: torch.Tensor = aten._scaled_dot_product_attention_math.default(
            *given, scale=scale, enable_gqa=enable_gqa
        )[0]
        return made
    if enable_gqa:
        key, value = (_repeated(one, query.shape[-3] // one.shape[-3]) for one in (key, value))
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    factors = query, key, value, attn_mask
    trains = torch.is_grad_enabled() and any(one is not None and one.requires_grad for one in factors)
    if attn_mask is None and not trains and _is_whole(query, key, value, is_causal):
        whole: torch.Tensor = whole_attention(query, key, value, scale, is_causal)
        return whole
    scores = torch.matmul(query, key.transpose(-2, -1)).float() * scale
    if is_causal:
        shape = query.shape[-2], key.shape[-2]
        attn_mask = torch.ones(shape, dtype=torch.bool, device=query.device).tril()
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        scores = torch.where(attn_mask, scores, -math.inf)
    elif attn_mask is not None:
        scores = scores + attn_mask
    most = scores.amax(-1, keepdim=True).detach()
    is_empty = most == -math.inf  # a row without an element is zeros
    if attn_mask is not None and not is_causal:
        most = torch.where(is_empty, 0.0, most)
    weights = torch.exp(scores - most)
    total = weights.sum(-1, keepdim=True)
    if attn_mask is not None and not is_causal:
        total = torch.where(is_empty, 1.0, total)
    if trains:
        return torch.matmul((weights / total).to(value.dtype), value)
    return (torch.matmul(weights.to(value.dtype), value).float() / total).to(query.dtype)


def _as_autocast(tensor: Any) -> Any:
    """A tensor in the type of `torch.autocast`, where that is on, as PyTorch casts what its own attention takes."""
    kind = getattr(getattr(tensor, "device", None), "type", "")
    if not kind or not torch.is_autocast_enabled(kind) or tensor.dtype not in (torch.float32, *HALVES):
        return tensor
    return tensor.to(torch.get_autocast_dtype(kind))


def _is_whole(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, is_causal: bool) -> bool:
    """Whether all have the same batches, and of a causal one as many rows as keys, in whole blocks."""
    rows, keys = query.shape[-2], key.shape[-2]
    in_blocks = isinstance(rows, int) and isinstance(keys, int) and rows == keys and rows % BLOCK == 0
    return query.shape[:-2] == key.shape[:-2] == value.shape[:-2] and (in_blocks or not is_causal)


def _repeated(heads: torch.Tensor, times: int) -> torch.Tensor:
    """Each head so often in a row."""
    shape = (*heads.shape[:-3], heads.shape[-3], times, *heads.shape[-2:])
    return heads.unsqueeze(-3).expand(shape).flatten(-4, -3)


def with_attention(graph: Any) -> None:
    """Has a graph of Dynamo call `attention`."""
    for node in graph.nodes:
        if node.target is torch.nn.functional.scaled_dot_product_attention:
            node.target = attention


WHOLE: dict[Any, Any] = {aten.scaled_dot_product_attention.default: attention}
"""The definition that an exported program takes for it."""
