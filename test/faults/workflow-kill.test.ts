// Runs of workflows whose server is killed during their steps. See also test/actors/workflow/simulation.test.ts.
import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { before, describe, test } from "node:test";
import { never, says } from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
import { type MockModel, startMockModel } from "../support/mock-model.ts";
import { apiKeys, manifestEnv, modelEnv, type ProcessServer, startServerProcess } from "../support/server.ts";
import { gateDialects } from "../support/stores.ts";
import { cleanup, tempDir } from "../support/temp.ts";
import { databaseOf, skipPostgres } from "./support.ts";

const { env, keys } = apiKeys({ ann: { sub: "ann", scopes: ["workflows:write", "approvals:write", "chat:read"] } });

/**
 * A plugin with a tool of effect once. It does not return while the first file exists, and writes its calls to the second. Steps of its kind
 * `echo` wait while the first file exists.
 */
const payingPlugin = (held: string, paid: string): string => `import { appendFileSync, existsSync } from "node:fs";
import { defineTool } from "svc/actors/tools/tool.ts";
import { Type } from "typebox";
const pay = defineTool({ name: "pay", description: "Pays.", parameters: Type.Object({}), effect: "once", risk: "spends",
  timeoutMs: 600_000,
  async execute() {
    appendFileSync(${JSON.stringify(paid)}, "x");
    if (existsSync(${JSON.stringify(held)})) await new Promise(() => {});
    return { text: "Paid." };
  } });
const echo = { kind: "echo", description: "Echoes.", config: Type.Object({}), inputs: [],
  outputs: [{ name: "text", type: "text", required: true }],
  advance: async () => (existsSync(${JSON.stringify(held)}) ? { again_seconds: 1 } : { output: { text: "echo" } }) };
export const plugin = { name: "pays", description: "Pays.", tools: [pay], stepKinds: [echo] };`;

