// Starts the language server of dojoir for files *.dojo. Colours and snippets need none of this.
"use strict";

const vscode = require("vscode");

let client;

/** The part of the client library that is needed; undefined where `npm install` was not run. */
function library() {
  try {
    return require("vscode-languageclient/node");
  } catch (error) {
    return undefined;
  }
}

async function start() {
  const settings = vscode.workspace.getConfiguration("dojoir.server");
  if (!settings.get("enabled")) {
    return;
  }
  const { LanguageClient, TransportKind } = library() ?? {};
  if (!LanguageClient) {
    vscode.window.showWarningMessage(
      "dojoir: errors and explanations need the package vscode-languageclient: run `npm install` in the folder of the extension."
    );
    return;
  }
  const [command, ...args] = settings.get("command");
  client = new LanguageClient(
    "dojoir",
    "dojoir",
    { command, args, transport: TransportKind.stdio },
    { documentSelector: [{ language: "dojo" }] }
  );
  try {
    await client.start();
  } catch (error) {
    client = undefined;
    vscode.window.showErrorMessage(
      `dojoir: the language server could not be started by '${[command, ...args].join(" ")}' (${error.message}). ` +
        "Install it with pip install 'dojoir[editor]', or name its path in the setting dojoir.server.command."
    );
  }
}

async function stop() {
  const running = client;
  client = undefined;
  await running?.stop();
}

async function restart() {
  await stop();
  await start();
}

async function activate(context) {
  context.subscriptions.push(
    vscode.commands.registerCommand("dojoir.restartServer", restart),
    vscode.workspace.onDidChangeConfiguration((change) => {
      if (change.affectsConfiguration("dojoir.server")) {
        restart();
      }
    })
  );
  await start();
}

module.exports = { activate, deactivate: stop };
