; Keeps the helpers off the core of the caller. See pool.py.

declare i32 @sched_getcpu()
declare i32 @sched_getaffinity(i32, i64, ptr)
declare i32 @pthread_setaffinity_np(i64, i64, ptr)
declare i64 @llvm.ctpop.i64(i64)

; Lets the helpers run on all cores that the caller may run on but the one where it does; on that one as well, if
; there are more of them than others. A core is a bit in a set of 1024.
define internal void @place() {
entry:
  %mine = alloca [16 x i64]
  %core = call i32 @sched_getcpu()
  %known = icmp ult i32 %core, 1024
  br i1 %known, label %ask, label %end
ask:
  %failed = call i32 @sched_getaffinity(i32 0, i64 128, ptr %mine)
  %ok = icmp eq i32 %failed, 0
  br i1 %ok, label %leave, label %end
leave:
  %wide = zext i32 %core to i64
  %at = lshr i64 %wide, 6
  %bit = and i64 %wide, 63
  %own = shl i64 1, %bit
  %others = xor i64 %own, -1
  %place = getelementptr i64, ptr %mine, i64 %at
  %all = load i64, ptr %place
  %without = and i64 %all, %others
  store i64 %without, ptr %place
  br label %count
count:
  %k = phi i64 [ 0, %leave ], [ %k.next, %count ]
  %sum = phi i64 [ 0, %leave ], [ %sum.next, %count ]
  %counted = getelementptr i64, ptr %mine, i64 %k
  %bits = load i64, ptr %counted
  %ones = call i64 @llvm.ctpop.i64(i64 %bits)
  %sum.next = add i64 %sum, %ones
  %k.next = add i64 %k, 1
  %counting = icmp ult i64 %k.next, 16
  br i1 %counting, label %count, label %choose
choose:
  %started = load i64, ptr @started
  %enough = icmp uge i64 %sum.next, %started
  %chosen = select i1 %enough, i64 %without, i64 %all
  store i64 %chosen, ptr %place
  br label %keep
keep:
  %i = phi i64 [ 0, %choose ], [ %i.next, %keep ]
  %differ = phi i64 [ 0, %choose ], [ %differ.next, %keep ]
  %from = getelementptr i64, ptr %mine, i64 %i
  %to = getelementptr i64, ptr @cores, i64 %i
  %new = load i64, ptr %from
  %old = load i64, ptr %to
  store i64 %new, ptr %to
  %change = xor i64 %new, %old
  %differ.next = or i64 %differ, %change
  %i.next = add i64 %i, 1
  %keeping = icmp ult i64 %i.next, 16
  br i1 %keeping, label %keep, label %compare
compare:
  %placed = load i64, ptr @placed
  %same = icmp eq i64 %differ.next, 0
  %all.placed = icmp eq i64 %placed, %started
  %done = and i1 %same, %all.placed
  br i1 %done, label %end, label %set
set:
  store i64 %started, ptr @placed
  br label %helper
helper:
  %h = phi i64 [ 0, %set ], [ %h.next, %next ]
  %more = icmp slt i64 %h, %started
  br i1 %more, label %next, label %end
next:
  %slot = getelementptr i64, ptr @handles, i64 %h
  %handle = load i64, ptr %slot
  %r = call i32 @pthread_setaffinity_np(i64 %handle, i64 128, ptr @cores)
  %h.next = add i64 %h, 1
  br label %helper
end:
  ret void
}
