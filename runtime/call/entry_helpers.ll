define internal i64 @fits(ptr %state, ptr %object, ptr %want, i64 %rank, i64 %writes, i64 %align) {
entry:
  %tensor = alloca [48 x i8], align 8
  %type.at = getelementptr i8, ptr %object, i64 8
  %type = load i64, ptr %type.at
  %want.type.at = getelementptr i64, ptr %want, i64 1
  %want.type = load i64, ptr %want.type.at
  %same.type = icmp eq i64 %type, %want.type
  br i1 %same.type, label %kinds, label %no
kinds:
  %want.element.at = getelementptr i64, ptr %want, i64 2
  %want.element = load i64, ptr %want.element.at
  %kind = load i64, ptr %want
  %is.numpy = icmp eq i64 %kind, 0
  br i1 %is.numpy, label %numpy, label %dlpack
numpy:
  %flags.at = getelementptr i8, ptr %object, i64 64
  %flags = load i32, ptr %flags.at
  %writable.bit = and i32 %flags, 1024
  %writable = icmp ne i32 %writable.bit, 0
  %only.read = icmp eq i64 %writes, 0
  %may = or i1 %writable, %only.read
  br i1 %may, label %numpy.element, label %no
numpy.element:
  %np.element.at = getelementptr i8, ptr %object, i64 56
  %np.element = load i64, ptr %np.element.at
  %np.same = icmp eq i64 %np.element, %want.element
  br i1 %np.same, label %numpy.layout, label %no
numpy.layout:
  %np.data.at = getelementptr i8, ptr %object, i64 16
  %np.data = load i64, ptr %np.data.at
  %np.rank.at = getelementptr i8, ptr %object, i64 24
  %np.rank = load i32, ptr %np.rank.at
  %np.shape.at = getelementptr i8, ptr %object, i64 32
  %np.shape = load ptr, ptr %np.shape.at
  %np.strides.at = getelementptr i8, ptr %object, i64 40
  %np.strides = load ptr, ptr %np.strides.at
  br label %layout
dlpack:
  %from = load ptr, ptr @FROM
  %status = call i32 %from(ptr %object, ptr %tensor)
  %seen = icmp eq i32 %status, 0
  br i1 %seen, label %device, label %failed
device:
  %device.at = getelementptr i8, ptr %tensor, i64 8
  %device.type = load i32, ptr %device.at
  %on.cpu = icmp eq i32 %device.type, 1
  br i1 %on.cpu, label %dl.element, label %no
dl.element:
  %element.at = getelementptr i8, ptr %tensor, i64 20
  %element = load i32, ptr %element.at
  %wide = zext i32 %element to i64
  %dl.same = icmp eq i64 %wide, %want.element
  br i1 %dl.same, label %gradient, label %no
gradient:
  %name = load ptr, ptr @REQUIRES_GRAD
  %get = load ptr, ptr @GETATTR
  %requires = call ptr %get(ptr %object, ptr %name)
  %got.requires = icmp ne ptr %requires, null
  br i1 %got.requires, label %asked, label %failed
asked:
  %decref = load ptr, ptr @DECREF
  call void %decref(ptr %requires)
  %true = load ptr, ptr @TRUE
  %does = icmp eq ptr %requires, %true
  br i1 %does, label %grad.mode, label %negative
grad.mode:
  %enabled.function = load ptr, ptr @ENABLED
  %call0 = load ptr, ptr @CALL0
  %enabled = call ptr %call0(ptr %enabled.function)
  %got.enabled = icmp ne ptr %enabled, null
  br i1 %got.enabled, label %grad.known, label %failed
grad.known:
  call void %decref(ptr %enabled)
  %false.mode = load ptr, ptr @FALSE
  %disabled = icmp eq ptr %enabled, %false.mode
  br i1 %disabled, label %negative, label %no
negative:
  %neg.function = load ptr, ptr @IS_NEG
  %call1 = load ptr, ptr @CALL1
  %neg = call ptr %call1(ptr %neg.function, ptr %object)
  %got.neg = icmp ne ptr %neg, null
  br i1 %got.neg, label %neg.known, label %failed
neg.known:
  call void %decref(ptr %neg)
  %false = load ptr, ptr @FALSE
  %plain = icmp eq ptr %neg, %false
  br i1 %plain, label %dl.layout, label %no
dl.layout:
  %dl.data = load i64, ptr %tensor
  %dl.rank.at = getelementptr i8, ptr %tensor, i64 16
  %dl.rank = load i32, ptr %dl.rank.at
  %dl.shape.at = getelementptr i8, ptr %tensor, i64 24
  %dl.shape = load ptr, ptr %dl.shape.at
  %dl.strides.at = getelementptr i8, ptr %tensor, i64 32
  %dl.strides = load ptr, ptr %dl.strides.at
  %dl.offset.at = getelementptr i8, ptr %tensor, i64 40
  %dl.offset = load i64, ptr %dl.offset.at
  %dl.start = add i64 %dl.data, %dl.offset
  %no.strides = icmp eq ptr %dl.strides, null
  %has.rank = icmp ne i64 %rank, 0
  %unknown = and i1 %no.strides, %has.rank
  br i1 %unknown, label %no, label %layout
layout:
  %address = phi i64 [ %np.data, %numpy.layout ], [ %dl.start, %dl.layout ]
  %its.rank = phi i32 [ %np.rank, %numpy.layout ], [ %dl.rank, %dl.layout ]
  %shape = phi ptr [ %np.shape, %numpy.layout ], [ %dl.shape, %dl.layout ]
  %strides = phi ptr [ %np.strides, %numpy.layout ], [ %dl.strides, %dl.layout ]
  %rank.wide = sext i32 %its.rank to i64
  %same.rank = icmp eq i64 %rank.wide, %rank
  br i1 %same.rank, label %dims, label %no
dims:
  %i = phi i64 [ 0, %layout ], [ %i.next, %dim.same ]
  %more = icmp slt i64 %i, %rank
  br i1 %more, label %dim, label %memory
dim:
  %extent.at = getelementptr i64, ptr %shape, i64 %i
  %extent = load i64, ptr %extent.at
  %want.i = add i64 %i, 3
  %want.extent.at = getelementptr i64, ptr %want, i64 %want.i
  %want.extent = load i64, ptr %want.extent.at
  %same.extent = icmp eq i64 %extent, %want.extent
  br i1 %same.extent, label %dim.stride, label %no
dim.stride:
  %stride.at = getelementptr i64, ptr %strides, i64 %i
  %stride = load i64, ptr %stride.at
  %want.s = add i64 %want.i, %rank
  %want.stride.at = getelementptr i64, ptr %want, i64 %want.s
  %want.stride = load i64, ptr %want.stride.at
  %same.stride = icmp eq i64 %stride, %want.stride
  br i1 %same.stride, label %dim.same, label %no
dim.same:
  %i.next = add i64 %i, 1
  br label %dims
memory:
  %twice = shl i64 %rank, 1
  %span.i = add i64 %twice, 3
  %span.at = getelementptr i64, ptr %want, i64 %span.i
  %span = load i64, ptr %span.at
  %empty = icmp eq i64 %span, 0
  %rest = urem i64 %address, %align
  %aligned = icmp eq i64 %rest, 0
  %somewhere = icmp ne i64 %address, 0
  %good = and i1 %aligned, %somewhere
  %fine = or i1 %empty, %good
  br i1 %fine, label %yes, label %no
yes:
  ret i64 %address
failed:
  %clear = load ptr, ptr @CLEAR
  call void %clear()
  br label %no
no:
  ret i64 -1
}

define internal i1 @overlap(i64 %a, i64 %a.bytes, i64 %b, i64 %b.bytes) {
  %a.end = add i64 %a, %a.bytes
  %b.end = add i64 %b, %b.bytes
  %before = icmp ult i64 %a, %b.end
  %after = icmp ult i64 %b, %a.end
  %both = and i1 %before, %after
  ret i1 %both
}
