import assert from "node:assert/strict";
import { test } from "node:test";
import { chaosOf } from "../support/chaos.ts";
import { hasRedis } from "../support/cluster.ts";
import { testDatabase } from "../support/postgres.ts";
import { cleanup } from "../support/temp.ts";

const redisUrl = process.env.SVC_TEST_REDIS_URL ?? "redis://127.0.0.1:6379";
const skip = (await hasRedis()) ? false : "needs a Redis";
/** About three minutes. */
const [runs, faults] = [120, 42];

for (let seed = 1; seed <= 10; seed++)
  test(`DUR-008 durable runs on three hosts keep every guarantee, seed ${seed}`, { skip }, async (t) => {
    const { url } = await testDatabase(cleanup(t));
    const places = ["--hosts", "3", "--database", url, "--redis", redisUrl];
    const size = ["--runs", String(runs), "--kills", String(faults), "--seed", String(seed)];
    const { code, answer } = await chaosOf([...places, ...size]);

    t.diagnostic(JSON.stringify({ ...answer.faults, ...answer.running_again_ms }));
    assert.deepEqual([code, answer.runs], [0, runs], JSON.stringify(answer.invariants, null, 1));
  });
