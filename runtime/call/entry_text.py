"""The LLVM IR of a quick call: a function in the form of a CPython method (METH_FASTCALL) that holds the arguments
against the signatures that were checked before, and calls the kernel where one fits.

It trusts nothing but what it reads: the type, element type, shape, strides and writability of every array and its
address now, whose alignment and overlaps it looks at again. Whatever is not as it was remembered, and every scalar
out of range, is answered by False: the checks in Python then decide, and speak. All that it needs of Python is in
the words of its state, so the module has no symbols to resolve.
"""

from __future__ import annotations

from importlib.resources import files

from dojoir.ir.dtypes import DType
from dojoir.ir.nodes import Buffer
from dojoir.runtime.call.scalars import takes_value
from dojoir.support.frozen import dataclass

STATE = (
    "head", "busy", "True", "False", "None", "float", "int", "np_float32", "np_float64", "np_int32", "np_int64",
    "Py_IncRef", "Py_DecRef", "PyErr_Clear", "PyLong_FromLong", "PyFloat_AsDouble", "PyLong_AsLongLongAndOverflow",
    "PyObject_GetAttr", "PyObject_CallOneArg", "PyObject_CallNoArgs", "PyEval_SaveThread", "PyEval_RestoreThread",
    "from_tensor", "requires_grad", "is_grad_enabled", "is_neg", "function",
)  # fmt: skip
"""The words of a state: the first known signature, how many calls are at work, and objects and functions."""

WORD = {name: number for number, name in enumerate(STATE)}

NUMPY, TENSOR = 0, 1
"""The kinds of arrays that a known signature may hold."""

_PLACES = {
    "FROM": "from_tensor", "REQUIRES_GRAD": "requires_grad", "GETATTR": "PyObject_GetAttr", "DECREF": "Py_DecRef",
    "TRUE": "True", "FALSE": "False", "ENABLED": "is_grad_enabled", "CALL0": "PyObject_CallNoArgs",
    "CALL1": "PyObject_CallOneArg", "IS_NEG": "is_neg", "CLEAR": "PyErr_Clear",
}  # fmt: skip


def _source(name: str) -> str:
    """The text of one of the files of LLVM IR beside this one."""
    return files(__package__).joinpath(f"{name}.ll").read_text(encoding="utf-8")


def _helpers() -> str:
    """The helper functions, with what they load from the state written out."""
    text = _source("entry_helpers")
    for place, word in _PLACES.items():
        text = text.replace(f"ptr @{place}\n", f"ptr getelementptr_{word}\n")
    lines: list[str] = []
    for line in text.splitlines():
        name, found, word = line.partition("ptr getelementptr_")
        if found:
            at = f"%at.{len(lines)}"
            lines.append(f"  {at} = getelementptr i64, ptr %state, i64 {WORD[word]}")
            lines.append(f"{name}ptr {at}")
        else:
            lines.append(line)
    return "\n".join(lines)


@dataclass(frozen=True)
class QuickCallKey:
    """The key of the text of a quick call: of each argument its role, type and rank; how many sizes."""

    arguments: tuple[tuple[bool, DType, int, int, bool, int], ...]
    """For each: passed by value; element type; rank; alignment; written; how many strides the call passes."""
    sizes: int

    @staticmethod
    def of(arguments: tuple[Buffer, ...], sizes: int) -> QuickCallKey:
        return QuickCallKey(
            tuple(
                (takes_value(b), b.dtype, len(b.dims), b.align or b.dtype.itemsize, b.role != "in", len(b.steps))
                for b in arguments
            ),
            sizes,
        )

    @property
    def cells(self) -> tuple[int, ...]:
        """The arguments that are floats narrower than f32: each has three words behind the state's, which hold
        whether it was seen, the last value, and its bits."""
        return tuple(
            i for i, (value, dtype, *_) in enumerate(self.arguments) if value and dtype.is_float and dtype.bits < 32
        )

    @property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """Arrays, by their numbers, that must not share an element: one of each pair is written."""
        written = [writes for value, _, _, _, writes, _ in self.arguments if not value]
        every = range(len(written))
        return tuple((a, b) for a in every for b in every[a + 1 :] if written[a] or written[b])

    @property
    def strided(self) -> tuple[bool, ...]:
        """Of each array whether the call passes strides of it."""
        return tuple(steps > 0 for value, *_, steps in self.arguments if not value)

    def may_interleave(self, pair: tuple[int, int]) -> bool:
        """Whether arrays may lie in one another's gaps: a known signature has three words for such a pair, how
        long a row of each is and how far apart rows are, in bytes (`overlap.are_beside`)."""
        return any(self.strided[n] for n in pair)


