// POST /chat/stream: its frames, their order, their ids and their bytes.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { calls, chunk, gate, inTurn, never, outline, says, startChat, turn, wordsOf } from "../support/chat.ts";
import type { MockModel } from "../support/mock-model.ts";
import type { TestServer } from "../support/server.ts";
import type { Frame } from "../support/sse-frames.ts";
import { cleanup } from "../support/temp.ts";

const usage = { prompt_tokens: 10, completion_tokens: 2, total_tokens: 12 };
const finishes = {
  "mock-finish-stop": "end_turn",
  "mock-finish-length": "max_tokens",
  "mock-finish-tool-calls": "end_turn",
  "mock-finish-content-filter": "refusal",
  "mock-finish-stop-sequence": "stop_sequence",
  "mock-finish-pause-turn": "pause_turn",
  "mock-finish-whatever": "unknown",
} as const;
const models = [
  ...["one-piece", "pieces", "tool-turn", "two-steps", "todos", "no-steps", "to-abort", "to-abort-early", "durable"],
  ...[
    "mock-status-400",
    "mock-truncated",
    "mock-reasoning",
    "mock-text",
    "mock-no-usage",
    "mock-usage-cached",
    "mock-empty",
  ],
  ...["signed", ...Object.keys(finishes)],
];
const structural = ["tool_start", "tool_end", "tool_execution_update", "on_chain_end", "done", "aborted"];

