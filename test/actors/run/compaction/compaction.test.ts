// Branches that are compacted: where they are cut, the prompts before and after, and the state after a crash or an
// abort.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import fc from "fast-check";
import { loadBranch } from "../../../../actors/log/branch.ts";
import { openingMessage } from "../../../../actors/log/compaction.ts";
import { type ContextMessage, contextMessage } from "../../../../actors/log/message.ts";
import { type BranchItem, planCut } from "../../../../actors/run/prompt/compaction-cut.ts";
import { threadAddress } from "../../../../bus/address.ts";
import { systemEnv } from "../../../../bus/env.ts";
import type { Store } from "../../../../storage/store/store.ts";
import { interruptedRun } from "../../../../storage/tables/abandoned-runs.ts";
import { type LogEvent, readEvents } from "../../../../storage/tables/events.ts";
import { threadBySuffix } from "../../../../storage/tables/threads.ts";
import { ActorProcess, processSettings, tenantId } from "../../../support/actor-process.ts";
import { ScriptedModel, type ScriptedReply, type ShownMessage } from "../../../support/scripted-model.ts";
import { SimDisk } from "../../../support/sim-disk.ts";
import { Sim } from "../../../support/sim-env.ts";
import { stoppingStore } from "../../../support/stopping-store.ts";
import { gateDialects, testStore } from "../../../support/stores.ts";
import { cleanup } from "../../../support/temp.ts";

/**
 * A branch as text: `u1` a user's message, `a1` an answer, `c1.2` two calls, `r1a` a result. Each is so many tokens.
 */
function itemsOf(words: string, tokens = 10): BranchItem[] {
  return words.split(" ").map((word, seq) => {
    const [kind, name = ""] = [word[0], word.slice(1)];
    const [number = "", calls = "0"] = name.split(".");
    const tool_calls = Array.from({ length: Number(calls) }, (_, at) => ({
      id: number + String.fromCharCode(97 + at),
      name: "look",
      args: {},
    }));
    const message =
      kind === "u"
        ? contextMessage({ role: "user", content: word })
        : kind === "r"
          ? contextMessage({ role: "tool", content: word, tool_call_id: name })
          : contextMessage({ role: "assistant", content: word, tool_calls });
    return { seq, message, tokens, isCarried: false };
  });
}
const keptWhole = (item: BranchItem) => ({ item, message: item.message, tokens: 0 });
const wordOf = (item: BranchItem | null | undefined) => item?.message.content ?? "-";

