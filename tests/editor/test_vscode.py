"""The extension for Visual Studio Code starts the language server, with the editor and its library replaced."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from folders import ROOT

FOLDER = ROOT / "editors" / "vscode"

VSCODE = """
const told = [];
module.exports = {
  told,
  commands: { registerCommand: (name) => told.push(["command", name]) },
  window: { showWarningMessage: (text) => told.push(["warning", text]),
            showErrorMessage: (text) => told.push(["error", text]) },
  workspace: {
    onDidChangeConfiguration: () => ({}),
    getConfiguration: () => ({ get: (key) => JSON.parse(process.env.SETTINGS)[key] }),
  },
};
"""
CLIENT = """
const vscode = require("vscode");
exports.TransportKind = { stdio: 0 };
exports.LanguageClient = class {
  constructor(id, name, server, client) { this.server = server; this.client = client; }
  async start() {
    if (this.server.command === "missing") throw new Error("ENOENT");
    vscode.told.push(["start", this.server.command, this.server.args, this.client.documentSelector]);
  }
  async stop() { vscode.told.push(["stop"]); }
};
"""
RUN = """
const extension = require(process.argv[1]);
const context = { subscriptions: [] };
extension.activate(context).then(() => extension.deactivate()).then(
  () => console.log(JSON.stringify(require("vscode").told)));
"""


def told(tmp_path: Path, command: list[str], client: bool = True, enabled: bool = True) -> list[list[object]]:
    """What the extension does as the editor activates it and leaves it."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("needs node")
    modules = tmp_path / "modules"
    for name, text in (("vscode/index.js", VSCODE), ("vscode-languageclient/node.js", CLIENT)):
        if client or not name.startswith("vscode-l"):
            (modules / name).parent.mkdir(parents=True, exist_ok=True)
            (modules / name).write_text(text)
    copied = shutil.copytree(FOLDER, tmp_path / "dojo", ignore=shutil.ignore_patterns("node_modules"))
    settings = json.dumps({"enabled": enabled, "command": command})
    run = subprocess.run(
        [node, "-e", RUN, str(copied / "extension.js")], env={"NODE_PATH": str(modules), "SETTINGS": settings},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    found: list[list[object]] = json.loads(run.stdout)
    return found


def package() -> dict[str, object]:
    read: dict[str, object] = json.loads((FOLDER / "package.json").read_text(encoding="utf-8"))
    return read


def test_the_server_is_started_for_kernels_and_ended(tmp_path: Path) -> None:
    contributes = package()["contributes"]
    assert isinstance(contributes, dict)
    command = contributes["configuration"]["properties"]["dojoir.server.command"]["default"]
    assert command == ["dojoir", "lsp"]
    assert told(tmp_path, command) == [
        ["command", contributes["commands"][0]["command"]],
        ["start", "dojoir", ["lsp"], [{"language": contributes["languages"][0]["id"]}]],
        ["stop"],
    ]


def test_what_is_missing_is_told_with_its_cure(tmp_path: Path) -> None:
    (_, (kind, text)) = told(tmp_path / "a", ["dojoir", "lsp"], client=False)
    assert kind == "warning" and "npm install" in str(text)
    (_, (kind, text)) = told(tmp_path / "b", ["missing", "lsp"])
    assert kind == "error" and "'missing lsp'" in str(text) and "dojoir.server.command" in str(text)
    assert len(told(tmp_path / "c", ["dojoir", "lsp"], enabled=False)) == 1


def test_all_files_that_the_package_names_are_there() -> None:
    contributes = package()["contributes"]
    assert isinstance(contributes, dict)
    named = [package()["main"], contributes["languages"][0]["configuration"]]
    named += [contributes["grammars"][0]["path"], contributes["snippets"][0]["path"]]
    assert all((FOLDER / str(name)).is_file() for name in named)


def test_both_pages_pack_it_by_one_command_with_its_library() -> None:
    package = json.loads((FOLDER / "package.json").read_text(encoding="utf-8"))
    assert {"name", "version", "publisher", "engines"} <= package.keys() and (FOLDER / package["main"]).exists()
    for page in (FOLDER / "README.md", ROOT / "docs" / "editors.md"):
        text = page.read_text(encoding="utf-8")
        assert "npm install && npx --yes @vscode/vsce package --skip-license" in text
        assert f"{package['name']}-{package['version']}.vsix" in text
