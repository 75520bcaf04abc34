// A run that asks a question outside: it suspends, and resumes in any process when an answer comes (decision 87 stores
// the wait as a row).
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { wakeDueRuns } from "../../../../actors/durable/due-waits.ts";
import { defineTool } from "../../../../actors/tools/tool.ts";
import { runAddress } from "../../../../bus/address.ts";
import { systemEnv } from "../../../../bus/env.ts";
import { principalId } from "../../../../bus/protocol/principal.ts";
import { Type } from "../../../../bus/type.ts";
import type { Store } from "../../../../storage/store/store.ts";
import { readEvents } from "../../../../storage/tables/events.ts";
import { waitingRun } from "../../../../storage/tables/runs.ts";
import { threadBySuffix } from "../../../../storage/tables/threads.ts";
import { answerWaitOp, waitsOfRun } from "../../../../storage/tables/waits.ts";
import {
  ActorProcess,
  type AskedTurn,
  processSettings,
  type TestTurn,
  tenantId,
} from "../../../support/actor-process.ts";
import { eventually } from "../../../support/eventually.ts";
import { outcomeOf } from "../../../support/outcome.ts";
import { ScriptedModel, type ScriptedReply } from "../../../support/scripted-model.ts";
import { gateDialects, testStore } from "../../../support/stores.ts";
import { cleanup } from "../../../support/temp.ts";

const env = systemEnv();
const alice = { tenant_id: tenantId, sub: "alice", scopes: [], scheme: "none", issuer: "" };
const everybody = { scopes: [], principal: null, not_principal: null };

const call = (id: string, name: string, args: object = {}) => ({ id, name, arguments: JSON.stringify(args) });
const usage = { input: 10, output: 1, cacheRead: 0, cacheWrite: 0 };

/** Maps items in waves: each asks with its own deadline, and a busy machine would miss it after a thousand others. */
async function inWaves<T, R>(items: readonly T[], work: (item: T, at: number) => Promise<R>): Promise<R[]> {
  const done: R[] = [];
  while (done.length < items.length) {
    const start = done.length;
    done.push(...(await Promise.all(items.slice(start, start + waveMax).map((item, at) => work(item, start + at)))));
  }
  return done;
}

const waveMax = 50;

