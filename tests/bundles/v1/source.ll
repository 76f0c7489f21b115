; kernel relu(N)
; in  x: f32[N]
; out y: f32[N]
; 
; (N + 15) // 16 @i
; | min(16, N - 16*{i}) : v @i_in
; | | y[16*{i} + {i_in}] = max(x[16*{i} + {i_in}], 0)

define i32 @"relu"(ptr noalias readonly nocapture nofree align 4 %.a0, ptr noalias nocapture nofree align 4 %.a1, i64 %.s0) #0 {
.entry:
  %"status" = alloca i32
  store i32 0, ptr %"status"
  br label %.start
.start:
  %v.0 = add i64 %.s0, 15
  %v.1 = udiv i64 %v.0, 16
  ; (N + 15) // 16 @i
  br label %.loop.0
.loop.0:
  %"i" = phi i64 [ 0, %.start ], [ %"i.next", %.done.4 ]
  %v.2 = icmp slt i64 %"i", %v.1
  br i1 %v.2, label %.body.1, label %.done.2
.body.1:
  %v.3 = mul i64 16, %"i"
  %v.4 = sub i64 %.s0, %v.3
  %v.5 = call i64 @llvm.smin.i64(i64 16, i64 %v.4)
  %v.6 = icmp sgt i64 %v.5, 0
  br i1 %v.6, label %.then.3, label %.done.4
.then.3:
  ; min(16, N - 16*{i}) : v @i_in
  %v.7 = icmp sge i64 %v.5, 16
  br i1 %v.7, label %.then.5, label %.else.7
.then.5:
  %v.8 = mul i64 16, %"i"
  %v.9 = getelementptr inbounds float, ptr %.a0, i64 %v.8
  %v.10 = load <16 x float>, ptr %v.9, align 4
  %v.11 = fcmp ogt <16 x float> splat (float 0x0000000000000000), %v.10
  %v.12 = select <16 x i1> %v.11, <16 x float> splat (float 0x0000000000000000), <16 x float> %v.10
  %v.13 = call <16 x float> @llvm.fabs.v16f32(<16 x float> %v.12)
  %v.14 = mul i64 16, %"i"
  %v.15 = getelementptr inbounds float, ptr %.a1, i64 %v.14
  store <16 x float> %v.13, ptr %v.15, align 4
  br label %.done.6
.else.7:
  %v.16 = trunc i64 %v.5 to i8
  %v.17 = insertelement <16 x i8> poison, i8 %v.16, i64 0
  %v.18 = shufflevector <16 x i8> %v.17, <16 x i8> poison, <16 x i32> zeroinitializer
  %v.19 = icmp ult <16 x i8> <i8 0, i8 1, i8 2, i8 3, i8 4, i8 5, i8 6, i8 7, i8 8, i8 9, i8 10, i8 11, i8 12, i8 13, i8 14, i8 15>, %v.18
  %v.20 = mul i64 16, %"i"
  %v.21 = getelementptr float, ptr %.a0, i64 %v.20
  %v.22 = call <16 x float> @llvm.masked.load.v16f32.p0(ptr %v.21, i32 4, <16 x i1> %v.19, <16 x float> zeroinitializer)
  %v.23 = fcmp ogt <16 x float> splat (float 0x0000000000000000), %v.22
  %v.24 = select <16 x i1> %v.23, <16 x float> splat (float 0x0000000000000000), <16 x float> %v.22
  %v.25 = call <16 x float> @llvm.fabs.v16f32(<16 x float> %v.24)
  %v.26 = mul i64 16, %"i"
  %v.27 = getelementptr float, ptr %.a1, i64 %v.26
  call void @llvm.masked.store.v16f32.p0(<16 x float> %v.25, ptr %v.27, i32 4, <16 x i1> %v.19)
  br label %.done.6
.done.6:
  br label %.done.4
.done.4:
  %"i.next" = add nsw i64 %"i", 1
  br label %.loop.0
.done.2:
  %v.28 = load i32, ptr %"status"
  ret i32 %v.28
}

declare <16 x float> @llvm.fabs.v16f32(<16 x float>)
declare <16 x float> @llvm.masked.load.v16f32.p0(ptr, i32, <16 x i1>, <16 x float>)
declare i64 @llvm.smin.i64(i64, i64)
declare void @llvm.masked.store.v16f32.p0(<16 x float>, ptr, i32, <16 x i1>)
attributes #0 = { nounwind "prefer-vector-width"="512" }
!0 = !{i32 1}
!1 = !{!"branch_weights", i32 1, i32 100000}
