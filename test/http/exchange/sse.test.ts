// The limits on buffered bytes for slow readers, to the byte (decision 10: a stream that is too far behind is closed).
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import fc from "fast-check";
import { EventStream, StreamRegistry, type StreamSink } from "../../../http/exchange/sse.ts";
import { runs } from "../../support/effort.ts";

const miB = 1024 * 1024;

/** A connection that accepts as much as the test allows. */
class Connection implements StreamSink {
  taking = false;
  closed = false;
  text = "";

  write(piece: string | Uint8Array): boolean {
    this.text += typeof piece === "string" ? piece : Buffer.from(piece).toString();
    return this.taking;
  }

  end(text: string): void {
    this.text += text;
  }

  close(): void {
    this.closed = true;
  }
}

function open(registry: StreamRegistry): { connection: Connection; stream: EventStream } {
  const connection = new Connection();
  return { connection, stream: new EventStream(connection, registry) };
}

describe("a stream whose client takes nothing", () => {
  test("is closed when more than 1 MiB waits after the piece in transit", () => {
    const registry = new StreamRegistry(1024 * miB, () => 0);
    const { connection, stream } = open(registry);

    stream.write("x".repeat(3 * miB));
    stream.write("y".repeat(miB));
    assert.deepEqual([connection.closed, registry.waiting], [false, 4 * miB]);
    stream.write("z");

    assert.deepEqual([connection.closed, stream.closed, registry.waiting, registry.size], [true, true, 0, 0]);
    assert.equal(registry.droppedCount, 1);
    assert.equal(connection.text.length, 3 * miB);
  });

  test("is measured in bytes, not in characters", () => {
    const registry = new StreamRegistry(1024 * miB, () => 0);
    const { connection, stream } = open(registry);

    stream.write("世");
    stream.write("世".repeat(Math.floor(miB / 3)));
    assert.deepEqual([connection.closed, registry.waiting], [false, 3 + Math.floor(miB / 3) * 3]);
    stream.write("世");

    assert.equal(connection.closed, true);
  });

  test("is closed for bytes in another buffer too, and not for written ones", () => {
    const registry = new StreamRegistry(1024 * miB, () => 0);
    const { connection, stream } = open(registry);

    stream.hold(miB);
    stream.hold(0);
    assert.equal(registry.waiting, 0);
    stream.write("x");
    stream.write("y".repeat(miB / 2));
    stream.hold(miB / 2);
    assert.equal(connection.closed, false);
    stream.hold(miB / 2 + 1);

    assert.deepEqual([connection.closed, registry.waiting], [true, 0]);
  });

  test("receives the waiting frames, in order, when it reads again", () => {
    const registry = new StreamRegistry(1024 * miB, () => 0);
    const { connection, stream } = open(registry);

    for (const text of ["a", "b", "c"]) stream.write(text);
    assert.equal(connection.text, "a");
    connection.taking = true;
    stream.onDrained();
    stream.end("d");

    assert.deepEqual([connection.text, registry.waiting, registry.droppedCount], ["abcd", 0, 0]);
  });
});

describe("keep-alive comments", () => {
  test("go to streams that were silent for 15 seconds, and to no busy one", () => {
    let now = 0;
    const registry = new StreamRegistry(1024 * miB, () => now);
    const [silent, busy, commented] = [open(registry), open(registry), open(registry)];
    for (const { connection } of [silent, busy, commented]) connection.taking = true;

    now = 14_999;
    registry.keepAlive();
    assert.equal(silent.connection.text, "");
    busy.stream.write("frame");
    commented.stream.comment(": word\n\n");
    now = 15_000;
    registry.keepAlive();

    assert.deepEqual(
      [silent, busy, commented].map(({ connection }) => connection.text),
      [": keep-alive\n\n", "frame", ": word\n\n"],
    );
    now = 29_998;
    registry.keepAlive();
    assert.equal(busy.connection.text, "frame");
    now = 30_000;
    registry.keepAlive();
    assert.deepEqual(
      [silent, busy].map(({ connection }) => connection.text),
      [": keep-alive\n\n".repeat(2), "frame: keep-alive\n\n"],
    );
  });

  test("are not frames: a stream that gets only comments stays idle", () => {
    let now = 0;
    const registry = new StreamRegistry(1024 * miB, () => now);
    const { connection, stream } = open(registry);
    connection.taking = true;

    now = 20_000;
    registry.keepAlive();

    assert.deepEqual([stream.lastWriteAt, stream.lastFrameAt], [20_000, 0]);
  });
});

