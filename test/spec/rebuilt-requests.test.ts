// Every model request can be rebuilt from the log alone, whatever shortened, steered or interrupted the conversation.
// The log contains all that was sent, and nothing was sent that it lacks.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { replayCommand } from "../../host/cli/replay.ts";
import { runJson } from "../host/cli/support.ts";
import { calls, gate, inTurn, says, startChatProcess, turn } from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
import { gif } from "../support/image-bytes.ts";
import type { Behaviour } from "../support/mock-model/behaviours.ts";
import type { MockModel } from "../support/mock-model.ts";
import { callsOf, rebuilt } from "../support/model-calls.ts";
import { type LoggedEntry, rebuiltRequest, type Shortening } from "../support/rebuilt-request.ts";
import type { ProcessServer } from "../support/server.ts";
import { cleanup, tempDir } from "../support/temp.ts";

const models = [
  "steps",
  "parallel",
  "windowed",
  "compacting",
  "cleared",
  "steered",
  "eyes",
  "asked",
  "edited",
] as const;
type Model = (typeof models)[number];
const sum = (n: number) => ["calculator", { expression: `1+${n}` }] as const;
const long = (word: string) => `${word} ${"x".repeat(600)}`;
const cleared = { keep_turns: 1, min_chars: 1 };
const windowed = 4;

/** Answers requests for a summary; passes all others to the other behaviour. */
const summing =
  (other: Behaviour): Behaviour =>
  (request) =>
    isSummary(request.body.messages)
      ? { text: "They spoke of tea." }
      : typeof other === "function"
        ? other(request)
        : other;
function withoutSystem(messages: unknown): unknown[] {
  return (messages as { role: string }[]).filter(({ role }) => role !== "system");
}
function isSummary(messages: unknown): boolean {
  return JSON.stringify(messages).includes("You sum up");
}

