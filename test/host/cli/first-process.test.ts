// svc as the first process of a container: the kernel ignores signals without a handler there.
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createServer } from "node:net";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { eventually } from "../../support/eventually.ts";
import { cleanup, tempDir } from "../../support/temp.ts";

/** Runs a command in a new process namespace, as its first process. */
const alone = ["-Urpf", "--kill-child", "--mount-proc"];
const launcher = fileURLToPath(new URL("../../../svc.js", import.meta.url));
const isAllowed = spawnSync("unshare", [...alone, "true"]).status === 0;

for (const signal of ["SIGTERM", "SIGINT", "SIGHUP"] as const)
  test(`svc migrate as the first process exits at once on ${signal} during any wait`, {
    skip: !isAllowed && "needs unshare and namespaces",
  }, async (t) => {
    const atEnd = cleanup(t);
    const asked = Promise.withResolvers<void>();
    // A database that accepts connections and never answers.
    const database = createServer((socket) => void socket.on("error", () => {}).once("data", () => asked.resolve()));
    database.listen(0, "127.0.0.1");
    await once(database, "listening");
    atEnd.after(() => void database.close());
    const { port } = database.address() as { port: number };
    const url = `postgres://svc@127.0.0.1:${port}/svc`;
    const env = { ...process.env, SVC_DATABASE_URL: url, SVC_DATA_DIR: tempDir(atEnd) };
    const child = spawn("unshare", [...alone, process.execPath, launcher, "migrate"], { env, stdio: "ignore" });
    atEnd.after(() => void child.kill("SIGKILL"));
    const ended = once(child, "exit");
    await asked.promise;
    const first = await eventually("its id", async () => {
      const ids = readFileSync(`/proc/${child.pid}/task/${child.pid}/children`, "utf8").trim();
      return ids === "" ? undefined : Number(ids);
    });

    process.kill(first, signal);

    const [code] = await ended;
    assert.equal(code, 128 + { SIGHUP: 1, SIGINT: 2, SIGTERM: 15 }[signal]);
  });
