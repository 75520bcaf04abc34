// Workflows: saved graphs of steps, and their runs (U-54, decisions 239 to 245 and 259 to 267).
import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { before, describe, test } from "node:test";
import { databaseOf, skipPostgres } from "../faults/support.ts";
import { gate, says, startChat } from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
import { failure } from "../support/mock-model/behaviours.ts";
import type { MockModel } from "../support/mock-model.ts";
import { apiKeys, type TestServer } from "../support/server.ts";
import { gateDialects } from "../support/stores.ts";
import { cleanup } from "../support/temp.ts";

const { env, keys } = apiKeys({
  ann: {
    sub: "ann",
    scopes: [
      "workflows:write",
      "approvals:write",
      "audit:read",
      "chat:read",
      "jobs:write",
      "reports:run",
      "keys:write",
    ],
  },
  jobber: { sub: "joe", scopes: ["jobs:write"] },
  ben: { sub: "ben", scopes: ["workflows:write", "approvals:write"] },
  reader: { sub: "rita", scopes: ["workflows:read"] },
  nobody: { scopes: ["chat:write"] },
  stranger: { tenant_id: "globex", sub: "ann", scopes: ["*"] },
});

const hookSecret = "a secret of sixteen bytes or more";

const greeting = {
  inputs: { name: { type: "string", required: true } },
  steps: [{ id: "greet", kind: "template", config: { text: "Hello {{inputs.name}}!" } }],
  outputs: { text: "$steps.greet.text" },
};

