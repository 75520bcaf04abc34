// Messages at the start about settings that svc cannot use or does not see.
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, test } from "node:test";
import { hasPostgresServer, needsServer, testDatabase } from "../../support/postgres.ts";
import type { Env } from "../../support/server.ts";
import { cleanup, tempDir } from "../../support/temp.ts";
import { root } from "./started.ts";

const svcJs = join(root, "svc.js");

function svc(command: string, cwd: string, env: Env) {
  const { status, stdout, stderr } = spawnSync(process.execPath, [svcJs, command], {
    encoding: "utf8",
    cwd,
    env: { PATH: process.env.PATH ?? "", SVC_DATA_DIR: join(cwd, "data"), SVC_PORT: "0", ...env },
  });
  return { code: status, said: stdout + stderr };
}

describe("a search_path that names no schema", { skip: (await hasPostgresServer()) ? false : needsServer }, () => {
  for (const command of ["serve", "migrate", "doctor"]) {
    test(`svc ${command} names the setting and the schema`, async (t) => {
      const atEnd = cleanup(t);
      const { url } = await testDatabase(atEnd);
      const schemaless = new URL(url);
      schemaless.searchParams.set("options", "-c search_path=nowhere");

      const { code, said } = svc(command, tempDir(atEnd), { SVC_DATABASE_URL: schemaless.href });

      assert.equal(code, 1, said);
      assert.match(said, /the search_path of SVC_DATABASE_URL is nowhere, .* no such schema .*; create the schema/);
      assert.doesNotMatch(said, /unsettled|thread ended/);
    });
  }
});

describe("a .env in the working directory", () => {
  const dotEnv =
    "# comment\nexport SVC_AUTH_MODE=api_key\nSVC_PORT=1\nSVC_SECRET_DB=planted-secret-0001\nOTHER=1\nSVC_NOPE=1\n";
  const warning =
    /svc does not read the file \.env in the working directory\. It sets SVC_AUTH_MODE, SVC_SECRET_DB, which/;

  test("svc doctor names the settings in it that the process lacks", (t) => {
    const cwd = tempDir(cleanup(t));
    writeFileSync(join(cwd, ".env"), dotEnv);

    const { said } = svc("doctor", cwd, {});

    assert.match(said, warning);
    assert.doesNotMatch(said, /planted-secret-0001|SVC_NOPE/);
  });

  test("svc serve logs the same line, and none if the settings are exported", async (t) => {
    const cwd = tempDir(cleanup(t));
    writeFileSync(join(cwd, ".env"), dotEnv);

    const unread = await logUntilReady(cwd, {});
    const exported = await logUntilReady(cwd, { SVC_AUTH_MODE: "none", SVC_SECRET_DB: "planted-secret-0002" });

    assert.match(unread, warning);
    assert.doesNotMatch(unread, /planted-secret-0001/);
    assert.doesNotMatch(exported, /the file \.env/);
  });

  test("svc doctor ignores a .env that is a directory or has no setting of svc", (t) => {
    const cwd = tempDir(cleanup(t));
    writeFileSync(join(cwd, ".env"), "OTHER=1\n");

    assert.doesNotMatch(svc("doctor", cwd, {}).said, /the file \.env/);
  });
});

/** Starts svc serve in the directory and kills it when it is ready. Returns its output. */
async function logUntilReady(cwd: string, env: Env): Promise<string> {
  const child = spawn(process.execPath, [svcJs, "serve"], {
    cwd,
    env: { PATH: process.env.PATH ?? "", SVC_DATA_DIR: join(cwd, "data"), SVC_PORT: "0", ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let output = "";
  const ended = new Promise<void>((resolve) => child.once("close", () => resolve()));
  for (const stream of [child.stdout, child.stderr])
    stream.on("data", (chunk: Buffer) => {
      output += chunk.toString("utf8");
      if (output.includes("svc is ready")) child.kill("SIGTERM");
    });
  await ended;
  assert.match(output, /svc is ready/);
  return output;
}
