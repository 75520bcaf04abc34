// Information flow: in seeded conversations no call that speaks or spends passes without a person once a text from outside was read.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { calls, startChat, turn } from "../support/chat.ts";
import { runs } from "../support/effort.ts";
import type { Behaviour } from "../support/mock-model/behaviours.ts";
import { apiKeys, type TestServer } from "../support/server.ts";
import { cleanup } from "../support/temp.ts";
import { startWebSite } from "../support/web-site.ts";

const { env, keys } = apiKeys({ ann: { tenant_id: "acme", sub: "ann", scopes: ["*"] } });
const as = { key: keys.ann };
const conversations = runs(500);
const atOnce = 6;
const stepsMax = 9;

type Call = readonly [name: string, args: object];
const speaks = ["calculator", { expression: "1+1" }] as const;
const fetches = ["fetch", { url: "http://site.example/page" }] as const;
const prefix = "do ";
/** Characters of each result in an answer: that of a task must not become an artifact, and stands whole in that of its parent. */
const shownChars = { lead: 85, task: 20 };
const script = (...wanted: readonly Call[]) => prefix + JSON.stringify(wanted);

/** Makes the calls that its last message names, one after the other, and then answers their results as JSON. */
const obedient: Behaviour = ({ body }) => {
  const messages = body.messages as readonly { role: string; content: string }[];
  const at = messages.findLastIndex(({ role, content }) => role === "user" && content.startsWith(prefix));
  if (at === -1) return { text: "A summary." };
  const wanted = JSON.parse((messages[at]?.content ?? "").slice(prefix.length)) as Call[];
  const results = messages.slice(at).flatMap(({ role, content }) => (role === "tool" ? [content] : []));
  const next = wanted[results.length];
  const most = JSON.stringify(body.tools).includes('"task"') ? shownChars.lead : shownChars.task;
  return next === undefined ? { text: JSON.stringify(results.map((text) => text.slice(0, most))) } : calls(next);
};

/** A thread of a conversation, as the test knows it. */
interface Known {
  readonly id: string;
  isTainted: boolean;
  /** Events that a rewind can return to, each with the state of the thread there. */
  readonly points: { readonly leaf: string; readonly isTainted: boolean }[];
  plans: number;
  /** Ids of the artifacts that hold text from outside. */
  readonly artifacts: string[];
}

