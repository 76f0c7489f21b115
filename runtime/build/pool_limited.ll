; dojo_parallel_for on at most $THREADS threads of the pool of the process.

declare void @dojo_pool_run(ptr, ptr, i64, i64)

define void @dojo_parallel_for(ptr %body, ptr %context, i64 %n) {
  tail call void @dojo_pool_run(ptr %body, ptr %context, i64 %n, i64 $THREADS)
  ret void
}
