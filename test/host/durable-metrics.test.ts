// The metrics of durable runs for operators.
import assert from "node:assert/strict";
import { test } from "node:test";
import { calls, inTurn, never, says, startChatProcess, turn } from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
import { cleanup } from "../support/temp.ts";

const atEnd = cleanup();
const execution = { mode: "durable" };

test("OPS-008 /metrics has counts of durable runs by state, the oldest wait, and losses", async () => {
  const { server, mock } = await startChatProcess(atEnd, {
    models: ["scripted"],
    manifests: {
      agent: { execution },
      gated: { tools: ["calculator"], execution, approvals: [{ id: "sums", tools: ["calculator"], ttl_seconds: 600 }] },
    },
    env: { SVC_FIBER_CONCURRENCY: "1" },
  });
  const figures = async (): Promise<Readonly<Record<string, number>>> => {
    const { text } = await server.get("/metrics");
    return Object.fromEntries(
      text.split("\n").flatMap((line) => {
        const [, name, value] = /^(svc_\w+(?:\{by="\w+"\})?) (\S+)$/.exec(line) ?? [];
        return name === undefined ? [] : [[name, Number(value)]];
      }),
    );
  };
  const accept = async (manifest: string) => (await server.post("/chat", turn(manifest, "sum"))).json.resume_token;
  const until = (token: string, status: string) =>
    eventually(
      `${token} as ${status}`,
      async () => (await server.get(`/runs/${token}`)).json.status === status || undefined,
    );

  const none = await figures();
  mock.answer("scripted", inTurn(calls(["calculator", { expression: "6*7" }]), says("42.")));
  await until(await accept("gated"), "waiting");
  mock.answer("scripted", says("Hello", never));
  const atWork = await accept("agent");
  await until(atWork, "running");
  await accept("agent");
  const some = await figures();
  await server.kill();
  await server.restart();
  await until(atWork, "running");
  const after = await figures();

  const counted = ({ svc_durable_queued, svc_durable_running, svc_durable_parked }: typeof none) => [
    ...[svc_durable_queued, svc_durable_running, svc_durable_parked],
  ];
  assert.deepEqual(counted(none), [0, 0, 0]);
  assert.deepEqual(counted(some), [1, 1, 1]);
  for (const name of ["svc_durable_oldest_run_seconds", "svc_durable_oldest_due_seconds", "svc_oldest_wait_seconds"]) {
    assert.equal(none[name], 0, name);
    assert.ok((some[name] as number) > 0, name);
  }
  assert.equal(some.svc_durable_start_seconds_count, 2, "the one in the queue has not begun");
  assert.ok((some['svc_durable_claim_seconds_count{by="hint"}'] as number) >= 2);
  assert.equal(some.svc_durable_lost_claims_total, 0);
  assert.equal(after.svc_durable_lost_claims_total, 1);
});
