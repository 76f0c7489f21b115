; The pool of threads: how a loop is handed over is told in pool.py. $$NAME is filled in when it is compiled.
; The job: written by the caller before @word, read by the helpers that take part.
@word = internal global i64 0, align 128        ; generation << 16 | helpers that take part
@body = internal global ptr null
@context = internal global ptr null
@n = internal global i64 0
@remaining = internal global i64 0, align 128   ; helpers that are not done yet
@busy = internal global i64 0, align 128        ; 1 while a loop runs
@sleepers = internal global i64 0, align 128    ; helpers in or about to enter their wait
@waiting = internal global i64 0                ; 1 while the caller is in or about to enter its wait
@started = internal global i64 0                ; helpers that exist, numbered from 1
@handles = internal global [$MAX_THREADS x i64] zeroinitializer  ; their threads
@placed = internal global i64 0                 ; how many of them have been told on which cores to run,
@cores = internal global [16 x i64] zeroinitializer  ; and these
@mutex = internal global [128 x i8] zeroinitializer, align 128
@wake = internal global [128 x i8] zeroinitializer, align 128
@done = internal global [128 x i8] zeroinitializer, align 128

declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_detach(i64)
declare i32 @pthread_attr_init(ptr)
declare i32 @pthread_attr_setstacksize(ptr, i64)
declare i32 @pthread_sigmask(i32, ptr, ptr)
declare i32 @sigfillset(ptr)
declare i32 @pthread_mutex_init(ptr, ptr)
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @pthread_cond_init(ptr, ptr)
declare i32 @pthread_cond_wait(ptr, ptr)
declare i32 @pthread_cond_signal(ptr)
declare i32 @pthread_cond_broadcast(ptr)
declare i64 @llvm.smin.i64(i64, i64)
$DECLARE_PAUSE
$PLACE
; Before the first loop, and in the child of a fork, where no helper lives on.
define void @dojo_pool_reset() {
  %a = call i32 @pthread_mutex_init(ptr @mutex, ptr null)
  %b = call i32 @pthread_cond_init(ptr @wake, ptr null)
  %c = call i32 @pthread_cond_init(ptr @done, ptr null)
  store i64 0, ptr @remaining
  store i64 0, ptr @sleepers
  store i64 0, ptr @waiting
  store i64 0, ptr @started
  store i64 0, ptr @placed
  store atomic i64 0, ptr @busy seq_cst, align 8
  ret void
}

; Chunk `part` of `parts`: the first n % parts chunks have one iteration more.
define internal void @chunk(ptr %body, ptr %context, i64 %n, i64 %part, i64 %parts) {
  %each = udiv i64 %n, %parts
  %rest = urem i64 %n, %parts
  %next = add i64 %part, 1
  %more = call i64 @llvm.smin.i64(i64 %part, i64 %rest)
  %more.next = call i64 @llvm.smin.i64(i64 %next, i64 %rest)
  %lo = mul i64 %each, %part
  %hi = mul i64 %each, %next
  %from = add i64 %lo, %more
  %to = add i64 %hi, %more.next
  call void %body(ptr %context, i64 %from, i64 %to)
  ret void
}

