// Workflows with mistakes, values that are too large, kills and changes under a run.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { gate, says, startChatProcess } from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
import type { MockModel } from "../support/mock-model.ts";
import { apiKeys, type ProcessServer } from "../support/server.ts";
import { cleanup } from "../support/temp.ts";

const { env, keys } = apiKeys({
  ann: { sub: "ann", scopes: ["workflows:write", "approvals:write", "chat:read"] },
  bea: { sub: "bea", tenant_id: "beta", scopes: ["workflows:write"] },
});

const step = (id: string, kind: string, config: unknown, more: object = {}) => ({ id, kind, config, ...more });
const text = (id: string, words: string, more: object = {}) => step(id, "template", { text: words }, more);

/** Definitions with mistakes, and the codes that a check names. */
const mistakes: readonly (readonly [what: string, definition: unknown, ...codes: string[]])[] = [
  ["no object", [], "invalid_field"],
  ["no steps", {}, "invalid_field"],
  ["an unknown field", { steps: [text("a", "x")], next: 1 }, "invalid_field"],
  ["101 steps", { steps: Array.from({ length: 101 }, (_, at) => text(`s${at}`, "x")) }, "too_large"],
  ["more than 256 KiB", { steps: [text("a", "x".repeat(257 * 1024))] }, "too_large"],
  ["a step without an id", { steps: [{ kind: "template", config: { text: "x" } }] }, "invalid_field"],
  ["an id with a colon", { steps: [text("a:b", "x")] }, "invalid_field"],
  ["an id twice", { steps: [text("a", "x"), text("a", "y")] }, "duplicate_id"],
  ["an unknown kind", { steps: [step("a", "shell", {})] }, "unknown_kind"],
  ["a prototype as a kind", { steps: [step("a", "constructor", {})] }, "unknown_kind"],
  ["a prototype as a port", { steps: [text("a", "x"), text("b", "{{steps.a.constructor}}")] }, "unknown_port"],
  ["a prototype as an input", { steps: [text("a", "{{inputs.toString}}")] }, "missing_input"],
  ["an unknown need", { steps: [text("a", "x", { needs: ["b"] })] }, "unknown_step"],
  ["a reference into nothing", { steps: [text("a", "{{steps.b.text}}")] }, "unknown_step", "unknown_step"],
  ["a step that needs itself", { steps: [text("a", "{{steps.a.text}}")] }, "cycle"],
  ["code in a hole", { steps: [text("a", "{{process.exit()}}")] }, "invalid_reference"],
  [
    "an input that reads an input",
    { steps: [text("a", "x", { inputs: { one: "$input.two", two: 1 } })] },
    "invalid_reference",
  ],
  ["an item outside of a map", { steps: [text("a", "{{item}}")] }, "invalid_reference"],
  [
    "a condition of 10,000 characters",
    { steps: [step("a", "condition", { expr: "1 == 1 or ".repeat(1_000) })] },
    "invalid_reference",
    "invalid_field",
  ],
  ["a condition that is no condition", { steps: [text("a", "x", { when: "1 ==" })] }, "invalid_reference"],
  [
    "a text for the items of a map",
    {
      steps: [text("a", "x"), step("m", "map", { items: "$steps.a.text", step: step("i", "template", { text: "x" }) })],
    },
    "type_mismatch",
    "invalid_field",
    "invalid_field",
  ],
  [
    "a map in a map",
    { steps: [step("m", "map", { items: [], step: { kind: "map", config: { items: [], step: {} } } })] },
    "invalid_field",
    "invalid_field",
  ],
  ["a prompt that is no text", { steps: [step("a", "agent", { manifest: "agent", prompt: 7 })] }, "invalid_field"],
  ["an unknown manifest", { steps: [step("a", "agent", { manifest: "nobody", prompt: "x" })] }, "unknown_manifest"],
  ["an unknown tool", { steps: [step("a", "tool_call", { manifest: "agent", tool: "rm" })] }, "unknown_tool"],
  ["11 tries more", { steps: [text("a", "x", { retry: { max: 11 } })] }, "invalid_field"],
  [
    "a default of another type",
    { inputs: { n: { type: "number", default: "x" } }, steps: [text("a", "x")] },
    "type_mismatch",
  ],
  ["an output into nothing", { steps: [text("a", "x")], outputs: { x: "$steps.b.text" } }, "unknown_step"],
  ["a budget of nothing", { steps: [text("a", "x")], limits: { max_cost_usd: 0 } }, "invalid_field"],
  ["a wait of 31 days", { steps: [step("a", "wait", { seconds: 31 * 86_400 })] }, "invalid_field"],
];

