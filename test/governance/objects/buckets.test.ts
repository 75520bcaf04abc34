// Object stores in buckets: services that fail, and the credentials of requests to them.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { type Env, systemEnv } from "../../../bus/env.ts";
import { awsRole, googleRole } from "../../../governance/objects/instance-role.ts";
import { openObjects } from "../../../governance/objects/open-objects.ts";
import { bootRefusals } from "../../../governance/settings/boot-refusals.ts";
import { type Environment, loadSettings } from "../../../governance/settings/settings.ts";
import type { ObjectStore } from "../../../storage/objects/object-store.ts";
import { objectBytesMax, type RemoteRequest, type RemoteSend } from "../../../storage/objects/remote.ts";
import type { BucketServer } from "../../support/bucket-server.ts";
import { gcsSettings, openBucket, s3Settings } from "../../support/buckets.ts";
import { startGcsServer } from "../../support/gcs-server.ts";
import { s3Key, startS3Server } from "../../support/s3-server.ts";
import { type Cleanup, cleanup } from "../../support/temp.ts";

const system = systemEnv();
/** Timers end twenty times earlier. */
const hurried: Env = { ...system, timer: (ms, work) => system.timer(ms / 20, work) };
const bytes = Buffer.from("some bytes of an object");

const kinds: Record<string, (atEnd: Cleanup) => Promise<{ server: BucketServer; environment: Environment }>> = {
  async s3(atEnd) {
    const server = await startS3Server(atEnd);
    return { server, environment: s3Settings(server.url) };
  },
  async gcs(atEnd) {
    const server = await startGcsServer(atEnd);
    return { server, environment: gcsSettings(server) };
  },
};

for (const [kind, start] of Object.entries(kinds)) {
  describe(`a bucket of ${kind}`, () => {
    const started = async (t: Parameters<typeof cleanup>[0]) => {
      const atEnd = cleanup(t);
      const { server, environment } = await start(atEnd);
      const store = openBucket(environment, atEnd, hurried);
      await store.put("a/b", bytes);
      return { server, environment, store, atEnd };
    };

    const passing: Record<string, (store: ObjectStore) => Promise<unknown>> = {
      get: async (store) => assert.deepEqual(Buffer.from((await store.get("a/b")) ?? []), bytes),
      put: (store) => store.put("a/c", bytes),
      list: async (store) => assert.deepEqual(await store.list("a/", 10), ["a/b"]),
      delete: (store) => store.delete("a/b"),
    };
    for (const [name, work] of Object.entries(passing))
      test(`repeats a ${name} that a fault of the service ends`, async (t) => {
        const { server, store } = await started(t);

        for (const fault of [503, "truncated", "dropped", "slow"] as const) {
          if (name === "delete") await store.put("a/b", bytes);
          server.faults.push(fault);
          await work(store);
          assert.equal(server.faults.length, 0);
          if (name === "put") await store.delete("a/c");
        }
      });

    test("refuses after three failures, and works again afterwards", async (t) => {
      const { server, store } = await started(t);
      const before = server.requests.length;
      server.faults.push(503, 503, 503);

      await assert.rejects(store.get("a/b"), (error: Error & { code: string }) => {
        assert.equal(error.code, "storage_unavailable");
        assert.match((error.cause as Error).message, /^the object store refused to read: 503 (SlowDown|backendError)$/);
        return true;
      });

      assert.equal(server.requests.length - before, 3);
      assert.deepEqual(Buffer.from((await store.get("a/b")) ?? []), bytes);
    });

    test("does not repeat what the service refuses, and repeats nothing of its text", async (t) => {
      const { server, store } = await started(t);
      const before = server.requests.length;

      for (const work of Object.values(passing)) {
        server.faults.push(412);
        await assert.rejects(work(store), (error: Error & { code: string }) => {
          assert.equal(error.code, "storage_unavailable");
          const cause = error.cause as Error;
          assert.match(cause.message, /412/);
          assert.doesNotMatch(JSON.stringify({ ...cause, m: cause.message, s: cause.stack }), /AKIA|Bearer|Signature/);
          return true;
        });
      }

      assert.equal(server.requests.length - before, Object.keys(passing).length);
      assert.ok(server.objects.has("a/b"));
    });

    test("gives one id to two stores that ask at once, whatever the order of writes", async (t) => {
      const { environment, store, server, atEnd } = await started(t);
      const other = openBucket(environment, atEnd);

      const ids = await Promise.all([store.identify("one"), other.identify("two")]);

      assert.equal(ids[0], ids[1]);
      assert.deepEqual(await store.list("", 10), ["a/b"]);
      assert.ok(server.objects.has("+id"));
    });

    test("writes for its check once a minute, and reads each time", async (t) => {
      const { server, store } = await started(t);
      const before = server.requests.length;

      for (let i = 0; i < 4; i++) await store.check();

      const words = server.requests.slice(before).map((line) => line.split(" ")[0]);
      assert.equal(words.filter((word) => word === "GET").length, 4);
      assert.equal(words.length, 5);
    });

    test("passes over names that are no keys, in pages of any size", async (t) => {
      const { server, store } = await started(t);
      for (const name of ["+id", "a/ä", "a/ b", "a//c", "z&<z", "a/c"]) server.objects.set(name, bytes);

      assert.deepEqual(await store.list("", 10), ["a/b", "a/c"]);
      assert.deepEqual(await store.list("", 1), ["a/b"]);
      assert.deepEqual(await store.list("", 1, "a/b"), ["a/c"]);
      assert.deepEqual(await store.list("", 1, "a/c"), []);
    });

    test("refuses an object over the limit of bytes", async (t) => {
      const { server, store } = await started(t);
      server.objects.set("large", Buffer.alloc(objectBytesMax + 1));

      await assert.rejects(store.get("large"), { code: "storage_unavailable" });
      await assert.rejects(store.put("larger", new Uint8Array(objectBytesMax + 1)), { code: "storage_unavailable" });

      assert.ok(!server.objects.has("larger"));
    });

    test("refuses with wrong credentials and with a wrong bucket", async (t) => {
      const { environment, server, atEnd } = await started(t);
      const [, other] = await Promise.all([null, kind === "gcs" ? startGcsServer(atEnd) : null]);
      const wrong =
        other === null
          ? { ...environment, SVC_S3_SECRET_KEY: "another-secret-of-the-bucket" }
          : { ...environment, SVC_GCS_CREDENTIALS: (environment.SVC_GCS_CREDENTIALS ?? "").replace("svc@", "other@") };
      const elsewhere = { ...environment, SVC_S3_BUCKET: "elsewhere", SVC_GCS_BUCKET: "elsewhere" };

      await assert.rejects(openBucket(wrong, atEnd, hurried).check(), { code: "storage_unavailable" });
      await assert.rejects(openBucket(elsewhere, atEnd, hurried).check(), { code: "storage_unavailable" });
      await assert.rejects(openBucket(elsewhere, atEnd, hurried).get("a/b"), { code: "storage_unavailable" });

      assert.ok(server.refusals.length > 0);
    });

    test("answers storage_unavailable while nothing listens at its address", async (t) => {
      const atEnd = cleanup(t);
      const { environment } = await start(atEnd);
      const gone = { ...environment, SVC_S3_ENDPOINT: "http://127.0.0.1:9", SVC_GCS_ENDPOINT: "http://127.0.0.1:9" };
      const store = openBucket(gone, atEnd, hurried);

      await assert.rejects(store.check(), { code: "storage_unavailable" });
    });
  });
}

