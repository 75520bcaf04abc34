// Patterns that read their position from the log: suspended in the middle and resumed by another process, and killed
// after each of their batches.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { defineTool } from "../../../actors/tools/tool.ts";
import { runAddress, threadAddress } from "../../../bus/address.ts";
import { systemEnv } from "../../../bus/env.ts";
import { Type } from "../../../bus/type.ts";
import type { Store } from "../../../storage/store/store.ts";
import { readEvents } from "../../../storage/tables/events.ts";
import { waitingRun } from "../../../storage/tables/runs.ts";
import { threadBySuffix } from "../../../storage/tables/threads.ts";
import { usagePage } from "../../../storage/tables/usage.ts";
import { waitsOfRun } from "../../../storage/tables/waits.ts";
import { ActorProcess, processSettings, tenantId } from "../../support/actor-process.ts";
import { wordsOf } from "../../support/chat.ts";
import { eventually } from "../../support/eventually.ts";
import { ScriptedModel, type ScriptedReply, type ShownMessage } from "../../support/scripted-model.ts";
import { stoppingStore } from "../../support/stopping-store.ts";
import { gateDialects, testStore } from "../../support/stores.ts";
import { cleanup } from "../../support/temp.ts";

const env = systemEnv();
const alice = { tenant_id: tenantId, sub: "alice", scopes: [], scheme: "none", issuer: "" };
const usage = { input: 10, output: 1, cacheRead: 0, cacheWrite: 0 };
const says = (text: string): ScriptedReply => ({ text: [text], usage });
const asks = (id: string, text = ""): ScriptedReply => ({
  text: text === "" ? [] : [text],
  calls: [{ id, name: "ask", arguments: "{}" }],
  usage,
});

/** A pattern under test: the model's answers by agent, and the expected outcome. */
interface Case {
  readonly manifest: object;
  /** Manifests of its sub-agents. */
  readonly others?: Readonly<Record<string, object>>;
  /** By the beginning of the system message; the answers of each are used in turn. */
  readonly script: Readonly<Record<string, readonly ScriptedReply[]>>;
  /** Questions to the outside, in order. */
  readonly waits: number;
  readonly final: string;
  /** Text that the client received. */
  readonly read: string;
  /** Texts that no client may read. */
  readonly unread: readonly string[];
}

