// A turn whose process dies after each of its batches, on both engines: the log that the next process finds, its
// prompt, and the calls that it does not repeat.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { defineTool } from "../../../actors/tools/tool.ts";
import { threadAddress } from "../../../bus/address.ts";
import { systemEnv } from "../../../bus/env.ts";
import { Type } from "../../../bus/type.ts";
import type { Store } from "../../../storage/store/store.ts";
import { interruptedRun } from "../../../storage/tables/abandoned-runs.ts";
import { type LogEvent, readEvents } from "../../../storage/tables/events.ts";
import { threadBySuffix } from "../../../storage/tables/threads.ts";
import { usagePage } from "../../../storage/tables/usage.ts";
import { ActorProcess, type AskedTurn, processSettings, tenantId } from "../../support/actor-process.ts";
import { ScriptedModel, type ScriptedReply, type ShownMessage } from "../../support/scripted-model.ts";
import { FrameReader } from "../../support/sse-frames.ts";
import { stoppingStore } from "../../support/stopping-store.ts";
import { dialects, testStore } from "../../support/stores.ts";
import { cleanup } from "../../support/temp.ts";

const env = systemEnv();
const call = (id: string, name: string) => ({ id, name, arguments: JSON.stringify({ id }) });
const usage = { input: 10, output: 2, cacheRead: 0, cacheWrite: 0 };
/** Two batches of calls, some with an effect and one that is refused, then the answer. */
const replies: readonly ScriptedReply[] = [
  { text: ["First."], usage, calls: [call("a", "note"), call("b", "look"), call("c", "no_such_tool")] },
  { usage, calls: [call("d", "note"), call("e", "note")] },
  { text: ["Done."], usage },
];
const answer = (messages: readonly ShownMessage[]): ScriptedReply =>
  replies[messages.filter(({ role }) => role === "assistant").length] ?? { text: ["Next."] };

