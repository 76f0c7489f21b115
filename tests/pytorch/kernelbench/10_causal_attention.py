"""Attention of GPT, with its mask."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    def __init__(self, n_embd: int, n_head: int, max_seqlen: int) -> None:
        super().__init__()
        self.c_attn, self.c_proj = nn.Linear(n_embd, 3 * n_embd), nn.Linear(n_embd, n_embd)
        self.bias: torch.Tensor
        self.register_buffer(
            "bias", torch.tril(torch.ones(max_seqlen, max_seqlen)).view(1, 1, max_seqlen, max_seqlen)
        )
        self.n_head, self.n_embd = n_head, n_embd

    def forward(self, x: torch.Tensor) -> Any:
        b, t, c = x.size()
        q, k, v = self.c_attn(x).split(self.n_embd, dim=2)
        q, k, v = (p.view(b, t, self.n_head, c // self.n_head).transpose(1, 2) for p in (q, k, v))
        att = (q @ k.transpose(-2, -1)) * (1.0 / k.size(-1) ** 0.5)
        att = F.softmax(att.masked_fill(self.bias[:, :, :t, :t] == 0, float("-inf")), dim=-1)
        return self.c_proj((att @ v).transpose(1, 2).contiguous().view(b, t, c))


batch_size, seq_len, n_embd, n_head = 2, 16, 32, 4


def get_inputs() -> list[Any]:
    return [torch.randn(batch_size, seq_len, n_embd)]


def get_init_inputs() -> list[Any]:
    return [n_embd, n_head, 32]
