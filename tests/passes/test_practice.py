"""The texts of `benchmarks/practice`: what the rules of `default_schedule` see in them, and that it stays right."""

from __future__ import annotations

import dataclasses
import re

import numpy as np
import pytest
from folders import ROOT
from scheduled import by_default

import dojoir

FOLDER = ROOT / "benchmarks" / "practice"
TEXTS = sorted(path.stem for path in FOLDER.glob("*.dojo"))


def plain(text: str) -> str:
    """A text without its labels."""
    return re.sub(r" @\w+\n", "\n", text)


def text(name: str) -> dojoir.Kernel:
    return dojoir.parse((FOLDER / f"{name}.dojo").read_text(encoding="utf-8"))


def by_rule(name: str, machine: str = "avx512") -> dojoir.Trace:
    return by_default(text(name), machine)


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_is_well_formed_and_says_its_sizes_and_what_is_beside_it(name: str) -> None:
    written = (FOLDER / f"{name}.dojo").read_text(encoding="utf-8")
    kernel = dojoir.parse(written)
    dojoir.prove(kernel)
    said = dict(re.findall(r"^# (\w+): (.+)$", written, re.MULTILINE))
    assert {"group", "sizes", "eager"} <= said.keys()
    given = {size for size, _ in re.findall(r"(\w+)=(\d+)", said["sizes"])}
    assert given == {size.name for size in kernel.sizes} and kernel.name == name


SEEN = {
    "product": "c_tile: f32[6, 64] reg",
    "product_kij": "c_tile: f32[6, 64] reg",
    "product_nt": "b_panel: f32[64, K] order(1, 0)",
    "product_tn": "c_tile: f32[6, 64] reg",
    "linear_relu": "y_tile: f32[6, 64] reg",
    "attention_full": "s_tile: f32[1, 6, 64] reg",
    "mlp_loss": "z_tile: f32[6, 64] reg",
    "rnn_cell": "g_tile: f32[6, 64] reg",
    "four_layers": "c4_tile: f32[6, 64] reg",
    "lower_times": "c_tile: f32[6, 64] reg",
    "upper_times": "c_tile: f32[6, 64] reg",
    "gated_linear": "u_tile: f32[6, 64] reg",
    "gru_cell": "r_tile: f32[6, 64] reg",
    "distances": "z_tile: f32[6, 64] reg",
    "conv1x1": "y_tile: f32[1, 32, 1, 12] reg order(0, 2, 3, 1)",
    "conv3x3": "y_tile: f32[1, 32, 1, 12] reg order(0, 2, 3, 1)",
    "conv3x3_stride2": "y_tile: f32[1, 32, 1, 12] reg order(0, 2, 3, 1)",
    "conv_stem": "y_tile: f32[1, 32, 1, 12] reg order(0, 2, 3, 1)",
    "conv1d_dilated_strided": "y_tile: f32[1, 32, 12] reg order(0, 2, 1)",
}
"""What the schedule of a text has, by a rule: the tile of the result in registers."""


@pytest.mark.parametrize("name", SEEN)
def test_a_contraction_is_seen_by_its_accesses(name: str) -> None:
    assert f"tmp {SEEN[name]}" in dojoir.to_text(by_rule(name).kernel)


def test_few_channels_leave_the_lanes_to_columns() -> None:
    kernel = text("conv_grouped")
    for channels, tile in ((8, "[1, 1, 8, 1, 8] reg"), (64, "[1, 1, 16, 1, 5] reg order(0, 1, 3, 4, 2)")):
        known = dojoir.optimize(kernel, "avx2", sizes={"O": channels}, threads=1).kernel
        assert f"tmp y_tile: f32{tile}" in dojoir.to_text(known)


def test_a_bias_and_a_clamp_have_the_lanes_of_the_tile_of_a_convolution() -> None:
    """They go along the channels, as the tile lies in registers, and only what is written along the columns."""
    written = plain(dojoir.to_text(by_rule("conv_bias_relu6").kernel))
    channels = "min(32, O - 32*{1}) : v"
    assert f"{channels}\n| | | | | | y_tile[0, {{5}}, 0, {{4}}] = b[32*{{1}} + {{5}}]" in written
    assert (
        f"{channels}\n| | | | | | y_tile[0, {{5}}, 0, {{4}}] = min(max(y_tile[0, {{5}}, 0, {{4}}], 0), 6)"
        in written
    )


def test_a_padding_is_asked_about_once_for_a_tile() -> None:
    """In the version for tiles inside of the image the products stand without a branch between them."""
    code = dojoir.emit(by_rule("conv3x3", "avx2").kernel, "avx2")
    inside, _, other = code.partition("5 * w + q - 1 >= 0")[2].partition("else")
    assert "_mm256_fmadd_ps" in inside and "if (" not in inside
    assert "if (" in other


