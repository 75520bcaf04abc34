// svc init and svc completion as processes, from a newcomer's shell.
import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, test } from "node:test";
import { has } from "../../support/needs.ts";
import { startServerProcess } from "../../support/server.ts";
import { cleanup } from "../../support/temp.ts";
import { said } from "./chat/talking.ts";
import { root } from "./started.ts";
import { temporaryDirectory } from "./support.ts";

function svc(argv: readonly string[], cwd: string, input = "") {
  const { status, stdout, stderr } = spawnSync(process.execPath, [join(root, "svc.js"), ...argv], {
    encoding: "utf8",
    cwd,
    input,
    env: { PATH: process.env.PATH ?? "" },
  });
  return { code: status, stdout, stderr };
}

describe("svc init", () => {
  test("writes a manifest that is valid, is served, and answers", async (context) => {
    const atEnd = cleanup(context);
    const cwd = temporaryDirectory(context);

    const made = svc(["init", "helper"], cwd);
    const valid = svc(["validate-manifest", "agents/helper.yaml"], cwd);
    const server = await startServerProcess({ atEnd });
    const unserved = svc(["chat", "helper", "--url", server.url], cwd, "What is 19 * 21?");
    await server.restart({ SVC_MANIFEST_DIR: join(cwd, "agents") });
    const answer = await said(["chat", "helper", "--url", server.url], { atEnd, input: "What is 19 * 21?" });

    assert.equal(made.code, 0);
    assert.match(made.stdout, /^Wrote agents\/helper\.yaml\.\n/);
    for (const words of [
      "validate-manifest agents/helper.yaml",
      "SVC_MANIFEST_DIR=agents npm start",
      "svc.js chat helper",
    ])
      assert.ok(made.stdout.includes(words), words);
    assert.equal(valid.code, 0, valid.stderr);
    assert.equal(unserved.code, 1);
    assert.match(unserved.stderr, /\nagents\/helper\.yaml exists: start the server with SVC_MANIFEST_DIR=agents\.\n$/);
    const [, schema = ""] = /\$schema=(.*)/.exec(readFileSync(join(cwd, "agents/helper.yaml"), "utf8")) ?? [];
    assert.ok(existsSync(join(cwd, "agents", schema)));
    assert.equal(answer.code, 0);
    assert.match(answer.stdout, /^19 \* 21 = 399/);
    assert.match(answer.stderr, /^→ calculator \{"expression":"19 \* 21"\}$/m);
  });

  test("writes a valid manifest under every accepted name", (context) => {
    const cwd = temporaryDirectory(context);

    for (const name of [
      "7",
      "1e3",
      "0x1f",
      "0o7",
      "1.5",
      "2026-11-25",
      "null",
      "TRUE",
      "False",
      "a.yaml",
      "no",
      "e-1_b",
    ]) {
      const made = svc(["init", name], cwd);
      const valid = svc(["validate-manifest", `agents/${name}.yaml`], cwd);

      assert.deepEqual([made.code, valid.code, valid.stderr], [0, 0, ""], name);
      assert.match(valid.stdout, new RegExp(`^${name} is valid: `));
    }
  });

  test("names the next commands in the form in which it was called", (context) => {
    const cwd = temporaryDirectory(context);
    symlinkSync(join(root, "svc.js"), join(cwd, "svc"));

    const { status, stdout } = spawnSync(process.execPath, [join(cwd, "svc"), "init", "helper", "--json"], {
      encoding: "utf8",
      cwd,
      env: { PATH: process.env.PATH ?? "" },
    });

    assert.equal(status, 0);
    assert.deepEqual(JSON.parse(stdout).next, [
      "svc validate-manifest agents/helper.yaml",
      "SVC_MANIFEST_DIR=agents svc serve",
      "svc chat helper",
    ]);
  });

  test("overwrites nothing, and names the file that it could not write", (context) => {
    const cwd = temporaryDirectory(context);
    mkdirSync(join(cwd, "mine"));
    writeFileSync(join(cwd, "mine/assistant.yaml"), "mine");
    writeFileSync(join(cwd, "file"), "");

    const there = svc(["init", "--dir", "mine"], cwd);
    const blocked = svc(["init", "--dir", "file/below", "--json"], cwd);
    const file = svc(["init", "--dir", "file"], cwd);
    const wrong = ["../up", "a/b", "-x", "", "a b"].map((name) => svc(["init", "--", name], cwd).code);

    assert.deepEqual(there, {
      code: 1,
      stdout: "",
      stderr: "mine/assistant.yaml already exists and was not changed.\n",
    });
    assert.equal(readFileSync(join(cwd, "mine/assistant.yaml"), "utf8"), "mine");
    assert.match(file.stderr, /^file\/assistant\.yaml cannot be written: EEXIST: file already exists, mkdir/);
    assert.deepEqual([blocked.code, JSON.parse(blocked.stdout).error], [1, "not_written"]);
    assert.deepEqual(wrong, [2, 2, 2, 2, 2]);
  });
});

describe("svc completion", () => {
  const bash = (words: readonly string[]) => {
    const at = words.length - 1;
    const script = `source <(${process.execPath} ${join(root, "svc.js")} completion bash)
COMP_WORDS=(${words.map((word) => `'${word}'`).join(" ")}); COMP_CWORD=${at}; _svc; printf '%s\\n' "\${COMPREPLY[@]}"`;
    return execFileSync("bash", ["-c", script], { encoding: "utf8" }).trimEnd().split("\n");
  };

  test("bash completes the declared commands, actions and options", (context) => {
    if (!has(context, existsSync("/bin/bash"), "needs bash")) return;

    assert.deepEqual(bash(["svc", "ch"]), ["chat", "chaos"]);
    assert.deepEqual(bash(["svc", "runs", "re"]), ["retry", "release", "requeue"]);
    assert.deepEqual(bash(["svc", "chat", "--th"]), ["--thread", "--thinking"]);
    assert.deepEqual(
      bash(["svc", "completion", ""]).filter((word) => !word.startsWith("-")),
      ["bash", "zsh", "fish"],
    );
    assert.deepEqual(bash(["svc", "help", "vers"]), ["version"]);
    assert.deepEqual(bash(["svc", "runs", "--status", ""]), [""]);
  });

  test("every shell's script names every command and option; another shell is exit 2", (context) => {
    const cwd = temporaryDirectory(context);
    const help = JSON.parse(svc(["help", "--json"], cwd).stdout) as { commands: { name: string }[] };

    for (const shell of ["bash", "zsh", "fish"]) {
      const { code, stdout } = svc(["completion", shell], cwd);
      assert.equal(code, 0);
      for (const { name } of help.commands) assert.match(stdout, new RegExp(`\\b${name}\\b`), `${shell}: ${name}`);
      assert.match(stdout, shell === "fish" ? /-l thinking/ : /--thinking/);
    }
    const { code, stderr } = svc(["completion", "cmd"], cwd);
    assert.equal(code, 2);
    assert.match(stderr, /SHELL is one of bash, zsh, fish/);
  });
});
