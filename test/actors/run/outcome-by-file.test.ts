// Writes of a durable run whose process dies after each of its batches: the file itself shows whether they were made
// (decision 91 asks a person only about unknown outcomes).
import assert from "node:assert/strict";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { before, describe, test } from "node:test";
import { durableAddress, runAddress, threadAddress } from "../../../bus/address.ts";
import { systemEnv } from "../../../bus/env.ts";
import type { Store } from "../../../storage/store/store.ts";
import { decideOps } from "../../../storage/tables/approvals.ts";
import { durableRowById } from "../../../storage/tables/durable-rows.ts";
import { readEvents } from "../../../storage/tables/events.ts";
import { threadBySuffix } from "../../../storage/tables/threads.ts";
import { waitsOfRun } from "../../../storage/tables/waits.ts";
import { ActorProcess, processSettings, tenantId } from "../../support/actor-process.ts";
import { eventually } from "../../support/eventually.ts";
import { ScriptedModel, type ScriptedReply } from "../../support/scripted-model.ts";
import { stoppingStore } from "../../support/stopping-store.ts";
import { testStore } from "../../support/stores.ts";
import { cleanup, tempDir } from "../../support/temp.ts";

const env = systemEnv();
const usage = { input: 10, output: 2, cacheRead: 0, cacheWrite: 0 };
const call = (id: string, name: string, args: object) => ({ id, name, arguments: JSON.stringify(args) });
const append = (id: string) => call(id, "write_file", { path: "list.txt", content: "x", append: true });
const writes = [
  append("a"),
  call("b", "edit_file", { path: "list.txt", old_string: "x", new_string: "y" }),
  append("c"),
  call("d", "multi_edit", { path: "list.txt", edits: [{ old_string: "yx", new_string: "xx" }] }),
  call("e", "write_file", { path: "list.txt", content: "xx" }),
];

