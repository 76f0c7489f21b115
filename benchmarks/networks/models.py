"""Eleven models in small configurations, each as its paper or its best-known code has it."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class BasicBlock(nn.Module):
    def __init__(self, c_in: int, c_out: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(c_in, c_out, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(c_out)
        self.conv2 = nn.Conv2d(c_out, c_out, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(c_out)
        self.downsample = None
        if stride != 1 or c_in != c_out:
            self.downsample = nn.Sequential(nn.Conv2d(c_in, c_out, 1, stride, bias=False), nn.BatchNorm2d(c_out))

    def forward(self, x: Tensor) -> Tensor:
        kept = x if self.downsample is None else self.downsample(x)
        x = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(x)) + kept)


class ResNet18(nn.Module):
    def __init__(self, classes: int = 100) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        blocks: list[nn.Module] = []
        c = 64
        for width, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
            blocks += [BasicBlock(c, width, stride), BasicBlock(width, width, 1)]
            c = width
        self.layers = nn.Sequential(*blocks)
        self.fc = nn.Linear(512, classes)

    def forward(self, x: Tensor) -> Any:
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 3, 2, 1)
        x = F.adaptive_avg_pool2d(self.layers(x), 1)
        return self.fc(torch.flatten(x, 1))


class EncoderLayer(nn.Module):
    """A layer of an encoder, with the norms before (ViT, Whisper) or after (BERT) what they are for."""

    def __init__(self, d: int, heads: int, before: bool) -> None:
        super().__init__()
        self.heads, self.before = heads, before
        self.q, self.k, self.v, self.o = (nn.Linear(d, d) for _ in range(4))
        self.up, self.down = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)

    def attend(self, x: Tensor, mask: Tensor | None) -> Any:
        b, t, d = x.shape
        q, k, v = (p(x).view(b, t, self.heads, -1).transpose(1, 2) for p in (self.q, self.k, self.v))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.o(y.transpose(1, 2).reshape(b, t, d))

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        if self.before:
            x = x + self.attend(self.n1(x), mask)
            return x + self.down(F.gelu(self.up(self.n2(x))))
        x = self.n1(x + self.attend(x, mask))
        y: Tensor = self.n2(x + self.down(F.gelu(self.up(x))))
        return y


class ViT(nn.Module):
    def __init__(self, d: int = 192, layers: int = 6, patch: int = 8, side: int = 64) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, d, patch, patch)
        self.cls = nn.Parameter(torch.randn(1, 1, d) * 0.02)
        self.pos = nn.Parameter(torch.randn(1, (side // patch) ** 2 + 1, d) * 0.02)
        self.layers = nn.ModuleList(EncoderLayer(d, 3, True) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(d), nn.Linear(d, 100)

    def forward(self, x: Tensor) -> Any:
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls.expand(x.shape[0], -1, -1), x], dim=1) + self.pos
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x)[:, 0])


class Bert(nn.Module):
    def __init__(self, words: int = 2000, d: int = 256, layers: int = 4) -> None:
        super().__init__()
        self.word, self.place, self.kind = nn.Embedding(words, d), nn.Embedding(512, d), nn.Embedding(2, d)
        self.norm = nn.LayerNorm(d)
        self.layers = nn.ModuleList(EncoderLayer(d, 4, False) for _ in range(layers))
        self.pooler, self.classifier = nn.Linear(d, d), nn.Linear(d, 3)

    def forward(self, ids: Tensor, kinds: Tensor, mask: Tensor) -> Any:
        at = torch.arange(ids.shape[1], device=ids.device)
        x = self.norm(self.word(ids) + self.place(at) + self.kind(kinds))
        bias = (1.0 - mask[:, None, None, :].to(x.dtype)) * -1e9
        for layer in self.layers:
            x = layer(x, bias)
        return self.classifier(torch.tanh(self.pooler(x[:, 0])))


class Gpt2Block(nn.Module):
    def __init__(self, d: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.c_attn, self.c_proj = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.c_fc, self.c_out = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x: Tensor) -> Tensor:
        b, t, d = x.shape
        q, k, v = self.c_attn(self.ln_1(x)).split(d, dim=2)
        q, k, v = (p.view(b, t, self.heads, d // self.heads).transpose(1, 2) for p in (q, k, v))
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        att = att.masked_fill(torch.ones(t, t, dtype=torch.bool, device=x.device).tril() == 0, float("-inf"))
        y = self.dropout(F.softmax(att, dim=-1)) @ v
        x = x + self.dropout(self.c_proj(y.transpose(1, 2).contiguous().view(b, t, d)))
        z = self.c_fc(self.ln_2(x))
        z = 0.5 * z * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (z + 0.044715 * torch.pow(z, 3.0))))
        return x + self.dropout(self.c_out(z))


class Gpt2(nn.Module):
    """Logits and the loss of the next words; the head's weights are those of the embedding."""

    def __init__(self, words: int = 2000, d: int = 256, layers: int = 4) -> None:
        super().__init__()
        self.wte, self.wpe = nn.Embedding(words, d), nn.Embedding(256, d)
        self.blocks = nn.ModuleList(Gpt2Block(d, 4) for _ in range(layers))
        self.ln_f, self.head = nn.LayerNorm(d), nn.Linear(d, words, bias=False)
        self.head.weight = self.wte.weight

    def forward(self, ids: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        x = self.wte(ids) + self.wpe(torch.arange(ids.shape[1], device=ids.device))
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.ln_f(x))
        return logits, F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1), ignore_index=-100)


