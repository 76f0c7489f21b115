"""Views and their like: transposes, reshapes, slices, parts put together, padding."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from modules.cases import Made, Make, Sizes, cases, image, rows, words


def heads(s: Sizes) -> Made:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x.view(s.b, s.t, s.heads, -1).permute(0, 2, 1, 3).reshape(s.b * s.heads, s.t, -1) + 1

    return function, (words(s),)


def chunked(s: Sizes) -> Made:
    def function(x: torch.Tensor) -> torch.Tensor:
        first, second = x.chunk(2, -1)
        return torch.sigmoid(first) * second

    return function, (rows(s),)


def channel_shuffle(s: Sizes) -> Made:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x.view(s.b, 2, s.c // 2, s.h, s.h).transpose(1, 2).reshape(s.b, s.c, s.h, s.h)

    return function, (image(s),)


def patches(s: Sizes) -> Made:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x.unfold(2, 4, 4).unfold(3, 4, 4).permute(0, 2, 3, 1, 4, 5).reshape(s.b, (s.h // 4) ** 2, -1)

    return function, (image(s),)


BY_FORMULA: dict[str, Make] = {
    "transposed": lambda s: (lambda x: x.t().contiguous() * 2, (rows(s),)),
    "concatenated": lambda s: (lambda x, y: torch.cat([x, y * 2, x[:, :3]], 1), (rows(s), rows(s))),
    "stacked": lambda s: (lambda x, y: torch.stack([x, y, x - y], 1).relu(), (rows(s), rows(s))),
    "sliced": lambda s: (lambda x: x[1:, ::2] * x[:-1, 1::2] + x[-1:, :1], (rows(s),)),
    "padded": lambda s: (lambda x: F.pad(x, (1, 2, 0, 3), value=0.5) * 2, (image(s),)),
    "reflected": lambda s: (lambda x: F.pad(x, (1, 2, 2, 1), mode="reflect"), (image(s),)),
    "replicated": lambda s: (lambda x: F.pad(x, (1, 2, 2, 1), mode="replicate"), (image(s),)),
    "rolled": lambda s: (lambda x: torch.roll(x, (1, -2), (0, 1)) + x.flip(1), (rows(s),)),
    "tiled": lambda s: (lambda x: x.repeat(2, 3) + 1, (rows(s),)),
    "pixel_shuffle": lambda s: (lambda x: F.pixel_shuffle(x, 2), (image(s),)),
    "triangle": lambda s: (lambda x: x.tril() + x.triu(1) * 2, (torch.randn(s.b, s.t, s.t),)),
    "upsampled": lambda s: (lambda x: F.interpolate(x, scale_factor=2, mode="nearest"), (image(s),)),
    "bilinear": lambda s: (
        lambda x: F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False),
        (image(s),),
    ),
}
CASES = cases(
    BY_FORMULA, heads, chunked, channel_shuffle, patches,
)  # fmt: skip
