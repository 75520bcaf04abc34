// A machine's clock that is set during a turn: the turn gets exactly the time of its limits.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { ActorProcess, processSettings } from "../../support/actor-process.ts";
import { ScriptedModel, type ScriptedReply } from "../../support/scripted-model.ts";
import { SimDisk } from "../../support/sim-disk.ts";
import { Sim } from "../../support/sim-env.ts";
import { call, inTurn, slow } from "../../support/slow-turns.ts";
import { cleanup } from "../../support/temp.ts";

const dayMs = 86_400_000;
const replies: readonly ScriptedReply[] = [{ calls: [call("a", "slow")] }, { text: ["That is all."] }];
const endless = (): ScriptedReply => ({ calls: [call("a", "slow")] });

describe("a turn while the clock is set", () => {
  const atEnd = cleanup();
  let disk: SimDisk;
  let settings: ReturnType<typeof processSettings>;
  before(async () => {
    const limits = { max_wall_clock_seconds: 1, max_tool_calls: 500 };
    settings = processSettings(atEnd, { brief: { tools: ["slow"], limits, recursion_limit: 50 } });
    disk = await SimDisk.open(atEnd);
  });

  /** A turn of an agent with one second, with the clock set within its first call. */
  async function turn(seed: number, byMs: number, answer: ConstructorParameters<typeof ScriptedModel>[1]) {
    const sim = new Sim(seed, { orderly: true });
    const env = sim.env();
    const model = new ScriptedModel(env, answer, () => 30);
    const process = new ActorProcess({
      env,
      store: disk.store(sim, env),
      settings,
      model,
      tools: [slow],
      bootId: `${seed}`,
    });
    const turn = process.submit({ manifest: "brief", thread_suffix: `clock-${seed}` });
    await sim.until(turn.accepted);
    await sim.advance(35);
    env.setClock(byMs);
    const since = sim.now;
    await sim.until(turn.ended);
    assert.deepEqual(process.crashes, []);
    const done = turn.frames.find(({ name }) => name === "done")?.json.data;
    return { final: done?.final?.content, text: turn.text, lastedMs: sim.now - since };
  }

  test("ahead, it runs to its end", async () => {
    const { final, text } = await turn(1, dayMs, inTurn(replies));

    assert.equal(final, "That is all.", text);
  });

  test("back, it ends when its time is over", async () => {
    const { text, lastedMs } = await turn(2, -dayMs, endless);

    assert.match(text, /max_wall_clock_seconds/);
    assert.ok(lastedMs < 2_000, `${lastedMs} ms`);
  });
});