def test_products_of_one_column_are_sums_in_lanes() -> None:
    by_eight = "K : v\n| | 8 : u\n| | | c[8*{0} + {2}, 0] += a[8*{0} + {2}, {1}] * b[{1}, 0]"
    assert by_eight in plain(dojoir.to_text(by_rule("product_one_column").kernel))


def test_a_panel_that_lies_across_is_packed_through_squares() -> None:
    assert "tmp b_tile: f32[16, 16] stack" in dojoir.to_text(by_rule("product_nt").kernel)


def test_what_is_no_product_is_fused_as_before() -> None:
    kernel = dojoir.parse("""
kernel f(N, M)
in  x: f32[N, M]
in  w: f32[M, M]
out y: f32[N, M]
out z: f32[N]
tmp t: f32[N, M]

N @i
| M @j
| | t[{i}, {j}] = 0
| | M @k
| | | t[{i}, {j}] += x[{i}, {k}] * w[{k}, {j}]
N @i2
| z[{i2}] = 0
| M @a
| | z[{i2}] += x[{i2}, {a}]
N @i3
| M @b
| | y[{i3}, {b}] = t[{i3}, {b}] * z[{i3}]
""")
    written = dojoir.to_text(dojoir.PASSES["default_schedule"].given("avx512").on(kernel).kernel)
    assert "t_tile: f32[6, 64] reg" in written
    assert written.count("\nN : p") == 1, "the sums of rows and what they scale go through the rows together"


RIGHT = {
    "avx512": ("product_kij", "product_nt", "lower_times", "upper_times", "conv1d_dilated_strided", "mlp_loss"),
    "avx2": ("product_nt", "conv3x3_stride2", "conv1x1"),
}


@pytest.mark.parametrize(("machine", "name"), [(m, name) for m, names in RIGHT.items() for name in names])
def test_what_the_rules_make_is_right(name: str, machine: str) -> None:
    trace = by_rule(name, machine)
    report = dojoir.verify(trace.kernel, against=text(name), seeds=1)
    assert report.ok, report
    if machine == "avx512":
        assert dojoir.certify(trace)


def test_a_sum_into_one_element_has_a_part_for_each_block() -> None:
    written = dojoir.to_text(by_rule("sum_all").kernel)
    assert "\n(N + 1023) // 1024 : p @i\n| s_part[{0}] = 0\n| min(1024, N - 1024*{0}) : v @i_in" in written
    assert "\nA : p @i\n| s_part[{0}] = 0\n" in dojoir.to_text(by_rule("sum_cube").kernel)
    assert "total_part[{0}] += " in dojoir.to_text(by_rule("nll_of_logits").kernel)


def test_a_sum_in_a_given_order_has_no_parts() -> None:
    strict = text("sum_all").with_fp("strict")
    assert "part" not in dojoir.to_text(dojoir.PASSES["default_schedule"].given("avx512").on(strict).kernel)


@pytest.mark.parametrize("value", [0.1, 0.7])
def test_the_sum_of_many_equal_numbers_is_near_the_exact_one(value: float) -> None:
    x = np.full(1 << 25, value, np.float32)
    (s,) = dojoir.compile(by_rule("sum_all").kernel).run({"x": x}).values()
    exact = float(x[0]) * x.size
    assert abs(float(s) - exact) < 1e-6 * exact


@pytest.mark.parametrize("name", ["smooth_l1", "sum_cube"])
def test_sums_in_parts_are_right(name: str) -> None:
    trace = by_rule(name)
    assert dojoir.verify(trace.kernel, against=text(name), seeds=1).ok
    assert dojoir.certify(trace)


# -- sizes that are known --------------------------------------------------------------------------------------
def sized(kernel: dojoir.Kernel, cores: int = 2, **sizes: int) -> str:
    machine = dataclasses.replace(dojoir.machine_for("avx2"), cores=cores, last_cache=1 << 25)
    return dojoir.to_text(dojoir.PASSES["default_schedule"].for_sizes(sizes).for_machine(machine).on(kernel).kernel)


def test_an_output_that_no_cache_holds_is_streamed() -> None:
    kernel = text("axpy")
    (size,) = kernel.runtime_sizes
    assert " stream" in sized(kernel, **{size: 1 << 24})
    assert " stream" not in sized(kernel, **{size: 1 << 20}), "it fits the last cache"
    assert f"stream {1 << 25}\n" in sized(kernel), "it may be small: asked at the call"


def test_what_is_read_again_or_not_along_is_not_streamed() -> None:
    for name in ("forward_substitution", "product", "conv3x3", "softmax_columns"):
        kernel = text(name)
        assert " stream" not in sized(kernel, **dict.fromkeys(kernel.runtime_sizes, 1 << 14)), name


