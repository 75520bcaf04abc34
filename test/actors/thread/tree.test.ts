// The tree of a thread below HTTP: the permitted writers, the events between a run's events, and the state of a copy after a
// crash.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { loadBranch } from "../../../actors/log/branch.ts";
import { BranchCopy } from "../../../actors/thread/branch-copy.ts";
import { threadAddress } from "../../../bus/address.ts";
import { systemEnv } from "../../../bus/env.ts";
import { tenantSql } from "../../../storage/store/statements.ts";
import type { Store, TenantStore, WriteOp } from "../../../storage/store/store.ts";
import { branchRanges } from "../../../storage/tables/branches.ts";
import { appendOp, type EventKind, type LogEvent, readEvents } from "../../../storage/tables/events.ts";
import {
  draftFileOp,
  dropFilesOfThreadOps,
  keepFileOp,
  keptFile,
  shareFilesOps,
} from "../../../storage/tables/files.ts";
import { insertThreadOp, reserveThreadKeys, threadBySuffix } from "../../../storage/tables/threads.ts";
import { disownOp, eraseAbandoned, ownOp, touchOp } from "../../../storage/tables/unowned-logs.ts";
import { ActorProcess, processSettings, tenantId } from "../../support/actor-process.ts";
import { outcomeOf } from "../../support/outcome.ts";
import { threadRow } from "../../support/rows.ts";
import { ScriptedModel, type ScriptedReply } from "../../support/scripted-model.ts";
import { SimDisk } from "../../support/sim-disk.ts";
import { Sim } from "../../support/sim-env.ts";
import { dialects, testStore } from "../../support/stores.ts";
import { cleanup } from "../../support/temp.ts";

/** Ages a log, as if it had been idle for longer than any operation takes. */
const age = tenantSql(
  "test_age",
  "UPDATE unowned_logs SET touched_at = 0 WHERE tenant_id = :tenant AND thread_key = ?",
);
const principal = { tenant_id: tenantId, sub: "alice", scopes: [], scheme: "none", issuer: "" };