const tools = ["ask"];
const me = { system_prompt: { inline: "Me." } };
const cases: Readonly<Record<string, Case>> = {
  reflect: {
    manifest: { ...me, tools, pattern: "reflect", reflect: { max_iterations: 3 } },
    script: {
      "Me.": [asks("a"), says("Draft one."), asks("b", "Again. "), says("Draft two."), says("Draft three.")],
      "You judge": [
        says('{"score":0.1,"feedback":"No."}'),
        says('{"score":0.6,"feedback":"Hm."}'),
        says("?"),
        says("??"),
      ],
    },
    waits: 2,
    final: "Draft three.",
    read: "Again. Draft three.",
    unread: ["Draft one", "Draft two"],
  },
  schema: {
    manifest: { ...me, tools, output_schema: { type: "object", properties: { n: { type: "integer" } } } },
    script: { "Me.": [asks("a"), says('{"n":"x"}'), asks("b"), says('{"n":2}')] },
    waits: 2,
    final: '{"n":2}',
    read: '{"n":2}',
    unread: ['{"n":"x"}'],
  },
  plan_execute: {
    manifest: { ...me, tools, pattern: "plan_execute" },
    script: {
      "You plan": [
        says('{"subtasks":[{"title":"one","task":"x"},{"title":"two","task":"y"},{"title":"three","task":"z"}]}'),
        says('{"subtasks":[{"title":"four","task":"w"}]}'),
      ],
      "Me.": [
        asks("a"),
        says("Done one."),
        asks("b"),
        says("FAILED two."),
        asks("c"),
        says("Done four."),
        asks("d"),
        says("All."),
      ],
    },
    waits: 4,
    final: "All.",
    read: "All.",
    unread: ["Done one", "FAILED", "Done four"],
  },
  "plan_execute that gives up": {
    manifest: { ...me, tools, pattern: "plan_execute", plan_execute: { replan_on_failure: false } },
    script: {
      "You plan": [says('{"subtasks":[{"title":"one","task":"x"},{"title":"two","task":"y"}]}')],
      "Me.": [asks("a"), says("FAILED one."), asks("b"), says("Sorry.")],
    },
    waits: 2,
    final: "Sorry.",
    read: "Sorry.",
    unread: ["FAILED"],
  },
  escalation: {
    manifest: { ...me, tools, model: { confidence_escalation: { enabled: true, escalate_to: "gpt-4.1" } } },
    script: {
      "Me.": [
        asks("a"),
        says("I don't know."),
        asks("b", "Let me see. "),
        says("This is what the stronger one says of it."),
      ],
    },
    waits: 2,
    final: "This is what the stronger one says of it.",
    read: "Let me see. This is what the stronger one says of it.",
    unread: ["know"],
  },
  "escalation by a decider": {
    manifest: {
      ...me,
      tools,
      pattern: "deep",
      model: { confidence_escalation: { enabled: true, escalate_to: "gpt-4.1", decider: true } },
      decider: { id: "small-llm" },
    },
    script: {
      "Me.": [asks("a"), says("Of all this there is nothing that I could doubt."), asks("b"), says("Stronger.")],
      "You are given what a user": [says('{"choice":"doubtful"}')],
    },
    waits: 2,
    final: "Stronger.",
    read: "Stronger.",
    unread: ["nothing"],
  },
  router: {
    manifest: { system_prompt: { inline: "Route." }, pattern: "router", sub_agents: ["r-one", "r-two"] },
    others: { "r-one": { system_prompt: { inline: "One." } }, "r-two": { system_prompt: { inline: "Two." }, tools } },
    script: {
      "Route.": [says('{"agent":"r-two"}')],
      "Two.": [asks("a", "Wait. "), asks("b"), says("Two says.")],
    },
    waits: 2,
    final: "Two says.",
    read: "Wait. Two says.",
    unread: ["r-two"],
  },
  parallel: {
    manifest: { ...me, tools, pattern: "parallel", sub_agents: ["p-one", "p-two", "p-three"] },
    others: {
      "p-one": { system_prompt: { inline: "One." }, tools },
      "p-two": { system_prompt: { inline: "Two." }, tools, pattern: "reflect" },
      "p-three": { system_prompt: { inline: "Three." } },
    },
    script: {
      "One.": [asks("a", "Hm."), asks("b"), says("One says.")],
      "Two.": [says("Two drafts."), asks("c"), says("Two says.")],
      "You judge": [says('{"score":0,"feedback":"No."}'), says('{"score":1,"feedback":""}')],
      "Three.": [says("Three says.")],
      "Me.": [asks("d"), says("All say.")],
    },
    waits: 4,
    final: "All say.",
    read: "All say.",
    unread: ["One says", "Two", "Three", "Hm."],
  },
  groupchat: {
    manifest: { ...me, pattern: "groupchat", sub_agents: ["g-one", "g-two"], max_turns: 2 },
    others: {
      "g-one": { system_prompt: { inline: "One." }, tools },
      "g-two": { system_prompt: { inline: "Two." }, tools },
    },
    script: {
      "One.": [says("One begins."), asks("a"), says("One adds.")],
      "Two.": [asks("b"), says("Two answers."), says("Two ends.")],
      "Me.": [says("We say.")],
    },
    waits: 2,
    final: "We say.",
    read: "We say.",
    unread: ["begins", "adds", "answers", "ends"],
  },
  "nested router": {
    manifest: { system_prompt: { inline: "Outer." }, pattern: "router", sub_agents: ["n-router"] },
    others: {
      "n-router": { system_prompt: { inline: "Inner." }, pattern: "router", sub_agents: ["n-parallel", "n-leaf"] },
      "n-parallel": { system_prompt: { inline: "Merge." }, pattern: "parallel", sub_agents: ["n-leaf", "n-group"] },
      "n-group": { system_prompt: { inline: "Group." }, pattern: "groupchat", sub_agents: ["n-leaf"], max_turns: 1 },
      "n-leaf": { system_prompt: { inline: "Leaf." }, tools },
    },
    script: {
      "Inner.": [says('{"agent":"n-parallel"}')],
      "Leaf.": [asks("a"), asks("b"), says("Leaf."), says("Leaf.")],
      "Group.": [says("Group says.")],
      "Merge.": [says("Merged.")],
    },
    waits: 2,
    final: "Merged.",
    read: "Merged.",
    unread: ["Leaf", "Group"],
  },
};

