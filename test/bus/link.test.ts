import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { type Batch, op, protocolVersion } from "../../bus/envelope.ts";
import { Link } from "../../bus/link.ts";
import { localTransport } from "../../bus/local.ts";
import { runs } from "../support/effort.ts";
import { Sim } from "../support/sim-env.ts";

const mebibyte = 1024 * 1024;
const creditBytes = 8 * mebibyte;
const operationBytes = 64;

/** One end of a connection whose batches the test carries by hand. */
class End {
  readonly link: Link;
  readonly posted: Batch[] = [];
  /** Bytes that were sent and not yet acknowledged. */
  outstanding = 0;
  outstandingMax = 0;
  written = 0;
  heard = 0;

  constructor(sim: Sim) {
    this.link = new Link(sim.env(), {
      creditBytes,
      prompt: false,
      post: (batch) => {
        this.posted.push(batch);
        this.outstanding += batch.bytes;
        this.outstandingMax = Math.max(this.outstandingMax, this.outstanding);
      },
    });
  }

  write(bytes: number): void {
    this.link.ask(++this.written, "kind", "key", "type", null, 1, bytes);
  }

  /** Takes the oldest batch that the other end has posted. */
  take(other: End): boolean {
    const batch = other.posted.shift();
    if (!batch) return false;
    this.outstanding -= batch.ack;
    for (let i = 0; i < batch.items.length; i += 7) {
      assert.equal(batch.items[i], op.ask);
      assert.equal(batch.items[i + 1], ++this.heard);
    }
    this.link.received(batch);
    return true;
  }
}

/** Carries batches until neither end has anything left to send. */
async function carryAll(sim: Sim, left: End, right: End): Promise<void> {
  do await sim.run();
  while (left.take(right) || right.take(left));
}

test("unacknowledged bytes exceed the credit by one operation at most", async () => {
  const side = fc.constantFrom("left" as const, "right" as const);
  const write = fc.record({
    what: fc.constant("write"),
    side,
    bytes: fc.constantFrom(10, mebibyte / 4, mebibyte, 3 * mebibyte),
    times: fc.integer({ min: 1, max: 12 }),
  });
  const take = fc.record({ what: fc.constant("take"), side });
  const steps = fc.array(fc.oneof({ weight: 4, arbitrary: write }, { weight: 3, arbitrary: take }), {
    maxLength: 120,
    size: "max",
  });
  const property = fc.asyncProperty(fc.nat(), steps, async (seed, plan) => {
    const sim = new Sim(seed);
    const ends = { left: new End(sim), right: new End(sim) };

    for (const step of plan) {
      const end = ends[step.side];
      if (step.what === "take") end.take(step.side === "left" ? ends.right : ends.left);
      else for (let i = 0; i < step.times && end.link.writable; i++) end.write(step.bytes);
      await sim.run();
    }
    let writableAgain = 0;
    for (const end of Object.values(ends)) end.link.onWritable(() => void writableAgain++);
    await carryAll(sim, ends.left, ends.right);

    assert.equal(ends.left.heard, ends.right.written);
    assert.equal(ends.right.heard, ends.left.written);
    assert.equal(writableAgain, 2);
    for (const end of Object.values(ends)) {
      assert.ok(end.link.writable);
      assert.ok(end.outstandingMax < creditBytes + 3 * mebibyte + operationBytes, `${end.outstandingMax} bytes`);
      assert.ok(
        end.outstanding >= 0 && end.outstanding < creditBytes / 8,
        `${end.outstanding} bytes never acknowledged`,
      );
    }
  });

  await fc.assert(property, { numRuns: runs(150) });
});

test("both ends may be out of credit at the same time and still progress", async () => {
  const sim = new Sim(1);
  const [left, right] = [new End(sim), new End(sim)];

  for (let round = 0; round < 5; round++) {
    while (left.link.writable) left.write(mebibyte / 2);
    while (right.link.writable) right.write(mebibyte / 2);
    await sim.run();
    assert.equal(left.link.writable, false);
    assert.equal(right.link.writable, false);
    await carryAll(sim, left, right);
  }

  assert.equal(left.heard, right.written);
  assert.equal(right.heard, left.written);
  assert.ok(left.link.writable && right.link.writable);
});

