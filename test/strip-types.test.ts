// The cache that a start writes of its files for the next one, which never serves a changed file.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { copyFileSync, mkdirSync, readFileSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { cleanup, tempDir } from "./support/temp.ts";

/**
 * An installation of two files. The second can be rewritten and prints its content. With the path of its pack it waits
 * until that is written, and loads any further files.
 */
function installation(t: TestContext) {
  const root = tempDir(cleanup(t));
  const cache = join(root, "node_modules/.cache/svc-strip-types", process.version);
  const pack = join(cache, "serve.pack");
  copyFileSync(fileURLToPath(new URL("../strip-types.js", import.meta.url)), join(root, "strip-types.js"));
  writeFileSync(join(root, "package.json"), '{ "type": "module" }');
  mkdirSync(join(root, "host"));
  writeFileSync(
    join(root, "svc.ts"),
    `import { statSync } from "node:fs";
     import { word } from "./host/word.ts";
     const began: number = Date.now();
     const [, , , pack, ...others] = process.argv;
     for (const other of others) await import(other);
     const isWritten = (): boolean => (statSync(pack, { throwIfNoEntry: false })?.mtimeMs ?? 0) >= began;
     while (pack !== undefined && !isWritten()) await new Promise((done) => setTimeout(done, 20));
     console.log(word);`,
  );
  const word = join(root, "host/word.ts");
  return {
    root,
    word,
    pack,
    write: (value: string) => writeFileSync(word, `export const word: string = "${value}";\n`),
    run(command: string, ...args: string[]) {
      const { stdout, stderr, status } = spawnSync(
        process.execPath,
        ["--import", "./strip-types.js", join(root, "svc.ts"), command, ...args],
        { cwd: root, encoding: "utf8", timeout: 20_000, env: { ...process.env, NODE_OPTIONS: "" } },
      );
      assert.equal(status, 0, stderr);
      return stdout.trim();
    },
  };
}

test("a start reads one pack for many files, and each changed file itself", async (t) => {
  const { word, pack, write, run } = installation(t);
  const old = new Date("2020-01-01");
  write("one");
  utimesSync(word, old, old);
  await delay(1_100);
  assert.equal(run("serve", pack), "one");

  writeFileSync(pack, readFileSync(pack, "latin1").replace('"one"', '"six"'), "latin1");
  assert.equal(run("serve"), "six", "what stands in the pack is what is loaded");
  assert.equal(run("doctor"), "one", "other commands are not the server");

  write("two");
  utimesSync(word, old, old);
  assert.equal(run("serve"), "two");

  writeFileSync(pack, "");
  assert.equal(run("serve"), "two", "a pack that cannot be read is none");
});

test("a file that was just written is not cached: its next change may have equal times", async (t) => {
  const { pack, word, write, run } = installation(t);
  await delay(1_100);
  write("new");
  assert.equal(run("serve", pack), "new");
  assert.ok(!readFileSync(pack).includes(word), "the new file is not in it");
  assert.ok(readFileSync(pack).includes("svc.ts"), "the old one is");
});

test("files elsewhere and deleted files are not cached", async (t) => {
  const { root, pack, word, write, run } = installation(t);
  const elsewhere = join(tempDir(cleanup(t)), "plugin.ts");
  const gone = join(root, "host/gone.ts");
  write("one");
  for (const path of [elsewhere, gone]) writeFileSync(path, "export const nothing: null = null;\n");
  await delay(1_100);
  run("serve", pack, elsewhere, gone);
  assert.deepEqual(
    [gone, elsewhere].map((path) => readFileSync(pack).includes(path)),
    [true, false],
  );

  rmSync(gone);
  write("two");
  await delay(1_100);
  assert.equal(run("serve", pack), "two");
  assert.deepEqual(
    [gone, word].map((path) => readFileSync(pack).includes(path)),
    [false, true],
  );
});