for (const dialect of gateDialects)
  describe(`patterns across processes, on ${dialect}`, () => {
    const atEnd = cleanup();
    let store: Store;
    let settings: ReturnType<typeof processSettings>;
    const nameOf = (name: string) => name.replaceAll(" ", "-");
    before(async () => {
      const manifests = Object.entries(cases).flatMap(([name, { manifest, others = {} }]) => [
        [nameOf(name), manifest],
        ...Object.entries(others),
      ]);
      settings = processSettings(atEnd, Object.fromEntries(manifests), { SVC_AUDIT_FLUSH_SECONDS: "3600" });
      ({ store } = await testStore(dialect, atEnd));
    });
    const tenant = () => store.tenant(tenantId);

    /** A process; the case counts the progress of each script, over all processes. */
    function start(of: Store, { script }: Case, told: Map<string, number>, waits = true) {
      const ask = defineTool({
        name: "ask",
        description: "Asks a person.",
        parameters: Type.Object({}),
        effect: "read",
        risk: "reads",
        execute: () =>
          waits
            ? {
                wait: {
                  kind: "question",
                  subject: "?",
                  deadline: null,
                  may_answer: { scopes: [], principal: null, not_principal: null },
                },
              }
            : { text: "yes" },
        resume: (_, outcome) => ({ text: JSON.stringify(outcome) }),
      });
      const answer = (messages: readonly ShownMessage[]) => {
        const [who = "", replies = []] =
          Object.entries(script).find(([words]) => messages[0]?.content.startsWith(words)) ?? [];
        const at = told.get(who) ?? 0;
        told.set(who, at + 1);
        return replies[Math.min(at, replies.length - 1)] ?? says("Next.");
      };
      const model = new ScriptedModel(env, answer, () => 0);
      const process = new ActorProcess({ env, store: of, settings, model, tools: [ask], bootId: env.id() });
      atEnd.after(() => process.close());
      return { process, model };
    }
    async function eventsOf(suffix: string) {
      const head = await threadBySuffix(tenant(), suffix);
      return head ? readEvents(tenant(), head.thread_key, 0, 1_000) : [];
    }
    /** Each call that is a message in the log has one result. */
    async function assertWhole(suffix: string): Promise<void> {
      const events = await eventsOf(suffix);
      const asked = events.flatMap(({ kind, extra }) => (kind === "message" ? (extra?.tool_calls ?? []) : []));
      const results = events.filter(({ kind }) => kind === "tool_result").map(({ extra }) => extra?.tool_call_id);
      assert.deepEqual(results.toSorted(), asked.map(({ id }) => id).toSorted(), suffix);
    }

    for (const [name, made] of Object.entries(cases))
      test(`${name} resumes at its position, in a new process after each question`, async () => {
        const suffix = `park-${nameOf(name)}`;
        const told = new Map<string, number>();
        let { process } = start(store, made, told);
        process.submit({ manifest: nameOf(name), thread_suffix: suffix });
        for (let asked = 0; asked < made.waits; asked++) {
          const runId = await eventually("a run that is put aside", async () => {
            const head = await threadBySuffix(tenant(), suffix);
            const run = head && (await waitingRun(tenant(), head.thread_key));
            const open = run && (await waitsOfRun(tenant(), run.run_id)).filter(({ state }) => state === "open");
            return open && open.length > 0 ? run.run_id : undefined;
          });
          // The process checks the run once more after suspending it.
          process.bus.tell(runAddress(tenantId, suffix, runId), "detach", {});
          await eventually("an idle host", async () => process.host.busyCount() === 0);
          process.close();
          ({ process } = start(store, made, told));
          const [wait] = (await waitsOfRun(tenant(), runId)).filter(({ state }) => state === "open");
          await process.bus.ask(runAddress(tenantId, suffix, runId), "answer", {
            wait_id: wait?.wait_id ?? "",
            value: "yes",
            principal: alice,
          });
        }

        const events = await eventually("the end of the run", async () => {
          const log = await eventsOf(suffix);
          return log.at(-1)?.role === "assistant" && log.at(-1)?.content === made.final ? log : undefined;
        });

        await assertWhole(suffix);
        assert.equal(events.filter(({ role }) => role === "user").length, 1);
        const expected = Object.values(made.script).reduce((sum, replies) => sum + replies.length, 0);
        assert.equal(
          [...told.values()].reduce((sum, count) => sum + count, 0),
          expected,
          "model calls",
        );
        const { rows } = await usagePage(tenant(), { thread_id: `${tenantId}:${suffix}` }, null, 99);
        assert.equal(rows.length, expected);
      });

    for (const [name, made] of Object.entries(cases))
      test(`${name} streams its answer only, and leaves a whole log after any last batch`, async () => {
        const whole = stoppingStore(store, Number.POSITIVE_INFINITY, true);
        const uncut = start(whole, made, new Map(), false).process.submit({
          manifest: nameOf(name),
          thread_suffix: `uncut-${nameOf(name)}`,
        });
        await uncut.ended;
        assert.equal(wordsOf(uncut.frames), made.read);
        await assertWhole(`uncut-${nameOf(name)}`);

        for (let batches = 1; batches <= whole.batches; batches++) {
          const suffix = `crash-${nameOf(name)}-${batches}`;
          const dying = stoppingStore(store, batches, batches % 2 === 0);
          const first = start(dying, made, new Map(), false).process;
          const turn = first.submit({ manifest: nameOf(name), thread_suffix: suffix });
          await Promise.race([dying.stopped, turn.ended]);
          first.close();
          for (const words of made.unread) assert.ok(!wordsOf(turn.frames).includes(words), wordsOf(turn.frames));

          const { process } = start(store, made, new Map(), false);
          await process.bus.ask(threadAddress(tenantId, suffix), "recover", {});
          await assertWhole(suffix);
          const next = process.submit({
            manifest: nameOf(name),
            thread_suffix: suffix,
            surface: "continue",
            messages: [],
          });
          const refused = await next.accepted.then(
            () => null,
            (error: Error) => error.message,
          );
          if (refused === null) await next.ended;
          else assert.equal(refused, "already_complete", suffix);
          const events = await eventsOf(suffix);
          assert.equal(events.findLast(({ role }) => role === "assistant")?.content, made.final, suffix);
          await assertWhole(suffix);
          process.close();
        }
      });
  });
