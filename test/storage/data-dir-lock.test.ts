import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { statSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { lockDataDir } from "../../storage/sqlite/data-dir-lock.ts";
import { cleanup, tempDir } from "../support/temp.ts";

test("a data directory is created, and belongs to one holder until it is released", (t) => {
  const dir = join(tempDir(cleanup(t)), "new", "data");

  const lock = lockDataDir(dir);
  assert.throws(() => lockDataDir(dir), new RegExp(`another process uses the data directory ${dir}`));
  lock.release();
  const again = lockDataDir(dir);

  assert.equal(statSync(dir).mode & 0o077, 0);
  again.release();
});

test("another process is refused, and the lock ends with its holder, however it ends", async (t) => {
  const atEnd = cleanup(t);
  const dir = tempDir(atEnd);
  const program = `
    import { lockDataDir } from ${JSON.stringify(new URL("../../storage/sqlite/data-dir-lock.ts", import.meta.url).href)};
    lockDataDir(${JSON.stringify(dir)});
    // The garbage collector must not release the lock when its handle is unused.
    for (let i = 0; i < 5; i++) {
      await new Promise((resolve) => setImmediate(resolve));
      globalThis.gc();
    }
    process.stdout.write("locked");
    setInterval(() => {}, 1000);`;
  const stripTypes = fileURLToPath(new URL("../../strip-types.js", import.meta.url));
  const holder = spawn(
    process.execPath,
    ["--expose-gc", "--import", stripTypes, "--input-type=module", "-e", program],
    {
      stdio: ["ignore", "pipe", "inherit"],
    },
  );
  atEnd.after(() => void holder.kill("SIGKILL"));
  await once(holder.stdout, "data");

  assert.throws(() => lockDataDir(dir), /another process uses/);
  holder.kill("SIGKILL");
  await once(holder, "close");
  const lock = lockDataDir(dir);

  lock.release();
});