describe("workflows under faults", () => {
  const atEnd = cleanup();
  let server: ProcessServer;
  let mock: MockModel;
  let count = 0;
  before(async () => {
    ({ server, mock } = await startChatProcess(atEnd, {
      models: ["scripted", "held"],
      manifests: { agent: {}, slow: { model: { id: "held" } } },
      env,
    }));
    mock.answer("scripted", { text: "Done." });
  });

  const as = { key: keys.ann };
  const get = (path: string) => server.get(path, as);
  const post = (path: string, body: object) => server.request("POST", path, { ...as, body });
  const put = (id: string, definition: unknown) =>
    server.request("PUT", `/workflows/${id}`, { ...as, body: { name: id, definition } });
  async function begin(definition: object, inputs: object = {}) {
    const id = `fault-${++count}`;
    const saved = await put(id, definition);
    assert.equal(saved.status, 201, saved.text);
    const started = await post(`/workflows/${id}/runs`, { inputs });
    assert.equal(started.status, 202, started.text);
    return { id, path: `/workflows/${id}/runs/${started.json.run_id}` };
  }
  const ended = (path: string) =>
    eventually(`the end of ${path}`, async () => {
      const { json } = await get(path);
      return json.finished_at !== null && json;
    });

  for (const [what, definition, ...codes] of mistakes)
    test(`WF-002 ${what} is a mistake that a save refuses too`, async () => {
      const checked = await post("/workflows/-/check", { definition });
      const saved = await put("mistaken", definition);

      const found = Array.isArray(definition)
        ? ["invalid_field"]
        : checked.json.problems.map(({ code }: { code: string }) => code);
      assert.deepEqual(found.toSorted(), codes.toSorted(), checked.text);
      assert.equal(saved.status, 422, saved.text);
      assert.equal((await get("/workflows/mistaken")).status, 404);
    });

  test("WF-009 unfit inputs are refused by name, and nothing starts", async () => {
    const id = `fault-${++count}`;
    await put(id, {
      inputs: { n: { type: "number", required: true }, list: { type: "list" } },
      steps: [text("a", "x")],
    });

    for (const [inputs, name] of [
      [{}, "n"],
      [{ n: "7" }, "n"],
      [{ n: 7, list: {} }, "list"],
      [{ n: 7, other: 1 }, "other"],
      [{ n: 7, list: ["x".repeat(257 * 1024)] }, "inputs"],
    ] as const) {
      const { status, json } = await post(`/workflows/${id}/runs`, { inputs });
      assert.equal(status, 422);
      assert.equal(json.detail[0].loc.at(-1), name);
    }
    assert.deepEqual((await get(`/workflows/${id}/runs`)).json.items, []);
  });

  test("WF-009 values that are too large, and items that are no list, fail their step by name", async () => {
    const big = "x".repeat(200 * 1024);
    const double = (
      await begin({ inputs: { big: { type: "text" } }, steps: [text("a", "{{inputs.big}}{{inputs.big}}")] }, { big })
    ).path;
    const twenty = "{{inputs.big}}".repeat(30);
    const expanded = (await begin({ inputs: { big: { type: "text" } }, steps: [text("a", twenty)] }, { big })).path;
    const items = { items: "$inputs.any", step: { kind: "template", config: { text: "x" } } };
    const noList = (await begin({ inputs: { any: { type: "any" } }, steps: [step("a", "map", items)] }, { any: 7 }))
      .path;
    const many = Array.from({ length: 1_001 }, (_, at) => at);
    const tooMany = (await begin({ inputs: { any: { type: "any" } }, steps: [step("a", "map", items)] }, { any: many }))
      .path;

    const half = {
      inputs: { big: { type: "text" } },
      steps: [text("a", "{{inputs.big}}"), text("b", "{{inputs.big}}")],
    };
    const outputs = { a: "$steps.a.text", b: "$steps.b.text" };
    const whole = (await begin({ ...half, outputs }, { big })).path;
    const steps = Array.from({ length: 42 }, (_, at) => text(`s${at}`, "{{inputs.big}}"));
    const sum = (await begin({ inputs: { big: { type: "text" } }, steps }, { big })).path;

    const errors = await Promise.all(
      [double, expanded, noList, tooMany, whole, sum].map(async (path) => (await ended(path)).error),
    );

    for (const [at, code] of [
      "output_too_large",
      "expansion_too_large",
      "items_not_a_list",
      "too_many_items",
    ].entries())
      assert.match(errors[at], new RegExp(`^step_failed: a: ${code}`));
    assert.match(errors[0], /steps\.a\.text has more than 262144 bytes/);
    assert.match(errors[4], /^output_too_large: the outputs have more than 262144 bytes/);
    assert.match(errors[5], /^step_failed: s\d+: output_too_large: with steps\.s\d+\.text .* more than 8388608 bytes/);
  });

  test("WF-009 names of prototypes are names, and a reference into nothing is null", async () => {
    const nothing = [
      "steps.constructor.text.length",
      "inputs.any.constructor.name",
      "inputs.any.list.7.x",
      "inputs.any.list.length",
    ];
    const { path } = await begin(
      {
        inputs: { valueOf: { type: "text", required: true }, any: { type: "any" } },
        steps: [
          text("constructor", "<{{inputs.valueOf}}>"),
          text("toString", "{{steps.constructor.text}}{{input.hasOwnProperty}}", {
            inputs: { hasOwnProperty: "$steps.constructor.text" },
          }),
          text("nothing", `[${nothing.map((one) => `{{${one}}}`).join("")}]`),
        ],
        outputs: {
          isPrototypeOf: "$steps.toString.text",
          nothing: "$steps.nothing.text",
          length: "$inputs.any.list.length",
        },
      },
      { valueOf: "x", any: { list: [1] } },
    );

    const record = await ended(path);

    assert.deepEqual(record.outputs, { isPrototypeOf: "<x><x>", nothing: "[]", length: null }, record.error);
  });

  test("WF-009 a map of 1,000 items keeps their order", async () => {
    const items = Array.from({ length: 1_000 }, (_, at) => at);
    const config = { items: "$inputs.all", max_parallel: 8, step: { kind: "template", config: { text: "{{item}}" } } };
    const { path } = await begin(
      { inputs: { all: { type: "list" } }, steps: [step("m", "map", config)], outputs: { all: "$steps.m.results" } },
      { all: items },
    );

    const record = await ended(path);

    assert.equal(record.status, "succeeded", record.error);
    assert.deepEqual(record.outputs.all, items.map(String));
  });

  test("WF-009 a run continues after a kill, an edit and the deletion of its workflow", async () => {
    const held = gate();
    mock.answer("held", says(held.opened, "late"));
    const definition = {
      steps: [
        step("work", "agent", { manifest: "slow", prompt: "hi" }),
        step("pause", "wait", { seconds: 1 }),
        text("end", "{{steps.work.text}}", { needs: ["pause"] }),
      ],
      outputs: { text: "$steps.end.text" },
    };
    const { id, path } = await begin(definition);
    await eventually("the model is asked", async () => mock.requests.some(({ body }) => body.model === "held"));

    await server.kill();
    mock.answer("held", { text: "after the kill" });
    held.open();
    await server.restart();
    await put(id, { steps: [text("other", "x")], outputs: {} });
    const gone = await server.request("DELETE", `/workflows/${id}`, as);
    const record = await ended(path);

    assert.equal(gone.status, 200);
    assert.equal(record.status, "succeeded", record.error);
    assert.deepEqual([record.revision, record.outputs], [1, { text: "after the kill" }]);
    assert.ok(record.steps.every(({ attempt }: { attempt: number }) => attempt === 1));
  });

  test("WF-009 starts that meet a deletion end, or do not begin", async () => {
    for (let round = 0; round < 5; round++) {
      const id = `fault-${++count}`;
      await put(id, { steps: [text("a", "x")], outputs: { text: "$steps.a.text" } });
      const starts = Array.from({ length: 4 }, () => post(`/workflows/${id}/runs`, {}));
      const removed = await server.request("DELETE", `/workflows/${id}`, as);
      const answers = await Promise.all(starts);

      assert.ok([200, 409].includes(removed.status), removed.text);
      for (const { status, json } of answers) {
        assert.ok([202, 404, 409].includes(status));
        if (status === 202) assert.equal((await ended(`/workflows/${id}/runs/${json.run_id}`)).status, "succeeded");
      }
    }
  });

  test("WF-009 runs of another tenant are served beside ten runs of 1,000 items", async () => {
    const config = {
      items: "$inputs.all",
      max_parallel: 8,
      step: { kind: "agent", config: { manifest: "agent", prompt: "{{item}}" } },
    };
    const definition = { inputs: { all: { type: "list" } }, steps: [step("m", "map", config)], outputs: {} };
    const all = Array.from({ length: 1_000 }, (_, at) => at);
    const large = await begin(definition, { all });
    const paths = [large.path];
    while (paths.length < 10) {
      const { json } = await post(`/workflows/${large.id}/runs`, { inputs: { all } });
      paths.push(`/workflows/${large.id}/runs/${json.run_id}`);
    }
    const asks = (prompt: RegExp) =>
      mock.requests.filter(({ body }) => prompt.test(JSON.stringify(body.messages))).length;
    await eventually("items are served", async () => asks(/"\d+"/) > 0);
    const other = { key: keys.bea };
    const ask = (id: string, needs: string[]) => step(id, "agent", { manifest: "agent", prompt: "hi bea" }, { needs });
    const small = { name: "small", definition: { steps: [ask("a", []), ask("b", ["a"]), ask("c", ["b"])] } };
    await server.request("PUT", "/workflows/small", { ...other, body: small });
    const { json } = await server.request("POST", "/workflows/small/runs", { ...other, body: {} });

    const theirs = await eventually("the small run", async () => {
      const found = (await server.get(`/workflows/small/runs/${json.run_id}`, other)).json;
      return found.finished_at !== null && found;
    });
    const served = asks(/"\d+"/);
    const open = await Promise.all(paths.map(async (path) => (await get(path)).json));
    for (const path of paths) await post(`${path}/cancel`, {});

    assert.equal(theirs.status, "succeeded", theirs.error);
    assert.equal(asks(/hi bea/), 3);
    assert.ok(open.every(({ finished_at }) => finished_at === null));
    // The tenants take turns for slots, so three steps of one wait for few of the other.
    assert.ok(served < 1_000, `${served} items`);
    for (const path of paths) assert.equal((await ended(path)).status, "cancelled");
  });
});
