// On SQLite a read runs at once in its own thread, so page after page must not become one long turn of the event loop.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { type Env, systemEnv } from "../../bus/env.ts";
import { openStore } from "../../storage/client.ts";
import type { Store } from "../../storage/store/store.ts";
import { readParents } from "../../storage/tables/events.ts";
import { type TestStore, testStore } from "../support/stores.ts";
import { cleanup } from "../support/temp.ts";

const reads = 12;

describe("reads of one turn of the event loop", () => {
  const atEnd = cleanup();
  let running: TestStore;
  before(async () => {
    running = await testStore("sqlite", atEnd);
  });

  /**
   * The number of turns that other work gets during consecutive reads, on a clock that each read advances by `stepMs`.
   */
  async function turnsDuringReads(stepMs: number): Promise<number> {
    let nowMs = 0;
    const env: Env = { ...systemEnv(), monotonic: () => nowMs };
    const store: Store = openStore(env, running.config, running.thread.attach());
    let turns = 0;
    let isReading = true;
    const look = () => {
      turns++;
      if (isReading) setImmediate(look);
    };
    setImmediate(look);
    for (let read = 0; read < reads; read++) {
      await readParents(store.tenant("turns"), 1, 10, 10);
      nowMs += stepMs;
    }
    isReading = false;
    store.close();
    return turns;
  }

  test("wait for the next turn when the current one took long, and else run in it", async () => {
    assert.equal(await turnsDuringReads(0), 0);
    // A read that starts 9 ms after the first of its turn waits, so three reads of 3 ms fit.
    const turns = await turnsDuringReads(3);
    assert.ok(turns >= 3 && turns < reads, `${turns} turns`);
    assert.ok((await turnsDuringReads(20)) >= reads - 2);
  });

  test("that other work delays continue together in the next turn", async () => {
    let nowMs = 0;
    const env: Env = { ...systemEnv(), monotonic: () => nowMs };
    const store = openStore(env, running.config, running.thread.attach());
    await readParents(store.tenant("turns"), 1, 10, 10);
    nowMs += 50;
    let done = 0;
    let left = 0;
    const asked = Array.from({ length: 40 }, async () => {
      await readParents(store.tenant("turns"), 1, 10, 10);
      // The use of a read's result takes time too: three of 3 ms fit into a turn.
      if (done >= 20) nowMs += 3;
      done++;
    });
    const perTurn: number[] = [];
    const look = () => {
      if (done > left) perTurn.push(done - left);
      left = done;
      if (done < asked.length) setImmediate(look);
    };
    setImmediate(look);
    await Promise.all(asked);
    store.close();

    assert.deepEqual(perTurn.slice(0, 3), [23, 3, 3]);
  });

  test("get a turn each, in order, and are refused if the store closes first", async () => {
    let nowMs = 0;
    // Each read of the clock takes longer than a turn may.
    const env: Env = { ...systemEnv(), monotonic: () => (nowMs += 10) };
    const store = openStore(env, running.config, running.thread.attach());
    const order: number[] = [];
    const asked = Array.from({ length: 40 }, async (_, at) => {
      await readParents(store.tenant("turns"), 1, 10, 10);
      order.push(at);
      if (at === 20) store.close();
    });

    const ended = await Promise.allSettled(asked);

    assert.deepEqual(
      order,
      Array.from({ length: 21 }, (_, at) => at),
    );
    for (const { status, ...rest } of ended.slice(21))
      assert.deepEqual([status, (rest as PromiseRejectedResult).reason.code], ["rejected", "storage_unavailable"]);
  });
});