for (const dialect of dialects) {
  describe(`a process that dies after each batch of a turn, on ${dialect}`, () => {
    const atEnd = cleanup();
    /** The external effects of the tools. */
    const effects: string[] = [];
    let store: Store;
    let settings: ReturnType<typeof processSettings>;

    const tool = (name: string, effect: "read" | "once") =>
      defineTool({
        name,
        description: "Leaves a trace.",
        parameters: Type.Object({ id: Type.String() }, { additionalProperties: false }),
        effect,
        risk: effect === "read" ? "reads" : "writes",
        execute({ id }, { threadSuffix }) {
          effects.push(`${threadSuffix} ${id}`);
          return { text: `${name} ${id}` };
        },
      });
    const tools = [tool("note", "once"), tool("look", "read")];

    before(async () => {
      const names = tools.map(({ name }) => name);
      settings = processSettings(
        atEnd,
        { sequential: { tools: names }, parallel: { tools: names, execution: { tools: "parallel" } } },
        // Audit rows would be further batches.
        { SVC_AUDIT_FLUSH_SECONDS: "3600" },
      );
      ({ store } = await testStore(dialect, atEnd));
    });

    function start(of: Store, bootId: string) {
      const model = new ScriptedModel(env, answer, () => 0);
      const process = new ActorProcess({ env, store: of, settings, model, tools, bootId });
      atEnd.after(() => process.close());
      return { process, model };
    }
    async function logOf(suffix: string): Promise<LogEvent[]> {
      const tenant = store.tenant(tenantId);
      const head = await threadBySuffix(tenant, suffix);
      if (!head) return [];
      assert.equal(await interruptedRun(tenant, head.thread_key), undefined, suffix);
      return readEvents(tenant, head.thread_key, 0, 1_000);
    }
    const resultsIn = (events: readonly LogEvent[]) =>
      new Map(events.filter(({ kind }) => kind === "tool_result").map((event) => [event.extra?.tool_call_id, event]));

    for (const manifest of ["sequential", "parallel"]) {
      test(`TOOL-016 SESS-008 every call of a ${manifest} turn has its true outcome, and none runs twice`, async () => {
        const whole = stoppingStore(store, Number.POSITIVE_INFINITY, true);
        const uncut = start(whole, "uncut").process.submit({ manifest, thread_suffix: `uncut-${manifest}` });
        await uncut.ended;
        assert.deepEqual(uncut.outline.slice(-2), ["done", "[DONE]"]);
        assert.ok(whole.batches >= 8, `${whole.batches} batches`);
        const seen = new Set<string>();

        for (let batches = 1; batches <= whole.batches; batches++) {
          for (const answered of [true, false]) {
            const suffix = `${manifest}-${batches}-${answered}`;
            const dying = stoppingStore(store, batches, answered);
            const turn = start(dying, `first-${suffix}`).process.submit({ manifest, thread_suffix: suffix });
            await Promise.race([dying.stopped, turn.ended]);

            const { process, model } = start(store, `second-${suffix}`);
            await process.bus.ask(threadAddress(tenantId, suffix), "recover", {});
            const events = await logOf(suffix);
            const results = resultsIn(events);
            const asked = events.flatMap(({ extra }) => extra?.tool_calls ?? []).map(({ id }) => id);
            assert.deepEqual([...results.keys()].sort(), [...asked].sort(), `${suffix}: each call has one result`);
            const { rows: billed } = await usagePage(
              store.tenant(tenantId),
              { thread_id: `${tenantId}:${suffix}` },
              null,
              9,
            );
            const answers = events.filter(({ extra }) => extra?.metadata?.usage !== undefined);
            assert.equal(billed.length, answers.length, `${suffix}: what the model has said is billed`);
            for (const [id, { content }] of results) {
              const ran = effects.includes(`${suffix} ${id}`);
              if (/not run/.test(content)) assert.ok(!ran, `${suffix}: ${id} has run, and the log says ${content}`);
              else if (/outcome unknown/.test(content))
                seen.add(ran ? "unknown, and it had" : "unknown, and it had not");
              seen.add(content.replace(/ [a-e]$/, ""));
            }

            const next: AskedTurn =
              batches % 2 === 0
                ? { manifest, thread_suffix: suffix }
                : { manifest, thread_suffix: suffix, surface: "continue", messages: [] };
            const second = process.submit(next);
            const refused = await second.accepted.then(
              () => null,
              (error: Error) => error.message,
            );
            if (refused !== null) {
              // The turn was over when the process died.
              assert.equal(refused, "already_complete", suffix);
              continue;
            }
            await second.ended;
            const told = new Map(model.requests[0]?.map(({ tool_call_id, content }) => [tool_call_id, content]));
            for (const [id, { content }] of results) assert.equal(told.get(id), content, suffix);
            for (const id of asked)
              assert.ok(
                effects.filter((effect) => effect === `${suffix} ${id}`).length <= 1,
                `${suffix}: ${id} ran twice`,
              );
            process.close();
          }
        }

        for (const outcome of [
          "note",
          "look",
          "[tool error/interrupted] not run: an earlier run was interrupted",
          "[tool error/interrupted] outcome unknown: it may have run (once)",
          "[tool error/interrupted] outcome unknown: it may have run (read)",
          "unknown, and it had",
          "unknown, and it had not",
        ])
          assert.ok(seen.has(outcome), `no crash point has met "${outcome}": ${[...seen]}`);
      });
    }

    test("IDEM-008 the replay of a keyed stream has the results that closed its calls", async () => {
      const asked: AskedTurn = {
        manifest: "sequential",
        thread_suffix: "keyed",
        idempotency: { key: "k", fingerprint: "f" },
      };
      // The user's message, and the model's with the intent of the first call.
      const dying = stoppingStore(store, 2, true);
      start(dying, "first-keyed").process.submit(asked);
      await dying.stopped;

      const { process, model } = start(store, "second-keyed");
      const accepted = await process.submit(asked).accepted;

      assert.equal(model.requests.length, 0);
      assert.ok(accepted.kind === "replay");
      const frames = new FrameReader().push(accepted.frames);
      assert.deepEqual(
        frames.map(({ name, json }) => (name === "session_event" ? `${json.data.kind} ${json.data.content}` : name)),
        [
          "message go",
          "message First.",
          "tool_call ",
          "tool_result [tool error/interrupted] outcome unknown: it may have run (once)",
          "tool_result [tool error/interrupted] not run: an earlier run was interrupted",
          "tool_result [tool error/interrupted] not run: an earlier run was interrupted",
          "error",
          "[DONE]",
        ],
      );
    });
  });
}