test("without credit only acknowledgements leave, and queued work leaves as one batch", async () => {
  const sim = new Sim(1);
  const [left, right] = [new End(sim), new End(sim)];
  while (left.link.writable) left.write(mebibyte);
  await sim.run();
  assert.equal(left.posted.length, 1);

  for (let i = 0; i < 10; i++) {
    left.write(10);
    right.write(2 * mebibyte);
    await sim.run();
    left.take(right);
    await sim.run();
  }
  const acknowledging = left.posted.slice(1);
  await carryAll(sim, left, right);

  assert.ok(acknowledging.length > 0);
  for (const batch of acknowledging)
    assert.deepEqual({ ...batch, ack: 0 }, { version: protocolVersion, ack: 0, bytes: 0, items: [] });
  assert.equal(right.heard, left.written);
});

test("handled bytes are acknowledged with the next batch, or alone when they are many", async () => {
  const sim = new Sim(1);
  const [left, right] = [new End(sim), new End(sim)];

  left.write(1000);
  await sim.run();
  right.take(left);
  await sim.run();
  assert.equal(right.posted.length, 0);
  right.write(10);
  await sim.run();
  assert.equal(right.posted.at(-1)?.ack, 1000 + operationBytes);
  left.write(mebibyte);
  await sim.run();
  right.take(left);
  await sim.run();

  assert.deepEqual(right.posted.at(-1), {
    version: protocolVersion,
    ack: mebibyte + operationBytes,
    bytes: 0,
    items: [],
  });
});

test("acknowledgements alone are not acknowledged", async () => {
  const sim = new Sim(1);
  const [left, right] = [new End(sim), new End(sim)];
  for (let i = 0; i < 50; i++) {
    left.write(mebibyte);
    await carryAll(sim, left, right);
  }

  const posted = right.outstandingMax;

  assert.equal(posted, 0);
  assert.equal(left.posted.length + right.posted.length, 0);
});

test("work that waits for credit is called once, now or at the end of the turn", async () => {
  const sim = new Sim(1);
  const [left, right] = [new End(sim), new End(sim)];
  const calls: string[] = [];
  left.link.onWritable(() => void calls.push("there was credit"));
  assert.equal(calls.length, 0);
  await sim.run();
  assert.deepEqual(calls, ["there was credit"]);
  while (left.link.writable) left.write(mebibyte);

  left.link.onWritable(() => void calls.push(`writable: ${left.link.writable}`));
  await sim.run();
  assert.equal(calls.length, 1);
  await carryAll(sim, left, right);
  left.write(10);
  await carryAll(sim, left, right);

  assert.deepEqual(calls, ["there was credit", "writable: true"]);
});

test("work that waits for credit is not called without credit", async () => {
  const sim = new Sim(1);
  const [left, right] = [new End(sim), new End(sim)];
  left.write(mebibyte);
  await sim.run();
  left.write(3 * creditBytes);
  let calls = 0;
  left.link.onWritable(() => void calls++);
  await sim.run();

  right.take(left);
  await sim.run();
  assert.ok(left.take(right), "something is given back");
  await sim.run();
  assert.equal(calls, 0);
  await carryAll(sim, left, right);

  assert.equal(calls, 1);
});

test("a closed link sends nothing more and releases its waiters", async () => {
  const sim = new Sim(1);
  const left = new End(sim);
  while (left.link.writable) left.write(mebibyte);
  let calls = 0;
  left.link.onWritable(() => void calls++);
  await sim.run();
  left.write(10);
  const posted = left.posted.length;

  left.link.close();
  left.write(10);
  left.link.onWritable(() => void calls++);
  await sim.run();

  assert.equal(left.link.closed, true);
  assert.equal(left.posted.length, posted);
  assert.equal(calls, 2);
});

test("a node's link to itself has the usual order, and credit for one turn", async () => {
  const sim = new Sim(1);
  const heard: unknown[] = [];
  const transport = localTransport(false);
  const link = new Link(sim.env(), transport);
  transport.onBatch((batch) => {
    link.received(batch);
    for (let i = 0; i < batch.items.length; i += 7) heard.push(batch.items[i + 1]);
  });
  let written = 0;
  let refusals = 0;

  for (let round = 0; round < 5; round++) {
    for (let i = 0; i < 40; i++) {
      if (link.writable) link.ask(++written, "kind", "key", "type", null, 1, mebibyte);
      else refusals++;
    }
    assert.equal(link.writable, false);
    await sim.run();
    assert.equal(link.writable, true);
  }

  assert.deepEqual(
    heard,
    Array.from({ length: written }, (_, index) => index + 1),
  );
  assert.equal(refusals, 5 * 40 - written);
  assert.equal(written, 5 * 32);
});