class RMSNorm(nn.Module):
    def __init__(self, d: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(d)), eps

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight


def _rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    half = x.shape[-1] // 2
    turned = torch.cat((-x[..., half:], x[..., :half]), dim=-1)
    return x * cos + turned * sin


class LlamaLayer(nn.Module):
    def __init__(self, d: int, heads: int, kv: int) -> None:
        super().__init__()
        self.heads, self.kv, self.size = heads, kv, d // heads
        self.q, self.o = nn.Linear(d, d, bias=False), nn.Linear(d, d, bias=False)
        self.k, self.v = (nn.Linear(d, kv * self.size, bias=False) for _ in range(2))
        self.gate, self.up = (nn.Linear(d, 688, bias=False) for _ in range(2))
        self.down = nn.Linear(688, d, bias=False)
        self.n1, self.n2 = RMSNorm(d), RMSNorm(d)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        b, t, d = x.shape
        y = self.n1(x)
        q = self.q(y).view(b, t, self.heads, self.size).transpose(1, 2)
        k = self.k(y).view(b, t, self.kv, self.size).transpose(1, 2)
        v = self.v(y).view(b, t, self.kv, self.size).transpose(1, 2)
        q, k = _rotated(q, cos, sin), _rotated(k, cos, sin)
        k, v = (p.repeat_interleave(self.heads // self.kv, dim=1) for p in (k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.o(y.transpose(1, 2).reshape(b, t, d))
        y = self.n2(x)
        made: Tensor = x + self.down(F.silu(self.gate(y)) * self.up(y))
        return made


class Llama(nn.Module):
    def __init__(self, words: int = 2000, d: int = 256, layers: int = 4) -> None:
        super().__init__()
        self.embed = nn.Embedding(words, d)
        self.layers = nn.ModuleList(LlamaLayer(d, 8, 2) for _ in range(layers))
        self.norm, self.head = RMSNorm(d), nn.Linear(d, words, bias=False)
        self.register_buffer("inv", 1.0 / (10000 ** (torch.arange(0, d // 8, 2).float() / (d // 8))))

    def forward(self, ids: Tensor) -> Any:
        x = self.embed(ids)
        angles = torch.outer(torch.arange(ids.shape[1], device=ids.device).float(), self.get_buffer("inv"))
        angles = torch.cat((angles, angles), dim=-1)
        cos, sin = angles.cos(), angles.sin()
        for layer in self.layers:
            x = layer(x, cos, sin)
        return self.head(self.norm(x))


class MambaBlock(nn.Module):
    """A selective scan, step by step in time, as the reference code has it."""

    def __init__(self, d: int, inner: int, state: int = 16, rank: int = 8) -> None:
        super().__init__()
        self.inner, self.state, self.rank = inner, state, rank
        self.norm = RMSNorm(d)
        self.in_proj = nn.Linear(d, 2 * inner, bias=False)
        self.conv = nn.Conv1d(inner, inner, 4, groups=inner, padding=3)
        self.x_proj = nn.Linear(inner, rank + 2 * state, bias=False)
        self.dt_proj = nn.Linear(rank, inner)
        self.a_log = nn.Parameter(torch.log(torch.arange(1, state + 1).float().repeat(inner, 1)))
        self.skip = nn.Parameter(torch.ones(inner))
        self.out_proj = nn.Linear(inner, d, bias=False)

    def forward(self, given: Tensor) -> Tensor:
        t = given.shape[1]
        x, z = self.in_proj(self.norm(given)).chunk(2, dim=-1)
        x = F.silu(self.conv(x.transpose(1, 2))[..., :t].transpose(1, 2))
        dt, b, c = self.x_proj(x).split([self.rank, self.state, self.state], dim=-1)
        dt = F.softplus(self.dt_proj(dt))
        decay = torch.exp(dt.unsqueeze(-1) * -torch.exp(self.a_log))
        put = (dt * x).unsqueeze(-1) * b.unsqueeze(2)
        h = torch.zeros_like(decay[:, 0])
        ys = []
        for i in range(t):
            h = decay[:, i] * h + put[:, i]
            ys.append((h * c[:, i].unsqueeze(1)).sum(-1))
        y = torch.stack(ys, dim=1) + x * self.skip
        made: Tensor = given + self.out_proj(y * F.silu(z))
        return made


class Mamba(nn.Module):
    def __init__(self, words: int = 1000, d: int = 128, layers: int = 2) -> None:
        super().__init__()
        self.embed = nn.Embedding(words, d)
        self.layers = nn.Sequential(*(MambaBlock(d, 2 * d) for _ in range(layers)))
        self.norm, self.head = RMSNorm(d), nn.Linear(d, words, bias=False)

    def forward(self, ids: Tensor) -> Any:
        return self.head(self.norm(self.layers(self.embed(ids))))


class T5Attention(nn.Module):
    """Attention with a bias by distance, without a scale."""

    def __init__(self, d: int, heads: int, causal: bool) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.q, self.k, self.v, self.o = (nn.Linear(d, d, bias=False) for _ in range(4))
        self.bias = nn.Embedding(32, heads)

    def forward(self, x: Tensor, other: Tensor) -> Any:
        b, t, d = x.shape
        q, k, v = (
            p(y).view(b, -1, self.heads, d // self.heads).transpose(1, 2)
            for p, y in ((self.q, x), (self.k, other), (self.v, other))
        )
        scores = torch.matmul(q, k.transpose(3, 2))
        far = torch.arange(k.shape[2], device=x.device)[None, :] - torch.arange(t, device=x.device)[:, None]
        scores = scores + self.bias(far.clamp(-16, 15) + 16).permute(2, 0, 1).unsqueeze(0)
        if self.causal:
            scores = scores + torch.full((t, t), float("-inf"), device=x.device).triu(1)
        y = torch.matmul(F.softmax(scores.float(), dim=-1).type_as(scores), v)
        return self.o(y.transpose(1, 2).contiguous().view(b, t, d))


class T5Layer(nn.Module):
    def __init__(self, d: int, decodes: bool) -> None:
        super().__init__()
        self.own = T5Attention(d, 4, decodes)
        self.across = T5Attention(d, 4, False) if decodes else None
        self.wi, self.wo = nn.Linear(d, 4 * d, bias=False), nn.Linear(4 * d, d, bias=False)
        self.n1, self.n2, self.n3 = RMSNorm(d), RMSNorm(d), RMSNorm(d)

    def forward(self, x: Tensor, other: Tensor | None = None) -> Tensor:
        y = self.n1(x)
        x = x + self.own(y, y)
        if self.across is not None:
            x = x + self.across(self.n2(x), other)
        made: Tensor = x + self.wo(F.relu(self.wi(self.n3(x))))
        return made


class T5(nn.Module):
    def __init__(self, words: int = 2000, d: int = 256, layers: int = 2) -> None:
        super().__init__()
        self.embed = nn.Embedding(words, d)
        self.encoder = nn.ModuleList(T5Layer(d, False) for _ in range(layers))
        self.decoder = nn.ModuleList(T5Layer(d, True) for _ in range(layers))
        self.norm, self.last = RMSNorm(d), RMSNorm(d)

    def forward(self, ids: Tensor, to: Tensor) -> Any:
        x = self.embed(ids)
        for layer in self.encoder:
            x = layer(x)
        x, y = self.norm(x), self.embed(to)
        for layer in self.decoder:
            y = layer(y, x)
        return F.linear(self.last(y) * 256**-0.5, self.embed.weight)


class SqueezeExcite(nn.Module):
    def __init__(self, c: int) -> None:
        super().__init__()
        self.down, self.up = nn.Conv2d(c, c // 4, 1), nn.Conv2d(c // 4, c, 1)

    def forward(self, x: Tensor) -> Tensor:
        s = self.up(F.relu(self.down(F.adaptive_avg_pool2d(x, 1))))
        return x * F.hardsigmoid(s)


class Inverted(nn.Module):
    def __init__(self, c_in: int, mid: int, c_out: int, kernel: int, stride: int, se: bool, hard: bool) -> None:
        super().__init__()
        act = nn.Hardswish if hard else nn.ReLU
        parts: list[nn.Module] = [nn.Conv2d(c_in, mid, 1, bias=False), nn.BatchNorm2d(mid), act()]
        parts += [
            nn.Conv2d(mid, mid, kernel, stride, kernel // 2, groups=mid, bias=False),
            nn.BatchNorm2d(mid),
            act(),
        ]
        parts += [SqueezeExcite(mid)] if se else []
        parts += [nn.Conv2d(mid, c_out, 1, bias=False), nn.BatchNorm2d(c_out)]
        self.block, self.same = nn.Sequential(*parts), stride == 1 and c_in == c_out

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.block(x)
        return x + y if self.same else y


class MobileNetV3(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        rows = (
            (16, 16, 16, 3, 2, True, False), (16, 72, 24, 3, 2, False, False), (24, 88, 24, 3, 1, False, False),
            (24, 96, 40, 5, 2, True, True), (40, 240, 40, 5, 1, True, True), (40, 120, 48, 5, 1, True, True),
            (48, 288, 96, 5, 2, True, True), (96, 576, 96, 5, 1, True, True),
        )  # fmt: skip
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1, bias=False), nn.BatchNorm2d(16), nn.Hardswish())
        self.blocks = nn.Sequential(*(Inverted(*row) for row in rows))
        self.last = nn.Sequential(nn.Conv2d(96, 576, 1, bias=False), nn.BatchNorm2d(576), nn.Hardswish())
        self.head = nn.Sequential(nn.Linear(576, 1024), nn.Hardswish(), nn.Dropout(0.2), nn.Linear(1024, 100))

    def forward(self, x: Tensor) -> Any:
        x = self.last(self.blocks(self.stem(x)))
        return self.head(torch.flatten(F.adaptive_avg_pool2d(x, 1), 1))


def _double(c_in: int, c_out: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(c_in, c_out, 3, padding=1), nn.GroupNorm(8, c_out), nn.SiLU(),
        nn.Conv2d(c_out, c_out, 3, padding=1), nn.GroupNorm(8, c_out), nn.SiLU(),
    )  # fmt: skip


class UNet(nn.Module):
    def __init__(self, c: int = 16) -> None:
        super().__init__()
        self.d1, self.d2, self.d3 = _double(3, c), _double(c, 2 * c), _double(2 * c, 4 * c)
        self.up2, self.up1 = nn.ConvTranspose2d(4 * c, 2 * c, 2, 2), nn.ConvTranspose2d(2 * c, c, 2, 2)
        self.u2, self.u1 = _double(4 * c, 2 * c), _double(2 * c, c)
        self.out = nn.Conv2d(c, 2, 1)

    def forward(self, x: Tensor) -> Any:
        a = self.d1(x)
        b = self.d2(F.max_pool2d(a, 2))
        y = self.d3(F.max_pool2d(b, 2))
        y = self.u2(torch.cat([b, self.up2(y)], dim=1))
        return self.out(self.u1(torch.cat([a, self.up1(y)], dim=1)))


class Lstm(nn.Module):
    def __init__(self, words: int = 2000, d: int = 128, hidden: int = 256) -> None:
        super().__init__()
        self.embed, self.drop = nn.Embedding(words, d), nn.Dropout(0.2)
        self.lstm = nn.LSTM(d, hidden, num_layers=2, batch_first=True)
        self.head = nn.Linear(hidden, words)

    def forward(self, ids: Tensor) -> Any:
        return self.head(self.drop(self.lstm(self.drop(self.embed(ids)))[0]))


class Whisper(nn.Module):
    def __init__(self, mels: int = 80, d: int = 256, layers: int = 4, steps: int = 200) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv1d(mels, d, 3, padding=1), nn.Conv1d(d, d, 3, stride=2, padding=1)
        at = torch.arange(steps // 2)[:, None] * torch.exp(-math.log(10000.0) * torch.arange(d // 2) / (d // 2 - 1))
        self.register_buffer("positions", torch.cat([at.sin(), at.cos()], dim=1))
        self.layers = nn.ModuleList(EncoderLayer(d, 4, True) for _ in range(layers))
        self.norm = nn.LayerNorm(d)

    def forward(self, x: Tensor) -> Any:
        x = F.gelu(self.conv2(F.gelu(self.conv1(x)))).permute(0, 2, 1)
        x = x + self.get_buffer("positions")
        for layer in self.layers:
            x = layer(x)
        return self.norm(x)


def _ids(words: int, b: int, t: int) -> Tensor:
    return torch.randint(0, words, (b, t))


MODELS: dict[str, Any] = {
    "resnet18": lambda: (ResNet18(), (torch.randn(4, 3, 64, 64),)),
    "vit": lambda: (ViT(), (torch.randn(4, 3, 64, 64),)),
    "bert": lambda: (Bert(), (_ids(2000, 4, 128), _ids(2, 4, 128), (torch.rand(4, 128) < 0.9).long())),
    "gpt2": lambda: (Gpt2(), (_ids(2000, 4, 128), _ids(2000, 4, 128))),
    "llama": lambda: (Llama(), (_ids(2000, 4, 128),)),
    "mamba": lambda: (Mamba(), (_ids(1000, 4, 32),)),
    "t5": lambda: (T5(), (_ids(2000, 4, 96), _ids(2000, 4, 48))),
    "mobilenet_v3": lambda: (MobileNetV3(), (torch.randn(4, 3, 96, 96),)),
    "unet": lambda: (UNet(), (torch.randn(2, 3, 64, 64),)),
    "lstm": lambda: (Lstm(), (_ids(2000, 8, 64),)),
    "whisper": lambda: (Whisper(), (torch.randn(2, 80, 200),)),
}