describe("the bound of all streams together", () => {
  test("closes the stream with the most waiting bytes, and no other", () => {
    const registry = new StreamRegistry(1000, () => 0);
    const streams = [300, 500, 100].map((length) => {
      const { connection, stream } = open(registry);
      stream.write("x".repeat(length));
      return { connection, stream };
    });

    streams[2]?.stream.write("y".repeat(101));

    assert.deepEqual(
      streams.map(({ connection }) => connection.closed),
      [false, true, false],
    );
    assert.equal(registry.waiting, 300 + 201);
  });

  test("closes one stream after the other, the largest first, while it is exceeded", () => {
    const registry = new StreamRegistry(1000, () => 0);
    const streams = [100, 400, 200, 300].map((length) => {
      const { connection, stream } = open(registry);
      stream.write("x".repeat(length));
      return { connection, stream };
    });
    const closed: number[] = [];

    for (let newcomer = 1; newcomer <= 20; newcomer++) {
      open(registry).stream.write("y".repeat(50));
      for (const [at, { connection }] of streams.entries())
        if (connection.closed && !closed.includes(at)) closed.push(at);
      assert.ok(registry.waiting <= 1000);
    }

    assert.deepEqual([closed, registry.waiting, registry.size], [[1, 3, 2, 0], 1000, 20]);
    assert.equal(registry.droppedCount, 4);
  });

  test("closes a stream that adds too much, at once and alone", () => {
    const registry = new StreamRegistry(1000, () => 0);
    const others = Array.from({ length: 4 }, () => open(registry));
    for (const { stream } of others) stream.write("x".repeat(250));
    const { connection, stream } = open(registry);

    stream.write("y".repeat(5000));

    assert.deepEqual([connection.closed, registry.waiting, registry.size], [true, 1000, 4]);
  });

  test("keeps its limits and its byte count through random writes, holds and ends", () => {
    const step = fc.record({
      at: fc.nat(5),
      how: fc.constantFrom("write", "comment", "hold", "drain", "take", "leave", "end"),
      length: fc.nat(400),
    });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 200 }), (steps) => {
        const registry = new StreamRegistry(1000, () => 0);
        const all = Array.from({ length: 6 }, () => open(registry));

        for (const { at, how, length } of steps) {
          const { connection, stream } = all[at] as (typeof all)[number];
          if (how === "write") stream.write("é".repeat(length));
          else if (how === "comment") stream.comment("x".repeat(length));
          else if (how === "hold") stream.hold(length);
          else if (how === "leave") stream.onAborted();
          else if (how === "end") stream.end("x");
          else {
            connection.taking = how === "take";
            if (!stream.drained) stream.onDrained();
          }

          assert.ok(registry.waiting <= 1000);
          assert.equal(
            registry.waiting,
            all.reduce((sum, each) => sum + each.stream.waiting, 0),
          );
        }
        for (const { stream } of all) stream.onAborted();
        assert.deepEqual([registry.waiting, registry.size], [0, 0]);
      }),
      { seed: 7, numRuns: runs(300) },
    );
  });
});

describe("a frame that is written in parts", () => {
  const bytes = (text: string) => Buffer.from(text);

  test("has no comment in its middle, and is cut off when the stream ends there", () => {
    let now = 0;
    const registry = new StreamRegistry(miB, () => now);
    const { connection, stream } = open(registry);
    connection.taking = true;

    stream.writePart(bytes("data: be"), true);
    assert.equal(stream.midFrame, true);
    now += 60_000;
    registry.keepAlive();
    registry.endAll();

    assert.equal(connection.text, "data: be");
    assert.equal(stream.closed, true);
  });

  test("is followed by others once it is complete", () => {
    let now = 0;
    const registry = new StreamRegistry(miB, () => now);
    const { connection, stream } = open(registry);
    connection.taking = true;

    stream.writePart(bytes("data: be"), true);
    stream.writePart(bytes("gun\n\n"), false);
    now += 60_000;
    registry.keepAlive();
    registry.endAll();

    assert.equal(connection.text, "data: begun\n\n: keep-alive\n\ndata: [DONE]\n\n");
  });

  test("counts unsent bytes together with those that several streams share", () => {
    const registry = new StreamRegistry(100, () => 0);
    let shared = 40;
    registry.shared = () => shared;
    const { connection, stream } = open(registry);

    stream.writePart(bytes("ä".repeat(30)), false);
    assert.deepEqual([registry.waiting, connection.closed], [60, false]);
    shared = 41;
    stream.write("x");

    assert.deepEqual([connection.closed, registry.waiting, registry.droppedCount], [true, 0, 1]);
  });
});
