"""Whole blocks of models."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from modules.cases import Made, Make, Sizes, cases, image, words


class Attention(nn.Module):
    """Self-attention with heads."""

    def __init__(self, d: int, heads: int, causal: bool) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.qkv, self.out = nn.Linear(d, 3 * d), nn.Linear(d, d)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, t, d = x.shape
        q, k, v = (p.view(b, t, self.heads, -1).transpose(1, 2) for p in self.qkv(x).split(d, 2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        made = self.out(y.transpose(1, 2).reshape(b, t, d))
        assert isinstance(made, torch.Tensor)
        return made


class Mlp(nn.Module):
    """Two linear layers."""

    def __init__(self, d: int) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def forward(self, x: torch.Tensor) -> Any:
        return self.down(F.gelu(self.up(x)))


class SwiGlu(nn.Module):
    """The gated layers of LLaMA."""

    def __init__(self, d: int) -> None:
        super().__init__()
        self.gate, self.up = nn.Linear(d, 2 * d, bias=False), nn.Linear(d, 2 * d, bias=False)
        self.down = nn.Linear(2 * d, d, bias=False)

    def forward(self, x: torch.Tensor) -> Any:
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Transformer(nn.Module):
    """A block with norms before attention and layers."""

    def __init__(self, d: int, heads: int) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(d), nn.LayerNorm(d)
        self.attention, self.mlp = Attention(d, heads, True), Mlp(d)

    def forward(self, x: torch.Tensor) -> Any:
        x = x + self.attention(self.first(x))
        return x + self.mlp(self.second(x))


class Llama(nn.Module):
    """A block with RMS norms, rotary positions, grouped heads."""

    def __init__(self, d: int, heads: int) -> None:
        super().__init__()
        self.heads, self.size = heads, d // heads
        self.first, self.second = nn.RMSNorm(d, eps=1e-5), nn.RMSNorm(d, eps=1e-5)
        self.q, self.kv = nn.Linear(d, d, bias=False), nn.Linear(d, 2 * self.size, bias=False)
        self.out, self.mlp = nn.Linear(d, d, bias=False), SwiGlu(d)

    def forward(self, x: torch.Tensor) -> Any:
        b, t, d = x.shape
        h = self.first(x)
        q = rotary(self.q(h).view(b, t, self.heads, self.size))
        k, v = (p.unsqueeze(2).expand(b, t, self.heads, self.size) for p in self.kv(h).chunk(2, -1))
        k = rotary(k)
        y = F.scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, d))
        return x + self.mlp(self.second(x))


def rotary(x: torch.Tensor) -> torch.Tensor:
    """Positions as rotations of pairs."""
    t, size = x.shape[1], x.shape[-1]
    steps = torch.arange(t, dtype=x.dtype, device=x.device)[:, None]
    places = torch.arange(size // 2, dtype=x.dtype, device=x.device)
    angles = steps * torch.exp(places * (-math.log(10000.0) * 2 / size))
    cos, sin = angles.cos()[None, :, None], angles.sin()[None, :, None]
    first, second = x.chunk(2, -1)
    return torch.cat([first * cos - second * sin, first * sin + second * cos], -1)


class CachedAttention(nn.Module):
    """One step of attention over a cache of keys and values, which is given and handed on."""

    def __init__(self, d: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(d, 3 * d), nn.Linear(d, d)

    def forward(self, x: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> Any:
        b, d = x.shape
        q, k, v = (p.view(b, self.heads, 1, -1) for p in self.qkv(x).chunk(3, -1))
        keys, values = torch.cat([keys, k], 2), torch.cat([values, v], 2)
        y = F.scaled_dot_product_attention(q, keys, values)
        return self.out(y.reshape(b, d)), keys, values


class CrossAttention(nn.Module):
    """Attention to another sequence, with a mask."""

    def __init__(self, d: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.q, self.kv, self.out = nn.Linear(d, d), nn.Linear(d, 2 * d), nn.Linear(d, d)

    def forward(self, x: torch.Tensor, y: torch.Tensor, mask: torch.Tensor) -> Any:
        b, t, d = x.shape
        q = self.q(x).view(b, t, self.heads, -1).transpose(1, 2)
        k, v = (p.view(b, y.shape[1], self.heads, -1).transpose(1, 2) for p in self.kv(y).chunk(2, -1))
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        weights = scores.masked_fill(mask[:, None, None, :], float("-inf")).softmax(-1)
        return self.out((weights @ v).transpose(1, 2).reshape(b, t, d))


class Residual(nn.Module):
    """Two convolutions with norms, and what goes around them."""

    def __init__(self, c: int) -> None:
        super().__init__()
        self.first, self.second = (
            nn.Conv2d(c, c, 3, padding=1, bias=False),
            nn.Conv2d(c, c, 3, padding=1, bias=False),
        )
        self.norm, self.again = nn.BatchNorm2d(c), nn.BatchNorm2d(c)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.relu(self.norm(self.first(x)))
        return F.relu(self.again(self.second(y)) + x)


class Bottleneck(nn.Module):
    """Channels down, a convolution, channels up, with a shortcut of its own."""

    def __init__(self, c: int) -> None:
        super().__init__()
        half = c // 2
        self.layers = nn.Sequential(
            nn.Conv2d(c, half, 1), nn.GroupNorm(1, half), nn.ReLU(),
            nn.Conv2d(half, half, 3, stride=2, padding=1), nn.GroupNorm(1, half), nn.ReLU(),
            nn.Conv2d(half, 2 * c, 1),
        )  # fmt: skip
        self.shortcut = nn.Conv2d(c, 2 * c, 1, stride=2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(self.layers(x) + self.shortcut(x))


class SqueezeExcite(nn.Module):
    """Channels weighted by their means."""

    def __init__(self, c: int) -> None:
        super().__init__()
        self.down, self.up = nn.Linear(c, c // 2), nn.Linear(c // 2, c)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        w = torch.sigmoid(self.up(F.relu(self.down(x.mean((2, 3))))))
        return x * w[:, :, None, None]


class InvertedResidual(nn.Module):
    """The block of MobileNet, in inference."""

    def __init__(self, c: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(c, 2 * c, 1, bias=False), nn.BatchNorm2d(2 * c), nn.ReLU6(),
            nn.Conv2d(2 * c, 2 * c, 3, padding=1, groups=2 * c, bias=False), nn.BatchNorm2d(2 * c), nn.ReLU6(),
            nn.Conv2d(2 * c, c, 1, bias=False), nn.BatchNorm2d(c),
        )  # fmt: skip

    def forward(self, x: torch.Tensor) -> Any:
        return x + self.layers(x)


class ConvNext(nn.Module):
    """A depthwise convolution, a norm over channels, two layers."""

    def __init__(self, c: int) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(c, c, 7, padding=3, groups=c), nn.LayerNorm(c)
        self.up, self.down = nn.Linear(c, 4 * c), nn.Linear(4 * c, c)
        self.scale = nn.Parameter(torch.full((c,), 0.1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm(self.conv(x).permute(0, 2, 3, 1))
        return x + (self.scale * self.down(F.gelu(self.up(y)))).permute(0, 3, 1, 2)


class GruCell(nn.Module):
    """One step of a GRU, written out."""

    def __init__(self, d: int) -> None:
        super().__init__()
        self.of_input, self.of_state = nn.Linear(d, 3 * d), nn.Linear(d, 3 * d)

    def forward(self, x: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
        r, z, n = self.of_input(x).chunk(3, -1)
        r_h, z_h, n_h = self.of_state(h).chunk(3, -1)
        r, z = torch.sigmoid(r + r_h), torch.sigmoid(z + z_h)
        n = torch.tanh(n + r * n_h)
        return (1 - z) * n + z * h


class Gru(nn.Module):
    """Four steps of a GRU."""

    def __init__(self, d: int) -> None:
        super().__init__()
        self.cell = GruCell(d)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = x.new_zeros(x.shape[0], x.shape[2])
        made = []
        for t in range(4):
            h = self.cell(x[:, t], h)
            made.append(h)
        return torch.stack(made, 1)


class LstmCell(nn.Module):
    """One step of an LSTM."""

    def __init__(self, d: int) -> None:
        super().__init__()
        self.layer = nn.Linear(2 * d, 4 * d)

    def forward(self, x: torch.Tensor, h: torch.Tensor, c: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        i, f, g, o = self.layer(torch.cat([x, h], -1)).chunk(4, -1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(c), c


class Experts(nn.Module):
    """A mixture of experts: each word goes to the best of them by the router, all are computed."""

    def __init__(self, d: int, count: int) -> None:
        super().__init__()
        self.router = nn.Linear(d, count)
        self.up = nn.Parameter(torch.randn(count, d, 2 * d) / math.sqrt(d))
        self.down = nn.Parameter(torch.randn(count, 2 * d, d) / math.sqrt(2 * d))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, t, d = x.shape
        flat = x.reshape(b * t, d)
        share, best = self.router(flat).softmax(-1).max(-1)
        hidden = F.silu(torch.einsum("nd,edh->neh", flat, self.up))
        each = torch.einsum("neh,ehd->ned", hidden, self.down)
        chosen = each.gather(1, best[:, None, None].expand(-1, 1, d)).squeeze(1)
        return (share[:, None] * chosen).view(b, t, d)


class TopTwo(nn.Module):
    """A mixture of experts with the two best of each word."""

    def __init__(self, d: int, count: int) -> None:
        super().__init__()
        self.router = nn.Linear(d, count)
        self.weight = nn.Parameter(torch.randn(count, d, d) / math.sqrt(d))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        share, best = self.router(x).topk(2, -1)
        share = share.softmax(-1)
        each = torch.einsum("btd,edf->btef", x, self.weight)
        chosen = each.gather(2, best[..., None].expand(*best.shape, x.shape[-1]))
        return (share[..., None] * chosen).sum(2)


class VisionPatches(nn.Module):
    """An image as words: patches, a class word, positions."""

    def __init__(self, s: Sizes) -> None:
        super().__init__()
        self.patches = nn.Conv2d(s.c, s.d, 4, stride=4)
        self.word = nn.Parameter(torch.randn(1, 1, s.d))
        self.position = nn.Parameter(torch.randn(1, (s.h // 4) ** 2 + 1, s.d))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.patches(x).flatten(2).transpose(1, 2)
        return torch.cat([self.word.expand(x.shape[0], -1, -1), y], 1) + self.position


class Classifier(nn.Module):
    """Means over an image, a norm, a layer."""

    def __init__(self, c: int, classes: int) -> None:
        super().__init__()
        self.norm, self.layer = nn.LayerNorm(c), nn.Linear(c, classes)

    def forward(self, x: torch.Tensor) -> Any:
        return self.layer(self.norm(x.mean((2, 3))))


class LanguageModel(nn.Module):
    """Words, a block, and the loss of the next word."""

    def __init__(self, classes: int, d: int, t: int, heads: int) -> None:
        super().__init__()
        self.words, self.position = nn.Embedding(classes, d), nn.Embedding(t, d)
        self.block, self.norm = Transformer(d, heads), nn.LayerNorm(d)
        self.out = nn.Linear(d, classes, bias=False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.words(ids) + self.position(torch.arange(ids.shape[1], device=ids.device))
        scores = self.out(self.norm(self.block(x)))
        return F.cross_entropy(scores[:, :-1].flatten(0, 1), ids[:, 1:].flatten())


class StateSpace(nn.Module):
    """Decaying sums of what came before, by a cumulative sum: a linear recurrence with one factor."""

    def __init__(self, d: int) -> None:
        super().__init__()
        self.decay, self.gate = nn.Parameter(torch.rand(d) * 0.1), nn.Linear(d, d)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        steps = torch.arange(x.shape[1], dtype=x.dtype, device=x.device)[:, None] * self.decay
        return torch.cumsum(x * steps.exp(), 1) * (-steps).exp() * torch.sigmoid(self.gate(x))


def attention_cached(s: Sizes) -> Made:
    cache = (s.b, s.heads, s.t, s.d // s.heads)
    return CachedAttention(s.d, s.heads), (torch.randn(s.b, s.d), torch.randn(cache), torch.randn(cache))


def attention_across(s: Sizes) -> Made:
    mask = torch.rand(s.b, s.t) > 0.6
    mask[:, 0] = False
    return CrossAttention(s.d, s.heads), (words(s), words(s), mask)


BY_FORMULA: dict[str, Make] = {
    "attention": lambda s: (Attention(s.d, s.heads, False), (words(s),)),
    "attention_causal": lambda s: (Attention(s.d, s.heads, True), (words(s),)),
    "mlp": lambda s: (Mlp(s.d), (words(s),)),
    "swiglu": lambda s: (SwiGlu(s.d), (words(s),)),
    "transformer": lambda s: (Transformer(s.d, s.heads), (words(s),)),
    "llama": lambda s: (Llama(s.d, s.heads), (words(s),)),
    "residual_training": lambda s: (Residual(s.c), (image(s),)),
    "residual_inference": lambda s: (Residual(s.c).eval(), (image(s),)),
    "bottleneck": lambda s: (Bottleneck(s.c), (image(s),)),
    "squeeze_excite": lambda s: (SqueezeExcite(s.c), (image(s),)),
    "inverted_residual": lambda s: (InvertedResidual(s.c).eval(), (image(s),)),
    "convnext": lambda s: (ConvNext(s.c), (image(s),)),
    "gru_cell": lambda s: (GruCell(s.d), (torch.randn(s.b, s.d), torch.randn(s.b, s.d))),
    "gru": lambda s: (Gru(s.d), (words(s),)),
    "lstm_cell": lambda s: (LstmCell(s.d), (torch.randn(s.b, s.d), torch.randn(s.b, s.d), torch.randn(s.b, s.d))),
    "experts": lambda s: (Experts(s.d // 4, 4), (torch.randn(s.b, s.t, s.d // 4),)),
    "experts_top_two": lambda s: (TopTwo(s.d // 4, 4), (torch.randn(s.b, s.t, s.d // 4),)),
    "vision_patches": lambda s: (VisionPatches(s), (image(s),)),
    "classifier": lambda s: (Classifier(s.c, s.classes), (image(s),)),
    "language_model": lambda s: (
        LanguageModel(s.classes, s.d, s.t, s.heads),
        (torch.randint(0, s.classes, (s.b, s.t)),),
    ),
    "state_space": lambda s: (StateSpace(s.d), (words(s),)),
}
CASES = cases(
    BY_FORMULA, attention_cached, attention_across,
)  # fmt: skip
