// A style is set during other work of a thread: a turn that begins, a suspended run, a store that fails.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { defineTool } from "../../../actors/tools/tool.ts";
import { runAddress, threadAddress } from "../../../bus/address.ts";
import { systemEnv } from "../../../bus/env.ts";
import { SvcError } from "../../../bus/errors.ts";
import { Type } from "../../../bus/type.ts";
import type { Scope, Store } from "../../../storage/store/store.ts";
import { waitingRun } from "../../../storage/tables/runs.ts";
import { recentThreads, threadBySuffix } from "../../../storage/tables/threads.ts";
import { waitsOfRun } from "../../../storage/tables/waits.ts";
import { ActorProcess, processSettings, tenantId } from "../../support/actor-process.ts";
import { eventually } from "../../support/eventually.ts";
import { outcomeOf } from "../../support/outcome.ts";
import { ScriptedModel } from "../../support/scripted-model.ts";
import { gateDialects, testStore } from "../../support/stores.ts";
import { cleanup } from "../../support/temp.ts";

const env = systemEnv();
const principal = { tenant_id: tenantId, sub: "alice", scopes: [], scheme: "none", issuer: "" };
const styles = ["a", "b", "c"].map((name) => ({ name, prompt: `Style ${name}.` }));

for (const dialect of gateDialects)
  describe(`the style of a thread, on ${dialect}`, () => {
    const atEnd = cleanup();
    let store: Store;
    let settings: ReturnType<typeof processSettings>;
    before(async () => {
      settings = processSettings(
        atEnd,
        { agent: { tools: ["ask"], output_styles: { styles } } },
        { SVC_AUDIT_FLUSH_SECONDS: "3600" },
      );
      ({ store } = await testStore(dialect, atEnd));
    });

    const ask = defineTool({
      name: "ask",
      description: "Asks a person.",
      parameters: Type.Object({}),
      effect: "once",
      risk: "reads",
      execute: () => ({
        wait: {
          kind: "question",
          subject: "?",
          deadline: null,
          may_answer: { scopes: [], principal: null, not_principal: null },
        },
      }),
    });

    /** A process whose model asks an outside question on demand. */
    function start(over: Store = store) {
      const model = new ScriptedModel(env, (messages) => {
        const last = messages.at(-1);
        return last?.role === "user" && last.content === "ask"
          ? { calls: [{ id: "call", name: "ask", arguments: "{}" }] }
          : { text: last?.content === "long" ? Array.from({ length: 100 }, () => "x") : ["Done."] };
      });
      const process = new ActorProcess({ env, store: over, settings, model, tools: [ask], bootId: env.id() });
      atEnd.after(() => process.close());
      const pick = (suffix: string, style: string | null) =>
        process.bus.ask(threadAddress(tenantId, suffix), "style", { style, manifest: "agent", principal });
      const say = async (suffix: string, content = "go") => {
        const turn = process.submit({
          manifest: "agent",
          thread_suffix: suffix,
          messages: [{ role: "user", content }],
        });
        await turn.accepted;
        if (content !== "ask") await turn.ended;
      };
      const told = () => model.requests.at(-1)?.find(({ role }) => role === "system")?.content ?? null;
      return { process, model, pick, say, told };
    }
    const kept = async (suffix: string) => (await threadBySuffix(store.tenant(tenantId), suffix))?.meta.output_style;

    test("a suspended run resumes with its own style; the next turn has the new one", async () => {
      const first = start();
      await first.pick("aside", "a");
      await first.say("aside", "ask");
      const runId = await eventually("a run that is put aside", async () => {
        const head = await threadBySuffix(store.tenant(tenantId), "aside");
        return head && (await waitingRun(store.tenant(tenantId), head.thread_key))?.run_id;
      });
      assert.deepEqual(await first.pick("aside", "b"), { style: "b" });
      first.process.close();

      const second = start();
      const [wait] = await waitsOfRun(store.tenant(tenantId), runId);
      const answer = { wait_id: wait?.wait_id ?? "", value: 1, principal };
      await second.process.bus.ask(runAddress(tenantId, "aside", runId), "answer", answer);
      await eventually("its end", async () => second.model.requests.length > 0);
      const resumed = second.told();
      await eventually("a free thread", async () => {
        const turn = second.process.submit({ manifest: "agent", thread_suffix: "aside" });
        if ("refused" in (await outcomeOf(turn.accepted))) return undefined;
        await turn.ended;
        return true;
      });

      assert.deepEqual([resumed, second.told()], ["Style a.", "Style b."]);
      assert.equal(await kept("aside"), "b");
      assert.deepEqual([...first.process.crashes, ...second.process.crashes], []);
    });

    test("during turns that begin and end, each style is stored and no turn is lost", async () => {
      const { process, pick, say, told } = start();
      const names = Array.from({ length: 12 }, (_, at) => styles[at % 3]?.name ?? "");

      for (const name of names)
        await Promise.all([say("busy"), pick("busy", name), pick("busy", null), pick("busy", name)]);
      await say("busy");

      assert.deepEqual([told(), await kept("busy"), process.crashes], ["Style c.", "c", []]);
    });

    test("a style of an unconfirmed write holds, with a thread and without", async () => {
      for (const [suffix, statement, says] of [
        ["lost-pick", "thread_meta", true],
        ["lost-thread", "threads_insert", false],
      ] as const) {
        const losing = losesAnswer(store);
        const { pick, say, told, process } = start(losing.store);
        if (says) await say(suffix);
        losing.of = statement;

        const refused = await outcomeOf(pick(suffix, "a"));
        await say(suffix);

        assert.deepEqual(refused, { refused: "storage_unavailable" });
        assert.deepEqual([told(), await kept(suffix), process.crashes], ["Style a.", "a", []], suffix);
      }
    });

    test("a level of thinking of an unconfirmed write holds too", async () => {
      for (const [suffix, statement, says] of [
        ["lost-level", "thread_meta", true],
        ["lost-new", "threads_insert", false],
      ] as const) {
        const losing = losesAnswer(store);
        const { say, process } = start(losing.store);
        const think = (level: "low" | "high") => process.bus.ask(threadAddress(tenantId, suffix), "think", { level });
        if (says) await say(suffix);
        losing.of = statement;

        const refused = await outcomeOf(think("low"));
        await say(suffix);
        const head = await threadBySuffix(store.tenant(tenantId), suffix);

        assert.deepEqual(refused, { refused: "storage_unavailable" });
        assert.deepEqual([head?.meta.thinking_level, process.crashes], ["low", []], suffix);
        assert.deepEqual(await think("high"), { level: "high" });
      }
    });

    test("during a live run the stored style holds, also when the write was unconfirmed", async () => {
      const losing = losesAnswer(store);
      const { process, pick, say, told } = start(losing.store);
      const turn = process.submit({
        manifest: "agent",
        thread_suffix: "live",
        messages: [{ role: "user", content: "long" }],
      });
      await turn.accepted;
      losing.of = "thread_meta";

      const refused = await outcomeOf(pick("live", "a"));
      const wasLive = !turn.text.includes("[DONE]");
      await turn.ended;
      await say("live");

      assert.deepEqual([refused, wasLive], [{ refused: "storage_unavailable" }, true]);
      assert.deepEqual([told(), await kept("live"), process.crashes], ["Style a.", "a", []]);
    });

    test("a process with an older state than the store fails once, then writes the request", async () => {
      const [old, other] = [start(), start()];
      await old.say("stale");
      await other.say("stale");
      await other.pick("stale", "a");

      const refused = await outcomeOf(old.pick("stale", "b"));
      assert.deepEqual(refused, { refused: "conflict" });
      assert.equal(await kept("stale"), "a");

      assert.deepEqual(await old.pick("stale", "c"), { style: "c" });
      assert.equal(await kept("stale"), "c");
    });

    test("threads without messages are not listed, wherever a page begins", async () => {
      const { pick, say } = start();
      const tenant = store.tenant(tenantId);
      await say("listed-1");
      for (let at = 0; at < 20; at++) await pick(`silent-${at}`, "a");
      await say("listed-2");

      const all = await recentThreads(tenant, null, 1000);
      const last = all.at(-1);
      assert.ok(last);

      assert.deepEqual(
        all.filter(({ suffix }) => /^(silent|listed)-/.test(suffix)).map(({ suffix }) => suffix),
        ["listed-2", "listed-1"],
      );
      assert.deepEqual(await recentThreads(tenant, { updated_at: last.updated_at, suffix: last.suffix }, 10), []);
    });
  });

/** A store that applies one batch with the statement `of` and then reports an outage. */
function losesAnswer(store: Store): { readonly store: Store; of: string | null } {
  function losing<S extends Scope>(scope: S): S {
    const write: Scope["write"] = async (ops, deadlineMs) => {
      const result = await scope.write(ops, deadlineMs);
      if (!ops.some(({ statement }) => statement.name === made.of)) return result;
      made.of = null;
      throw new SvcError("storage_unavailable");
    };
    return new Proxy(scope, {
      get(target, property) {
        if (property === "write") return write;
        const value: unknown = Reflect.get(target, property, target);
        return typeof value === "function" ? value.bind(target) : value;
      },
    });
  }
  const made = {
    of: null as string | null,
    store: {
      tenant: (id: string) => losing(store.tenant(id)),
      system: store.system,
      check: () => store.check(),
      close: () => {},
    },
  };
  return made;
}
