// The extension without an editor: its bundle is loaded with a stand-in for `vscode`, and the server that it would start
// is spoken to over the protocol.
"use strict";

const assert = require("node:assert/strict");
const { spawn } = require("node:child_process");
const { mkdirSync, mkdtempSync, writeFileSync } = require("node:fs");
const Module = require("node:module");
const { tmpdir } = require("node:os");
const { join, resolve } = require("node:path");
const { pathToFileURL } = require("node:url");
const { test } = require("node:test");
const rpc = require("vscode-jsonrpc/node");
const { serverCommand, terminalCommand } = require("../src/command");

const ROOT = resolve(__dirname, "../../..");
const MODEL = "language: 1\npopulations:\n  exc: {neuron: lif, sise: 10}\nsimulate: {dt: 0.1 ms, duration: 1 s}\n";

test("the command of the settings, of the workspace, of the path", () => {
  assert.deepEqual(serverCommand(["python3", "-m", "x"], []), { command: "python3", args: ["-m", "x", "lsp", "--stdio"] });
  assert.deepEqual(serverCommand([], ["/nowhere"]), { command: "netloom", args: ["lsp", "--stdio"] });
  const folder = mkdtempSync(join(tmpdir(), "netloom-"));
  mkdirSync(join(folder, ".venv/bin"), { recursive: true });
  writeFileSync(join(folder, ".venv/bin/netloom"), "");
  assert.equal(serverCommand([], [folder]).command, join(folder, ".venv/bin/netloom"));
  const server = serverCommand(["python3", "-m", "x"], []);
  assert.deepEqual(terminalCommand(server, "run", "m.yaml"), { shellPath: "python3", shellArgs: ["-m", "x", "run", "m.yaml"] });
});

test("the bundle is complete: it loads with `vscode` alone", () => {
  // Anything that is asked of the stand-in is a class, a function and a namespace.
  const standIn = new Proxy(class {}, { get: (target, name) => target[name] ?? standIn, apply: () => standIn });
  const load = Module._load;
  Module._load = (name, ...rest) => (name === "vscode" ? standIn : load(name, ...rest));
  try {
    const extension = require("../dist/extension.js");
    assert.equal(typeof extension.activate, "function");
    assert.equal(typeof extension.deactivate, "function");
  } finally {
    Module._load = load;
  }
});

test("the server answers over the protocol", async () => {
  const configured = process.env.NETLOOM_COMMAND ? JSON.parse(process.env.NETLOOM_COMMAND) : [];
  const { command, args } = serverCommand(configured, [ROOT]);
  const server = spawn(command, args, { stdio: ["pipe", "pipe", "inherit"] });
  const connection = rpc.createMessageConnection(
    new rpc.StreamMessageReader(server.stdout),
    new rpc.StreamMessageWriter(server.stdin),
  );
  const published = [];
  let wake = () => {};
  connection.onNotification("textDocument/publishDiagnostics", (p) => (published.push(p), wake()));
  connection.listen();
  try {
    const folder = mkdtempSync(join(tmpdir(), "netloom-"));
    const uri = pathToFileURL(join(folder, "m.yaml")).href;
    const initialized = await connection.sendRequest("initialize", {
      processId: process.pid,
      rootUri: pathToFileURL(folder).href,
      capabilities: {},
    });
    const can = initialized.capabilities;
    for (const what of ["completion", "hover", "definition", "references", "rename", "codeAction", "inlayHint", "codeLens"]) {
      assert.ok(can[`${what}Provider`], what);
    }
    assert.deepEqual([...can.executeCommandProvider.commands].sort(), ["netloom.run", "netloom.test"]);
    await connection.sendNotification("initialized", {});
    const arrives = new Promise((done) => (wake = done));
    await connection.sendNotification("textDocument/didOpen", {
      textDocument: { uri, languageId: "yaml", version: 1, text: MODEL },
    });
    await arrives;
    const [wrong] = published.at(-1).diagnostics;
    assert.equal(wrong.code, "E0101");
    assert.match(wrong.message, /did you mean `size`/);
    const range = wrong.range;
    const [fix] = await connection.sendRequest("textDocument/codeAction", {
      textDocument: { uri },
      range,
      context: { diagnostics: [wrong] },
    });
    assert.equal(fix.edit.changes[uri][0].newText, "size");
    const offered = await connection.sendRequest("textDocument/completion", {
      textDocument: { uri },
      position: { line: 2, character: 16 },
    });
    assert.ok(offered.items.some((i) => i.label === "library/neurons/adex"));
    await connection.sendRequest("shutdown");
    await connection.sendNotification("exit");
  } finally {
    connection.dispose();
    server.kill();
  }
});
