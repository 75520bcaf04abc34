// The order of a queue in which tenants take turns.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import type { Env } from "../../../bus/env.ts";
import { FairQueue, type QueueBounds, type Ticket } from "../../../bus/queues/fair-queue.ts";

/** An event loop that the test advances. */
class Loop {
  readonly #deferred: (() => void)[] = [];
  readonly env = { defer: (work: () => void) => void this.#deferred.push(work) } as Env;

  /** True if there was work. */
  async goOn(): Promise<boolean> {
    const works = this.#deferred.splice(0);
    for (const work of works) work();
    await settled();
    return works.length > 0;
  }
}

const settled = () => new Promise((resolve) => setImmediate(resolve));

function start(bounds: Partial<QueueBounds> = {}) {
  const loop = new Loop();
  let emptied = 0;
  const queue = new FairQueue(loop.env, { atOnce: 100, perLoop: 100, oneEach: false, ...bounds }, () => emptied++);
  const order: string[] = [];
  /** A caller that asks for a turn and records its name when the turn comes. */
  const come = (tenant: string, name: string, ticket: Ticket = queue.ticket(tenant)): Ticket => {
    void ticket.turn().then((isTurn) => void order.push(isTurn ? name : `${name} left`));
    return ticket;
  };
  return { loop, queue, order, come, emptied: () => emptied };
}

describe("a fair queue", () => {
  test("serves a tenant's single caller second, however many of another came before", async () => {
    const { queue, loop, order, come } = start({ atOnce: 1000, perLoop: 1 });
    for (let at = 0; at < 100; at++) come("crowd", `c${at}`);
    come("single", "s");

    for (let at = 0; at < 101; at++) await loop.goOn();
    await settled();

    assert.deepEqual(order.slice(0, 4), ["c0", "c1", "s", "c2"]);
    assert.deepEqual([order.length, queue.length], [101, 0]);
  });

  test("admits callers up to its bound, and the next when one is done", async () => {
    const { queue, order, come } = start({ atOnce: 2 });
    const places = ["a", "b", "c", "d"].map((name) => come("t", name));
    await settled();
    assert.deepEqual([order, queue.underWay, queue.length], [["a", "b"], 2, 2]);

    places[1]?.leave();
    await settled();

    assert.deepEqual([order, queue.underWay, queue.length], [["a", "b", "c"], 2, 1]);
  });

  test("gives an idle tenant one turn beyond the bound, where allowed", async () => {
    for (const [oneEach, gone] of [
      [false, ["a0", "a1"]],
      [true, ["a0", "a1", "b0"]],
    ] as const) {
      const { order, come } = start({ atOnce: 2, oneEach });
      for (const name of ["a0", "a1", "a2"]) come("a", name);
      for (const name of ["b0", "b1"]) come("b", name);
      await settled();

      assert.deepEqual(order, gone);
    }
  });

  test("begins a bounded number of turns per turn of the event loop", async () => {
    const { loop, order, come } = start({ perLoop: 3 });
    for (let at = 0; at < 8; at++) come("t", `${at}`);

    const counts: number[] = [];
    for (let more = true; more; more = await loop.goOn()) {
      await settled();
      counts.push(order.length);
    }

    assert.deepEqual(counts.slice(0, 3), [3, 6, 8]);
  });

  test("serves callers that have begun before newcomers that came earlier", async () => {
    const { order, come } = start({ atOnce: 2 });
    const one = come("t", "one");
    const holder = come("t", "holder");
    for (const name of ["fresh", "fresher"]) come("t", name);
    await settled();

    // Its turn goes to the first in the queue, and it gets its next turn before the others.
    come("t", "one again", one);
    holder.leave();
    await settled();

    assert.deepEqual(order, ["one", "holder", "fresh", "one again"]);
  });

  test("releases a caller that leaves, in the queue or at its turn, once", async () => {
    const { queue, order, come, emptied } = start({ atOnce: 1 });
    const [a, b, c] = ["a", "b", "c"].map((name) => come("t", name)) as [Ticket, Ticket, Ticket];
    await settled();

    b.leave();
    b.leave();
    await settled();
    assert.deepEqual([order, queue.length, queue.underWay], [["a", "b left"], 1, 1]);
    a.leave();
    a.leave();
    await settled();
    assert.deepEqual([order, queue.length, queue.underWay, emptied()], [["a", "b left", "c"], 0, 1, 0]);
    c.leave();

    assert.deepEqual([queue.length, queue.underWay, emptied()], [0, 0, 1]);
  });

  test("reports that it is empty also when the last caller leaves the queue", async () => {
    const { queue, come, emptied } = start({ perLoop: 1 });
    const [first, last] = [come("t", "first"), come("t", "last")];
    await settled();

    first.leave();
    assert.deepEqual([queue.underWay, queue.length, emptied()], [0, 1, 0]);
    last.leave();

    assert.equal(emptied(), 1);
  });
});
