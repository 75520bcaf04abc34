import assert from "node:assert/strict";
import { test } from "node:test";
import { SvcError } from "../../../bus/errors.ts";
import { probeNode } from "../../support/probe-actor.ts";

test("an actor is loaded once, by its first message, and gets its key", async () => {
  const loaded: string[] = [];
  const node = probeNode({
    load({ key }) {
      loaded.push(key);
      return { key };
    },
    work: (state) => state.key,
  });
  assert.equal(node.host.size, 0);

  const answers = await node.outcomes([node.ask("work", 1, "a"), node.ask("work", 2, "b"), node.ask("work", 3, "a")]);

  assert.deepEqual(answers, [{ answer: "a" }, { answer: "b" }, { answer: "a" }]);
  assert.deepEqual(loaded, ["a", "b"]);
  assert.equal(node.host.size, 2);
});

test("messages during the load of an actor are handled after it, in order", async () => {
  const gate = Promise.withResolvers<string[]>();
  const node = probeNode({
    load: () => gate.promise,
    work: (lines, body) => lines.push(`work ${body}`),
    side: (lines, body) => lines.push(`side ${body}`),
  });
  const asked = [node.ask("work", 1)];
  await node.sim.run();
  asked.push(node.ask("side", 2));
  await node.sim.run();
  asked.push(node.ask("work", 3));
  await node.sim.run();
  const lines: string[] = [];

  gate.resolve(lines);

  assert.deepEqual(await node.outcomes(asked), [{ answer: 1 }, { answer: 2 }, { answer: 3 }]);
  assert.deepEqual(lines, ["work 1", "side 2", "work 3"]);
});

test("a loading actor counts as busy and accepts no more than its mailbox holds", async () => {
  const gate = Promise.withResolvers<object>();
  const node = probeNode({ mailboxLimit: 2, load: () => gate.promise });

  const asked = [node.ask("work", 1), node.ask("work", 2), node.ask("work", 3)];
  await node.sim.run();
  assert.equal(node.host.busyCount(), 1);
  gate.resolve({});

  assert.deepEqual(await node.outcomes(asked), [{ answer: 1 }, { answer: 2 }, { refused: "mailbox_full" }]);
  assert.equal(node.host.busyCount(), 0);
});

const refusing = waysToFail(() => new SvcError("storage_unavailable", { subject: "disk" }));

test("a refusal while loading reaches all callers, and the next message reloads", async () => {
  let loads = 0;
  const node = probeNode({ load: () => (++loads === 1 ? refusing.later() : {}) });

  const asked = [node.ask("work", 1), node.ask("side", 2)];
  node.poke(3);
  const refused = await node.outcomes(asked);
  const answered = await node.outcomes([node.ask("work", 4)]);

  assert.deepEqual(refused, [{ refused: "storage_unavailable" }, { refused: "storage_unavailable" }]);
  assert.deepEqual(answered, [{ answer: 4 }]);
  assert.equal(loads, 2);
  assert.equal(node.bus.dropped.tell, 1);
});

for (const [way, load] of Object.entries(refusing)) {
  test(`refusals while loading (${way}) are no crashes, and the actor can still load`, async () => {
    let loads = 0;
    const node = probeNode({ load: () => (++loads <= 20 ? load() : {}) });

    const outcomes = [];
    for (let i = 0; i < 21; i++) outcomes.push(...(await node.outcomes([node.ask("work", i)])));

    assert.deepEqual(outcomes.slice(0, 20), Array(20).fill({ refused: "storage_unavailable" }));
    assert.deepEqual(outcomes[20], { answer: 20 });
    assert.deepEqual(node.net.crashes, []);
  });
}

for (const [way, load] of Object.entries(waysToFail(() => new Error("a defect")))) {
  test(`a crash while loading (${way}) is internal_error, and the next message reloads`, async () => {
    let loads = 0;
    const node = probeNode({
      load() {
        if (++loads === 1) return load();
        return {};
      },
    });

    const asked = node.bus.ask({ kind: "probe", key: "a" }, "work", 1);
    await assert.rejects(node.sim.until(asked), (error: Error) => {
      assert.ok(error instanceof SvcError);
      assert.equal(error.code, "internal_error");
      assert.equal(error.message, "internal_error");
      return true;
    });
    const answered = await node.outcomes([node.ask("work", 2)]);

    assert.deepEqual(answered, [{ answer: 2 }]);
    assert.deepEqual(
      node.net.crashes.map((crash) => [crash.kind, crash.key, String(crash.error)]),
      [["probe", "a", "Error: a defect"]],
    );
  });
}

test("a message past its deadline when the load ends is not handled", async () => {
  const gate = Promise.withResolvers<string[]>();
  const node = probeNode({
    load: () => gate.promise,
    work: (lines, body) => lines.push(String(body)),
  });
  const asked = [
    node.ask("work", "hasty", "a", { deadlineMs: 100 }),
    node.ask("work", "patient", "a", { deadlineMs: 5_000 }),
  ];
  await node.sim.advance(1_000);
  const lines: string[] = [];

  gate.resolve(lines);

  assert.deepEqual(await node.outcomes(asked), [{ refused: "deadline_exceeded" }, { answer: 1 }]);
  assert.deepEqual(lines, ["patient"]);
});

/** The same failure, thrown at once and as a promise. */
function waysToFail(makeError: () => Error): Record<"at once" | "later", () => never | Promise<never>> {
  return {
    "at once": () => {
      throw makeError();
    },
    later: () => Promise.reject(makeError()),
  };
}
