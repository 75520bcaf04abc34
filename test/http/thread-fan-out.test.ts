// Listeners to one conversation on one HTTP thread do not affect each other.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { threadAddress, topicOf } from "../../bus/address.ts";
import { SvcError } from "../../bus/errors.ts";
import { rewoundMark } from "../../bus/frames/frames.ts";
import { EventStream, StreamRegistry } from "../../http/exchange/sse.ts";
import { ThreadFanOut, type ThreadListener } from "../../http/thread-fan-out.ts";
import { SimNet } from "../support/sim-bus.ts";
import { Sim } from "../support/sim-env.ts";

const address = threadAddress("acme", "crowd");

function start() {
  const sim = new Sim(1);
  const { bus } = new SimNet(sim, { actorNodes: [0], definitions: [] }).node(0);
  return { sim, bus, fanOut: new ThreadFanOut(bus) };
}

/** A listener like a reattached client, whose connection stalls after the first frame. */
class SlowListener implements ThreadListener {
  readonly stream: EventStream;
  closed = false;

  constructor(registry: StreamRegistry, fanOut: ThreadFanOut) {
    this.stream = new EventStream({ write: () => false, end() {}, close: () => (this.closed = true) }, registry);
    this.stream.onClose(() => fanOut.leave(address, this));
    fanOut.join(address, this);
  }

  frames(text: string): void {
    this.stream.write(text);
  }

  forget(): void {}

  rewound(): void {}

  lost(): void {}
}