class _EntryWriter:
    def __init__(self, form: QuickCallKey) -> None:
        self.form = form
        self.lines: list[str] = []
        self.number = 0

    def add(self, line: str) -> None:
        self.lines.append(f"  {line}")

    def value(self, code: str) -> str:
        self.number += 1
        self.add(f"%v{self.number} = {code}")
        return f"%v{self.number}"

    def label(self) -> str:
        self.number += 1
        return f"b{self.number}"

    def block(self, label: str) -> None:
        self.lines.append(f"{label}:")

    def word(self, base: str, number: int, kind: str = "i64") -> str:
        at = self.value(f"getelementptr i64, ptr {base}, i64 {number}")
        return self.value(f"load {kind}, ptr {at}")

    def state(self, name: str, kind: str = "ptr") -> str:
        return self.word("%state", WORD[name], kind)

    def need(self, condition: str, otherwise: str) -> None:
        """Goes on only where the condition holds."""
        then = self.label()
        self.add(f"br i1 {condition}, label %{then}, label %{otherwise}")
        self.block(then)

    def argument(self, i: int) -> str:
        at = self.value(f"getelementptr ptr, ptr %args, i64 {i}")
        return self.value(f"load ptr, ptr {at}")

    # -- numbers -------------------------------------------------------------------------------------------
    def cases(self, i: int, names: tuple[str, ...], kind: str) -> str:
        """The number that argument `i` holds, by its type; on to `miss` for another type."""
        given = self.argument(i)
        type_at = self.value(f"getelementptr i8, ptr {given}, i64 8")
        type_of = self.value(f"load ptr, ptr {type_at}")
        done = self.label()
        found: list[str] = []
        for name in names:
            known = self.state(name)
            same = self.value(f"icmp eq ptr {type_of}, {known}")
            then, other = self.label(), self.label()
            self.add(f"br i1 {same}, label %{then}, label %{other}")
            self.block(then)
            number = self.read(given, name, kind)
            end = self.label()
            self.add(f"br label %{end}")
            self.block(end)
            self.add(f"br label %{done}")
            found.append(f"[ {number}, %{end} ]")
            self.block(other)
        self.add("br label %miss")
        self.block(done)
        return self.value(f"phi {kind} {', '.join(found)}")

    def read(self, given: str, name: str, kind: str) -> str:
        """The number in an object of the type `name`."""
        inside = self.value(f"getelementptr i8, ptr {given}, i64 16")
        match name:
            case "float":
                return self.value(f"call double {self.state('PyFloat_AsDouble')}(ptr {given})")
            case "np_float64":
                return self.value(f"load double, ptr {inside}")
            case "np_float32":
                return self.value(f"fpext float {self.value(f'load float, ptr {inside}')} to double")
            case "np_int64":
                whole = self.value(f"load i64, ptr {inside}")
            case "np_int32":
                whole = self.value(f"sext i32 {self.value(f'load i32, ptr {inside}')} to i64")
            case _:
                convert = self.state("PyLong_AsLongLongAndOverflow")
                whole = self.value(f"call i64 {convert}(ptr {given}, ptr %overflow)")
                over = self.value("load i32, ptr %overflow")
                self.need(self.value(f"icmp eq i32 {over}, 0"), "miss")
        if kind == "i64":
            return whole
        shifted = self.value(f"add i64 {whole}, {1 << 53}")  # a number that f64 holds is rounded only once
        self.need(self.value(f"icmp ule i64 {shifted}, {1 << 54}"), "miss")
        return self.value(f"sitofp i64 {whole} to double")

    def scalar(self, i: int, dtype: DType) -> str:
        """The value of a scalar as it is passed, with its type."""
        if dtype.kind == "b":
            given = self.argument(i)
            yes = self.value(f"icmp eq ptr {given}, {self.state('True')}")
            no = self.value(f"icmp eq ptr {given}, {self.state('False')}")
            self.need(self.value(f"or i1 {yes}, {no}"), "miss")
            return f"i8 zeroext {self.value(f'zext i1 {yes} to i8')}"
        if dtype.is_float:
            number = self.cases(i, ("float", "int", "np_float32", "np_float64"), "double")
            if dtype.bits == 64:
                return f"double {number}"
            if dtype.bits == 32:
                rounded = self.value(f"fptrunc double {number} to float")
                size = self.value(f"call float @llvm.fabs.f32(float {rounded})")
                infinite = self.value(f"fcmp oeq float {size}, 0x7FF0000000000000")
                given_size = self.value(f"call double @llvm.fabs.f64(double {number})")
                was = self.value(f"fcmp oeq double {given_size}, 0x7FF0000000000000")
                self.need(self.value(f"icmp eq i1 {infinite}, {was}"), "miss")
                return f"float {rounded}"
            cell = len(STATE) + 3 * self.form.cells.index(i)
            bits = self.value(f"bitcast double {number} to i64")
            self.need(self.value(f"icmp eq i64 {self.word('%state', cell)}, 1"), "miss")
            self.need(self.value(f"icmp eq i64 {self.word('%state', cell + 1)}, {bits}"), "miss")
            width = 8 * dtype.itemsize
            kept = self.word("%state", cell + 2)
            return f"i{width} zeroext {self.value(f'trunc i64 {kept} to i{width}')}"
        number = self.cases(i, ("int", "np_int64", "np_int32"), "i64")
        width, signed = dtype.bits, dtype.kind == "i"
        if not signed or width < 64:
            low = -(1 << (width - 1)) if signed else 0
            high = min(low + (1 << width), 1 << 63) - 1
            self.need(self.value(f"icmp sge i64 {number}, {low}"), "miss")
            self.need(self.value(f"icmp sle i64 {number}, {high}"), "miss")
        if width == 64:
            return f"i64 {number}"
        return f"i{width} {'signext' if signed else 'zeroext'} {self.value(f'trunc i64 {number} to i{width}')}"

    # -- the function ----------------------------------------------------------------------------------------
    def text(self) -> str:
        form = self.form
        count = len(form.arguments)
        self.add("%overflow = alloca i32")
        self.add("%given = alloca i64, i64 " + str(max(1, form.sizes)))
        self.add("%busy.at = getelementptr i64, ptr %state, i64 1")
        self.add(f"%plain = icmp eq i64 %count, {count}")
        self.add("br i1 %plain, label %no.sizes, label %sizes")
        self.block("no.sizes")
        for s in range(form.sizes):
            at = self.value(f"getelementptr i64, ptr %given, i64 {s}")
            self.add(f"store i64 -1, ptr {at}")
        self.add("br label %scalars")
        self.block("sizes")
        self.need(self.value(f"icmp eq i64 %count, {count + form.sizes + 1}"), "miss")
        self.need(self.value(f"icmp eq ptr {self.argument(count + form.sizes)}, %self"), "miss")
        for s in range(form.sizes):
            self.size(count + s, s)
        self.add("br label %scalars")
        self.block("scalars")
        passed = {i: self.scalar(i, dtype) for i, (value, dtype, *_) in enumerate(form.arguments) if value}
        first = self.state("head")
        start = self.label()
        self.add(f"br label %{start}")
        self.block(start)
        self.add("br label %known")
        self.block("known")
        self.add(f"%d = phi ptr [ {first}, %{start} ], [ %d.next, %next ]")
        self.need(self.value("icmp ne ptr %d, null"), "miss")
        word = 1
        sizes: list[str] = []
        for s in range(form.sizes):
            at = self.value(f"getelementptr i64, ptr %given, i64 {s}")
            given = self.value(f"load i64, ptr {at}")
            self.need(self.value(f"icmp eq i64 {given}, {self.word('%d', word)}"), "next")
            sizes.append(self.word("%d", word + 1))
            word += 2
        memory: list[tuple[str, str]] = []
        for i, (by_value, _, rank, align, written, _) in enumerate(form.arguments):
            if by_value:
                continue
            want = self.value(f"getelementptr i64, ptr %d, i64 {word}")
            address = self.value(
                f"call i64 @fits(ptr %state, ptr {self.argument(i)}, ptr {want}, i64 {rank}, i64 {int(written)}, "
                f"i64 {align})"
            )
            self.need(self.value(f"icmp ne i64 {address}, -1"), "next")
            passed[i] = f"ptr {self.value(f'inttoptr i64 {address} to ptr')}"
            memory.append((address, self.word("%d", word + 3 + 2 * rank)))
            word += 4 + 2 * rank
        for *_, steps in form.arguments:
            sizes += [self.word("%d", word + step) for step in range(steps)]
            word += steps
        for pair in form.pairs:
            (start_a, bytes_a), (start_b, bytes_b) = (memory[n] for n in pair)
            both = self.value(f"call i1 @overlap(i64 {start_a}, i64 {bytes_a}, i64 {start_b}, i64 {bytes_b})")
            apart = self.value(f"xor i1 {both}, true")
            if form.may_interleave(pair):
                apart = self.value(f"or i1 {apart}, {self.beside(start_a, start_b, word)}")
                word += 3
            self.need(apart, "miss")
        function, save = self.state("function"), self.state("PyEval_SaveThread")
        restore, new = self.state("PyEval_RestoreThread"), self.state("PyLong_FromLong")
        thread = self.value(f"call ptr {save}()")
        values = ", ".join([passed[i] for i in range(count)] + [f"i64 {size}" for size in sizes])
        status = self.value(f"call i32 {function}({values})")
        self.add(f"call void {restore}(ptr {thread})")
        good = self.value(f"icmp eq i32 {status}, 0")
        self.add(f"br i1 {good}, label %ran, label %bad")
        self.block("bad")
        wide = self.value(f"sext i32 {status} to i64")
        self.add(f"ret ptr {self.value(f'call ptr {new}(i64 {wide})')}")
        for label, outcome in (("ran", "None"), ("miss", "False")):
            self.block(label)
            result = self.state(outcome)
            self.add(f"call void {self.state('Py_IncRef')}(ptr {result})")
            self.add(f"ret ptr {result}")
        self.block("next")
        self.add("%d.next = load ptr, ptr %d")
        self.add("br label %known")
        return "\n".join(
            [
                _helpers(),
                "declare float @llvm.fabs.f32(float)",
                "declare double @llvm.fabs.f64(double)",
                "define internal ptr @work(ptr %state, ptr %self, ptr %args, i64 %count) {",
                *self.lines,
                "}",
                _source("entry_outside"),
            ]
        )

    def beside(self, start_a: str, start_b: str, word: int) -> str:
        """Whether the rows of two arrays are beside each other: `overlap.are_beside`, of what is known from a word
        on."""
        run_a, run_b, pitch = (self.word("%d", word + n) for n in range(3))
        rest = self.value(f"srem i64 {self.value(f'sub i64 {start_b}, {start_a}')}, {pitch}")
        negative = self.value(f"icmp slt i64 {rest}, 0")
        up = self.value(f"add i64 {rest}, {pitch}")
        apart = self.value(f"select i1 {negative}, i64 {up}, i64 {rest}")
        behind = self.value(f"icmp sge i64 {apart}, {run_a}")
        end = self.value(f"add i64 {apart}, {run_b}")
        before = self.value(f"icmp sle i64 {end}, {pitch}")
        return self.value(f"and i1 {behind}, {before}")

    def size(self, i: int, s: int) -> None:
        """Stores what is given for a size: -1 for None."""
        given = self.argument(i)
        at = self.value(f"getelementptr i64, ptr %given, i64 {s}")
        left_out, number, done = self.label(), self.label(), self.label()
        none = self.value(f"icmp eq ptr {given}, {self.state('None')}")
        self.add(f"br i1 {none}, label %{left_out}, label %{number}")
        self.block(left_out)
        self.add(f"store i64 -1, ptr {at}")
        self.add(f"br label %{done}")
        self.block(number)
        value = self.cases(i, ("int", "np_int64", "np_int32"), "i64")
        self.need(self.value(f"icmp sge i64 {value}, 1"), "miss")
        self.add(f"store i64 {value}, ptr {at}")
        self.add(f"br label %{done}")
        self.block(done)


def entry_text(form: QuickCallKey) -> str:
    """The module: its function `entry` is the quick call of every kernel of this form."""
    return _EntryWriter(form).text()
