"""The names of moves elsewhere: words of Halide, TVM, Exo, MLIR and text books, and the move that is meant."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dojoir.errors import did_you_mean

_CALLED = {
    "join_scopes(0, 1)": "fuse fusion loop_fusion fuse_loops merge_loops merge jam affine_loop_fusion",
    "split_scopes(0, 1)": "fission distribute loop_fission loop_distribution",
    "swap_scopes(@i)": "interchange loop_interchange permute exchange swap swap_loops reorder_loops",
    "sink_scope(@i, 2)": "reorder move_inner",
    "lift_scope(@i, 2)": "move_outer hoist_loop",
    "split(@i, 16)": "strip_mine stripmine strip block chunk divide_loop sequence_split",
    "split_cyclic(@i, 2)": "mod_split cyclic residues interleave deal split_mod",
    "tile(@i, @j, 32, 64)": "block2d blocking affine_loop_tile loop_tile tiling tile_loops",
    "collapse(@i)": "flatten coalesce loop_coalesce mult_loops fuse_axes",
    "join_scopes(0, 1); reuse_dims(t, 0)": "compute_at reverse_compute_at store_at compute_with contract",
    "stage(0.1, x, xs, in)": "cache_read pack buffer_in read_at stage_mem bind_cache prefetch_copy",
    "stage(0.1, y, ys, out)": "cache_write write_at accumulate_in",
    "inline(1.0, t)": "compute_inline forward_substitute inline_temporary",
    "extract_subexpression(0.1, 2, t)": "cse let common_subexpression extract_expression bind_expr",
    "keep_last_writer(@i, 0.0, last)": "last_writer last_write_wins winner privatize_scatter parallel_scatter",
    "hoist(0.1, 0.1.0, 2, t)": "licm loop_invariant_code_motion invariant code_motion hoist_invariant lift_alloc",
    "recompute(0.1, t, u)": "compute_root rematerialize remat duplicate",
    "split_reduction(@k, s, p, 8)": "rfactor factor_reduction partial_sums privatize",
    "use_instr(@j, avx512_fmadd_ps)": "tensorize replace intrinsic tensor_intrin",
    "vectorize(@j)": "simd vectorise lanes vector",
    "parallelize(@i)": "parallel parallelise omp openmp threads threading multithread",
    "unroll(@j)": "unroll_loop unroll_and_jam full_unroll",
    "place(t, reg)": "set_memory set_scope storage mem2reg registers set_storage",
    "reorder_dims(t, 1, 0)": "transform_layout layout transpose_layout rearrange_dim transpose",
    "pad_dims(t, 1, 8)": "storage_align pad padding align_storage",
    "swizzle(t, 128)": "swizzled bank_conflict xor_swizzle layout_swizzle permuted_layout",
    "reuse_dims(t, 0)": "fold_storage contract_array shrink expand_dim_inverse resize_dim",
    "materialize_dims(t, 0)": "expand_dim scalar_expansion expand_scalar",
    "share_buffer(t, u)": "reuse_buffer alias coalesce_storage",
    "cut(@i, N - 1)": "partition loop_partition index_set_splitting cut_loop split_range specialize_loop",
    "compute_padding(0.0)": "pad_einsum remove_predicate unpredicate over_compute",
    "peel(@i)": "loop_peel peel_first",
    "shift(@i, 1)": "loop_shift retime delay",
    "skew(@t, 1)": "wavefront time_skew loop_skew",
    "reverse_scope(@i)": "reverse loop_reversal reverse_loop",
    "swap_siblings(0.1)": "reorder_stmts reorder_statements swap_statements",
    "remove_scope(@i)": "remove_loop delete_loop",
    "delete_node(0.1)": "dce dead_code_elimination eliminate_dead_code delete remove",
    "to_fma(0.1, 0)": "fma contract_fma fuse_multiply_add",
    "stream(y)": "nontemporal non_temporal streaming_store store_cs nt_store",
    "use_rule(0.0, online_softmax, n, z)": "rewrite_rule online_softmax online rule flash",
    "label(0, i)": "name rename_loop tag",
    "optimize": "autotune auto auto_schedule autoschedule ansor schedule",
    "simplify": "canonicalize cleanup",
    "each(<innermost>, vectorize(it))": "map for_each foreach all",
}
"""Moves as they are written here, each with the words that others have for them."""

OTHER_NAMES: Mapping[str, str] = {word: here for here, words in _CALLED.items() for word in words.split()}
"""The name used here for a word of elsewhere."""


PASS_NAMES = (
    "simplify", "join_all", "split_with_tail", "register_tile", "block_products", "block_rows", "share_tile",
    "tile_product", "stages", "arrange", "structure", "default_schedule", "default_without",
)  # fmt: skip
"""The passes and combinators, which pick moves themselves and are no moves; a test holds it to `dojoir.PASSES`,
which stand behind this room."""


def no_move(word: str) -> str:
    """The message where a pass or a combinator stands for a move; empty, for any other word."""
    if word == "optimize":
        return "optimize chooses moves: dojoir.optimize(kernel) gives a trace with them; in the shell, -O"
    if word in PASS_NAMES:
        return f"{word} is a pass, which chooses moves: dojoir.PASSES['{word}'](trace) makes them on a trace"
    if word in ("try", "repeat", "each"):
        return f"{word}(…) puts moves together, in a pipeline: dojoir.parse_pipeline reads it; in the shell, -p"
    return ""


def meant_by(word: str, known: Iterable[str]) -> str:
    """The suggestion after an unknown name of a move: the one that was meant, by spelling or meaning."""
    by_spelling = did_you_mean(word, known)
    here = OTHER_NAMES.get(word.lower().replace("-", "_"))
    if here is None:
        return by_spelling
    return f"; did you mean {here}, which others call {word}?"
