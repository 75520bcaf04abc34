import assert from "node:assert/strict";
import { test } from "node:test";
import { type EchoDeps, echoActor } from "../support/echo-actor.ts";
import { outcomeOf } from "../support/outcome.ts";
import { SimNet } from "../support/sim-bus.ts";
import { Sim } from "../support/sim-env.ts";

const mebibyte = 1024 * 1024;
const creditBytes = 8 * mebibyte;
const piece = "x".repeat(mebibyte / 4);
const quiet: EchoDeps = { onHandled() {} };
const hour = { deadlineMs: 3_600_000 };

/** An actor node and two that only ask. */
function someNodes() {
  const sim = new Sim(1);
  const net = new SimNet(sim, {
    actorNodes: [0],
    otherNodes: [10, 11],
    definitions: [echoActor(100_000)],
    deps: quiet,
  });
  return { sim, net, actors: net.node(0), reader: net.node(10), other: net.node(11) };
}

test("a stuck receiver stops the sender at the credit, and later gets all in order", async () => {
  const { sim, net, actors, reader } = someNodes();
  let sentBytes = 0;
  net.onPost = (from, to, batch) => {
    if (from === 0 && to === 10) sentBytes += batch.bytes;
  };
  let heard = "";
  let ended = 0;
  const channel = actors.bus.channel(
    reader.bus.openChannel((text, last) => {
      heard += text;
      if (last) ended++;
    }),
  );
  // Sends whenever it may, and otherwise waits, like a run that reads its model.
  let sent = "";
  const send = (): void => {
    while (channel.writable && sent.length < 5 * creditBytes) {
      const text = String.fromCharCode(97 + ((sent.length / piece.length) % 26)).repeat(piece.length);
      sent += text;
      channel.send(text, sent.length >= 5 * creditBytes);
    }
    if (sent.length < 5 * creditBytes) channel.onWritable(send);
  };
  reader.env.stall();
  send();
  await sim.advance(10_000);
  const whileStuck = { writable: channel.writable, sent: sent.length, sentBytes, heard: heard.length };

  reader.env.goOn();
  await sim.advance(10_000);

  assert.deepEqual(whileStuck, { writable: false, sent: creditBytes, sentBytes: creditBytes, heard: 0 });
  assert.equal(sent.length, 5 * creditBytes);
  assert.ok(heard === sent, "what was heard is not what was sent");
  assert.equal(ended, 1);
  assert.equal(channel.writable, true);
});

test("a stuck node slows only the nodes that talk to it", async () => {
  const { sim, net, actors, reader, other } = someNodes();
  reader.env.stall();
  const stuck = actors.bus.channel(reader.bus.openChannel(() => {}));
  while (stuck.writable) stuck.send(piece, false);
  let heard = 0;
  const ref = other.bus.openChannel((text) => {
    heard += text.length;
  });
  const free = actors.bus.channel(ref);
  let sent = 0;
  const send = (): void => {
    for (; free.writable && sent < 3 * creditBytes; sent += piece.length) free.send(piece, false);
    if (sent < 3 * creditBytes) free.onWritable(send);
  };

  send();
  await sim.advance(10_000);

  assert.equal(stuck.writable, false);
  assert.equal(heard, 3 * creditBytes);
  assert.equal(net.node(0).bus.dropped.frame, 0);
});

test("asks of an overloaded node get mailbox_full until it recovers", async () => {
  const { sim, actors, reader } = someNodes();
  const to = { kind: "echo", key: "a" } as const;
  const message = (number: number) => ({ sender: "s", number, delayMs: 0 });
  actors.env.stall();

  let taken = 0;
  const asked = [];
  for (let i = 0; i < 20; i++)
    asked.push(outcomeOf(reader.bus.ask(to, "echo", message(++taken), { ...hour, bytes: mebibyte })));
  reader.bus.tell(to, "note", message(0));
  const small = outcomeOf(reader.bus.ask(to, "echo", message(0), hour));
  await sim.advance(1_000);
  assert.deepEqual(await sim.until(small, 0), { refused: "mailbox_full" });
  actors.env.goOn();
  const outcomes = await sim.until(Promise.all(asked));
  const afterwards = await sim.until(outcomeOf(reader.bus.ask(to, "echo", message(99), hour)));

  const answered = (number: number, handled: number) => ({ answer: { sender: "s", number, handled } });
  assert.deepEqual(
    outcomes.slice(0, 8),
    Array.from({ length: 8 }, (_, index) => answered(index + 1, index + 1)),
  );
  assert.deepEqual(outcomes.slice(8), Array(12).fill({ refused: "mailbox_full" }));
  assert.equal(reader.bus.dropped.tell, 1);
  assert.deepEqual(afterwards, answered(99, 9));
});

test("answers arrive although the asker's own questions have used up its credit", async () => {
  const { sim, actors, reader } = someNodes();
  const to = { kind: "echo", key: "a" } as const;
  // Both directions are full of text; each side still gets the answers it waits for.
  const up = reader.bus.channel(actors.bus.openChannel(() => {}));
  const down = actors.bus.channel(reader.bus.openChannel(() => {}));
  const asked = [];
  for (let round = 0; round < 4; round++) {
    asked.push(outcomeOf(reader.bus.ask(to, "echo", { sender: "s", number: round, delayMs: 1 }, hour)));
    while (up.writable) up.send(piece, false);
    while (down.writable) down.send(piece, false);
    await sim.advance(100);
  }

  const outcomes = await sim.until(Promise.all(asked));

  assert.deepEqual(
    outcomes,
    [0, 1, 2, 3].map((number) => ({ answer: { sender: "s", number, handled: number + 1 } })),
  );
  assert.ok(up.writable && down.writable);
});

test("text for a node without credit merges into one operation per channel and topic", async () => {
  const { sim, net, actors, reader } = someNodes();
  const address = { kind: "thread", key: "t:1" } as const;
  const topicTexts: string[] = [];
  const channelTexts: string[] = [];
  reader.bus.subscribe(address, (text) => void topicTexts.push(text));
  const quietChannel = actors.bus.channel(reader.bus.openChannel((text) => void channelTexts.push(text)));
  await sim.advance(20);
  const noisy = actors.bus.channel(reader.bus.openChannel(() => {}));
  reader.env.stall();
  while (noisy.writable) noisy.send(piece, false);
  await sim.advance(20);
  let items = 0;
  net.onPost = (from, _to, batch) => {
    if (from === 0) items += batch.items.length;
  };

  for (let turn = 0; turn < 50; turn++) {
    actors.bus.publish("thread/t:1", `${turn} `);
    quietChannel.send(`${turn} `, turn === 49);
    await sim.advance(10);
  }
  reader.env.goOn();
  await sim.advance(100);

  const all = Array.from({ length: 50 }, (_, turn) => `${turn} `).join("");
  assert.deepEqual(topicTexts, [all]);
  assert.deepEqual(channelTexts, [all]);
  assert.equal(items, 3 + 4);
});
