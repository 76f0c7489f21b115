define ptr @entry(ptr %self, ptr %args, i64 %count) {
  %data.at = getelementptr i8, ptr %self, i64 16
  %state = load ptr, ptr %data.at
  %busy.at = getelementptr i64, ptr %state, i64 1
  %busy = load i64, ptr %busy.at
  %more = add i64 %busy, 1
  store i64 %more, ptr %busy.at
  %result = call ptr @work(ptr %state, ptr %self, ptr %args, i64 %count)
  %busy.now = load i64, ptr %busy.at
  %less = sub i64 %busy.now, 1
  store i64 %less, ptr %busy.at
  ret ptr %result
}
