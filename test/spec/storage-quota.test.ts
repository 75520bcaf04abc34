// SVC_TENANT_STORED_BYTES over HTTP: a tenant's storage quota, across a restart and independent of other tenants.
import assert from "node:assert/strict";
import { test } from "node:test";
import { apiKeys, startServerProcess } from "../support/server.ts";
import { cleanup, tempDir } from "../support/temp.ts";

const atEnd = cleanup();
const { env: keyed, keys } = apiKeys({
  writer: { scopes: ["*"] },
  stranger: { tenant_id: "globex", scopes: ["*"] },
});
const limit = 5_000;
const env = { ...keyed, SVC_TENANT_STORED_BYTES: String(limit) };

function body(name: string, letters: number) {
  return { manifest: { metadata: { name }, spec: { system_prompt: { inline: "x".repeat(letters) } } }, comment: "" };
}

test("a manifest beyond the tenant's quota is refused with figures, smaller ones not", async () => {
  const dataDir = tempDir(atEnd);
  const server = await startServerProcess({ atEnd, env, dataDir });
  const put = (at: typeof server, name: string, letters: number, key = keys.writer) =>
    at.request("PUT", `/manifests/${name}`, { key, body: body(name, letters) });
  const stored = JSON.stringify(body("first", 3_000).manifest).length;

  assert.equal((await put(server, "first", 3_000)).status, 200);
  const refused = await put(server, "second", 3_000);
  assert.equal(refused.status, 409);
  assert.equal(refused.json.error, "storage_quota_exceeded");
  assert.deepEqual(refused.json.detail, {
    quota: "SVC_TENANT_STORED_BYTES",
    limit_bytes: limit,
    used_bytes: stored,
    asked_bytes: JSON.stringify(body("second", 3_000).manifest).length,
  });
  assert.equal((await server.get("/manifests/second", { key: keys.writer })).status, 404);
  assert.equal((await put(server, "first", 3_000)).status, 200, "the same again stores nothing");
  assert.equal((await put(server, "first", 3_000, keys.stranger)).status, 200);

  await server.kill();
  const again = await startServerProcess({ atEnd, env, dataDir });
  const after = await put(again, "second", 3_000);
  assert.deepEqual([after.status, after.json.detail], [409, refused.json.detail]);
  const small = await Promise.all(Array.from({ length: 8 }, (_, n) => put(again, `small-${n}`, 500)));
  const fits = Math.floor((limit - stored) / JSON.stringify(body("small-0", 500).manifest).length);
  assert.equal(small.filter(({ status }) => status === 200).length, fits);
  assert.equal(small.filter(({ json }) => json.error === "storage_quota_exceeded").length, 8 - fits);
});