; A helper. `birth` is the generation at its start << 16 | its number.
define internal ptr @helper(ptr %birth) {
entry:
  %bits = ptrtoint ptr %birth to i64
  %number = and i64 %bits, 65535
  %first = lshr i64 %bits, 16
  br label %idle

idle:
  %last = phi i64 [ %first, %entry ], [ %generation, %idle.next ]
  br label %spin
spin:
  %i = phi i64 [ 0, %idle ], [ %i.next, %spin.again ]
  %seen = load atomic i64, ptr @word seq_cst, align 8
  %seen.generation = lshr i64 %seen, 16
  %same = icmp eq i64 %seen.generation, %last
  br i1 %same, label %spin.again, label %awake
spin.again:
  $PAUSE
  %i.next = add i64 %i, 1
  %spinning = icmp ult i64 %i.next, $SPINS
  br i1 %spinning, label %spin, label %sleep

sleep:
  %lock = call i32 @pthread_mutex_lock(ptr @mutex)
  %s0 = atomicrmw add ptr @sleepers, i64 1 seq_cst
  br label %doze
doze:
  %dozed = load atomic i64, ptr @word seq_cst, align 8
  %dozed.generation = lshr i64 %dozed, 16
  %still = icmp eq i64 %dozed.generation, %last
  br i1 %still, label %wait, label %risen
wait:
  %w = call i32 @pthread_cond_wait(ptr @wake, ptr @mutex)
  br label %doze
risen:
  %s1 = atomicrmw sub ptr @sleepers, i64 1 seq_cst
  %unlock = call i32 @pthread_mutex_unlock(ptr @mutex)
  br label %awake

awake:
  %word = phi i64 [ %seen, %spin ], [ %dozed, %risen ]
  %generation = lshr i64 %word, 16
  %helpers = and i64 %word, 65535
  %out = icmp ugt i64 %number, %helpers
  br i1 %out, label %idle.next, label %work
work:
  %body = load ptr, ptr @body
  %context = load ptr, ptr @context
  %n = load i64, ptr @n
  %parts = add i64 %helpers, 1
  call void @chunk(ptr %body, ptr %context, i64 %n, i64 %number, i64 %parts)
  %left = atomicrmw sub ptr @remaining, i64 1 seq_cst
  %last.one = icmp eq i64 %left, 1
  %caller = load atomic i64, ptr @waiting seq_cst, align 8
  %asleep = icmp ne i64 %caller, 0
  %signal = and i1 %last.one, %asleep
  br i1 %signal, label %call, label %idle.next
call:
  %l = call i32 @pthread_mutex_lock(ptr @mutex)
  %s = call i32 @pthread_cond_signal(ptr @done)
  %u = call i32 @pthread_mutex_unlock(ptr @mutex)
  br label %idle.next
idle.next:
  br label %idle
}

; Sees to it that `wanted` helpers exist, if the system lets it, and says how many of them do. The helpers
; block every signal: handlers stay the business of the program's own threads.
define internal i64 @ensure(i64 %wanted) {
entry:
  %have = load i64, ptr @started
  %enough = icmp sge i64 %have, %wanted
  br i1 %enough, label %end, label %prepare
prepare:
  %attributes = alloca [256 x i8], align 16
  %all = alloca [256 x i8], align 16
  %old = alloca [256 x i8], align 16
  %thread = alloca i64
  %a = call i32 @pthread_attr_init(ptr %attributes)
  %b = call i32 @pthread_attr_setstacksize(ptr %attributes, i64 $STACK_BYTES)
  %c = call i32 @sigfillset(ptr %all)
  %d = call i32 @pthread_sigmask(i32 $SIG_SETMASK, ptr %all, ptr %old)
  %word = load atomic i64, ptr @word seq_cst, align 8
  %generation = and i64 %word, -65536
  br label %start
start:
  %count = phi i64 [ %have, %prepare ], [ %number, %detach ]
  %number = add i64 %count, 1
  %bits = or i64 %generation, %number
  %birth = inttoptr i64 %bits to ptr
  %failed = call i32 @pthread_create(ptr %thread, ptr %attributes, ptr @helper, ptr %birth)
  %ok = icmp eq i32 %failed, 0
  br i1 %ok, label %detach, label %restore
detach:
  %handle = load i64, ptr %thread
  %e = call i32 @pthread_detach(i64 %handle)
  %slot = getelementptr i64, ptr @handles, i64 %count
  store i64 %handle, ptr %slot
  store i64 %number, ptr @started
  %more = icmp slt i64 %number, %wanted
  br i1 %more, label %start, label %restore
restore:
  %g = call i32 @pthread_sigmask(i32 $SIG_SETMASK, ptr %old, ptr null)
  br label %end
end:
  %existing = load i64, ptr @started
  %taken = call i64 @llvm.smin.i64(i64 %existing, i64 %wanted)
  ret i64 %taken
}

