// A durable run resumes with the manifest text of its acceptance, whatever happens to the manifest (decision 101).
import assert from "node:assert/strict";
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { before, describe, test } from "node:test";
import { calls, inTurn, says, systemOf, turn } from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
import { type MockModel, startMockModel } from "../support/mock-model.ts";
import { apiKeys, manifestEnv, modelEnv, type ProcessServer, startServerProcess } from "../support/server.ts";
import { gateDialects } from "../support/stores.ts";
import { cleanup, tempDir } from "../support/temp.ts";
import { databaseOf, skipPostgres } from "./support.ts";

const { env, keys } = apiKeys({
  alice: { scopes: ["*"] },
  eve: { tenant_id: "globex", scopes: ["*"] },
});
const over = ["completed", "failed", "expired", "dead"];
const gate = [{ id: "sums", tools: ["calculator"], ttl_seconds: 600 }];
/** A plugin whose provider calls for one sum. */
const askerPlugin = `
const usage = { input: 1, output: 1, cacheRead: 0, cacheWrite: 0 };
const start = ({ messages }) => {
  const isAsked = JSON.parse(messages).at(-1).role !== "tool";
  const sum = { id: "sum", name: "calculator", arguments: '{"expression":"6*7"}' };
  const said = isAsked ? { text: "", tool_calls: [sum], stop_reason: "tool_use" } : { text: "It is 42.", tool_calls: [], stop_reason: "end_turn" };
  return { reply: Promise.resolve({ reasoning: "", usage, ...said }), abort() {}, pause() {}, resume() {} };
};
export const plugin = {
  name: "asker",
  description: "A provider that asks for one sum.",
  modelProviders: [{ name: "asker", open: () => ({ name: "asker", start }) }],
};`;
const asks = { tools: ["calculator"], approvals: gate, execution: { mode: "durable" } };

