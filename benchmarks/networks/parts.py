"""Twenty problems of the kind of KernelBench's level 3: parts of architectures, at sizes for a CPU."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from networks.chains import Net, randn
from networks.models import RMSNorm


def _fire(m: Any, x: Tensor) -> Tensor:
    x = F.relu(m.squeeze(x))
    return torch.cat([F.relu(m.one(x)), F.relu(m.three(x))], 1)


def _inception(m: Any, x: Tensor) -> Tensor:
    return torch.cat([m.b1(x), m.b3(x), m.b5(x), m.bp(x)], 1)


def _dense(m: Any, x: Tensor) -> Tensor:
    kept = [x]
    for layer in m.layers:
        kept.append(layer(torch.cat(kept, 1)))
    return torch.cat(kept, 1)


def _dense_layer(c: int, growth: int) -> nn.Sequential:
    return nn.Sequential(nn.BatchNorm2d(c), nn.ReLU(), nn.Conv2d(c, growth, 3, padding=1, bias=False))


def _shuffle_unit(m: Any, x: Tensor) -> Tensor:
    b, c, h, w = x.shape
    a, y = x.chunk(2, 1)
    y = m.branch(y)
    return torch.cat([a, y], 1).view(b, 2, c // 2, h, w).transpose(1, 2).reshape(b, c, h, w)


def _mbconv(m: Any, x: Tensor) -> Tensor:
    y = m.expand(x)
    y = F.silu(m.n2(m.deep(F.silu(m.n1(y)))))
    y = y * torch.sigmoid(m.up(F.silu(m.down(y.mean((2, 3), keepdim=True)))))
    return x + m.n3(m.project(y))


def _convnext(m: Any, x: Tensor) -> Tensor:
    y = m.norm(m.deep(x).permute(0, 2, 3, 1))
    return x + (m.gamma * m.down(F.gelu(m.up(y)))).permute(0, 3, 1, 2)


def _swin(m: Any, x: Tensor) -> Tensor:
    b, h, w, c = x.shape
    y = torch.roll(m.norm(x), (-2, -2), (1, 2))
    y = y.view(b, h // 4, 4, w // 4, 4, c).permute(0, 1, 3, 2, 4, 5).reshape(-1, 16, c)
    q, k, v = m.qkv(y).view(-1, 16, 3, 4, c // 4).permute(2, 0, 3, 1, 4)
    a = torch.softmax(q @ k.transpose(-2, -1) * (c // 4) ** -0.5 + m.bias, -1)
    y = m.proj((a @ v).transpose(1, 2).reshape(-1, 16, c))
    y = y.view(b, h // 4, w // 4, 4, 4, c).permute(0, 1, 3, 2, 4, 5).reshape(b, h, w, c)
    return x + torch.roll(y, (2, 2), (1, 2))


def _netvlad(m: Any, x: Tensor) -> Tensor:
    b, n, d = x.shape
    a = torch.softmax(m.norm(x.view(-1, d) @ m.clusters), 1).view(b, n, -1)
    vlad = torch.bmm(a.transpose(1, 2), x) - a.sum(1).unsqueeze(-1) * m.centers
    vlad = F.normalize(vlad, dim=2)
    return F.normalize(vlad.reshape(b, -1), dim=1)


def _gated_attention(m: Any, x: Tensor) -> Tensor:
    _, t, d = x.shape
    att = torch.einsum("btd,bsd->bts", m.q(x), m.k(x)) / d**0.5
    att = F.relu(att.masked_fill(m.mask[:t, :t] == 0, float("-inf")))
    return torch.einsum("bts,bsd->btd", att, m.v(x))


def _mixture(m: Any, x: Tensor) -> Tensor:
    gates = torch.softmax(m.gate(x), -1)
    best, which = gates.topk(2, -1)
    best = best / best.sum(-1, keepdim=True)
    weights = torch.zeros_like(gates).scatter(-1, which, best)
    y = torch.einsum("nd,edh->neh", x, m.up)
    y = torch.einsum("neh,ehd->ned", F.silu(y), m.down)
    return (weights.unsqueeze(-1) * y).sum(1)


def _linear_attention(m: Any, x: Tensor) -> Tensor:
    b, t, _ = x.shape
    q, k, v = (p.view(b, t, 4, -1).transpose(1, 2) for p in m.qkv(x).chunk(3, -1))
    q, k = F.elu(q) + 1, F.elu(k) + 1
    kv = torch.cumsum(k.unsqueeze(-1) * v.unsqueeze(-2), dim=2)
    y = torch.einsum("bhtd,bhtde->bhte", q, kv) / (q * torch.cumsum(k, 2)).sum(-1, keepdim=True)
    return m.out(y.transpose(1, 2).reshape(b, t, -1))


def _segsum_mamba(m: Any, x: Tensor, b: Tensor, c: Tensor, a: Tensor) -> Tensor:
    total = torch.cumsum(a, -1)
    decay = torch.exp((total[..., :, None] - total[..., None, :]).masked_fill(~m.lower, float("-inf")))
    return torch.einsum("bhls,bhln,bhsn,bhsp->bhlp", decay, c, b, x)


def _gru_language(m: Any, ids: Tensor) -> Any:
    return m.head(m.gru(m.embed(ids))[0])


def _vgg_head(m: Any, x: Tensor) -> Any:
    return m.layers(torch.flatten(m.features(x), 1))


def _deep_residual_mlp(m: Any, x: Tensor) -> Tensor:
    for norm, up, down in zip(m.norms, m.ups, m.downs, strict=True):
        x = x + down(F.gelu(up(norm(x)), approximate="tanh"))
    return x


def _vae(m: Any, x: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
    mean, log = m.encoder(x).chunk(2, 1)
    y = torch.sigmoid(m.decoder(mean + torch.exp(0.5 * log) * noise))
    kl = -0.5 * torch.mean(torch.sum(1 + log - mean.pow(2) - log.exp(), 1))
    return y, F.binary_cross_entropy(y, torch.sigmoid(x)) + kl


def _cross_attention_block(m: Any, x: Tensor, context: Tensor) -> Tensor:
    y, _ = m.attention(m.norm(x), context, context)
    x = x + y
    a, g = m.up(m.last(x)).chunk(2, -1)
    return x + m.down(a * F.gelu(g))


def _film_decoder(m: Any, x: Tensor, style: Tensor) -> Tensor:
    scale, shift = m.style(style).chunk(2, -1)
    x = F.interpolate(m.conv(x), scale_factor=2, mode="nearest")
    x = F.instance_norm(x) * (1 + scale[..., None, None]) + shift[..., None, None]
    return torch.tanh(m.out(F.leaky_relu(x, 0.2)))


def _time_embedding(m: Any, t: Tensor) -> Any:
    at = torch.exp(-9.21 * torch.arange(64) / 64)
    a = t[:, None].float() * at[None]
    return m.down(F.silu(m.up(torch.cat([a.cos(), a.sin()], -1))))


def _contrastive(m: Any, a: Tensor, b: Tensor) -> Tensor:
    a, b = F.normalize(m.left(a), dim=-1), F.normalize(m.right(b), dim=-1)
    logits = m.scale.exp() * a @ b.t()
    labels = torch.arange(a.shape[0])
    return (F.cross_entropy(logits, labels) + F.cross_entropy(logits.t(), labels)) / 2


def _unit(c_in: int, c_out: int, k: int) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(c_in, c_out, k, padding=k // 2), nn.ReLU())


def _shuffle_branch(c: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(c, c, 1, bias=False), nn.BatchNorm2d(c), nn.ReLU(),
        nn.Conv2d(c, c, 3, padding=1, groups=c, bias=False), nn.BatchNorm2d(c),
        nn.Conv2d(c, c, 1, bias=False), nn.BatchNorm2d(c), nn.ReLU(),
    )  # fmt: skip


def _causal(t: int) -> Tensor:
    return torch.tril(torch.ones(t, t))


class _Masked(Net):
    """A net with a mask that is no parameter."""

    def __init__(self, forward: Any, mask: Tensor, lower: Tensor, **layers: nn.Module | Tensor) -> None:
        super().__init__(forward, **layers)
        self.register_buffer("mask", mask)
        self.register_buffer("lower", lower)


PROBLEMS: dict[str, Any] = {
    "fire_module": lambda: (
        Net(_fire, squeeze=nn.Conv2d(64, 16, 1), one=nn.Conv2d(16, 64, 1), three=nn.Conv2d(16, 64, 3, padding=1)),
        (randn(4, 64, 28, 28),)),
    "inception_module": lambda: (
        Net(_inception, b1=nn.Conv2d(64, 32, 1),
            b3=nn.Sequential(_unit(64, 24, 1), nn.Conv2d(24, 48, 3, padding=1)),
            b5=nn.Sequential(_unit(64, 8, 1), nn.Conv2d(8, 16, 5, padding=2)),
            bp=nn.Sequential(nn.MaxPool2d(3, 1, 1), nn.Conv2d(64, 16, 1))), (randn(4, 64, 28, 28),)),
    "dense_block": lambda: (
        Net(_dense, layers=nn.ModuleList(_dense_layer(32 + 16 * i, 16) for i in range(4))),
        (randn(4, 32, 28, 28),)),
    "shuffle_unit": lambda: (Net(_shuffle_unit, branch=_shuffle_branch(58)), (randn(4, 116, 28, 28),)),
    "mbconv": lambda: (
        Net(_mbconv, expand=nn.Conv2d(24, 144, 1, bias=False), n1=nn.BatchNorm2d(144),
            deep=nn.Conv2d(144, 144, 3, padding=1, groups=144, bias=False), n2=nn.BatchNorm2d(144),
            down=nn.Conv2d(144, 6, 1), up=nn.Conv2d(6, 144, 1), project=nn.Conv2d(144, 24, 1, bias=False),
            n3=nn.BatchNorm2d(24)), (randn(4, 24, 28, 28),)),
    "convnext_block": lambda: (
        Net(_convnext, deep=nn.Conv2d(64, 64, 7, padding=3, groups=64), norm=nn.LayerNorm(64),
            up=nn.Linear(64, 256), down=nn.Linear(256, 64),
            gamma=torch.full((64,), 1e-6)), (randn(4, 64, 28, 28),)),
    "swin_block": lambda: (
        Net(_swin, norm=nn.LayerNorm(96), qkv=nn.Linear(96, 288), proj=nn.Linear(96, 96), bias=randn(4, 16, 16)),
        (randn(4, 16, 16, 96),)),
    "netvlad": lambda: (
        Net(_netvlad, clusters=randn(128, 32), norm=nn.BatchNorm1d(32), centers=randn(32, 128)),
        (randn(8, 100, 128),)),
    "relu_attention": lambda: (
        _Masked(_gated_attention, _causal(128), _causal(128) > 0, q=nn.Linear(128, 128), k=nn.Linear(128, 128),
                v=nn.Linear(128, 128)), (randn(4, 128, 128),)),
    "mixture_of_experts": lambda: (
        Net(_mixture, gate=nn.Linear(128, 8), up=randn(8, 128, 256) * 0.1, down=randn(8, 256, 128) * 0.1),
        (randn(128, 128),)),
    "linear_attention": lambda: (
        Net(_linear_attention, qkv=nn.Linear(128, 384), out=nn.Linear(128, 128)), (randn(2, 128, 128),)),
    "mamba2_chunk": lambda: (
        _Masked(_segsum_mamba, _causal(64), _causal(64) > 0), (randn(2, 4, 64, 32), randn(2, 4, 64, 16),
                                                                 randn(2, 4, 64, 16), -torch.rand(2, 4, 64))),
    "gru_language": lambda: (
        Net(_gru_language, embed=nn.Embedding(1000, 128),
            gru=nn.GRU(128, 128, bidirectional=True, batch_first=True),
            head=nn.Linear(256, 100)),
        (torch.randint(0, 1000, (8, 64)),)),
    "vgg_head": lambda: (
        Net(_vgg_head, features=nn.Sequential(_unit(3, 32, 3), _unit(32, 32, 3), nn.MaxPool2d(2), _unit(32, 64, 3),
                                              nn.MaxPool2d(2)),
            layers=nn.Sequential(nn.Linear(4096, 256), nn.ReLU(), nn.Dropout(0.0), nn.Linear(256, 10))),
        (randn(8, 3, 32, 32),)),
    "residual_mlp": lambda: (
        Net(_deep_residual_mlp, norms=nn.ModuleList(nn.LayerNorm(256) for _ in range(3)),
            ups=nn.ModuleList(nn.Linear(256, 512) for _ in range(3)),
            downs=nn.ModuleList(nn.Linear(512, 256) for _ in range(3))), (randn(128, 256),)),
    "vae": lambda: (
        Net(_vae, encoder=nn.Sequential(nn.Linear(784, 400), nn.ReLU(), nn.Linear(400, 40)),
            decoder=nn.Sequential(nn.Linear(20, 400), nn.ReLU(), nn.Linear(400, 784))),
        (randn(128, 784), randn(128, 20))),
    "cross_attention_block": lambda: (
        Net(_cross_attention_block, attention=nn.MultiheadAttention(128, 4, batch_first=True),
            norm=nn.LayerNorm(128), last=RMSNorm(128),
            up=nn.Linear(128, 1024), down=nn.Linear(512, 128)),
        (randn(4, 64, 128), randn(4, 77, 128))),
    "film_decoder": lambda: (
        Net(_film_decoder, conv=nn.Conv2d(32, 32, 3, padding=1), style=nn.Linear(64, 64),
            out=nn.Conv2d(32, 3, 3, padding=1)), (randn(4, 32, 24, 24), randn(4, 64))),
    "time_embedding": lambda: (
        Net(_time_embedding, up=nn.Linear(128, 512), down=nn.Linear(512, 512)), (torch.randint(0, 1000, (64,)),)),
    "contrastive_loss": lambda: (
        Net(_contrastive, left=nn.Linear(256, 128), right=nn.Linear(192, 128), scale=torch.tensor(2.6)),
        (randn(128, 256), randn(128, 192))),
}  # fmt: skip
