// The anomaly scan over HTTP: manifests are stored, runs fail, and the scan rolls back the canary that causes the
// failures.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { startChat, turn } from "../support/chat.ts";
import { failure } from "../support/mock-model/behaviours.ts";
import { apiKeys, type TestServer } from "../support/server.ts";
import { cleanup } from "../support/temp.ts";

const { env, keys } = apiKeys({
  alice: { scopes: ["*"] },
  eve: { tenant_id: "globex", scopes: ["*"] },
});
type Who = keyof typeof keys;

describe("anomalies", () => {
  const atEnd = cleanup();
  let server: TestServer;
  before(async () => {
    const started = await startChat(atEnd, { models: ["good", "bad"], env });
    server = started.server;
    started.mock.answer("good", { text: "Hello." });
    started.mock.answer("bad", failure(400));
  });

  const get = (path: string, who: Who = "alice") => server.get(path, { key: keys[who] });
  const put = async (
    who: Who,
    name: string,
    model: string,
    { anomaly = {}, ...more }: { anomaly?: object; activate?: boolean } = {},
  ) => {
    const spec = { model: { id: model }, anomaly: { min_volume: 4, ...anomaly } };
    const body = { manifest: { metadata: { name }, spec }, ...more };
    const { status, text } = await server.request("PUT", `/manifests/${name}`, { key: keys[who], body });
    assert.equal(status, 200, text);
  };
  const canary = (who: Who, name: string) =>
    server.post(`/manifests/${name}/canary`, { canary_version: 2, canary_weight: 100 }, { key: keys[who] });
  /** Runs a turn. Only a turn with a thread can get the canary. */
  const ask = async (who: Who, name: string, thread_id: string | null = null) =>
    (await server.post("/chat", turn(name, "hi", thread_id === null ? {} : { thread_id }), { key: keys[who] })).status;
  const variantOf = async (who: Who, name: string) => {
    const { json } = await get(`/manifests/${name}?thread_id=t1`, who);
    return [json.variant, json.version];
  };
  async function scan(): Promise<void> {
    const { status, text } = await server.post("/tasks/anomaly_scan/run", undefined, { key: keys.alice });
    assert.equal(status, 200, text);
  }
  const audited = async (who: Who, type: string, name: string) => {
    await server.post("/tasks/flush_audit/run", undefined, { key: keys.alice });
    return (await get(`/audit?event_type=${type}&manifest_id=${name}`, who)).json.items;
  };

  test("TASK-011 the scan rolls back a failing canary, and keeps that of another tenant", async () => {
    for (const who of ["alice", "eve"] as const) {
      await put(who, "helper", "good");
      await put(who, "helper", who === "alice" ? "bad" : "good", { anomaly: { min_rate: 0.3 }, activate: false });
      assert.equal((await canary(who, "helper")).status, 200);
      for (let n = 0; n < 4; n++) await ask(who, "helper");
      for (let n = 0; n < 3; n++) await ask(who, "helper", `t${n}`);
    }
    await scan();
    const before = [await variantOf("alice", "helper"), await variantOf("eve", "helper")];
    assert.equal(await ask("alice", "helper", "t3"), 502);
    await ask("eve", "helper", "t3");

    await scan();

    const after = [await variantOf("alice", "helper"), await variantOf("eve", "helper")];
    const rows = await audited("alice", "manifest_canary_rolled_back", "helper");
    const versions = (await get("/manifests/helper/versions")).json.items;
    assert.deepEqual(before, [
      ["canary", 2],
      ["canary", 2],
    ]);
    assert.deepEqual(after, [
      ["stable", 1],
      ["canary", 2],
    ]);
    assert.equal(await ask("alice", "helper", "t1"), 200, "threads of the canary go on with the active version");
    assert.deepEqual(
      rows.map(({ status, principal_subj, payload }: Record<string, unknown>) => [status, principal_subj, payload]),
      [
        [
          "ok",
          "anomaly_scan",
          {
            ...{ version: 1, canary_version: 2, canary_weight: 100 },
            ...{ runs: 4, failures: 4, rate: 1, baseline_rate: 0, window_minutes: 60 },
          },
        ],
      ],
    );
    assert.deepEqual(
      versions.map(({ version, active, canary }: Record<string, unknown>) => [version, active, canary]),
      [
        [2, false, false],
        [1, true, false],
      ],
    );
    assert.deepEqual(await audited("eve", "manifest_canary_rolled_back", "helper"), []);
    const { text } = await get("/metrics");
    assert.match(text, /^svc_anomaly_detected_total\{kind="canary"\} 1$/m);
  });

  test("TASK-011 failures from before a canary was set again do not roll it back", async () => {
    await put("alice", "again", "good");
    await put("alice", "again", "bad", { activate: false });
    await canary("alice", "again");
    for (let n = 0; n < 5; n++) await ask("alice", "again", `t${n}`);
    await scan();
    const first = await variantOf("alice", "again");

    await canary("alice", "again");
    await scan();
    const second = await variantOf("alice", "again");

    assert.deepEqual(
      [first, second],
      [
        ["stable", 1],
        ["canary", 2],
      ],
    );
  });

  test("TASK-011 a manifest that fails more often than usual is audited, unless it opted out", async () => {
    await put("alice", "broken", "bad");
    await put("alice", "silent", "bad", { anomaly: { enabled: false } });
    for (const name of ["broken", "silent"]) for (let n = 0; n < 4; n++) await ask("alice", name);

    await scan();
    await scan();

    const rows = await audited("alice", "anomaly_detected", "broken");
    assert.deepEqual(
      rows.map(({ status, payload }: Record<string, unknown>) => [status, payload]),
      [["error", { version: 1, runs: 4, failures: 4, rate: 1, baseline_rate: 0, window_minutes: 60 }]],
    );
    assert.deepEqual(await audited("alice", "anomaly_detected", "silent"), []);
  });
});
