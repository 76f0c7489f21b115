"""Fast refutations: kernels run at small sizes, and a first iteration that goes wrong."""
