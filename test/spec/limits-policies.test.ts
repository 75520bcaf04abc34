// Limits and policies of runs: what they deny, and how a denial reaches the model, the client, the audit and the
// metrics.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { limitBounds } from "../../manifests/sections/limits.ts";
import { calls, inTurn, never, outline, says, shown, startChat, turn, wordsOf } from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
import type { Reply } from "../support/mock-model/behaviours.ts";
import type { MockModel } from "../support/mock-model.ts";
import { apiKeys, type TestServer } from "../support/server.ts";
import type { Frame } from "../support/sse-frames.ts";
import { cleanup } from "../support/temp.ts";

const { env: keyed, keys } = apiKeys({
  operator: { scopes: ["*"] },
  caller: { scopes: ["chat:write", "sums:write"] },
});
const models = ["scripted", "mock-text", "mock-tools", "mock-finish-length", "mock-no-usage", "mock-status-400"];
const add = (expression: string) => ["calculator", { expression }] as const;
const spent = (input: number, output: number) => ({
  prompt_tokens: input,
  completion_tokens: output,
  total_tokens: input + output,
});
const tools = ["calculator", "todo_write"];
const numbers = { id: "numbers", required_scopes: ["numbers:use"], tools: ["calc*"] };

interface Event {
  readonly event_type: string;
  readonly status: string;
  readonly manifest_id: string;
  readonly payload: Readonly<Record<string, unknown>>;
}

