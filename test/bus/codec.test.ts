import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import fc from "fast-check";
import { decodeBatch, encodeBatch } from "../../bus/codec.ts";
import { type Batch, op, protocolVersion } from "../../bus/envelope.ts";
import { SvcError } from "../../bus/errors.ts";
import { runs } from "../support/effort.ts";

const rootUrl = new URL("../../", import.meta.url).href;
const root = fileURLToPath(rootUrl);

function batchOf(...items: unknown[]): Batch {
  return { version: protocolVersion, ack: 3, bytes: 70, items };
}

test("a batch of plain data survives its encoding", () => {
  const text = fc.string({ unit: "binary" });
  const leaf = fc.oneof(
    text,
    fc.double(),
    fc.integer(),
    fc.boolean(),
    fc.constantFrom(null, undefined, "\ud800"),
    fc.uint8Array(),
  );
  const { value } = fc.letrec((tie) => ({
    value: fc.oneof(
      { maxDepth: 4 },
      leaf,
      fc.array(tie("value"), { maxLength: 5 }),
      fc.dictionary(text, tie("value"), { maxKeys: 5, noNullPrototype: true }),
    ),
  }));
  const property = fc.property(fc.array(value), fc.nat(), fc.nat(), (items, ack, bytes) => {
    const batch = { version: protocolVersion, ack, bytes, items };

    const decoded = decodeBatch(encodeBatch(batch));

    assert.deepEqual(decoded, batch);
  });

  fc.assert(property, { numRuns: runs(300) });
});

test("bytes at any offset of a larger buffer decode alike", () => {
  const batch = batchOf(op.tell, "echo", "key", "note", { text: "ä€𐍈" });
  const encoded = encodeBatch(batch);
  const piece = new Uint8Array(encoded.length + 7);
  piece.set(encoded, 5);

  const decoded = decodeBatch(piece.subarray(5, 5 + encoded.length));

  assert.deepEqual(decoded, batch);
});

test("a batch begins with its version, and another version is not read further", () => {
  const encoded = encodeBatch(batchOf(op.subscribe, "topic"));
  const later = Uint8Array.from([0x7f, 0x01, 1, 2, 3]);

  assert.equal(Buffer.from(encoded).readUInt16BE(0), protocolVersion);
  assert.deepEqual(decodeBatch(later), { version: 0x7f01, ack: 0, bytes: 0, items: [] });
});

class Thing {
  readonly name = "thing";
}

for (const [what, value, named] of [
  ["a function", () => {}, "a function"],
  ["a refusal itself", new SvcError("conflict"), "a SvcError"],
  ["an instance of a class", new Thing(), "a Thing"],
  ["a date", new Date(0), "a Date"],
  ["a map", new Map(), "a Map"],
  ["a promise", Promise.resolve(), "a Promise"],
  ["a symbol", Symbol("s"), "a symbol"],
] as const)
  test(`${what} cannot cross, and the error names the position`, () => {
    const batch = batchOf(op.reply, 1, { rows: [1, { inner: value }] });

    assert.throws(
      () => encodeBatch(batch),
      new TypeError(`items[2].rows[1].inner is ${named}, which cannot cross the bus`),
    );
  });

/** A node asks itself and reports whether an equal value has come; then it sends a function. */
const talkToItself = `
  import { Bus } from ${JSON.stringify(`${rootUrl}bus/bus.ts`)};
  import { systemEnv } from ${JSON.stringify(`${rootUrl}bus/env.ts`)};
  const body = { a: 1 };
  const bus = new Bus({
    env: systemEnv(), node: "here/0", incarnation: 0, actorNodes: ["here/0"],
    deliver: (delivery) => bus.reply(delivery, { same: delivery.body === body, body: delivery.body }),
  });
  console.log(JSON.stringify(await bus.ask({ kind: "echo", key: "a" }, "echo", body)));
  process.on("uncaughtException", (error) => console.log(error.message));
  bus.tell({ kind: "echo", key: "a" }, "note", { call() {} });
`;
const inThread = `
  import { Worker } from "node:worker_threads";
  const program = new URL("data:text/javascript," + encodeURIComponent(${JSON.stringify(talkToItself)}));
  new Worker(program, { execArgv: ["--import", ${JSON.stringify(`${root}strip-types.js`)}] });
`;

for (const [where, program] of [
  ["the main thread", talkToItself],
  ["a thread", inThread],
] as const)
  test(`with a bus in bytes nothing arrives by reference, on ${where}`, () => {
    const printed = (...execArgv: string[]): string => {
      const args = ["--import", "./strip-types.js", ...execArgv, "--input-type=module", "-e", program];
      const { stdout, stderr } = spawnSync(process.execPath, args, { cwd: root, encoding: "utf8" });
      return `${stdout}${stderr}`.trim();
    };

    const plain = printed();
    const inBytes = printed("--import", "./test/support/carry-bytes.ts");

    assert.equal(plain, '{"same":true,"body":{"a":1}}');
    assert.equal(inBytes, '{"same":false,"body":{"a":1}}\nitems[4].call is a function, which cannot cross the bus');
  });