for (const dialect of gateDialects) {
  describe(`the manifest of a durable run, on ${dialect}`, { skip: dialect === "postgres" && skipPostgres }, () => {
    const atEnd = cleanup();
    let server: ProcessServer;
    let mock: MockModel;
    let files: string;
    let good: Record<string, string>;
    before(async () => {
      mock = await startMockModel();
      atEnd.after(() => mock.close());
      const database = await databaseOf(dialect, atEnd);
      const filed = { model: { id: "first" }, system_prompt: { inline: "The old words." }, ...asks };
      const directory = manifestEnv(atEnd, { filed });
      files = directory.SVC_MANIFEST_DIR as string;
      const models = modelEnv(mock, ["first", "second"]);
      const sealed = { sealed: { provider: "own", model: "sealed" } };
      good = {
        SVC_MODEL_ROUTES: JSON.stringify({ ...JSON.parse(models.SVC_MODEL_ROUTES as string), ...sealed }),
        SVC_MODEL_PROVIDERS: JSON.stringify({ own: { base_url: mock.url, api_key: "secret:SEAL" } }),
        SVC_SECRET_SEAL: "mock-provider-key",
        // No server: the run that needs it waits before it uses its queue.
        SVC_REDIS_URL: "redis://127.0.0.1:1",
        SVC_PLUGINS: "./plugins/chaos/chaos.ts",
      };
      server = await startServerProcess({ atEnd, env: { ...models, ...good, ...directory, ...env, ...database.env } });
    });

    const put = async (name: string, words: string, spec: object = {}, key = keys.alice) => {
      const own = { model: { id: "first" }, system_prompt: { inline: words }, ...spec };
      const body = { manifest: { metadata: { name }, spec: own } };
      const { status, json } = await server.request("PUT", `/manifests/${name}`, { body, key });
      assert.ok(status === 200 || status === 201, JSON.stringify(json));
    };
    // biome-ignore lint/suspicious/noExplicitAny: looked into field by field
    const until = (token: string, key: string, ...statuses: readonly string[]): Promise<any> =>
      eventually(`${token} as ${statuses}`, async () => {
        const { json } = await server.get(`/runs/${token}`, { key });
        return statuses.includes(json.status) ? json : undefined;
      });
    async function park(manifest: string, key = keys.alice): Promise<{ token: string; approval: string }> {
      const { status, json } = await server.post("/chat", turn(manifest, "sum"), { key });
      assert.equal(status, 202, JSON.stringify(json));
      const { waiting_on } = await until(json.resume_token, key, "waiting");
      return { token: json.resume_token, approval: waiting_on.id };
    }
    async function goOn({ token, approval }: { token: string; approval: string }, key = keys.alice) {
      await server.post(`/approvals/${approval}/decide`, { decision: "approved" }, { key });
      return until(token, key, ...over);
    }
    /** The model's last messages and its offered tools. */
    const last = () => {
      const request = mock.requests.at(-1);
      const tools = (request?.body.tools ?? []) as { function: { name: string } }[];
      return { words: systemOf(request) ?? "", tools: tools.map((tool) => tool.function.name) };
    };

    test("DUR-008 a run resumes with its accepted text after changes, deletion or another's upload", async () => {
      mock.answer("first", inTurn(calls(["calculator", { expression: "6*7" }]), says("It is 42.")));
      await put("agent", "The old words.", asks);
      await put("agent", "The words of globex.", asks, keys.eve);
      const [changed, theirs] = [await park("agent"), await park("agent", keys.eve)];

      await put("agent", "The new words.", { execution: { mode: "durable" } });
      const warm = await goOn(changed);
      const afterChange = last();
      const gone = await park("filed");
      rmSync(join(files, "filed.json"));
      await server.kill();
      await server.restart();
      const cold = await goOn(gone);
      const afterDelete = last();
      const foreign = await goOn(theirs, keys.eve);
      const ofGlobex = last();
      const refused = await server.post("/chat", turn("filed", "sum"), { key: keys.alice });

      assert.deepEqual(
        [warm, cold, foreign].map(({ status, final }) => [status, final?.content]),
        Array(3).fill(["completed", "It is 42."]),
      );
      for (const { words, tools } of [afterChange, afterDelete]) {
        assert.ok(words.includes("The old words."), words);
        assert.deepEqual(tools, ["calculator"]);
      }
      assert.ok(ofGlobex.words.includes("The words of globex."), ofGlobex.words);
      assert.deepEqual([refused.status, refused.json.error], [404, "unknown_manifest:filed"]);
    });

    test("DUR-008 a resume without its settings is a failed step, counted at start and curable", async () => {
      mock.answer("first", inTurn(calls(["calculator", { expression: "6*7" }]), says("It is 42.")));
      mock.answer("second", inTurn(calls(["calculator", { expression: "6*7" }]), says("It is 42.")));
      await put("lacks-route", "Second.", { ...asks, model: { id: "second" } });
      await put("lacks-plugin", "Notes.", { ...asks, tools: ["calculator", "chaos_look"] });
      await put("lacks-secret", "Secret.", { ...asks, model: { id: "sealed" } });
      mock.answer("sealed", inTurn(calls(["calculator", { expression: "6*7" }]), says("It is 42.")));
      const queues = [{ name: "fetch", description: "Fetches.", queue_binding: "fetches" }];
      await put("lacks-redis", "Queue.", { ...asks, queues });
      const names = ["lacks-route", "lacks-plugin", "lacks-secret", "lacks-redis"];
      const parked = await Promise.all(names.map((name) => park(name)));
      const { second: _gone, ...routes } = JSON.parse(good.SVC_MODEL_ROUTES as string);
      const slips = {
        SVC_MODEL_ROUTES: JSON.stringify(routes),
        SVC_PLUGINS: "",
        SVC_SECRET_SEAL: "",
        SVC_REDIS_URL: "",
      };
      await server.kill();
      await server.restart(slips);
      const warned = await eventually("the warning", async () =>
        server.logs.find(({ msg }) => String(msg).includes("cannot be resumed with these settings: each")),
      );
      for (const { approval } of parked)
        await server.post(`/approvals/${approval}/decide`, { decision: "approved" }, { key: keys.alice });
      const resting = await Promise.all(
        parked.map(({ token }) =>
          eventually(`a failed step of ${token}`, async () => {
            const { json } = await server.get(`/runs/${token}`, { key: keys.alice });
            return json.waiting_on?.kind === "retry" ? json : undefined;
          }),
        ),
      );
      const timelines = await Promise.all(
        parked.map(async ({ token }) => (await server.get(`/runs/${token}/timeline`, { key: keys.alice })).json),
      );
      await server.kill();
      await server.restart(good);
      for (const { token } of parked) await server.post(`/runs/${token}/retry`, {}, { key: keys.alice });
      const ended = await Promise.all(parked.map(({ token }) => until(token, keys.alice, ...over)));

      assert.equal(warned.runs, 4, JSON.stringify(warned));
      assert.match(JSON.stringify(warned.reasons), /unresolved_secret:SEAL/);
      assert.deepEqual(
        resting.map(({ status, error }) => [status, error]),
        Array(4).fill(["waiting", null]),
      );
      assert.deepEqual(
        timelines.map(({ attempts }) => attempts),
        [1, 1, 1, 1],
        "a failed step rests, whatever it waits for",
      );
      assert.deepEqual(
        ended.map(({ status, final }) => [status, final?.content]),
        Array(4).fill(["completed", "It is 42."]),
      );
    });

    test("DUR-012 so is a provider without credential or plugin; its dead run can be requeued", async () => {
      mock.answer("lent", inTurn(calls(["calculator", { expression: "6*7" }]), says("It is 42.")));
      const asker = join(tempDir(atEnd), "asker.js");
      writeFileSync(asker, askerPlugin);
      const routes = JSON.parse(good.SVC_MODEL_ROUTES as string);
      const credential = { base_url: mock.url, api_key: "mock-provider-key" };
      const lent = { lent: { provider: "deepseek", model: "lent" } };
      const whole = {
        SVC_REDIS_URL: "",
        SVC_PLUGINS: `${good.SVC_PLUGINS},${asker}`,
        SVC_MODEL_ROUTES: JSON.stringify({ ...routes, ...lent, asked: { provider: "asker", model: "asked" } }),
        SVC_MODEL_PROVIDER_OPTIONS: JSON.stringify({ openai: credential, deepseek: credential }),
      };
      const slips = {
        SVC_REDIS_URL: "",
        SVC_PLUGINS: good.SVC_PLUGINS as string,
        SVC_MODEL_ROUTES: JSON.stringify({ ...routes, ...lent }),
        SVC_MODEL_PROVIDER_OPTIONS: JSON.stringify({ openai: credential }),
      };
      const post = (path: string) => server.post(path, {}, { key: keys.alice });
      await server.restart({ ...good, ...whole });
      await put("lacks-credential", "Lent.", { ...asks, model: { id: "lent" } });
      await put("lacks-provider", "Asked.", { ...asks, model: { id: "asked" } });
      const parked = await Promise.all(["lacks-credential", "lacks-provider"].map((name) => park(name)));

      await server.kill();
      await server.restart({ ...good, ...slips, SVC_FIBER_MAX_ATTEMPTS: "1" });
      const warned = await eventually("the warning", async () =>
        server.logs.find(({ msg }) => String(msg).includes("cannot be resumed with these settings: each")),
      );
      const ready = await server.get("/ready");
      const dead = await Promise.all(parked.map((each) => goOn(each)));
      const early = await Promise.all(parked.map(({ token }) => post(`/runs/${token}/requeue`)));
      await server.kill();
      await server.restart({ ...good, ...whole });
      const requeued = await Promise.all(parked.map(({ token }) => post(`/runs/${token}/requeue`)));
      const ended = await Promise.all(requeued.map(({ json }) => until(json.resume_token, keys.alice, ...over)));

      assert.equal(warned.runs, 2, JSON.stringify(warned));
      assert.equal(ready.status, 200, ready.text);
      assert.deepEqual(
        dead.map(({ status, error }) => [status, error]),
        [
          ["dead", "model_not_configured"],
          ["dead", "invalid_manifest"],
        ],
      );
      assert.deepEqual(
        early.map(({ status, json }) => [status, json.error.split(":")[0]]),
        [
          [503, "model_not_configured"],
          [422, "invalid_manifest"],
        ],
      );
      assert.deepEqual(
        ended.map(({ status, final }) => [status, final?.content]),
        Array(2).fill(["completed", "It is 42."]),
      );
      await server.restart(good);
    });

    test("DUR-008 sub-agents resume with their accepted text too", async () => {
      const member = inTurn(calls(["calculator", { expression: "6*7" }]), says("It is 42."));
      mock.answer("second", member);
      mock.answer("first", says("Merged."));
      await put("member", "The member's old words.", {
        model: { id: "second" },
        tools: ["calculator"],
        approvals: gate,
      });
      await put("team", "The team.", { pattern: "parallel", sub_agents: ["member"], execution: { mode: "durable" } });
      const parked = await park("team");

      await put("member", "The member's new words.", { model: { id: "second" } });
      await put("team", "Nobody.");
      await server.kill();
      await server.restart();
      const ended = await goOn(parked);

      const asked = mock.requests.filter(({ model }) => model === "second").at(-1);
      assert.equal(ended.status, "completed", JSON.stringify(ended));
      assert.match(JSON.stringify(asked?.body), /The member's old words/);
    });
  });
}
