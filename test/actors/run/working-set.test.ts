// The messages that a window shows the model: the running turn's own, then whole groups.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import fc from "fast-check";
import { loadBranch } from "../../../actors/log/branch.ts";
import { type ContextMessage, contextMessage } from "../../../actors/log/message.ts";
import { branchBytesOf } from "../../../actors/log/thread-size.ts";
import { lastUserMessage, turnStartOf, workingSet } from "../../../actors/run/prompt/working-set.ts";
import { appendOp, eventBytes, type LogEvent } from "../../../storage/tables/events.ts";
import { ActorProcess, processSettings } from "../../support/actor-process.ts";
import { runs } from "../../support/effort.ts";
import { ScriptedModel, type ScriptedReply } from "../../support/scripted-model.ts";
import { SimDisk } from "../../support/sim-disk.ts";
import { Sim } from "../../support/sim-env.ts";
import { stoppingStore } from "../../support/stopping-store.ts";
import { testStore } from "../../support/stores.ts";
import { cleanup } from "../../support/temp.ts";

/** A branch as text: `u1` a user's message, `a1` an answer, `c1.2` two calls, `r1a` a result. */
function branchOf(words: string): ContextMessage[] {
  return words.split(" ").map((word) => {
    const [kind, name = ""] = [word[0], word.slice(1)];
    if (kind === "u") return contextMessage({ role: "user", content: word });
    if (kind === "a") return contextMessage({ role: "assistant", content: word });
    if (kind === "r") return contextMessage({ role: "tool", content: word, tool_call_id: name });
    const [number = "", calls = ""] = name.split(".");
    const tool_calls = Array.from({ length: Number(calls) }, (_, at) => ({
      id: number + String.fromCharCode(97 + at),
      name: "look",
      args: {},
    }));
    return contextMessage({ role: "assistant", content: word, tool_calls });
  });
}
const words = (messages: readonly ContextMessage[]): string => messages.map(({ content }) => content).join(" ");
const windowed = (messages: number) => ({ kind: "windowed", messages }) as const;

describe("a window", () => {
  const cases: readonly (readonly [branch: string, start: number, count: number, shown: string])[] = [
    ["u1 a1 u2 a2 u3", 4, 3, "u2 a2 u3"],
    ["u1 a1 u2", 2, 1, "u2"],
    ["u1 a1 u2 u3 u4", 2, 1, "u2 u3 u4"],
    ["u1 a1 u2 c1.1 r1a c2.1 r2a c3.1 r3a", 2, 3, "u2 c3.1 r3a"],
    ["u1 a1 u2 c1.1 r1a c2.1 r2a c3.1 r3a", 2, 5, "u2 c2.1 r2a c3.1 r3a"],
    ["u1 a1 u2 c1.1 r1a c2.1 r2a", 2, 4, "u2 c2.1 r2a"],
    ["u1 c1.3 r1a r1b r1c", 0, 1, "u1 c1.3 r1a r1b r1c"],
    ["u1 a1 u2 c1.3 r1a r1b r1c", 2, 2, "u2 c1.3 r1a r1b r1c"],
    ["u1 a1 u2 c1.1 r1a u3 c2.1 r2a", 2, 4, "u2 u3 c2.1 r2a"],
    ["u1 c1.1 r1a a1 u2", 4, 3, "a1 u2"],
    ["u1 c1.1 r1a a1 u2", 4, 4, "c1.1 r1a a1 u2"],
    ["u1 c1.1 r1a a1 u2", 4, 5, "u1 c1.1 r1a a1 u2"],
  ];
  for (const [branch, start, count, shown] of cases) {
    test(`SESS-025 windowed:${count} of ${branch}, with the turn's beginning at ${start}: ${shown}`, () => {
      assert.equal(words(workingSet(branchOf(branch), windowed(count), start)), shown);
    });
  }

  test("SESS-025 an entry during an open call does not part it from its result", async (t) => {
    const { store } = await testStore("sqlite", cleanup(t));
    const tenant = store.tenant("acme");
    const threadKey = 7;
    const events = branchOf("u1 c1.2 r1a u2 r1b a1").map(
      ({ role, content, tool_calls, tool_call_id }, seq): LogEvent => {
        const extra = { ...(tool_calls && { tool_calls }), ...(tool_call_id !== null && { tool_call_id }) };
        return {
          seq,
          parent_seq: seq - 1,
          ts: 1,
          kind: role === "tool" ? "tool_result" : "message",
          role,
          content,
          extra,
        };
      },
    );
    await tenant.write(events.map((event) => appendOp(tenant, threadKey, event)));

    const row = { thread_key: threadKey, leaf_seq: events.length - 1, bytes: 1_000_000 };
    for (const needed of [1, 2, 3, 4, 5]) {
      const branch = await loadBranch(tenant, threadKey, events.length - 1, needed, false);
      const bytes = events.slice(-branch.length).reduce((sum, event) => sum + eventBytes(event), 0);
      assert.equal(await branchBytesOf(tenant, row, needed, false), bytes, `${needed}: what is loaded is counted`);
      const open = new Set<string>();
      for (const { tool_calls, tool_call_id } of branch) {
        for (const { id } of tool_calls ?? []) open.add(id);
        if (tool_call_id !== null) assert.ok(open.delete(tool_call_id), `${needed}: a result without its call`);
      }
    }
  });

  test("SESS-025 the turn begins after the earlier answers that a request quotes", () => {
    assert.equal(turnStartOf(branchOf("u1 a1 u2"), 2), 2);
    assert.equal(turnStartOf(branchOf("u1 a1 u2 a2 u3 u4"), 2), 4);
    assert.equal(lastUserMessage(branchOf("u1 a1 u2 c1.1 r1a")), 2);
  });
});

