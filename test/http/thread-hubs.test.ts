// Listeners to one conversation on one http thread: what one of them does is nothing to the others.
import assert from "node:assert/strict";
import { test } from "node:test";
import { threadAddress, topicOf } from "../../bus/address.ts";
import { EventStream, StreamRegistry } from "../../http/exchange/sse.ts";
import { ThreadHubs, type ThreadListener } from "../../http/thread-hubs.ts";
import { SimNet } from "../support/sim-bus.ts";
import { Sim } from "../support/sim-env.ts";

const address = threadAddress("acme", "crowd");

function start() {
  const sim = new Sim(1);
  const { bus } = new SimNet(sim, { actorNodes: [0], definitions: [] }).node(0);
  return { sim, bus, hubs: new ThreadHubs(bus) };
}

/** A listener as a reattached client is one, whose connection takes nothing: what comes after the first frame waits. */
class SlowListener implements ThreadListener {
  readonly stream: EventStream;
  closed = false;

  constructor(registry: StreamRegistry, hubs: ThreadHubs) {
    this.stream = new EventStream({ write: () => false, end() {}, close: () => (this.closed = true) }, registry);
    this.stream.onClose(() => hubs.leave(address, this));
    hubs.join(address, this);
  }

  frames(text: string): void {
    this.stream.write(text);
  }

  lost(): void {}
}

test("slow streams that are closed in the middle of a frame keep it from nobody, and all of them are closed", async () => {
  const { sim, bus, hubs } = start();
  const registry = new StreamRegistry(2 ** 30, () => 0);
  const heard: string[][] = [[], []];
  const reading = (at: number) => ({ frames: (text: string) => heard[at]?.push(text.slice(0, 7)), lost() {} });
  hubs.join(address, reading(0));
  const slow = Array.from({ length: 5 }, () => new SlowListener(registry, hubs));
  hubs.join(address, reading(1));
  await sim.run();

  for (let at = 0; at < 6; at++) {
    bus.publish(topicOf(address), `data: ${at}${"x".repeat(400_000)}\n\n`);
    await sim.advance(1);
  }

  const frames = Array.from({ length: 6 }, (_, at) => `data: ${at}`);
  assert.deepEqual(heard, [frames, frames]);
  assert.deepEqual(
    slow.map(({ closed }) => closed),
    slow.map(() => true),
  );
  assert.deepEqual([registry.droppedCount, registry.size, registry.waiting], [5, 0, 0]);
});

test("who has left hears nothing more, and when the last has left nobody listens", async () => {
  const { sim, bus, hubs } = start();
  const heard: string[] = [];
  const listener = { frames: (text: string) => heard.push(text), lost() {} };
  hubs.join(address, listener);
  hubs.join(address, listener);
  await sim.run();
  assert.equal(bus.hasSubscribers(topicOf(address)), true);

  hubs.leave(address, listener);
  hubs.leave(address, listener);
  await sim.run();
  bus.publish(topicOf(address), "data: 1\n\n");
  await sim.run();

  assert.deepEqual([heard, bus.hasSubscribers(topicOf(address))], [[], false]);
  hubs.join(address, listener);
  await sim.run();
  bus.publish(topicOf(address), "data: 2\n\n");
  await sim.run();
  assert.deepEqual(heard, ["data: 2\n\n"]);
});

test("a listener hears the id of the last frame that has one, and null where none has", async () => {
  const { sim, bus, hubs } = start();
  const cursors: (number | null)[] = [];
  hubs.join(address, { frames: (_, cursor) => cursors.push(cursor), lost() {} });
  await sim.run();

  for (const frames of [
    "id: 7\ndata: 1\n\n",
    "data: 1\n\n",
    'data: "\\nid: 99"\n\n',
    "id: 8\ndata: 1\n\nid: 12\ndata: 1\n\ndata: 2\n\n",
    "data: 1\n\nid: 13\ndata: 1\n\n",
  ]) {
    bus.publish(topicOf(address), frames);
    await sim.advance(1);
  }

  assert.deepEqual(cursors, [7, null, null, 12, 13]);
});