for (const dialect of gateDialects)
  describe(`a waiting run, on ${dialect}`, () => {
    const atEnd = cleanup();
    let store: Store;
    let settings: ReturnType<typeof processSettings>;
    before(async () => {
      const tools = ["ask", "echo", "calculator"];
      settings = processSettings(
        atEnd,
        {
          agent: { tools },
          parallel: { tools, execution: { tools: "parallel" } },
          narrow: { tools, session: { strategy: "windowed:1" } },
          short: { tools, limits: { max_wall_clock_seconds: 1 } },
          steps: { tools, recursion_limit: 2 },
          held: { tools: [...tools, "held"], execution: { tools: "parallel" } },
          once: { tools, limits: { max_tool_calls: 1 } },
          crowd: { tools, execution: { tools: "parallel" }, limits: { max_tool_calls: 100 } },
        },
        { SVC_AUDIT_FLUSH_SECONDS: "3600" },
      );
      ({ store } = await testStore(dialect, atEnd));
    });

    /** A process with a tool that asks, and one whose result is the answer itself. */
    function start(replies: readonly ScriptedReply[], mayAnswer = everybody, until = Promise.resolve()) {
      const made = { asked: 0, resumed: 0 };
      const ask = defineTool({
        name: "ask",
        description: "Asks a person.",
        parameters: Type.Object({ q: Type.Optional(Type.String()), ms: Type.Optional(Type.Integer()) }),
        effect: "once",
        risk: "reads",
        execute({ q, ms }) {
          made.asked++;
          const deadline = ms === undefined ? null : Date.now() + ms;
          return { wait: { kind: "question", subject: q ?? "?", deadline, may_answer: mayAnswer } };
        },
        resume({ q }, outcome) {
          made.resumed++;
          if (outcome.kind === "expired") return { error: "timeout", text: "nobody came" };
          return { text: `${q ?? "?"} ${JSON.stringify(outcome.value)}` };
        },
      });
      const echo = defineTool({
        name: "echo",
        description: "Asks, and says the answer.",
        parameters: Type.Object({}),
        effect: "once",
        risk: "reads",
        execute: () => ({ wait: { kind: "question", subject: "echo", deadline: null, may_answer: mayAnswer } }),
      });
      const held = defineTool({
        name: "held",
        description: "Takes as long as the test says.",
        parameters: Type.Object({}),
        effect: "read",
        risk: "reads",
        execute: () => until.then(() => ({ text: "held" })),
      });
      const answer = (messages: readonly { role: string }[]) =>
        replies[messages.filter(({ role }) => role === "assistant").length] ?? { text: ["Done."], usage };
      const model = new ScriptedModel(env, answer);
      const process = new ActorProcess({ env, store, settings, model, tools: [ask, echo, held], bootId: env.id() });
      atEnd.after(() => process.close());
      return { process, model, made };
    }

    const tenant = () => store.tenant(tenantId);
    async function parked(suffix: string): Promise<string> {
      return eventually("a run that is put aside", async () => {
        const head = await threadBySuffix(tenant(), suffix);
        return head && (await waitingRun(tenant(), head.thread_key))?.run_id;
      });
    }
    async function waitIds(runId: string): Promise<string[]> {
      return (await waitsOfRun(tenant(), runId)).map(({ wait_id }) => wait_id);
    }
    function answer(
      process: ActorProcess,
      suffix: string | null,
      runId: string,
      wait_id: string,
      value: unknown,
      principal = alice,
    ) {
      return process.bus.ask(runAddress(tenantId, suffix, runId), "answer", { wait_id, value, principal });
    }
    async function logged(suffix: string): Promise<string[]> {
      const head = await threadBySuffix(tenant(), suffix);
      const events = head ? await readEvents(tenant(), head.thread_key, 0, 1_000) : [];
      return events.map(({ kind, role, content, extra }) => {
        const { type, how } = extra?.metadata ?? {};
        return [role ?? kind, type, how, content || extra?.tool_call_id || extra?.metadata?.tool_call_id]
          .filter(Boolean)
          .join(" ");
      });
    }
    const over = (suffix: string) =>
      eventually("the end of the run", async () => {
        const head = await threadBySuffix(tenant(), suffix);
        const log = await logged(suffix);
        return head && log.at(-1)?.startsWith("assistant") && !(await waitingRun(tenant(), head.thread_key))
          ? log
          : undefined;
      });
    const asks = (...calls: ReturnType<typeof call>[]): ScriptedReply => ({ text: ["Let me ask."], calls, usage });

    test("SESS-025 keeps the question of its turn in a window when it resumes", async () => {
      const { process, model } = start([asks(call("a", "ask", { q: "Blue?" }))]);
      process.submit({
        manifest: "narrow",
        thread_suffix: "narrow",
        messages: [{ role: "user", content: "Paint it." }],
      });
      const runId = await parked("narrow");
      const [waitId = ""] = await waitIds(runId);

      await answer(process, "narrow", runId, waitId, "yes");
      await over("narrow");

      assert.deepEqual(
        model.requests.at(-1)?.map(({ role }) => role),
        ["user", "assistant", "tool"],
      );
    });

    test("is whole for the next turn, which begins in the process that suspended it", async () => {
      const { process, model } = start([asks(call("a", "ask", { q: "Blue?" }))]);
      process.submit({ manifest: "agent", thread_suffix: "next" });
      const runId = await parked("next");
      const [waitId = ""] = await waitIds(runId);
      await answer(process, "next", runId, waitId, "yes");
      await over("next");

      await process.submit({ manifest: "agent", thread_suffix: "next" }).ended;

      assert.deepEqual(
        model.requests.at(-1)?.map(({ role }) => role),
        ["user", "assistant", "tool", "assistant", "user"],
      );
    });

    test("is suspended, answers 409 to others, and streams the rest to the waiting client", async () => {
      const { process, made } = start([asks(call("a", "ask", { q: "Blue?" }))]);
      const turn = process.submit({ manifest: "agent", thread_suffix: "simple" });
      const runId = await parked("simple");
      const other = await outcomeOf(process.submit({ manifest: "agent", thread_suffix: "simple" }).accepted);
      const [id = ""] = await waitIds(runId);

      const first = await answer(process, "simple", runId, id, "yes");
      const second = await answer(process, "simple", runId, id, "no");
      await turn.ended;

      assert.deepEqual(
        [other, first, second],
        [{ refused: "run_in_progress" }, { outcome: "accepted" }, { outcome: "over" }],
      );
      assert.deepEqual(await logged("simple"), [
        "user go",
        "assistant Let me ask.",
        "tool_call a",
        "audit wait_opened a",
        "audit wait_ended answered a",
        'tool Blue? "yes"',
        "assistant Done.",
      ]);
      assert.deepEqual(turn.outline.filter((name) => !name.startsWith("session_")).slice(0, 4), [
        "tool_start a",
        "tool_execution_update a",
        "tool_end a",
        "tool_execution_update a",
      ]);
      const done = turn.frames.at(-2)?.json.data;
      assert.equal(done.final.content, "Done.");
      assert.deepEqual([done.usage.input, done.usage.output], [20, 2]);
      assert.equal(turn.frames.filter(({ json }) => json?.data?.phase === "turn").length, 1);
      assert.deepEqual(made, { asked: 1, resumed: 1 });
      assert.equal(process.deps.liveRuns.size, 0);
    });

    test("does not hold the drain, leaves memory without listeners, resumes from the store", async () => {
      const { process } = start([asks(call("a", "echo"))]);
      const turn = process.submit({ manifest: "agent", thread_suffix: "unwatched" });
      const runId = await parked("unwatched");
      await eventually("nothing live", async () => process.deps.liveRuns.size === 0);
      process.bus.tell(runAddress(tenantId, "unwatched", runId), "detach", {});
      await eventually("an idle host", async () => process.host.busyCount() === 0);

      const [id = ""] = await waitIds(runId);
      await answer(process, "unwatched", runId, id, { ok: true });

      const log = await over("unwatched");
      assert.deepEqual(log.slice(-2), ['tool {"ok":true}', "assistant Done."]);
      assert.ok(!turn.outline.includes("done"));
    });

    test("ends the other calls of a parallel batch, and begins no later sequential one", async () => {
      const sum = call("b", "calculator", { expression: "1+1" });
      const replies = [asks(call("a", "ask"), sum, call("c", "echo"))];
      for (const manifest of ["parallel", "agent"]) {
        const { process, model } = start(replies);
        process.submit({ manifest, thread_suffix: `batch-${manifest}` });
        const runId = await parked(`batch-${manifest}`);
        const early = (await logged(`batch-${manifest}`)).filter((line) => line.startsWith("tool "));
        for (let left = await waitIds(runId); left.length > 0; left = await waitIds(runId)) {
          await answer(process, `batch-${manifest}`, runId, left[0] ?? "", "x");
          await eventually("the next look", async () => (await waitIds(runId))[0] !== left[0]);
          await eventually("rest", async () => process.deps.liveRuns.size === 0);
        }
        await over(`batch-${manifest}`);

        assert.deepEqual(early, manifest === "parallel" ? ["tool 2"] : []);
        const shown = model.requests.at(-1)?.filter(({ role }) => role === "tool");
        assert.deepEqual(
          shown?.map(({ tool_call_id, content }) => `${tool_call_id} ${content}`),
          ['a ? "x"', "b 2", "c x"],
        );
      }
    });

    test("accepts answers of its addressees only, and none of another tenant or run", async () => {
      const bob = { ...alice, sub: "bob", scopes: ["approvals:write"] };
      const mayAnswer = { scopes: ["approvals:write"], principal: null, not_principal: principalId({ ...alice }) };
      const { process } = start([asks(call("a", "echo"))], mayAnswer as never);
      process.submit({ manifest: "agent", thread_suffix: "asked" });
      const runId = await parked("asked");
      const [id = ""] = await waitIds(runId);
      const foreign = { ...bob, tenant_id: "other" };

      const outcomes = [
        await answer(process, "asked", runId, id, "x", { ...alice, scopes: ["approvals:write"] } as never),
        await answer(process, "asked", runId, id, "x", { ...bob, scopes: [] } as never),
        await answer(process, "asked", "another-run", id, "x", bob as never),
        await process.bus.ask(runAddress("other", "asked", runId), "answer", {
          wait_id: id,
          value: "x",
          principal: foreign,
        }),
        await answer(process, "asked", runId, id, "x", bob as never),
      ].map(({ outcome }) => outcome);

      assert.deepEqual(outcomes, ["not_allowed", "not_allowed", "over", "over", "accepted"]);
      await over("asked");
    });

    test("ends with the time of the wait, or of the run, by the store's clock", async () => {
      for (const [manifest, args] of [
        ["agent", { ms: 1 }],
        ["short", {}],
      ] as const) {
        const { process } = start([asks(call("a", "ask", args))]);
        const turn = process.submit({ manifest, thread_suffix: `late-${manifest}` });
        await parked(`late-${manifest}`);
        await eventually("the deadline", async () => {
          await wakeDueRuns(store, process.bus);
          return turn.outline.includes("done");
        });
        process.close();
      }

      const [late = [], short = []] = await Promise.all(["late-agent", "late-short"].map(logged));
      assert.deepEqual(late.slice(-3), [
        "audit wait_ended expired a",
        "tool [tool error/timeout] nobody came",
        "assistant Done.",
      ]);
      assert.match(short.at(-1) ?? "", /run limit reached: max_wall_clock_seconds/);
    });

    test("is stopped while it waits: the call has a result, and the thread is free", async () => {
      for (const restarts of [false, true]) {
        const suffix = `stopped-${restarts}`;
        const first = start([asks(call("a", "echo"))]);
        const turn = first.process.submit({ manifest: "agent", thread_suffix: suffix });
        const runId = await parked(suffix);
        const [id = ""] = await waitIds(runId);
        if (restarts) first.process.close();
        const { process } = restarts ? start([asks(call("a", "echo"))]) : first;

        assert.deepEqual(await process.abort(suffix), { aborted: true });
        if (!restarts) await turn.ended;

        assert.deepEqual((await logged(suffix)).slice(-2), [
          "audit wait_ended aborted a",
          "tool [tool error/interrupted] not run: the run was stopped",
        ]);
        assert.deepEqual(await answer(process, suffix, runId, id, "x"), { outcome: "over" });
        assert.deepEqual(await process.abort(suffix), { aborted: false });
        const next = process.submit({ manifest: "agent", thread_suffix: suffix });
        assert.deepEqual(await next.accepted, { kind: "started" });
        await process.abort(suffix);
        await next.ended;
      }
    });

    test("counts its steps across a suspension", async () => {
      const { process } = start([asks(call("a", "echo")), asks(call("b", "echo")), asks(call("c", "echo"))]);
      const turn = process.submit({ manifest: "steps", thread_suffix: "steps" });
      const runId = await parked("steps");
      const [id = ""] = await waitIds(runId);
      await answer(process, "steps", runId, id, "x");
      await turn.ended;

      assert.equal(turn.frames.at(-2)?.json.data.stop_reason, "max_turns");
      assert.ok((await logged("steps")).includes("tool [tool error/interrupted] not run: the run is out of steps"));
    });

    test("counts its calls across a suspension too", async () => {
      const { process } = start([asks(call("a", "echo")), asks(call("b", "calculator", { expression: "1+1" }))]);
      const turn = process.submit({ manifest: "once", thread_suffix: "spent" });
      const runId = await parked("spent");
      const [id = ""] = await waitIds(runId);
      await answer(process, "spent", runId, id, "x");
      await turn.ended;

      assert.ok((await logged("spent")).some((line) => line.startsWith("tool denied by limits: max_tool_calls")));
    });

    test("has at most 64 open questions, and stays suspended when checked early", async () => {
      const calls = Array.from({ length: 65 }, (_, at) => call(`c${at}`, "echo"));
      const { process } = start([asks(...calls)]);
      process.submit({ manifest: "crowd", thread_suffix: "crowd" });
      const runId = await parked("crowd");
      process.bus.tell(runAddress(tenantId, "crowd", runId), "resume", { due: true });
      await process.bus.ask(runAddress(tenantId, "crowd", runId), "status", {});
      await eventually("rest", async () => process.host.busyCount() <= 1);

      assert.equal((await waitIds(runId)).length, 64);
      const log = await logged("crowd");
      assert.equal(
        log.filter((line) => line === "tool [tool error/rate_limited] too many questions are open").length,
        1,
      );
      assert.ok(!log.some((line) => line.includes("wait_ended")));
      assert.deepEqual(await process.abort("crowd"), { aborted: true });
    });

    test("resumes when the answer comes while it still works, without another message", async () => {
      const { promise, resolve } = Promise.withResolvers<void>();
      const { process } = start([asks(call("a", "echo"), call("b", "held"))], everybody, promise);
      const turn = process.submit({ manifest: "held", thread_suffix: "early" });
      const [id = ""] = await eventually("the question", async () => {
        const ids = await waitIds(turn.runId);
        return ids.length > 0 ? ids : undefined;
      });
      await tenant().write([answerWaitOp(tenant(), id, { value: "early", by: "x" })]);
      resolve();
      await turn.ended;

      assert.deepEqual((await logged("early")).slice(-3), [
        "audit wait_ended answered a",
        "tool early",
        "assistant Done.",
      ]);
    });

    test("without a thread waits in memory, and ends with its client", async () => {
      const { process, made } = start([asks(call("a", "ask"))]);
      const ids: string[] = [];
      const { id: realId, now: realNow } = env;
      const turns: TestTurn[] = [];
      let time = 0;
      const asked: AskedTurn = { manifest: "agent", thread_suffix: null };
      env.now = () => {
        time = realNow();
        return time;
      };
      // Like `orderedId`: the time that it has just read, and a random part.
      env.id = () => {
        const id = realId();
        ids.push(time.toString(16).padStart(12, "0") + id.slice(12));
        return id;
      };
      for (const _ of [0, 1]) {
        turns.push(process.submit(asked));
        await eventually("the question", async () => made.asked === turns.length);
      }
      const [answered, left] = turns as [TestTurn, TestTurn];
      // The question gets its id a moment after its tool has asked it.
      const outcomes = await eventually("an answer that is taken", async () => {
        const all = await Promise.all(ids.map((id) => answer(process, null, answered.runId, id, "yes")));
        return all.some(({ outcome }) => outcome === "accepted") ? all : undefined;
      });
      Object.assign(env, { id: realId, now: realNow });
      await answered.ended;
      process.bus.tell(runAddress(tenantId, null, left.runId), "abort", { reason: "client" });
      await left.ended;

      assert.equal(outcomes.filter(({ outcome }) => outcome === "accepted").length, 1);
      assert.equal(answered.frames.at(-2)?.json.data.final.content, "Done.");
      assert.equal(made.resumed, 1);
      assert.equal(process.deps.liveRuns.size, 0);
    });

    test("whose manifest is deleted ends as interrupted, and the thread is free", async () => {
      const { process } = start([asks(call("a", "echo"))]);
      const turn = process.submit({ manifest: "agent", thread_suffix: "gone" });
      const runId = await parked("gone");
      const [id = ""] = await waitIds(runId);
      const { resolve } = process.deps.manifests;
      process.deps.manifests.resolve = () => Promise.reject(new Error("no such manifest"));
      await answer(process, "gone", runId, id, "x");
      await turn.ended;
      process.deps.manifests.resolve = resolve;
      process.crashes.length = 0;

      const log = await eventually("the end", async () => {
        const found = await logged("gone");
        return found.at(-1)?.includes("run_interrupted") ? found : undefined;
      });
      assert.ok(log.some((line) => line.startsWith("tool [tool error/interrupted] outcome unknown")));
      assert.deepEqual(await waitIds(runId), []);
    });

    test("1,000 of them suspend, the process ends, each is answered, and each ends once", async () => {
      const many = dialect === "sqlite" ? 1_000 : 100;
      const suffixes = Array.from({ length: many }, (_, at) => `many-${at}`);
      const first = start([asks(call("a", "ask", { q: "?" }))]);
      await inWaves(suffixes, (thread_suffix) => first.process.submit({ manifest: "agent", thread_suffix }).accepted);
      await eventually("all of them waiting", async () => first.process.deps.liveRuns.size === 0);
      const runs = await inWaves(suffixes, parked);
      first.process.close();

      // A third is answered without a process, a third over the bus of the next one, a third by both.
      const second = start([]);
      const answers = await inWaves(runs, async (runId, at) => {
        const [id = ""] = await waitIds(runId);
        const write = () => outcomeOf(tenant().write([answerWaitOp(tenant(), id, { value: at, by: "x" })]));
        if (at % 3 === 0) return write();
        if (at % 3 === 1) return answer(second.process, suffixes[at] ?? "", runId, id, at);
        return Promise.race([write(), answer(second.process, suffixes[at] ?? "", runId, id, at)]);
      });
      await eventually("all of them ended", async () => {
        const due = await wakeDueRuns(store, second.process.bus);
        return due === 0 && second.process.deps.liveRuns.size === 0 && second.made.resumed >= many;
      });
      const logs = await inWaves(suffixes, over);

      assert.equal(answers.length, many);
      for (const [at, log] of logs.entries())
        assert.deepEqual(
          log.slice(-3),
          ["audit wait_ended answered a", `tool ? ${at}`, "assistant Done."],
          suffixes[at],
        );
      assert.deepEqual(
        [first.made, second.made],
        [
          { asked: many, resumed: 0 },
          { asked: 0, resumed: many },
        ],
      );
      assert.equal(second.model.requests.length, many);
      assert.deepEqual([first.process.crashes, second.process.crashes], [[], []]);
    });
  });
