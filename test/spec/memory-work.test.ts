// The work of memory that meets a failure, a spent budget, a limit or a freeze: what it still counts, and when it ends.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { startChat, turn } from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
import { answersFacts, capturedFacts, factsOf } from "../support/fact-models.ts";
import { failure } from "../support/mock-model/behaviours.ts";
import type { MockModel } from "../support/mock-model.ts";
import { changeIn, rowsIn } from "../support/rows-in.ts";
import { sqliteIn } from "../support/seed.ts";
import { apiKeys, type TestServer } from "../support/server.ts";
import { cleanup } from "../support/temp.ts";

const capture = { enabled: true, model: "captor", min_chars: 1 };
const merging = {
  memory: {
    capture: { ...capture, max_facts: 20 },
    consolidate: { enabled: true, model: "merger", after_facts: 10 },
  },
};
const tenFacts = Array.from({ length: 10 }, (_, at) => `FACT Fact ${"abcdefghij"[at]} is known.`).join("\n");

describe("the work of memory", () => {
  const atEnd = cleanup();
  const { env, keys } = apiKeys({ ann: { tenant_id: "acme", scopes: ["*"] } });
  let server: TestServer;
  let mock: MockModel;
  before(async () => {
    ({ server, mock } = await startChat(atEnd, {
      models: ["scripted", "captor", "halting", "merger"],
      manifests: {
        halting: { memory: { capture: { ...capture, model: "halting", verify: true } } },
        narrow: { memory: { capture }, limits: { max_input_tokens: 150 } },
        spent: { memory: { capture } },
        little: { memory: { capture }, model: { max_tokens: 100 } },
        waking: { memory: { capture } },
        merging,
        failing: merging,
      },
      env: {
        ...env,
        SVC_BUDGETS: JSON.stringify([
          { id: "halting", tenant: "acme", manifest: "halting", period: "month", tokens: 1_000_000 },
          { id: "spent", tenant: "acme", manifest: "spent", period: "month", tokens: 20_000 },
          { id: "little", tenant: "acme", manifest: "little", period: "month", tokens: 2_000 },
        ]),
      },
    }));
    mock.answer("scripted", { text: "ok" });
    mock.answer("captor", answersFacts);
  });

  async function chat(manifest: string, text: string) {
    const body = turn(manifest, text, { thread_id: `of-${manifest}` });
    const answer = await server.request("POST", "/chat", { key: keys.ann, body });
    assert.equal(answer.status, 200, answer.text);
  }
  const sql = (query: string) => changeIn(sqliteIn(server.dataDir), query);
  const found = async (query: string) => (await rowsIn(sqliteIn(server.dataDir), query)) as Record<string, number>[];
  const asked = (model: string) => mock.requests.filter((request) => request.model === model).length;
  const waiting = (manifest: string) => found(`SELECT * FROM captures WHERE manifest_id = '${manifest}'`);
  const pool = async (manifest: string) =>
    (await found(`SELECT * FROM memory_pools WHERE manifest_id = '${manifest}'`))[0];
  const has = (manifest: string, count: number, status = "active") =>
    eventually(`${count} ${status} memories of ${manifest}`, async () => {
      const path = `/memory?manifest_id=${manifest}&status=${status}&limit=100`;
      return (await server.get(path, { key: keys.ann })).json.items.length === count || undefined;
    });
  const runTask = () => server.request("POST", "/tasks/consolidate_memory/run", { key: keys.ann });

  test("MEM-018 a capture whose second call fails has counted its first one, in usage and budgets", async () => {
    const usage = { prompt_tokens: 300, completion_tokens: 45, total_tokens: 345 };
    mock.answer("halting", ({ body }) =>
      factsOf(body).facts === undefined ? { ...capturedFacts(body), usage } : failure(400),
    );
    await chat("halting", "FACT Ann has a cat.");
    await eventually("a failed attempt", async () =>
      (await waiting("halting")).some(({ claimed_by }) => claimed_by === null),
    );
    await eventually("the second call", async () => asked("halting") >= 2 || undefined);
    await eventually("the end of the attempt", async () =>
      (await waiting("halting")).some(({ claimed_by, attempts }) => claimed_by === null && attempts === 1),
    );

    const rows = await found("SELECT tokens_input, tokens_output FROM usage WHERE model_id = 'halting'");
    const { json } = await server.get("/usage/budgets", { key: keys.ann });
    const [turnUsed] = await found(
      "SELECT tokens_input + tokens_output AS used FROM usage WHERE model_id = 'scripted'",
    );

    assert.deepEqual(rows, [{ tokens_input: 300, tokens_output: 45 }]);
    const budget = json.items.find(({ id }: { id: string }) => id === "halting");
    assert.equal(budget.tokens.spent, 345 + (turnUsed?.used ?? 0), JSON.stringify(budget));
  });

  test("MEM-018 a capture over the limits of its manifest ends, without a call", async () => {
    const before = asked("captor");
    await chat("narrow", "FACT Ann has a cat.");
    await eventually("the end of the capture", async () => (await waiting("narrow")).length === 0);

    assert.equal(asked("captor"), before);
    await has("narrow", 0);
  });

  test("MEM-018 a capture that exceeds a whole budget of SVC_BUDGETS ends, without a call", async () => {
    const before = asked("captor");
    await chat("little", "FACT Ann has a cat.");
    await eventually("the end of the capture", async () => (await waiting("little")).length === 0);

    assert.equal(asked("captor"), before);
  });

  test("MEM-018 a capture whose budget is spent pauses, longer each time, and ends after the last pause", async () => {
    mock.answer("scripted", {
      text: "ok",
      usage: { prompt_tokens: 15_000, completion_tokens: 1, total_tokens: 15_001 },
    });
    await chat("spent", "FACT Ann has a cat.");
    mock.answer("scripted", { text: "ok" });
    const paused = (pauses: number) =>
      eventually(`pause ${pauses}`, async () => (await waiting("spent")).find((row) => row.pauses === pauses));
    const first = await paused(1);
    await sql("UPDATE captures SET due_at = 0 WHERE manifest_id = 'spent'");
    await chat("waking", "FACT Ann has a dog.");
    const second = await paused(2);
    await sql("UPDATE captures SET due_at = 0, pauses = 130 WHERE manifest_id = 'spent'");
    await chat("waking", "FACT Ann has a fish.");
    await eventually("the end of the capture", async () => (await waiting("spent")).length === 0);

    const wait = (row: Record<string, number>) => (row.due_at ?? 0) - Date.now();
    assert.equal(first.attempts, 0, "a pause is no attempt");
    assert.ok(wait(second) > 400_000 && wait(second) <= 600_000, String(wait(second)));
  });

  test("MEM-020 a frozen agent's memories are not merged until the freeze ends", async () => {
    mock.answer("merger", { text: '{"duplicates":[[1,2,3]]}' });
    await chat("merging", tenFacts);
    await has("merging", 10);
    const body = { manifest: "merging" };
    await server.request("PUT", "/controls/freeze", { key: keys.ann, body });
    await runTask();
    await eventually("the pool is put off", async () => ((await pool("merging"))?.due_at ?? 0) > Date.now());
    assert.equal(asked("merger"), 0);
    assert.equal((await pool("merging"))?.failures, 0, "a freeze is no failure");

    await server.request("DELETE", "/controls/freeze?manifest=merging", { key: keys.ann });
    await sql("UPDATE memory_pools SET due_at = 0");
    await runTask();

    await has("merging", 2, "superseded");
    assert.equal(asked("merger"), 1);
  });

  test("TASK-010 MEM-020 a pool whose merge fails is put off, and counts as new once it succeeds", async () => {
    mock.answer("merger", failure(400));
    const before = asked("merger");
    await chat("failing", tenFacts);
    await has("failing", 10);
    await runTask();
    const failed = await eventually(
      "a failure",
      async () => (await pool("failing"))?.failures === 1 && (await pool("failing")),
    );
    await runTask();
    assert.ok((failed.due_at ?? 0) > Date.now());
    assert.equal(asked("merger"), before + 1, "the second task asks no model");

    mock.answer("merger", { text: '{"duplicates":[[1,2]]}' });
    await sql("UPDATE memory_pools SET due_at = 0");
    await runTask();
    await has("failing", 1, "superseded");

    const { new_facts, failures, due_at } = (await pool("failing")) ?? {};
    assert.deepEqual([new_facts, failures, due_at], [0, 0, 0]);
  });
});
