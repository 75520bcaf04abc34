// A turn that is aborted at any moment: the real thread actor, run and SQLite on the simulated clock.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { readEvents } from "../../../storage/tables/events.ts";
import { threadBySuffix } from "../../../storage/tables/threads.ts";
import { ActorProcess, processSettings, tenantId } from "../../support/actor-process.ts";
import { ScriptedModel, type ScriptedReply } from "../../support/scripted-model.ts";
import { SimDisk } from "../../support/sim-disk.ts";
import { Sim } from "../../support/sim-env.ts";
import { call, inTurn, slow, slowManifests } from "../../support/slow-turns.ts";
import { cleanup } from "../../support/temp.ts";

const seeds = 200;
/** Longer than any of the turns. */
const turnMsMax = 120;

const add = (id: string) => call(id, "calculator", { expression: "1+1" });

/** Two batches of calls, every outcome among them, then the answer. */
const replies: readonly ScriptedReply[] = [
  {
    text: ["Let ", "me ", "see."],
    calls: [add("a"), call("b", "slow"), call("c", "no_such_tool"), call("d", "calculator")],
  },
  { text: ["And:"], calls: [call("e", "slow"), add("f")] },
  { text: ["That ", "is ", "all."] },
];

describe("a turn that is aborted", () => {
  const atEnd = cleanup();
  let disk: SimDisk;
  let settings: ReturnType<typeof processSettings>;
  before(async () => {
    settings = processSettings(atEnd, slowManifests);
    disk = await SimDisk.open(atEnd);
  });

  test("SESS-005 STREAM-030 STREAM-043 200 seeded aborts end with one result a call", async () => {
    const seen = new Set<string>();
    for (let seed = 1; seed <= seeds; seed++) {
      const where = `seed ${seed}`;
      const sim = new Sim(seed);
      const env = sim.env();
      const store = disk.store(sim, env);
      const model = new ScriptedModel(env, inTurn(replies), () => sim.int(5));
      const suffix = `aborted-${seed}`;
      const process = new ActorProcess({ env, store, settings, model, tools: [slow], bootId: `boot-${seed}` });
      const turn = process.submit({ manifest: seed % 2 === 0 ? "parallel" : "sequential", thread_suffix: suffix });
      await sim.until(turn.accepted);
      await sim.advance(sim.int(turnMsMax));
      const { aborted } = await sim.until(process.abort(suffix));
      await sim.until(turn.ended);

      const outline = turn.outline;
      assert.deepEqual(process.crashes, [], where);
      assert.deepEqual(outline.slice(-3), ["on_chain_end", "done", "[DONE]"], `${where}: ${turn.text}`);
      assert.equal(outline.at(-4) === "aborted", aborted, where);
      const head = await threadBySuffix(store.tenant(tenantId), suffix);
      const events = await readEvents(store.tenant(tenantId), head?.thread_key ?? -1, 0, 1_000);
      const asked = events.flatMap(({ extra }) => extra?.tool_calls ?? []).map(({ id }) => id);
      const results = events.filter(({ kind }) => kind === "tool_result");
      assert.deepEqual(results.map(({ extra }) => extra?.tool_call_id).sort(), [...asked].sort(), where);
      const ended = turn.frames.filter(({ name }) => name === "tool_end").map(({ json }) => json.data);
      const output = (id: string | undefined) => ended.find((data) => data.id === id)?.output;
      for (const { content, extra } of results) assert.equal(output(extra?.tool_call_id), content, where);
      for (const id of asked) {
        const [start, end] = [outline.indexOf(`tool_start ${id}`), outline.indexOf(`tool_end ${id}`)];
        assert.ok(start >= 0 && start < end, `${where}: ${id} in ${outline}`);
        assert.equal(outline.lastIndexOf(`tool_end ${id}`), end, where);
      }
      for (const { content } of results) seen.add(content);
      seen.add(aborted ? `aborted after ${asked.length} calls` : "over before");

      const next = process.submit({ manifest: "sequential", thread_suffix: suffix });
      await sim.until(next.ended);
      assert.deepEqual(next.outline.slice(-2), ["done", "[DONE]"], where);
      process.close();
    }

    const stopped = "the run was stopped";
    for (const moment of [
      "over before",
      "aborted after 0 calls",
      "aborted after 4 calls",
      "aborted after 6 calls",
      "slept",
      `[tool error/interrupted] not run: ${stopped}`,
      "[tool error/interrupted] outcome unknown: it may have run (once)",
    ])
      assert.ok(seen.has(moment), `no seed has met "${moment}": ${[...seen]}`);
  });

  test("an abort after the first batch reaches a run that its actor is about to start", async () => {
    for (let seed = 1; seed <= 40; seed++) {
      const sim = new Sim(seed);
      const env = sim.env();
      const store = disk.store(sim, env);
      const suffix = `keyed-${seed}`;
      const model = new ScriptedModel(env, inTurn(replies), () => 50);
      const process = new ActorProcess({ env, store, settings, model, tools: [slow], bootId: `boot-${seed}` });
      // A run with a key starts after its first batch has committed.
      const idempotency = { key: "k", fingerprint: "f" };
      const turn = process.submit({ manifest: "sequential", thread_suffix: suffix, idempotency });
      while ((await sim.until(threadBySuffix(store.tenant(tenantId), suffix))) === undefined) await sim.advance(1);

      const { aborted } = await sim.until(process.abort(suffix));

      await sim.until(turn.ended);
      assert.equal(aborted, true, `seed ${seed}: ${turn.text}`);
      process.close();
    }
  });
});
