; malloc and free for the temporaries of kernels: what they mean is told in blocks.py. $$NAME is filled in when it is
; compiled. A block begins with its bytes, 16 before what the caller has.
@slots = internal global [$SLOTS x ptr] zeroinitializer, align 128
@next = internal global i64 0, align 128        ; how many blocks took the place of another one
@held = internal global i64 0, align 128        ; the bytes of the blocks in the slots

declare noalias ptr @malloc(i64)
declare void @free(ptr)

define ptr @dojo_allocate(i64 %asked) {
entry:
  %small = icmp ult i64 %asked, $LEAST
  br i1 %small, label %fresh, label %slot
slot:
  %i = phi i64 [ 0, %entry ], [ %i.next, %again ]
  %at = getelementptr ptr, ptr @slots, i64 %i
  %seen = load atomic ptr, ptr %at monotonic, align 8
  %empty = icmp eq ptr %seen, null
  br i1 %empty, label %again, label %take
take:
  %block = atomicrmw xchg ptr %at, ptr null acq_rel, align 8
  %gone = icmp eq ptr %block, null
  br i1 %gone, label %again, label %measure
measure:
  %size = load i64, ptr %block
  %most = shl i64 %asked, 1
  %fits = icmp uge i64 %size, %asked
  %near = icmp ule i64 %size, %most
  %good = and i1 %fits, %near
  br i1 %good, label %found, label %back
found:
  %was = atomicrmw sub ptr @held, i64 %size monotonic, align 8
  %room = getelementptr i8, ptr %block, i64 16
  ret ptr %room
back:
  %put = cmpxchg ptr %at, ptr null, ptr %block acq_rel monotonic, align 8
  %done = extractvalue { ptr, i1 } %put, 1
  br i1 %done, label %again, label %drop
drop:                                           ; another thread gave its block back in the meantime
  %dropped = atomicrmw sub ptr @held, i64 %size monotonic, align 8
  call void @free(ptr %block)
  br label %again
again:
  %i.next = add i64 %i, 1
  %more = icmp ult i64 %i.next, $SLOTS
  br i1 %more, label %slot, label %fresh
fresh:
  %sane = icmp ult i64 %asked, 4611686018427387904
  br i1 %sane, label %ask, label %none
ask:
  %bytes = add i64 %asked, 16
  %first = call noalias ptr @malloc(i64 %bytes)
  %failed = icmp eq ptr %first, null
  br i1 %failed, label %retry, label %some
retry:                                          ; the system may have as much without what is kept
  call void @let_go_of_others(i64 0, i64 0, i64 0)
  %second = call noalias ptr @malloc(i64 %bytes)
  %failed.again = icmp eq ptr %second, null
  br i1 %failed.again, label %none, label %some
some:
  %new = phi ptr [ %first, %ask ], [ %second, %retry ]
  store i64 %asked, ptr %new
  %begin = getelementptr i8, ptr %new, i64 16
  ret ptr %begin
none:
  ret ptr null
}

define void @dojo_free(ptr %given) {
entry:
  %nothing = icmp eq ptr %given, null
  br i1 %nothing, label %end, label %block
block:
  %own = getelementptr i8, ptr %given, i64 -16
  %size = load i64, ptr %own
  %small = icmp ult i64 %size, $LEAST
  %large = icmp ugt i64 %size, $MOST
  %away = or i1 %small, %large
  br i1 %away, label %release, label %keep
release:
  call void @free(ptr %own)
  br label %end
keep:
  %held.before = atomicrmw add ptr @held, i64 %size monotonic, align 8
  br label %slot
slot:
  %i = phi i64 [ 0, %keep ], [ %i.next, %taken ]
  %at = getelementptr ptr, ptr @slots, i64 %i
  %seen = load atomic ptr, ptr %at monotonic, align 8
  %empty = icmp eq ptr %seen, null
  br i1 %empty, label %try, label %taken
try:
  %put = cmpxchg ptr %at, ptr null, ptr %own acq_rel monotonic, align 8
  %done = extractvalue { ptr, i1 } %put, 1
  br i1 %done, label %kept, label %taken
taken:
  %i.next = add i64 %i, 1
  %more = icmp ult i64 %i.next, $SLOTS
  br i1 %more, label %slot, label %full
full:                                           ; in the place of another one, of each in turn
  %count = atomicrmw add ptr @next, i64 1 monotonic, align 8
  %number = urem i64 %count, $SLOTS
  %turn = getelementptr ptr, ptr @slots, i64 %number
  %old = atomicrmw xchg ptr %turn, ptr %own acq_rel, align 8
  call void @let_go(ptr %old)
  br label %kept
kept:
  %mine = phi i64 [ %i, %try ], [ %number, %full ]
  call void @let_go_of_others(i64 %mine, i64 1, i64 $MOST)
  br label %end
end:
  ret void
}

; Gives the blocks in the slots back, from so many behind `count` on, while more than `most` bytes are held.
define internal void @let_go_of_others(i64 %count, i64 %from, i64 %most) {
entry:
  br label %others
others:
  %k = phi i64 [ %from, %entry ], [ %k.next, %other ]
  %now = load atomic i64, ptr @held monotonic, align 8
  %over = icmp ugt i64 %now, %most
  %left = icmp ult i64 %k, $SLOTS
  %on = and i1 %over, %left
  br i1 %on, label %other, label %end
other:
  %older = add i64 %count, %k
  %number = urem i64 %older, $SLOTS
  %at = getelementptr ptr, ptr @slots, i64 %number
  %oldest = atomicrmw xchg ptr %at, ptr null acq_rel, align 8
  call void @let_go(ptr %oldest)
  %k.next = add i64 %k, 1
  br label %others
end:
  ret void
}

; Gives a block that was in a slot back to the process.
define internal void @let_go(ptr %block) {
  %none = icmp eq ptr %block, null
  br i1 %none, label %end, label %some
some:
  %size = load i64, ptr %block
  %was = atomicrmw sub ptr @held, i64 %size monotonic, align 8
  call void @free(ptr %block)
  br label %end
end:
  ret void
}
