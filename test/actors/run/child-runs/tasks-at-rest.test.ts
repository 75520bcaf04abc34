// A run whose sub-agents all wait or are done while a task of one of them works. A drain finds the run before it is
// suspended. Time is simulated.
import assert from "node:assert/strict";
import { test } from "node:test";
import { wakeDueRuns } from "../../../../actors/durable/due-waits.ts";
import { defineTool } from "../../../../actors/tools/tool.ts";
import { durableAddress, runAddress } from "../../../../bus/address.ts";
import { Type } from "../../../../bus/type.ts";
import { ActorProcess, processSettings, tenantId } from "../../../support/actor-process.ts";
import { ScriptedModel, type ScriptedReply, type ShownMessage } from "../../../support/scripted-model.ts";
import { SimDisk } from "../../../support/sim-disk.ts";
import { Sim } from "../../../support/sim-env.ts";
import { cleanup } from "../../../support/temp.ts";

const usage = { input: 10, output: 1, cacheRead: 0, cacheWrite: 0 };
const asks = (name: string, args: object): ScriptedReply => ({
  calls: [{ id: name, name, arguments: JSON.stringify(args) }],
  usage,
});
const words = (count: number): readonly string[] => Array.from({ length: count }, () => "word ");
const prompt = (inline: string) => ({ system_prompt: { inline } });
const manifests = {
  pair: { ...prompt("pair"), pattern: "parallel", sub_agents: ["asker", "talker"] },
  asker: { ...prompt("asker"), delegation: { agents: [{ name: "waiter" }] } },
  talker: prompt("talker"),
  members: { ...prompt("members"), pattern: "parallel", sub_agents: ["asker", "adder"] },
  adder: { ...prompt("adder"), tools: ["calculator"], approvals: [{ id: "sums", tools: ["calculator"] }] },
  waiter: { ...prompt("waiter"), tools: ["ask"] },
};
const everybody = { scopes: [], principal: null, not_principal: null };
const ask = defineTool({
  name: "ask",
  description: "Asks a person.",
  parameters: Type.Object({}),
  effect: "once",
  risk: "reads",
  execute: () => ({ wait: { kind: "question", subject: "it", deadline: null, may_answer: everybody } }),
  resume: () => ({ text: "answered" }),
});

function answer(messages: readonly ShownMessage[]): ScriptedReply {
  const results = messages.filter(({ role }) => role === "tool").length;
  const who = messages[0]?.content ?? "";
  if (who.startsWith("asker"))
    return results === 0 ? asks("task", { agent: "waiter", prompt: "Do it." }) : { text: ["Done."], usage };
  if (who.startsWith("waiter")) return results === 0 ? asks("ask", {}) : { text: words(10_000) };
  if (who.startsWith("adder")) return asks("calculator", { expression: "6*7" });
  if (who.startsWith("talker")) return { text: words(200), usage };
  return { text: ["Together."], usage };
}

const atEnd = cleanup();

