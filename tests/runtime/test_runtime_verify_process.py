"""Verification: whatever a kernel does to its process is a result."""

from __future__ import annotations

import pytest
from to_verify import MATMUL, SOFTMAX

import dojoir
from dojoir import ArgumentError, KernelError, RunError
from dojoir.runtime.process.child import run_child
from dojoir.runtime.process.subject import KernelSubject
from dojoir.runtime.verification.report import Report
from dojoir.runtime.verification.verify import verify, verify_subject


# -- outcomes of the process -------------------------------------------------------------------------------
def by_hand(body: str, time_limit: float = 60.0, **declarations: str) -> Report:
    """The report on LLVM code that stands for softmax, at two sizes."""
    text = f"define i32 @softmax(ptr %x, ptr %y, i64 %n, i64 %m) {{\n{body}\n}}\n"
    text += "".join(f"declare {kind} @{name}\n" for name, kind in declarations.items())
    sizes = [{"N": 3, "M": 5}, {"N": 1, "M": 1}]
    return verify_subject(KernelSubject(SOFTMAX, "llvm", 1, text), SOFTMAX, sizes, (0,), ("uniform",), time_limit)


def test_a_hanging_kernel_is_stopped() -> None:
    report = by_hand('br label %l\nl:\ncall void asm sideeffect "", ""()\nbr label %l', time_limit=3.0)
    assert not report.ok
    assert "hung (stopped after 3 s)" in str(report)
    assert report.not_run >= 1


PAST_THE_END = """
%c = mul i64 %n, %m
%p = getelementptr float, ptr %y, i64 %c
store float 1.0, ptr %p
ret i32 0
"""


BEFORE_THE_START = """
%p = getelementptr i8, ptr %x, i64 -4096
%v = load volatile i8, ptr %p
ret i32 0
"""


@pytest.mark.parametrize("body", ["store volatile i32 1, ptr null\nret i32 0", PAST_THE_END, BEFORE_THE_START])
def test_an_access_where_nothing_is_is_a_crash(body: str) -> None:
    report = by_hand(body)
    assert not report.ok
    assert report.reason is not None
    assert "crashed (SIG" in report.reason
    assert "N=3, M=5" in report.reason


def test_a_write_into_the_slack_is_seen() -> None:
    report = by_hand("%p = getelementptr float, ptr %y, i64 -1\nstore float 1.0, ptr %p\nret i32 0")
    assert report.reason is not None
    assert "wrote outside of y" in report.reason


def test_an_input_must_stay_as_it_is() -> None:
    report = by_hand("store float 7.0, ptr %x\nret i32 0")
    assert report.reason is not None
    assert "changed its input x" in report.reason


def test_an_output_that_is_not_written_is_seen() -> None:
    report = by_hand("ret i32 0")
    assert report.reason is not None
    assert "wrong result: y[0, 0] is nan" in report.reason
    with pytest.raises(RunError, match="wrong result") as caught:
        report.raise_if_failed()
    assert caught.value.diagnostic.code == "verification-failed"


def test_a_process_that_is_killed_or_leaves() -> None:
    killed = by_hand("%i = call i32 @getpid()\n%k = call i32 @kill(i32 %i, i32 9)\nret i32 0", **{
        "getpid()": "i32", "kill(i32, i32)": "i32",
    })  # fmt: skip
    assert "killed (SIGKILL" in str(killed)
    left = by_hand("call void @exit(i32 0)\nret i32 0", **{"exit(i32)": "void"})
    assert not left.ok
    aborted = by_hand("call void @abort()\nret i32 0", **{"abort()": "void"})
    assert "crashed (SIGABRT)" in str(aborted)


def test_a_status_other_than_0_is_a_failure() -> None:
    assert "no memory for its temporaries" in str(by_hand("ret i32 1"))


def test_too_little_memory_is_a_result() -> None:
    outcome = run_child(
        {"kind": "trial", "subject": KernelSubject(SOFTMAX).to_json(), "runs": []}, 60, memory_limit=64 << 20
    )
    assert outcome.ended is not None or any("raised" in message for message in outcome.messages)


def test_a_child_dies_with_all_that_it_started() -> None:
    """What a job leaves behind is ended with it: here a grandchild that holds the pipes."""
    text = """
define i32 @softmax(ptr %x, ptr %y, i64 %n, i64 %m) {
  %p = call i32 @fork()
  %child = icmp eq i32 %p, 0
  br i1 %child, label %stay, label %leave
stay:
  %t = call i32 @sleep(i32 600)
  br label %stay
leave:
  ret i32 1
}
declare i32 @fork()
declare i32 @sleep(i32)
"""
    report = verify_subject(
        KernelSubject(SOFTMAX, "llvm", 1, text), SOFTMAX, [{"N": 1, "M": 1}], (0,), ("uniform",), 8.0
    )
    assert "no memory" in str(report)


# -- what it is asked --------------------------------------------------------------------------------------
def test_wrong_requests_are_refused() -> None:
    def refused(code: str, **given: object) -> None:
        with pytest.raises(ArgumentError) as caught:
            verify(**{"kernel": SOFTMAX, **given})
        assert caught.value.diagnostic.code == code

    refused("not-a-kernel", kernel="kernel f()")
    refused("not-a-kernel", against=3)
    refused("unknown-target", target="opencl")
    refused("unknown-distribution", distributions=("gaussian",))
    refused("unknown-distribution", distributions=())
    refused("no-sizes", sizes=[])
    refused("size-missing", sizes={"N": 3})
    refused("bad-size", sizes={"N": 3, "M": 0})
    refused("bad-threads", threads=0)
    refused("other-arguments", against=dojoir.parse(MATMUL))
    refused("other-arguments", against=dojoir.kernels.load("log_softmax").evolve(name="f", sizes=SOFTMAX.sizes[:1]))
    with pytest.raises(KernelError):
        verify(dojoir.parse(MATMUL.replace("| | K\n", "| | K + 1\n")))
