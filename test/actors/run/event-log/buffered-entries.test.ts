// A model's reply enters the log with the first write of its calls, or alone when that takes time.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { EventLogClient } from "../../../../actors/run/event-log/event-log-client.ts";
import { defineTool } from "../../../../actors/tools/tool.ts";
import { runAddress, threadAddress } from "../../../../bus/address.ts";
import { Type } from "../../../../bus/type.ts";
import { readEvents } from "../../../../storage/tables/events.ts";
import { threadBySuffix } from "../../../../storage/tables/threads.ts";
import { ActorProcess, type AskedTurn, processSettings, tenantId } from "../../../support/actor-process.ts";
import { refusingStore } from "../../../support/refusing-store.ts";
import { newRun } from "../../../support/rows.ts";
import { ScriptedModel } from "../../../support/scripted-model.ts";
import { SimDisk } from "../../../support/sim-disk.ts";
import { Sim } from "../../../support/sim-env.ts";
import { FrameReader } from "../../../support/sse-frames.ts";
import { stoppingStore } from "../../../support/stopping-store.ts";
import { cleanup } from "../../../support/temp.ts";

const call = (id: string, name = "note") => ({ id, name, arguments: "{}" });
const usage = { input: 10, output: 2, cacheRead: 0, cacheWrite: 0 };

