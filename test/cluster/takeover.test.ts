// A process of its own: a test kills hosts.
// Another worker takes over the durable runs of a killed host.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { calls, gate, inTurn, says, startMock, turn } from "../support/chat.ts";
import { hasRedis, seesHosts, type TestCluster, testCluster } from "../support/cluster.ts";
import { eventually } from "../support/eventually.ts";
import type { MockModel } from "../support/mock-model.ts";
import { apiKeys, type ProcessServer } from "../support/server.ts";
import { cleanup } from "../support/temp.ts";

const skip = (await hasRedis()) ? false : "needs a Redis";
const runs = 6;

/** Max time for the lease of a killed host to end, and for its runs to end elsewhere. */
const takeoverMs = 90_000;
const over: ReadonlySet<string> = new Set(["completed", "failed", "expired", "dead"]);

/** Returns the records of runs when all are over, or at the deadline. */
async function overall(looks: readonly (() => Promise<Record>)[]): Promise<Record[]> {
  for (const deadline = Date.now() + takeoverMs; ; await pause(200)) {
    const all = await Promise.all(looks.map((look) => look()));
    if (all.every(({ status }) => over.has(status)) || Date.now() > deadline) return all;
  }
}

interface Record {
  readonly status: string;
  readonly error: string | null;
}

describe("a deployment with two workers after a kill", { skip }, () => {
  const atEnd = cleanup();
  const { env: keyEnv, keys } = apiKeys({ one: { tenant_id: "one", scopes: ["*"] } });
  const as = { key: keys.one };
  let mock: MockModel;
  let cluster: TestCluster;
  let api: ProcessServer;
  let workers: ProcessServer[];
  before(async () => {
    const made = await startMock(atEnd, {
      models: ["durable"],
      manifests: { durable: { model: { id: "durable" }, tools: ["calculator"], execution: { mode: "durable" } } },
      env: { ...keyEnv, SVC_ALLOW_INSECURE: "true" },
    });
    mock = made.mock;
    cluster = await testCluster(atEnd, { env: made.env });
    api = await cluster.host({}, "api");
    workers = await Promise.all([cluster.host({}, "worker"), cluster.host({}, "worker")]);
    await seesHosts(api, 3);
  });

  test("OPS-002 every run completes, and none fails", async () => {
    const held = gate();
    const sum = calls(["calculator", { expression: "1 + 1" }]);
    mock.answer("durable", inTurn(sum, says("Let me see.", held.opened)));
    const tokens = await Promise.all(
      Array.from({ length: runs }, async (_, at) => {
        const { json } = await api.post(
          "/chat",
          turn("durable", "go", at % 2 === 0 ? { thread_id: `t-${at}` } : {}),
          as,
        );
        return json.resume_token as string;
      }),
    );
    const statusOf = async (token: string) => (await api.get(`/chat/runs/${token}`, as)).json;
    await eventually("all at work", async () => {
      const all = await Promise.all(tokens.map(statusOf));
      return all.every(({ status }) => status === "running");
    });
    await eventually("calls", async () => mock.requests.length >= 2 * runs);

    await workers[0]?.kill();
    mock.answer("durable", inTurn(sum, { text: "Done." }));
    held.open();
    const all = await overall(tokens.map((token) => () => statusOf(token)));

    assert.deepEqual(
      all.map(({ status, error }) => [status, error]),
      tokens.map(() => ["completed", null]),
    );
  });
});
