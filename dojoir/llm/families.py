"""The families of moves by what they do for speed, a line each: for a model, and for the tool `syntax`."""

from __future__ import annotations

from collections.abc import Mapping

LANGUAGE = """\
The text: `N @i` is a scope that runs N times and has the label i; the bars before a line are its depth; `{i}` or
`{0}` is an iterator, by label or by depth. A path such as 0.1 names the second child of the first node. Marks of
scopes: `v` vector lanes, `p` cores, `u` unrolled, on GPUs `gx` blocks and `bx` threads. Where a buffer lives:
heap, stack, reg, shared. `N~` is a dimension that has no storage of its own.

A move as it is written: split(0.1, 16), reuse_dims(e, 0), split_reduction(0.1, s, s_part, 4). Examples of passes:
default_schedule (the schedule by rule of the whole kernel), simplify, join_all, register_tile(6, 32) (a product).
"""
"""How a kernel and its moves are written, in a few lines."""

EFFECTS: Mapping[str, str] = {
    "Arithmetic in lanes, on cores, overlapped": """
vectorize(scope): iterations in vector lanes; the innermost one, stepping through memory by one, gains most
parallelize(scope): iterations on the cores; outermost, where iterations are independent
unroll(scope): iterations of a constant extent written out, so that sums stay in registers and chains overlap
split_reduction(scope, buffer, copy, parts): several partial sums, where one sum waits for itself
to_fma(statement): a product that is added rounds once
use_instr(scope, name): a scope that is an instruction of the target
use_rule(node, rule, names): algebra under fp fast, such as a reciprocal or an online softmax
bind(scope, mark): on a GPU a scope onto gx gy gz (blocks) or bx by bz lane (threads)""",
    "Memory: touched once, nearby, or not at all": """
join_scopes(scope, next): two loops of equal extent as one, so that what one writes the other reads from a register
reuse_dims(buffer, dim): a dimension of a temporary without storage of its own
place(buffer, reg|stack|shared|heap): where a temporary lives
delete_temporary(buffer): a temporary that nobody reads
inline(statement, buffer), recompute(node, buffer, copy): computed again instead of stored
stage(node, buffer, copy, in|out|inout): a copy of the part that a node touches, packed or in shared memory
reorder_dims(buffer, dims), pad_dims(buffer, dim, elements), swizzle(buffer, dim): the layout of a temporary
split_dim(buffer, dim, size), drop_dim(buffer, dim): the shape of a temporary
share_buffer(buffer, other): two temporaries in one storage
prefetch(scope, buffer, distance): fetched ahead; for long streams
stream(buffer), stream_large(buffer, bytes): stores past the caches; for results larger than these""",
    "Order and size of loops, which make way for the others": """
split(scope, size): blocks of so many iterations; then vectorize, unroll or swap the part inside
tile(scope, …, sizes): several scopes at once, for caches or registers
swap_scopes(scope): a scope with its only child, such as for steps by one in the innermost one
split_scopes(scope, child): one loop as two; swap_siblings(node): a node with the next one
collapse(scope): two loops as one; split_cyclic(scope, count): by the rest of the iterator
cut(scope, at), peel(scope): the first iterations, or those that do not fill a block, by themselves
shift(scope, by), skew(scope, factor), reverse_scope(scope): which iteration runs when
sink_scope(scope, levels), lift_scope(scope, levels): a scope inside others, or out of them
set_extent(scope, extent), remove_scope(scope), remove_guard(scope), drop_condition(scope, number)
compute_padding(scope), delete_node(node): what has no effect""",
    "What is computed how often": """
hoist(scope, statement, part, buffer): out of a loop that it does not change in
extract_subexpression(statement, part, buffer): a part of an expression by itself; extract(statement, buffer)
set_index(statement, number, index): an index that is written otherwise; keep_last_writer(statement)""",
    "Taking back, and rarely of use": """
unmark, unsplit, unsplit_cyclic, uncollapse, untile, unpeel, unskew, unhoist, unstage, unrecompute, unprefetch
unstream, unuse_instr, unshare_buffer, undo_rule, join_ranges, join_dims, add_dim, materialize_dims, from_fma
merge_reduction, inline_subexpression, restore_node, restore_temporary, add_scope, add_guard, add_condition
skip_padding, drop_last_writer, label, unlabel""",
}
"""Each effect with the moves that have it: how one is written, and when it gains."""

FAMILIES = "\n".join(f"{effect}:{lines}" for effect, lines in EFFECTS.items())
"""All of them as a text."""