describe("interrupted writes to a file", () => {
  const atEnd = cleanup();
  const root = tempDir(atEnd);
  let store: Store;
  let settings: ReturnType<typeof processSettings>;
  before(async () => {
    const tools = ["write_file", "edit_file", "multi_edit"];
    settings = processSettings(
      atEnd,
      {
        sequential: { tools, execution: { mode: "durable" } },
        parallel: { tools, execution: { mode: "durable", tools: "parallel" } },
      },
      { SVC_AUDIT_FLUSH_SECONDS: "3600", SVC_WORKSPACE_ROOT: root },
    );
    ({ store } = await testStore("sqlite", atEnd));
  });

  const fileOf = (suffix: string) => join(root, ".svc-scopes", tenantId, "threads", suffix, "list.txt");
  function start(of: Store, bootId: string, calls: ScriptedReply["calls"]) {
    const model = new ScriptedModel(
      env,
      (messages) => (messages.at(-1)?.role === "user" ? { calls: calls ?? [], usage } : { text: ["Done."], usage }),
      () => 0,
    );
    const process = new ActorProcess({ env, store: of, settings, model, bootId });
    atEnd.after(() => process.close());
    return process;
  }
  /**
   * Runs in a process that dies after so many batches, and then in the next. Returns the questions, and the results by
   * call.
   */
  async function twice(
    suffix: string,
    manifest: string,
    calls: ScriptedReply["calls"],
    [batches, answered]: readonly [number, boolean],
    between: () => Promise<void> = async () => {},
  ) {
    const dying = stoppingStore(store, batches, answered);
    const { runId } = start(dying, `first-${suffix}`, calls).submit({ manifest, thread_suffix: suffix });
    const tenant = store.tenant(tenantId);
    const isOver = async () => (await durableRowById(tenant, runId))?.ended_at ?? undefined;
    await Promise.race([dying.stopped, eventually("the end", isOver)]);
    await between();
    const process = start(store, `second-${suffix}`, calls);
    await process.bus.ask(threadAddress(tenantId, suffix), "recover", {});
    process.bus.tell(durableAddress(`second-${suffix}`), "look", { all: true });
    const asked: string[] = [];
    await eventually(`the end of ${suffix}`, async () => {
      for (const { state, approval_id, call } of await waitsOfRun(tenant, runId)) {
        if (state !== "open" || approval_id === null) continue;
        asked.push(call.tool_call_id);
        const denied = { decision: "denied", note: "", edited_args: null } as const;
        await tenant.write(decideOps(tenant, approval_id, denied, "bob"));
        process.bus.tell(runAddress(tenantId, suffix, runId), "resume", { due: false });
      }
      return isOver();
    });
    const head = await threadBySuffix(tenant, suffix);
    const events = await readEvents(tenant, head?.thread_key ?? 0, 0, 1_000);
    const results = events.filter(({ kind }) => kind === "tool_result");
    process.close();
    return {
      asked,
      results: Object.fromEntries(results.map(({ extra, content }) => [extra?.tool_call_id, content])),
      batches: dying.batches,
    };
  }

  test("DUR-008 no person is asked: each write is made once after any last batch", async () => {
    const texts = { a: "wrote list.txt (1 bytes)", b: "wrote list.txt (1 bytes)", c: "wrote list.txt (2 bytes)" };
    const expected = { ...texts, d: "wrote list.txt (2 bytes)", e: "wrote list.txt (2 bytes)" };
    const whole = await twice("whole", "sequential", writes, [Number.POSITIVE_INFINITY, true]);

    // Intents and results alternate: an occasional intent reaches the process, which writes.
    for (let batches = 1; batches <= whole.batches; batches++) {
      const suffix = `at-${batches}`;
      const { asked, results } = await twice(suffix, "sequential", writes, [batches, batches % 4 < 2]);

      assert.deepEqual(asked, [], suffix);
      assert.deepEqual(results, expected, suffix);
      assert.equal(await readFile(fileOf(suffix), "utf8"), "xx", suffix);
    }

    assert.ok(whole.batches >= 12, `${whole.batches} batches`);
  });

  test("DUR-008 a file that another program changed proves nothing: a person is asked", async () => {
    const whole = await twice("whole-changed", "sequential", [append("a")], [Number.POSITIVE_INFINITY, true]);
    let times = 0;
    for (let batches = 1; batches <= whole.batches; batches++) {
      const suffix = `changed-${batches}`;
      await mkdir(join(fileOf(suffix), ".."), { recursive: true });
      const { asked, results } = await twice(suffix, "sequential", [append("a")], [batches, false], () =>
        writeFile(fileOf(suffix), "something else"),
      );
      if (asked.length === 0) continue;

      times++;
      assert.deepEqual(asked, ["a"]);
      assert.equal(results.a, "[tool error/interrupted] outcome unknown: it may have run (once)");
      assert.equal(await readFile(fileOf(suffix), "utf8"), "something else");
    }

    assert.ok(times > 0);
  });

  test("DUR-008 equal parallel writes are ambiguous in the file, and are not confused", async () => {
    const whole = await twice("whole-wide", "parallel", [append("a"), append("b")], [Number.POSITIVE_INFINITY, true]);
    const met = new Set<string>();
    for (let batches = 1; batches <= whole.batches; batches++) {
      const suffix = `wide-${batches}`;
      const { asked, results } = await twice(suffix, "parallel", [append("a"), append("b")], [batches, false]);
      const text = await readFile(fileOf(suffix), "utf8").catch(() => "");
      const told = Object.values(results).filter((result) => `${result}`.startsWith("wrote")).length;

      met.add(`${asked.length}`);
      assert.equal(told + asked.length, 2, suffix);
      assert.ok(text.length >= told, `${suffix}: ${told} writes were told, and "${text}" is there`);
    }

    assert.ok(met.has("2"), `asked for ${[...met]}`);
  });
});
