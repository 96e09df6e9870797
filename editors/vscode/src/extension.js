// The extension: starts `netloom lsp` and shows what it says. `run` and `test` of code lenses open a terminal.
"use strict";

const vscode = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");
const { serverCommand, terminalCommand } = require("./command");

/** @type {LanguageClient | undefined} */
let client;

function command() {
  const configured = vscode.workspace.getConfiguration("netloom").get("command", []);
  const folders = (vscode.workspace.workspaceFolders ?? []).map((f) => f.uri.fsPath);
  return serverCommand(configured, folders);
}

/** Runs or tests a saved model in a terminal, where its progress is seen and Ctrl-C ends it. */
async function inTerminal(word, uri) {
  const document = vscode.Uri.parse(uri);
  const open = vscode.workspace.textDocuments.find((d) => d.uri.toString() === document.toString());
  if (open?.isDirty) {
    await open.save();
  }
  const cwd = vscode.workspace.getWorkspaceFolder(document)?.uri.fsPath;
  const terminal = vscode.window.createTerminal({
    name: `netloom ${word}`,
    cwd,
    ...terminalCommand(command(), word, document.fsPath),
    isTransient: true,
  });
  terminal.show(true);
}

async function start() {
  const found = command();
  const clientOptions = {
    documentSelector: [{ language: "yaml" }],
    // Files that models read: definitions and data.
    synchronize: { fileEvents: vscode.workspace.createFileSystemWatcher("**/*.{yaml,yml,npz,npy,csv,h5,hdf5,parquet,safetensors}") },
    middleware: {
      executeCommand(name, args, next) {
        const word = /^netloom\.(run|test)$/.exec(name)?.[1];
        return word ? inTerminal(word, args[0]) : next(name, args);
      },
    },
  };
  client = new LanguageClient("netloom", "Netloom", { ...found, options: {} }, clientOptions);
  try {
    await client.start();
  } catch (error) {
    const shown = [found.command, ...found.args].join(" ");
    const help = "Install it with: pip install 'netloom[lsp]', or name it in the setting netloom.command.";
    vscode.window.showErrorMessage(`Netloom: \`${shown}\` does not start (${error.message ?? error}). ${help}`);
  }
}

async function activate(context) {
  const restart = async () => {
    await client?.stop().catch(() => {});
    await start();
  };
  context.subscriptions.push(vscode.commands.registerCommand("netloom.restart", restart));
  context.subscriptions.push(
    vscode.workspace.onDidChangeConfiguration((e) => e.affectsConfiguration("netloom.command") && restart()),
  );
  await start();
}

async function deactivate() {
  await client?.stop();
}

module.exports = { activate, deactivate };
