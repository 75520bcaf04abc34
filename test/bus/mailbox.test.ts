import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { Mailbox } from "../../bus/mailbox.ts";
import { runs } from "../support/effort.ts";

test("a mailbox is FIFO, within its limit and 64 reserved places", () => {
  const step = fc.oneof(
    fc.record({ what: fc.constant("push"), reserved: fc.boolean(), times: fc.integer({ min: 1, max: 200 }) }),
    fc.record({ what: fc.constant("shift"), reserved: fc.constant(false), times: fc.integer({ min: 1, max: 200 }) }),
  );
  const property = fc.property(fc.integer({ min: 0, max: 300 }), fc.array(step, { maxLength: 40 }), (limit, steps) => {
    const mailbox = new Mailbox<number>(limit);
    const model: number[] = [];
    let next = 0;

    for (const { what, reserved, times } of steps)
      for (let i = 0; i < times; i++) {
        if (what === "shift") assert.equal(mailbox.shift(), model.shift());
        else {
          const fits = model.length < limit + (reserved ? 64 : 0);
          assert.equal(mailbox.push(++next, reserved), fits);
          if (fits) model.push(next);
        }
        assert.equal(mailbox.size, model.length);
      }
  });

  fc.assert(property, { numRuns: runs(300) });
});

test("an empty mailbox returns undefined, and limit 0 takes reserved messages only", () => {
  const mailbox = new Mailbox<string>(0);

  assert.equal(mailbox.shift(), undefined);
  assert.equal(mailbox.push("ordinary"), false);
  assert.equal(mailbox.push("reserved", true), true);
  assert.equal(mailbox.shift(), "reserved");
  assert.equal(mailbox.shift(), undefined);
});

test("a long queue is drained without repeated copies", () => {
  const length = 300_000;
  const mailbox = new Mailbox<number>(length);
  let copied = 0;
  const slice = Array.prototype.slice;
  Array.prototype.slice = function (this: unknown[], ...range: [start?: number, end?: number]) {
    const copy = slice.apply(this, range);
    copied += copy.length;
    return copy;
  };

  try {
    for (let i = 0; i < length; i++) mailbox.push(i);
    for (let i = 0; i < length; i++) assert.ok(mailbox.shift() === i);
  } finally {
    Array.prototype.slice = slice;
  }

  assert.ok(copied <= 2 * length, `${copied} places copied`);
});
