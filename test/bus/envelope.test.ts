import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { op, type Receiver, unpack } from "../../bus/envelope.ts";
import { nodeId } from "../../bus/protocol/node-id.ts";
import { runs } from "../support/effort.ts";

const from = nodeId("there", 4);

/** A receiver that records its calls, in order. */
function noting(): { receiver: Receiver; noted: unknown[][] } {
  const noted: unknown[][] = [];
  const note =
    (what: string) =>
    (...fields: unknown[]): void =>
      void noted.push([what, ...fields]);
  const receiver: Receiver = {
    onAsk: note("ask"),
    onTell: note("tell"),
    onReply: note("reply"),
    onRefuse: note("refuse"),
    onMoved: note("moved"),
    onFrame: note("frame"),
    onTopic: note("topic"),
    onSubscribe: note("subscribe"),
    onUnsubscribe: note("unsubscribe"),
    onLives: note("lives"),
  };
  return { receiver, noted };
}

test("every operation of a batch reaches its receiver in order, also structured-cloned", () => {
  const text = fc.string();
  // Bodies look like operations, so that a wrong step through the batch would show.
  const body = fc.oneof(fc.integer({ min: 0, max: 8 }), fc.jsonValue());
  const number = fc.integer({ min: 0, max: 2 ** 45 });
  const operations = fc.oneof(
    fc.tuple(fc.constant("ask" as const), number, text, text, text, body, number),
    fc.tuple(fc.constant("tell" as const), text, text, text, body),
    fc.tuple(fc.constant("reply" as const), number, body),
    fc.tuple(fc.constant("refuse" as const), number, fc.constant({ code: "conflict", details: {} })),
    fc.tuple(fc.constant("moved" as const), number, fc.constant(nodeId("elsewhere", 1))),
    fc.tuple(fc.constant("frame" as const), number, text, fc.boolean()),
    fc.tuple(fc.constant("topic" as const), text, text),
    fc.tuple(fc.constant("subscribe" as const), text),
    fc.tuple(fc.constant("unsubscribe" as const), text),
  );
  const property = fc.property(fc.array(operations), (sent) => {
    const { receiver, noted } = noting();
    const items = sent.flatMap(([what, ...fields]) => [
      op[what],
      ...fields.map((field) => (typeof field === "boolean" && what === "frame" ? Number(field) : field)),
    ]);

    unpack(from, structuredClone(items), receiver);

    const tellsWho = new Set(["ask", "subscribe", "unsubscribe"]);
    assert.deepEqual(
      noted,
      structuredClone(sent).map(([what, ...fields]) => [what, ...(tellsWho.has(what) ? [from] : []), ...fields]),
    );
  });

  fc.assert(property, { numRuns: runs(300) });
});

test("an unreadable batch is an error", () => {
  const { receiver, noted } = noting();

  assert.throws(() => unpack(from, [op.subscribe, "a", 99, "b"], receiver), /unknown operation 99 at 2/);
  assert.deepEqual(noted, [["subscribe", from, "a"]]);
});
