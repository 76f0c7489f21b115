; dojo_parallel_for where there is one thread: the caller runs it all.

define void @dojo_parallel_for(ptr %body, ptr %context, i64 %n) {
  %some = icmp sgt i64 %n, 0
  br i1 %some, label %run, label %end
run:
  call void %body(ptr %context, i64 0, i64 %n)
  ret void
end:
  ret void
}