describe("the tree below HTTP", () => {
  const atEnd = cleanup();
  let disk: SimDisk;
  let settings: ReturnType<typeof processSettings>;
  let started = 0;
  before(async () => {
    settings = processSettings(atEnd, { agent: { tools: ["calculator"] } });
    disk = await SimDisk.open(atEnd);
  });

  function world(answer: (earlier: number) => ScriptedReply = () => ({ text: ["Said."] })) {
    const sim = new Sim(++started);
    const suffix = `thread-${started}`;
    function process() {
      const env = sim.env();
      const store = disk.store(sim, env);
      const model = new ScriptedModel(
        env,
        (_, earlier) => answer(earlier),
        () => 5,
      );
      const made = new ActorProcess({ env, store, settings, model, bootId: env.id() });
      atEnd.after(() => made.close());
      const channel = made.bus.openChannel(() => {});
      const rewind = (event_id: string, summarize = false, to = suffix) => {
        const asked = { event_id, summarize, instructions: "", manifest: null, principal, request_id: "r", channel };
        return made.bus.ask(threadAddress(tenantId, to), "rewind", asked);
      };
      const say = () => made.submit({ manifest: "agent", thread_suffix: suffix });
      const custom = (content: string) => {
        const entry = { content, role: "user" as const, in_context: true, metadata: "{}" };
        return made.bus.ask(threadAddress(tenantId, suffix), "custom", entry);
      };
      return { env, store, model, made, rewind, say, custom };
    }
    async function events(store: Store, of = suffix): Promise<LogEvent[]> {
      const tenant = store.tenant(tenantId);
      const head = await sim.until(threadBySuffix(tenant, of));
      return head ? sim.until(readEvents(tenant, head.thread_key, 0, 1000)) : [];
    }
    return { sim, suffix, process, events };
  }

  test("a concurrent rewind or turn is refused, and the log stays a tree", async () => {
    const seen = new Set<string>();
    for (let seed = 0; seed < 40; seed++) {
      const { sim, process, events } = world();
      const { store, say, rewind } = process();
      await sim.until(say().ended);
      const tenant = store.tenant(tenantId);
      const head = await sim.until(threadBySuffix(tenant, `thread-${started}`));
      const target = `${head?.uid}${"0".repeat(12)}`;

      const turn = seed % 2 === 0 ? say() : null;
      await sim.advance(seed % 9);
      const moved = outcomeOf(rewind(target) as Promise<unknown>);
      const next = turn ?? say();
      const [rewound] = await sim.until(Promise.all([moved, next.accepted, next.ended]));
      const log = await events(store);

      const isRefused = "refused" in (rewound as object);
      seen.add(String(isRefused));
      assert.ok(isRefused ? log[2]?.parent_seq === 1 : (log[2]?.parent_seq ?? 9) <= 1, `seed ${sim.seed}`);
      assert.deepEqual(
        log.map(({ seq }) => seq),
        [0, 1, 2, 3],
      );
    }
    assert.deepEqual([...seen].toSorted(), ["false", "true"]);
  });

  test("a process that holds the thread from before a rewind writes nothing", async () => {
    const { sim, process, events } = world();
    const [stale, fresh] = [process(), process()];
    await sim.until(stale.say().ended);
    const head = await sim.until(threadBySuffix(stale.store.tenant(tenantId), `thread-${started}`));
    await sim.until(fresh.rewind(`${head?.uid}${"0".repeat(12)}`));

    const refused = await sim.until(outcomeOf(stale.say().accepted as Promise<unknown>));
    const note = await sim.until(outcomeOf(process().custom("after") as Promise<unknown>));

    assert.deepEqual(refused, { refused: "conflict" });
    assert.ok("answered" in (note as object) || !("refused" in (note as object)));
    const log = await events(fresh.store);
    assert.deepEqual(
      log.map(({ kind, parent_seq }) => [kind, parent_seq]),
      [
        ["message", -1],
        ["message", 0],
        ["custom", 0],
      ],
    );
  });

  test("client messages during a run are never logged between call and result", async () => {
    for (let at = 0; at < 30; at++) {
      const { sim, process, events } = world((earlier) =>
        earlier === 0
          ? { text: ["Hm"], calls: [{ id: "c1", name: "calculator", arguments: '{"expression":"1+1"}' }] }
          : { text: ["Done."] },
      );
      const { store, model, say, custom } = process();
      const turn = say();
      await sim.until(turn.accepted);
      await sim.advance(at);
      await sim.until(Promise.all([custom("one"), custom("two")]));
      await sim.until(turn.ended);
      const log = await events(store);
      await sim.until(say().ended);

      assert.deepEqual(
        log.map(({ seq }) => seq),
        log.map((_, seq) => seq),
        `at ${at}`,
      );
      assert.deepEqual(
        log.filter(({ kind }) => kind === "custom").map(({ content }) => content),
        ["one", "two"],
      );
      const done = turn.frames.find(({ name }) => name === "done");
      const lastOfRun = log.findLast(({ kind }) => kind === "message");
      assert.ok(Number(done?.id) > (lastOfRun?.seq ?? 0), `at ${at}`);
      const roles = model.requests.at(-1)?.map(({ role, tool_calls }) => (tool_calls ? "calls" : role)) ?? [];
      const asked = roles.indexOf("calls");
      assert.equal(roles[asked + 1], "tool", `at ${at}: ${roles}`);
      assert.equal(roles.filter((role) => role === "user").length, 4, `at ${at}`);
    }
  });

  test("a summary that comes after a second rewind is dropped", async () => {
    const { sim, process, events } = world();
    const { store, say, rewind } = process();
    for (let turns = 0; turns < 3; turns++) await sim.until(say().ended);
    const head = await sim.until(threadBySuffix(store.tenant(tenantId), `thread-${started}`));
    const id = (seq: number) => `${head?.uid}${seq.toString(16).padStart(12, "0")}`;

    await sim.until(rewind(id(3), true));
    await sim.until(rewind(id(1), true));
    await sim.advance(1000);

    const kept = (await events(store)).filter(({ kind }) => kind === "branch_summary");
    assert.deepEqual(
      kept.map(({ parent_seq, extra }) => [parent_seq, extra?.metadata?.fromId]),
      [[1, id(3)]],
    );
  });

  test("the usage of a dropped summary counts", async () => {
    const words = Array.from({ length: 20 }, () => "word ");
    const { sim, suffix, process } = world((earlier) => ({ text: earlier < 3 ? ["Said."] : words }));
    const { store, say, rewind } = process();
    for (let turns = 0; turns < 3; turns++) await sim.until(say().ended);
    const head = await sim.until(threadBySuffix(store.tenant(tenantId), suffix));
    const id = (seq: number) => `${head?.uid}${seq.toString(16).padStart(12, "0")}`;

    await sim.until(rewind(id(3), true));
    await sim.advance(30);
    await sim.until(rewind(id(1), true));
    await sim.advance(1000);

    const rows = disk.query("SELECT tokens_output, meta_json FROM usage WHERE thread_id = ?", `${tenantId}:${suffix}`);
    const used = rows.filter(({ meta_json }) => JSON.parse(String(meta_json)).purpose === "branch_summary");
    assert.equal(used.length, 2, JSON.stringify(rows));
    assert.ok(used.every(({ tokens_output }) => Number(tokens_output) > 0));
  });
});

