// A process of its own: its hosts are processes that the command kills and freezes.
// svc chaos with several hosts: faults of hosts, and of what they share.
import assert from "node:assert/strict";
import { test } from "node:test";
import { chaosOf } from "../support/chaos.ts";
import { hasRedis } from "../support/cluster.ts";
import { migratedDatabase, testDatabase } from "../support/postgres.ts";
import { cleanup } from "../support/temp.ts";

const redisUrl = process.env.SVC_TEST_REDIS_URL ?? "redis://127.0.0.1:6379";
const skip = (await hasRedis()) ? false : "needs a Redis";
/** One fault of each kind. */
const kinds = ["cut_both", "cut_postgres", "cut_redis", "freeze", "kill", "lose_postgres", "lose_redis"];

test("DUR-008 durable runs keep every guarantee through a fault of each kind on three hosts", { skip }, async (t) => {
  const { url } = await testDatabase(cleanup(t));
  const places = ["--hosts", "3", "--database", url, "--redis", redisUrl];
  const { code, answer } = await chaosOf([...places, "--runs", "24", "--kills", String(kinds.length), "--seed", "1"]);

  t.diagnostic(JSON.stringify({ ...answer.faults, ...answer.running_again_ms }));
  assert.deepEqual(
    [code, answer.runs, Object.keys(answer.faults).toSorted()],
    [0, 24, kinds],
    JSON.stringify(answer.invariants, null, 1),
  );
});

test("a database with rows is refused and left unchanged", { skip }, async (t) => {
  const { url } = await migratedDatabase(cleanup(t));
  const { code, answer } = await chaosOf(["--hosts", "2", "--database", url, "--redis", redisUrl]);

  assert.deepEqual([code, answer.error], [2, "database_unusable"]);
});

for (const [what, args] of [
  ["--database without several hosts", ["--database", "postgres://localhost/x"]],
  ["several hosts without a database", ["--hosts", "2", "--redis", redisUrl]],
  ["several hosts without a Redis", ["--hosts", "2", "--database", "postgres://localhost/x"]],
  ["a Redis over TLS", ["--hosts", "2", "--database", "postgres://localhost/x", "--redis", "rediss://localhost"]],
  ["ten hosts", ["--hosts", "10", "--database", "postgres://localhost/x", "--redis", redisUrl]],
] as const)
  test(`${what} is a usage error`, async () => {
    const { code, answer } = await chaosOf(args);

    assert.deepEqual([code, answer.error], [2, "usage"]);
  });
