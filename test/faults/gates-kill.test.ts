// Open requests of runs whose server is killed before they suspend, on both engines: the next server accepts no answer
// to them.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { calls, inTurn, never, says, turn } from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
import { type MockModel, startMockModel } from "../support/mock-model.ts";
import { apiKeys, manifestEnv, modelEnv, type ProcessServer, startServerProcess } from "../support/server.ts";
import { gateDialects } from "../support/stores.ts";
import { cleanup } from "../support/temp.ts";
import { type Database, databaseOf, skipPostgres } from "./support.ts";

const { env, keys } = apiKeys({ alice: { scopes: ["*"] } });
const task = (agent: string) => ["task", { agent, prompt: "Do it." }] as const;
const to = (...names: string[]) => ({
  delegation: { agents: names.map((name) => ({ name })) },
  execution: { tools: "parallel" },
});
const gate = { tools: ["calculator"], approvals: [{ id: "sums", tools: ["calculator"], ttl_seconds: 600 }] };

/** An event of a transcript; an event of a sub-agent contains its message. */
interface Item {
  readonly metadata: { readonly type?: string; readonly inner?: Inner } | null;
}
interface Inner {
  readonly content?: string;
  readonly tool_call_id?: string;
  readonly tool_calls?: readonly { readonly id: string }[];
}

/** Each run has other work besides its gate, so that it is not suspended when the server is killed. */
const cases: Readonly<
  Record<string, { readonly manifest: string; readonly isStateless?: true; readonly gates: number }>
> = {
  "a call beside a slow one": { manifest: "beside", gates: 1 },
  "a task": { manifest: "lead", gates: 1 },
  "tasks of a task": { manifest: "chief", gates: 2 },
  "a member of parallel": { manifest: "team", gates: 1 },
  "a task of a member of parallel": { manifest: "squad", gates: 1 },
  "a run without a thread": { manifest: "gated", isStateless: true, gates: 1 },
};

