// The choice of the HTTP engine: the operator's, or by default uWebSockets.js if it has a binary here.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { join } from "node:path";
import { describe, test } from "node:test";
import { promisify } from "node:util";
import { type ProcessServer, startServerProcess } from "../../support/server.ts";
import { root } from "../../support/source.ts";
import { cleanup, tempDir } from "../../support/temp.ts";

/** A module that hides the binaries of uWebSockets.js, as on musl or for a newer Node. */
const hide = `import { registerHooks } from "node:module";
registerHooks({
  resolve(specifier, context, next) {
    if (/uws_.*\\.node$/.test(specifier)) throw new Error("it is not there");
    return next(specifier, context);
  },
});`;
const withoutBinary = { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(hide)}` };

/** uWebSockets.js names itself in every answer. */
async function engineOf(server: ProcessServer): Promise<string> {
  const { status, headers } = await server.get("/health");
  assert.equal(status, 200);
  return headers.uwebsockets === undefined ? "node" : "uws";
}

function told(server: ProcessServer) {
  const line = server.logs.find(({ http_engine }) => http_engine !== undefined);
  return [line?.http_engine, line?.msg];
}

async function doctor(env: Readonly<Record<string, string>>) {
  const { PATH = "", HOME = "" } = process.env;
  const atEnd = { env: { PATH, HOME, ...env }, cwd: root };
  const args = ["--import", join(root, "strip-types.js"), join(root, "svc.ts"), "doctor", "--json"];
  const { stdout } = await promisify(execFile)(process.execPath, args, atEnd).catch(
    (error: { stdout: string }) => error,
  );
  const { checks } = JSON.parse(stdout) as { checks: { name: string; status: string; detail: string }[] };
  return checks.find(({ name }) => name === "http_engine");
}

describe("the HTTP engine", () => {
  const atEnd = cleanup();
  const start = (env: Readonly<Record<string, string>>) => startServerProcess({ atEnd, env });

  for (const [wanted, engine, why] of [
    ["auto", "uws", "uWebSockets.js has a binary for this system and this Node"],
    ["uws", "uws", "SVC_HTTP_ENGINE is uws"],
    ["node", "node", "SVC_HTTP_ENGINE is node"],
  ] as const) {
    test(`${wanted} is ${engine}, and the log says why`, async () => {
      const server = await start({ SVC_HTTP_ENGINE: wanted });

      assert.equal(await engineOf(server), engine);
      assert.deepEqual(told(server), [engine, why]);
    });
  }

  test("auto without a binary is node, on every thread", async () => {
    const server = await start({ ...withoutBinary, SVC_HTTP_ENGINE: "auto", SVC_HTTP_THREADS: "2" });

    assert.equal(await engineOf(server), "node");
    assert.deepEqual(told(server), ["node", "uWebSockets.js cannot be loaded here: Error: it is not there"]);
  });

  test("uws without a binary does not start, and says which setting wants it", async () => {
    const server = await startServerProcess({
      atEnd,
      env: { ...withoutBinary, SVC_HTTP_ENGINE: "uws" },
      waitForReady: false,
    });

    const { code } = await server.exited;

    assert.equal(code, 1);
    assert.match(
      server.output,
      /SVC_HTTP_ENGINE is uws, and uWebSockets\.js cannot be loaded here: Error: it is not there/,
    );
  });

  test("svc doctor names engine and reason; a missing binary is an error for uws only", async () => {
    const env = { SVC_DATA_DIR: join(tempDir(atEnd), "data") };

    const [usual, fallback, wanted] = await Promise.all([
      doctor(env),
      doctor({ ...env, ...withoutBinary }),
      doctor({ ...env, ...withoutBinary, SVC_HTTP_ENGINE: "uws" }),
    ]);

    const check = (status: string, detail: string) => ({ name: "http_engine", status, detail });
    assert.deepEqual(usual, check("ok", "uws: uWebSockets.js has a binary for this system and this Node"));
    assert.deepEqual(fallback, check("ok", "node: uWebSockets.js cannot be loaded here: Error: it is not there"));
    assert.equal(wanted?.status, "error");
    assert.match(wanted?.detail ?? "", /^SVC_HTTP_ENGINE is uws, and uWebSockets\.js cannot be loaded here/);
  });
});
