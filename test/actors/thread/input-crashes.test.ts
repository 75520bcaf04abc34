// A process that dies after each batch of a steered turn, on both engines: an acknowledged message is in the log once,
// or still queued.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { wakeDueRuns } from "../../../actors/durable/due-waits.ts";
import { defineTool } from "../../../actors/tools/tool.ts";
import { threadAddress } from "../../../bus/address.ts";
import { systemEnv } from "../../../bus/env.ts";
import { Type } from "../../../bus/type.ts";
import type { Store } from "../../../storage/store/store.ts";
import { type LogEvent, readEvents } from "../../../storage/tables/events.ts";
import { queuedHeads, queuedInputs } from "../../../storage/tables/queued-inputs.ts";
import { waitingRun } from "../../../storage/tables/runs.ts";
import { threadBySuffix } from "../../../storage/tables/threads.ts";
import { waitsOfRun } from "../../../storage/tables/waits.ts";
import { ActorProcess, processSettings, tenantId } from "../../support/actor-process.ts";
import { eventually } from "../../support/eventually.ts";
import { ScriptedModel, type ScriptedReply, type ShownMessage } from "../../support/scripted-model.ts";
import { stoppingStore } from "../../support/stopping-store.ts";
import { gateDialects, testStore } from "../../support/stores.ts";
import { cleanup } from "../../support/temp.ts";

const env = systemEnv();
const principal = { tenant_id: tenantId, sub: "bob", scopes: [], scheme: "none", issuer: "" };
const usage = { input: 10, output: 2, cacheRead: 0, cacheWrite: 0 };
const call = (id: string, name: string, args: object = {}) => ({ id, name, arguments: JSON.stringify(args) });
const answers = (messages: readonly ShownMessage[]) => messages.filter(({ role }) => role === "assistant").length;