describe("the cut of a branch", () => {
  const cases: readonly (readonly [branch: string, tokens: number, first: string, opening: string])[] = [
    ["u1 a1 u2 a2 u3", 10, "u3", "-"],
    ["u1 a1 u2 a2 u3", 35, "u2", "-"],
    ["u1 a1 u2 a2 u3", 50, "-", "-"],
    ["u1 a1 u2 a2 u3", 0, "u3", "-"],
    ["u1 a1 u2 c1.2 r1a r1b", 30, "c1.2", "u2"],
    ["u1 a1 u2 c1.2 r1a r1b", 5, "c1.2", "u2"],
    ["u1 a1 u2 c1.1 r1a c2.1 r2a c3.1 r3a", 50, "c2.1", "u2"],
    ["u1 a1 u2 c1.1 u3 r1a", 40, "u2", "-"],
    ["u1 a1 u2 c1.1 u3 r1a", 20, "c1.1", "u2"],
    ["u1 a1 u2 c1.1 a9 r1a", 20, "c1.1", "u2"],
    ["u1 a1 u2 c1.2 r1a a9 r1b u3", 50, "c1.2", "u2"],
    ["u1 u2 c1.1 r1a a1 u3", 20, "a1", "u2"],
    ["u1 c1.1 r1a u2 c2.1 r2a", 30, "u2", "u1"],
    ["u1 c1.1 r1a u2 c2.1 r2a", 20, "c2.1", "u1"],
    ["u1 c1.1 r1a | u2 c2.1 r2a", 20, "c2.1", "u2"],
    ["u1 c1.1 r1a | u2 c2.1 r2a u3 c3.1 r3a", 20, "c3.1", "u2"],
    ["u1 c1.1 r1a", 10, "-", "-"],
    ["u1", 0, "-", "-"],
  ];
  for (const [branch, tokens, first, opening] of cases)
    test(`SESS-026 ${tokens} tokens of ${branch} are kept from ${first}, with ${opening}`, () => {
      const items = itemsOf(branch.replace("| ", ""));
      // A turn that is not marked is an earlier one.
      const turnFirst = branch.includes("|") ? branch.split(" ").indexOf("|") : items.length;

      const cut = planCut({ items, turnFirst }, { tokens, messages: Number.POSITIVE_INFINITY }, keptWhole);

      assert.deepEqual([wordOf(cut && items[cut.at]), wordOf(cut?.opening?.item)], [first, opening]);
    });

  test("SESS-026 a shortened opening makes the cut after it worth its call", () => {
    const [question, ...later] = itemsOf("u1 a1 u2 a2 | u3".replace("| ", ""));
    const items = [{ ...(question as BranchItem), tokens: 16_000 }, ...later];
    const keep = { tokens: 1_000, messages: Number.POSITIVE_INFINITY };
    const message = contextMessage({ role: "user", content: "u" });
    const shorten = (item: BranchItem) => ({ item, message, tokens: 500 });

    const cut = planCut({ items, turnFirst: 4 }, keep, shorten);

    assert.deepEqual([cut?.at, cut?.opening?.item, cut?.opening?.tokens], [1, items[0], 500]);
    assert.equal(planCut({ items, turnFirst: 4 }, keep, keptWhole), null);
  });

  test("SESS-026 no call is parted from its result, and the maximum is kept", () => {
    const turn = fc.tuple(fc.array(fc.integer({ min: 1, max: 3 }), { maxLength: 4 }), fc.boolean());
    fc.assert(
      fc.property(fc.array(turn, { minLength: 1, maxLength: 6 }), fc.nat(200), (turns, tokens) => {
        let next = 0;
        const words = turns.flatMap(([calls, isAnswered], at) => [
          `u${at}`,
          ...calls.flatMap((size) => {
            const name = next++;
            const results = Array.from({ length: size }, (_, call) => `r${name}${String.fromCharCode(97 + call)}`);
            return [`c${name}.${size}`, ...results];
          }),
          ...(isAnswered ? [`a${at}`] : []),
        ]);
        const items = itemsOf(words.join(" "));
        const turnFirst = items.findLastIndex(({ message }) => message.role === "user");
        const cut = planCut({ items, turnFirst }, { tokens, messages: Number.POSITIVE_INFINITY }, keptWhole);
        if (cut === null) return;

        const kept = items.slice(cut.at);
        const open = new Set<string>();
        for (const { message } of kept) {
          for (const { id } of message.tool_calls ?? []) open.add(id);
          if (message.role === "tool") assert.ok(open.delete(message.tool_call_id ?? ""), words.join(" "));
        }
        assert.deepEqual([...open], []);
        assert.ok(kept.length * 10 <= tokens || kept.filter(({ message }) => message.role !== "tool").length === 1);
        const isInside = kept[0]?.message.role === "assistant";
        if (isInside) assert.equal(cut.opening?.message.role, "user", words.join(" "));
      }),
    );
  });

  test("SESS-026 an opening is kept to 16,000 characters", () => {
    const message = (length: number) => contextMessage({ role: "user", content: "x".repeat(length) });

    assert.equal(openingMessage(message(16_000), { extra: null }).content.length, 16_000);
    assert.equal(openingMessage(message(16_001), { extra: null }).content, `${"x".repeat(16_000)} […]`);
  });
});

