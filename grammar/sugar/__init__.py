"""Short forms of the language, written out where a text is read.

Each is a pass over a whole text. `stated_bounds`, `computed`, `size_products` and `wrapped`, in this order, rewrite
the tree as it is written. `keys_of_pairs` and `under_conditions` rewrite the kernel: they ask for types and uses.
They cannot be rules of one walk. `computed` moves its temporaries out of scopes that it has walked, and
`size_products` looks at all accesses of an array before it changes the first.
"""
