// Durable runs of patterns whose process dies after each of their batches: a model's answer is logged before it is
// used.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { defineTool } from "../../../actors/tools/tool.ts";
import { durableAddress, threadAddress } from "../../../bus/address.ts";
import { systemEnv } from "../../../bus/env.ts";
import { Type } from "../../../bus/type.ts";
import type { Store } from "../../../storage/store/store.ts";
import { durableRowById } from "../../../storage/tables/durable-rows.ts";
import { usagePage } from "../../../storage/tables/usage.ts";
import { ActorProcess, processSettings, tenantId } from "../../support/actor-process.ts";
import { eventually } from "../../support/eventually.ts";
import { ScriptedModel, type ScriptedReply, type ShownMessage } from "../../support/scripted-model.ts";
import { stoppingStore } from "../../support/stopping-store.ts";
import { dialects, testStore } from "../../support/stores.ts";
import { cleanup } from "../../support/temp.ts";

const env = systemEnv();
const usage = { input: 10, output: 1, cacheRead: 0, cacheWrite: 0 };
const says = (text: string): ScriptedReply => ({ text: [text], usage });
const note = defineTool({
  name: "note",
  description: "Does nothing.",
  parameters: Type.Object({}),
  effect: "read",
  risk: "reads",
  execute: () => ({ text: "noted" }),
});
const prompt = (inline: string) => ({ system_prompt: { inline } });

/** A pattern: its manifest, the number of model answers of a run, and the number asked for in parallel. */
interface Case {
  readonly manifest: object;
  readonly answers: number;
  readonly beside: number;
  readonly final: string | null;
}

const cases: Readonly<Record<string, Case>> = {
  parallel: {
    manifest: { ...prompt("Me."), pattern: "parallel", sub_agents: ["one", "two"] },
    answers: 3,
    beside: 2,
    final: "Mine.",
  },
  groupchat: {
    manifest: { ...prompt("Me."), pattern: "groupchat", sub_agents: ["one", "two"], max_turns: 1 },
    answers: 3,
    beside: 1,
    final: "Mine.",
  },
  plan_execute: { manifest: { ...prompt("Me."), pattern: "plan_execute" }, answers: 4, beside: 1, final: "Mine." },
  "plan_execute out of steps": {
    manifest: {
      ...prompt("Busy."),
      tools: ["note"],
      pattern: "plan_execute",
      plan_execute: { executor_recursion_limit: 1, replan_on_failure: false },
    },
    answers: 3,
    beside: 1,
    final: "Mine.",
  },
  "react out of steps": {
    manifest: { ...prompt("Busier."), tools: ["note"], recursion_limit: 2 },
    answers: 2,
    beside: 1,
    final: null,
  },
  "compacting after the turn": {
    manifest: { ...prompt("Me."), session: { strategy: "compacting", compact_after_turn: true } },
    answers: 1,
    beside: 1,
    final: "Mine.",
  },
  reflect: {
    manifest: { ...prompt("Me."), pattern: "reflect", reflect: { max_iterations: 3 } },
    answers: 4,
    beside: 1,
    final: "Better.",
  },
};

/** The model's answer: the prompt shows it how far the run is. */
function answer(messages: readonly ShownMessage[]): ScriptedReply {
  const [system, ...others] = messages.map(({ content }) => content);
  const last = others.at(-1) ?? "";
  if (system?.startsWith("You plan")) return says('{"subtasks":[{"title":"a","task":"x"},{"title":"b","task":"y"}]}');
  if (system?.startsWith("You judge"))
    return says(JSON.stringify({ score: last.includes("Better") ? 1 : 0.1, feedback: "More." }));
  if (system?.startsWith("Busier.") || (system?.startsWith("Busy.") && !last.includes("Answer the user now")))
    return { calls: [{ id: env.id(), name: "note", arguments: "{}" }], usage };
  if (system?.startsWith("One.")) return says("One's.");
  if (system?.startsWith("Two.")) return says("Two's.");
  return says(last.includes("Your draft of the answer was judged") ? "Better." : "Mine.");
}

for (const dialect of dialects)
  describe(`a process that dies after each batch of a durable pattern, on ${dialect}`, () => {
    const atEnd = cleanup();
    let store: Store;
    let settings: ReturnType<typeof processSettings>;

    before(async () => {
      const execution = { mode: "durable" };
      const manifests = Object.entries(cases).map(([name, { manifest }]) => [nameOf(name), { ...manifest, execution }]);
      const members = { one: prompt("One."), two: prompt("Two.") };
      settings = processSettings(
        atEnd,
        { ...Object.fromEntries(manifests), ...members },
        { SVC_AUDIT_FLUSH_SECONDS: "3600" },
      );
      ({ store } = await testStore(dialect, atEnd));
    });

    function start(of: Store) {
      const model = new ScriptedModel(env, answer, () => 0);
      const process = new ActorProcess({ env, store: of, settings, model, tools: [note], bootId: env.id() });
      atEnd.after(() => process.close());
      return { process, model };
    }
    const nameOf = (name: string) => name.replaceAll(" ", "-");
    const durableRun = (runId: string) => durableRowById(store.tenant(tenantId), runId);
    /** The number of logged model answers: the usage of each is written with it. */
    async function kept(suffix: string): Promise<number> {
      const { rows } = await usagePage(store.tenant(tenantId), { thread_id: `${tenantId}:${suffix}` }, null, 99);
      return rows.length;
    }
    const over = (runId: string) =>
      eventually(`the end of ${runId}`, async () => {
        const row = await durableRun(runId);
        return row?.ended_at != null ? row : undefined;
      });

    for (const [name, { answers, beside, final }] of Object.entries(cases))
      test(`DUR-008 a ${name} run asks for no logged answer again, and loses none`, async () => {
        const whole = stoppingStore(store, Number.POSITIVE_INFINITY, true);
        const uncut = start(whole);
        await over(uncut.process.submit({ manifest: nameOf(name), thread_suffix: `uncut-${nameOf(name)}` }).runId);
        assert.equal(uncut.model.requests.length, answers);
        const points = new Set<number>();

        for (let batches = 1; batches < whole.batches; batches++) {
          const suffix = `${nameOf(name)}-${batches}`;
          const dying = stoppingStore(store, batches, true);
          const first = start(dying);
          const { runId } = first.process.submit({ manifest: nameOf(name), thread_suffix: suffix });
          await Promise.race([dying.stopped, over(runId)]);
          first.process.close();
          const before = await kept(suffix);
          points.add(before);

          const { process, model } = start(store);
          await process.bus.ask(threadAddress(tenantId, suffix), "recover", {});
          process.bus.tell(durableAddress(process.deps.host), "look", { all: true });
          const end = await over(runId);
          process.close();

          const lost = first.model.requests.length - before;
          assert.ok(lost <= beside, `${suffix}: ${lost} answers are lost with the process`);
          assert.equal(model.requests.length, answers - before, `${suffix}: what is asked for by the successor`);
          assert.equal(end.final, final, suffix);
          assert.equal(await kept(suffix), answers, `${suffix}: each answer is billed once`);
        }

        assert.ok(points.size >= answers, `a process died behind ${[...points]} answers`);
      });
  });
