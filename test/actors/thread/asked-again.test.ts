// A turn that is sent again with its run id, like an http thread's after an uncertain acceptance: it runs once.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { cellsMax, sweepMs } from "../../../actors/runtime/idle-sweep.ts";
import { runAddress } from "../../../bus/address.ts";
import { type Env, systemEnv } from "../../../bus/env.ts";
import type { Store } from "../../../storage/store/store.ts";
import { readEvents } from "../../../storage/tables/events.ts";
import { threadBySuffix } from "../../../storage/tables/threads.ts";
import { ActorProcess, processSettings, tenantId } from "../../support/actor-process.ts";
import { ScriptedModel } from "../../support/scripted-model.ts";
import { testStore } from "../../support/stores.ts";
import { cleanup } from "../../support/temp.ts";

const env = systemEnv();

describe("a turn that is sent again with its run id", () => {
  const atEnd = cleanup();
  let store: Store;
  let settings: ReturnType<typeof processSettings>;
  before(async () => {
    settings = processSettings(atEnd, { agent: {} });
    ({ store } = await testStore("sqlite", atEnd));
  });

  function start(pauseMs = 1, env = systemEnv()) {
    const model = new ScriptedModel(
      env,
      () => ({ text: ["Once."] }),
      () => pauseMs,
    );
    const process = new ActorProcess({ env, store, settings, model, bootId: env.id() });
    atEnd.after(() => process.close());
    return { process, model };
  }

  async function wordsOf(suffix: string): Promise<string[]> {
    const tenant = store.tenant(tenantId);
    const head = await threadBySuffix(tenant, suffix);
    const events = head ? await readEvents(tenant, head.thread_key, 0, 100) : [];
    return events.map(({ role, content }) => `${role}: ${content}`);
  }

  for (const thread_suffix of ["conversation", null]) {
    const where = thread_suffix === null ? "without a thread" : "on a thread";

    test(`${where} is accepted each time and runs once: while it runs, and when it is over`, async () => {
      const { process, model } = start();
      const run_id = env.id();
      const asked = { manifest: "agent", thread_suffix, run_id };

      const first = process.submit(asked);
      const beside = [process.submit(asked), process.submit(asked)];
      await first.ended;
      const late = process.submit(asked);

      for (const turn of [first, ...beside, late]) assert.deepEqual(await turn.accepted, { kind: "started" });
      assert.equal(first.frames.at(-2)?.json.data.final.content, "Once.");
      assert.deepEqual(
        [...beside, late].map(({ text }) => text),
        ["", "", ""],
      );
      assert.equal(model.requests.length, 1);
      assert.equal(process.deps.liveRuns.size, 0);
    });
  }

  test("without a thread runs once, also with very many actors in memory", async () => {
    // On a slow machine the sweep for idle actors would meet them during their creation.
    const unswept: Env = { ...env, timer: (ms, work) => env.timer(ms === sweepMs ? 2 ** 30 : ms, work) };
    const { process, model } = start(1, unswept);
    const asked = { manifest: "agent", thread_suffix: null, run_id: env.id() };
    for (let at = 0; at <= cellsMax; at += 1_000)
      await Promise.all(
        Array.from({ length: 1_000 }, (_, index) =>
          process.bus.ask(runAddress(tenantId, null, `none-${at + index}`), "alive", {}),
        ),
      );
    assert.ok(process.host.size > cellsMax, `${process.host.size} actors`);

    await process.submit(asked).ended;
    assert.deepEqual(await process.submit(asked).accepted, { kind: "started" });

    assert.equal(model.requests.length, 1);
  });

  test("on a thread is written once, and another run id is another turn", async () => {
    const { process, model } = start();
    const asked = { manifest: "agent", thread_suffix: "written", run_id: env.id() };
    await process.submit(asked).ended;
    await process.submit(asked).accepted;

    const other = process.submit({ ...asked, run_id: env.id() });
    await other.accepted;
    await other.ended;

    assert.deepEqual(await wordsOf("written"), ["user: go", "assistant: Once.", "user: go", "assistant: Once."]);
    assert.equal(model.requests.length, 2);
  });

  test("on a busy thread differs from another request, which is refused", async () => {
    const never = 2 ** 30;
    const { process } = start(never);
    const live = process.submit({ manifest: "agent", thread_suffix: "busy" });
    await live.accepted;

    const again = process.submit({ manifest: "agent", thread_suffix: "busy", run_id: live.runId });
    const other = process.submit({ manifest: "agent", thread_suffix: "busy" });

    assert.deepEqual(await again.accepted, { kind: "started" });
    await assert.rejects(other.accepted, { code: "run_in_progress", message: `run_in_progress:${live.runId}` });
    await process.abort("busy");
    await live.ended;
    assert.deepEqual(await wordsOf("busy"), ["user: go"]);
  });
});
