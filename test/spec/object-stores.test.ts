// The four object stores under a server.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import type { BucketServer } from "../support/bucket-server.ts";
import { gcsSettings, s3Settings } from "../support/buckets.ts";
import { eventually } from "../support/eventually.ts";
import { type GcsServer, startGcsServer } from "../support/gcs-server.ts";
import { png } from "../support/image-bytes.ts";
import { s3Key, startS3Server } from "../support/s3-server.ts";
import { apiKeys, type Env, type ProcessServer, startServerProcess } from "../support/server.ts";
import { cleanup } from "../support/temp.ts";

const { env: auth, keys } = apiKeys({
  alice: { scopes: ["files:write", "files:read", "chat:write"] },
  stranger: { tenant_id: "globex", scopes: ["files:write", "files:read"] },
});
const upload = { data: png(5_000).toString("base64"), media_type: "image/png", filename: "a.png" };

describe("OPS-003 a server on each object store", () => {
  const atEnd = cleanup();
  let s3: BucketServer;
  let gcs: GcsServer;
  let server: ProcessServer;
  before(async () => {
    [s3, gcs] = [await startS3Server(atEnd), await startGcsServer(atEnd)];
    const env = { ...auth, ...s3Settings(s3.url), ...gcsSettings(gcs), SVC_OBJECT_STORE: "memory" } as Env;
    server = await startServerProcess({ atEnd, env });
  });

  const ready = async () => server.get("/ready");
  const post = () => server.post("/files", upload, { key: keys.alice });
  const turn = (thread_id: string) =>
    server.post(
      "/chat",
      { manifest: "quick", thread_id, messages: [{ role: "user", content: "6 * 7?" }] },
      { key: keys.alice },
    );

  test("OPS-003 the object store memory is ready and accepts no files", async () => {
    assert.equal((await ready()).json.checks.object_store.ok, true);
    assert.equal((await post()).json.error, "object_store_unavailable");
  });

  const kept: Record<string, string> = {};
  for (const kind of ["fs", "s3", "gcs"])
    test(`OPS-003 the object store ${kind} is ready and keeps files`, async () => {
      await server.restart({ SVC_OBJECT_STORE: kind });

      const file = await post();

      assert.equal((await ready()).json.checks.object_store.ok, true);
      assert.equal(file.status, 200, file.text);
      kept[kind] = file.json.file_id;
      const bucket = { s3, gcs }[kind];
      if (bucket !== undefined) assert.ok(bucket.objects.has(`files/acme/${kept[kind]}`));
    });

  test("OPS-003 a file in a bucket outlives the server, for its tenant alone", async () => {
    await server.restart({ SVC_OBJECT_STORE: "s3" });
    const path = `/files/${kept.s3}`;

    assert.equal((await server.get(path, { key: keys.stranger })).status, 404);
    await server.request("DELETE", path, { key: keys.stranger });
    assert.equal((await server.get(path, { key: keys.alice })).json.data, upload.data);
    assert.equal((await server.request("DELETE", path, { key: keys.alice })).status, 200);
    assert.equal((await server.get(path, { key: keys.alice })).status, 404);
    assert.ok(!s3.objects.has(`files/acme/${kept.s3}`));
  });

  test("OPS-003 a server without its bucket takes turns, is not ready, and recovers", async () => {
    assert.equal((await turn("before")).status, 200);
    const asked = s3.requests.length;
    assert.equal((await turn("before")).status, 200);
    assert.equal(s3.requests.length, asked);

    s3.faults.push(...Array.from({ length: 1_000 }, () => 503));
    const [refused, red, during] = [await post(), await ready(), await turn("during")];
    s3.faults.length = 0;
    await eventually("the bucket to be used again", async () => ((await ready()).status === 200 ? true : undefined));

    assert.deepEqual([refused.status, refused.json.error], [503, "storage_unavailable"]);
    assert.deepEqual([red.status, red.json.status, red.json.checks.object_store.ok], [503, "not_ready", false]);
    // The deadline of the check may come before the last attempt.
    assert.match(red.json.checks.object_store.detail, /^(?:storage_unavailable|deadline_exceeded)$/);
    assert.equal(red.json.checks.database.ok, true);
    assert.equal(during.status, 200, during.text);
    assert.equal((await post()).status, 200);
  });

  test("OPS-003 a wrong key is a warning at the start, and appears nowhere", async () => {
    await server.restart({ SVC_S3_SECRET_KEY: "another-secret-of-the-bucket" });

    assert.equal((await ready()).json.checks.object_store.ok, false);
    assert.equal((await post()).status, 503);
    const [warning] = server.logs.filter(({ level }) => level === "warn");
    assert.equal(warning?.msg, "SVC_S3_BUCKET: the bucket svc-objects cannot be used now");
    assert.match(JSON.stringify(warning), /refused to write: 403 SignatureDoesNotMatch/);
    assert.doesNotMatch(server.output, new RegExp(`${s3Key.id}|another-secret|${s3Key.secret.slice(0, 12)}`));
  });
});