const isSummary = (messages: readonly ShownMessage[]) => messages[0]?.content.startsWith("You sum up") ?? false;

/** Asserts that each call is followed by its result, and by no other message. */
function checkCalls(messages: readonly ShownMessage[], where: string): void {
  const open = new Set<string>();
  for (const { tool_calls, tool_call_id } of messages) {
    for (const { id } of tool_calls ?? []) open.add(id);
    if (tool_call_id !== undefined) assert.ok(open.delete(tool_call_id), `${where}: a result without its call`);
  }
  assert.deepEqual([...open], [], `${where}: a call without its result`);
}

describe("a run that compacts", () => {
  const atEnd = cleanup();
  let disk: SimDisk;
  let settings: ReturnType<typeof processSettings>;
  before(async () => {
    const session = { strategy: "compacting", context_window_tokens: 2048, keep_recent_tokens: 300 };
    settings = processSettings(atEnd, {
      agent: { tools: ["calculator"], recursion_limit: 12, session },
      after: { tools: ["calculator"], session: { ...session, compact_after_turn: true } },
    });
    disk = await SimDisk.open(atEnd);
  });
  const call = (id: string, zeros: number) => ({
    id,
    name: "calculator",
    arguments: JSON.stringify({ expression: `1+${"0".repeat(zeros)}1` }),
  });

  test("SESS-025 SESS-026 20 seeds: requests fit, calls have results, the log is a tree", async () => {
    let compactions = 0;
    let openings = 0;
    for (let seed = 1; seed <= 20; seed++) {
      const sim = new Sim(seed);
      const env = sim.env();
      const store = disk.store(sim, env);
      let steps = 0;
      let failures = 0;
      const model = new ScriptedModel(env, (messages) => {
        if (isSummary(messages)) {
          const fails = sim.int(6) === 0;
          // A failed run counts too.
          if (fails || failures > 0) failures++;
          return fails ? { failure: "no" } : { text: [`Summary ${"s".repeat(100)}`] };
        }
        steps++;
        const ids = Array.from({ length: 1 + sim.int(3) }, (_, at) => call(`${steps}-${at}`, sim.int(500)));
        return sim.int(3) > 0 && steps % 9 !== 0 ? { calls: ids } : { text: ["Done."] };
      });
      const suffix = `compacting-${seed}`;
      let process = new ActorProcess({ env, store, settings, model, bootId: `boot-${seed}` });
      for (let turn = 0; turn < 8; turn++) {
        const words = `turn ${turn} ${"w".repeat(sim.int(900))}`;
        const from = model.requests.length;
        failures = 0;
        const manifest = sim.int(3) === 0 ? "after" : "agent";
        const messages = [{ role: "user", content: words }];
        const submitted = process.submit({ manifest, thread_suffix: suffix, messages });
        if (sim.int(6) === 0) {
          await sim.until(submitted.accepted);
          await sim.advance(sim.int(40));
          await sim.until(process.abort(suffix));
        }
        await sim.until(submitted.ended);
        assert.deepEqual(process.crashes, []);
        assert.ok(failures < 2, `seed ${seed}, turn ${turn}: a summary that failed was asked for again`);

        for (const request of model.requests.slice(from)) {
          const where = `seed ${seed}, turn ${turn}`;
          if (isSummary(request)) continue;
          checkCalls(request, where);
          const tokens = Math.ceil(JSON.stringify(request).length / 4);
          if (failures === 0) assert.ok(tokens <= 2048, `${where}: ${tokens} tokens`);
          assert.ok(
            request.some(({ content }) => content === words),
            `${where}: the question is not shown`,
          );
        }
        if (sim.int(3) === 0) {
          process.close();
          process = new ActorProcess({ env, store, settings, model, bootId: `boot-${seed}-${turn}` });
        }
      }
      process.close();
      const tenant = store.tenant(tenantId);
      const head = await sim.until(threadBySuffix(tenant, suffix));
      const events = await sim.until(readEvents(tenant, head?.thread_key ?? -1, 0, 10_000, 1e9));
      for (const { seq, parent_seq } of events) assert.equal(parent_seq, seq - 1);
      const found = events.filter(({ kind }) => kind === "compaction");
      compactions += found.length;
      openings += found.filter(({ extra }) => extra?.metadata?.opening_seq !== undefined).length;
      const kept = found.map(({ extra }) => Number(extra?.metadata?.first_kept_seq));
      assert.deepEqual(
        kept,
        kept.toSorted((a, b) => a - b),
        "each builds on the one before",
      );
      const tokens = (await sim.until(loadBranch(tenant, head?.thread_key ?? -1, events.length - 1, 1e9, false)))
        .length;
      assert.ok(tokens < events.length);
    }
    assert.ok(compactions > 40 && openings > 5, `${compactions} compactions, ${openings} through a turn`);
  });

  test("SESS-026 a stopped summary leaves the thread free and the log unchanged", async () => {
    const seen = new Set<string>();
    for (let ms = 0; ms < 60; ms += 3) {
      const sim = new Sim(ms + 1);
      const env = sim.env();
      const store = disk.store(sim, env);
      const model = new ScriptedModel(
        env,
        (messages) => ({ text: isSummary(messages) ? ["S", "u", "m"] : ["Done."] }),
        () => 5,
      );
      const suffix = `stopped-${ms}`;
      const process = new ActorProcess({ env, store, settings, model, bootId: env.id() });
      const say = () =>
        process.submit({
          manifest: "agent",
          thread_suffix: suffix,
          messages: [{ role: "user", content: "w".repeat(1_600) }],
        });
      for (let turn = 0; turn < 2; turn++) await sim.until(say().ended);
      const turn = say();
      await sim.until(turn.accepted);
      await sim.advance(ms);
      const { aborted } = await sim.until(process.abort(suffix));
      await sim.until(turn.ended);

      const tenant = store.tenant(tenantId);
      const head = await sim.until(threadBySuffix(tenant, suffix));
      const events = await sim.until(readEvents(tenant, head?.thread_key ?? -1, 0, 1_000));
      seen.add(`${aborted} ${events.filter(({ kind }) => kind === "compaction").length}`);
      for (const { seq, parent_seq } of events) assert.equal(parent_seq, seq - 1);
      const next = say();
      await sim.until(next.ended);
      assert.equal(next.outline.at(-1), "[DONE]");
      assert.deepEqual(process.crashes, []);
      process.close();
    }
    for (const moment of ["true 0", "true 1", "false 1"]) assert.ok(seen.has(moment), `${moment}: ${[...seen]}`);
  });

  test("SESS-028 an abort after the reply stops only the summary, not the turn", async () => {
    const sim = new Sim(1);
    const env = sim.env();
    const store = disk.store(sim, env);
    const words = Array.from({ length: 100 }, () => "word ");
    const model = new ScriptedModel(env, (messages) => ({ text: isSummary(messages) ? words : ["Done."] }));
    const process = new ActorProcess({ env, store, settings, model, bootId: env.id() });
    atEnd.after(() => process.close());
    const messages = [{ role: "user", content: "w".repeat(1_600) }];
    const say = (manifest: string) => process.submit({ manifest, thread_suffix: "tidied", messages });
    await sim.until(say("agent").ended);

    const turn = say("after");
    await sim.until(turn.accepted);
    await sim.advance(50);
    const { aborted } = await sim.until(process.abort("tidied"));
    await sim.until(turn.ended);

    assert.ok(isSummary(model.requests.at(-1) ?? []), "the summary was under way");
    assert.equal(aborted, false);
    assert.deepEqual(turn.outline.slice(-3), ["on_chain_end", "done", "[DONE]"]);
    const head = await sim.until(threadBySuffix(store.tenant(tenantId), "tidied"));
    const events = await sim.until(readEvents(store.tenant(tenantId), head?.thread_key ?? -1, 0, 100));
    assert.deepEqual(
      events.map(({ kind, role }) => `${kind} ${role}`),
      ["message user", "message assistant", "message user", "message assistant"],
    );
  });
});

