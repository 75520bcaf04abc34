// A hundred thousand durable runs through one process, each on its own thread, a fifth of them with a tool call and a
// webhook. Their rows are on disk, and the process does not grow. SVC_TEST_SOAK_RUNS makes it shorter.
import assert from "node:assert/strict";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import { runBackToBack } from "../../perf/back-to-back.ts";
import { readRssKib } from "../../perf/process-stats.ts";
import { databaseOf } from "../faults/support.ts";
import { calls, inTurn } from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
import { startMockModel } from "../support/mock-model.ts";
import { manifestEnv, modelEnv, startServerProcess } from "../support/server.ts";
import { cleanup } from "../support/temp.ts";

const runs = Number(process.env.SVC_TEST_SOAK_RUNS ?? 100_000);
/** Clients, and runs at work at once. */
const clients = 64;
/** The memory is read after each of these. */
const rounds = 400;
/** The most that the last quarter of the runs may add to the second. */
const growthMax = 1.1;
/** Actors other than threads, and threads whose last run has just ended. */
const actorsMax = 40;

test("DUR-008 a hundred thousand durable runs leave rows, and no memory", {
  skip: process.platform === "linux" ? false : "needs /proc",
}, async (t) => {
  const atEnd = cleanup(t);
  const mock = await startMockModel({ record: false });
  atEnd.after(() => mock.close());
  let hooks = 0;
  const receiver = createServer((request, response) => {
    request.resume().on("end", () => {
      hooks++;
      response.writeHead(204).end();
    });
  });
  await new Promise<void>((resolve) => receiver.listen(0, "127.0.0.1", resolve));
  atEnd.after(() => {
    receiver.closeAllConnections();
    receiver.close();
  });
  const { port } = receiver.address() as AddressInfo;
  mock.answer("brief", { text: "one two three" });
  mock.answer("summing", inTurn(calls(["calculator", { expression: "6*7" }]), { text: "42" }));
  const server = await startServerProcess({
    atEnd,
    env: {
      ...modelEnv(mock, ["brief", "summing"]),
      ...manifestEnv(atEnd, {
        brief: { model: { id: "brief" }, execution: { mode: "durable" } },
        told: {
          ...{ model: { id: "summing" }, tools: ["calculator"] },
          execution: { mode: "durable", webhooks: ["ops"] },
        },
      }),
      SVC_AUDIT_FLUSH_SECONDS: "1",
      SVC_ENVIRONMENT: "development",
      SVC_ALLOW_INSECURE: "true",
      SVC_FIBER_CONCURRENCY: String(clients),
      SVC_WEBHOOK_ENDPOINTS: JSON.stringify({
        ops: {
          url: `http://127.0.0.1:${port}/`,
          secret: "whsec_dGhlIHNlY3JldCBvZiB0aGlzIHRlc3Q=",
          tenants: "*",
          private: true,
        },
      }),
    },
  });
  const each = Math.ceil(runs / rounds);
  const rssKib: number[] = [];
  const from = performance.now();

  for (let round = 0; round < rounds; round++) {
    const { turns, errors } = await runBackToBack({
      ...{ port: Number(new URL(server.url).port), head: "", manifest: round % 5 === 4 ? "told" : "brief" },
      ...{ prefix: `soak-${round}`, streams: clients, turnsMax: each, secondsMax: 300 },
    });
    assert.deepEqual([turns, errors], [each, {}]);
    rssKib.push(readRssKib([server.pid]));
  }

  const seconds = (performance.now() - from) / 1_000;
  const quarter = (number: number): number => {
    const sorted = rssKib.slice((number * rounds) / 4, ((number + 1) * rounds) / 4).toSorted((a, b) => a - b);
    return (sorted[Math.floor(sorted.length / 2)] as number) / 1_024;
  };
  const quarters = [0, 1, 2, 3].map(quarter) as [number, number, number, number];
  t.diagnostic(
    `${each * rounds} runs in ${seconds.toFixed(0)} s; RSS by quarter ${quarters.map((mib) => mib.toFixed(0)).join(", ")} MiB`,
  );
  await eventually("every webhook", async () => hooks >= (each * rounds) / 5 || undefined);
  const settled = (): Promise<string> =>
    eventually("conversations out of memory", async () => {
      const { text } = await server.get("/metrics");
      return gaugeOf(text, "svc_actors") <= actorsMax ? text : undefined;
    });
  // An idle actor stays for half a minute.
  const metrics = await settled().catch(settled);
  const live = ["svc_live_runs", "svc_open_streams", "svc_stream_waiting_bytes"].map((name) => gaugeOf(metrics, name));
  assert.deepEqual(live, [0, 0, 0]);
  assert.ok(quarters[3] <= growthMax * quarters[1], `${quarters} MiB by quarter`);
  await server.stop();
  const { rows } = await databaseOf("sqlite", atEnd);
  const ended = await rows("SELECT status, COUNT(*) AS number FROM runs GROUP BY status", server.dataDir);
  assert.deepEqual(ended, [{ status: "completed", number: each * rounds }]);
  assert.equal(hooks, (each * rounds) / 5);
});

function gaugeOf(metrics: string, name: string): number {
  return Number(metrics.match(new RegExp(`^${name} (\\d+)$`, "m"))?.[1]);
}