describe("information flow", () => {
  const atEnd = cleanup();
  let server: TestServer;
  before(async () => {
    const site = await startWebSite(atEnd);
    // Not of fetch, which speaks too: it is the source.
    const rule = { id: "tainted", tools: ["calc*"], risks: ["spends", "speaks"], when_tainted: ["*"], wait: false };
    const base = {
      tools: ["calculator", "plan_create", "plan_get"],
      tool_effects: { calculator: { risk: "speaks" } },
      http_tools: [{ name: "fetch" }],
      approvals: [rule],
    };
    const started = await startChat(atEnd, {
      models: ["scripted"],
      manifests: {
        lead: {
          ...base,
          delegation: { agents: [{ name: "helper" }] },
          session: { compaction_enabled: true, keep_recent_tokens: 1 },
          artifacts: { enabled: true, threshold_chars: 200, preview_chars: 20 },
        },
        helper: base,
      },
      env: {
        ...env,
        SVC_TEST_RESOLVE: JSON.stringify({ "site.example": `127.0.0.1:${site.port}` }),
        SVC_EGRESS_PRIVATE: JSON.stringify([{ host: "127.0.0.1", port: site.port, tenants: "*" }]),
      },
    });
    server = started.server;
    started.mock.answer("scripted", obedient);
    const page = "The weather is fine at the lake. ".repeat(20);
    site.on("/page", (_, response) => response.setHeader("content-type", "text/plain").end(page));
  });

  /** Runs a turn with these calls and returns their results. */
  async function play(thread: Known, ...wanted: readonly Call[]): Promise<string[]> {
    const body = turn("lead", script(...wanted), { thread_id: thread.id });
    const { status, json, text } = await server.post("/chat", body, as);
    assert.equal(status, 200, text);
    // The state at this point is that after the turn, so the caller adds the point.
    thread.points.push({ leaf: json.leaf_id, isTainted: thread.isTainted || reads(wanted) });
    return JSON.parse(json.final.content);
  }
  const reads = (wanted: readonly Call[]): boolean =>
    wanted.some(
      ([name, args]) =>
        name === "fetch" || name === "read_artifact" || (name === "task" && JSON.stringify(args).includes("fetch")),
    );

  async function converse(number: number): Promise<void> {
    let state = number * 2_654_435_761 + 1;
    const random = (below: number): number => {
      state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
      return Math.floor((state / 2 ** 32) * below);
    };
    const threads: Known[] = [{ id: `flow-${number}`, isTainted: false, points: [], plans: 0, artifacts: [] }];
    const done: string[] = [];
    const check = (result: string | undefined, isTainted: boolean): void => {
      const how = `conversation ${number}: ${done.join(", ")}: ${result}`;
      if (isTainted) assert.match(result ?? "", /^\[approval /, how);
      else assert.equal(result, "2", how);
    };
    const steps: Readonly<Record<string, (thread: Known) => Promise<void>>> = {
      async speak(thread) {
        check((await play(thread, speaks))[0], thread.isTainted);
      },
      async read(thread) {
        const [page] = await play(thread, fetches);
        const [, id] = /\[artifact ([0-9a-f-]+):/.exec(page ?? "") ?? [];
        assert.ok(id, page);
        thread.artifacts.push(id);
        thread.isTainted = true;
      },
      async "read and speak"(thread) {
        const [, result] = await play(thread, fetches, speaks);
        thread.isTainted = true;
        check(result, true);
      },
      async "speak and read"(thread) {
        const [result] = await play(thread, speaks, fetches);
        check(result, thread.isTainted);
        thread.isTainted = true;
      },
      async "ask a task to speak"(thread) {
        const [result] = await play(thread, ["task", { agent: "helper", prompt: script(speaks) }]);
        if (thread.isTainted) assert.match(result ?? "", /\[approval /);
        else assert.equal(result, '["2"]');
      },
      async "let a task read"(thread) {
        const wanted = script(fetches, speaks);
        const [task, own] = await play(thread, ["task", { agent: "helper", prompt: wanted }], speaks);
        thread.isTainted = true;
        assert.match(task ?? "", /\[approval /);
        check(own, true);
      },
      async plan(thread) {
        const plan_id = `plan-${thread.plans++}`;
        const steps = [{ title: "Look." }];
        await play(thread, ["plan_create", { plan_id, title: "Plan", steps }]);
        const [, result] = await play(thread, ["plan_get", { plan_id }], speaks);
        check(result, thread.isTainted);
      },
      async compact(thread) {
        const { status, text } = await server.post("/chat/compact", { thread_id: thread.id }, as);
        // A thread that is new or too short is not compacted.
        assert.ok([200, 400, 409, 422].includes(status), text);
      },
      async fork(thread) {
        if (thread.points.length === 0 || threads.length > 2) return;
        const id = `${thread.id}-${threads.length}`;
        const { status, text } = await server.post("/chat/fork", { thread_id: thread.id, new_thread_id: id }, as);
        assert.equal(status < 300, true, text);
        threads.push({ id, isTainted: thread.isTainted, points: [], plans: 100 * threads.length, artifacts: [] });
      },
      async "read an artifact after a rewind"(thread) {
        const [artifact_id] = thread.artifacts;
        const point = thread.points.find(({ isTainted }) => !isTainted);
        if (artifact_id === undefined || point === undefined) return;
        const back = { thread_id: thread.id, event_id: point.leaf, summarize: false };
        const { status, text } = await server.post("/chat/rewind", back, as);
        assert.equal(status, 200, text);
        const [before, page, after] = await play(thread, speaks, ["read_artifact", { artifact_id }], speaks);
        assert.match(page ?? "", /The weather/);
        check(before, false);
        check(after, true);
        thread.isTainted = true;
      },
      async rewind(thread) {
        const point = thread.points[random(thread.points.length)];
        if (point === undefined) return;
        const back = { thread_id: thread.id, event_id: point.leaf, summarize: false };
        const { status, text } = await server.post("/chat/rewind", back, as);
        assert.equal(status, 200, text);
        thread.isTainted = point.isTainted;
      },
    };
    const names = Object.keys(steps);
    for (let step = 0; step < 3 + random(stepsMax - 3); step++) {
      const thread = threads[random(threads.length)] as Known;
      const name = names[random(names.length)] as string;
      done.push(`${name} on ${thread.id}`);
      await steps[name]?.(thread);
    }
    for (const thread of threads) {
      done.push(`the last speech on ${thread.id}`);
      check((await play(thread, speaks))[0], thread.isTainted);
    }
  }

  test(`no call that speaks passes in a tainted run, in ${conversations} conversations`, async () => {
    let next = 0;
    const worker = async (): Promise<void> => {
      while (next < conversations) await converse(next++);
    };

    await Promise.all(Array.from({ length: atOnce }, worker));
  });
});