def test_a_short_outermost_scope_leaves_the_cores_to_those_inside() -> None:
    kernel = dojoir.parse("kernel f(N, M, K)\nin x: f32[N, M, K]\nout y: f32[N, M, K]\n\n"
                          "N\n| M\n| | K\n| | | y[{0}, {1}, {2}] = 2 * x[{0}, {1}, {2}]\n")  # fmt: skip
    assert "\nN\n| M : p\n" in sized(kernel, N=3, M=1000, K=1000)
    assert "\nN : p\n| M\n" in sized(kernel, N=64, M=1000, K=1000)
    assert " p" not in sized(kernel, N=3, M=10, K=100).partition("\n\n")[2], "too little for a second thread"


def test_products_of_few_columns_sum_in_lanes() -> None:
    for name, panel in (("product", "b_panel: f32[K, M] order(1, 0)"), ("product_nt", "")):
        kernel = text(name)
        rows, columns = (kernel.buffer("c").dims[d].extent.sizes for d in (0, 1))
        written = sized(kernel, **{str(*columns): 3})
        assert "c_tile" not in written and " : v @k" in written
        assert panel in written.replace(str(*columns), "M").replace(str(*rows), "N")
        assert "c_tile: f32[2, 32] reg" in sized(kernel, **{str(*rows): 2})


def test_sums_of_wide_rows_go_through_the_rows_as_they_lie() -> None:
    written = plain(sized(text("sum_axis0"), A=128, B=64, C=256))
    assert "| | (A + 3) // 4\n| | | min(4096, C - 4096*{1}) : v\n| | | | min(4, A - 4*{2}) : u\n" in written
    assert "A\n| | | | s" in plain(sized(text("sum_axis0"), A=128, B=64, C=20)), "few neighbours stay in registers"


@pytest.mark.parametrize("columns", [1, 3, 9, 33, 64])
def test_sums_of_so_few_columns_that_registers_hold_them_stay_there(columns: int) -> None:
    kernel = dojoir.kernels.load("reduce_mean_0")
    written = sized(kernel, N=3544, M=columns)
    lanes = -(-columns // 8) * 8
    assert f"tmp s_tile: f32[{lanes}] reg" in written and f"min({lanes}, M - {lanes}*{{0}}) : v" in written
    assert "_tile" not in sized(kernel, N=3544, M=65)
    machine = dojoir.machine_for("avx2")
    made = dojoir.PASSES["default_schedule"].for_sizes({"N": 3544, "M": columns}).for_machine(machine).on(kernel)
    assert dojoir.certify(made)
    assert dojoir.verify(made.kernel, sizes=[{"N": 5, "M": columns}, {"N": 4, "M": 17}], seeds=1).ok


def test_a_product_of_one_column_goes_through_the_rows_as_they_lie() -> None:
    kernel = dojoir.kernels.load("matmul_tn")
    written = plain(sized(kernel, N=1025, M=1, K=3178))
    assert "| | K\n| | | min(4096, N - 4096*{1}) : v\n| | | | c_tile[" in written
    assert "a_packed" not in written and "a_packed" in sized(kernel, N=1025, M=2, K=3178)
    machine = dojoir.machine_for("avx2")
    sizes = {"N": 1025, "M": 1, "K": 3178}
    made = dojoir.PASSES["default_schedule"].for_sizes(sizes).for_machine(machine).on(kernel)
    assert dojoir.certify(made)
    asked = [{"N": 5, "M": 1, "K": 7}, {"N": 19, "M": 3, "K": 2}]
    assert dojoir.verify(made.kernel, against=kernel, sizes=asked, seeds=1).ok


@pytest.mark.parametrize("name", ["softmax", "rmsnorm", "bias_relu", "reduce_mean_1"])
def test_what_is_known_to_run_once_has_no_lanes(name: str) -> None:
    kernel = dojoir.kernels.load(name)
    assert "M : v" in sized(kernel, cores=1, N=100, M=5)
    assert "M : v" not in sized(kernel, cores=1, N=100, M=1)


def test_tiles_are_not_shared_out() -> None:
    written = sized(text("product"), N=42, M=48, K=512)
    assert "| (N + 5) // 6 : p @i" in written and written.count(" : p") == 1


def test_a_few_rows_are_not_turned_in_squares() -> None:
    kernel = dojoir.kernels.load("transpose")
    assert "_tile" in sized(kernel, N=100, M=100)
    assert "_tile" not in sized(kernel, N=100, M=2)
    assert "_tile" not in sized(kernel, N=1, M=100)


def test_rows_that_are_short_are_not_written_past_the_caches() -> None:
    for name in ("rmsnorm", "layernorm", "bias_relu", "log_softmax"):
        kernel = dojoir.kernels.load(name)
        for sizes, streams in (({"N": 4096, "M": 65}, False), ({"N": 4096, "M": 4096}, True)):
            chosen = dojoir.optimize(kernel, "llvm", cpu="haswell", sizes=sizes, threads=1)
            assert ("stream(y)" in map(str, chosen.moves)) == streams, (name, sizes)
