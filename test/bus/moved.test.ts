import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { op } from "../../bus/envelope.ts";
import { type EchoDeps, type Echoed, echoActor } from "../support/echo-actor.ts";
import { runs } from "../support/effort.ts";
import { type Outcome, outcomeOf } from "../support/outcome.ts";
import { SimNet } from "../support/sim-bus.ts";
import { Sim } from "../support/sim-env.ts";

const quiet: EchoDeps = { onHandled() {} };
const message = (number: number, delayMs = 0) => ({ sender: "s", number, delayMs });

/** Three nodes on two hosts that may hold actors, and one that only asks. */
function threeNodes(seed: number, actorNodes: readonly number[], deps: EchoDeps = quiet) {
  const sim = new Sim(seed);
  const net = new SimNet(sim, {
    actorNodes,
    otherNodes: [0, 1, 2, 10].filter((number) => !actorNodes.includes(number)),
    hostOf: (number) => (number === 2 ? "right" : "left"),
    definitions: [echoActor(1_000)],
    deps,
  });
  return { sim, net, asker: net.node(10).bus };
}

const to = { kind: "echo", key: "a" } as const;

/** The number of asks that leave each node. */
function countAsks(net: SimNet): Record<number, number> {
  const asks: Record<number, number> = {};
  net.onPost = (from, _to, { items }) => {
    if (items[0] === op.ask) asks[from] = (asks[from] ?? 0) + 1;
  };
  return asks;
}

test("actors that move under traffic handle and answer every ask once", async () => {
  const ask = fc.record({
    from: fc.constantFrom(0, 1, 2, 10),
    key: fc.nat(4),
    relayed: fc.boolean(),
    delayMs: fc.constantFrom(0, 0, 1, 5),
  });
  const step = fc.oneof(
    { weight: 6, arbitrary: fc.record({ asks: fc.array(ask, { minLength: 1, maxLength: 12 }) }) },
    {
      weight: 2,
      arbitrary: fc.record({ actorNodes: fc.constantFrom([0], [1], [2], [0, 1], [1, 2], [2, 0], [0, 1, 2]) }),
    },
    { weight: 3, arbitrary: fc.record({ pauseMs: fc.constantFrom(0.5, 2, 8, 30) }) },
  );
  let sentOn = 0;
  let sent = 0;
  const property = fc.asyncProperty(fc.nat(), fc.array(step, { maxLength: 50, size: "max" }), async (seed, steps) => {
    const handled = new Map<number, number>();
    const { sim, net } = threeNodes(seed, [0, 1], {
      onHandled: (_key, { number }) => void handled.set(number, (handled.get(number) ?? 0) + 1),
    });
    net.onPost = (_from, _to, { items }) => {
      if (items.includes(op.moved)) sentOn++;
    };
    const asked: Promise<Outcome<Echoed>>[] = [];

    for (const each of steps) {
      if ("pauseMs" in each) await sim.advance(each.pauseMs);
      else if ("actorNodes" in each) net.placeOver(each.actorNodes);
      else
        for (const { from, key, relayed, delayMs } of each.asks) {
          const { bus } = net.node(from);
          const echo = message(asked.length, delayMs);
          asked.push(
            outcomeOf(
              relayed
                ? bus.ask({ kind: "echo", key: `relay ${key}` }, "relay", { ...echo, to: `key ${key}` })
                : bus.ask({ kind: "echo", key: `key ${key}` }, "echo", echo),
            ),
          );
        }
    }
    const outcomes = await sim.until(Promise.all(asked));
    sent += asked.length;

    for (const [number, outcome] of outcomes.entries()) {
      assert.ok("answer" in outcome, `${number}: ${JSON.stringify(outcome)}`);
      assert.equal(outcome.answer.number, number);
      assert.equal(handled.get(number), 1);
    }
    assert.equal(handled.size, asked.length);
    assert.deepEqual(net.crashes, []);
  });

  await fc.assert(property, { numRuns: runs(150) });
  assert.ok(sentOn > sent / 10, `only ${sentOn} batches have sent one of ${sent} asks on`);
});

test("an actor at work when it moves handles its queue first, and is loaded elsewhere after that", async () => {
  const places: string[] = [];
  const { sim, net, asker } = threeNodes(1, [0]);
  for (const number of [0, 2]) {
    const { host } = net.node(number);
    const deliver = host.deliver.bind(host);
    host.deliver = (delivery) => {
      places.push(`${number}: ${(delivery.body as Echoed).number}`);
      deliver(delivery);
    };
  }
  const asked = [1, 2, 3].map((number) => outcomeOf(asker.ask(to, "echo", message(number, 100))));
  await sim.advance(50);

  net.placeOver([2]);
  await sim.until(Promise.all(asked));
  const outcomes = await sim.until(Promise.all([...asked, outcomeOf(asker.ask(to, "echo", message(4)))]));

  assert.deepEqual(places, ["0: 1", "0: 2", "0: 3", "2: 4"]);
  assert.deepEqual(
    outcomes,
    [1, 2, 3, 1].map((handled, index) => ({ answer: { sender: "s", number: index + 1, handled } })),
  );
});

