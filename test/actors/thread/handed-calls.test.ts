// A process that dies after each batch of a turn that hands a call to its client, on both engines: the call is open in
// the log when the client can know of it, and closed otherwise.

import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { defineTool } from "../../../actors/tools/tool.ts";
import { threadAddress } from "../../../bus/address.ts";
import { systemEnv } from "../../../bus/env.ts";
import { toJsonText } from "../../../bus/protocol/json-text.ts";
import { Type } from "../../../bus/type.ts";
import type { Store } from "../../../storage/store/store.ts";
import { readEvents } from "../../../storage/tables/events.ts";
import { threadBySuffix } from "../../../storage/tables/threads.ts";
import { ActorProcess, processSettings, tenantId } from "../../support/actor-process.ts";
import { ScriptedModel, type ScriptedReply } from "../../support/scripted-model.ts";
import { stoppingStore } from "../../support/stopping-store.ts";
import { gateDialects, testStore } from "../../support/stores.ts";
import { cleanup } from "../../support/temp.ts";

const env = systemEnv();
const call = (name: string) => ({ id: name, name, arguments: JSON.stringify({ id: name }) });
const asks = (): ScriptedReply => ({ calls: [call("ask_client"), call("note")] });
const answers = (): ScriptedReply => ({ text: ["Next."] });
const note = defineTool({
  name: "note",
  description: "Leaves a trace.",
  parameters: Type.Object({ id: Type.String() }, { additionalProperties: false }),
  effect: "once",
  risk: "writes",
  execute: () => ({ text: "noted" }),
});
const parameters = { type: "object" };
const options = {
  tools: [{ name: "ask_client", description: "Asks.", parameters, strict: null }],
  tool_choice: null,
  parallel_tool_calls: null,
  response_format: null,
  stop: [],
};

for (const dialect of gateDialects) {
  describe(`a call that is handed to a client, on ${dialect}`, () => {
    const atEnd = cleanup();
    let store: Store;
    let settings: ReturnType<typeof processSettings>;
    before(async () => {
      // Audit rows would be further batches.
      settings = processSettings(atEnd, { agent: { tools: ["note"] } }, { SVC_AUDIT_FLUSH_SECONDS: "3600" });
      ({ store } = await testStore(dialect, atEnd));
    });

    function start(of: Store, bootId: string, answer = asks) {
      const model = new ScriptedModel(env, answer, () => 0);
      const process = new ActorProcess({ env, store: of, settings, model, tools: [note], bootId });
      atEnd.after(() => process.close());
      return { process, model };
    }
    async function logOf(suffix: string) {
      const tenant = store.tenant(tenantId);
      const head = await threadBySuffix(tenant, suffix);
      return head ? readEvents(tenant, head.thread_key, 0, 1_000) : [];
    }
    const turn = (thread_suffix: string) =>
      ({ manifest: "agent", thread_suffix, surface: "openai_stream", options: toJsonText(options) }) as const;

    test("each call ends with one result, and a client answers only its own calls", async () => {
      const whole = stoppingStore(store, Number.POSITIVE_INFINITY, true);
      const uncut = start(whole, "uncut").process.submit(turn("uncut"));
      await uncut.ended;
      assert.match(uncut.text, /"finish_reason":"tool_calls"/);
      const seen = new Set<string>();

      for (let batches = 1; batches <= whole.batches; batches++) {
        for (const answered of [true, false]) {
          const suffix = `cut-${batches}-${answered}`;
          const dying = stoppingStore(store, batches, answered);
          const first = start(dying, `first-${suffix}`).process.submit(turn(suffix));
          await Promise.race([dying.stopped, first.ended]);
          const isTold = /"tool_calls":\[/.test(first.text);

          const { process, model } = start(store, `second-${suffix}`, answers);
          await process.bus.ask(threadAddress(tenantId, suffix), "recover", {});
          const asked = (await logOf(suffix)).flatMap(({ extra }) => extra?.tool_calls ?? []);
          const id = asked.find(({ name }) => name === "ask_client")?.id ?? "call_of_nobody";
          const messages = [{ role: "tool", tool_call_id: id, content: "the client's word" }];
          await process.submit({ ...turn(suffix), messages }).ended;

          const results = (await logOf(suffix)).filter(({ kind }) => kind === "tool_result");
          assert.deepEqual(
            results.map(({ extra }) => extra?.tool_call_id).sort(),
            asked.map((each) => each.id).sort(),
            `${suffix}: each call has one result`,
          );
          const said = results.find(({ extra }) => extra?.tool_call_id === id)?.content;
          const isTaken = said === "the client's word";
          if (isTold) assert.ok(isTaken, `${suffix}: the client was told of the call, and the log says ${said}`);
          // A last batch that is applied without an acknowledgement ends the run as well.
          else if (isTaken) assert.ok(batches === whole.batches && !answered, `${suffix}: nobody was told of the call`);
          else if (said !== undefined) assert.match(said, /not run|outcome unknown/, suffix);
          const told = model.requests[0]?.filter(({ role }) => role === "tool") ?? [];
          assert.equal(told.length, asked.length, suffix);
          seen.add(said ?? "");
        }
      }

      assert.ok(seen.size >= 3, [...seen].join("\n"));
    });
  });
}