for (const dialect of gateDialects) {
  describe(`workflows and SIGKILL, on ${dialect}`, { skip: dialect === "postgres" && skipPostgres }, () => {
    const atEnd = cleanup();
    let server: ProcessServer;
    let mock: MockModel;
    let held: string;
    let paid: string;
    let count = 0;
    before(async () => {
      mock = await startMockModel();
      atEnd.after(() => mock.close());
      const database = await databaseOf(dialect, atEnd);
      const place = mkdtempSync(join(tempDir(atEnd), "pays-"));
      [held, paid] = [join(place, "held"), join(place, "paid")];
      const plugin = join(place, "pays.ts");
      writeFileSync(plugin, payingPlugin(held, paid));
      server = await startServerProcess({
        atEnd,
        env: {
          ...modelEnv(mock, ["scripted"]),
          ...manifestEnv(atEnd, { agent: { tools: ["pay", "calculator"] } }),
          SVC_PLUGINS: plugin,
          ...env,
          ...database.env,
        },
      });
    });

    const as = { key: keys.ann };
    const get = (path: string) => server.get(path, as);
    const post = (path: string, body: object) => server.request("POST", path, { ...as, body });
    const step = (id: string, kind: string, config: object, more: object = {}) => ({ id, kind, config, ...more });
    async function begin(definition: object): Promise<string> {
      const id = `killed-${++count}`;
      const saved = await server.request("PUT", `/workflows/${id}`, { ...as, body: { name: id, definition } });
      assert.equal(saved.status, 201, saved.text);
      const { status, json, text } = await post(`/workflows/${id}/runs`, { inputs: {} });
      assert.equal(status, 202, text);
      return `/workflows/${id}/runs/${json.run_id}`;
    }
    const ended = (path: string) =>
      eventually(`the end of ${path}`, async () => {
        const { json } = await get(path);
        return json.finished_at !== null && json;
      });

    test("WF-009 a run of each kind continues after a kill in each of its model calls", async () => {
      const asked = () => mock.requests.length;
      mock.answer("scripted", says(never));
      const item = { kind: "agent", config: { manifest: "agent", prompt: "{{item}}" } };
      const path = await begin({
        steps: [
          step("ask", "agent", { manifest: "agent", prompt: "hi" }),
          step("sum", "tool_call", { manifest: "agent", tool: "calculator", args: { expression: "6 * 7" } }),
          step("is", "condition", { expr: "steps.sum.output == 42" }, { needs: ["ask"] }),
          step("each", "map", { items: ["x", "y"], max_parallel: 1, step: item }, { when: "{{steps.is.true}}" }),
          step("rest", "wait", { seconds: 0.01 }, { needs: ["each"] }),
          step("all", "merge", { values: ["$steps.ask.text", "$steps.each.results"] }, { needs: ["rest"] }),
          step("end", "template", { text: "{{steps.all.values}}" }),
        ],
        outputs: { text: "$steps.end.text" },
      });

      for (const calls of [1, 3, 5]) {
        await eventually(`model call ${calls}`, async () => asked() >= calls);
        await server.kill();
        const answers = ["one", "two", "three"].slice((calls - 1) / 2);
        mock.answer("scripted", () => {
          const text = answers.shift();
          // Answers the repeated call, and does not answer the next one.
          const isRepeated = answers.length === 2 - (calls - 1) / 2;
          return isRepeated ? { text: text ?? "" } : says(never);
        });
        await server.restart();
      }

      const record = await ended(path);
      assert.deepEqual(record.outputs, { text: '["one",["two","three"]]' }, record.error);
      assert.ok(record.steps.every(({ attempt }: { attempt: number }) => attempt === 1));
      assert.equal(asked(), 6);
    });

    test("WF-009 a killed call of effect once is repeated only by a person's decision", async () => {
      writeFileSync(held, "");
      writeFileSync(paid, "");
      const call = { manifest: "agent", tool: "pay", args: {} };
      const retry = { max: 2, backoff_seconds: 1 };
      const definition = { steps: [step("pay", "tool_call", call, { retry })], outputs: { it: "$steps.pay.output" } };
      const [again, never] = [await begin(definition), await begin(definition)];
      await eventually("both calls", async () => readFileSync(paid, "utf8") === "xx");

      await server.kill();
      rmSync(held);
      await server.restart();
      const asked = await eventually("both questions", async () => {
        const { items } = (await get("/approvals?status=pending")).json;
        return items.length === 2 && items;
      });
      const threadOf = async (path: string) => (await get(path)).json.steps[0].thread_id;
      const decide = async (path: string, decision: string) => {
        const thread = await threadOf(path);
        const { approval_id } = asked.find(({ thread_id }: { thread_id: string }) => thread_id === thread);
        return post(`/approvals/${approval_id}/decide`, { decision });
      };
      await decide(again, "approved");
      await decide(never, "denied");
      const [repeated, refused] = [await ended(again), await ended(never)];

      assert.ok(asked.every(({ rule_id }: { rule_id: string }) => rule_id === "outcome-unknown"));
      assert.deepEqual(repeated.outputs, { it: "Paid." }, repeated.error);
      assert.equal(refused.status, "failed");
      assert.match(refused.error, /^step_failed: pay: [\s\S]*not tried again/);
      assert.ok([repeated, refused].every(({ steps }) => steps[0].attempt === 1));
      assert.equal(readFileSync(paid, "utf8"), "xxx");
    });

    test("WF-009 a run whose plugin is missing after a restart waits, and can be cancelled", async () => {
      writeFileSync(held, "");
      const path = await begin({
        steps: [
          step("open", "echo", {}),
          step("pause", "wait", { seconds: 1 }),
          step("late", "echo", {}, { needs: ["pause"] }),
        ],
        outputs: { text: "$steps.late.text" },
      });
      const stepsOf = async () => (await get(path)).json.steps as { step_id: string; status: string; error: string }[];
      await eventually("the call of the plugin", async () => (await stepsOf())[0]?.status === "waiting");

      await server.kill();
      rmSync(held);
      await server.restart({ SVC_PLUGINS: "" });
      const late = await eventually("the step without its kind", async () =>
        (await stepsOf()).find(({ step_id, error }) => step_id === "late" && error !== null),
      );
      const waiting = (await get(path)).json;
      const cancelled = await post(`${path}/cancel`, {});

      assert.deepEqual([late.status, late.error], ["waiting", "missing_kind: echo"]);
      assert.deepEqual([waiting.status, waiting.finished_at], ["waiting", null]);
      assert.equal(cancelled.status, 202, cancelled.text);
      assert.equal((await ended(path)).status, "cancelled");
    });
  });
}