for (const dialect of dialects)
  describe(`long branches on ${dialect}`, () => {
    const atEnd = cleanup();
    let store: Store;
    let tenant: TenantStore;
    before(async () => {
      ({ store } = await testStore(dialect, atEnd));
      tenant = store.tenant(tenantId);
    });

    /** A thread with these events; each is [parent, kind], by default a user's message. */
    async function threadOf(
      suffix: string,
      steps: readonly { parent: number; kind?: EventKind; metadata?: object; content?: string }[],
    ) {
      const thread_key = await reserveThreadKeys(store.system, 1);
      const ops: WriteOp[] = steps.map(({ parent, kind = "message", metadata, content }, seq) =>
        appendOp(tenant, thread_key, {
          seq,
          parent_seq: parent,
          ts: seq,
          kind,
          role: "user",
          content: content ?? `m${seq}`,
          extra: metadata ? { metadata: metadata as Record<string, unknown> } : null,
        }),
      );
      const head = threadRow(thread_key, suffix, {
        next_seq: steps.length,
        leaf_seq: steps.length - 1,
        meta: { rewound_at: steps.length },
      });
      for (let at = 0; at < ops.length; at += 400) await tenant.write(ops.slice(at, at + 400));
      await tenant.write([insertThreadOp(tenant, head)]);
      return head;
    }
    async function readAll(key: number): Promise<LogEvent[]> {
      const all: LogEvent[] = [];
      for (let page = await readEvents(tenant, key, 0, 10_000); page.length > 0; ) {
        all.push(...page);
        page = await readEvents(tenant, key, (page.at(-1)?.seq ?? 0) + 1, 10_000);
      }
      return all;
    }

    test("a long branch is copied, and a long thread deleted, in pages and completely", async () => {
      const settings = processSettings(atEnd, { agent: {} });
      const env = systemEnv();
      const model = new ScriptedModel(env, () => ({ text: ["Said."] }));
      const process = new ActorProcess({ env, store, settings, model, bootId: env.id() });
      atEnd.after(() => process.close());
      const steps = Array.from({ length: 1700 }, (_, seq) => ({ parent: seq === 900 ? 99 : seq - 1 }));
      const source = await threadOf("long", steps);

      const forked = await process.bus.ask(threadAddress(tenantId, "long-copy"), "fork", {
        source: "long",
        event_id: null,
      });
      const copy = await threadBySuffix(tenant, "long-copy");
      const copied = await readAll(copy?.thread_key ?? 0);
      const erased = await process.bus.ask(threadAddress(tenantId, "long"), "erase", {});

      assert.deepEqual([forked.copied, copied.length, copy?.next_seq], [900, 900, 900]);
      assert.deepEqual([copied[99]?.content, copied[100]?.content, copied[899]?.content], ["m99", "m900", "m1699"]);
      assert.ok(copied.every(({ parent_seq }, seq) => parent_seq === seq - 1));
      assert.deepEqual([erased.deleted, (await readAll(source.thread_key)).length], [true, 0]);
      assert.equal((await readAll(copy?.thread_key ?? 0)).length, 900);
      await assert.rejects(tenant.write([touchOp(tenant, source.thread_key)]), { code: "conflict" });
      await assert.rejects(tenant.write([touchOp(tenant, copy?.thread_key ?? 0)]), { code: "conflict" });
    });

    test("a branch of a few long events is copied in pages of bounded size", async () => {
      const settings = processSettings(atEnd, { agent: {} });
      const env = systemEnv();
      const batches: number[] = [];
      const watched: Store = {
        tenant: (id) => watching(store.tenant(id), batches),
        system: store.system,
        check: () => store.check(),
        close: () => store.close(),
      };
      const model = new ScriptedModel(env, () => ({ text: ["Said."] }));
      const process = new ActorProcess({ env, store: watched, settings, model, bootId: env.id() });
      atEnd.after(() => process.close());
      const content = "x".repeat(400_000);
      await threadOf(
        "few-long",
        Array.from({ length: 20 }, (_, seq) => ({ parent: seq - 1, content })),
      );

      const asked = { source: "few-long", event_id: null };
      const { copied } = await process.bus.ask(threadAddress(tenantId, "few-long-copy"), "fork", asked);

      assert.equal(copied, 20);
      assert.ok(batches.length >= 5, `characters of the batches: ${batches}`);
      assert.ok(Math.max(...batches) <= 6 * content.length, `characters of the batches: ${batches}`);
    });

    test("the unwritten rest of a copy is counted again after each page", async () => {
      const { thread_key, uid } = await threadOf("counted", [{ parent: -1, content: "x".repeat(1_000) }]);
      const copy = new BranchCopy(
        tenant,
        { thread_key: await reserveThreadKeys(store.system, 1), uid },
        { thread_key, uid },
        false,
      );
      for (const event of await readAll(thread_key)) copy.take(event);

      const before = [copy.waiting, copy.waitingChars >= 1_000];
      const { length } = copy.takeOps();

      assert.deepEqual([before, length], [[1, true], 1]);
      assert.deepEqual([copy.waiting, copy.waitingChars], [0, 0]);
    });

    test("a branch is found as ranges, over any number of forks and pages of any size", async () => {
      const steps = Array.from({ length: 2500 }, (_, seq) => ({ parent: seq % 100 === 50 ? seq - 21 : seq - 1 }));
      const head = await threadOf("ranges", steps);

      const ranges = await branchRanges(tenant, head, head.leaf_seq);

      const walked: number[] = [];
      for (let seq = head.leaf_seq; seq >= 0; seq = steps[seq]?.parent ?? -1) walked.unshift(seq);
      assert.deepEqual(
        ranges.flatMap(({ from, to }) => Array.from({ length: to - from }, (_, at) => from + at)),
        walked,
      );
      assert.equal(ranges.length, 26);
    });

    test("a compacted branch is read from the first kept event, after its summary", async () => {
      const compaction = { kind: "compaction" as const, metadata: { first_kept_seq: 3 } };
      const steps = [0, 1, 2, 3, 4].map((seq) => ({ parent: seq - 1 }));
      const head = await threadOf("compacted", [...steps, { parent: 4, ...compaction }, { parent: 5 }]);

      const branch = await loadBranch(tenant, head.thread_key, head.leaf_seq, Number.POSITIVE_INFINITY, false);
      const newest = await loadBranch(tenant, head.thread_key, head.leaf_seq, 2, false);

      assert.deepEqual(
        branch.map(({ content }) => content),
        ["[Summary of the conversation before this point.]\nm5", "m3", "m4", "m6"],
      );
      assert.deepEqual(
        newest.map(({ content }) => content),
        ["m4", "m6"],
      );
    });

    test("a turn cut by a compaction begins with its own messages, also in a copy", async () => {
      const env = systemEnv();
      const model = new ScriptedModel(env, () => ({ text: ["Said."] }));
      const settings = processSettings(atEnd, { agent: {} });
      const process = new ActorProcess({ env, store, settings, model, bootId: env.id() });
      atEnd.after(() => process.close());
      const metadata = { first_kept_seq: 5, opening_seq: 3 };
      const steps = [0, 1, 2, 3, 4, 5].map((seq) => ({
        parent: seq - 1,
        ...(seq === 1 && { kind: "audit" as const }),
      }));
      await threadOf("cut", [...steps, { parent: 5, kind: "compaction", metadata }, { parent: 6 }]);
      await process.bus.ask(threadAddress(tenantId, "cut-copy"), "fork", { source: "cut", event_id: null });

      for (const suffix of ["cut", "cut-copy"]) {
        const head = await threadBySuffix(tenant, suffix);
        const [key, leaf] = [head?.thread_key ?? 0, head?.leaf_seq ?? 0];
        const branch = await loadBranch(tenant, key, leaf, Number.POSITIVE_INFINITY, false);

        assert.deepEqual(
          branch.map(({ content }) => content),
          ["[Summary of the conversation before this point.]\nm6", "m3", "m5", "m7"],
          suffix,
        );
      }
    });

    test("a half-done copy or deletion is deleted once abandoned, and not before", async () => {
      const steps = Array.from({ length: 1200 }, (_, seq) => ({ parent: seq - 1 }));
      const half = await threadOf("half", steps);
      const whole = await threadOf("whole", steps.slice(0, 5));
      const log = { thread_key: half.thread_key, events: 1200, runs: 0 };
      const file = {
        file_id: "f".repeat(32),
        media_type: "image/png",
        size_bytes: 1,
        filename: "",
        created_by: "",
      } as const;
      await tenant.write([
        disownOp(tenant, log),
        draftFileOp(tenant, { ...file, created_at: 1, thread_key: whole.thread_key }),
        keepFileOp(tenant, file.file_id),
        ...shareFilesOps(tenant, half.thread_key, whole.thread_key, [file.file_id]),
      ]);
      // The original thread is deleted before the copy is complete.
      await tenant.write(dropFilesOfThreadOps(tenant, whole.thread_key));
      const passedOn = await keptFile(tenant, file.file_id);

      const early = await eraseAbandoned(store);
      await tenant.write([tenant.op(age, [half.thread_key], 1)]);
      const late = await eraseAbandoned(store);

      assert.deepEqual([early, late], [0, 1]);
      assert.equal(passedOn?.thread_key, half.thread_key);
      assert.equal(await keptFile(tenant, file.file_id), undefined);
      assert.deepEqual([(await readAll(half.thread_key)).length, (await readAll(whole.thread_key)).length], [0, 5]);
      for (const op of [touchOp(tenant, half.thread_key), ownOp(tenant, half.thread_key)])
        await assert.rejects(tenant.write([op]), { code: "conflict" });
    });
  });

/** The store of a tenant, with the number of characters of each batch. */
function watching(tenant: TenantStore, batches: number[]): TenantStore {
  const write: TenantStore["write"] = (ops, ...rest) => {
    batches.push(ops.flatMap(({ params }) => params).join("").length);
    return tenant.write(ops, ...rest);
  };
  return new Proxy(tenant, {
    get(target, property) {
      if (property === "write") return write;
      const value: unknown = Reflect.get(target, property, target);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
}
