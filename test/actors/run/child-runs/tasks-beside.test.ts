// Tasks that are stopped with their run while others spend the same budget: the usage of each counts once. Time is
// simulated.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { ModelProvider } from "../../../../actors/models/provider.ts";
import { runAddress, threadAddress } from "../../../../bus/address.ts";
import { ActorProcess, processSettings, tenantId } from "../../../support/actor-process.ts";
import { type RefusingStore, refusingStore } from "../../../support/refusing-store.ts";
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

/** Successive processes, with a thread whose nested task streams while another task is in the background. */
async function world(
  durable: boolean,
  says: (messages: readonly ShownMessage[], store: RefusingStore) => ScriptedReply = answer,
) {
  const sim = new Sim(1);
  const disk = await SimDisk.open(atEnd);
  const execution = durable ? { execution: { mode: "durable", resume_token_ttl_seconds: 30 } } : {};
  const settings = processSettings(atEnd, { ...manifests, lead: { ...manifests.lead, ...execution } });
  function boot(bootId: string, answer: (messages: readonly ShownMessage[]) => ScriptedReply) {
    const env = sim.env();
    const model = new ScriptedModel(env, answer, () => 5);
    // A connection to a provider does not close at once.
    const slow: ModelProvider = {
      ...model,
      start(request, events) {
        const call = model.start(request, events);
        const later = { reply: call.reply, pause: () => call.pause(), resume: () => call.resume() };
        return { ...later, abort: () => void env.timer(100, () => call.abort()) };
      },
    };
    const store = refusingStore(disk.store(sim, env, () => 1));
    const process = new ActorProcess({ env, store, settings, model: slow, bootId });
    atEnd.after(() => process.close());
    return { env, process, store };
  }
  const { env, process, store } = boot("first", (messages) => says(messages, store));
  const turn = process.submit({ manifest: "lead", thread_suffix: "beside", ...(durable && { surface: "chat" }) });
  await sim.until(turn.accepted);
  await sim.advance(1_000);
  const numbers = (sql: string) => disk.query(sql).map((row) => Number(Object.values(row)[0]));
  return {
    ...{ sim, disk, env, process, store, turn },
    boot: () => boot("second", () => ({ text: ["Done."], usage })),
    /** Output tokens in the budget of the outermost run, those reserved, and those in the usage rows. */
    look: () => ({
      budget: numbers("SELECT b.output_tokens FROM run_budgets b JOIN runs USING (run_id) WHERE manifest = 'lead'"),
      aside: numbers("SELECT output_tokens FROM budget_shares"),
      used: numbers("SELECT SUM(tokens_output) FROM usage"),
    }),
  };
}

test("DEL-005 DEL-006 the late usage of a stopped nested task counts for its run", async () => {
  const { sim, process, turn, look } = await world(false);
  await sim.until(process.abort("beside"));
  await sim.until(turn.ended);
  await sim.advance(1_000);

  const { budget, aside, used } = look();
  assert.deepEqual(process.crashes, []);
  assert.deepEqual(aside, [0], "one is in the background");
  assert.ok(Number(used[0]) > 100);
  assert.deepEqual(budget, used);
});

for (const durable of [false, true])
  for (const reason of ["client", "shutdown"] as const)
    test(`DEL-006 a ${durable ? "durable " : ""}run killed during its tasks' reports (${reason}) counts usage once`, async () => {
      for (const afterMs of [50, 100, 101, 102, 104, 110, 150]) {
        const { sim, disk, env, process, boot, look } = await world(durable);
        if (reason === "client") process.abort("beside").catch(() => {});
        else for (const run of process.deps.liveRuns) run.abort(reason);
        await sim.advance(afterMs);
        env.end();
        await sim.advance(1_000);

        const next = boot();
        for (const { suffix } of disk.query("SELECT suffix FROM threads"))
          await sim.until(next.process.bus.ask(threadAddress(tenantId, String(suffix)), "recover", {}));
        const rows = disk.query("SELECT run_id FROM runs WHERE manifest = 'lead' AND status = 'waiting'");
        for (const { run_id } of rows)
          await sim.until(next.process.bus.ask(runAddress(tenantId, "beside", String(run_id)), "work", {}));
        await sim.advance(1_000);

        const { budget, aside, used } = look();
        const where = `killed after ${afterMs} ms`;
        assert.deepEqual(next.process.crashes, [], where);
        assert.ok(
          aside.every((tokens) => tokens === 0),
          where,
        );
        assert.deepEqual(budget, used, where);
      }
    });

test("DEL-005 a task continues after a short outage during a reservation", async () => {
  const { sim, disk, process, turn, look } = await world(false, (messages, store) => {
    const reply = briefly(messages);
    const isLast = messages[0]?.content.startsWith("lead") && messages.some(({ role }) => role === "tool");
    if (isLast) Object.assign(store, { refused: "run_budget_reserve", once: true });
    return reply;
  });
  await sim.until(turn.ended);
  await sim.advance(1_000);

  const { budget, used } = look();
  const ends = disk.query("SELECT manifest, status FROM runs WHERE ended_at IS NOT NULL ORDER BY manifest");
  assert.deepEqual(process.crashes, []);
  assert.deepEqual(
    ends.map(({ manifest, status }) => `${manifest} ${status}`),
    ["inner completed", "lead completed", "outer completed"],
  );
  assert.deepEqual(budget, used);
});

for (const durable of [false, true])
  for (const crashed of ["lead", "outer"])
    test(`DEL-006 usage of a ${durable ? "durable " : ""}run's tasks is shared when the actor of ${crashed} crashes`, async () => {
      const { sim, disk, process, look } = await world(durable);
      const [run] = disk.query(
        "SELECT suffix, run_id FROM runs JOIN threads USING (thread_key) WHERE runs.manifest = ?",
        crashed,
      );
      const actor = runAddress(tenantId, String(run?.suffix), String(run?.run_id));

      await assert.rejects(sim.until(process.bus.ask(actor, "taskResumed", undefined as never)));
      await sim.advance(5_000);
      await sim.until(process.abort("beside").catch(() => {}));
      await sim.advance(5_000);

      const { budget, aside, used } = look();
      assert.equal(process.crashes.length, 1);
      assert.ok(Number(used[0]) > 100);
      assert.deepEqual(new Set(aside), new Set([0]));
      assert.deepEqual(budget, used);
    });

/** The same with tasks that end by themselves. */
function briefly(messages: readonly ShownMessage[]): ScriptedReply {
  const results = messages.filter(({ role }) => role === "tool").length;
  const who = messages[0]?.content ?? "";
  const isOver = who.startsWith("inner") || results === (who.startsWith("lead") ? 2 : 1);
  return isOver && !who.startsWith("waiter") ? { text: ["Done."], usage } : answer(messages);
}

function answer(messages: readonly ShownMessage[]): ScriptedReply {
  const results = messages.filter(({ role }) => role === "tool").length;
  const who = messages[0]?.content ?? "";
  if (who.startsWith("lead")) return results === 0 ? to("waiter", { background: true }) : to("outer");
  if (who.startsWith("waiter")) return asks("calculator", { expression: "6*7" });
  if (who.startsWith("outer")) return to("inner");
  return { text: Array.from({ length: 10_000 }, () => "word ") };
}
