// What starts the language server. Apart from `vscode`, so that it can be tested without an editor.
"use strict";

const { existsSync } = require("node:fs");
const { join } = require("node:path");

/** Places of the command in a Python environment of the workspace. */
const PLACES =
  process.platform === "win32"
    ? [".venv/Scripts/netloom.exe", "venv/Scripts/netloom.exe"]
    : [".venv/bin/netloom", "venv/bin/netloom"];

/**
 * The command and its arguments: the one of the settings, that of an environment in a workspace folder, or `netloom`.
 * @param {string[]} configured the setting `netloom.command`
 * @param {string[]} folders the workspace's folders
 * @returns {{command: string, args: string[]}}
 */
function serverCommand(configured, folders) {
  const [command, ...args] = configured;
  if (command) {
    return { command, args: [...args, "lsp", "--stdio"] };
  }
  const found = folders.flatMap((f) => PLACES.map((p) => join(f, p))).find((p) => existsSync(p));
  return { command: found ?? "netloom", args: ["lsp", "--stdio"] };
}

/**
 * The command line that runs or tests a model in a terminal.
 * @param {{command: string, args: string[]}} server
 * @param {string} word "run" or "test"
 * @param {string} path of the model
 * @returns {{shellPath: string, shellArgs: string[]}}
 */
function terminalCommand(server, word, path) {
  return { shellPath: server.command, shellArgs: [...server.args.slice(0, -2), word, path] };
}

module.exports = { serverCommand, terminalCommand };
