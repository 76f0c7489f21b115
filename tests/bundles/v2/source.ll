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
  ; min(16, N - 16*{i}) : v @i_in
  %v.3 = mul i64 16, %"i"
  %v.4 = sub i64 %.s0, %v.3
  %v.5 = call i64 @llvm.smin.i64(i64 16, i64 %v.4)
  %v.6 = icmp sge i64 %v.5, 16
  br i1 %v.6, label %.then.3, label %.else.5
.then.3:
  %v.7 = mul i64 16, %"i"
  %v.8 = getelementptr inbounds float, ptr %.a0, i64 %v.7
  %v.9 = load <16 x float>, ptr %v.8, align 4
  %v.10 = fcmp ogt <16 x float> splat (float 0x0000000000000000), %v.9
  %v.11 = select <16 x i1> %v.10, <16 x float> splat (float 0x0000000000000000), <16 x float> %v.9
  %v.12 = call <16 x float> @llvm.fabs.v16f32(<16 x float> %v.11)
  %v.13 = mul i64 16, %"i"
  %v.14 = getelementptr inbounds float, ptr %.a1, i64 %v.13
  store <16 x float> %v.12, ptr %v.14, align 4
  br label %.done.4
.else.5:
  %v.15 = mul i64 16, %"i"
  %v.16 = sub i64 %.s0, %v.15
  %v.17 = call i64 @llvm.smin.i64(i64 16, i64 %v.16)
  %v.18 = trunc i64 %v.17 to i8
  %v.19 = insertelement <16 x i8> poison, i8 %v.18, i64 0
  %v.20 = shufflevector <16 x i8> %v.19, <16 x i8> poison, <16 x i32> zeroinitializer
  %v.21 = icmp ult <16 x i8> <i8 0, i8 1, i8 2, i8 3, i8 4, i8 5, i8 6, i8 7, i8 8, i8 9, i8 10, i8 11, i8 12, i8 13, i8 14, i8 15>, %v.20
  %v.22 = mul i64 16, %"i"
  %v.23 = getelementptr float, ptr %.a0, i64 %v.22
  %v.24 = call <16 x float> @llvm.masked.load.v16f32.p0(ptr %v.23, i32 4, <16 x i1> %v.21, <16 x float> zeroinitializer)
  %v.25 = fcmp ogt <16 x float> splat (float 0x0000000000000000), %v.24
  %v.26 = select <16 x i1> %v.25, <16 x float> splat (float 0x0000000000000000), <16 x float> %v.24
  %v.27 = call <16 x float> @llvm.fabs.v16f32(<16 x float> %v.26)
  %v.28 = mul i64 16, %"i"
  %v.29 = getelementptr float, ptr %.a1, i64 %v.28
  call void @llvm.masked.store.v16f32.p0(<16 x float> %v.27, ptr %v.29, i32 4, <16 x i1> %v.21)
  br label %.done.4
.done.4:
  %"i.next" = add nsw i64 %"i", 1
  br label %.loop.0
.done.2:
  %v.30 = load i32, ptr %"status"
  ret i32 %v.30
}

declare <16 x float> @llvm.fabs.v16f32(<16 x float>)
declare <16 x float> @llvm.masked.load.v16f32.p0(ptr, i32, <16 x i1>, <16 x float>)
declare i64 @llvm.smin.i64(i64, i64)
declare void @llvm.masked.store.v16f32.p0(<16 x float>, ptr, i32, <16 x i1>)
attributes #0 = { nounwind "prefer-vector-width"="512" }
!0 = !{i32 1}
!1 = !{!"branch_weights", i32 1, i32 100000}