describe("POST /chat/stream", () => {
  const atEnd = cleanup();
  let server: TestServer;
  let mock: MockModel;
  before(async () => {
    ({ server, mock } = await startChat(atEnd, {
      models,
      manifests: {
        agent: { tools: ["calculator", "todo_write"] },
        hasty: { tools: ["calculator"], recursion_limit: 1 },
      },
      routes: { secretive: { provider: "groq", model: "x" } },
      providers: { groq: { api_key: "secret:NOT_THERE" } },
    }));
    mock.answer("one-piece", { text: "Hi.", usage });
    mock.answer("pieces", { text: ["Once ", "upon ", "a ", "time — “déjà vu” 🦊"] });
    mock.answer("tool-turn", inTurn(calls(["calculator", { expression: "6*7" }]), { text: "42." }));
    const add = ["calculator", { expression: "1+1" }] as const;
    mock.answer(
      "two-steps",
      inTurn({ text: "First. ", ...calls(add) }, { text: "Then. ", ...calls(add) }, { text: "Done." }),
    );
    mock.answer("no-steps", calls(["calculator", { expression: "1+1" }], ["calculator", { expression: "2+2" }]));
  });

  async function framesOf(model: string, fields: object = {}): Promise<Frame[]> {
    const stream = await server.stream("/chat/stream", turn("agent", "go", { model, ...fields }));
    assert.equal(stream.status, 200);
    return stream.rest();
  }
  const named = (frames: readonly Frame[], name: string) => frames.filter((frame) => frame.name === name);
  const dataOf = (frames: readonly Frame[], name: string) => named(frames, name).map(({ json }) => json.data);
  const doneOf = (frames: readonly Frame[]) => dataOf(frames, "done")[0];

  test("STREAM-007 POST /chat/stream accepts POST /chat's body and answers an unbuffered stream", async () => {
    const stream = await server.stream("/chat/stream", turn("agent", "go", { model: "one-piece", thread_id: "head" }));
    await stream.rest();

    const { "content-type": type, "cache-control": cache, "x-accel-buffering": buffering } = stream.headers;
    assert.deepEqual([stream.status, type, cache, buffering], [200, "text/event-stream", "no-cache", "no"]);
    assert.match(String(stream.headers["x-request-id"]), /^[\x21-\x7e]+$/);
  });

  test("STREAM-019 STREAM-020 STREAM-021 the bytes of a plain turn are the specified ones", async () => {
    const body = turn("agent", "go", { model: "one-piece", thread_id: "bytes" });
    const stream = await server.stream("/chat/stream", body);
    await stream.rest();

    const frame = (name: string, data: string, text = "") =>
      `data: {"event":"${name}","type":"${name}","data":${data},"text":"${text}"}\n\n`;
    const price = '"cost":{"input":0.00002,"output":0.000016,"cacheRead":0,"cacheWrite":0,"total":0.000036}';
    const spent = `{"input":10,"output":2,"cacheRead":0,"cacheWrite":0,"totalTokens":12,${price}}`;
    const reply = '{"role":"assistant","content":"Hi."}';
    const done = `{"final":${reply},"messages":[{"role":"user","content":"go"},${reply}],"stop_reason":"end_turn","usage":${spent}}`;
    const end =
      /^id: 2\n(data: \{"event":"on_chain_end","type":"on_chain_end","data":\{"output":"[^"\\]*"\},"text":""\}\n\n)/m;
    assert.equal(
      stream.text.replace(end, "<on_chain_end>"),
      frame("session_progress", '{"phase":"turn"}') +
        frame("session_progress", '{"progress":{"type":"assistant_delta","kind":"text","delta":"Hi."}}') +
        frame("text_delta", '{"chunk":{"content":"Hi."},"delta":"Hi."}', "Hi.") +
        `<on_chain_end>id: 2\n${frame("done", done)}data: [DONE]\n\n`,
    );
  });

  test("STREAM-024 STREAM-045 STREAM-046 a plain turn is session_progress, text, on_chain_end, done and [DONE], in order", async () => {
    const frames = await framesOf("pieces", { thread_id: "plain" });

    assert.deepEqual(outline(frames), ["session_progress", "text", "on_chain_end", "done", "[DONE]"]);
    assert.deepEqual(frames[0]?.json.data, { phase: "turn" });
    assert.equal(typeof frames.at(-3)?.json.data.output, "string");
    assert.deepEqual(Object.keys(frames.at(-2)?.json.data), ["final", "messages", "stop_reason", "usage"]);
  });

  test("STREAM-046 done has the answer of POST /chat for the same turn", async () => {
    const done = doneOf(await framesOf("one-piece", { thread_id: "same-stream" }));
    const { json } = await server.post("/chat", turn("agent", "go", { model: "one-piece", thread_id: "same-chat" }));

    const { final, messages, stop_reason, usage } = json;
    assert.deepEqual(done, { final, messages, stop_reason, usage });
  });

  test("STREAM-026 STREAM-027 STREAM-028 every text_delta follows its session_progress, and together they are the reply", async () => {
    const frames = await framesOf("pieces", { thread_id: "deltas" });

    for (const [at, frame] of frames.entries()) {
      if (frame.name !== "text_delta") continue;
      const { delta, chunk: piece } = frame.json.data;
      assert.deepEqual(frames[at - 1]?.json.data, { progress: { type: "assistant_delta", kind: "text", delta } });
      assert.deepEqual(piece, { content: delta });
    }
    const progress = frames.filter(({ json }) => json?.data?.progress !== undefined);
    assert.equal(progress.length, named(frames, "text_delta").length);
    assert.equal(wordsOf(frames), "Once upon a time — “déjà vu” 🦊");
    assert.equal(doneOf(frames).final.content, wordsOf(frames));
    assert.deepEqual(named(frames, "on_chat_model_stream"), []);
  });

  test("STREAM-029 STREAM-030 STREAM-031 a tool turn is tool_start, running, tool_end, complete, then the reply", async () => {
    const frames = await framesOf("tool-turn", { thread_id: "tool" });

    assert.deepEqual(outline(frames), [
      "session_progress",
      ...["tool_start", "tool_execution_update", "tool_end", "tool_execution_update"],
      ...["text", "on_chain_end", "done", "[DONE]"],
    ]);
    const call = { name: "calculator", id: "call_1" };
    assert.deepEqual(dataOf(frames, "tool_start"), [{ ...call, input: { expression: "6*7" } }]);
    assert.deepEqual(dataOf(frames, "tool_end"), [{ ...call, output: "42" }]);
    assert.deepEqual(dataOf(frames, "tool_execution_update"), [
      { ...call, status: "running" },
      { ...call, status: "complete" },
    ]);
  });

  test("STREAM-027 STREAM-046 a turn's deltas are the text of all its steps; final is the last", async () => {
    const frames = await framesOf("two-steps", { thread_id: "steps" });

    assert.equal(wordsOf(frames), "First. Then. Done.");
    assert.equal(doneOf(frames).final.content, "Done.");
    const step = ["text", "tool_start", "tool_execution_update", "tool_end", "tool_execution_update"];
    assert.deepEqual(outline(frames), [
      ...["session_progress", ...step, ...step],
      ...["text", "on_chain_end", "done", "[DONE]"],
    ]);
  });

  test("STREAM-019 STREAM-020 event and type of every frame are equal, and text repeats the data", async () => {
    const streams = [
      await framesOf("tool-turn", { thread_id: "envelope" }),
      await framesOf("mock-reasoning"),
      await framesOf("mock-status-400"),
    ];

    for (const frame of streams.flat()) {
      if (frame.name === "[DONE]") continue;
      const { data, text, ...names } = frame.json;
      assert.equal(frame.event, null, "a bare data: line");
      assert.deepEqual(Object.keys(frame.json), ["event", "type", "data", "text"]);
      assert.equal(names.type, names.event);
      assert.equal(text, data.chunk?.content ?? data.text ?? data.delta ?? "");
    }
  });

  test("STREAM-022 structural frames have the next sequence number as id, token frames none", async () => {
    const frames = await framesOf("tool-turn", { thread_id: "ids" });
    const { json } = await server.get("/chat/sessions/ids");

    for (const frame of frames) {
      if (structural.includes(frame.name)) assert.match(frame.id ?? "", /^\d+$/, frame.name);
      else if (["text_delta", "session_progress", "[DONE]"].includes(frame.name))
        assert.equal(frame.id, null, frame.name);
    }
    const ids = frames.flatMap(({ id }) => (id === null ? [] : [Number(id)]));
    assert.deepEqual(
      ids,
      ids.toSorted((a, b) => a - b),
    );
    const kinds: string[] = json.transcript.map(({ kind }: { kind: string }) => kind);
    assert.deepEqual(kinds, ["message", "message", "tool_call", "tool_result", "message"]);
    assert.equal(named(frames, "tool_start")[0]?.id, "3", "what asks for the tool and the intent are durable");
    assert.equal(named(frames, "tool_end")[0]?.id, "4", "so is the result");
    assert.equal(named(frames, "done")[0]?.id, "5");
  });

  test("STREAM-022 a stateless stream has no frame ids", async () => {
    const frames = await framesOf("tool-turn");

    assert.ok(named(frames, "tool_end").length === 1 && named(frames, "done").length === 1);
    assert.deepEqual(
      frames.filter(({ id }) => id !== null),
      [],
    );
  });

  test("STREAM-022 the event of a frame with an id is durable when the frame arrives", async () => {
    const more = gate();
    mock.answer("durable", calls(["calculator", { expression: "1+1" }]), says(more.opened, "Two."));

    const body = turn("agent", "go", { model: "durable", thread_id: "durable" });
    const stream = await server.stream("/chat/stream", body);
    const end = await stream.until("tool_end");
    const { json } = await server.get("/chat/history/durable");
    more.open();
    const done = await stream.until("done");
    const after = await server.get("/chat/history/durable");

    assert.equal(json.messages.at(-1).content, "2");
    assert.equal(json.messages.at(-1).seq, Number(end.id) - 1);
    assert.equal(after.json.messages.at(-1).seq, Number(done.id) - 1);
    assert.equal((await stream.next())?.name, "[DONE]");
  });

  test("STREAM-037 todo_updated comes inside the call before tool_end, for an accepted write only", async () => {
    const todos = [
      { content: "Plan", status: "completed" },
      { content: "Build", status: "in_progress", active_form: "Building" },
    ];
    const busy = { content: "x", status: "in_progress" };
    mock.answer(
      "todos",
      inTurn(calls(["todo_write", { todos }]), calls(["todo_write", { todos: [busy, busy] }]), { text: "Ok." }),
    );

    const frames = await framesOf("todos", { thread_id: "todos" });

    const call = ["tool_start", "tool_execution_update", "tool_end", "tool_execution_update"];
    assert.deepEqual(outline(frames), [
      ...["session_progress", "tool_start", "tool_execution_update", "todo_updated"],
      ...["tool_end", "tool_execution_update", ...call, "text", "on_chain_end", "done", "[DONE]"],
    ]);
    assert.deepEqual(dataOf(frames, "todo_updated"), [
      {
        todos: [
          { id: "1", content: "Plan", status: "completed", active_form: "" },
          { id: "2", content: "Build", status: "in_progress", active_form: "Building" },
        ],
      },
    ]);
    assert.match(dataOf(frames, "tool_end")[1].output, /^\[tool error\/invalid_arguments\] /);
  });

  test("STREAM-042 PAT-016 a run out of steps sends max_turns with its limit, and runs no pending call", async () => {
    const body = turn("hasty", "go", { model: "no-steps", thread_id: "no-steps" });
    const frames = await (await server.stream("/chat/stream", body)).rest();

    const names = outline(frames);
    assert.deepEqual(
      [names[0], ...names.slice(-4)],
      ["session_progress", "max_turns", "on_chain_end", "done", "[DONE]"],
    );
    const notRun = "[tool error/interrupted] not run: the run is out of steps";
    for (const { output } of dataOf(frames, "tool_end") as { output: string }[]) assert.equal(output, notRun);
    assert.equal(dataOf(frames, "tool_end").length, dataOf(frames, "tool_start").length);
    assert.deepEqual(dataOf(frames, "max_turns"), [{ limit: 1 }]);
    assert.equal(doneOf(frames).stop_reason, "max_turns");
  });

  test("STREAM-043 SESS-005 an abort is aborted, on_chain_end, done with the partial reply, and [DONE]", async () => {
    mock.answer("to-abort", says("So far", never));
    const body = turn("agent", "go", { model: "to-abort", thread_id: "to-abort" });
    const stream = await server.stream("/chat/stream", body);
    const opening = [await stream.next(), await stream.next(), await stream.next()] as Frame[];

    const { json } = await server.post("/chat/abort", { thread_id: "to-abort" });
    const rest = await stream.rest();

    assert.deepEqual([json.ok, json.aborted, json.thread_id], [true, true, "default:to-abort"]);
    assert.deepEqual(outline([...opening, ...rest]), [
      "session_progress",
      "text",
      "aborted",
      "on_chain_end",
      "done",
      "[DONE]",
    ]);
    assert.deepEqual(dataOf(rest, "aborted"), [{ thread_id: "default:to-abort" }]);
    const { final, stop_reason } = doneOf(rest);
    assert.deepEqual([final, stop_reason], [{ role: "assistant", content: "So far" }, "unknown"]);
    assert.equal(await mock.requests.find(({ model }) => model === "to-abort")?.ended, "gone");
  });

  test("STREAM-043 an abort before the first word has no final", async () => {
    mock.answer("to-abort-early", says(never));
    const body = turn("agent", "go", { model: "to-abort-early", thread_id: "to-abort-early" });
    const stream = await server.stream("/chat/stream", body);
    await stream.next();

    await server.post("/chat/abort", { thread_id: "to-abort-early" });
    const rest = await stream.rest();

    assert.deepEqual(outline(rest), ["aborted", "on_chain_end", "done", "[DONE]"]);
    assert.deepEqual([doneOf(rest).final, doneOf(rest).stop_reason], [null, "unknown"]);
  });

  test("STREAM-044 a model failure is on_error, on_chain_end, done, [DONE]; the user turn is logged", async () => {
    const frames = await framesOf("mock-status-400", { thread_id: "failing" });
    const { json } = await server.get("/chat/history/failing");

    assert.deepEqual(outline(frames), ["session_progress", "on_error", "on_chain_end", "done", "[DONE]"]);
    assert.deepEqual(dataOf(frames, "on_error"), [
      { message: "model provider failed: status 400: The mock answers 400." },
    ]);
    assert.deepEqual([doneOf(frames).final, doneOf(frames).stop_reason], [null, "unknown"]);
    assert.deepEqual(
      json.messages.map(({ role, content }: { role: string; content: string }) => [role, content]),
      [["user", "go"]],
    );
  });

  test("STREAM-044 a model that fails after its first words has them in done and log, with status", async () => {
    const frames = await framesOf("mock-truncated", { thread_id: "cut" });
    const { json } = await server.get("/chat/sessions/cut");

    assert.deepEqual(outline(frames), ["session_progress", "text", "on_error", "on_chain_end", "done", "[DONE]"]);
    assert.deepEqual(doneOf(frames).final, { role: "assistant", content: wordsOf(frames) });
    const last = json.transcript.at(-1);
    assert.deepEqual([last.role, last.content, last.status], ["assistant", wordsOf(frames), "error"]);
  });

  test("STREAM-023 STREAM-021 any other failure after the 200 is event: error (stream_error), then [DONE]", async () => {
    const stream = await server.stream(
      "/chat/stream",
      turn("agent", "go", { model: "secretive", thread_id: "secret" }),
    );
    const frames = await stream.rest();

    assert.equal(stream.status, 200);
    assert.deepEqual(outline(frames), ["session_progress", "error", "[DONE]"]);
    const [error] = named(frames, "error") as [Frame];
    assert.equal(error.event, "error");
    assert.equal(error.raw, `event: error\ndata: ${error.data}\n\n`);
    assert.deepEqual(Object.keys(error.json), ["error"]);
    assert.deepEqual(Object.keys(error.json.error), ["message", "type"]);
    assert.equal(error.json.error.type, "stream_error");
    assert.ok(error.json.error.message.includes(String(stream.headers["x-request-id"])));
    assert.ok(error.json.error.message.length <= 200);
  });

  test("STREAM-047 the provider's finish reasons become stop reasons", async () => {
    for (const [model, reason] of Object.entries(finishes)) {
      const frames = await framesOf(model, { thread_id: model });

      assert.equal(doneOf(frames).stop_reason, reason, model);
    }
  });

  test("STREAM-048 OPS-013 done has usage with all its keys, and none when the provider reported none", async () => {
    const counted = doneOf(await framesOf("one-piece"));
    const uncounted = doneOf(await framesOf("mock-no-usage"));

    assert.deepEqual(counted.usage, {
      input: 10,
      output: 2,
      cacheRead: 0,
      cacheWrite: 0,
      totalTokens: 12,
      cost: { input: 0.00002, output: 0.000016, cacheRead: 0, cacheWrite: 0, total: 0.000036 },
    });
    assert.deepEqual(Object.keys(uncounted), ["final", "messages", "stop_reason"]);
  });

  test("STREAM-049 usage.input, cacheRead and cacheWrite together are the prompt", async () => {
    const { usage } = doneOf(await framesOf("mock-usage-cached"));

    assert.deepEqual([usage.input, usage.cacheRead, usage.cacheWrite, usage.output], [20, 30, 0, 5]);
    assert.equal(usage.input + usage.cacheRead + usage.cacheWrite, 50);
    assert.equal(usage.totalTokens, 55);
  });

  test("STREAM-002 reasoning is sent as thinking_delta, not in the reply, and kept in metadata", async () => {
    const frames = await framesOf("mock-reasoning", { thread_id: "thinking" });
    const plain = await framesOf("mock-text", { thread_id: "not-thinking" });
    const thinking = (await server.get("/chat/sessions/thinking")).json.transcript.at(-1);
    const without = (await server.get("/chat/sessions/not-thinking")).json.transcript.at(-1);

    const thoughts = dataOf(frames, "thinking_delta");
    assert.equal(thoughts.map(({ delta }) => delta).join(""), "Let me think.");
    assert.equal(wordsOf(frames), "Hello from the mock.");
    assert.deepEqual(thinking.metadata.thinking, [{ type: "thinking", thinking: "Let me think." }]);
    assert.deepEqual(named(plain, "thinking_delta"), []);
    assert.ok(!("thinking" in without.metadata));
  });

  test("STREAM-003 signatures and redacted thinking of a provider are sent to no client", async () => {
    const delta = {
      reasoning_content: "Readable.",
      reasoning_details: [
        { type: "reasoning.text", text: "Readable.", signature: "SIGNATURE-1" },
        { type: "reasoning.encrypted", data: "REDACTED-1" },
      ],
      thinking_blocks: [{ type: "redacted_thinking", data: "REDACTED-2", signature: "SIGNATURE-2" }],
    };
    mock.answer("signed", { steps: [{ send: chunk(delta, null) + chunk({ content: "Said." }, "stop") }] });
    const stream = await server.stream("/chat/stream", turn("agent", "go", { model: "signed", thread_id: "signed" }));
    const frames = await stream.rest();
    const others = [await server.get("/chat/sessions/signed"), await server.get("/chat/history/signed")];

    assert.equal(doneOf(frames).final.content, "Said.");
    for (const text of [stream.text, ...others.map(({ text }) => text)])
      assert.doesNotMatch(text, /SIGNATURE|REDACTED/);
    assert.ok(others[0]?.text.includes("Readable."));
  });

  test("STREAM-046 a model without output ends its turn like any other, with an empty reply", async () => {
    const frames = await framesOf("mock-empty", { thread_id: "nothing-said" });

    assert.deepEqual(outline(frames), ["session_progress", "on_chain_end", "done", "[DONE]"]);
    assert.deepEqual(doneOf(frames).final, { role: "assistant", content: "" });
  });

  test("STREAM-021 a refusal before the first frame is no stream but a JSON answer", async () => {
    const { status, headers, text } = await server.post("/chat/stream", turn("nobody", "go"));

    assert.deepEqual([status, headers["content-type"]], [404, "application/json"]);
    assert.match(
      text,
      /^\{"error":"unknown_manifest:nobody","detail":"unknown_manifest:nobody","message":"There is no manifest [^"]+"\}$/,
    );
  });
});
