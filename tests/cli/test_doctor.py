"""What `dojoir-opt --doctor` says of this machine."""

from __future__ import annotations

import json

import pytest

import dojoir
from dojoir.cli import main
from dojoir.codegen.simd.isas import ISAS
from dojoir.runtime.build import emulation, host_targets


def test_every_target_runs_or_has_a_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("CC", raising=False)
    found = dojoir.doctor(measure=False)
    assert [way.target for way in found.targets] == [name for name in dojoir.TARGETS if name in TARGETS]
    for way in found.targets:
        assert bool(way.runs) != bool(way.problem)
        if way.target != "llvm":
            assert "install" in way.problem or "no " in way.problem, way
    assert found.compilers == () or all("zig" in compiler.command for compiler in found.compilers)
    assert not found.emulators


def test_text_and_json(capsys: pytest.CaptureFixture[str]) -> None:
    found = dojoir.doctor(measure=False)
    assert "target     llvm: in process" in str(found).splitlines()
    data = json.loads(json.dumps(found.to_json()))
    assert data["architecture"] == host_targets.architecture()
    assert {way["target"] for way in data["targets"]} == TARGETS
    assert main(["--doctor", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["ceilings"][0]["read"] > 0
    assert main(["--doctor"]) == 0
    assert "ceilings" in capsys.readouterr().out


TARGETS = {"llvm", "c", *ISAS, "cuda", "hip"}


def test_missing_tools_say_how_to_get_them(monkeypatch: pytest.MonkeyPatch) -> None:
    foreign = [isa for isa in ISAS.values() if isa.architecture != host_targets.architecture()]
    monkeypatch.setattr(emulation, "find_spec", lambda _: None)
    for isa in foreign:
        with pytest.raises(dojoir.ToolchainError, match=r"pip install 'dojoir\[cross\]'"):
            emulation.cross_compiler(isa)
    monkeypatch.setattr(emulation, "which", lambda _: None)
    for isa in foreign:
        with pytest.raises(dojoir.ToolchainError, match=f"qemu-{isa.architecture} is not on the path.*apt install"):
            emulation.emulator(isa)


def test_a_processor_without_the_instructions_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = dojoir.kernels.load("relu")
    monkeypatch.setattr(host_targets, "features", frozenset)
    for isa in ISAS.values():
        monkeypatch.setattr(host_targets, "architecture", lambda isa=isa: isa.architecture)
        if isa.features:
            with pytest.raises(
                dojoir.ToolchainError,
                match=f"cannot run target {isa.name}: it has no .*{max(isa.features & {'avx2', 'sve'})}",
            ):
                dojoir.compile(kernel, isa.name)


def test_an_impossible_vector_length(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(emulation, "which", lambda name: f"/bin/{name}")
    monkeypatch.setenv(emulation.VLEN, "100")
    with pytest.raises(dojoir.ToolchainError, match="must be 128, 256, 512 or 1024"):
        emulation.emulator(ISAS["rvv"])