/** Such a run, in a process that may have a successor. */
async function world(durable: boolean, manifest = "pair") {
  const sim = new Sim(1);
  const disk = await SimDisk.open(atEnd);
  const execution = durable ? { execution: { mode: "durable", resume_token_ttl_seconds: 600 } } : {};
  const settings = processSettings(
    atEnd,
    { ...manifests, pair: { ...manifests.pair, ...execution } },
    { SVC_DETACHED_RUN_SECONDS: "0" },
  );
  function boot(bootId: string, answers: (messages: readonly ShownMessage[]) => ScriptedReply) {
    const env = sim.env();
    const model = new ScriptedModel(env, answers, () => 5);
    const store = disk.store(sim, env, () => 1);
    const process = new ActorProcess({ env, store, settings, model, bootId, tools: [ask] });
    atEnd.after(() => process.close());
    return { env, store, process };
  }
  const { env, process } = boot("first", answer);
  const turn = process.submit({ manifest, thread_suffix: "t", ...(durable && { surface: "chat" }) });
  await sim.until(turn.accepted);
  await sim.advance(500);
  const [wait] = disk.query(
    "SELECT wait_id, run_id, t.suffix FROM waits w JOIN threads t USING (thread_key) WHERE kind = 'question'",
  );
  const to = runAddress(tenantId, String(wait?.suffix), String(wait?.run_id));
  const principal = { tenant_id: tenantId, sub: "alice", scopes: [], scheme: "none", issuer: "" } as const;
  const answered = { wait_id: String(wait?.wait_id), value: "yes", principal };
  if (manifest === "pair") await sim.until(process.bus.ask(to, "answer", answered));
  await sim.advance(2_000);
  const tokens = (sql: string) => Number(disk.query(sql)[0]?.tokens);
  return {
    ...{ sim, disk, env, process, turn },
    next: () => boot("second", () => ({ text: ["Done."], usage })),
    pair: () =>
      disk.query("SELECT status, json_extract(result, '$.error') AS error FROM runs WHERE manifest = 'pair'")[0],
    spent: () => tokens("SELECT json_extract(spent, '$.output_tokens') AS tokens FROM runs WHERE manifest = 'pair'"),
    used: () => tokens("SELECT SUM(tokens_output) AS tokens FROM usage WHERE manifest_id <> 'waiter'"),
  };
}

for (const [reason, error] of [
  ["shutdown", "interrupted"],
  ["detached", "aborted"],
] as const)
  test(`DEL-005 a run stopped (${reason}) while it waits for its tasks ends with them`, async () => {
    const { sim, disk, process, turn, pair, spent, used } = await world(false);
    const actor = runAddress(tenantId, "t", turn.runId);
    if (reason === "detached") process.bus.tell(actor, "detach", {});
    for (let looks = 0; looks < 50; looks++) {
      if (reason === "shutdown") for (const run of process.deps.liveRuns) run.abort(reason);
      await sim.advance(20);
    }

    assert.deepEqual([pair(), process.deps.liveRuns.size], [{ status: "failed", error }, 0]);
    if (reason === "shutdown") assert.equal(spent(), used());
    assert.deepEqual(disk.query("SELECT wait_id FROM waits WHERE state <> 'closed'"), []);
    assert.deepEqual(process.crashes, []);
  });

test("DEL-005 the abort of a run with waiting sub-agents ends tasks and approvals", async () => {
  const { sim, disk, process } = await world(false, "members");
  const before = disk.query("SELECT state FROM waits WHERE state = 'open'").length;
  await sim.until(process.abort("t"));
  await sim.advance(1_000);

  assert.equal(before, 3);
  assert.deepEqual(disk.query("SELECT state FROM waits WHERE state <> 'closed'"), []);
  assert.deepEqual(disk.query("SELECT manifest FROM runs WHERE ended_at IS NULL"), []);
  assert.deepEqual(disk.query("SELECT status FROM approvals"), [{ status: "denied" }]);
});

test("DEL-006 a durable run drained before its tasks rest resumes elsewhere", async () => {
  const { sim, env, process, turn, next, pair, spent, used } = await world(true);
  process.bus.tell(durableAddress(process.deps.host), "drain", {});
  for (let looks = 0; looks < 50; looks++) {
    for (const run of process.deps.liveRuns) run.abort("shutdown");
    await sim.advance(20);
  }
  env.end();
  const drained = { ...pair(), spent: spent() - used() };

  const { process: second, store } = next();
  await sim.until(wakeDueRuns(store, second.bus));
  await sim.until(second.bus.ask(runAddress(tenantId, "t", turn.runId), "work", {}));
  // Its task is a durable run too, and due.
  second.bus.tell(durableAddress(second.deps.host), "look", { all: true });
  await sim.advance(10_000);

  assert.deepEqual(drained, { status: "waiting", error: null, spent: 0 });
  assert.deepEqual(pair(), { status: "completed", error: null });
  assert.deepEqual([...process.crashes, ...second.crashes], []);
});