test("an actor at work takes messages of its own node although its new home is lost", async () => {
  const { sim, net } = threeNodes(1, [0]);
  const { bus } = net.node(0);
  const first = outcomeOf(bus.ask(to, "echo", message(1, 100)));
  await sim.advance(50);

  bus.lost(net.idOf(2));
  bus.placeOver([net.idOf(2)]);
  const second = outcomeOf(bus.ask(to, "echo", message(2)));
  const outcomes = await sim.until(Promise.all([first, second]));
  const later = await sim.until(outcomeOf(bus.ask(to, "echo", message(3))));

  assert.deepEqual(
    outcomes,
    [1, 2].map((number) => ({ answer: { sender: "s", number, handled: number } })),
  );
  assert.deepEqual(later, { refused: "actor_lost" });
});

test("an actor that has left and returns is loaded again", async () => {
  const { sim, net, asker } = threeNodes(1, [0]);
  const handled = async (): Promise<number> => (await sim.until(asker.ask(to, "echo", message(1)))).handled;
  const before = [await handled(), await handled()];

  net.placeOver([1]);
  await sim.advance(50);
  const away = await handled();
  net.placeOver([0]);
  await sim.advance(50);

  assert.deepEqual([...before, away, await handled()], [1, 2, 1, 1]);
});

test("an ask that is forwarded too often ends as actor_lost, without effect", async () => {
  const handled: number[] = [];
  const { sim, net, asker } = threeNodes(1, [0], { onHandled: (_key, { number }) => void handled.push(number) });
  const asks = countAsks(net);
  // Each of them believes that the other one holds the actors.
  net.node(0).bus.placeOver([net.idOf(1)]);
  net.node(1).bus.placeOver([net.idOf(0)]);

  const outcome = await sim.until(outcomeOf(asker.ask(to, "echo", message(1))));

  assert.deepEqual(outcome, { refused: "actor_lost" });
  assert.deepEqual(asks, { 10: 9 });
  assert.deepEqual(handled, []);
});

test("an ask is forwarded within its deadline and not after it", async () => {
  const { sim, net, asker } = threeNodes(1, [0]);
  const asks = countAsks(net);
  net.node(0).bus.placeOver([net.idOf(1)]);
  net.node(1).bus.placeOver([net.idOf(0)]);

  const asked = outcomeOf(asker.ask(to, "echo", message(1), { deadlineMs: 100 }));
  const outcome = await sim.until(asked);
  const until = { ...asks };
  await sim.advance(10_000);

  assert.deepEqual(outcome, { refused: "deadline_exceeded" });
  assert.ok((until[10] ?? 0) > 1);
  assert.deepEqual(asks, until);
});

test("an ask that is forwarded to an unconnected or lost node ends as actor_lost", async () => {
  const { sim, net, asker } = threeNodes(1, [0]);
  net.node(0).bus.placeOver([net.idOf(1)]);
  net.node(1).bus.placeOver([net.idOf(0)]);
  const waiting = outcomeOf(asker.ask(to, "echo", message(1)));
  await sim.advance(25);

  asker.lost(net.idOf(0));
  asker.lost(net.idOf(1));
  const outcomes = await sim.until(Promise.all([waiting, outcomeOf(asker.ask(to, "echo", message(2)))]), 0);
  net.node(2).bus.placeOver([net.idOf(0)]);
  asker.placeOver([net.idOf(2)]);
  const sentToNobody = await sim.until(outcomeOf(asker.ask(to, "echo", message(3))));

  assert.deepEqual([...outcomes, sentToNobody], Array(3).fill({ refused: "actor_lost" }));
});

test("a tell to the former node of an actor is dropped and counted there", async () => {
  const handled: number[] = [];
  const { sim, net, asker } = threeNodes(1, [0], { onHandled: (_key, { number }) => void handled.push(number) });
  net.node(0).bus.placeOver([net.idOf(1)]);

  asker.tell(to, "note", message(1));
  await sim.advance(50);

  assert.deepEqual(handled, []);
  assert.equal(net.node(0).bus.dropped.tell, 1);
});

test("an actor is found at its home after the loss of a host that had no connection", async () => {
  const { sim, net, asker } = threeNodes(1, [0, 2]);
  const home = asker.homeOf(to);
  const [left, right] = asker.actorNodes as [typeof home, typeof home];
  const other = home === left ? right : left;
  // The connection was lost before the host was: a partition comes first.
  asker.livesAt(to, other);
  asker.lost(other);
  asker.livesAt(to, other);
  const before = asker.nodeOf(to);

  asker.placeOver([home]);
  const after = asker.nodeOf(to);
  // A message from before the loss arrives late.
  asker.livesAt(to, other);
  const late = asker.nodeOf(to);

  assert.deepEqual([before, after, late], [other, home, home]);
  const outcome = await sim.until(outcomeOf(asker.ask(to, "echo", message(1))));
  assert.ok("answer" in outcome, JSON.stringify(outcome));
  assert.deepEqual(net.crashes, []);
});