describe("a reply with calls", () => {
  const atEnd = cleanup();
  let disk: SimDisk;
  let settings: ReturnType<typeof processSettings>;
  let started = 0;
  before(async () => {
    const tools = ["note"];
    settings = processSettings(atEnd, {
      agent: { tools },
      parallel: { tools, execution: { tools: "parallel" } },
      brief: { tools, recursion_limit: 1 },
    });
    disk = await SimDisk.open(atEnd);
  });

  /** `admitMs` is how long a control takes over each call; a negative one makes it crash. */
  function start(calls: ReturnType<typeof call>[], admitMs = 0) {
    const sim = new Sim(++started);
    const env = sim.env();
    const refusing = refusingStore(disk.store(sim, env));
    const store = stoppingStore(refusing, Number.POSITIVE_INFINITY, true);
    const state = { made: 0, refuses: false };
    const model = new ScriptedModel(env, (_, earlier) => {
      if (state.refuses) Object.assign(refusing, { refused: "events_insert", once: true });
      return earlier === 0 ? { text: ["First."], usage, calls } : { text: ["Done."], usage };
    });
    const note = defineTool({
      name: "note",
      description: "Counts its calls.",
      parameters: Type.Object({}, { additionalProperties: false }),
      effect: "once",
      risk: "writes",
      execute: () => ({ text: `noted ${++state.made}` }),
    });
    const slow = () => ({
      name: "hook" as const,
      before() {
        if (admitMs < 0) throw new TypeError("a defect");
        return new Promise<{ verdict: "pass" }>((resolve) => env.timer(admitMs, () => resolve({ verdict: "pass" })));
      },
    });
    const process = new ActorProcess({
      ...{ env, store, settings, model, tools: [note], bootId: `buffered-${started}` },
      controls: admitMs === 0 ? [] : [slow],
    });
    atEnd.after(() => process.close());
    const suffix = `buffered-${started}`;
    const submit = (asked: Partial<AskedTurn> = {}) =>
      process.submit({ manifest: "agent", thread_suffix: suffix, ...asked });
    async function logged(): Promise<string[]> {
      const tenant = refusing.tenant(tenantId);
      const head = await sim.until(threadBySuffix(tenant, suffix));
      const events = head ? await sim.until(readEvents(tenant, head.thread_key, 0, 100)) : [];
      return events.map(({ kind, content, extra }) => `${kind} ${content || (extra?.tool_call_id ?? "")}`);
    }
    return { sim, env, process, store, suffix, submit, logged, state };
  }

  test("STREAM-022 is written with the intent of its first call", async () => {
    const { sim, store, submit, logged } = start([call("a"), call("b")]);
    const turn = submit();
    await sim.until(turn.ended);

    assert.deepEqual(await logged(), [
      "message go",
      "message First.",
      "tool_call a",
      "tool_result noted 1",
      "tool_call b",
      "tool_result noted 2",
      "message Done.",
    ]);
    // The batches: the user's message; the reply with the first intent; a result, an intent and a result; the end.
    assert.equal(store.batches, 6);
    const told = turn.frames.filter(({ name }) => name === "tool_start" || name === "tool_end");
    assert.deepEqual(
      told.map(({ name, id }) => `${name} ${id}`),
      ["tool_start 3", "tool_end 4", "tool_start 5", "tool_end 6"],
    );
  });

  test("is written in one batch with all calls that are refused or skipped at once", async () => {
    for (const [manifest, batches] of [
      ["brief", 3],
      ["parallel", 5],
    ] as const) {
      const { sim, store, submit, logged } = start([call("a", "no_such_tool"), call("b", "nor_this")]);
      await sim.until(submit({ manifest }).ended);

      assert.equal((await logged()).length, manifest === "brief" ? 4 : 5);
      assert.equal(store.batches, batches, manifest);
    }
  });

  test("is logged and streamed while a control delays the first call", async () => {
    const { sim, process, suffix, submit, logged, state } = start([call("a")], 5_000);
    const heard: string[] = [];
    const reader = new FrameReader();
    process.bus.subscribe(threadAddress(tenantId, suffix), (text) => {
      for (const { name, json } of reader.push(text)) if (name === "session_event") heard.push(json.data.content);
    });
    const turn = submit();
    await sim.advance(1_000);

    assert.deepEqual(await logged(), ["message go", "message First."]);
    assert.deepEqual([heard, state.made], [["go", "First."], 0]);
    const run = runAddress(tenantId, suffix, turn.runId);
    const { live, since_seq } = await sim.until(process.bus.ask(run, "status", {}));
    assert.deepEqual([live?.text, since_seq], ["", 2], "who comes now reads it in the log, and only there");
    await sim.until(turn.ended);
    assert.equal(state.made, 1);
  });

  test("is in the log of a run that a defect ended before its next write", async () => {
    const { sim, submit, logged } = start([call("a")], -1);
    const turn = submit();
    await sim.until(turn.ended);
    await sim.advance(100);

    assert.match(turn.text, /internal error/);
    const log = await logged();
    assert.deepEqual(log.slice(0, 3), [
      "message go",
      "message First.",
      "tool_result [tool error/interrupted] not run: an earlier run was interrupted",
    ]);
  });

  test("precedes the end of a run without a write in between", async () => {
    const { sim, env, process, suffix, logged } = start([]);
    const said = (content: string) => ({ kind: "message", role: "assistant", content, extra: null }) as const;
    const link = new EventLogClient(process.bus, threadAddress(tenantId, suffix), "run", env);
    const asked = { idempotency: null, needed: 10, withUser: false, lease: null, appends: null, compacts: false };
    await sim.until(link.open({ ...asked, makeRoom: () => null }));
    const run = newRun("run");
    await sim.until(
      link.begin({ entries: [said("go")], ops: [], run, manifest: "agent", model_id: "scripted", preview: null }),
    );

    const buffered = link.buffer([said("First.")]);
    const ending = { status: "completed", stop_reason: "end_turn", error: null, usage: null } as const;
    const ended = link.end([said("Done.")], () => [], ending, null);

    assert.deepEqual([await sim.until(buffered), await sim.until(ended), link.nextSeq], [2, true, 3]);
    assert.deepEqual(await logged(), ["message go", "message First.", "message Done."]);
  });

  test("is not streamed, and its calls are not made, when it cannot be written", async () => {
    for (const admitMs of [0, 50]) {
      const { sim, submit, logged, state } = start([call("a"), call("b", "no_such_tool")], admitMs);
      state.refuses = true;
      const turn = submit({ manifest: "parallel" });
      await sim.until(turn.ended);

      assert.deepEqual(
        turn.outline.filter((name) => name.startsWith("tool")),
        [],
        `${admitMs}`,
      );
      assert.match(turn.text, /storage/);
      assert.equal(state.made, 0);
      assert.ok(!(await logged()).includes("message First."));
    }
  });
});
