"""Networks of the widths that people run on a GPU, in bf16, two layers each: what a model is made of, at its size.

Written on December 1, 2026, before they were first timed; they are never edited for what dojoir can do.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from networks.models import EncoderLayer, ResNet18, RMSNorm, T5Attention, UNet


def _heads(x: Tensor, heads: int) -> Tensor:
    return x.view(x.shape[0], x.shape[1], heads, -1).transpose(1, 2)


def _joined(x: Tensor) -> Tensor:
    return x.transpose(1, 2).reshape(x.shape[0], x.shape[2], -1)


class Encoder(nn.Module):
    """BERT's layers over embedded tokens, with a mask of keys where one is given."""

    def __init__(self, d: int, heads: int, layers: int, before: bool = False) -> None:
        super().__init__()
        self.layers = nn.ModuleList(EncoderLayer(d, heads, before) for _ in range(layers))

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        keep = None if mask is None else mask[:, None, None, :]
        for layer in self.layers:
            x = layer(x, keep)
        return x


class Vit(nn.Module):
    def __init__(self, d: int = 768, heads: int = 12, layers: int = 2) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, d, 16, 16)
        self.first, self.places = nn.Parameter(torch.randn(1, 1, d)), nn.Parameter(torch.randn(1, 197, d))
        self.encoder, self.norm, self.head = Encoder(d, heads, layers, True), nn.LayerNorm(d), nn.Linear(d, 1000)

    def forward(self, x: Tensor) -> Any:
        y = self.patches(x).flatten(2).transpose(1, 2)
        y = torch.cat([self.first.expand(len(x), -1, -1), y], dim=1) + self.places
        return self.head(self.norm(self.encoder(y))[:, 0])


class GptLayer(nn.Module):
    def __init__(self, d: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.o = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.up, self.down = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (_heads(p, self.heads) for p in self.qkv(self.n1(x)).chunk(3, dim=-1))
        x = x + self.o(_joined(F.scaled_dot_product_attention(q, k, v, is_causal=True)))
        made: Tensor = x + self.down(F.gelu(self.up(self.n2(x)), approximate="tanh"))
        return made


class Gpt(nn.Module):
    def __init__(self, d: int = 768, heads: int = 12, layers: int = 2, words: int = 50304) -> None:
        super().__init__()
        self.embed, self.places = nn.Embedding(words, d), nn.Embedding(1024, d)
        self.layers = nn.Sequential(*(GptLayer(d, heads) for _ in range(layers)))
        self.norm = nn.LayerNorm(d)

    def forward(self, ids: Tensor) -> Any:
        x = self.embed(ids) + self.places(torch.arange(ids.shape[1], device=ids.device))
        return F.linear(self.norm(self.layers(x)), self.embed.weight)


def _rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    a, b = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-b, a), dim=-1) * sin


