// The client as others install it: from the packed file, without the repository.
import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { cpSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { cleanup, tempDir } from "../support/temp.ts";

const root = fileURLToPath(new URL("../../", import.meta.url));
const atEnd = cleanup();

test("the packed client installs, runs in Node and has types", () => {
  const work = tempDir(atEnd);
  const source = join(work, "client");
  cpSync(join(root, "client"), source, { recursive: true });
  cpSync(join(root, "tsconfig.json"), join(work, "tsconfig.json"));
  symlinkSync(join(root, "node_modules"), join(work, "node_modules"));
  const run = (cwd: string, command: string, ...args: readonly string[]) =>
    execFileSync(command, args, {
      cwd,
      encoding: "utf8",
      env: { ...process.env, PATH: `${join(root, "node_modules/.bin")}:${process.env.PATH}` },
    });
  const [packed] = JSON.parse(run(source, "npm", "pack", "--json", "--pack-destination", work).replace(/^[^[]*/, ""));
  const app = join(work, "app");
  mkdirSync(app);
  writeFileSync(join(app, "package.json"), JSON.stringify({ type: "module" }));
  run(app, "npm", "install", "--offline", "--no-audit", "--no-fund", join(work, packed.filename));
  writeFileSync(
    join(app, "use.ts"),
    `import { createClient } from "svc-client";
import { SvcError } from "svc-client/error";
import { chatTransport } from "svc-client/ai-transport";
import { threadHook } from "svc-client/use-thread";
import type { TurnFrame } from "svc-client/types";

const client = createClient({ url: "http://127.0.0.1:1", key: "k" });
export async function use(): Promise<number> {
  const { queued } = await client.call("POST /chat/steer", { thread_id: "t", text: "Hi", kind: "steer" });
  for await (const frame of client.stream({ manifest: "quick", messages: [] })) {
    const known: TurnFrame = frame;
    if (known.event === "text_delta") return known.data.delta.length;
  }
  return queued.length;
}
const code = await client.call("GET /health").then(() => "", (error) => (error instanceof SvcError ? error.code : "other"));
console.log(code, typeof chatTransport, typeof threadHook);
`,
  );
  writeFileSync(
    join(app, "wrong.ts"),
    `import { createClient } from "svc-client";
const client = createClient();
await client.call("POST /chat/steer", { thread_id: "t", kind: "steer" });
await client.call("POST /chat/nothing", {});
export {};
`,
  );
  const options = {
    target: "es2024",
    module: "nodenext",
    strict: true,
    noEmit: true,
    types: [],
    lib: ["es2024", "dom"],
  };
  writeFileSync(join(app, "tsconfig.json"), JSON.stringify({ compilerOptions: options, include: ["use.ts"] }));

  const types = run(app, "tsc");
  writeFileSync(join(app, "tsconfig.json"), JSON.stringify({ compilerOptions: options, include: ["wrong.ts"] }));
  const { stdout: problems } = spawnSync(join(root, "node_modules/.bin/tsc"), { cwd: app, encoding: "utf8" });
  const said = run(app, process.execPath, "--import", join(root, "strip-types.js"), "use.ts");

  assert.equal(types, "");
  assert.match(problems, /wrong\.ts\(3,.*'text' is missing/s);
  assert.match(problems, /wrong\.ts\(4,.*POST \/chat\/nothing/);
  assert.equal(said, "connection_lost function function\n");
  const files = readdirSync(join(app, "node_modules/svc-client"));
  assert.ok(files.includes("client.js") && files.includes("types") && !files.includes("tsconfig.json"));
});

test("the client has the version of the server", () => {
  const [client, server] = ["client/package.json", "package.json"].map((file) =>
    JSON.parse(readFileSync(join(root, file), "utf8")),
  );

  assert.equal(client.version, server.version);
});
