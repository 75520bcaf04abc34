// A file that changes between two reads, and the order of waiting requests.
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { aloneWith, deleteFile, writeFile } from "../../../actors/workspace/files.ts";
import type { Place } from "../../../actors/workspace/place.ts";
import { systemEnv } from "../../../bus/env.ts";
import { TenantSemaphores } from "../../../bus/queues/tenant-semaphores.ts";
import { gate } from "../../support/chat.ts";
import { cleanup, tempDir } from "../../support/temp.ts";

const principal = { tenant_id: "default", sub: "ann", scopes: [], scheme: "none", issuer: "" };
const asked = { manifest: null, principal, path: "a", expected_sha256: null };

function open(t: TestContext): { place: Place; at: string; audited: string[] } {
  const root = tempDir(cleanup(t));
  const audited: string[] = [];
  const place: Place = {
    ...{ tenantId: "default", threadSuffix: "t", workspaceScope: "deployment", scope: "deployment", manifest: null },
    workspace: { root, deploymentTenants: ["default"], checkout: async () => null },
    rootKind: "scoped",
    env: systemEnv(),
    signal: new AbortController().signal,
    audit: (event) => audited.push(event),
  };
  return { place, at: join(root, "a"), audited };
}

test("WS-003 a file that changes during the write stays, and the answer shows it", async (t) => {
  const { place, at, audited } = open(t);
  writeFileSync(at, "old");
  // The id of the draft is requested after the file was checked, and before it is replaced.
  const env = {
    ...place.env,
    id() {
      writeFileSync(at, "theirs");
      return place.env.id();
    },
  };

  const refused = await writeFile({ ...place, env }, { ...asked, content: "mine" }).catch((error: unknown) => error);

  const sha256 = createHash("sha256").update("theirs").digest("hex");
  const { code, details } = refused as { code: string; details: unknown };
  assert.deepEqual([code, details], ["workspace_changed", { detail: { sha256, bytes: 6 } }]);
  assert.deepEqual([readFileSync(at, "utf8"), audited], ["theirs", []]);
});

test("WS-004 a path that is no longer a file is not deleted", async (t) => {
  const { place, at, audited } = open(t);
  mkdirSync(at);

  await assert.rejects(deleteFile(place, asked), { ground: "not_a_file" });
  assert.deepEqual(audited, []);
});

test("WS-006 concurrent moves between two paths take turns, in any order and case", async (t) => {
  const { place } = open(t);
  const done: string[] = [];
  const both = (name: string, ...paths: string[]) =>
    aloneWith(
      place,
      paths.map((path) => [path]),
      async () => {
        const begun = done.length;
        await new Promise((resolve) => setImmediate(resolve));
        assert.equal(done.length, begun);
        done.push(name);
      },
    );

  await Promise.all([both("1", "a", "b"), both("2", "b", "a"), both("3", "A", "a"), both("4", "B", "a")]);

  assert.deepEqual(done.sort(), ["1", "2", "3", "4"]);
});

test("each tenant has a bound of concurrent requests, and waits for itself only", async () => {
  const gates = new TenantSemaphores(2);
  const begun: string[] = [];
  const doors = ["1", "2", "3"].map((name) => ({ name, ...gate() }));

  const waiting = doors.map(({ name, opened }) =>
    gates.run("one", async () => {
      begun.push(name);
      await opened;
    }),
  );
  await gates.run("two", async () => void begun.push("other"));
  assert.deepEqual(begun, ["1", "2", "other"]);
  doors[0]?.open();
  await waiting[0];
  await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual(begun, ["1", "2", "other", "3"]);
  for (const { open: release } of doors) release();
  await Promise.all(waiting);
});
