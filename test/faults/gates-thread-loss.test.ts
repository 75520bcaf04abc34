// An actor thread that dies while sub-agents of its runs wait for approval: suspended and durable runs still wait, and the
// calls of a lost run are closed.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { calls, never, says, turn } from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
import type { Behaviour } from "../support/mock-model/behaviours.ts";
import { type MockModel, startMockModel } from "../support/mock-model.ts";
import { type LocalServer, manifestEnv, modelEnv, startInProcess } from "../support/server.ts";
import { cleanup } from "../support/temp.ts";
import { sqliteRows } from "./support.ts";

/** The first node with actors if one thread speaks HTTP. */
const actorNode = 1;
const gate = { tools: ["calculator"], approvals: [{ id: "sums", tools: ["calculator"], ttl_seconds: 600 }] };
const durable = { execution: { mode: "durable" } };

/** The message in an event of a sub-agent. */
interface Inner {
  readonly content?: string;
  readonly tool_call_id?: string;
  readonly tool_calls?: readonly { readonly id: string }[];
}

describe("an actor thread that dies while sub-agents wait for approval", () => {
  const atEnd = cleanup();
  let server: LocalServer;
  let mock: MockModel;
  before(async () => {
    mock = await startMockModel();
    atEnd.after(() => mock.close());
    const working = { pattern: "parallel", sub_agents: ["first", "pair", "slow"] };
    server = await startInProcess({
      atEnd,
      env: {
        ...modelEnv(mock, ["lead", "first", "second", "plain", "slow"]),
        ...manifestEnv(atEnd, {
          first: { model: { id: "first" }, ...gate },
          second: { model: { id: "second" }, ...gate },
          plain: { model: { id: "plain" } },
          slow: { model: { id: "slow" } },
          pair: { pattern: "parallel", sub_agents: ["second", "plain"] },
          suspended: { pattern: "parallel", sub_agents: ["first", "pair"] },
          working,
          lasting: { ...working, ...durable },
        }),
      },
    });
    const sums = [1001, 1002, 1003, 1004, 1005, 1006];
    const gated =
      (text: string): Behaviour =>
      ({ body }) =>
        (body.messages as readonly { role: string }[]).at(-1)?.role === "tool"
          ? { text }
          : calls(["calculator", { expression: `1+${sums.pop()}` }]);
    mock.answer("first", gated("First."));
    mock.answer("second", gated("Second."));
    mock.answer("plain", { text: "Plain." });
    mock.answer("slow", says("I am at", never));
    mock.answer("lead", { text: "Together." });
  });

  const rows = (sql: string) => sqliteRows(sql, server.dataDir);
  const innerOf = async (thread: string) => {
    const { transcript } = (await server.get(`/chat/sessions/${thread}`)).json;
    const inner = transcript.map(({ metadata }: { metadata: { inner?: Inner } | null }) => metadata?.inner ?? {});
    return {
      asked: inner.flatMap(({ tool_calls = [] }: Inner) => tool_calls.map(({ id }) => id)).toSorted() as string[],
      results: inner.filter(({ tool_call_id }: Inner) => tool_call_id !== undefined) as Inner[],
    };
  };
  const reply = (thread: string) =>
    eventually(`the reply on ${thread}`, async () => {
      const { messages } = (await server.get(`/chat/history/${thread}`)).json;
      return messages.find(({ role }: { role: string }) => role === "assistant")?.content as string | undefined;
    });

  test("APPR-009 DUR-008 the waits of suspended and durable runs are kept, those of a lost run closed", async () => {
    const gates: Record<string, string[]> = {};
    for (const manifest of ["suspended", "working", "lasting"]) {
      const stream = await server.stream("/chat/stream", turn(manifest, "go", { thread_id: manifest }));
      const asked: string[] = [];
      while (asked.length < 2) asked.push((await stream.until("approval_required")).json.data.approval_id);
      gates[manifest] = asked;
    }
    await eventually("a suspended run and two that work", async () => {
      const found = rows("SELECT manifest, status FROM runs ORDER BY manifest");
      const wanted = ["lasting running", "suspended waiting", "working running"];
      return found.map(({ manifest, status }) => `${manifest} ${status}`).join() === wanted.join() || undefined;
    });

    await server.system.kill(actorNode);
    mock.answer("slow", { text: "Slow." });
    const ended = await eventually("the end of the lost run", async () => {
      const found = rows("SELECT status FROM runs WHERE manifest = 'working' AND ended_at IS NOT NULL");
      return found[0];
    });

    assert.equal(ended.status, "failed");
    const decide = (id: string) => server.post(`/approvals/${id}/decide`, { decision: "approved" });
    const lost = await innerOf("working");
    assert.equal(lost.asked.length, 2);
    const answered = lost.results.map(({ tool_call_id }) => tool_call_id).toSorted();
    assert.deepEqual(answered, lost.asked);
    for (const { content } of lost.results) assert.match(content ?? "", /^\[tool error\/interrupted\] not run: /);
    for (const id of gates.working ?? []) assert.equal((await decide(id)).json.error, "approval_not_pending");
    for (const thread of ["suspended", "lasting"]) {
      assert.deepEqual((await innerOf(thread)).results, [], `${thread} still waits`);
      for (const id of gates[thread] ?? []) assert.equal((await decide(id)).status, 200, thread);
      assert.equal(await reply(thread), "Together.", thread);
      const { asked, results } = await innerOf(thread);
      assert.equal(results.length, asked.length, thread);
      for (const { content } of results) assert.match(content ?? "", /^\d+$/, thread);
    }
  });
});
