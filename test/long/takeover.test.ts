// How long a thread is without a host after SIGKILL.
import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { startMock, turn } from "../support/chat.ts";
import { hasRedis, hostIdOf, seesHosts, testCluster, threadsOn } from "../support/cluster.ts";
import { apiKeys, type ProcessServer } from "../support/server.ts";
import { cleanup } from "../support/temp.ts";

const skip = (await hasRedis()) ? false : "needs a Redis";
const kills = 100;
/** The slowest takeover may take this long: a lease, the next renewal of the other host, and a busy machine. */
const takeoverMsMax = 30_000;

test(`a thread takes its next turn at the other host after each of ${kills} kills`, { skip }, async (t) => {
  const atEnd = cleanup(t);
  const { env: keyEnv, keys } = apiKeys({ one: { tenant_id: "one", scopes: ["*"] } });
  const as = { key: keys.one };
  const { mock, env } = await startMock(atEnd, {
    models: ["plain"],
    manifests: { plain: { model: { id: "plain" } } },
    env: keyEnv,
  });
  mock.answer("plain", { text: "Blue." });
  const cluster = await testCluster(atEnd, { env });
  const hosts = await cluster.hosts(2);
  const took: number[] = [];
  for (let n = 0; n < kills; n++) {
    const [victim, other] = (n % 2 === 0 ? hosts : hosts.toReversed()) as [ProcessServer, ProcessServer];
    const ids = await Promise.all([victim, other].map((each) => hostIdOf(each, keys.one)));
    const thread_id = threadsOn(ids[0] ?? "", ids, "one", `taken-${n}`).next().value as string;
    const first = await other.post("/chat", turn("plain", "go", { thread_id }), as);
    assert.equal(first.status, 200, first.text);

    await victim.kill();
    const killedAt = performance.now();
    for (;;) {
      const { status } = await other.post("/chat", turn("plain", "again", { thread_id }), as);
      if (status === 200) break;
      assert.ok(performance.now() - killedAt < takeoverMsMax, `kill ${n}`);
      await pause(20);
    }
    took.push(performance.now() - killedAt);
    await victim.restart();
    await Promise.all(hosts.map((each) => seesHosts(each, 2)));
  }

  const sorted = took.toSorted((a, b) => a - b);
  const at = (part: number): number => Math.round(sorted[Math.ceil(sorted.length * part) - 1] ?? 0);
  t.diagnostic(`takeover: p50 ${at(0.5)} ms, p99 ${at(0.99)} ms`);
});