test("a token of Google serves many requests, and a revoked one is replaced", async (t) => {
  const atEnd = cleanup(t);
  const server = await startGcsServer(atEnd);
  const store = openBucket(gcsSettings(server), atEnd, hurried);
  await Promise.all(Array.from({ length: 10 }, (_, i) => store.put(`many/${i}`, bytes)));
  const fetched = server.tokens.size;

  server.tokens.clear();
  await store.put("after", bytes);

  assert.equal(fetched, 1);
  assert.equal(server.tokens.size, 1);
  assert.ok(server.objects.has("after"));
});

describe("the role of an instance", () => {
  const sent: RemoteRequest[] = [];
  const answering =
    (answers: Readonly<Record<string, string>>): RemoteSend =>
    async (request) => {
      sent.push(request);
      const body = answers[`${request.method} ${new URL(request.url).pathname}`];
      const status = body === undefined ? 404 : 200;
      return { status, headers: {}, bytes: Buffer.from(body ?? ""), isCut: false };
    };

  test("gives session credentials of AWS by the second version of its service", async () => {
    const roles = "/latest/meta-data/iam/security-credentials/";
    const keys = { AccessKeyId: "AKIA1", SecretAccessKey: "s", Token: "t", Expiration: "2030-01-01T00:00:00Z" };
    sent.length = 0;

    const found = await awsRole(
      answering({
        "PUT /latest/api/token": "metadata-token",
        [`GET ${roles}`]: "svc-role\n",
        [`GET ${roles}svc-role`]: JSON.stringify(keys),
      }),
    );

    const expiration = new Date("2030-01-01T00:00:00Z");
    assert.deepEqual(found, { accessKeyId: "AKIA1", secretAccessKey: "s", sessionToken: "t", expiration });
    assert.ok(sent.every(({ url }) => url.startsWith("http://169.254.169.254/")));
    assert.deepEqual(
      sent.slice(1).map(({ headers }) => headers["x-aws-ec2-metadata-token"]),
      ["metadata-token", "metadata-token"],
    );
  });

  test("gives a token of Google", async () => {
    const path = "/computeMetadata/v1/instance/service-accounts/default/token";
    sent.length = 0;

    const found = await googleRole(answering({ [`GET ${path}`]: '{"access_token":"abc","expires_in":60}' }));

    assert.deepEqual(found, { text: "abc", livesMs: 60_000 });
    assert.equal(sent[0]?.headers["metadata-flavor"], "Google");
  });

  test("is refused by name when the service has none", async () => {
    await assert.rejects(awsRole(answering({})), { message: "the metadata service of the instance answers 404" });
    const answers = { "PUT /latest/api/token": "t", "GET /latest/meta-data/iam/security-credentials/": "../x" };
    await assert.rejects(awsRole(answering(answers)), { message: "the instance has no role" });
    await assert.rejects(googleRole(answering({})), { message: "the metadata service of the instance answers 404" });
  });

  test("is never asked for unless SVC_EGRESS_PRIVATE names the service exactly", async (t) => {
    const bare = { SVC_OBJECT_STORE: "s3", SVC_S3_BUCKET: "svc-objects", SVC_S3_ENDPOINT: "http://127.0.0.1:9" };
    const named = (entry: object) => ({ ...bare, SVC_EGRESS_PRIVATE: JSON.stringify([entry]) });
    const exact = named({ host: "169.254.169.254", port: 80, tenants: [] });
    const store = openBucket(bare, cleanup(t), hurried);

    await assert.rejects(store.check(), (error: Error) => {
      assert.match(String((error.cause as Error).message), /SVC_EGRESS_PRIVATE does not name the metadata service/);
      return true;
    });

    const wide = named({ cidr: "169.254.0.0/16", port: 80, tenants: ["acme"] });
    for (const environment of [bare, wide])
      assert.match(bootRefusals(loadSettings(environment)).join("\n"), /SVC_S3_ACCESS_KEY is not set: for the role/);
    assert.deepEqual(bootRefusals(loadSettings(exact)), []);
    assert.throws(() => loadSettings(named({ host: "10.0.0.1", port: 80, tenants: [] })), /must name a tenant/);
  });
});

