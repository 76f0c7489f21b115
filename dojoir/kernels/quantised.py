"""The kernels that quantise blocks of numbers, and the product of what is quantised so: texts made by a few
options.

Each is a producer (an array as it is, a normed sum, a gated product), a format (`nvfp4`, `mxfp4`, `mxfp8`), one of
two definitions of the quantiser, and one of two layouts of the scales. Parts of text that are the same are written
once.

Sources: NVIDIA, "Pretraining Large Language Models with NVFP4" (2025), arXiv:2509.25149; Open Compute Project, OCP
Microscaling Formats (MX) Specification 1.0 (2023); the layout of the scales: NVIDIA, cuBLAS, "1D Block Scaling
Factors Layout"."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from dojoir.errors import ArgumentError, did_you_mean, repr_of
from dojoir.support.frozen import dataclass


@dataclass(frozen=True)
class BlockFormat:
    """Blocks of `block` numbers in `code`, of which `largest` is the largest, with a scale of type `scale`;
    `power` is the largest power of two of the codes. `has_global` says that there is a scale of the whole array as
    well."""

    block: int
    code: str
    scale: str
    largest: str
    power: str

    @property
    def is_packed(self) -> bool:
        return self.code == "f4e2m1"

    @property
    def has_global(self) -> bool:
        return self.scale == "f8e4m3"

    @property
    def source(self) -> str:
        return "arXiv:2509.25149" if self.has_global else "OCP Microscaling Formats (MX) Specification 1.0"

    @property
    def declared(self) -> str:
        """The text after the shape of an array of codes."""
        return " packed" if self.is_packed else ""


FORMATS = {
    "nvfp4": BlockFormat(16, "f4e2m1", "f8e4m3", "6", "4"),
    "mxfp4": BlockFormat(32, "f4e2m1", "f8e8m0", "6", "4"),
    "mxfp8": BlockFormat(32, "f8e4m3", "f8e8m0", "448", "256"),
}

QUANTISER, SCALES = ("hw", "soft"), ("linear", "tiled")
INPUTS, PRODUCT = ("separate", "packed"), ("exact", "rounded")
_BOTH = {"quantiser": QUANTISER, "scales": SCALES}
_GATED = {**_BOTH, "inputs": INPUTS, "product": PRODUCT}

_PRODUCED = {
    **{f"{name}_quantize": ("array", name) for name in FORMATS},
    **{f"add_rmsnorm_{name.removeprefix('nv')}quant": ("norm", name) for name in FORMATS},
    **{f"silu_mul_{name.removeprefix('nv')}quant": ("gated", name) for name in FORMATS},
}
OPTIONS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    **{name: _GATED if kind == "gated" else _BOTH for name, (kind, _) in _PRODUCED.items()},
    "matmul_fp4": {"format": ("nvfp4", "mxfp4"), "scales": SCALES},
}
"""The options of each kernel, with their values; the first is taken where nothing is said."""


def names() -> list[str]:
    """The names of the kernels that are made by options, in alphabetical order."""
    return sorted(OPTIONS)


def text_of(name: str, options: Mapping[str, object]) -> str:
    """The text of a kernel of `names()` with these options. Raises ArgumentError for one that there is not."""
    chosen = {option: values[0] for option, values in OPTIONS[name].items()}
    for option, value in options.items():
        if option not in chosen:
            raise ArgumentError(
                f"kernel {name} has no option '{option}'{did_you_mean(option, chosen)}; its options: "
                f"{', '.join(chosen)}",
                "unknown-option",
            )
        allowed = OPTIONS[name][option]
        if not isinstance(value, str) or value not in allowed:
            raise ArgumentError(
                f"{option} of kernel {name} is {' or '.join(allowed)}, not {repr_of(value)}", "unknown-option"
            )
        chosen[option] = value
    lines = _product(name, chosen) if name == "matmul_fp4" else _quantiser(name, chosen)
    return "\n".join(lines) + "\n"


# -- scales ------------------------------------------------------------------------------------------------
_TILES = "[(M + 127)//128, (B + 3)//4, 32, 4, 4]"


def _shape(scales: str, rows: str = "M") -> str:
    return f"[{rows}, B]" if scales == "linear" else _TILES.replace("M", rows)


def _place(scales: str, row: str, block: str) -> str:
    """The indices of the scale of a block: in 128x4 tiles each is 32 times 4 times 4 long, and row m is in line
    m%32."""
    if scales == "linear":
        return f"[{row}, {block}]"
    inner = f"({block})" if "+" in block else block
    outer = f"({row})" if "+" in row else row
    return f"[{outer}//128, {inner}//4, {outer}%32, {outer}//32%4, {inner}%4]"


_EDGE = "| (B + 3)//4*4 - B @e                       # behind the last block of a row"
_BELOW = ["(M + 127)//128*128 - M @o                 # below the last row", "| (B + 3)//4*4 @l"]


# -- the quantisers ----------------------------------------------------------------------------------------
def _quantiser(name: str, chosen: Mapping[str, str]) -> list[str]:
    kind, named = _PRODUCED[name]
    form, made = FORMATS[named], _PRODUCERS[kind](FORMATS[named], chosen)
    soft, scales = chosen["quantiser"] == "soft", chosen["scales"]
    batched = made.batch
    first, row = ("{n}, " if batched else ""), "{m}"
    place = _place(scales, row, "{b}")
    place = f"[{first}{place[1:]}" if batched else place
    block = f"{form.block}*{{b}}"
    role, shape, stored = (
        ("inout", "[N, M, ", f"[N, {_shape(scales)[1:]}") if batched else ("out", "[M, ", _shape(scales))
    )
    has_scale = made.value != made.raw
    value = made.value.replace("@", "{k}")
    again = made.raw.replace("@", "{j}")
    depth = "| " * (2 + batched)
    lines = [*_comment(made.about, made.formula, form, chosen)]
    lines += [f"kernel {name}({'N, ' if batched else ''}M, B)", f"fp {made.fp}", *made.inputs]
    if form.has_global:
        lines.append("in  g: f32[N]" if batched else "in  g: f32")
    lines += [
        *made.outputs,
        f"{role} q: {form.code}{shape}{form.block}*B]{form.declared}",
        f"{role} s: {form.scale}{stored}",
        *made.temporaries,
        "tmp a: f32",
        f"tmp c: {form.scale}",
        "tmp r: f32",
    ]
    if not form.has_global and not soft:
        lines += ["tmp v: f32", "tmp d: f32"]
    if has_scale:
        lines.append(f"tmp y: f32[{form.block}]")
    lines += ["", *made.before]
    inside = ["B @b", "| a = 0", f"| {form.block} @k"]
    if has_scale:
        inside += [f"| | y[{{k}}] = {value}", "| | a max= abs(y[{k}])"]
        again = "y[{j}]"
    else:
        inside.append(f"| | a max= abs({value})")
    target = f"q[{first}{row}, {block} + {{j}}]"
    inside += [f"| {line}" for line in _scale(form, soft, "g[{n}]" if batched else "g")]
    inside += [f"| s{place} = c", f"| {form.block} @j", f"| | {target} = {_code(form, soft, again)}"]
    lines += [depth[2:] + line for line in inside]
    if scales == "tiled":
        beyond = _place(scales, row, "{e} + B")
        beyond = f"[{first}{beyond[1:]}" if batched else beyond
        lines += [depth[4:] + _EDGE, f"{depth}s{beyond} = 0"]
        if not batched:
            lines += [*_BELOW, f"| | s{_place(scales, '{o} + M', '{l}')} = 0"]
    return lines


def _scale(form: BlockFormat, soft: bool, g: str) -> Iterator[str]:
    """The lines that make `c`, the scale as it is stored, and `r`, what the numbers are multiplied with (`hw`) or
    divided by (`soft`), of the largest magnitude `a`."""
    match form.has_global, soft:
        case True, False:
            yield f"c = sat({form.scale}, {g} * (a / {form.largest}))"
            yield f"r = select(f32(c) == 0, 0, {g} / f32(c))"
        case True, True:
            yield f"r = select(a == 0, 1, a / {form.largest})"
            yield f"c = sat({form.scale}, {g} * r)"
        case False, False:  # the next power of two that is not less
            yield f"v = a / {form.largest}"
            yield f"d = f32(round_to_zero({form.scale}, v))"
            yield f"c = sat({form.scale}, select(d < v, 2 * d, d))"
            yield "r = 1 / f32(c)"
        case _:
            yield f"c = round_to_zero({form.scale}, select(a == 0, 1, a / {form.power}))"
            yield "r = f32(c)"


def _code(form: BlockFormat, soft: bool, value: str) -> str:
    if not soft:
        return f"sat({form.code}, {value} * r)"
    if form.is_packed:
        return f"round_away({form.code}, {value} / r)"
    return f"round_away({form.code}, min(max({value} / r, -{form.largest}), {form.largest}))"


# -- what is quantised -------------------------------------------------------------------------------------
@dataclass(frozen=True)
class _Made:
    """The lines that give the numbers of a block: the declarations, the lines before the blocks, and the number
    itself. That is `raw` where it is read and `value` where it is computed (the same, if there is nothing to
    compute)."""

    about: str
    formula: str
    fp: str
    inputs: tuple[str, ...]
    before: tuple[str, ...]
    raw: str
    value: str
    outputs: tuple[str, ...] = ()
    temporaries: tuple[str, ...] = ()
    batch: bool = False


def _array(form: BlockFormat, chosen: Mapping[str, str]) -> _Made:
    number = f"f32(x[{{m}}, {form.block}*{{b}} + @])"
    return _Made(
        "An array, quantised: blocks of {block} numbers of a row share a scale.",
        "y[m, j] = x[m, j]",
        "strict",
        (f"in  x: bf16[M, {form.block}*B]",),
        ("M @m",),
        number,
        number,
    )


def _norm(form: BlockFormat, chosen: Mapping[str, str]) -> _Made:
    row = f"{form.block}*B"
    at = f"[{{m}}, {form.block}*{{c}} + {{i}}]"
    here = f"[{{m}}, {form.block}*{{b}} + @]"
    return _Made(
        "A residual is added, the sum normalised by its root mean square, and quantised; the rounded sum stays.",
        "t = x[m, j] + z[m, j]     h[m, j] = bf16(t)     y[m, j] = h[m, j] * rsqrt(sum_j t^2 / K + eps) * w[j]",
        "reassoc",
        (f"in  x: bf16[M, {row}]", f"in  z: bf16[M, {row}]", f"in  w: bf16[{row}]", "in  eps: f32"),
        (
            "M @m",
            "| n = 0",
            "| B @c",
            f"| | {form.block} @i",
            f"| | | t = f32(x{at}) + f32(z{at})",
            f"| | | h{at} = t",
            "| | | n += t * t",
            f"| p = rsqrt(n / f32({row}) + eps)",
        ),
        "",
        f"f32(h{here}) * p * f32(w[{form.block}*{{b}} + @])",
        outputs=(f"out h: bf16[M, {row}]",),
        temporaries=("tmp t: f32", "tmp n: f32", "tmp p: f32"),
    )


def _gated(form: BlockFormat, chosen: Mapping[str, str]) -> _Made:
    packed = chosen["inputs"] == "packed"
    here = f"{form.block}*{{b}} + @"
    if packed:
        gate, up = f"f32(x[{{n}}, {{m}}, {here}])", f"f32(x[{{n}}, {{m}}, {form.block}*B + {here}])"
    else:
        gate, up = f"f32(x[{{m}}, {here}])", f"f32(u[{{m}}, {here}])"
    value = f"{gate} * sigmoid({gate}) * {up}"
    value = f"f32(bf16({value}))" if chosen["product"] == "rounded" else value
    inputs = (
        (f"in  x: bf16[N, M, {2 * form.block}*B]", "in  rows: i32[N]")
        if packed
        else (f"in  x: bf16[M, {form.block}*B]", f"in  u: bf16[M, {form.block}*B]")
    )
    rounded = "bf16(silu(x) * u)" if chosen["product"] == "rounded" else "silu(x) * u"
    about = "A gated product, quantised" + (
        ": of each of N batches the first rows[n] rows, the others are left as they are." if packed else "."
    )
    return _Made(
        about,
        f"y[m, j] = {rounded}     silu(x) = x / (1 + exp(-x))",
        "reassoc",
        inputs,
        ("N @n", "| min(rows[{n}], M) @m") if packed else ("M @m",),
        "",
        value,
        batch=packed,
    )


_PRODUCERS = {"array": _array, "norm": _norm, "gated": _gated}


def _comment(about: str, formula: str, form: BlockFormat, chosen: Mapping[str, str]) -> list[str]:
    soft, tiled = chosen["quantiser"] == "soft", chosen["scales"] == "tiled"
    away = "q = y / c, ties away from zero"
    scale = {
        (True, False): "c = sat(g * max|y| / 6), 0 of a block of zeros     q = y * (g / c), ties to even",
        (True, True): "c = sat(g * r)     r = max|y| / 6, 1 of a block of zeros     q = y / r, ties away from zero",
        (False, False): f"c = the power of two at or above max|y| / {form.largest}     q = y / c, ties to even",
        (False, True): f"c = the power of two at or below max|y| / {form.power}, 1 of a block of zeros     {away}",
    }[form.has_global, soft]
    where = (
        "s is in tiles of 128 rows by 4 blocks, an array of tiles: block k of row m is element\n"
        "# (m//128)*((B + 3)//4)*512 + (k//4)*512 + (m%32)*16 + (m%128//32)*4 + k%4."
        if tiled
        else "s[m, k] is the scale of block k of row m."
    )
    options = ", ".join(f"{name}={value}" for name, value in chosen.items())
    return [
        f"# {about.format(block=form.block)}",
        "#",
        f"#     {formula}",
        f"#     {scale}",
        "#",
        f"# {where}",
        f"# Options: {options}.",
        f"# Source: {form.source}.",
    ]


# -- the product -------------------------------------------------------------------------------------------
def _product(name: str, chosen: Mapping[str, str]) -> list[str]:
    form, scales = FORMATS[chosen["format"]], chosen["scales"]
    row = f"{form.block}*B"
    where = "the 128x4 tiles that the quantisers write" if scales == "tiled" else "rows"
    return [
        "# The product of two quantised matrices, the second transposed: scaled sums of products of codes.",
        "#",
        "#     y[m, n] = alpha * sum_b sa[m, b] * sb[n, b] * sum_k a[m, k] * w[n, k]",
        "#",
        f"# Blocks of {form.block} codes share a scale; the scales are in {where}. Sums are of f32.",
        f"# Options: {', '.join(f'{option}={value}' for option, value in chosen.items())}.",
        f"kernel {name}(M, N, B)",
        f"in  a: {form.code}[M, {row}] packed",
        f"in  sa: {form.scale}{_shape(scales)}",
        f"in  w: {form.code}[N, {row}] packed",
        f"in  sb: {form.scale}{_shape(scales, 'N')}",
        "in  alpha: f32",
        "out y: bf16[M, N]",
        "tmp t: f32",
        "tmp c: f32",
        "",
        "M @m",
        "| N @n",
        "| | t = 0",
        "| | B @b",
        "| | | c = 0",
        f"| | | {form.block} @k",
        f"| | | | c += f32(a[{{m}}, {form.block}*{{b}} + {{k}}]) * f32(w[{{n}}, {form.block}*{{b}} + {{k}}])",
        f"| | | t += c * (f32(sa{_place(scales, '{m}', '{b}')}) * f32(sb{_place(scales, '{n}', '{b}')}))",
        "| | y[{m}, {n}] = alpha * t",
    ]
