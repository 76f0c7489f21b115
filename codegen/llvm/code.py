"""One LLVM function under construction: numbered instructions, basic blocks, what must be declared."""

from __future__ import annotations

from dataclasses import field

from dojoir.support.frozen import dataclass


@dataclass
class Module:
    """The shared part of the functions of a module: their declarations by name, and the instruction that orders
    stores past the caches."""

    declarations: dict[str, str] = field(default_factory=dict)
    fence: str = "fence seq_cst"

    def declare(self, name: str, result: str, parameters: str, attributes: str = "") -> None:
        self.declarations[name] = f"declare {result} @{name}({parameters}){attributes}"


@dataclass
class FunctionLines:
    """The lines of one function. `label` is the block that is being filled, `entry` what goes to the start."""

    module: Module
    lines: list[str] = field(default_factory=list)
    entry: list[str] = field(default_factory=list)
    label: str = ".start"
    numbers: dict[str, int] = field(default_factory=dict)
    labels: int = 0

    def fresh(self, base: str = "v") -> str:
        """A name that the function does not have yet."""
        n = self.numbers.get(base, 0)
        self.numbers[base] = n + 1
        return f"{base}.{n}" if n or base == "v" else base

    def value(self, instruction: str, base: str = "v") -> str:
        """The result of an instruction."""
        name = f'%"{self.fresh(base)}"' if base != "v" else f"%{self.fresh()}"
        self.lines.append(f"  {name} = {instruction}")
        return name

    def do(self, instruction: str) -> None:
        """An instruction without a result."""
        self.lines.append(f"  {instruction}")

    def at_entry(self, instruction: str, base: str) -> str:
        """The result of an instruction that runs once, when the function starts."""
        name = f'%"{self.fresh(base)}"'
        self.entry.append(f"  {name} = {instruction}")
        return name

    def new_label(self, base: str) -> str:
        """A label that the function does not have yet. No name of the program begins with a dot."""
        n = self.labels
        self.labels += 1
        return f".{base}.{n}"

    def start(self, label: str) -> None:
        """Ends nothing: the block before must have its terminator."""
        self.lines.append(f"{label}:")
        self.label = label

    def call(self, name: str, result: str, arguments: list[tuple[str, str]], flags: str = "") -> str:
        """The result of an intrinsic or outside function, declared as it is called."""
        self.module.declare(name, result, ", ".join(kind for kind, _ in arguments))
        given = ", ".join(f"{kind} {operand}" for kind, operand in arguments)
        return self.value(f"call {flags}{result} @{name}({given})")

    def run(self, name: str, arguments: list[tuple[str, str]], attributes: str = "") -> None:
        """A call of what gives nothing, declared as it is called."""
        self.module.declare(name, "void", ", ".join(kind for kind, _ in arguments), attributes)
        self.do(f"call void @{name}({', '.join(f'{kind} {operand}' for kind, operand in arguments)})")
