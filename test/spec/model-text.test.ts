// Model text that not every system can store: NUL, and halves of surrogate pairs. All readers see the same replacement
// on both engines: frames, answers, the log, replays, and the model's next step.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { migrate } from "../../storage/migrate.ts";
import { chunk, inTurn, shown, startChat, turn, wordsOf } from "../support/chat.ts";
import type { Script, Step } from "../support/mock-model/script.ts";
import type { MockModel } from "../support/mock-model.ts";
import { testDatabase } from "../support/postgres.ts";
import type { TestServer } from "../support/server.ts";
import type { Frame } from "../support/sse-frames.ts";
import { gateDialects } from "../support/stores.ts";
import { cleanup, tempDir } from "../support/temp.ts";

/** A reply in separate events. */
function inPieces(deltas: readonly object[], finish: string): Script {
  const events = [...deltas.map((delta) => chunk(delta, null)), `${chunk({}, finish)}data: [DONE]\n\n`];
  return { steps: [{ paced: events, gapMs: 2 } satisfies Step] };
}

const pieces = ["a \ud83d", "\ude00 b \ud83d", " c\0", "\udc00\ud800", "\udbff", "\udfff", " d \ud83d"];
const whole = "a 😀 b \ufffd c\ufffd\ufffd\ufffd\u{10ffff} d \ufffd";
const argumentPieces = [
  '{"expression":"1+1","\\u0000\\ud83d',
  '":"\\\\u0000 \\ud83d\\ude00 \\uDEAD \ud83d',
  '\ude00 \\u0000"}',
];
const args = { expression: "1+1", "\ufffd\ufffd": "\\u0000 😀 \ufffd 😀 \ufffd" };

for (const dialect of gateDialects) {
  describe(`text of a model on ${dialect}`, () => {
    const atEnd = cleanup();
    let server: TestServer;
    let mock: MockModel;
    before(async () => {
      const env: Record<string, string> = { SVC_WORKSPACE_ROOT: tempDir(atEnd) };
      if (dialect === "postgres") {
        const { url, config } = await testDatabase(atEnd);
        await migrate({ engine: "postgres", postgres: config }, { target: "head", downgrade: false });
        Object.assign(env, { SVC_DATABASE_URL: url, SVC_DB_POOL_SIZE: "1", SVC_DB_MAX_OVERFLOW: "0" });
      }
      ({ server, mock } = await startChat(atEnd, {
        models: ["says", "thinks", "calls"],
        manifests: { agent: { tools: ["calculator"] } },
        env,
      }));
      const say = pieces.map((content) => ({ content }));
      mock.answer("says", inPieces(say, "stop"));
      mock.answer("thinks", inPieces([...pieces.map((reasoning_content) => ({ reasoning_content })), ...say], "stop"));
      const call = (part: object) => ({ tool_calls: [{ index: 0, ...part }] });
      // The error text is cut in the middle of the surrogate pair.
      const unknown = `{"expression":"1","${"x".repeat(99)}😀":1}`;
      mock.answer(
        "calls",
        inTurn(
          inPieces(
            [
              ...say,
              call({ id: "call\0\ud83d", function: { name: "calculator", arguments: argumentPieces[0] } }),
              ...argumentPieces.slice(1).map((words) => call({ function: { arguments: words } })),
              call({ index: 1, id: "call_2", function: { name: "calculator", arguments: unknown } }),
            ],
            "tool_calls",
          ),
          inPieces(say, "stop"),
        ),
      );
    });

    const dataOf = (frames: readonly Frame[], name: string) =>
      frames.filter((frame) => frame.name === name).map(({ json }) => json.data);
    const transcript = async (thread: string) => (await server.get(`/chat/sessions/${thread}`)).json.transcript;

    test("is the same in the frames, the answer, the log, the history and the replay", async () => {
      const body = turn("agent", "go", { model: "says", thread_id: "says" });
      const headers = { "idempotency-key": "says" };

      const frames = await (await server.stream("/chat/stream", body, { headers })).rest();
      const replay = await (await server.stream("/chat/stream", body, { headers })).rest();
      const answer = await server.post("/chat", turn("agent", "go", { model: "says" }));
      const openAi = await server.post("/v1/chat/completions", {
        model: "agent",
        messages: [{ role: "user", content: "go" }],
      });

      assert.equal(wordsOf(frames), whole);
      for (const { json } of frames.filter(({ name }) => name === "text_delta"))
        assert.ok(json.data.delta.isWellFormed() && json.data.delta !== "");
      assert.equal(dataOf(frames, "done")[0].final.content, whole);
      assert.equal(dataOf(replay, "session_event").at(-1).content, whole);
      assert.equal((await transcript("says")).at(-1).content, whole);
      assert.equal((await server.get("/chat/history/says")).json.messages.at(-1).content, whole);
      assert.equal(answer.json.final.content, whole);
      assert.equal(openAi.json.choices[0].message.content, whole);
    });

    test("is the same in streamed reasoning and in stored reasoning", async () => {
      const body = turn("agent", "go", { model: "thinks", thread_id: "thinks" });

      const frames = await (await server.stream("/chat/stream", body)).rest();

      const thought = dataOf(frames, "thinking_delta").map(({ delta }) => delta);
      assert.equal(thought.join(""), whole);
      assert.ok(thought.every((delta) => delta.isWellFormed()));
      assert.equal(wordsOf(frames), whole);
      assert.deepEqual((await transcript("thinks")).at(-1).metadata.thinking, [{ type: "thinking", thinking: whole }]);
    });

    test("tool calls have the same text in frames, in the log and in the next prompt", async () => {
      const body = turn("agent", "go", { model: "calls", thread_id: "calls" });

      const frames = await (await server.stream("/chat/stream", body)).rest();

      const [started] = dataOf(frames, "tool_start");
      const [ended, cut] = dataOf(frames, "tool_end");
      // The tool is not called with arguments that the model did not write.
      assert.match(ended.output, /^\[tool error\/invalid_arguments\] the JSON of the arguments/);
      assert.deepEqual(started, { name: "calculator", input: args, id: "call\ufffd\ufffd" });
      const log = await transcript("calls");
      const kept = log.find((event: { toolCalls?: unknown }) => event.toolCalls);
      const results = log.filter(({ kind }: { kind: string }) => kind === "tool_result");
      assert.deepEqual(
        [kept.content, kept.toolCalls.slice(0, 1)],
        [whole, [{ id: "call\ufffd\ufffd", name: "calculator", args }]],
      );
      assert.equal(cut.output, results.at(-1)?.content);
      assert.ok(cut.output.includes("xx\ufffd is not an argument"), cut.output);
      const [, said] = shown(mock.requests.findLast(({ model }) => model === "calls"));
      const [sent] = (said as unknown as { tool_calls: { id: string; function: { arguments: string } }[] }).tool_calls;
      assert.deepEqual(
        [said?.content, sent?.id, JSON.parse(sent?.function.arguments ?? "")],
        [whole, started.id, args],
      );
    });
  });
}
