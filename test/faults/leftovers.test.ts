// Temporary files of agents' writes that a killed server leaves behind.
import { existsSync, mkdirSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { eventually } from "../support/eventually.ts";
import { startServerProcess } from "../support/server.ts";
import { cleanup, tempDir } from "../support/temp.ts";

test("the next server removes a draft older than an hour", async (t) => {
  const atEnd = cleanup(t);
  const root = tempDir(atEnd);
  const place = join(root, ".svc-scopes/acme/threads/t");
  mkdirSync(place, { recursive: true });
  const draft = join(place, `.svc-tmp-${"0a".repeat(16)}`);
  writeFileSync(draft, "half of");
  const at = new Date(Date.now() - 2 * 3_600_000);
  utimesSync(draft, at, at);

  const server = await startServerProcess({ atEnd, env: { SVC_WORKSPACE_ROOT: root } });

  await eventually("the draft is gone", async () => {
    await server.get("/live");
    return existsSync(draft) ? undefined : true;
  });
});