for (const dialect of gateDialects) {
  describe(`gates and SIGKILL, on ${dialect}`, { skip: dialect === "postgres" && skipPostgres }, () => {
    const atEnd = cleanup();
    const alice = { key: keys.alice };
    let server: ProcessServer;
    let mock: MockModel;
    let database: Database;
    let sums = 0;
    before(async () => {
      mock = await startMockModel();
      atEnd.after(() => mock.close());
      database = await databaseOf(dialect, atEnd);
      server = await startServerProcess({
        atEnd,
        env: {
          ...modelEnv(mock, ["gated", "lead", "middle", "slow", "beside", "asker", "picker"]),
          ...manifestEnv(atEnd, {
            gated: { model: { id: "gated" }, ...gate },
            asker: { model: { id: "asker" }, tools: ["ask_user"] },
            slow: { model: { id: "slow" } },
            beside: { model: { id: "beside" }, ...gate, ...to("slow") },
            lead: { model: { id: "lead" }, ...to("gated", "asker", "slow") },
            chief: { model: { id: "lead" }, ...to("middle", "gated", "slow") },
            middle: { model: { id: "middle" }, ...to("gated") },
            team: { pattern: "parallel", sub_agents: ["gated", "slow"] },
            squad: { pattern: "parallel", sub_agents: ["middle", "slow"] },
            picker: { model: { id: "picker" }, client_tools: [{ name: "pick", description: "Picks." }] },
            trio: { pattern: "parallel", sub_agents: ["gated", "asker", "picker"] },
            crew: { pattern: "parallel", sub_agents: ["trio", "slow"] },
          }),
          ...env,
          ...database.env,
        },
      });
      const sum = () => ["calculator", { expression: `1+${1000 + ++sums}` }] as const;
      mock.answer("slow", says("I am at", never));
      mock.answer("gated", () => calls(sum()));
      mock.answer("beside", () => calls(sum(), task("slow")));
      mock.answer("middle", inTurn(calls(task("gated")), { text: "Done." }));
    });

    test("APPR-009 a decision on a request of a lost run is refused, and no wait row remains", async () => {
      const asked: { name: string; ids: string[] }[] = [];
      for (const [name, { manifest, isStateless, gates }] of Object.entries(cases)) {
        const wanted = manifest === "chief" ? [task("middle"), task("gated")] : [task("gated")];
        mock.answer("lead", inTurn(calls(...wanted, task("slow")), { text: "Done." }));
        const thread = isStateless ? {} : { thread_id: `kill-${asked.length}` };
        const stream = await server.stream("/chat/stream", turn(manifest, "go", thread), alice);
        const ids: string[] = [];
        while (ids.length < gates) ids.push((await stream.until("approval_required")).json.data.approval_id);
        asked.push({ name, ids });
      }
      mock.answer("asker", inTurn(calls(["ask_user", { question: "Which?" }]), { text: "Done." }));
      mock.answer("lead", inTurn(calls(task("asker"), task("slow")), { text: "Done." }));
      const asking = await server.stream("/chat/stream", turn("lead", "go", { thread_id: "asks" }), alice);
      const { request_id } = (await asking.until("ui_request")).json.data;
      await eventually("tasks that are suspended", async () => {
        const rows = await database.rows("SELECT status FROM runs WHERE status = 'waiting'", server.dataDir);
        return rows.length === 6 || undefined;
      });

      await server.kill();
      await server.restart();
      const ids = asked.flatMap((each) => each.ids);
      const answered = server.post("/chat/ui", { thread_id: "asks", request_id, value: "a" }, alice);
      const decided = await Promise.all(
        ids.map((id) => server.post(`/approvals/${id}/decide`, { decision: "approved" }, alice)),
      );

      assert.equal((await answered).json.signaled, false, "a question of a task");
      const statuses = new Map(ids.map((id, at) => [id, decided[at]?.json]));
      for (const { name, ids: own } of asked)
        for (const id of own)
          assert.deepEqual(statuses.get(id), { error: "approval_not_pending", detail: { current: "denied" } }, name);
      const { json } = await server.get(`/approvals/${ids[0]}`, alice);
      assert.deepEqual([json.decision_note, json.decided_by], ["aborted", "svc"]);
      await eventually("the end of all runs", async () => {
        const open = await database.rows(
          "SELECT wait_id AS id FROM waits WHERE state <> 'closed' UNION ALL SELECT run_id FROM runs WHERE ended_at IS NULL",
          server.dataDir,
        );
        return open.length === 0 || undefined;
      });
    });

    test("APPR-009 a lost run's waiting calls all get results, and a suspended run still waits", async () => {
      mock.answer("asker", () => calls(["ask_user", { question: "Which?" }]));
      mock.answer("picker", () => calls(["pick", {}]));
      const gates: string[] = [];
      for (const manifest of ["crew", "trio"]) {
        const stream = await server.stream(
          "/chat/stream",
          turn(manifest, "go", { thread_id: `of-${manifest}` }),
          alice,
        );
        gates.push((await stream.until("approval_required")).json.data.approval_id);
      }
      const inner = async (thread: string) => {
        const { transcript } = (await server.get(`/chat/sessions/${thread}`, alice)).json;
        const messages = transcript.map(({ metadata }: Item) => metadata?.inner ?? {});
        return {
          asked: messages.flatMap(({ tool_calls = [] }: Inner) => tool_calls.map(({ id }) => id)).toSorted(),
          results: messages.filter(({ tool_call_id }: Inner) => tool_call_id !== undefined) as Inner[],
        };
      };
      const openWaits = async (thread: string) => {
        const { transcript } = (await server.get(`/chat/sessions/${thread}`, alice)).json;
        return transcript.filter(({ metadata }: Item) => metadata?.type === "wait_opened").length;
      };
      for (const thread of ["of-crew", "of-trio"])
        await eventually("three questions", async () => (await openWaits(thread)) === 3 || undefined);
      await eventually("a run that is suspended", async () => {
        const rows = await database.rows("SELECT status FROM runs WHERE status = 'waiting'", server.dataDir);
        return rows.length === 1 || undefined;
      });

      await server.kill();
      await server.restart();

      const decide = (id: string) => server.post(`/approvals/${id}/decide`, { decision: "approved" }, alice);
      const [lost, suspended] = [await inner("of-crew"), await inner("of-trio")];
      assert.equal(lost.asked.length, 3);
      assert.deepEqual(lost.results.map(({ tool_call_id }) => tool_call_id).toSorted(), lost.asked);
      for (const { content } of lost.results) assert.match(content ?? "", /^\[tool error\/interrupted\] /);
      assert.equal((await decide(gates[0] as string)).json.error, "approval_not_pending");
      assert.deepEqual([suspended.asked.length, suspended.results], [3, []]);
      assert.equal((await decide(gates[1] as string)).status, 200);
    });
  });
}
