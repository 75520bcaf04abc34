import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { type EchoDeps, echoActor, type Numbered } from "../support/echo-actor.ts";
import { runs } from "../support/effort.ts";
import { type Outcome, outcomeOf } from "../support/outcome.ts";
import { SimNet } from "../support/sim-bus.ts";
import { Sim } from "../support/sim-env.ts";

interface Planned {
  readonly sender: number;
  readonly key: number;
  readonly way: "ask" | "tell" | "relay";
  readonly delayMs: number;
  /** The sender's delay before it. */
  readonly pauseMs: number;
}

const planned = fc.record<Planned>({
  sender: fc.nat(5),
  key: fc.nat(6),
  way: fc.constantFrom("ask", "ask", "tell", "relay"),
  delayMs: fc.constantFrom(0, 0, 0, 1, 3),
  pauseMs: fc.constantFrom(0, 0, 0, 0.5, 4),
});

/** The sender, receiver and text of each message, in the order of sending or of handling. */
class Ledger {
  readonly #numbers = new Map<string, number[]>();

  note(sender: string, key: string, number: number): void {
    const id = `${sender} to ${key}`;
    const numbers = this.#numbers.get(id);
    if (numbers) numbers.push(number);
    else this.#numbers.set(id, [number]);
  }

  get rows(): Record<string, number[]> {
    return Object.fromEntries([...this.#numbers].sort());
  }
}

test("messages between a sender and an actor are handled once and in order", async () => {
  const world = fc.record({
    seed: fc.nat(),
    actorNodes: fc.constantFrom([0], [0, 1], [1, 2, 5], [3, 0, 1, 2]),
    hosts: fc.constantFrom(1, 3),
    delayMs: fc.constantFrom(0, 1, 20),
    plan: fc.array(planned, { maxLength: 250, size: "max" }),
  });
  const property = fc.asyncProperty(world, async ({ seed, actorNodes, hosts, delayMs, plan }) => {
    const sent = new Ledger();
    const handled = new Ledger();
    const deps: EchoDeps = { onHandled: (key, { sender, number }) => handled.note(sender, key, number) };
    const sim = new Sim(seed);
    const net = new SimNet(sim, {
      actorNodes,
      otherNodes: [10, 11],
      hostOf: (number) => `host ${number % hosts}`,
      definitions: [echoActor(plan.length)],
      deps,
      delayMs,
    });
    // Senders live on every node, with actors or without.
    const homes = [10, 11, ...actorNodes];
    const asked: Promise<Outcome<unknown>>[] = [];
    const expected: Outcome<unknown>[] = [];

    for (const [number, { sender, key, way, delayMs: workMs, pauseMs }] of plan.entries()) {
      const { bus } = net.node(homes[sender % homes.length] as number);
      const to = { kind: "echo", key: `key ${key}` } as const;
      const message: Numbered = { sender: `sender ${sender}`, number, delayMs: workMs };
      if (way === "tell") bus.tell(to, "note", message);
      else if (way === "ask") asked.push(outcomeOf(bus.ask(to, "echo", message)));
      else
        asked.push(
          outcomeOf(bus.ask({ kind: "echo", key: `relay of ${sender}` }, "relay", { ...message, to: to.key })),
        );
      const by = way === "relay" ? `${message.sender} by relay of ${sender}` : message.sender;
      if (way !== "tell") expected.push({ answer: { sender: by, number } });
      sent.note(by, to.key, number);
      if (pauseMs > 0) await sim.advance(pauseMs);
    }
    const outcomes = await sim.until(Promise.all(asked));
    await sim.advance(100);

    assert.deepEqual(handled.rows, sent.rows);
    assert.deepEqual(outcomes.map(withoutCount), expected);
    for (const number of [10, 11, ...actorNodes])
      assert.deepEqual(net.node(number).bus.dropped, { tell: 0, frame: 0, late_reply: 0, batch: 0 });
  });

  await fc.assert(property, { numRuns: runs(150) });
});

/** The count depends on how the senders' messages interleave. */
function withoutCount(outcome: Outcome<unknown>): Outcome<unknown> {
  if ("refused" in outcome) return outcome;
  const { sender, number } = outcome.answer as Numbered;
  return { answer: { sender, number } };
}

test("the same seed gives the same course of events, another seed another one", async () => {
  const course = async (seed: number): Promise<string> => {
    const events: string[] = [];
    const sim = new Sim(seed);
    const net = new SimNet(sim, {
      actorNodes: [0, 1, 2],
      otherNodes: [10],
      definitions: [echoActor(1000)],
      deps: { onHandled: (key, { number }) => events.push(`${sim.now} ${key} ${number}`) } satisfies EchoDeps,
    });
    const { bus } = net.node(10);
    const asked = Array.from({ length: 100 }, (_, number) =>
      bus.ask({ kind: "echo", key: `key ${number % 10}` }, "echo", { sender: "s", number, delayMs: number % 3 }),
    );
    await sim.until(Promise.all(asked));
    return events.join("\n");
  };

  assert.equal(await course(7), await course(7));
  assert.notEqual(await course(7), await course(8));
});

test("operations of one turn leave as one batch per node", async () => {
  const sim = new Sim(1);
  const net = new SimNet(sim, {
    actorNodes: [0, 1],
    otherNodes: [10],
    definitions: [echoActor(1000)],
    deps: { onHandled() {} } satisfies EchoDeps,
  });
  const posts: string[] = [];
  net.onPost = (from, to) => void posts.push(`${from} to ${to}`);
  const { bus } = net.node(10);

  const asked = Array.from({ length: 500 }, (_, number) =>
    bus.ask({ kind: "echo", key: `key ${number}` }, "echo", { sender: "s", number, delayMs: 0 }),
  );
  await sim.until(Promise.all(asked));

  assert.deepEqual(posts.sort(), ["0 to 10", "1 to 10", "10 to 0", "10 to 1"]);
});
