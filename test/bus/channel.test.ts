import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { type EchoDeps, echoActor } from "../support/echo-actor.ts";
import { runs } from "../support/effort.ts";
import { SimNet, simNode } from "../support/sim-bus.ts";
import { Sim } from "../support/sim-env.ts";

const quiet: EchoDeps = { onHandled() {} };

/** Two nodes with actors, and two that only ask. */
function someNodes(seed: number) {
  const sim = new Sim(seed);
  return {
    sim,
    net: new SimNet(sim, { actorNodes: [0, 1], otherNodes: [10, 11], definitions: [echoActor(1000)], deps: quiet }),
  };
}

test("texts of many channels arrive whole, in order and merged per turn", async () => {
  // For each channel the text sent in each turn; some channels skip turns.
  const texts = fc.array(fc.array(fc.string({ minLength: 1, maxLength: 5 }), { maxLength: 4 }), {
    maxLength: 8,
    size: "max",
  });
  const sendings = fc.array(fc.record({ from: fc.constantFrom(0, 1), to: fc.constantFrom(0, 10, 11), texts }), {
    maxLength: 12,
  });
  const property = fc.asyncProperty(fc.nat(), sendings, fc.boolean(), async (seed, plans, quick) => {
    const { sim, net } = someNodes(seed);
    const heard: { text: string; last: boolean }[][] = plans.map(() => []);
    const channels = plans.map(({ from, to }, index) =>
      net.node(from).bus.channel(net.node(to).bus.openChannel((text, last) => void heard[index]?.push({ text, last }))),
    );

    for (let turn = 0; turn <= 8; turn++) {
      // Channels take turns within one turn of the event loop, as runs do.
      for (let i = 0; i < 4; i++)
        for (const [index, { texts }] of plans.entries()) {
          const text = texts[turn]?.[i];
          if (text !== undefined) channels[index]?.send(text, false);
        }
      if (turn === 8) for (const channel of channels) channel.send("", true);
      if (quick) await sim.run();
      else await sim.advance(20);
    }
    await sim.advance(100);

    for (const [index, { texts }] of plans.entries()) {
      const turns = texts.map((each) => each.join("")).filter((text) => text !== "");
      assert.deepEqual(heard[index], [...turns.map((text) => ({ text, last: false })), { text: "", last: true }]);
    }
    for (const node of [0, 1, 10, 11]) assert.equal(net.node(node).bus.dropped.frame, 0);
  });

  await fc.assert(property, { numRuns: runs(100) });
});

test("an actor's text arrives over the channel named in its message, on any node", async () => {
  const property = fc.asyncProperty(
    fc.nat(),
    fc.array(fc.record({ key: fc.nat(3), text: fc.string({ maxLength: 50 }), pieces: fc.integer({ min: 1, max: 9 }) })),
    async (seed, asks) => {
      const { sim, net } = someNodes(seed);
      const heard = asks.map(() => "");
      const ended = asks.map(() => 0);

      const asked = asks.map(({ key, text, pieces }, index) => {
        const { bus } = net.node(index % 2 === 0 ? 10 : 0);
        const channel = bus.openChannel((part, last) => {
          heard[index] += part;
          if (last) ended[index] = (ended[index] ?? 0) + 1;
        });
        return bus.ask({ kind: "echo", key: `key ${key}` }, "stream", { channel, text, pieces });
      });
      await sim.until(Promise.all(asked));
      await sim.advance(100);

      assert.deepEqual(
        heard,
        asks.map(({ text }) => text),
      );
      assert.deepEqual(
        ended,
        asks.map(() => 1),
      );
    },
  );

  await fc.assert(property, { numRuns: 50 });
});

test("the last text may join the others of its turn", async () => {
  const { sim, net } = someNodes(1);
  const heard: [string, boolean][] = [];
  const channel = net.node(0).bus.channel(net.node(10).bus.openChannel((text, last) => void heard.push([text, last])));

  channel.send("a", false);
  channel.send("b", true);
  await sim.advance(20);

  assert.deepEqual(heard, [["ab", true]]);
});

test("a channel to an unconnected node accepts texts, and counts them as dropped", async () => {
  const { sim, net } = someNodes(1);
  const sender = net.node(0).bus;
  const channel = sender.channel({ node: simNode(99), id: 1 });
  let calls = 0;

  channel.send("into the void", false);
  channel.onWritable(() => void calls++);
  await sim.run();

  assert.equal(channel.writable, true);
  assert.equal(sender.dropped.frame, 1);
  assert.equal(calls, 1);
});

test("a closed or completed channel receives nothing more; late texts are counted", async () => {
  const { sim, net } = someNodes(1);
  const sender = net.node(0).bus;
  const receiver = net.node(10).bus;
  const heard: string[] = [];
  const closed = receiver.openChannel((text) => void heard.push(text));
  const ended = receiver.openChannel((text) => void heard.push(text));
  const open = receiver.openChannel((text) => void heard.push(text));
  sender.channel(ended).send("the last", true);
  await sim.advance(20);

  receiver.closeChannel(closed);
  sender.channel(closed).send("too late", false);
  sender.channel(ended).send("too late", false);
  sender.channel(open).send("heard", false);
  await sim.advance(20);

  assert.deepEqual(heard, ["the last", "heard"]);
  assert.equal(receiver.dropped.frame, 2);
});