for (const dialect of gateDialects)
  describe(`workflows, on ${dialect}`, { skip: dialect === "postgres" && skipPostgres }, () => {
    const atEnd = cleanup();
    let server: TestServer;
    let mock: MockModel;
    let count = 0;
    before(async () => {
      const database = await databaseOf(dialect, atEnd);
      ({ server, mock } = await startChat(atEnd, {
        models: ["scripted", "failing", "held"],
        manifests: {
          agent: {},
          sums: { tools: ["calculator"] },
          gated: { tools: ["calculator"], approvals: [{ id: "sums", tools: ["calculator"] }] },
          wary: {
            tools: ["calculator"],
            approvals: [{ id: "wary", tools: ["calculator"], when_tainted: ["trigger"] }],
          },
          guarded: { auth: { inbound: { required_scopes: ["reports:run"] } } },
          keyed: { auth: { inbound: { schemes: ["api_key"] } } },
          broken: { model: { id: "failing" } },
          slow: { model: { id: "held" } },
        },
        env: {
          ...env,
          ...database.env,
          SVC_FIBER_MAX_ATTEMPTS: "1",
          SVC_RUNTIME_KEYS: "true",
          SVC_TRIGGERS: JSON.stringify({
            flow: {
              ...{
                tenant: "acme",
                workflow: "triggered",
                scheme: "standard",
                secret: hookSecret,
                scopes: ["reports:run"],
              },
              inputs: { title: "/issue/title", kind: "$event", id: "$delivery", gone: "/nothing/here" },
            },
            tainted: {
              ...{ tenant: "acme", workflow: "tainted", scheme: "standard", secret: hookSecret },
              inputs: { sum: "/sum" },
            },
            schemed: { tenant: "acme", workflow: "schemed", scheme: "standard", secret: hookSecret },
            old: {
              ...{ tenant: "acme", workflow: "triggered", scheme: "standard", secret: hookSecret },
              ...{ revision: 7 },
            },
          }),
        },
      }));
      mock.answer("scripted", ({ body }) => ({
        text: `Echo: ${(body.messages as { content: string }[]).at(-1)?.content}`,
      }));
      mock.answer("failing", failure(400));
    });

    const fresh = (): string => `flow-${++count}`;
    const as = (who: keyof typeof keys) => ({ key: keys[who] });
    const get = (path: string, who: keyof typeof keys = "ann") => server.get(path, as(who));
    const post = (path: string, body: object, who: keyof typeof keys = "ann") =>
      server.request("POST", path, { ...as(who), body });
    const put = (id: string, definition: object, who: keyof typeof keys = "ann", headers = {}) =>
      server.request("PUT", `/workflows/${id}`, { ...as(who), headers, body: { name: `Flow ${id}`, definition } });
    const check = async (definition: unknown) => (await post("/workflows/-/check", { definition })).json;
    const step = (id: string, kind: string, config: object, more: object = {}) => ({ id, kind, config, ...more });

    /** Saves a workflow and starts a run. */
    async function begin(definition: object, inputs: object = {}, who: keyof typeof keys = "ann") {
      const id = fresh();
      const saved = await put(id, definition, who);
      assert.equal(saved.status, 201, saved.text);
      const started = await post(`/workflows/${id}/runs`, { inputs }, who);
      assert.equal(started.status, 202, started.text);
      return `/workflows/${id}/runs/${started.json.run_id}`;
    }

    const until = (path: string, ...statuses: string[]) =>
      eventually(`${path} is ${statuses.join(" or ")}`, async () => {
        const { json } = await get(path);
        return statuses.includes(json.status) && json;
      });
    const ended = (path: string) => until(path, "succeeded", "failed", "cancelled");
    const run = async (definition: object, inputs: object = {}) => ended(await begin(definition, inputs));
    const stateOf = (record: { steps: { step_id: string }[] }, id: string) =>
      record.steps.find(({ step_id }) => step_id === id) as unknown as Record<string, unknown> & {
        output: Record<string, unknown>;
      };

    test("WF-006 a PUT creates with 201, replaces with 200, and each save is a revision", async () => {
      const id = fresh();

      const first = await put(id, greeting);
      const second = await put(id, { ...greeting, outputs: {} });

      assert.deepEqual([first.status, second.status], [201, 200]);
      assert.deepEqual([first.json.revision, second.json.revision], [1, 2]);
      assert.equal(second.headers.etag, '"2"');
      assert.equal(first.json.saved_by, "ann");
    });

    test("WF-005 a workflow is read back as it was saved", async () => {
      const id = fresh();
      await put(id, greeting);

      const { json, headers } = await get(`/workflows/${id}`, "reader");

      assert.deepEqual(json.definition, greeting);
      assert.equal(headers.etag, '"1"');
      assert.equal((await get(`/workflows/${id}`, "nobody")).status, 403);
      assert.equal((await get(`/workflows/${id}`, "stranger")).status, 404);
    });

    test("WF-001 the list is newest first and has no definitions", async () => {
      const [one, two] = [fresh(), fresh()];
      await put(one, greeting);
      await put(two, greeting);
      await put(one, greeting);

      const { json } = await get("/workflows?limit=2");

      assert.deepEqual(
        json.items.map(({ workflow_id }: { workflow_id: string }) => workflow_id),
        [one, two],
      );
      assert.ok(json.items.every((item: object) => !("definition" in item)));
      assert.deepEqual((await get("/workflows", "stranger")).json.items, []);
    });

    test("WF-007 a DELETE with If-Match deletes only that revision", async () => {
      const id = fresh();
      await put(id, greeting);
      await put(id, greeting);
      const remove = (tag?: string) =>
        server.request("DELETE", `/workflows/${id}`, {
          ...as("ann"),
          headers: tag === undefined ? {} : { "if-match": tag },
        });

      const stale = await remove('"1"');
      const forms = ["2", 'W/"2"', '"2', '"two"', '""', '"2",', '"-2"', '*, "2"'];
      const malformed = await Promise.all(forms.map(remove));
      const right = await remove(' "7" , "2" ');
      const again = await remove();
      const anew = await put(id, greeting);

      assert.deepEqual([stale.status, stale.json.error], [412, "revision_mismatch"]);
      for (const [at, { status, json }] of malformed.entries())
        assert.deepEqual([status, json.error], [400, "invalid_header"], forms[at]);
      assert.equal(right.status, 200, right.text);
      assert.equal(again.status, 404);
      assert.deepEqual([anew.status, anew.json.revision], [201, 3]);
    });

    test("WF-006 a PUT with If-Match replaces only that revision", async () => {
      const id = fresh();

      const absent = await put(id, greeting, "ann", { "if-match": "*" });
      await put(id, greeting);
      const stale = await put(id, greeting, "ann", { "if-match": '"7", "8"' });
      const any = await put(id, greeting, "ann", { "if-match": "*" });
      const right = await put(id, greeting, "ann", { "if-match": '"2"' });

      assert.deepEqual(
        [absent, stale, any, right].map(({ status }) => status),
        [412, 412, 200, 200],
      );
    });

    test("WF-003 the kinds have a schema and ports", async () => {
      const { json } = await get("/workflows/-/kinds", "reader");

      const kinds = json.items.map(({ kind }: { kind: string }) => kind);
      assert.deepEqual(kinds, ["agent", "tool_call", "template", "condition", "map", "approval", "wait", "merge"]);
      assert.deepEqual(json.items[0].outputs[0], { name: "text", type: "text", required: true });
    });

    test("WF-004 the tools of a manifest have their schemas", async () => {
      const { json } = await get("/workflows/-/tools?manifest=sums");
      const refused = await get("/workflows/-/tools?manifest=guarded", "ben");

      assert.deepEqual(
        json.items.map(({ name }: { name: string }) => name),
        ["calculator"],
      );
      assert.equal(json.items[0].input_schema.type, "object");
      assert.equal(refused.status, 403);
    });

    test("WF-002 a check names the mistakes and saves nothing", async () => {
      const before = (await get("/workflows")).json.items.length;

      const { ok, problems, ports } = await check({
        steps: [
          step("a", "template", { text: "{{steps.b.text}}" }),
          step("b", "template", { text: "{{steps.a.txt}}" }),
        ],
      });

      assert.equal(ok, false);
      assert.deepEqual(problems.map(({ code }: { code: string }) => code).sort(), ["cycle", "unknown_port"]);
      assert.deepEqual(ports.a.outputs, [{ name: "text", type: "text", required: true }]);
      assert.equal((await get("/workflows")).json.items.length, before);
    });

    test("WF-009 a run of templates ends with its outputs", async () => {
      const record = await run(greeting, { name: "Ann" });

      assert.equal(record.status, "succeeded", record.error);
      assert.deepEqual(record.outputs, { text: "Hello Ann!" });
      assert.equal(record.started_by, "ann");
    });

    test("WF-012 the messages of an agent step are its transcript", async () => {
      const path = await begin(
        {
          inputs: { topic: { type: "text", required: true } },
          steps: [
            step("draft", "agent", { manifest: "agent", prompt: "Write about {{inputs.topic}}" }),
            step("after", "template", { text: "<{{steps.draft.text}}>" }),
          ],
          outputs: { text: "$steps.after.text" },
        },
        { topic: "tides" },
      );
      const record = await ended(path);

      const transcript = await get(`${path}/steps/draft/thread`);
      assert.equal(record.status, "succeeded", record.error);
      assert.deepEqual(record.outputs, { text: "<Echo: Write about tides>" });
      assert.deepEqual(
        transcript.json.messages.map(({ role, content }: { role: string; content: string }) => [role, content]),
        [
          ["user", "Write about tides"],
          ["assistant", "Echo: Write about tides"],
        ],
      );
      assert.equal(transcript.json.thread_id, stateOf(record, "draft").thread_id);
      assert.equal((await get(`${path}/steps/after/thread`)).status, 404);
      assert.equal((await get(`${path}/steps/draft/thread`, "stranger")).status, 404);
    });

    test("WF-009 a tool is called without a model, and its result is a value", async () => {
      const requests = mock.requests.length;
      const record = await run(
        {
          inputs: { a: { type: "number", required: true } },
          steps: [
            step("sum", "tool_call", {
              manifest: "sums",
              tool: "calculator",
              args: { expression: "{{inputs.a}} * 7" },
            }),
            step("big", "condition", { expr: "steps.sum.output > 40" }),
            step("yes", "template", { text: "big: {{steps.sum.output}}" }, { when: "{{steps.big.true}}" }),
            step("no", "template", { text: "small" }, { when: "{{steps.big.false}}" }),
            step("both", "merge", { values: ["$steps.yes.text", "$steps.no.text"] }),
          ],
          outputs: { all: "$steps.both.values" },
        },
        { a: 6 },
      );

      assert.equal(record.status, "succeeded", record.error);
      assert.deepEqual(record.outputs, { all: ["big: 42"] });
      assert.equal(stateOf(record, "no").status, "skipped");
      assert.equal(mock.requests.length, requests);
    });

    test("WF-009 a call with an approval waits for a person", async () => {
      const path = await begin({
        steps: [step("sum", "tool_call", { manifest: "gated", tool: "calculator", args: { expression: "6 * 7" } })],
        outputs: { sum: "$steps.sum.output" },
      });
      const waiting = await until(path, "waiting");
      const thread = stateOf(waiting, "sum").thread_id;
      const asked = await eventually("the approval", async () => {
        const { json } = await get(`/approvals?thread_id=${thread}`);
        return json.items[0];
      });
      await post(`/approvals/${asked.approval_id}/decide`, { decision: "approved" });
      const record = await ended(path);

      assert.equal(record.status, "succeeded", record.error);
      assert.deepEqual(record.outputs, { sum: 42 });
    });

    test("WF-009 an approval step waits for a decision", async () => {
      const definition = {
        steps: [
          step("ask", "approval", { message: "Send it?", ttl_seconds: 60, require_other: true }),
          step("sent", "template", { text: "sent: {{steps.ask.note}}" }, { when: "{{steps.ask.approved}}" }),
        ],
        outputs: { text: "$steps.sent.text" },
      };
      const path = await begin(definition);
      await until(path, "waiting");
      const asked = (await get("/approvals")).json.items.find(
        ({ rule_id }: { rule_id: string }) => rule_id === "workflow:ask",
      );
      const decide = (body: object, who: keyof typeof keys) =>
        post(`/approvals/${asked.approval_id}/decide`, body, who);

      const edited = await decide({ decision: "approved", edited_args: { x: 1 } }, "ben");
      const own = await decide({ decision: "approved" }, "ann");
      const decided = await decide({ decision: "approved", note: "fine" }, "ben");
      const record = await ended(path);

      assert.deepEqual([edited.status, own.json.error, decided.status], [422, "same_principal", 200]);
      assert.equal(asked.tool_name, "workflow");
      assert.equal(asked.manifest_id, "");
      assert.deepEqual(record.outputs, { text: "sent: fine" });
    });

    test("WF-009 neither a key that started the run nor its owner decides where another person must", async () => {
      const id = fresh();
      await put(id, { steps: [step("ask", "approval", { message: "Send it?", require_other: true })], outputs: {} });
      const { json: made } = await post("/keys", { scopes: ["workflows:write"] });
      const started = await server.request("POST", `/workflows/${id}/runs`, { key: made.key, body: { inputs: {} } });
      const path = `/workflows/${id}/runs/${started.json.run_id}`;
      await until(path, "waiting");
      const asked = (await get("/approvals")).json.items.find(
        ({ principal_subj }: { principal_subj: string }) => principal_subj === `key:${made.id}`,
      );
      const decide = (who: keyof typeof keys) =>
        post(`/approvals/${asked.approval_id}/decide`, { decision: "approved" }, who);

      const owner = await decide("ann");
      const other = await decide("ben");

      assert.deepEqual([owner.json.error, other.status], ["same_principal", 200]);
    });

    test("WF-009 WF-012 a map works on each item, keeps their order, and has their transcripts", async () => {
      const path = await begin(
        {
          inputs: { names: { type: "list", required: true } },
          steps: [
            step("each", "map", {
              items: "$inputs.names",
              max_parallel: 3,
              step: { kind: "agent", config: { manifest: "agent", prompt: "{{index}}: {{item}}" } },
            }),
          ],
          outputs: { all: "$steps.each.results" },
        },
        { names: ["a", "b", "c", "d", "e"] },
      );

      const record = await ended(path);
      const transcript = await get(`${path}/steps/each/thread?item=2`);
      const without = await Promise.all(
        ["", "?item=5", "?item=1000"].map((item) => get(`${path}/steps/each/thread${item}`)),
      );

      assert.equal(record.status, "succeeded", record.error);
      assert.deepEqual(
        record.outputs.all,
        ["a", "b", "c", "d", "e"].map((name, at) => `Echo: ${at}: ${name}`),
      );
      assert.deepEqual(
        transcript.json.messages.map(({ content }: { content: string }) => content),
        ["2: c", "Echo: 2: c"],
      );
      assert.deepEqual(
        without.map(({ status }) => status),
        [404, 404, 422],
      );
    });

    test("WF-009 a wait step ends after its time", async () => {
      const record = await run({ steps: [step("pause", "wait", { seconds: 0.0105 })], outputs: {} });

      assert.equal(record.status, "succeeded", record.error);
    });

    test("WF-009 a failed step fails the run; after on_error continue its values are null", async () => {
      const failing = { manifest: "broken", prompt: "hi" };
      const steps = (more: object) => ({
        steps: [
          step("bad", "agent", failing, more),
          step("after", "template", { text: "got {{steps.bad.text}}." }, { needs: ["bad"] }),
        ],
        outputs: { text: "$steps.after.text" },
      });

      const failed = await run(steps({}));
      const went = await run(steps({ on_error: "continue" }));

      assert.equal(failed.status, "failed");
      assert.match(failed.error, /^step_failed: bad: /);
      assert.equal(stateOf(failed, "after").status, "cancelled");
      assert.deepEqual([went.status, went.outputs], ["succeeded", { text: "got ." }]);
      assert.equal(stateOf(went, "bad").status, "failed");
    });

    test("WF-008 runs are listed with the states of their steps", async () => {
      const path = await begin(greeting, { name: "Ann" });
      await ended(path);
      const list = path.slice(0, path.lastIndexOf("/"));
      await post(list, { inputs: { name: "Ben" } });

      const { json } = await get(list);

      assert.equal(json.items.length, 2);
      assert.equal(json.items[1].steps[0].status, "succeeded");
      assert.equal((await get(list, "stranger")).status, 404);
    });

    test("WF-010 a run is read by its id, below its workflow only", async () => {
      const path = await begin(greeting, { name: "Ann" });
      await ended(path);

      const one = await get(path);

      assert.equal(one.json.run_id, path.split("/").at(-1));
      assert.equal((await get(path, "stranger")).status, 404);
      assert.equal((await get(path.replace("flow-", "flaw-"))).status, 404);
    });

    test("WF-011 a cancel stops the work in progress", async () => {
      const held = gate();
      mock.answer("held", says(held.opened, "late"));
      const path = await begin({
        steps: [
          step("work", "agent", { manifest: "slow", prompt: "hi" }),
          step("after", "template", { text: "x" }, { needs: ["work"] }),
        ],
        outputs: {},
      });
      await eventually("the model is asked", async () => mock.requests.some(({ body }) => body.model === "held"));

      const [cancelled, meanwhile] = await Promise.all([post(`${path}/cancel`, {}), post(`${path}/cancel`, {})]);
      const record = await ended(path);
      const again = await post(`${path}/cancel`, {});

      assert.equal(cancelled.status, 202);
      assert.ok([202, 409].includes(meanwhile.status), meanwhile.text);
      assert.ok(["cancelling", "cancelled"].includes(cancelled.json.status));
      assert.equal(record.status, "cancelled");
      assert.equal(stateOf(record, "after").status, "cancelled");
      assert.deepEqual([again.status, again.json.error], [409, "run_finished"]);
      held.open();
    });

    test("WF-011 a cancel closes the request of an approval step", async () => {
      const path = await begin({ steps: [step("close", "approval", { message: "Send it?" })], outputs: {} });
      await until(path, "waiting");
      const asked = (await get("/approvals")).json.items.find(
        ({ rule_id }: { rule_id: string }) => rule_id === "workflow:close",
      );

      await post(`${path}/cancel`, {});
      const record = await ended(path);
      const late = await post(`/approvals/${asked.approval_id}/decide`, { decision: "approved" }, "ben");

      assert.deepEqual([record.status, stateOf(record, "close").status], ["cancelled", "cancelled"]);
      assert.deepEqual([late.status, late.json.error], [409, "approval_not_pending"]);
      assert.equal((await get(`/approvals/${asked.approval_id}`)).json.status, "denied");
    });

    test("WF-009 a run ends after its starter has lost access", async () => {
      const { json: made } = await post("/keys", { scopes: ["workflows:write"] });
      const id = fresh();
      await put(id, {
        steps: [step("pause", "wait", { seconds: 1 }), step("after", "template", { text: "x" }, { needs: ["pause"] })],
      });
      const started = await server.request("POST", `/workflows/${id}/runs`, { key: made.key, body: {} });
      const removed = await server.request("DELETE", `/keys/${made.id}`, as("ann"));

      const record = await ended(`/workflows/${id}/runs/${started.json.run_id}`);

      assert.deepEqual([started.status, removed.status], [202, 200], started.text);
      assert.deepEqual([record.status, record.error], ["failed", "principal_revoked"]);
      assert.equal(stateOf(record, "after").status, "cancelled");
    });

    test("WF-006 the newest 50 revisions stay, and an older one while a run needs it", async () => {
      const id = fresh();
      const pausing = { steps: [step("ask", "approval", { message: "?", ttl_seconds: 600 })], outputs: {} };
      await put(id, pausing);
      const { json } = await post(`/workflows/${id}/runs`, { inputs: {} });
      for (let revision = 2; revision <= 53; revision++) await put(id, pausing);

      const stored = await Promise.all(
        [1, 2, 3, 4, 53].map((revision) => get(`/workflows/${id}?revision=${revision}`)),
      );
      await post(`/workflows/${id}/runs/${json.run_id}/cancel`, {});

      assert.deepEqual(
        stored.map(({ status }) => status),
        [200, 404, 404, 200, 200],
      );
    });

    test("WF-013 the stream has a frame for each version, then [DONE]", async () => {
      const path = await begin({
        steps: [
          step("pause", "wait", { seconds: 1 }),
          step("draft", "agent", { manifest: "agent", prompt: "hi" }, { needs: ["pause"] }),
        ],
        outputs: { text: "$steps.draft.text" },
      });

      const text = (await get(`${path}/stream`)).text;

      const ids = [...text.matchAll(/^id: (\d+)$/gm)].map(([, id]) => Number(id));
      assert.deepEqual(
        ids,
        ids.map((_, at) => (ids[0] as number) + at),
      );
      assert.ok(text.endsWith("data: [DONE]\n\n"));
      const frames = [...text.matchAll(/^data: (\{.*)$/gm)].map(([, line]) => JSON.parse(line as string));
      assert.ok(frames.every(({ event }) => event === "workflow_run"));
      assert.equal(frames.at(-1).data.status, "succeeded");
      for (const [known, rest] of [
        [ids[0], [String(ids.at(-1))]],
        [ids.at(-1), []],
      ] as const) {
        const again = await server.get(`${path}/stream`, { ...as("ann"), headers: { "last-event-id": String(known) } });
        assert.deepEqual(
          [...again.text.matchAll(/^id: (\d+)$/gm)].map(([, id]) => id),
          rest,
        );
        assert.ok(again.text.endsWith("data: [DONE]\n\n"));
      }
    });

    /** Sends a signed delivery. */
    function deliver(trigger: string, id: string, payload: object) {
      const body = JSON.stringify(payload);
      const at = String(Math.floor(Date.now() / 1_000));
      const signature = createHmac("sha256", hookSecret).update(`${id}.${at}.${body}`).digest("base64");
      const headers = { "webhook-id": id, "webhook-timestamp": at, "webhook-signature": `v1,${signature}` };
      return server.request("POST", `/triggers/${trigger}`, { headers, body: payload });
    }

    test("TRIG-017 a trigger starts a workflow with inputs of its payload", async () => {
      const payload = { type: "issue.opened", issue: { title: "It is broken" } };
      const missing = await deliver("flow", "before", payload);
      await put("triggered", {
        inputs: {
          ...{ title: { type: "text", required: true }, kind: { type: "text" }, id: { type: "text" } },
          gone: { type: "any" },
        },
        steps: [
          step("say", "template", { text: "{{inputs.kind}} {{inputs.id}}: {{inputs.title}}{{inputs.gone}}" }),
          step("ask", "agent", { manifest: "agent", prompt: "Sum up {{inputs.title}}" }),
        ],
        outputs: { text: "$steps.say.text", asked: "$steps.ask.text" },
      });

      const accepted = await deliver("flow", "d1", payload);
      const again = await deliver("flow", "d1", payload);
      const unfit = await deliver("flow", "d2", { type: "issue.opened", issue: {} });
      const old = await deliver("old", "d3", payload);
      const { run_id } = accepted.json;
      const record = await ended(`/workflows/triggered/runs/${run_id}`);
      const asRun = await get(`/chat/runs/${run_id}`);

      assert.deepEqual([missing.status, missing.json.error], [503, "trigger_unavailable"]);
      assert.deepEqual([accepted.status, again.json.run_id], [202, run_id]);
      assert.deepEqual([unfit.status, unfit.json.error], [422, "invalid_payload"]);
      assert.equal(old.status, 503);
      assert.equal(record.status, "succeeded", record.error);
      assert.equal(record.started_by, "trigger:flow");
      assert.equal(record.outputs.text, "issue.opened d1: It is broken");
      // The sender's text is data for the agent.
      assert.match(record.outputs.asked, /untrusted data from trigger.*\nIt is broken\n/);
      assert.deepEqual(stateOf(record, "ask").taint, ["trigger"]);
      assert.equal(asRun.json.status, "completed");
      assert.deepEqual(JSON.parse(asRun.json.final.content), record.outputs);
      assert.equal((await get(`/chat/runs/${run_id}`, "stranger")).status, 404);
    });

    test("TRIG-017 rules and deciders see that the values of a trigger are untrusted", async () => {
      const call = { manifest: "wary", tool: "calculator", args: { expression: "$steps.all.values.0" } };
      await put("tainted", {
        inputs: { sum: { type: "text", required: true } },
        steps: [
          step("text", "template", { text: "{{inputs.sum}}" }),
          step("all", "merge", { values: ["$steps.text.text"] }),
          step("each", "map", { items: "$steps.all.values", step: { kind: "template", config: { text: "{{item}}" } } }),
          step("sum", "tool_call", call),
          step("ask", "approval", { message: "Is it {{steps.each.results}}?" }),
        ],
        outputs: { sum: "$steps.sum.output" },
      });
      const own = await post("/workflows/tainted/runs", { inputs: { sum: "6 * 7" } });
      const { json } = await deliver("tainted", "t1", { sum: "6 * 7" });
      const path = `/workflows/tainted/runs/${json.run_id}`;
      const waiting = await eventually("both requests", async () => {
        const found = (await get(path)).json;
        return ["sum", "ask"].every((id) => stateOf(found, id).status === "waiting") && found;
      });
      const requests = (await get("/approvals?status=pending")).json.items;

      const gated = requests.find(({ rule_id }: { rule_id: string }) => rule_id === "wary");
      const asked = requests.find(({ args }: { args: { run_id: string } }) => args.run_id === json.run_id);
      const ownSum = await eventually("the own call", async () => {
        const found = stateOf((await get(`/workflows/tainted/runs/${own.json.run_id}`)).json, "sum");
        return found.status === "succeeded" && found;
      });
      await post(`${path}/cancel`, {});

      assert.equal(gated.thread_id, stateOf(waiting, "sum").thread_id);
      assert.deepEqual(
        asked.evidence.tainted.map(({ source }: { source: string }) => source),
        ["trigger"],
      );
      for (const id of ["text", "all", "each"]) assert.deepEqual(stateOf(waiting, id).taint, ["trigger"], id);
      assert.deepEqual(ownSum.output, { output: 42 });
    });

    test("TRIG-018 a step of a triggered run needs a manifest that admits triggers", async () => {
      await put("schemed", {
        steps: [
          step("a", "agent", { manifest: "keyed", prompt: "hi" }, { on_error: "continue" }),
          step("b", "agent", { manifest: "agent", prompt: "hi" }),
        ],
      });
      const { json } = await deliver("schemed", "s1", {});
      const own = await post("/workflows/schemed/runs", {});

      const triggered = await ended(`/workflows/schemed/runs/${json.run_id}`);
      const asked = await ended(`/workflows/schemed/runs/${own.json.run_id}`);

      assert.equal(triggered.started_by, "trigger:schemed");
      assert.deepEqual([stateOf(triggered, "a").status, stateOf(triggered, "b").status], ["failed", "succeeded"]);
      assert.match(String(stateOf(triggered, "a").error), /scheme/);
      assert.equal(stateOf(asked, "a").status, "succeeded");
    });

    test("JOB-005 a firing is refused after its author has lost the right to start workflows", async () => {
      const id = fresh();
      await put(id, greeting);
      const made = await post("/keys", { scopes: ["jobs:write", "workflows:write"] });
      const { key, id: keyId } = made.json;
      const payload = { workflow: id, inputs: { name: "Ann" } };
      const saved = await server.request("PUT", "/jobs/lapses", { key, body: { payload } });
      const before = await post("/jobs/lapses/run", {});
      const removed = await server.request("DELETE", `/keys/${keyId}`, as("ann"));

      const after = await post("/jobs/lapses/run", {});

      assert.deepEqual([saved.status, removed.status], [200, 200], made.text);
      assert.equal(before.json.status, "ok", before.text);
      assert.equal(after.json.result.status, "refused", after.text);
      assert.equal((await get(`/workflows/${id}/runs`)).json.items.length, 1);
    });

    test("JOB-006 a job runs a workflow, JOB-003 which its payload names", async () => {
      const id = fresh();
      await put(id, greeting);
      const job = (name: string, payload: object, who: keyof typeof keys = "ann", more: object = {}) =>
        server.request("PUT", `/jobs/${name}`, { ...as(who), body: { payload, ...more } });
      const saved = await job("greets", { workflow: id, inputs: { name: "Ann" } });
      await job("unfit", { workflow: id });
      const both = await job("both", { workflow: id, prompt: "hi" });
      const unknown = await job("unknown", { workflow: "nobodys" });
      const unscoped = await job("unscoped", { workflow: id }, "jobber");

      const ran = await post("/jobs/greets/run", {});
      const refused = await post("/jobs/unfit/run", {});
      const record = await get(`/workflows/${id}/runs/${ran.json.run_id}`);

      assert.equal(saved.status, 200, saved.text);
      assert.equal(saved.json.manifest_id, "");
      assert.deepEqual([both.status, unknown.status, unscoped.status], [422, 422, 403]);
      assert.deepEqual([ran.json.status, ran.json.result.answer], ["ok", '{"text":"Hello Ann!"}']);
      assert.equal(ran.json.result.workflow_id, id);
      assert.equal(record.json.started_by, "cron");
      assert.equal(refused.json.result.status, "refused");
    });

    test("WF-009 steps have the scopes that both the starter and the author have", async () => {
      const definition = {
        steps: [step("a", "agent", { manifest: "guarded", prompt: "hi" })],
        outputs: { text: "$steps.a.text" },
      };
      const byAnn = fresh();
      await put(byAnn, definition, "ann");
      const byBen = fresh();
      await put(byBen, definition, "ben");
      const startedBy = async (id: string, who: keyof typeof keys) => {
        const { json } = await post(`/workflows/${id}/runs`, { inputs: {} }, who);
        return ended(`/workflows/${id}/runs/${json.run_id}`);
      };

      const [own, lent, borrowed] = [
        await startedBy(byAnn, "ann"),
        await startedBy(byAnn, "ben"),
        await startedBy(byBen, "ann"),
      ];

      assert.equal(own.status, "succeeded", own.error);
      assert.match(lent.error, /missing_scopes/);
      assert.match(borrowed.error, /missing_scopes/);
    });
  });