describe("limits and policies", () => {
  const atEnd = cleanup();
  let server: TestServer;
  let mock: MockModel;
  before(async () => {
    const limited = (limits: object, more: object = {}) => ({ tools, limits, ...more });
    ({ server, mock } = await startChat(atEnd, {
      models,
      manifests: {
        agent: { tools },
        guarded: { tools, policies: [numbers] },
        "guarded-twice": {
          tools,
          policies: [
            { id: "sums", required_scopes: ["sums:read"], tools: ["*"] },
            { id: "both", required_scopes: ["numbers:use", "sums:read", "vault:open"], tools: ["calculator"] },
            { id: "never-told", required_scopes: ["other:use"], tools: ["*"] },
          ],
        },
        "one-call": limited({ max_tool_calls: 1 }),
        "no-calls": limited({ max_tool_calls: 0 }),
        "two-at-once": limited({ max_tool_calls: 2 }, { execution: { tools: "parallel" } }),
        "guarded-limited": limited({ max_tool_calls: 1 }, { policies: [numbers] }),
        hasty: limited({ max_wall_clock_seconds: 1 }),
        "few-words-in": limited({ max_input_tokens: 1 }),
        "input-1000": limited({ max_input_tokens: 1000 }),
        "output-50": limited({ max_output_tokens: 50 }),
        "output-50-asked": limited({ max_output_tokens: 50 }, { model: { max_tokens: 20 } }),
        poor: limited({ max_cost_usd: 0.000001 }),
        "cent-and-a-half": limited({ max_cost_usd: 0.015 }),
        "with-fallback": limited({ max_cost_usd: 0.01 }, { model: { id: "scripted", fallbacks: ["dear"] } }),
        unpriced: { tools, model: { id: "rateless" } },
        "unpriced-capped": limited({ max_cost_usd: 1 }, { model: { id: "rateless" } }),
        "self-priced": limited({ max_cost_usd: 1 }, { model: { id: "rateless", price: { input: 1, output: 1 } } }),
        allowlisted: { tools, observability: { metrics: ["svc_tool_calls", "svc_policy_deny_total"] } },
        fallible: { model: { id: "mock-status-400", fallbacks: ["mock-text"] } },
        aimless: { tools, policies: [{ ...numbers, tools: ["launch_*"] }] },
      },
      routes: {
        dear: { provider: "openai", model: "scripted", price: { input: 20, output: 80 } },
        rateless: { provider: "openai", model: "scripted" },
      },
      env: keyed,
    }));
  });

  let threads = 0;
  interface Run {
    readonly key?: string;
    readonly model?: string;
    readonly stateless?: boolean;
  }

  /** Runs a turn whose model gives these replies in order. */
  async function run(manifest: string, replies: readonly Reply[], { key = keys.caller, model, stateless }: Run = {}) {
    const thread = `t${++threads}`;
    const asked = mock.requests.length;
    mock.answer("scripted", inTurn(...replies));
    const fields = { ...(model !== undefined && { model }), ...(!stateless && { thread_id: thread }) };
    const stream = await server.stream("/chat/stream", turn(manifest, "go", fields), { key });
    assert.equal(stream.status, 200);
    const frames = await stream.rest();
    const done = frames.find(({ name }) => name === "done")?.json.data;
    return { thread, frames, done, requests: mock.requests.slice(asked) };
  }

  const outputs = (frames: readonly Frame[]): string[] =>
    frames.filter(({ name }) => name === "tool_end").map(({ json }) => json.data.output);

  /** The audit events of a thread, oldest first, once the last of them is readable. */
  function eventsOf(thread: string): Promise<Event[]> {
    return eventually(`final_response of ${thread}`, async () => {
      const { json } = await server.get("/audit?limit=500", { key: keys.operator });
      const events = json.items.filter(({ payload }: Event) => payload.thread_id === `acme:${thread}`).reverse();
      return events.at(-1)?.event_type === "final_response" ? events : undefined;
    });
  }

  /** The value of the counter's only series with these labels; 0 if there is none. */
  async function counter(name: string, labels: Readonly<Record<string, string>>): Promise<number> {
    const { text } = await server.get("/metrics", { key: keys.operator });
    const found = text.split("\n").filter((line) => {
      if (!line.startsWith(`${name}{`)) return false;
      return Object.entries(labels).every(([label, value]) => line.includes(`${label}="${value}"`));
    });
    assert.ok(found.length <= 1, found.join("\n"));
    return found.length === 0 ? 0 : Number(found[0]?.split(" ").at(-1));
  }

  /** Stores a manifest with this spec. Returns the status and the problems of the answer. */
  async function put(spec: object): Promise<[number, string[]]> {
    const name = `put-${++threads}`;
    const body = { manifest: { metadata: { name }, spec } };
    const { status, json } = await server.request("PUT", `/manifests/${name}`, { key: keys.operator, body });
    const detail: { loc: string[]; type: string }[] = Array.isArray(json.detail) ? json.detail : [];
    return [status, detail.map(({ loc, type }) => `${type} ${loc.join(".")}`)];
  }

  const put422 = (path: string, type = "out_of_range") => [422, [`${type} ${path}`]];

  test("GOV-010 OPS-014 AUDIT-022 a call without the scope is denied to the model, and audited by its policy", async () => {
    const before = await counter("svc_policy_deny_total", { manifest_id: "guarded", policy: "numbers" });

    const { thread, frames, requests } = await run("guarded", [calls(add("6*7")), { text: "I may not." }]);

    const told = "denied by policy: numbers requires scope numbers:use";
    assert.deepEqual(outputs(frames), [told]);
    assert.equal(shown(requests[1]).at(-1)?.content, told);
    const [, denial, final] = await eventsOf(thread);
    assert.deepEqual([denial?.event_type, denial?.status, denial?.manifest_id], ["policy_deny", "denied", "guarded"]);
    const { tool, tool_call_id, control, reason, thread_id } = denial?.payload ?? {};
    assert.deepEqual(
      [tool, tool_call_id, control, reason, thread_id],
      ["calculator", "call_1", "policy", "numbers requires scope numbers:use", `acme:${thread}`],
    );
    assert.equal(final?.status, "error", "the run ended on a denial");
    const labels = { manifest_id: "guarded", policy: "numbers", tool: "calculator" };
    assert.equal(await counter("svc_policy_deny_total", labels), before + 1);
  });

  test("GOV-010 a denied call sends its frames and logs a result, which stays in later turns", async () => {
    const { thread, frames, done } = await run("guarded", [calls(add("6*7")), { text: "I may not." }]);

    assert.deepEqual(outline(frames), [
      ...["session_progress", "tool_start", "tool_execution_update", "tool_end", "tool_execution_update"],
      ...["text", "on_chain_end", "done", "[DONE]"],
    ]);
    assert.deepEqual([done.final.content, done.stop_reason], ["I may not.", "end_turn"]);
    const { json } = await server.get(`/chat/history/${thread}`, { key: keys.operator });
    assert.equal(json.messages[2].content, "denied by policy: numbers requires scope numbers:use");
  });

  test("GOV-010 a caller with the scope is admitted, and unselected tools are open to all", async () => {
    const admitted = await run("guarded", [calls(add("6*7")), { text: "42." }], { key: keys.operator });
    const todos = ["todo_write", { todos: [{ content: "a", status: "pending" }] }] as const;
    const unselected = await run("guarded", [calls(todos), { text: "Noted." }]);

    assert.deepEqual(outputs(admitted.frames), ["42"]);
    assert.ok(!outputs(unselected.frames)[0]?.startsWith("denied"));
  });

  test("GOV-010 every policy that selects the tool must pass; the first failure is reported", async () => {
    const { frames } = await run("guarded-twice", [calls(add("6*7")), { text: "I may not." }]);

    // The caller's scope sums:write includes sums:read.
    assert.deepEqual(outputs(frames), ["denied by policy: both requires scope numbers:use, vault:open"]);
  });

  test("GOV-010 policies apply on every surface", async () => {
    mock.answer("scripted", inTurn(calls(add("6*7")), { text: "I may not." }));
    const key = { key: keys.caller };
    const native = await server.post("/chat", turn("guarded", "go", { model: "scripted" }), key);
    const body = { model: "guarded", user: "policy-openai", messages: [{ role: "user", content: "go" }] };
    const openAi = await server.post("/v1/chat/completions", body, key);
    const { json } = await server.get("/chat/history/policy-openai", { key: keys.operator });

    const told = "denied by policy: numbers requires scope numbers:use";
    assert.equal(native.json.messages[2].content, told);
    assert.equal(openAi.json.choices[0].message.content, "I may not.");
    assert.equal(json.messages[2].content, told);
  });

  test("GOV-010 a policy without scopes or without tools is refused", async () => {
    const path = "spec.policies.0";

    assert.deepEqual(await put({ policies: [{ ...numbers, required_scopes: [] }] }), [
      422,
      [`too_short ${path}.required_scopes`],
    ]);
    assert.deepEqual(await put({ policies: [{ ...numbers, tools: [] }] }), [422, [`too_short ${path}.tools`]]);
    assert.deepEqual(await put({ policies: [numbers], tools }), [200, []]);
  });

  test("GOV-021 max_tool_calls 1 denies the second call and every later one of the run", async () => {
    const { frames, requests } = await run("one-call", [
      calls(add("1+1"), add("2+2")),
      calls(add("3+3")),
      { text: "Enough." },
    ]);

    const told = "denied by limits: max_tool_calls (1) reached";
    assert.deepEqual(outputs(frames), ["2", told, told]);
    assert.equal(requests.length, 3);
  });

  test("GOV-021 the limit applies per run: the next turn has all of its calls again", async () => {
    const replies = [calls(add("1+1")), { text: "Two." }];
    mock.answer("scripted", inTurn(...replies));
    for (let at = 0; at < 2; at++) {
      const body = turn("one-call", "go", { thread_id: "limit-per-run" });
      const { json } = await server.post("/chat", body, { key: keys.caller });

      assert.equal(json.messages.at(-2).content, "2");
    }
  });

  test("GOV-021 max_tool_calls 0 denies the first call; calls denied by other controls count", async () => {
    const none = await run("no-calls", [calls(add("1+1")), { text: "Ok." }]);
    const guarded = await run("guarded-limited", [calls(add("1+1"), add("2+2")), { text: "Ok." }]);

    assert.deepEqual(outputs(none.frames), ["denied by limits: max_tool_calls (0) reached"]);
    assert.deepEqual(outputs(guarded.frames), [
      "denied by policy: numbers requires scope numbers:use",
      "denied by limits: max_tool_calls (1) reached",
    ]);
  });

  test("GOV-021 GOV-010 an unknown tool or invalid arguments are an error, neither denied nor counted", async () => {
    const { thread, frames } = await run("guarded-limited", [
      calls(["launch", {}], ["calculator", { sum: 1 }], add("1+1"), add("2+2")),
      { text: "Ok." },
    ]);

    assert.deepEqual(outputs(frames), [
      "[tool error/permission_denied] no tool of this name is bound",
      "[tool error/invalid_arguments] expression is missing",
      "denied by policy: numbers requires scope numbers:use",
      "denied by limits: max_tool_calls (1) reached",
    ]);
    assert.deepEqual(
      (await eventsOf(thread)).map(({ event_type }) => event_type),
      ["user_input", "tool_call", "tool_call", "policy_deny", "policy_deny", "final_response"],
    );
  });

  test("GOV-021 parallel calls do not pass the limit together", async () => {
    const { frames } = await run("two-at-once", [
      calls(add("1+1"), add("1+1"), add("1+1"), add("1+1"), add("1+1")),
      { text: "Ok." },
    ]);

    const denied = outputs(frames).filter((text) => text === "denied by limits: max_tool_calls (2) reached");
    assert.deepEqual([denied.length, outputs(frames).filter((text) => text === "2").length], [3, 2]);
  });

  test("GOV-021 unset is 500 calls, and no manifest may have more", async () => {
    const { frames } = await run("agent", [calls(...Array.from({ length: 502 }, () => add("1+1"))), { text: "Ok." }], {
      stateless: true,
    });

    const results = outputs(frames);
    assert.equal(
      results.findIndex((text) => text !== "2"),
      500,
    );
    assert.deepEqual(results.slice(500), Array(2).fill("denied by limits: max_tool_calls (500) reached"));
    assert.deepEqual(await put({ limits: { max_tool_calls: 501 } }), put422("spec.limits.max_tool_calls"));
    assert.deepEqual(await put({ limits: { max_tool_calls: 500 } }), [200, []]);
  });

  test("GOV-022 max_wall_clock_seconds ends a run mid-reply and keeps its text", async () => {
    const { thread, frames, done, requests } = await run("hasty", [says("Half", never)]);

    assert.deepEqual(outline(frames), ["session_progress", "text", "on_chain_end", "done", "[DONE]"]);
    const words = "Half\n\nrun limit reached: max_wall_clock_seconds";
    assert.equal(wordsOf(frames), words);
    assert.deepEqual([done.final.content, done.stop_reason], [words, "unknown"]);
    assert.equal(await requests[0]?.ended, "gone");
    const { json } = await server.get(`/chat/sessions/${thread}`, { key: keys.operator });
    const last = json.transcript.at(-1);
    assert.deepEqual([last.content, last.status], [words, "limited"]);
    const [, denial] = await eventsOf(thread);
    assert.deepEqual(
      [denial?.event_type, denial?.payload.control, denial?.payload.reason, denial?.payload.tool],
      ["policy_deny", "limits", "max_wall_clock_seconds (1) reached", undefined],
    );
  });

  test("GOV-022 max_wall_clock_seconds ends a run whose model is silent, on every surface", async () => {
    mock.answer("scripted", says(never));

    const { status, json } = await server.post("/chat", turn("hasty", "go"), { key: keys.caller });

    assert.equal(status, 200);
    assert.deepEqual([json.final.content, json.stop_reason], ["run limit reached: max_wall_clock_seconds", "unknown"]);
  });

  test("GOV-022 GOV-023 unset is an hour and five hops, and no manifest may have more", async () => {
    for (const [name, bound] of [
      ["max_wall_clock_seconds", 3600],
      ["max_peer_hops", 5],
    ] as const) {
      assert.deepEqual(limitBounds[name], { unset: bound, ceiling: bound });
      assert.deepEqual(await put({ limits: { [name]: bound + 1 } }), put422(`spec.limits.${name}`));
      assert.deepEqual(await put({ limits: { [name]: bound } }), [200, []]);
    }
  });

  test("GOV-024 max_input_tokens keeps a call whose prompt cannot fit from being made", async () => {
    const { thread, done, requests } = await run("few-words-in", [{ text: "Never asked for." }]);

    assert.deepEqual(requests, []);
    assert.deepEqual([done.final.content, done.stop_reason], ["run limit reached: max_input_tokens", "unknown"]);
    const [, denial, final] = await eventsOf(thread);
    assert.deepEqual(
      [denial?.event_type, denial?.payload.control, denial?.payload.reason],
      ["policy_deny", "limits", "max_input_tokens (1) reached"],
    );
    assert.equal(final?.status, "error");
  });

  test("GOV-024 input tokens of a run add up as the provider counts them, with cached ones", async () => {
    const cached = { ...spent(990, 5), prompt_tokens_details: { cached_tokens: 900 } };
    const first = { ...calls(add("1+1")), usage: cached };

    const { frames, done, requests } = await run("input-1000", [first, { text: "Never asked for." }]);

    assert.equal(requests.length, 1);
    assert.deepEqual(outputs(frames), ["2"], "the calls of a step that was paid for are run");
    assert.equal(done.final.content, "run limit reached: max_input_tokens");
    assert.deepEqual(await put({ limits: { max_input_tokens: 20_000_001 } }), put422("spec.limits.max_input_tokens"));
    assert.deepEqual(await put({ limits: { max_input_tokens: 20_000_000 } }), [200, []]);
  });

  test("GOV-025 the rest of max_output_tokens bounds each call's request", async () => {
    const first = { ...calls(add("1+1")), usage: spent(10, 30) };
    const last = { text: "Two.", usage: spent(10, 20) };

    const { done, requests } = await run("output-50", [first, last]);
    const lower = await run("output-50-asked", [first, last]);

    assert.deepEqual(
      requests.map(({ body }) => body.max_tokens ?? body.max_completion_tokens),
      [50, 20],
    );
    assert.equal(done.final.content, "Two.");
    assert.deepEqual(
      lower.requests.map(({ body }) => body.max_tokens ?? body.max_completion_tokens),
      [20, 20],
    );
  });

  test("GOV-025 a run that has used up its output makes no further call", async () => {
    const first = { ...calls(add("1+1")), usage: spent(10, 50) };

    const { done, requests } = await run("output-50", [first, { text: "Never asked for." }]);

    assert.equal(requests.length, 1);
    assert.equal(done.final.content, "run limit reached: max_output_tokens");
    assert.deepEqual(await put({ limits: { max_output_tokens: 100_001 } }), put422("spec.limits.max_output_tokens"));
    assert.deepEqual(await put({ limits: { max_output_tokens: 100_000 } }), [200, []]);
  });

  test("GOV-026 max_cost_usd keeps a call that cannot be paid from being made", async () => {
    const { done, requests } = await run("poor", [{ text: "Never asked for." }]);

    assert.deepEqual(requests, []);
    assert.equal(done.final.content, "run limit reached: max_cost_usd");
    assert.deepEqual(await put({ limits: { max_cost_usd: 1000.01 } }), put422("spec.limits.max_cost_usd"));
    assert.deepEqual(await put({ limits: { max_cost_usd: 1000 } }), [200, []]);
  });

  test("GOV-026 a call asks for no more output than can be paid, and a run's cost adds up", async () => {
    // 5,000 input tokens cost 0.01 USD and 600 output tokens 0.0048, which leaves 0.0002 of 0.015.
    const first = { ...calls(add("1+1")), usage: spent(5_000, 600) };

    const { done, requests } = await run("cent-and-a-half", [first, { text: "Never asked for." }]);

    const wanted = Number(requests[0]?.body.max_tokens ?? requests[0]?.body.max_completion_tokens);
    // The whole remainder would buy 1,875 output tokens; a part is reserved for the prompt.
    assert.ok(wanted > 1_000 && wanted < 1_875, String(wanted));
    assert.equal(requests.length, 1);
    assert.deepEqual([done.final.content, done.usage.cost.total], ["run limit reached: max_cost_usd", 0.0148]);
  });

  test("GOV-026 money is reserved at the dearest route that may answer", async () => {
    const { requests } = await run("with-fallback", [{ text: "Ok.", usage: spent(10, 5) }]);

    const wanted = Number(requests[0]?.body.max_tokens ?? requests[0]?.body.max_completion_tokens);
    assert.ok(wanted > 0 && wanted <= 0.01 / (80 / 1e6), String(wanted));
  });

  test("GOV-028 a breach is a denial in result, audit row and counter, and no other event", async () => {
    const denied = { status: "denied", manifest_id: "one-call" };
    const before = await counter("svc_tool_calls_total", denied);
    const deniedBefore = await counter("svc_policy_deny_total", { manifest_id: "one-call", policy: "max_tool_calls" });

    const { thread, frames, requests } = await run("one-call", [calls(add("1+1"), add("2+2")), { text: "Enough." }]);

    const told = "denied by limits: max_tool_calls (1) reached";
    assert.deepEqual(outputs(frames), ["2", told]);
    assert.equal(shown(requests[1]).at(-1)?.content, told);
    const events = await eventsOf(thread);
    assert.deepEqual(
      events.map(({ event_type, status }) => `${event_type} ${status}`),
      ["user_input ok", "tool_call ok", "policy_deny denied", "final_response error"],
    );
    const { tool, tool_call_id, control, reason } = events[2]?.payload ?? {};
    assert.deepEqual(
      [tool, tool_call_id, control, reason],
      ["calculator", "call_2", "limits", "max_tool_calls (1) reached"],
    );
    assert.equal(await counter("svc_tool_calls_total", denied), before + 1);
    const labels = { manifest_id: "one-call", policy: "max_tool_calls", tool: "calculator" };
    assert.equal(await counter("svc_policy_deny_total", labels), deniedBefore + 1);
  });

  test("GOV-029 a model without rates runs when no cap is declared, and costs zero", async () => {
    const labels = { manifest_id: "unpriced", model: "rateless" };
    const degraded = { control: "limits", manifest_id: "unpriced", reason: "unpriced" };
    const before = await counter("svc_model_unpriced_total", labels);
    const degradedBefore = await counter("svc_control_degraded_total", degraded);
    const huge = { text: "Dear me.", usage: spent(900_000, 90_000) };

    const { thread, done } = await run("unpriced", [huge], { model: "rateless" });
    const { json } = await server.get(`/usage?thread_id=${thread}`, { key: keys.operator });

    assert.equal(done.final.content, "Dear me.");
    assert.deepEqual([done.usage.totalTokens, done.usage.cost.total], [990_000, 0]);
    assert.deepEqual(
      json.items.map(({ model_id, cost_usd }: Record<string, unknown>) => [model_id, cost_usd]),
      [["rateless", 0]],
    );
    assert.equal(await counter("svc_model_unpriced_total", labels), before + 1);
    assert.equal(await counter("svc_control_degraded_total", degraded), degradedBefore + 1);
  });

  test("GOV-029 SPEC-024 a declared cap needs rates of the model or the manifest, stored or used", async () => {
    const capped = { limits: { max_cost_usd: 1 }, model: { id: "rateless" } };
    const stored = await put(capped);
    const used = await server.post("/chat", turn("unpriced-capped", "go"), { key: keys.caller });
    const { done } = await run("self-priced", [{ text: "Ok.", usage: spent(1_000, 1_000) }]);
    const switched = await server.post("/chat", turn("poor", "go", { model: "rateless" }), { key: keys.caller });

    assert.deepEqual(stored, [422, ["conflict spec.limits.max_cost_usd"]]);
    assert.deepEqual([used.status, used.json.error], [422, "invalid_manifest"]);
    assert.deepEqual(used.json.detail[0].loc, ["spec", "limits", "max_cost_usd"]);
    assert.equal(done.usage.cost.total, 0.002);
    assert.deepEqual([switched.status, switched.json.error], [400, "model_not_allowlisted:rateless"]);
  });

  test("OPS-017 observability.metrics lists all that is counted, and empty counts everything", async () => {
    const replies = [
      { ...calls(add("1+1")), usage: spent(10, 5) },
      { text: "Two.", usage: spent(10, 5) },
    ];

    await run("allowlisted", replies);
    await run("agent", replies);
    const { text } = await server.get("/metrics", { key: keys.operator });

    const names = (manifest: string) =>
      text
        .split("\n")
        .filter((line) => line.includes(`manifest_id="${manifest}"`))
        .map((line) => line.slice(0, line.indexOf("{")));
    assert.deepEqual([...new Set(names("allowlisted"))], ["svc_tool_calls_total"]);
    for (const name of ["svc_tool_calls_total", "svc_tokens_total", "svc_runs_total", "svc_tool_call_seconds_count"])
      assert.ok(names("agent").includes(name), name);
  });

  test("OPS-017 observability.trace is a boolean, true by default", async () => {
    const name = "traced";
    const body = (observability: object) => ({ manifest: { metadata: { name }, spec: { observability } } });
    await server.request("PUT", `/manifests/${name}`, { key: keys.operator, body: body({}) });
    const byDefault = await server.get(`/manifests/${name}`, { key: keys.operator });
    await server.request("PUT", `/manifests/${name}`, { key: keys.operator, body: body({ trace: false }) });
    const off = await server.get(`/manifests/${name}`, { key: keys.operator });

    assert.equal(byDefault.json.manifest.spec.observability.trace, true);
    assert.equal(off.json.manifest.spec.observability.trace, false);
    assert.deepEqual(await put({ observability: { trace: "yes" } }), put422("spec.observability.trace", "type_error"));
    assert.deepEqual(
      await put({ observability: { metrics: "all" } }),
      put422("spec.observability.metrics", "type_error"),
    );
  });

  test("OPS-019 svc_run_stop_reason and the counters of models, rules, controls and tools count", async () => {
    const series: [string, Record<string, string>, () => Promise<unknown>][] = [
      [
        "svc_run_stop_reason_total",
        { manifest_id: "agent", reason: "max_tokens" },
        () => run("agent", [], { model: "mock-finish-length" }),
      ],
      [
        "svc_model_switch_total",
        { from: "mock-status-400", to: "mock-text", reason: "provider_error" },
        () => run("fallible", []),
      ],
      [
        "svc_control_degraded_total",
        { control: "limits", manifest_id: "agent", reason: "unmetered" },
        () => run("agent", [], { model: "mock-no-usage" }),
      ],
      [
        "svc_tool_calls_total",
        { transport: "local", status: "ok", manifest_id: "agent" },
        () => run("agent", [], { model: "mock-tools" }),
      ],
      [
        "svc_tool_calls_total",
        { transport: "local", status: "error", manifest_id: "agent", error_code: "invalid_arguments" },
        () => run("agent", [calls(add("1/0")), { text: "Oh." }]),
      ],
      [
        "svc_tool_calls_total",
        { transport: "local", status: "denied", manifest_id: "guarded" },
        () => run("guarded", [calls(add("1+1")), { text: "Oh." }]),
      ],
    ];

    for (const [name, labels, provoke] of series) {
      const before = await counter(name, labels);
      await provoke();
      assert.equal(await counter(name, labels), before + 1, `${name} ${JSON.stringify(labels)}`);
    }

    await run("aimless", [{ text: "Ok." }]);
    const aimless = { manifest_id: "aimless", rule: "numbers: launch_*", kind: "policy" };
    assert.ok((await counter("svc_rule_targets_nothing_total", aimless)) >= 1);
  });
});
