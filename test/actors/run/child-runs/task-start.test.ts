// Starts of tasks whose answers are lost: the task may work, and its run does not know. Time is simulated.
import assert from "node:assert/strict";
import { test } from "node:test";
import { SvcError } from "../../../../bus/errors.ts";
import type { ActorDeps } from "../../../../host/actor-deps.ts";
import { ActorProcess, processSettings } from "../../../support/actor-process.ts";
import { ScriptedModel, type ScriptedReply, type ShownMessage } from "../../../support/scripted-model.ts";
import { SimDisk } from "../../../support/sim-disk.ts";
import { Sim } from "../../../support/sim-env.ts";
import { cleanup } from "../../../support/temp.ts";

const usage = { input: 10, output: 1, cacheRead: 0, cacheWrite: 0 };
const prompt = (inline: string) => ({ system_prompt: { inline } });
const manifests = {
  lead: { ...prompt("lead"), delegation: { agents: [{ name: "talker" }], background: true } },
  talker: prompt("talker"),
};
const atEnd = cleanup();

/** Loses the answers to the starts of tasks. A start is delivered `lateMs` after the run has given up on its answer. */
function losesStarts({ env, bus, ...deps }: ActorDeps, lateMs: number): ActorDeps {
  const ask: ActorDeps["bus"]["ask"] = (to, type, body, options) => {
    if (to.kind !== "run" || type !== "start") return bus.ask(to, type, body, options);
    const send = () => void bus.ask(to, type, body, options).catch(() => {});
    if (lateMs === 0) send();
    else env.timer(lateMs, send);
    return Promise.reject(new SvcError("deadline_exceeded"));
  };
  const lossy = new Proxy(bus, {
    get(target, name) {
      if (name === "ask") return ask;
      const value: unknown = Reflect.get(target, name, target);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
  return { ...deps, env, bus: lossy };
}

for (const background of [false, true])
  for (const lateMs of [0, 3_000])
    test(`DEL-005 a ${background ? "background " : ""}task with a lost start is stopped (${lateMs} ms late)`, async () => {
      const sim = new Sim(1);
      const disk = await SimDisk.open(atEnd);
      const env = sim.env();
      const answer = (messages: readonly ShownMessage[]): ScriptedReply => {
        if (messages[0]?.content.startsWith("talker")) return { text: Array.from({ length: 50_000 }, () => "word ") };
        if (messages.some(({ role }) => role === "tool")) return { text: ["Done."], usage };
        const args = { agent: "talker", prompt: "Do it.", ...(background && { background }) };
        return { calls: [{ id: "task", name: "task", arguments: JSON.stringify(args) }], usage };
      };
      const process = new ActorProcess({
        ...{ env, store: disk.store(sim, env, () => 1), settings: processSettings(atEnd, manifests), bootId: "first" },
        model: new ScriptedModel(env, answer, () => 5),
        wrap: (deps) => losesStarts(deps, lateMs),
      });
      atEnd.after(() => process.close());

      const turn = process.submit({ manifest: "lead", thread_suffix: "t" });
      await sim.until(turn.accepted);
      await sim.advance(30_000);
      await sim.until(turn.ended);

      const [task] = disk.query("SELECT status FROM runs WHERE manifest = 'talker'");
      // A late background task is refused, because the budget of its run is gone.
      assert.equal(task?.status, background && lateMs > 0 ? undefined : "failed");
      assert.deepEqual(disk.query("SELECT status FROM runs WHERE manifest = 'lead'"), [{ status: "completed" }]);
      assert.deepEqual(process.crashes, []);
    });
