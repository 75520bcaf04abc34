// A process of its own: its hosts are processes that a test stops and kills.
// A deployment of two hosts without Redis, without Postgres and without one of its hosts.
import assert from "node:assert/strict";
import { kill } from "node:process";
import { before, describe, test } from "node:test";
import { framesUntil, gate, says, startMock, turn } from "../support/chat.ts";
import { hasRedis, hostIdOf, testCluster, threadsOn } from "../support/cluster.ts";
import { eventually } from "../support/eventually.ts";
import type { MockModel } from "../support/mock-model.ts";
import { migratedDatabase } from "../support/postgres.ts";
import { apiKeys, type Env, type ProcessServer } from "../support/server.ts";
import { type TcpProxy, tcpProxy } from "../support/tcp-proxy.ts";
import { cleanup } from "../support/temp.ts";

const localRedis = process.env.SVC_TEST_REDIS_URL ?? "redis://127.0.0.1:6379";
const skip = (await hasRedis()) ? false : "needs a Redis";

describe("a deployment of two hosts", { skip }, () => {
  const atEnd = cleanup();
  const { env: keyEnv, keys } = apiKeys({
    one: { tenant_id: "one", scopes: ["chat:write", "chat:read", "runs:read"] },
  });
  const as = { key: keys.one };
  let mock: MockModel;
  let modelled: Env;
  let redis: TcpProxy;
  let postgres: TcpProxy;
  let start: (env?: Env) => Promise<ProcessServer>;
  let left: ProcessServer;
  let right: ProcessServer;
  before(async () => {
    const of = (model: string, more: object = {}) => ({ model: { id: model }, ...more });
    const { mock: made, env } = await startMock(atEnd, {
      models: ["plain", "slow", "durable"],
      manifests: { plain: of("plain"), slow: of("slow"), durable: of("durable", { execution: { mode: "durable" } }) },
      env: keyEnv,
    });
    mock = made;
    modelled = env;
    mock.answer("plain", { text: "Blue." });
    redis = await tcpProxy(localRedis, atEnd);
    const { url } = await migratedDatabase(atEnd);
    postgres = await tcpProxy(url, atEnd);
    const cluster = await testCluster(atEnd, {
      env: modelled,
      redisUrl: localRedis,
      proxies: { redisUrl: redis.url(localRedis), databaseUrl: postgres.url(url) },
    });
    start = cluster.host;
    [left, right] = (await cluster.hosts(2)) as [ProcessServer, ProcessServer];
  });

  /** Returns new threads whose actors are on each host. */
  async function threads(prefix: string): Promise<{ left: string; right: string }> {
    const ids = { left: await hostIdOf(left, keys.one), right: await hostIdOf(right, keys.one) };
    const on = (side: "left" | "right"): string =>
      threadsOn(ids[side], Object.values(ids), "one", prefix).next().value as string;
    return { left: on("left"), right: on("right") };
  }
  const go = (server: ProcessServer, thread_id: string, manifest = "plain") =>
    server.post("/chat", turn(manifest, "go", { thread_id }), as);

  test("without Redis each host serves its own threads, refuses others, and recovers", async () => {
    const on = await threads("redis");
    assert.equal((await go(left, on.right)).status, 200);

    redis.cut();
    const refused = await eventually("the refusal", async () => {
      const answer = await go(left, on.right);
      return answer.json.error === "dependency_unavailable" && answer;
    });
    const own = await go(left, on.left);
    mock.answer("durable", { text: "Done." });
    const accepted = await go(left, on.left, "durable");
    const done = await eventually("the end of the durable run", async () => {
      const { json } = await left.get(`/chat/runs/${accepted.json.resume_token}`, as);
      return json.status === "completed" && json;
    });
    const read = await left.get(`/chat/history/${on.right}`, as);
    const [ready, required, health] = await Promise.all(
      ["/ready", "/ready?require=database,object_store", "/health"].map((path) => left.get(path)),
    );
    redis.restore();
    await eventually("the thread of the other host", async () => (await go(left, on.right)).status === 200);

    assert.deepEqual([refused.status, refused.headers["retry-after"] !== undefined], [503, true]);
    assert.deepEqual([own.status, accepted.status, read.status], [200, 202, 200]);
    assert.match(JSON.stringify(done), /Done/);
    assert.deepEqual([ready?.status, required?.status, health?.status], [503, 200, 200]);
  });

  test("without Postgres new turns are refused within ten seconds, and all recovers", async () => {
    const on = await threads("postgres");
    assert.equal((await go(left, on.left)).status, 200);
    const held = gate();
    mock.answer("slow", says("Let me see.", held.opened, " Written later."));
    const stream = await left.stream("/chat/stream", turn("slow", "go", { thread_id: "outlives" }), as);
    await framesUntil(stream, ({ name }) => name === "text_delta");

    postgres.cut();
    const startedAt = performance.now();
    // A batch on a connection that ends at this moment is refused, because its outcome is unknown.
    for (const server of [left, right])
      await eventually("a host without Postgres", async () => (await server.get("/ready")).status === 503);
    held.open();
    const refused = await go(left, on.left);
    const tookMs = performance.now() - startedAt;
    const [ready, health] = await Promise.all(["/ready", "/health"].map((path) => left.get(path)));
    // Longer than a lease, so that both hosts have lost theirs.
    await eventually("the end of the leases", async () => performance.now() - startedAt > 5_000);
    postgres.restore();
    for (const server of [left, right])
      await eventually("a turn", async () => (await go(server, on.left)).status === 200);
    const frames = await stream.rest();
    const { transcript } = (await right.get("/chat/sessions/outlives", as)).json as {
      transcript: { kind: string; content: string }[];
    };

    assert.equal(frames.filter(({ name }) => name === "done").length, 1, JSON.stringify(frames));
    assert.deepEqual(
      transcript.filter(({ kind }) => kind === "message").map(({ content }) => content),
      ["go", "Let me see. Written later."],
    );
    assert.ok(refused.status === 503 && tookMs < 11_000, `${refused.status} after ${tookMs} ms`);
    assert.deepEqual([ready?.status, health?.status], [503, 200]);
    assert.ok(left.isRunning && right.isRunning, "no host has declared the other dead");
  });

  test("threads and durable runs of a killed host continue at the other in seconds", async () => {
    const on = await threads("killed");
    const held = gate();
    mock.answer("slow", says("Let me see.", held.opened));
    mock.answer("durable", says("First.", held.opened), { text: "Done." });
    const stream = await left.stream("/chat/stream", turn("slow", "go", { thread_id: on.right }), as);
    await framesUntil(stream, ({ name }) => name === "text_delta");
    const [durableThread] = [...take(threadsOn(await hostIdOf(right, keys.one), await bothIds(), "one", "lost"), 1)];
    const accepted = await left.post("/chat", turn("durable", "go", { thread_id: durableThread }), as);
    await eventually("the call of the durable run", async () => mock.requests.some(({ model }) => model === "durable"));

    await right.kill();
    const killedAt = performance.now();
    const ended = await stream.rest();
    const next = await eventually("a turn on the thread", async () => {
      const answer = await go(left, on.right);
      return answer.status === 200 && answer;
    });
    const tookMs = performance.now() - killedAt;
    const done = await eventually("the end of the durable run", async () => {
      const { json } = await left.get(`/chat/runs/${accepted.json.resume_token}`, as);
      return json.status === "completed" && json;
    });
    held.open();
    right = await start({ SVC_REPLICA_ID: "host-3" });

    assert.match(JSON.stringify(ended), /actor_lost/);
    assert.match(next.text, /Blue/);
    assert.match(JSON.stringify(done), /Done/);
    // Five seconds, and as long again for a busy machine.
    assert.ok(tookMs < 10_000, `${tookMs} ms`);
  });

  test("a host that was frozen past its lease writes nothing when it wakes, says so and ends", async () => {
    const on = await threads("frozen");
    const held = gate();
    mock.answer("slow", says("Let me see.", held.opened, " Never written."));
    const stream = await right.stream("/chat/stream", turn("slow", "go", { thread_id: on.right }), as);
    await framesUntil(stream, ({ name }) => name === "text_delta");

    kill(right.pid, "SIGSTOP");
    await eventually("a turn at the other host", async () => (await go(left, on.right)).status === 200);
    held.open();
    kill(right.pid, "SIGCONT");
    const { code } = await right.exited;

    assert.equal(code, 1);
    assert.match(right.output, /declared this one dead/);
    const { json } = await left.get(`/chat/sessions/${on.right}`, as);
    assert.ok(!JSON.stringify(json).includes("Never written"), JSON.stringify(json));
  });

  const bothIds = async (): Promise<string[]> => [await hostIdOf(left, keys.one), await hostIdOf(right, keys.one)];
});

function* take<T>(from: Iterable<T>, count: number): Generator<T> {
  let left = count;
  for (const each of from) {
    if (left-- === 0) return;
    yield each;
  }
}