class LlamaLayer(nn.Module):
    """Grouped heads of 64, gated MLP; with caches it reads the keys and values that there are."""

    def __init__(self, d: int, heads: int, kv: int, inner: int) -> None:
        super().__init__()
        self.heads, self.kv = heads, kv
        self.q, self.o = nn.Linear(d, d, bias=False), nn.Linear(d, d, bias=False)
        self.k, self.v = (nn.Linear(d, d * kv // heads, bias=False) for _ in range(2))
        self.gate, self.up = nn.Linear(d, inner, bias=False), nn.Linear(d, inner, bias=False)
        self.down, self.n1, self.n2 = nn.Linear(inner, d, bias=False), RMSNorm(d), RMSNorm(d)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, cache: tuple[Tensor, Tensor] | None = None) -> Tensor:
        y = self.n1(x)
        q, k, v = _heads(self.q(y), self.heads), _heads(self.k(y), self.kv), _heads(self.v(y), self.kv)
        q, k = _rotated(q, cos, sin), _rotated(k, cos, sin)
        if cache is not None:
            k, v = torch.cat([cache[0], k], dim=2), torch.cat([cache[1], v], dim=2)
        k, v = (p.repeat_interleave(self.heads // self.kv, dim=1) for p in (k, v))
        x = x + self.o(_joined(F.scaled_dot_product_attention(q, k, v, is_causal=cache is None)))
        y = self.n2(x)
        made: Tensor = x + self.down(F.silu(self.gate(y)) * self.up(y))
        return made


class Llama(nn.Module):
    def __init__(self, d: int = 2048, layers: int = 2, words: int = 32000) -> None:
        super().__init__()
        self.embed = nn.Embedding(words, d)
        self.layers = nn.ModuleList(LlamaLayer(d, 32, 8, 5632) for _ in range(layers))
        self.norm, self.head = RMSNorm(d), nn.Linear(d, words, bias=False)
        self.register_buffer("inv", 1.0 / (10000 ** (torch.arange(0, 64, 2).float() / 64)))

    def forward(self, ids: Tensor, *caches: Tensor) -> Any:
        x = self.embed(ids)
        start = caches[0].shape[2] if caches else 0
        at = torch.arange(start, start + ids.shape[1], device=ids.device).float()
        angles = torch.outer(at, self.get_buffer("inv").float())
        angles = torch.cat((angles, angles), dim=-1)
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        for i, layer in enumerate(self.layers):
            x = layer(x, cos, sin, (caches[2 * i], caches[2 * i + 1]) if caches else None)
        return self.head(self.norm(x))


class ConvNext(nn.Module):
    def __init__(self, c: int) -> None:
        super().__init__()
        self.deep, self.norm = nn.Conv2d(c, c, 7, padding=3, groups=c), nn.LayerNorm(c)
        self.up, self.down = nn.Linear(c, 4 * c), nn.Linear(4 * c, c)
        self.scale = nn.Parameter(torch.randn(c))

    def forward(self, x: Tensor) -> Tensor:
        y = self.deep(x).permute(0, 2, 3, 1)
        y = self.scale * self.down(F.gelu(self.up(self.norm(y))))
        return x + y.permute(0, 3, 1, 2)


class DitBlock(nn.Module):
    """A block of a diffusion transformer: scales and shifts of each sample come from its condition."""

    def __init__(self, d: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.n1, self.n2 = (nn.LayerNorm(d, elementwise_affine=False) for _ in range(2))
        self.qkv, self.o, self.told = nn.Linear(d, 3 * d), nn.Linear(d, d), nn.Linear(d, 6 * d)
        self.up, self.down = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def forward(self, x: Tensor, told: Tensor) -> Tensor:
        s1, b1, g1, s2, b2, g2 = self.told(F.silu(told)).unsqueeze(1).chunk(6, dim=-1)
        y = self.n1(x) * (1 + s1) + b1
        q, k, v = (_heads(p, self.heads) for p in self.qkv(y).chunk(3, dim=-1))
        x = x + g1 * self.o(_joined(F.scaled_dot_product_attention(q, k, v)))
        y = self.n2(x) * (1 + s2) + b2
        made: Tensor = x + g2 * self.down(F.gelu(self.up(y), approximate="tanh"))
        return made


class Experts(nn.Module):
    """The two best of eight experts, each of which sees every token: what is not chosen is weighed by 0."""

    def __init__(self, d: int, inner: int) -> None:
        super().__init__()
        self.router = nn.Linear(d, 8, bias=False)
        self.up, self.down = (
            nn.Parameter(torch.randn(8, d, inner) / d**0.5),
            nn.Parameter(torch.randn(8, inner, d) / d**0.5),
        )

    def forward(self, x: Tensor) -> Tensor:
        best, which = F.softmax(self.router(x), dim=-1).topk(2, dim=-1)
        weights = torch.zeros_like(self.router(x)).scatter(-1, which, best)
        y = F.silu(torch.einsum("td,edf->etf", x, self.up))
        return torch.einsum("etf,efd,te->td", y, self.down, weights)


class Mixer(nn.Module):
    def __init__(self, tokens: int, d: int) -> None:
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.up, self.down = nn.Linear(tokens, 256), nn.Linear(256, tokens)
        self.wide, self.back = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.down(F.gelu(self.up(self.n1(x).transpose(1, 2)))).transpose(1, 2)
        made: Tensor = x + self.back(F.gelu(self.wide(self.n2(x))))
        return made


class T5Layer(nn.Module):
    def __init__(self, d: int) -> None:
        super().__init__()
        self.attention, self.n1, self.n2 = T5Attention(d, 8, False), RMSNorm(d), RMSNorm(d)
        self.up, self.down = nn.Linear(d, 4 * d, bias=False), nn.Linear(4 * d, d, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        y = self.n1(x)
        x = x + self.attention(y, y)
        made: Tensor = x + self.down(F.relu(self.up(self.n2(x))))
        return made


class ClipLoss(nn.Module):
    def forward(self, a: Tensor, b: Tensor) -> Any:
        scores = 20.0 * F.normalize(a, dim=-1) @ F.normalize(b, dim=-1).T
        right = torch.arange(len(a), device=a.device)
        return (F.cross_entropy(scores, right) + F.cross_entropy(scores.T, right)) / 2


def _ids(words: int, b: int, t: int) -> Tensor:
    return torch.randint(0, words, (b, t))


def _cache() -> tuple[Tensor, ...]:
    return tuple(torch.randn(4, 8, 2047, 64) for _ in range(4))


WIDE: dict[str, Any] = {
    "bert_base": lambda: (Encoder(768, 12, 2), (torch.randn(8, 512, 768), torch.rand(8, 512) < 0.9)),
    "gpt2_small": lambda: (Gpt(), (_ids(50304, 4, 1024),)),
    "llama_1b": lambda: (Llama(), (_ids(32000, 1, 2048),)),
    "llama_1b_decode": lambda: (Llama(), (_ids(32000, 4, 1), *_cache())),
    "vit_base": lambda: (Vit(), (torch.randn(16, 3, 224, 224),)),
    "whisper_base": lambda: (Encoder(512, 8, 2, True), (torch.randn(4, 1500, 512),)),
    "t5_small": lambda: (nn.Sequential(T5Layer(512), T5Layer(512)), (torch.randn(8, 512, 512),)),
    "dit_xl": lambda: (DitBlock(1152, 16), (torch.randn(8, 256, 1152), torch.randn(8, 1152))),
    "mixer": lambda: (nn.Sequential(Mixer(196, 512), Mixer(196, 512)), (torch.randn(32, 196, 512),)),
    "experts": lambda: (Experts(1024, 2048), (torch.randn(2048, 1024),)),
    "clip_loss": lambda: (ClipLoss(), (torch.randn(4096, 512), torch.randn(4096, 512))),
    "resnet18_224": lambda: (ResNet18(1000), (torch.randn(16, 3, 224, 224),)),
    "convnext": lambda: (nn.Sequential(ConvNext(128), ConvNext(128)), (torch.randn(16, 128, 56, 56),)),
    "unet_128": lambda: (UNet(32), (torch.randn(4, 3, 128, 128),)),
}
