; Where the system cannot say which core a thread runs on, helpers are left where it puts them.

define internal void @place() {
  ret void
}
