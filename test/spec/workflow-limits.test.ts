// What ends a run of a workflow or a step early: budgets, time limits, cancels between two tries.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { databaseOf, skipPostgres } from "../faults/support.ts";
import { never, says, startChat } from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
import { failure } from "../support/mock-model/behaviours.ts";
import type { MockModel } from "../support/mock-model.ts";
import { apiKeys, type TestServer } from "../support/server.ts";
import { gateDialects } from "../support/stores.ts";
import { cleanup } from "../support/temp.ts";

const { env, keys } = apiKeys({ ann: { sub: "ann", scopes: ["workflows:write", "approvals:write", "runs:read"] } });

/** Rates of the mock model are 2 and 8 USD per million tokens, so a reply of 1,000 tokens costs 0.008 USD. */
const replyUsd = 0.008;

for (const dialect of gateDialects)
  describe(`the limits of workflows, on ${dialect}`, { skip: dialect === "postgres" && skipPostgres }, () => {
    const atEnd = cleanup();
    let server: TestServer;
    let mock: MockModel;
    let count = 0;
    before(async () => {
      const database = await databaseOf(dialect, atEnd);
      ({ server, mock } = await startChat(atEnd, {
        models: ["scripted", "failing", "held"],
        routes: { unpriced: { provider: "openai", model: "scripted" } },
        manifests: {
          agent: { model: { id: "scripted", max_tokens: 1_000 } },
          broken: { model: { id: "failing" } },
          gated: { tools: ["calculator"], approvals: [{ id: "sums", tools: ["calculator"] }] },
          slow: { model: { id: "held" } },
          unpriced: { model: { id: "unpriced" } },
        },
        env: { ...env, ...database.env, SVC_FIBER_MAX_ATTEMPTS: "1" },
      }));
      // The longest reply that the request allows.
      mock.answer("scripted", ({ body }) => {
        const completion_tokens = Number(body.max_completion_tokens ?? body.max_tokens ?? 1_000);
        return { text: "Done.", usage: { prompt_tokens: 0, completion_tokens, total_tokens: completion_tokens } };
      });
      mock.answer("failing", failure(400));
      mock.answer("held", says(never));
    });

    const as = { key: keys.ann };
    const get = (path: string) => server.get(path, as);
    const post = (path: string, body: object) => server.request("POST", path, { ...as, body });
    const step = (id: string, kind: string, config: object, more: object = {}) => ({ id, kind, config, ...more });
    const asked = (model: string) => mock.requests.filter(({ body }) => body.model === model).length;
    async function begin(definition: object): Promise<string> {
      const id = `limited-${++count}`;
      const saved = await server.request("PUT", `/workflows/${id}`, { ...as, body: { name: id, definition } });
      assert.equal(saved.status, 201, saved.text);
      const started = await post(`/workflows/${id}/runs`, { inputs: {} });
      assert.equal(started.status, 202, started.text);
      return `/workflows/${id}/runs/${started.json.run_id}`;
    }
    const ended = (path: string) =>
      eventually(`the end of ${path}`, async () => {
        const { json } = await get(path);
        return json.finished_at !== null && json;
      });
    const stepOf = async (path: string, id: string) =>
      (await get(path)).json.steps.find(({ step_id }: { step_id: string }) => step_id === id);

    test("WF-009 a budget that ends in mid-map is never exceeded, and fails the run", async () => {
      const max_cost_usd = 0.05;
      const before = asked("scripted");
      const items = Array.from({ length: 20 }, (_, at) => at);
      const inner = { kind: "agent", config: { manifest: "agent", prompt: "{{item}}" }, on_error: "continue" };
      const path = await begin({
        steps: [step("m", "map", { items, max_parallel: 8, step: inner }, { on_error: "continue" })],
        limits: { max_cost_usd },
      });

      const record = await ended(path);

      const replies = asked("scripted") - before;
      assert.equal(record.status, "failed");
      assert.match(record.error, /^budget_exceeded: .* 0\.05 USD/);
      assert.ok(replies * replyUsd <= max_cost_usd + replyUsd, `${replies} replies`);
      assert.ok(record.cost_usd > max_cost_usd / 2 && record.cost_usd <= max_cost_usd, `${record.cost_usd} USD`);
      assert.ok(record.steps.every(({ status }: { status: string }) => status === "cancelled" || status === "failed"));
    });

    test("WF-009 a run with a budget calls no model without a price", async () => {
      const definition = (limits: object) => ({
        steps: [step("a", "agent", { manifest: "unpriced", prompt: "hi" })],
        limits,
      });

      const limited = await ended(await begin(definition({ max_cost_usd: 1 })));
      const free = await ended(await begin(definition({})));

      assert.match(limited.error, /^budget_exceeded: .*without a price/);
      assert.equal(free.status, "succeeded", free.error);
    });

    test("WF-009 a step that works too long is stopped, tried again, and fails by name", async () => {
      const before = asked("held");
      const more = { timeout_seconds: 1, retry: { max: 1, backoff_seconds: 1 }, on_error: "continue" };
      const path = await begin({
        steps: [
          step("late", "agent", { manifest: "slow", prompt: "hi" }, more),
          step("after", "template", { text: "[{{steps.late.text}}]" }),
        ],
        outputs: { text: "$steps.after.text" },
      });

      const record = await ended(path);

      const late = record.steps.find(({ step_id }: { step_id: string }) => step_id === "late");
      assert.equal(record.status, "succeeded", record.error);
      assert.deepEqual(record.outputs, { text: "[]" });
      assert.deepEqual([late.status, late.attempt], ["failed", 2]);
      assert.match(late.error, /^timeout: .* 1 seconds/);
      assert.equal(asked("held") - before, 2);
    });

    test("WF-009 a wait for a person does not count against the time limit of a step", async () => {
      const sum = { manifest: "gated", tool: "calculator", args: { expression: "6 * 7" } };
      const path = await begin({
        steps: [
          step("sum", "tool_call", sum, { timeout_seconds: 1 }),
          step("ask", "approval", { message: "Really?", ttl_seconds: 60 }, { timeout_seconds: 1 }),
          step("clock", "wait", { seconds: 2 }),
          step("tick", "template", { text: "tock" }, { needs: ["clock"] }),
        ],
        outputs: { sum: "$steps.sum.output", ask: "$steps.ask.approved" },
      });
      await eventually("two seconds have passed", async () => (await stepOf(path, "tick")).status === "succeeded");
      const { items } = (await get("/approvals?status=pending")).json;

      for (const { approval_id } of items) await post(`/approvals/${approval_id}/decide`, { decision: "approved" });

      const record = await ended(path);
      assert.equal(items.length, 2);
      assert.deepEqual(record.outputs, { sum: 42, ask: true }, record.error);
    });

    test("WF-011 a cancel between two tries ends the run at once", async () => {
      const before = asked("failing");
      const retry = { max: 3, backoff_seconds: 3_600 };
      const path = await begin({ steps: [step("a", "agent", { manifest: "broken", prompt: "hi" }, { retry })] });
      await eventually("the pause after the first try", async () => (await stepOf(path, "a")).status === "waiting");

      const cancelled = await post(`${path}/cancel`, {});

      const record = await ended(path);
      assert.equal(cancelled.status, 202);
      assert.equal(record.status, "cancelled");
      assert.deepEqual([record.steps[0].status, record.steps[0].attempt], ["cancelled", 1]);
      assert.equal(asked("failing") - before, 1);
    });

    test("WF-009 a condition whose values are too large fails its step by name", async () => {
      const big = "x".repeat(200 * 1024);
      const inputs = { all: "{{steps.a.text}}".repeat(30) };
      const path = await begin({
        steps: [
          step("a", "template", { text: big }),
          step("b", "template", { text: "x" }, { inputs, when: "input.all contains 'y'" }),
        ],
      });

      const record = await ended(path);

      assert.match(record.error, /^step_failed: b: expansion_too_large/);
    });

    test("WF-008 lists cut long values, and streams leave the results of maps out", async () => {
      const big = "x".repeat(100_000);
      const inner = { kind: "template", config: { text: "{{steps.a.text}}" } };
      const path = await begin({
        steps: [step("a", "template", { text: big }), step("m", "map", { items: [1, 2], step: inner })],
        outputs: { text: "$steps.a.text" },
      });
      const whole = await ended(path);
      const { items } = (await get(path.slice(0, path.lastIndexOf("/")))).json;
      const frames = (await get(`${path}/stream`)).text;

      const shown = JSON.parse(/^data: (\{.*)$/m.exec(frames)?.[1] ?? "null").data;
      assert.equal(whole.steps[0].output.text, big);
      assert.deepEqual(whole.steps[1].output.results, [big, big]);
      for (const record of [items[0], shown]) {
        assert.ok(record.steps[0].output.text.length < 5_000);
        assert.ok(record.outputs.text.length < 5_000);
        assert.equal(record.steps[1].output, null);
      }
    });

    test("WF-005 a stored revision is read by its number, also of a deleted workflow", async () => {
      const path = await begin({ steps: [step("a", "template", { text: "one" })] });
      const workflow = path.slice(0, path.indexOf("/runs"));
      const definition = { steps: [step("a", "template", { text: "two" })] };
      await server.request("PUT", workflow, { ...as, body: { name: "x", definition } });

      const [newest, old, unknown] = [
        await get(workflow),
        await get(`${workflow}?revision=1`),
        await get(`${workflow}?revision=3`),
      ];
      await server.request("DELETE", workflow, as);
      const [gone, kept] = [await get(workflow), await get(`${workflow}?revision=1`)];

      assert.deepEqual([newest.json.revision, newest.json.definition.steps[0].config.text], [2, "two"]);
      assert.deepEqual([old.json.revision, old.json.definition.steps[0].config.text], [1, "one"]);
      assert.equal(old.headers.etag, '"1"');
      assert.deepEqual([unknown.status, gone.status, kept.status], [404, 404, 200]);
      assert.deepEqual(kept.json.definition, old.json.definition);
    });
  });