describe("a window of a stored thread", () => {
  const atEnd = cleanup();

  test("SESS-025 is equal from store and memory, and never begins with a result", async () => {
    const sim = new Sim(1);
    const store = (await SimDisk.open(atEnd)).store(sim, sim.env()).tenant("acme");
    const turn = fc.record({
      calls: fc.array(fc.integer({ min: 1, max: 4 }), { maxLength: 4 }),
      answered: fc.boolean(),
    });
    let threadKey = 0;

    await fc.assert(
      fc.asyncProperty(
        fc.array(turn, { minLength: 1, maxLength: 5 }),
        fc.integer({ min: 1, max: 12 }),
        async (turns, count) => {
          const said = turns.flatMap(({ calls, answered }, at) => [
            `u${at}`,
            ...calls.flatMap((size, step) => [
              `c${at}-${step}.${size}`,
              ...Array.from({ length: size }, (_, call) => `r${at}-${step}${String.fromCharCode(97 + call)}`),
            ]),
            ...(answered ? [`a${at}`] : []),
          ]);
          const branch = branchOf(said.join(" "));
          threadKey++;
          const ops = branch.flatMap((message, at) => {
            const base = { parent_seq: at * 2 - 1, ts: 1, content: "", role: null, extra: null } as const;
            const kind = message.role === "tool" ? "tool_result" : "message";
            const { role, content, tool_calls, tool_call_id } = message;
            const extra = { ...(tool_calls && { tool_calls }), ...(tool_call_id !== null && { tool_call_id }) };
            const events: LogEvent[] = [
              // Most messages have a neighbour that is hidden from the model.
              { ...base, seq: at * 2, kind: "audit" },
              { ...base, seq: at * 2 + 1, parent_seq: at * 2, kind, role, content, extra },
            ];
            return events.map((event) => appendOp(store, threadKey, event));
          });
          await sim.until(store.write(ops));

          const loaded = await sim.until(loadBranch(store, threadKey, branch.length * 2 - 1, count, true));

          const shown = workingSet(loaded, windowed(count), lastUserMessage(loaded));
          assert.equal(words(shown), words(workingSet(branch, windowed(count), lastUserMessage(branch))));
          assert.notEqual(shown[0]?.role, "tool");
        },
      ),
      { numRuns: runs(300), seed: 1 },
    );
  });

  test("SESS-025 SESS-008 a long turn keeps its question, also after a crash", async () => {
    const sim = new Sim(2);
    const env = sim.env();
    const disk = await SimDisk.open(atEnd);
    const settings = processSettings(atEnd, {
      agent: { tools: ["calculator"], recursion_limit: 8, session: { strategy: "windowed:3" } },
    });
    const add = { name: "calculator", arguments: '{"expression":"1+1"}' };
    const step = (_: unknown, earlier: number): ScriptedReply =>
      earlier < 6 ? { calls: [{ id: `step-${earlier}`, ...add }] } : { text: ["Done."] };
    const asked = { manifest: "agent", thread_suffix: "long" };

    const whole = new ScriptedModel(env, step);
    const first = new ActorProcess({ env, store: disk.store(sim, env), settings, model: whole, bootId: "first" });
    await sim.until(first.submit({ ...asked, thread_suffix: "whole" }).ended);
    // The user's message, and three steps of two batches each: a message with an intent, and a result.
    const dying = stoppingStore(disk.store(sim, env), 7, true);
    const cut = new ActorProcess({ env, store: dying, settings, model: new ScriptedModel(env, step), bootId: "cut" });
    cut.submit(asked);
    await sim.until(dying.stopped);
    const later = new ScriptedModel(env, () => ({ text: ["Taken on."] }));
    const second = new ActorProcess({ env, store: disk.store(sim, env), settings, model: later, bootId: "second" });
    await sim.until(second.submit({ ...asked, surface: "continue" }).ended);

    const roles = ["user", "assistant", "tool"];
    for (const request of whole.requests.slice(1))
      assert.deepEqual(
        request.map(({ role }) => role),
        roles,
      );
    assert.equal(whole.requests.length, 7);
    assert.deepEqual(
      later.requests[0]?.map(({ role, content }) => `${role} ${content}`),
      ["user go", "assistant ", "tool 2", "user [continue]"],
    );
    for (const process of [first, cut, second]) process.close();
  });
});
