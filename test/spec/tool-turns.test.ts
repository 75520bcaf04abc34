// Turns with tools: the loop of the pattern react, sequential and parallel calls, their log entries, and the end of the
// loop.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { calls, inTurn, outline, shown, startChat, turn } from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
import type { Reply } from "../support/mock-model/behaviours.ts";
import type { MockModel } from "../support/mock-model.ts";
import type { TestServer } from "../support/server.ts";
import type { Frame } from "../support/sse-frames.ts";
import { cleanup, tempDir } from "../support/temp.ts";

const models = ["mock-tools-forever", "scripted", "alone"];
const add = (expression: string) => ["calculator", { expression }] as const;

interface Event {
  readonly kind: string;
  readonly role: string | null;
  readonly content: string;
  readonly toolName?: string;
  readonly toolCallId?: string;
  readonly toolCalls?: readonly { id: string; name: string }[];
  readonly metadata: Readonly<Record<string, unknown>>;
}

interface Result {
  readonly content: string;
  readonly tool_call_id: string;
}

describe("turns with tools", () => {
  const atEnd = cleanup();
  let server: TestServer;
  let mock: MockModel;
  before(async () => {
    const tools = ["calculator", "todo_write", "write_file", "read_file", "list_dir"];
    ({ server, mock } = await startChat(atEnd, {
      models,
      manifests: {
        agent: { tools },
        parallel: { tools, execution: { tools: "parallel" } },
        brief: { tools, recursion_limit: 2 },
        limited: { tools, limits: { max_tool_calls: 0 } },
        bare: {},
      },
      env: { SVC_WORKSPACE_ROOT: tempDir(atEnd) },
    }));
  });

  /** Runs a turn whose model gives these replies in order. */
  async function run(manifest: string, thread: string | null, ...replies: Reply[]) {
    const asked = mock.requests.length;
    mock.answer("scripted", inTurn(...replies));
    const fields = { model: "scripted", ...(thread !== null && { thread_id: thread }) };
    const stream = await server.stream("/chat/stream", turn(manifest, "go", fields));
    assert.equal(stream.status, 200);
    const frames = await stream.rest();
    const done = frames.find(({ name }) => name === "done")?.json.data;
    return { frames, done, requests: mock.requests.slice(asked) };
  }
  const eventsOf = async (thread: string): Promise<Event[]> =>
    (await server.get(`/chat/sessions/${thread}`)).json.transcript;
  /** The frames of tool calls in order, as pairs of frame and call. */
  const steps = (frames: readonly Frame[]) =>
    frames
      .filter(({ name }) => name === "tool_start" || name === "tool_end")
      .map(({ name, json }) => `${name} ${json.data.id}`);
  const outputs = (frames: readonly Frame[]) =>
    frames.filter(({ name }) => name === "tool_end").map(({ json }) => json.data.output);

  test("PAT-003 react calls the model, runs its calls and repeats until an answer without a call", async () => {
    const { frames, done, requests } = await run(
      "agent",
      "rounds",
      { text: "First.", ...calls(add("6*7")) },
      calls(add("42/5"), add("1+1")),
      { text: "Now I know." },
    );

    assert.equal(requests.length, 3);
    assert.deepEqual([done.final.content, done.stop_reason], ["Now I know.", "end_turn"]);
    const call = (id: string, expression: string) => ({
      id,
      type: "function",
      function: { name: "calculator", arguments: JSON.stringify({ expression }) },
    });
    const started = frames.filter(({ name }) => name === "tool_start").map(({ json }) => json.data.id as string);
    const [, third = "", fourth = ""] = started;
    assert.deepEqual(shown(requests[2]), [
      { role: "user", content: "go" },
      { role: "assistant", content: "First.", tool_calls: [call("call_1", "6*7")] },
      { role: "tool", content: "42", tool_call_id: "call_1" },
      { role: "assistant", content: "", tool_calls: [call(third, "42/5"), call(fourth, "1+1")] },
      { role: "tool", content: "8.4", tool_call_id: third },
      { role: "tool", content: "2", tool_call_id: fourth },
    ]);
  });

  test("PAT-003 a model that answers at once is called once, and without tools gets none", async () => {
    const { done, requests } = await run("bare", "at-once", { text: "Hi." });

    assert.equal(requests.length, 1);
    assert.ok(!("tools" in (requests[0]?.body ?? {})));
    assert.equal(done.final.content, "Hi.");
  });

  test("PAT-003 every step offers the manifest's tools, each with its description and schema", async () => {
    const { requests } = await run("agent", "offered", calls(add("1+1")), { text: "Two." });

    const [first, second] = requests.map(({ body }) => body.tools) as { function: Record<string, unknown> }[][];
    assert.deepEqual(first, second);
    assert.deepEqual(
      first?.map((tool) => tool.function.name),
      ["calculator", "todo_write", "write_file", "read_file", "list_dir"],
    );
    for (const tool of first ?? []) assert.deepEqual(Object.keys(tool.function), ["name", "description", "parameters"]);
  });

  test("PAT-003 a failed call is a result for the model, and the loop continues", async () => {
    const { frames, done, requests } = await run(
      "agent",
      "failing",
      calls(
        add("1/0"),
        ["calculator", "{broken"],
        ["calculator", { sum: "1+1" }],
        ["launch", {}],
        ["read_file", { path: "no" }],
      ),
      { text: "I see." },
    );

    const [zero, broken, wrong, unknown, missing] = outputs(frames);
    assert.match(zero, /^\[tool error\/invalid_arguments\] /);
    assert.match(broken, /^\[tool error\/invalid_arguments\] /);
    assert.match(wrong, /^\[tool error\/invalid_arguments\] /);
    assert.match(unknown, /^\[tool error\/permission_denied\] /);
    assert.match(missing, /^\[tool error\/not_found\] /);
    assert.deepEqual(
      shown(requests[1])
        .filter(({ role }) => role === "tool")
        .map(({ content }) => content),
      outputs(frames),
    );
    assert.deepEqual([done.final.content, done.stop_reason], ["I see.", "end_turn"]);
  });

  test("PAT-003 a tool outside the manifest is refused in the words for an unknown one", async () => {
    const { frames } = await run("agent", "not-bound", calls(["glob", { pattern: "*" }], ["no_such_tool", {}]), {
      text: "Ok.",
    });

    const [existing, missing] = outputs(frames);
    assert.equal(existing, missing);
  });

  test("SPEC-056 sequential (default): a call starts after the previous one and sees its effect", async () => {
    const batch = calls(
      ["write_file", { path: "note.txt", content: "first" }],
      ["read_file", { path: "note.txt" }],
      ["write_file", { path: "note.txt", content: "second" }],
      ["read_file", { path: "note.txt" }],
    );

    const { frames } = await run("agent", "in-sequence", batch, { text: "Done." });

    const order = [1, 2, 3, 4].flatMap((at) => [`tool_start call_${at}`, `tool_end call_${at}`]);
    assert.deepEqual(steps(frames), order);
    const [, first, , second] = outputs(frames);
    assert.ok(first.includes("first") && second.includes("second"));
  });

  test("SPEC-056 parallel: all calls of a reply start before any ends, and results keep order", async () => {
    const batch = calls(["list_dir", { path: "." }], add("6*7"), ["list_dir", { path: "." }], add("1/0"));

    for (const thread of ["side-by-side", null]) {
      const { frames, requests } = await run("parallel", thread, batch, { text: "Done." });

      const order = steps(frames);
      assert.deepEqual(
        order.slice(0, 4).toSorted(),
        [1, 2, 3, 4].map((at) => `tool_start call_${at}`),
      );
      assert.deepEqual(
        order.slice(4).toSorted(),
        [1, 2, 3, 4].map((at) => `tool_end call_${at}`),
      );
      const results = shown(requests[1]).filter(({ role }) => role === "tool") as unknown as Result[];
      assert.deepEqual(
        results.map(({ tool_call_id }) => tool_call_id),
        ["call_1", "call_2", "call_3", "call_4"],
      );
      assert.equal(results[1]?.content, "42");
    }
  });

  test("SPEC-056 parallel calls are all logged, each with one intent before its one result", async () => {
    const batch = calls(add("1+1"), add("2+2"), add("3+3"), add("4+4"));

    await run("parallel", "journal-parallel", batch, { text: "Done." });

    const events = await eventsOf("journal-parallel");
    for (const id of ["call_1", "call_2", "call_3", "call_4"]) {
      const own = events.filter(({ toolCallId }) => toolCallId === id).map(({ kind }) => kind);
      assert.deepEqual(own, ["tool_call", "tool_result"]);
    }
  });

  test("PAT-003 a call's intent is logged with key and effect before it runs, then its result", async () => {
    await run(
      "agent",
      "journal",
      calls(add("6*7"), ["write_file", { path: "a.txt", content: "a" }], ["read_file", { path: "a.txt" }]),
      { text: "Done." },
    );

    const [, asks, ...rest] = await eventsOf("journal");
    assert.deepEqual(
      asks?.toolCalls?.map(({ id, name }) => [id, name]),
      [
        ["call_1", "calculator"],
        ["call_2", "write_file"],
        ["call_3", "read_file"],
      ],
    );
    const journal = rest.slice(0, -1);
    assert.deepEqual(
      journal.map(({ kind, toolName, toolCallId }) => [kind, toolName, toolCallId]),
      [
        ["tool_call", "calculator", "call_1"],
        ["tool_result", "calculator", "call_1"],
        ["tool_call", "write_file", "call_2"],
        ["tool_result", "write_file", "call_2"],
        ["tool_call", "read_file", "call_3"],
        ["tool_result", "read_file", "call_3"],
      ],
    );
    const intents = journal.filter(({ kind }) => kind === "tool_call");
    assert.deepEqual(
      intents.map(({ content, metadata }) => [content, metadata.effect]),
      [
        ["", "read"],
        ["", "once"],
        ["", "read"],
      ],
    );
    const runs = intents.map(({ metadata, toolCallId }) => {
      const [run, call] = String(metadata.key).split(".");
      assert.equal(call, toolCallId);
      return run;
    });
    assert.match(String(runs[0]), /^[0-9a-f]{32}$/);
    assert.equal(new Set(runs).size, 1, "the keys of a run begin alike");
    assert.ok(rest.at(-1)?.role === "assistant");
  });

  test("PAT-003 an unknown, malformed or denied call has a result and no intent", async () => {
    await run("limited", "no-intent", calls(["launch", {}], ["read_file", "{broken"], add("1+1")), { text: "Ok." });

    const events = await eventsOf("no-intent");
    assert.deepEqual(
      events.filter(({ kind }) => kind === "tool_call"),
      [],
    );
    assert.deepEqual(
      events.filter(({ kind }) => kind === "tool_result").map(({ metadata }) => metadata.status),
      ["error", "error", "denied"],
    );
  });

  test("PAT-003 missing, overlong and repeated ids of calls are replaced by the server's own", async () => {
    const same = { name: "calculator", arguments: '{"expression":"1+1"}' };
    const ids = ["", "x".repeat(300), "twice", "twice"];

    const { frames, requests } = await run(
      "agent",
      "ids-of-calls",
      { toolCalls: ids.map((id, index) => ({ ...same, id, index })) },
      { toolCalls: [{ ...same, id: "twice" }] },
      { text: "Done." },
    );

    const used = frames.filter(({ name }) => name === "tool_start").map(({ json }) => json.data.id as string);
    assert.equal(used.length, 5);
    assert.equal(new Set(used).size, 5);
    assert.equal(used[2], "twice");
    for (const at of [0, 1, 3, 4]) assert.match(String(used[at]), /^call_[0-9a-f]+$/);
    const answered = shown(requests[2]) as unknown as { tool_call_id?: string }[];
    assert.deepEqual(
      answered.flatMap(({ tool_call_id }) => tool_call_id ?? []),
      used,
    );
  });

  test("PAT-003 an invalid tool name is refused, and sent back in a form that providers accept", async () => {
    const names = ["functions.calculator", "", "x".repeat(70_000), "rechne bitte", 'a"b'];

    const { frames, requests } = await run("agent", "odd-names", calls(...names.map((name) => [name, {}] as const)), {
      text: "Ok.",
    });

    const results = outputs(frames);
    assert.equal(results.length, names.length);
    for (const text of results) assert.match(text, /^\[tool error\/permission_denied\] /);
    const [, asks] = shown(requests[1]) as unknown as { tool_calls: { function: { name: string } }[] }[];
    assert.deepEqual(
      asks?.tool_calls.map((call) => call.function.name),
      ["functions-calculator", "unnamed", "x".repeat(64), "rechne-bitte", "a-b"],
    );
  });

  test("PAT-003 results of tools are there for the next turn of the thread", async () => {
    await run("agent", "later", calls(add("6*7")), { text: "It is 42." });

    const { requests } = await run("agent", "later", { text: "As I said." });

    assert.deepEqual(
      shown(requests[0]).map(({ role }) => role),
      ["user", "assistant", "tool", "assistant", "user"],
    );
  });

  test("SPEC-053 PAT-016 a step is one model call, 10 by default, and the last one's calls are not run", async () => {
    const asked = mock.requests.length;
    const body = turn("agent", "go", { model: "mock-tools-forever", thread_id: "forever" });
    const frames = await (await server.stream("/chat/stream", body)).rest();

    assert.equal(mock.requests.length - asked, 10);
    const ends = frames.filter(({ name }) => name === "tool_end").map(({ json }) => json.data.output);
    assert.equal(ends.length, 10);
    assert.equal(ends.at(-1), "[tool error/interrupted] not run: the run is out of steps");
    assert.equal(steps(frames).filter((step) => step.startsWith("tool_start")).length, 10);
    const names = outline(frames);
    assert.deepEqual(names.slice(-4), ["max_turns", "on_chain_end", "done", "[DONE]"]);
    assert.deepEqual(frames.find(({ name }) => name === "max_turns")?.json.data, { limit: 10 });
    const done = frames.find(({ name }) => name === "done")?.json.data;
    assert.deepEqual([done.final, done.stop_reason], [null, "max_turns"]);
  });

  test("SPEC-053 PAT-016 a run out of steps leaves a truncated session in which every call has a result", async () => {
    const { done, requests } = await run(
      "brief",
      "truncated",
      calls(add("1+1")),
      { text: "And then: ", ...calls(add("2+2"), ["write_file", { path: "never.txt", content: "x" }]) },
      { text: "Never asked for." },
    );

    assert.equal(requests.length, 2);
    assert.deepEqual([done.final.content, done.stop_reason], ["And then: ", "max_turns"]);
    const events = await eventsOf("truncated");
    const last = events.slice(-3);
    assert.deepEqual([last[0]?.role, last[0]?.metadata.truncated], ["assistant", true]);
    assert.deepEqual(
      last.slice(1).map(({ kind, content, metadata }) => [kind, content, metadata.status]),
      [
        ["tool_result", "[tool error/interrupted] not run: the run is out of steps", "error"],
        ["tool_result", "[tool error/interrupted] not run: the run is out of steps", "error"],
      ],
    );
    assert.equal(events.filter(({ kind }) => kind === "tool_call").length, 1);
    const { frames } = await run("agent", "truncated", calls(["read_file", { path: "never.txt" }]), { text: "No." });
    assert.match(outputs(frames)[0], /^\[tool error\/not_found\] /);
  });

  test("SPEC-053 POST /chat and /v1 each report a run out of steps in their own form", async () => {
    mock.answer("alone", calls(add("1+1")));
    const native = await server.post("/chat", turn("brief", "go", { model: "alone" }));
    mock.answer("scripted", calls(add("1+1")));
    const completion = { model: "brief", messages: [{ role: "user", content: "go" }], user: "out-of-steps" };
    const openAi = await server.post("/v1/chat/completions", completion);

    assert.deepEqual([native.status, native.json.final, native.json.stop_reason], [200, null, "max_turns"]);
    assert.equal(native.json.messages.at(-1).content, "[tool error/interrupted] not run: the run is out of steps");
    assert.equal(openAi.status, 200);
    assert.equal(openAi.json.choices[0].finish_reason, "length");
  });

  test("AUDIT-016 the calls of a turn are listed in order, also within a millisecond", async () => {
    const batch = calls(...Array.from({ length: 60 }, () => add("1+1")));
    await run("parallel", "audited", batch, { text: "Done." });

    const listed = await eventually("the events of the turn", async () => {
      const { items } = (await server.get("/audit?event_type=tool_call&limit=500")).json;
      const own = items.filter(
        ({ payload }: { payload: { thread_id: string } }) => payload.thread_id === "default:audited",
      );
      return own.length === 60 ? own.reverse() : undefined;
    });

    assert.deepEqual(
      listed.map(({ payload }: { payload: { tool_call_id: string } }) => payload.tool_call_id),
      Array.from({ length: 60 }, (_, at) => `call_${at + 1}`),
    );
  });
});

describe("turns without a workspace", () => {
  const atEnd = cleanup();

  test("WS-015 a workspace tool says that SVC_WORKSPACE_ROOT is unset", async () => {
    const { server, mock } = await startChat(atEnd, {
      models: ["scripted"],
      manifests: { agent: { tools: ["read_file"] } },
    });
    mock.answer("scripted", inTurn(calls(["read_file", { path: "a" }]), { text: "I cannot." }));

    const { json } = await server.post("/chat", turn("agent", "go", { thread_id: "rootless" }));

    const results = json.messages.filter(({ role }: { role: string }) => role === "tool");
    assert.deepEqual(
      results.map(({ content }: { content: string }) => content),
      ["[tool error/transport_unavailable] workspace_root is not configured"],
    );
  });
});
