// A thread that is deleted while a client listens to it.
import assert from "node:assert/strict";
import { test } from "node:test";
import { threadAddress } from "../../../bus/address.ts";
import { rewoundMark } from "../../../bus/frames/frames.ts";
import { ActorProcess, processSettings, tenantId } from "../../support/actor-process.ts";
import { ScriptedModel } from "../../support/scripted-model.ts";
import { SimDisk } from "../../support/sim-disk.ts";
import { Sim } from "../../support/sim-env.ts";
import { cleanup } from "../../support/temp.ts";

test("a listener learns that its thread was deleted", async (t) => {
  const atEnd = cleanup(t);
  const sim = new Sim(7);
  const env = sim.env();
  const store = (await SimDisk.open(atEnd)).store(sim, env);
  const settings = processSettings(atEnd, { agent: {} }, { SVC_AUDIT_FLUSH_SECONDS: "3600" });
  const model = new ScriptedModel(env, () => ({ text: ["Said."] }));
  const process = new ActorProcess({ env, store, settings, model, bootId: "one" });
  atEnd.after(() => process.close());
  const address = threadAddress(tenantId, "heard");
  await sim.until(process.submit({ manifest: "agent", thread_suffix: "heard" }).ended);
  let heard = "";
  process.bus.subscribe(address, (text) => {
    heard += text;
  });
  await sim.advance(100);

  const erased = await sim.until(process.bus.ask(address, "erase", {}));
  await sim.advance(100);

  assert.deepEqual(erased, { deleted: true });
  assert.ok(heard.includes(rewoundMark), heard);
});