describe("settings of a bucket", () => {
  const s3 = s3Settings("http://minio:9000");
  const refusals = (environment: Environment) => bootRefusals(loadSettings(environment)).join("\n");

  test("that are missing or do not fit each other are refused by name", async (t) => {
    const gcs = gcsSettings(await startGcsServer(cleanup(t)));

    assert.equal(refusals(s3), "");
    assert.equal(refusals(gcs), "");
    assert.match(refusals({ ...s3, SVC_S3_BUCKET: "" }), /SVC_OBJECT_STORE=s3 needs SVC_S3_BUCKET/);
    assert.match(refusals({ ...s3, SVC_S3_SECRET_KEY: "" }), /must be set together/);
    assert.match(refusals({ ...s3, SVC_S3_SECRET_KEY: "secret:NONE" }), /SVC_S3_SECRET_KEY names an SVC_SECRET_/);
    assert.match(refusals({ ...gcs, SVC_GCS_BUCKET: "" }), /SVC_OBJECT_STORE=gcs needs SVC_GCS_BUCKET/);
    assert.match(refusals({ ...gcs, SVC_GCS_CREDENTIALS: "" }), /SVC_GCS_CREDENTIALS is not set/);
    assert.match(refusals({ ...gcs, SVC_ALLOW_INSECURE: "false" }), /must be https/);
    assert.throws(() => loadSettings({ ...gcs, SVC_GCS_CREDENTIALS: "/etc/key.json" }), /and not a file name/);
    assert.throws(() => loadSettings({ ...gcs, SVC_GCS_CREDENTIALS: '{"type":"user"}' }), /type service_account/);
    assert.throws(() => loadSettings({ ...s3, SVC_S3_BUCKET: "Not/A bucket" }), /name of a bucket/);
  });

  test("mask the keys everywhere", async (t) => {
    const gcs = gcsSettings(await startGcsServer(cleanup(t)));
    const key = JSON.parse(gcs.SVC_GCS_CREDENTIALS ?? "") as { private_key: string };

    const { secretValues } = loadSettings({ ...s3, ...gcs });

    for (const text of [s3Key.id, s3Key.secret, key.private_key]) assert.ok(secretValues.includes(text));
  });

  test("may name secrets, which are looked up at the requests", async (t) => {
    const atEnd = cleanup(t);
    const { url } = await startS3Server(atEnd);
    const environment = {
      ...s3Settings(url),
      SVC_S3_SECRET_KEY: "secret:BUCKET_KEY",
      SVC_SECRET_BUCKET_KEY: s3Key.secret,
    };

    await openBucket(environment, atEnd).check();
  });

  test("for files and memory import no client and send nothing", () => {
    const settings = loadSettings({ SVC_OBJECT_STORE: "memory" });

    const store = openObjects(settings, system, { resolve: () => Promise.reject(new Error("no secret is needed")) });

    assert.ok(store);
  });
});