const env = systemEnv();
for (const dialect of gateDialects) {
  describe(`a process that dies after each batch of a compacting turn, on ${dialect}`, () => {
    const atEnd = cleanup();
    let store: Store;
    let settings: ReturnType<typeof processSettings>;
    before(async () => {
      const session = { strategy: "compacting", context_window_tokens: 1024, keep_recent_tokens: 100 };
      const manifests = { agent: { session }, after: { session: { ...session, compact_after_turn: true } } };
      settings = processSettings(atEnd, manifests, { SVC_AUDIT_FLUSH_SECONDS: "3600" });
      ({ store } = await testStore(dialect, atEnd));
    });
    const answer = (messages: readonly ShownMessage[]): ScriptedReply => ({
      text: [isSummary(messages) ? "In short." : "Done."],
    });
    function start(of: Store, bootId: string) {
      const model = new ScriptedModel(env, answer, () => 0);
      const process = new ActorProcess({ env, store: of, settings, model, bootId });
      atEnd.after(() => process.close());
      const say = (manifest: string, thread_suffix: string, fields: object = {}) =>
        process.submit({
          manifest,
          thread_suffix,
          messages: [{ role: "user", content: `ask ${"w".repeat(900)}` }],
          ...fields,
        });
      return { process, model, say };
    }
    async function logOf(suffix: string): Promise<{ key: number; events: LogEvent[] }> {
      const tenant = store.tenant(tenantId);
      const head = await threadBySuffix(tenant, suffix);
      assert.equal(await interruptedRun(tenant, head?.thread_key ?? -1), undefined);
      return { key: head?.thread_key ?? -1, events: await readEvents(tenant, head?.thread_key ?? -1, 0, 1_000) };
    }

    for (const [surface, manifest] of [
      ["chat", "agent"],
      ["chat", "after"],
      ["compact", "agent"],
    ] as const)
      test(`SESS-026 SESS-007 ${surface} under ${manifest}: the compaction is whole or absent, and the thread continues`, async () => {
        const seen = new Set<number>();
        for (let batches = 1; batches <= 6; batches++) {
          for (const answered of [true, false]) {
            const suffix = `${surface}-${manifest}-${batches}-${answered}`;
            const whole = start(store, `whole-${suffix}`);
            for (let turn = 0; turn < 2; turn++) await whole.say("agent", suffix).ended;
            whole.process.close();
            const dying = stoppingStore(store, batches, answered);
            const cut = start(dying, `cut-${suffix}`);
            const turn = cut.say(manifest, suffix, surface === "compact" ? { surface, messages: [] } : {});
            await Promise.race([dying.stopped, turn.ended]);

            const { process, model, say } = start(store, `next-${suffix}`);
            await process.bus.ask(threadAddress(tenantId, suffix), "recover", {});
            const { key, events } = await logOf(suffix);
            seen.add(events.filter(({ kind }) => kind === "compaction").length);
            for (const { seq, parent_seq } of events) assert.equal(parent_seq, seq - 1, suffix);
            const branch = await loadBranch(store.tenant(tenantId), key, events.length - 1, 1e9, false);
            const next = say("agent", suffix);
            await next.ended;
            assert.equal(next.outline.at(-2), "done", suffix);
            const shown = model.requests.filter((request) => !isSummary(request)).at(-1) ?? [];
            const isAgain = model.requests.some(isSummary);
            if (!isAgain) assert.deepEqual(contents(shown).slice(0, -1), contents(branch), suffix);
            process.close();
          }
        }
        assert.deepEqual([...seen].toSorted(), [0, 1]);
      });
  });
}

const contents = (messages: readonly (ContextMessage | ShownMessage)[]) => messages.map(({ content }) => content);