test("slow streams closed mid-frame delay no other stream, and all close", async () => {
  const { sim, bus, fanOut } = start();
  const registry = new StreamRegistry(2 ** 30, () => 0);
  const heard: string[][] = [[], []];
  const reading = (at: number) => ({
    frames: (text: string) => heard[at]?.push(text.slice(0, 7)),
    forget() {},
    rewound() {},
    lost() {},
  });
  fanOut.join(address, reading(0));
  const slow = Array.from({ length: 5 }, () => new SlowListener(registry, fanOut));
  fanOut.join(address, reading(1));
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

test("a listener that has left gets nothing, and the last one ends the subscription", async () => {
  const { sim, bus, fanOut } = start();
  const heard: string[] = [];
  const listener = { frames: (text: string) => heard.push(text), forget() {}, rewound() {}, lost() {} };
  fanOut.join(address, listener);
  fanOut.join(address, listener);
  await sim.run();
  assert.equal(bus.hasSubscribers(topicOf(address)), true);

  fanOut.leave(address, listener);
  fanOut.leave(address, listener);
  await sim.run();
  bus.publish(topicOf(address), "data: 1\n\n");
  await sim.run();

  assert.deepEqual([heard, bus.hasSubscribers(topicOf(address))], [[], false]);
  fanOut.join(address, listener);
  await sim.run();
  bus.publish(topicOf(address), "data: 2\n\n");
  await sim.run();
  assert.deepEqual(heard, ["data: 2\n\n"]);
});

test("a rewind reaches every listener between frames, and is not forwarded", async () => {
  const { sim, bus, fanOut } = start();
  const heard: string[] = [];
  for (const name of ["a", "b"])
    fanOut.join(address, {
      frames: (text) => heard.push(`${name} ${text.trim()}`),
      rewound: () => heard.push(`${name} rewound`),
      forget() {},
      lost() {},
    });
  await sim.run();

  bus.publish(topicOf(address), "data: 1\n\n");
  bus.publish(topicOf(address), rewoundMark);
  bus.publish(topicOf(address), "data: 2\n\n");
  await sim.advance(1);
  bus.publish(topicOf(address), `data: ${JSON.stringify(rewoundMark)}\n\n`);
  await sim.advance(1);

  const quoted = `data: ${JSON.stringify(rewoundMark)}`;
  assert.deepEqual(heard, ["a rewound", "b rewound", `a ${quoted}`, `b ${quoted}`]);
});

test("a listener gets the id of the last frame that has one, else null", async () => {
  const { sim, bus, fanOut } = start();
  const cursors: (number | null)[] = [];
  fanOut.join(address, { frames: (_, cursor) => cursors.push(cursor), forget() {}, rewound() {}, lost() {} });
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

describe("the state of a conversation", () => {
  /** A bus on which the test answers asks and publishes frames. */
  function startAnswering() {
    const asked: { type: string; answer(value: unknown): Promise<void>; refuse(): void }[] = [];
    let publish: (text: string) => void = () => {};
    const bus = {
      onLost() {},
      subscribe: (_to: unknown, onText: (text: string) => void) => {
        publish = onText;
      },
      unsubscribe() {},
      ask: (_to: unknown, type: string, _body: unknown, { onReply }: { onReply: () => void }) =>
        new Promise((resolve, reject) => {
          const answer = async (value: unknown): Promise<void> => {
            onReply();
            resolve(value);
            await new Promise((settled) => setImmediate(settled));
          };
          asked.push({ type, answer, refuse: () => reject(new SvcError("mailbox_full")) });
        }),
    };
    const fanOut = new ThreadFanOut(bus as never);
    const forgotten: string[] = [];
    const join = (name: string): ThreadListener => {
      const listener = { frames() {}, forget: () => void forgotten.push(name), rewound() {}, lost() {} };
      fanOut.join(address, listener);
      return listener;
    };
    return { fanOut, asked, forgotten, join, publish: (text: string) => publish(text) };
  }

  test("is asked for once for all early listeners, and again for later ones", async () => {
    const { fanOut, asked, forgotten, join } = startAnswering();
    const positions = ["a", "b"].map((name) => fanOut.position(address, join(name)));
    assert.deepEqual(
      asked.map(({ type }) => type),
      ["attach"],
    );

    const answered = asked[0]?.answer({ next_seq: 7, run_id: null });
    positions.push(fanOut.position(address, join("c")));
    await answered;
    await asked[1]?.answer({ next_seq: 8, run_id: null });

    assert.deepEqual(
      (await Promise.all(positions)).map(({ next_seq, live }) => [next_seq, live]),
      [
        [7, null],
        [7, null],
        [8, null],
      ],
    );
    assert.deepEqual(forgotten, ["a", "b", "c"]);
  });

  test("has the run's text once for all, without text that is in the log by then", async () => {
    for (const [heard, next_seq, words] of [
      ["data: text\n\n", 3, true],
      ["id: 4\ndata: event\n\n", 4, false],
    ] as const) {
      const { fanOut, asked, forgotten, join, publish } = startAnswering();
      const [one, two] = ["a", "b"].map((name) => fanOut.position(address, join(name)));
      await asked[0]?.answer({ next_seq: 3, run_id: "r" });
      const late = fanOut.position(address, join("late"));
      publish(heard);
      await asked
        .find(({ type }) => type === "status")
        ?.answer({ live: { text: "Said.", truncated: false }, since_seq: 3 });

      const position = await one;
      assert.equal(position, await two);
      assert.deepEqual([position?.next_seq, position?.live?.includes("Said.")], [next_seq, words]);
      assert.deepEqual(forgotten, ["a", "b", "a", "b"], "both times all that was heard before is part of it");
      assert.equal(asked.filter(({ type }) => type === "attach").length, 2, "who came late asks for himself");
      void late;
    }
  });

  test("reaches no listener when the answer failed, and is asked for again", async () => {
    const { fanOut, asked, join } = startAnswering();
    const both = ["a", "b"].map((name) => fanOut.position(address, join(name)));
    asked[0]?.refuse();
    const outcomes = await Promise.allSettled(both);
    assert.deepEqual(
      outcomes.map(({ status }) => status),
      ["rejected", "rejected"],
    );

    const again = fanOut.position(address, join("a"));
    await asked[1]?.answer({ next_seq: 1, run_id: null });

    assert.equal((await again).next_seq, 1);
  });
});