describe("requests rebuilt from the log", () => {
  const atEnd = cleanup();
  let server: ProcessServer;
  let mock: MockModel;
  before(async () => {
    const of = (model: Model, more: object = {}) => ({ model: { id: model }, tools: ["calculator"], ...more });
    ({ server, mock } = await startChatProcess(atEnd, {
      models: models.filter((model) => model !== "eyes"),
      routes: { eyes: { provider: "openai", model: "eyes", modalities: ["text", "image"] } },
      manifests: {
        steps: of("steps"),
        parallel: of("parallel", { execution: { tools: "parallel" } }),
        windowed: of("windowed", { session: { strategy: `windowed:${windowed}` } }),
        compacting: of("compacting", { session: { strategy: "compacting", context_window_tokens: 1024 } }),
        cleared: of("cleared", { session: { clear_tool_results: cleared } }),
        steered: of("steered"),
        eyes: of("eyes"),
        asked: of("asked", { approvals: [{ id: "sums", tools: ["calculator"] }] }),
        edited: of("edited"),
      },
      env: { SVC_WORKSPACE_ROOT: tempDir(atEnd) },
    }));
  });

  const say = async (model: Model, text: string, fields: object = {}) => {
    const { status, text: told } = await server.post("/chat", turn(model, text, { thread_id: model, ...fields }));
    assert.equal(status, 200, told);
  };
  const logOf = async (thread: string): Promise<LoggedEntry[]> =>
    (await server.get(`/chat/sessions/${thread}`)).json.transcript;

  /** Compares the bytes that the model received with those that the context records and the log rebuild. */
  async function checkRecords(model: Model, hasImages = false) {
    const sent = mock.requests.filter(({ model: asked }) => asked === model);
    const calls = await callsOf(server.dataDir, model);
    assert.deepEqual(
      calls.map(({ facts }) => facts.purpose),
      sent.map(({ body }) => (isSummary(body.messages) ? "summary" : "step")),
    );
    for (const [at, call] of calls.entries()) {
      const { messages, tools, problems } = await rebuilt(server.dataDir, call);
      const { body } = sent[at] as (typeof sent)[number];
      assert.deepEqual(problems, [], `request ${at} of ${model}`);
      assert.equal(messages, JSON.stringify(body.messages), `request ${at} of ${model}`);
      assert.equal(tools, body.tools === undefined ? null : JSON.stringify(body.tools));
      const told = await server.get(`/runs/${call.run_id}/requests/${call.n}`);
      assert.equal(told.status, 200, told.text);
      if (!hasImages) assert.deepEqual(told.json.bodies.messages, body.messages);
    }
  }

  /** Compares each request of the model with the one that the log rebuilds before its reply. Returns their number. */
  async function checkRequests(model: Model, shortening: Shortening = {}, bytes?: ReadonlyMap<string, string>) {
    await checkRecords(model, bytes !== undefined);
    const log = await logOf(model);
    const replies = log.filter(({ kind, role }) => kind === "message" && role === "assistant");
    const requests = mock.requests.filter(({ model: asked, body }) => asked === model && !isSummary(body.messages));
    assert.equal(requests.length, replies.length);
    for (const [at, { seq }] of replies.entries()) {
      const before = log.filter((entry) => entry.seq < seq);
      const lastAnswer = before.findLast(
        ({ kind, role, toolCalls }) => kind === "message" && role === "assistant" && toolCalls === undefined,
      );
      const sent = withoutSystem(requests[at]?.body.messages);
      const turnFrom = (lastAnswer?.seq ?? -1) + 1;
      assert.deepEqual(sent, rebuiltRequest(log, seq, turnFrom, shortening, bytes), `request ${at} of ${model}`);
    }
    return requests.length;
  }

  test("of steps with tools match, over turns, a restart and a client's own events", async () => {
    mock.answer("steps", inTurn({ text: "First.", ...calls(sum(1), sum(2)) }, calls(sum(3)), { text: "Done." }));

    await say("steps", "One.");
    await server.post("/chat/sessions/custom", {
      thread_id: "steps",
      content: "A note.",
      role: "user",
      in_context: true,
    });
    await server.post("/chat/sessions/custom", { thread_id: "steps", content: "Not for the model." });
    await server.restart();
    await say("steps", "Two.");

    assert.equal(await checkRequests("steps"), 6);
  });

  test("of parallel calls match, whose results are in the log in order of arrival", async () => {
    mock.answer("parallel", inTurn(calls(sum(1), ["nothing", {}], sum(2)), { text: "Done." }));

    await say("parallel", "One.");
    await say("parallel", "Two.");

    assert.equal(await checkRequests("parallel"), 4);
  });

  test("of a window match: the running turn's own words, then the newest whole groups", async () => {
    const replies = [calls(sum(1), sum(2)), calls(sum(3)), { text: "Done." }];
    // The session window hides the model's older replies from it.
    mock.answer("windowed", ({ earlier }) => replies[earlier % replies.length] ?? {});

    for (const words of ["One.", "Two.", "Three."]) await say("windowed", words);

    assert.equal(await checkRequests("windowed", { windowed }), 9);
    const log = await logOf("windowed");
    const last = log.at(-1)?.seq ?? 0;
    assert.ok(rebuiltRequest(log, last, last - 1, { windowed }).length < rebuiltRequest(log, last, 0).length);
  });

  test("of a compacted conversation match: the summary and the messages kept after it", async () => {
    mock.answer("compacting", summing({ text: "The answer." }));

    for (let at = 0; at < 8; at++) await say("compacting", long(`part ${at}`));
    await server.post("/chat/compact", { thread_id: "compacting", manifest: "compacting" });
    await say("compacting", "And now?");

    assert.equal(await checkRequests("compacting"), 9);
    assert.ok((await logOf("compacting")).filter(({ kind }) => kind === "compaction").length > 1);
  });

  test("of results that the prompt shortens and the log keeps whole match", async () => {
    mock.answer("cleared", inTurn(calls(["calculator", { expression: "123*456" }]), { text: "Done." }));

    await say("cleared", "One.");
    await say("cleared", "Two.");

    assert.equal(await checkRequests("cleared", { cleared }), 4);
  });

  test("of a turn with a steer and a follow-up match", async () => {
    const held = gate();
    mock.answer("steered", ({ earlier }) =>
      earlier === 0 ? says("Let me see.", held.opened) : earlier === 1 ? calls(sum(1)) : { text: "Done." },
    );
    const stream = await server.stream("/chat/stream", turn("steered", "Go.", { thread_id: "steered" }));
    await stream.until("text_delta");
    await server.post("/chat/steer", { thread_id: "steered", text: "Rather left." });
    await server.post("/chat/steer", { thread_id: "steered", text: "And then right.", kind: "follow_up" });
    held.open();
    await stream.rest();

    assert.equal(await checkRequests("steered"), 4);
    assert.deepEqual(
      (await logOf("steered")).filter(({ role }) => role === "user").map(({ content }) => content),
      ["Go.", "Rather left.", "And then right."],
    );
  });

  test("of images of callers match: the log has references, and the files their bytes", async () => {
    const { json } = await server.post("/files", { data: gif.toString("base64"), media_type: "image/gif" });
    mock.answer("eyes", { text: "Seen." });
    const image = { type: "file", file: { file_id: json.file_id } };

    const messages = [{ role: "user", content: [{ type: "text", text: "Look." }, image] }];
    await say("eyes", "", { messages });
    await say("eyes", "Again.");

    const bytes = new Map([[`svc-file://${json.file_id}`, gif.toString("base64")]]);
    assert.equal(await checkRequests("eyes", {}, bytes), 2);
    assert.ok(JSON.stringify(mock.requests.at(-1)?.body).includes(gif.toString("base64")));
    assert.ok(!JSON.stringify(await logOf("eyes")).includes(gif.toString("base64")));
  });

  test("of a run that was suspended, killed while it waited, and resumed elsewhere match", async () => {
    mock.answer("asked", inTurn(calls(sum(1)), { text: "Done." }));
    const cut = say("asked", "Go.").catch(() => null);
    const row = await eventually("a request", async () => (await server.get("/approvals")).json.requests[0]);
    await eventually("a run that is put aside", async () =>
      /^svc_live_runs 0$/m.test((await server.get("/metrics")).text),
    );
    await server.kill();
    await cut;
    await server.restart();

    await server.post(`/approvals/${row.approval_id}/decide`, { status: "approved" });
    await eventually("the answer", async () => (await logOf("asked")).at(-1)?.content === "Done.");

    assert.equal(await checkRequests("asked"), 2);
  });

  test("of a workspace with edits during the run match, which the model sees once", async () => {
    const held = gate();
    mock.answer("edited", ({ earlier }) =>
      earlier === 0 ? { steps: [{ hold: held.opened }, ...says("Wait.").steps] } : { text: "Done." },
    );
    await server.post("/chat/thinking", { thread_id: "edited", thinking_level: "off" });
    const stream = await server.stream("/chat/stream", turn("edited", "Go.", { thread_id: "edited" }));
    await stream.until("session_progress");
    const edit = { thread_id: "edited", path: "a.txt", op: "write", bytes: 3 };
    assert.equal((await server.post("/chat/workspace/edited", edit)).json.status, "queued");
    held.open();
    await stream.rest();
    await say("edited", "And now?");

    assert.equal(await checkRequests("edited"), 2);
  });

  test("DUR-006 are the same in svc replay of every run, offline and without a key", async () => {
    const runs = new Map<string, number>();
    for (const model of models)
      for (const { run_id } of await callsOf(server.dataDir, model)) runs.set(run_id, (runs.get(run_id) ?? 0) + 1);
    const keyless = { ...server.environment, SVC_MODEL_PROVIDER_OPTIONS: "{}" };
    const asked = mock.requests.length;

    for (const [run_id, made] of runs) {
      const { code, answer } = await runJson(replayCommand, [run_id], keyless);
      const { calls, divergence, notes } = answer as { calls: unknown[]; divergence: unknown; notes: unknown[] };
      assert.deepEqual(
        { code, calls: calls.length, divergence, notes },
        { code: 0, calls: made, divergence: null, notes: [] },
      );
    }
    assert.ok(runs.size > 15);
    assert.equal(mock.requests.length, asked);
  });
});