; Runs body(context, from, to) over chunks of [0, n) on at most `limit` threads.
define void @dojo_pool_run(ptr %body, ptr %context, i64 %n, i64 %limit) {
entry:
  %some = icmp sgt i64 %n, 0
  br i1 %some, label %count, label %end
count:
  %parts.wanted = call i64 @llvm.smin.i64(i64 %n, i64 %limit)
  %wanted = sub i64 %parts.wanted, 1
  %several = icmp sgt i64 %wanted, 0
  br i1 %several, label %claim, label %alone
claim:
  %claimed = cmpxchg ptr @busy, i64 0, i64 1 seq_cst seq_cst
  %free = extractvalue { i64, i1 } %claimed, 1
  br i1 %free, label %share, label %alone
alone:
  call void %body(ptr %context, i64 0, i64 %n)
  br label %end

share:
  %helpers = call i64 @ensure(i64 %wanted)
  %parts = add i64 %helpers, 1
  %placed = load i64, ptr @placed
  %existing = load i64, ptr @started
  %new = icmp ne i64 %placed, %existing
  %dozing = load atomic i64, ptr @sleepers seq_cst, align 8
  %some.doze = icmp sgt i64 %dozing, 0
  %to.place = or i1 %new, %some.doze
  br i1 %to.place, label %place, label %post
place:
  call void @place()
  br label %post
post:
  store ptr %body, ptr @body
  store ptr %context, ptr @context
  store i64 %n, ptr @n
  store atomic i64 %helpers, ptr @remaining seq_cst, align 8
  %word = load atomic i64, ptr @word seq_cst, align 8
  %next = add i64 %word, 65536
  %generation = and i64 %next, -65536
  %posted = or i64 %generation, %helpers
  store atomic i64 %posted, ptr @word seq_cst, align 8
  %sleepers = load atomic i64, ptr @sleepers seq_cst, align 8
  %asleep = icmp sgt i64 %sleepers, 0
  br i1 %asleep, label %rouse, label %own
rouse:
  %l = call i32 @pthread_mutex_lock(ptr @mutex)
  %b = call i32 @pthread_cond_broadcast(ptr @wake)
  %u = call i32 @pthread_mutex_unlock(ptr @mutex)
  br label %own
own:
  call void @chunk(ptr %body, ptr %context, i64 %n, i64 0, i64 %parts)
  br label %spin
spin:
  %i = phi i64 [ 0, %own ], [ %i.next, %spin.again ]
  %left = load atomic i64, ptr @remaining seq_cst, align 8
  %all.done = icmp eq i64 %left, 0
  br i1 %all.done, label %finish, label %spin.again
spin.again:
  $PAUSE
  %i.next = add i64 %i, 1
  %spinning = icmp ult i64 %i.next, $SPINS
  br i1 %spinning, label %spin, label %sleep
sleep:
  %lock = call i32 @pthread_mutex_lock(ptr @mutex)
  store atomic i64 1, ptr @waiting seq_cst, align 8
  br label %doze
doze:
  %left.now = load atomic i64, ptr @remaining seq_cst, align 8
  %done.now = icmp eq i64 %left.now, 0
  br i1 %done.now, label %risen, label %wait
wait:
  %w = call i32 @pthread_cond_wait(ptr @done, ptr @mutex)
  br label %doze
risen:
  store atomic i64 0, ptr @waiting seq_cst, align 8
  %unlock = call i32 @pthread_mutex_unlock(ptr @mutex)
  br label %finish
finish:
  store atomic i64 0, ptr @busy seq_cst, align 8
  br label %end
end:
  ret void
}
