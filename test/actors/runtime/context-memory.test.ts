// The turns of a node share the memory for their loaded threads.
import assert from "node:assert/strict";
import { test } from "node:test";
import { ContextMemory } from "../../../actors/runtime/context-memory.ts";
import type { Env, Timer } from "../../../bus/env.ts";
import { SvcError } from "../../../bus/errors.ts";

const mebibyte = 1024 * 1024;

/** A memory of 8 MiB whose timers the test fires, and the admitted reservations by name. */
function world() {
  const timers: { work: () => void; cancelled: boolean }[] = [];
  const env = {
    timer(_ms: number, work: () => void): Timer {
      const timer = { work, cancelled: false };
      timers.push(timer);
      return {
        cancel() {
          timer.cancelled = true;
        },
      };
    },
  } as unknown as Env;
  const memory = new ContextMemory(8 * mebibyte, env);
  const admitted: string[] = [];
  function enter(name: string, tenantId: string, mebibytes: number) {
    const room = memory.room(tenantId);
    const waits = room.ask(mebibytes * mebibyte);
    const entered = waits === null ? null : waits.then(() => void admitted.push(name));
    if (waits === null) admitted.push(name);
    const outcome = entered?.catch((error: unknown) => SvcError.from(error).code) ?? null;
    return { leave: () => room.leave(), outcome };
  }
  return { enter, admitted, timers };
}

/** Lets promises settle. */
const settled = () => new Promise<void>((resolve) => setImmediate(resolve));

test("turns that fit enter at once, and others in order as memory is freed", async () => {
  const { enter, admitted } = world();

  const first = enter("first", "acme", 4);
  enter("second", "globex", 4);
  enter("third", "initech", 2);
  enter("fourth", "umbrella", 2);
  assert.deepEqual(admitted, ["first", "second"]);
  first.leave();
  await settled();

  assert.deepEqual(admitted, ["first", "second", "third", "fourth"]);
});

test("a tenant has at most half, and blocks no other tenant", async () => {
  const { enter, admitted } = world();

  const first = enter("first", "acme", 3);
  enter("second", "acme", 2);
  enter("other", "globex", 2);
  await settled();
  assert.deepEqual(admitted, ["first", "other"]);
  first.leave();
  await settled();

  assert.deepEqual(admitted, ["first", "other", "second"]);
});

test("a turn that is larger than the memory enters alone", async () => {
  const { enter, admitted } = world();

  const large = enter("large", "acme", 20);
  enter("small", "globex", 1);
  await settled();
  assert.deepEqual(admitted, ["large"]);
  large.leave();
  await settled();

  assert.deepEqual(admitted, ["large", "small"]);
});

test("a turn that waits too long is refused, and those queued after it enter", async () => {
  const { enter, admitted, timers } = world();
  enter("first", "acme", 4);
  const large = enter("large", "globex", 6);
  const small = enter("small", "initech", 2);
  await settled();
  assert.deepEqual(admitted, ["first"]);

  timers[0]?.work();

  assert.equal(await large.outcome, "mailbox_full");
  await small.outcome;
  assert.deepEqual(admitted, ["first", "small"]);
  assert.equal(timers[1]?.cancelled, true);
});

test("turns of up to 64 KiB are not counted", () => {
  const { enter, admitted } = world();
  enter("first", "acme", 20);

  enter("small", "acme", 1 / 16);

  assert.deepEqual(admitted, ["first", "small"]);
});