for (const dialect of gateDialects)
  describe(`messages to a run whose process dies, on ${dialect}`, () => {
    const atEnd = cleanup();
    let store: Store;
    let settings: ReturnType<typeof processSettings>;
    before(async () => {
      const tools = ["say", "calculator"];
      const approvals = [{ id: "sums", tools: ["calculator"] }];
      settings = processSettings(
        atEnd,
        { agent: { tools }, gated: { tools, approvals } },
        { SVC_AUDIT_FLUSH_SECONDS: "3600" },
      );
      ({ store } = await testStore(dialect, atEnd));
    });

    /** A process with a tool that sends a message to its own thread; `accepted` gets the acknowledged ones. */
    function start(of: Store, replies: readonly ScriptedReply[]) {
      const accepted: string[] = [];
      const queue = async (suffix: string, text: string, kind: "steer" | "follow_up") => {
        await process.bus.ask(threadAddress(tenantId, suffix), "steer", { text, kind, principal });
        accepted.push(text);
      };
      const note = async (suffix: string, content: string) => {
        const said = { subject: "a", content, metadata: { type: "workspace_edit" }, frame: null };
        await process.bus.ask(threadAddress(tenantId, suffix), "note", said);
        accepted.push(content);
      };
      const say = defineTool({
        name: "say",
        description: "Says something to the conversation.",
        parameters: Type.Object({ text: Type.String() }, { additionalProperties: false }),
        effect: "once",
        risk: "writes",
        async execute({ text }, { threadSuffix }) {
          const suffix = threadSuffix ?? "";
          if (text.startsWith("N")) await note(suffix, text);
          else await queue(suffix, text, text.startsWith("F") ? "follow_up" : "steer");
          return { text: "said" };
        },
      });
      const answer = (messages: readonly ShownMessage[]) => replies[answers(messages)] ?? { text: ["Done."], usage };
      const model = new ScriptedModel(env, answer, () => 0);
      const process = new ActorProcess({ env, store: of, settings, model, tools: [say], bootId: env.id() });
      atEnd.after(() => process.close());
      return { process, accepted, queue };
    }
    const tenant = () => store.tenant(tenantId);
    async function logOf(suffix: string): Promise<LogEvent[]> {
      const head = await threadBySuffix(tenant(), suffix);
      return head ? readEvents(tenant(), head.thread_key, 0, 1_000) : [];
    }
    async function waitingOf(suffix: string): Promise<string[]> {
      const head = await threadBySuffix(tenant(), suffix);
      if (!head) return [];
      const heads = await queuedHeads(tenant(), head.thread_key);
      const rows = await queuedInputs(
        tenant(),
        head.thread_key,
        heads.map(({ number }) => number),
      );
      return rows.map(({ content }) => content);
    }
    /** The count of each message in the log and the queue together. */
    async function keptOf(suffix: string, said: readonly string[]): Promise<Record<string, number>> {
      const kept = [...(await logOf(suffix)).map(({ content }) => content), ...(await waitingOf(suffix))];
      return Object.fromEntries(said.map((text) => [text, kept.filter((each) => each === text).length]));
    }

    test("STEER-001 STEER-002 STEER-003 WS-009 each is stored once, for the next turn", async () => {
      const replies: ScriptedReply[] = [
        { calls: [call("a", "say", { text: "S1" }), call("b", "say", { text: "never" })], usage },
        { calls: [call("c", "say", { text: "N1" }), call("d", "say", { text: "F1" })], usage },
        { text: ["One."], usage },
        { calls: [call("e", "say", { text: "S2" })], usage },
      ];
      const texts = ["H", "S1", "N1", "F1", "S2"];
      const whole = stoppingStore(store, Number.POSITIVE_INFINITY, true);
      const uncut = start(whole, replies);
      await uncut.queue("uncut", "H", "steer");
      const turn = uncut.process.submit({ manifest: "agent", thread_suffix: "uncut" });
      await turn.ended;
      assert.deepEqual(uncut.accepted, texts);
      assert.deepEqual(await waitingOf("uncut"), []);
      const seen = new Set<string>();

      for (let batches = 1; batches <= whole.batches; batches++)
        for (const answered of [true, false]) {
          const suffix = `cut-${batches}-${answered}`;
          const dying = stoppingStore(store, batches, answered);
          const first = start(dying, replies);
          const held = first.queue(suffix, "H", "steer");
          held.catch(() => {});
          await Promise.race([dying.stopped, held]);
          const cut = first.process.submit({ manifest: "agent", thread_suffix: suffix });
          await Promise.race([dying.stopped, cut.ended]);
          const accepted = [...first.accepted];

          const second = start(store, []);
          await second.process.bus.ask(threadAddress(tenantId, suffix), "recover", {});
          const kept = await keptOf(suffix, texts);
          for (const text of texts) {
            if (accepted.includes(text)) assert.equal(kept[text], 1, `${suffix}: ${text}`);
            assert.ok((kept[text] ?? 0) <= 1, `${suffix}: ${text} is there twice`);
          }
          const waiting = await waitingOf(suffix);
          seen.add(waiting.join());

          await second.process.submit({ manifest: "agent", thread_suffix: suffix }).ended;
          assert.deepEqual(await waitingOf(suffix), [], suffix);
          assert.deepEqual(await keptOf(suffix, texts), kept, suffix);
          assert.deepEqual(second.process.crashes, [], suffix);
          second.process.close();
        }

      for (const waiting of ["", "H", "S1", "F1", "S2"])
        assert.ok(seen.has(waiting), `no crash has left "${waiting}": ${[...seen].join(" | ")}`);
    });

    test("another process resumes a run waiting for an approval at a stored message", async () => {
      // Equal calls would share a request.
      const asking = (suffix: string): ScriptedReply[] => [
        { calls: [call("a", "calculator", { expression: `1+1 ${suffix}` })], usage },
      ];
      const parked = (suffix: string) =>
        eventually("a run that is put aside", async () => {
          const head = await threadBySuffix(tenant(), suffix);
          return head && (await waitingRun(tenant(), head.thread_key));
        });
      const seen = new Set<string>();
      const counted = stoppingStore(store, Number.POSITIVE_INFINITY, true);
      start(counted, asking("parked")).process.submit({ manifest: "gated", thread_suffix: "parked" });
      await parked("parked");
      // From the batch of the message itself on.
      for (let after = 1; after <= 6; after++)
        for (const answered of [true, false]) {
          const suffix = `parked-${after}-${answered}`;
          const replies = asking(suffix);
          // It writes nothing more after it has suspended the run.
          const before = start(stoppingStore(store, counted.batches, true), replies);
          before.process.submit({ manifest: "gated", thread_suffix: suffix });
          const { run_id } = await parked(suffix);
          before.process.close();
          const dying = stoppingStore(store, after, answered);
          const first = start(dying, replies);
          const said = first.queue(suffix, "Never mind.", "steer");
          said.catch(() => {});
          let isDead = false;
          void dying.stopped.then(() => {
            isDead = true;
          });
          await eventually("the end of the run, or of the process", async () => {
            if (isDead) return true;
            const last = (await logOf(suffix)).at(-1);
            return (last?.role === "assistant" && (await waitingOf(suffix)).length === 0) || undefined;
          });

          const second = start(store, replies);
          await second.process.bus.ask(threadAddress(tenantId, suffix), "recover", {});
          await wakeDueRuns(store, second.process.bus);
          await eventually("the end of the run", async () => {
            const log = await logOf(suffix);
            const isOver = log.at(-1)?.role === "assistant" || log.at(-1)?.extra?.metadata?.type === "run_interrupted";
            return isOver && log.some(({ kind }) => kind === "tool_result");
          });
          await second.process.submit({ manifest: "agent", thread_suffix: suffix }).ended;

          assert.deepEqual(await keptOf(suffix, ["Never mind."]), { "Never mind.": 1 }, suffix);
          assert.deepEqual(await waitingOf(suffix), [], suffix);
          assert.deepEqual(await waitsOfRun(tenant(), run_id), [], suffix);
          const [result] = (await logOf(suffix)).filter(({ kind }) => kind === "tool_result");
          seen.add(result?.content ?? "");
          second.process.close();
        }
      assert.ok(
        [...seen].some((text) => text.includes("superseded by what the user has said since")),
        [...seen].join(),
      );
    });
  });
