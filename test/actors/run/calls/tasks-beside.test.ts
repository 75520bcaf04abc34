// Tasks that are stopped with their run, while others spend the same budget: what each of them has used counts, once. Time is simulated.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { ModelProvider } from "../../../../actors/models/provider.ts";
import { ActorProcess, processSettings } from "../../../support/actor-process.ts";
import { ScriptedModel, type ScriptedReply, type ShownMessage } from "../../../support/scripted-model.ts";
import { SimDisk } from "../../../support/sim-disk.ts";
import { Sim } from "../../../support/sim-env.ts";
import { cleanup } from "../../../support/temp.ts";

const usage = { input: 10, output: 1, cacheRead: 0, cacheWrite: 0 };
const asks = (name: string, args: object): ScriptedReply => ({
  calls: [{ id: name, name, arguments: JSON.stringify(args) }],
  usage,
});
const to = (agent: string, more: object = {}) => asks("task", { agent, prompt: "Do it.", ...more });
const prompt = (inline: string) => ({ system_prompt: { inline } });
const manifests = {
  lead: { ...prompt("lead"), delegation: { agents: [{ name: "waiter" }, { name: "outer" }], background: true } },
  waiter: { ...prompt("waiter"), tools: ["calculator"], approvals: [{ id: "sums", tools: ["calculator"] }] },
  outer: { ...prompt("outer"), delegation: { agents: [{ name: "inner" }] } },
  inner: prompt("inner"),
};

const atEnd = cleanup();

test("DEL-005 DEL-006 a task of a task that takes its time to stop has used what it has used, for who spends with its run", async () => {
  const sim = new Sim(1);
  const disk = await SimDisk.open(atEnd);
  const env = sim.env();
  const model = new ScriptedModel(env, answer, () => 5);
  // A connection to a provider is not over at once.
  const slow: ModelProvider = {
    ...model,
    start(request, events) {
      const call = model.start(request, events);
      const later = { reply: call.reply, pause: () => call.pause(), resume: () => call.resume() };
      return { ...later, abort: () => void env.timer(100, () => call.abort()) };
    },
  };
  const settings = processSettings(atEnd, manifests);
  const store = disk.store(sim, env, () => 1);
  const process = new ActorProcess({ env, store, settings, model: slow, bootId: "boot" });
  atEnd.after(() => process.close());
  const turn = process.submit({ manifest: "lead", thread_suffix: "beside" });
  await sim.until(turn.accepted);
  await sim.advance(1_000);

  await sim.until(process.abort("beside"));
  await sim.until(turn.ended);
  await sim.advance(1_000);

  const [budget] = disk.query("SELECT output_tokens FROM run_budgets");
  const [used] = disk.query("SELECT SUM(tokens_output) AS output_tokens FROM usage");
  assert.deepEqual(process.crashes, []);
  assert.equal(disk.query("SELECT 1 FROM budget_shares").length, 1, "one is in the background");
  assert.ok(Number(used?.output_tokens) > 100);
  assert.equal(budget?.output_tokens, used?.output_tokens);
});

function answer(messages: readonly ShownMessage[]): ScriptedReply {
  const results = messages.filter(({ role }) => role === "tool").length;
  const who = messages[0]?.content ?? "";
  if (who.startsWith("lead")) return results === 0 ? to("waiter", { background: true }) : to("outer");
  if (who.startsWith("waiter")) return asks("calculator", { expression: "6*7" });
  if (who.startsWith("outer")) return to("inner");
  return { text: Array.from({ length: 10_000 }, () => "word ") };
}
