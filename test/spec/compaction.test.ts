// Compaction of conversations: at a length limit, after a turn, on request, and after a provider's refusal.
import assert from "node:assert/strict";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { before, describe, test } from "node:test";
import { calls, gate, says, shown, startChat, turn } from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
import { gif } from "../support/image-bytes.ts";
import { jsonScript } from "../support/mock-model/answer.ts";
import type { Behaviour, Reply } from "../support/mock-model/behaviours.ts";
import type { MockModel } from "../support/mock-model.ts";
import type { TestServer } from "../support/server.ts";
import { cleanup, tempDir } from "../support/temp.ts";

interface Item {
  readonly id: string;
  readonly seq: number;
  readonly kind: string;
  readonly role: string | null;
  readonly content: string;
  readonly metadata: Readonly<Record<string, unknown>>;
}
type Message = { readonly role: string; readonly content: string };

const models = [
  "plain",
  "failing",
  "held",
  "works",
  "openai-over",
  "anthropic-over",
  "together-over",
  "too-large",
  "always-over",
  "odd",
  "narrow",
  "reads",
];
/** About 150 tokens. */
const long = (word: string) => `${word} ${"x".repeat(600)}`;
const isSummary = (body: Readonly<Record<string, unknown>>) =>
  String((body.messages as readonly Message[])[0]?.content).startsWith("You sum up");
/** Answers requests for a summary; passes all others to the other behaviour. */
const summing =
  (other: Behaviour): Behaviour =>
  (request) => {
    if (isSummary(request.body)) return { text: "They spoke of tea." };
    return typeof other === "function" ? other(request) : other;
  };
/** Refuses requests longer than this number of characters. */
const bounded = (charsMax: number, refusal: Reply): Behaviour =>
  summing(({ body }) => (JSON.stringify(body.messages).length > charsMax ? refusal : { text: "The answer." }));
const refusals = {
  "openai-over": jsonScript(400, {
    error: { message: "Too long.", type: "invalid_request_error", param: "messages", code: "context_length_exceeded" },
  }),
  "anthropic-over": jsonScript(400, {
    type: "error",
    error: { type: "invalid_request_error", message: "prompt is too long: 250000 tokens > 200000 maximum" },
  }),
  "together-over": jsonScript(422, {
    error: {
      message:
        "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 1024. Given: 2048 `inputs` tokens and 16 `max_new_tokens`",
      type: "invalid_request_error",
    },
  }),
  "too-large": jsonScript(413, { error: { message: "Request Entity Too Large" } }),
};

describe("a conversation that is compacted", () => {
  const atEnd = cleanup();
  let server: TestServer;
  let mock: MockModel;
  const summaryPrompts: string[] = [];
  const root = tempDir(atEnd);
  let held = gate();
  before(async () => {
    const small = { strategy: "compacting", context_window_tokens: 1024 };
    const eight = { strategy: "compacting", context_window_tokens: 8192 };
    const files = join(root, ".svc-scopes", "default", "threads", "reads");
    for (const name of ["many", "durable"]) mkdirSync(`${files}-${name}`, { recursive: true });
    for (const name of ["many", "durable"])
      writeFileSync(join(`${files}-${name}`, "long.txt"), "line of text\n".repeat(9_000));
    const eyes = (model: string) => ({ provider: "openai", model, modalities: ["text", "image"] });
    ({ server, mock } = await startChat(atEnd, {
      models,
      routes: { sees: eyes("sees"), "sees-few": eyes("sees-few") },
      env: { SVC_WORKSPACE_ROOT: root, SVC_FIBER_MAX_ATTEMPTS: "3" },
      manifests: {
        small: { tools: ["calculator"], session: small },
        unshortened: { session: { ...small, compaction_enabled: false } },
        after: { session: { strategy: "compacting", compact_after_turn: true, keep_recent_tokens: 120 } },
        plain: { tools: ["calculator"] },
        windowed: { session: { strategy: "windowed:20" } },
        never: { session: { compaction_enabled: false } },
        eight: { session: eight },
        reads: { tools: ["read_file"], session: eight, model: { id: "reads" } },
        sees: { session: eight, model: { id: "sees" } },
        lasting: { execution: { mode: "durable" }, session: eight, model: { id: "always-over" } },
        poor: { tools: ["calculator"], session: small, limits: { max_input_tokens: 750 } },
      },
    }));
    mock.answer("plain", ({ body }) => {
      if (isSummary(body)) summaryPrompts.push(JSON.stringify(body.messages));
      return isSummary(body) ? { text: `They spoke of tea (${summaryPrompts.length}).` } : { text: "The answer." };
    });
    mock.answer("failing", ({ body }) =>
      isSummary(body) ? jsonScript(400, { error: { message: "no" } }) : { text: "The answer." },
    );
    mock.answer("held", ({ body }) => (isSummary(body) ? says(held.opened, "Held.") : { text: "The answer." }));
    const add = (size: number) => calls(["calculator", { expression: `1+${"0".repeat(size)}1` }]);
    let steps = 0;
    mock.answer(
      "works",
      summing(() => (steps++ < 5 ? add(300) : { text: "Worked." })),
    );
    for (const [name, refusal] of Object.entries(refusals)) mock.answer(name, bounded(3_000, refusal));
    mock.answer("always-over", summing(refusals["openai-over"]));
    mock.answer("narrow", bounded(24_000, refusals["openai-over"]));
    const imagesIn = (body: unknown) => JSON.stringify(body).split("image_url").length;
    mock.answer("sees", summing({ text: "Dots." }));
    mock.answer(
      "sees-few",
      summing(({ body }) => (imagesIn(body) > 9 ? refusals["openai-over"] : { text: "Dots." })),
    );
    const reading = calls(...Array.from({ length: 6 }, () => ["read_file", { path: "long.txt" }] as const));
    mock.answer(
      "reads",
      summing(({ body }) => {
        if (JSON.stringify(body.messages).length > 24_000) return refusals["openai-over"];
        return (body.messages as Message[]).some(({ role }) => role === "tool") ? { text: "Read." } : reading;
      }),
    );
    mock.answer("odd", jsonScript(400, { error: { message: "The tool is too long a name." } }));
  });

  const say = async (manifest: string, thread_id: string, text: string, fields: object = {}) => {
    const { status, json, text: body } = await server.post("/chat", turn(manifest, text, { thread_id, ...fields }));
    assert.equal(status, 200, body);
    return json;
  };
  const stream = async (manifest: string, thread_id: string, text: string, fields: object = {}) =>
    (await server.stream("/chat/stream", turn(manifest, text, { thread_id, ...fields }))).rest();
  const compact = (thread_id: string, manifest: string, fields: object = {}) =>
    server.post("/chat/compact", { thread_id, manifest, ...fields });
  const snapshot = async (thread: string) => (await server.get(`/chat/sessions/${thread}`)).json;
  const itemsOf = async (thread: string): Promise<Item[]> => (await snapshot(thread)).transcript;
  const compactionsOf = async (thread: string) => (await itemsOf(thread)).filter(({ kind }) => kind === "compaction");
  const words = (messages: readonly Message[]) => messages.map(({ content }) => content.split(/[ \n]/)[0]);
  const lastAsked = () => shown(mock.requests.at(-1));
  const summary = "[Summary of the conversation before this point.]\nThey spoke of tea";

  test("SESS-026 SESS-025 STREAM-025 a full window's older part is summarized once, and the log keeps all of it", async () => {
    for (const word of ["one", "two"]) await say("small", "threshold", long(word));
    assert.deepEqual(await compactionsOf("threshold"), []);
    const asked = summaryPrompts.length;

    const frames = await stream("small", "threshold", long("three"));

    const progress = frames.filter(({ name }) => name === "session_progress").map(({ json }) => json.data);
    assert.deepEqual(
      progress.filter(({ phase }) => phase === "compaction"),
      [{ phase: "compaction", reason: "threshold" }],
    );
    const at = frames.findIndex(({ json }) => json?.data?.phase === "compaction");
    assert.ok(at < frames.findIndex(({ name }) => name === "text_delta"), "before the model speaks");
    assert.equal(frames.at(-2)?.name, "done");
    assert.ok(lastAsked()[0]?.content.startsWith(summary), lastAsked()[0]?.content);
    assert.deepEqual(words(lastAsked()).slice(1), ["three"]);
    assert.equal(summaryPrompts.length, asked + 1);
    assert.match(summaryPrompts.at(-1) ?? "", /one x/);
    const items = await itemsOf("threshold");
    assert.deepEqual(
      items.map(({ kind }) => kind),
      ["message", "message", "message", "message", "message", "compaction", "message"],
    );
    const { reason, first_kept_seq, tokens_before, tokens_after } = (items[5] as Item).metadata;
    assert.deepEqual([reason, first_kept_seq], ["threshold", 4]);
    assert.ok(Number(tokens_after) < Number(tokens_before), `${tokens_before} to ${tokens_after}`);
    const { json } = await server.get("/chat/history/threshold");
    assert.deepEqual(words(json.messages.filter(({ role }: Message) => role === "user")), ["one", "two", "three"]);
  });

  test("SESS-026 a turn's prompt is the same after a restart, and a second compaction adds to it", async () => {
    for (const word of ["one", "two", "three"]) await say("small", "again", long(word));
    await say("small", "again", "short");
    const before = lastAsked();
    await server.restart();

    await say("small", "again", "after");

    assert.deepEqual(lastAsked().slice(0, before.length), before);
    for (const word of ["four", "five"]) await say("small", "again", long(word));
    const found = await compactionsOf("again");
    assert.ok(found.length > 1);
    assert.match(summaryPrompts.at(-1) ?? "", /<summary_so_far>\\nThey spoke of tea/);
    assert.doesNotMatch(summaryPrompts.at(-1) ?? "", /one x/);
    assert.ok(Number(found[1]?.metadata.first_kept_seq) > Number(found[0]?.metadata.first_kept_seq));
    assert.equal(lastAsked().filter(({ content }) => content.startsWith(summary)).length, 1);
  });

  test("SESS-026 a turn cut through keeps its first messages, and each call its result", async () => {
    const from = mock.requests.length;
    await say("small", "cut", "hello");

    const { messages } = await say("small", "cut", long("please"), { model: "works" });

    assert.equal(messages.at(-1).content, "Worked.");
    const found = await compactionsOf("cut");
    assert.ok(found.length > 0);
    assert.equal(found.at(-1)?.metadata.opening_seq, 2);
    for (const request of mock.requests.slice(from)) {
      const asked = request.body.messages as (Message & {
        tool_calls?: { id: string }[];
        tool_call_id?: string;
      })[];
      if (isSummary(request.body)) continue;
      const open = new Set<string>();
      for (const { tool_calls, tool_call_id } of asked) {
        for (const { id } of tool_calls ?? []) open.add(id);
        if (tool_call_id !== undefined) assert.ok(open.delete(tool_call_id), "a result without its call");
      }
      assert.deepEqual([...open], []);
      if (request.model === "works") assert.ok(asked.some(({ content }) => content === long("please")));
    }
    await say("small", "cut", "and then");
    assert.ok(lastAsked().some(({ content }) => content === long("please")) || (await compactionsOf("cut")).length > 1);
  });

  test("SESS-028 compact_after_turn compacts after the reply, which stays the last message", async () => {
    await say("after", "after", long("one"));

    const frames = await stream("after", "after", long("two"));

    const names = frames.map(({ name, json }) => (json?.data?.phase === "compaction" ? json.data.reason : name));
    assert.ok(names.lastIndexOf("text_delta") < names.indexOf("after_turn"));
    assert.ok(names.indexOf("after_turn") < names.indexOf("done"));
    const items = await itemsOf("after");
    assert.deepEqual([items.at(-2)?.content, items.at(-1)?.kind], ["The answer.", "compaction"]);
    assert.equal((await snapshot("after")).leafId, items.at(-1)?.id);
    const done = frames.find(({ name }) => name === "done")?.json.data;
    assert.deepEqual(words(done.messages), ["one", "The", "two", "The"], "as the model was shown them");
    await say("after", "after", "three");
    assert.ok(lastAsked()[0]?.content.startsWith(summary));
  });

  test("SESS-026 a turn without a summary continues with the whole history", async () => {
    for (const word of ["one", "two"]) await say("small", "without", long(word), { model: "failing" });

    const { final } = await say("small", "without", long("three"), { model: "failing" });

    assert.equal(final.content, "The answer.");
    assert.deepEqual(words(lastAsked()), ["one", "The", "two", "The", "three"]);
    assert.deepEqual(await compactionsOf("without"), []);
    await say("small", "without", "four");
    assert.equal((await compactionsOf("without")).length, 1, "the next turn tries again");
  });

  test("SESS-026 compaction_enabled false compacts nothing", async () => {
    for (const word of ["one", "two", "three"]) await say("unshortened", "off", long(word));

    assert.equal(lastAsked().length, 5);
    assert.deepEqual((await compact("off", "unshortened")).json.error, "compaction_disabled");
  });

  test("SESS-026 a summary counts in the limits and the usage of its turn", async () => {
    for (const word of ["one", "two"]) await say("small", "paid", long(word));
    const { usage } = await say("small", "paid", long("three"));
    const { items: rows } = (await server.get("/usage?thread_id=paid")).json;
    for (const word of ["one", "two"]) await say("poor", "poor", long(word));

    const { final } = await say("poor", "poor", long("three"));

    assert.ok(usage.input > 400, `${usage.input}`);
    assert.equal(rows.length, 4);
    assert.equal(final.content, "run limit reached: max_input_tokens");
  });

  test("SESS-007 POST /chat/compact shortens the prompt; the snapshot says compaction, then idle", async () => {
    for (const word of ["one", "two", "three"]) await say("plain", "asked", word);
    held = gate();

    const asked = compact("asked", "plain", { instructions: "Be brief." });
    const done = await asked;

    assert.equal(done.status, 200, done.text);
    const { snapshot: told, ...result } = done.json;
    const [event] = await compactionsOf("asked");
    assert.deepEqual(Object.keys(result), [
      "ok",
      "compacted",
      "event_id",
      "tokens_before",
      "tokens_after",
      "thread_id",
    ]);
    assert.deepEqual([result.ok, result.compacted, result.event_id], [true, true, event?.id]);
    assert.equal(result.thread_id, "default:asked");
    assert.deepEqual([told.phase, told.leafId, told.id], ["idle", event?.id, "default:asked"]);
    assert.equal(event?.metadata.reason, "manual");
    assert.match(summaryPrompts.at(-1) ?? "", /The user asks of the summary: Be brief\./);
    await say("plain", "asked", "four");
    assert.ok(lastAsked()[0]?.content.startsWith(summary));
    assert.ok(lastAsked().length < 7, `${lastAsked().length} messages`);
  });

  test("SESS-007 a thread is busy while it compacts; stopping it frees it and changes nothing", async () => {
    for (const word of ["one", "two"]) await say("plain", "busy", word, { model: "plain" });
    await server.request("PUT", "/manifests/holding", {
      body: { manifest: { metadata: { name: "holding" }, spec: { model: { id: "held" } } } },
    });
    held = gate();
    const from = mock.requests.length;
    const compacting = compact("busy", "holding");
    while (mock.requests.length === from) await mock.next();
    const during = await snapshot("busy");

    const refused = await server.post("/chat", turn("plain", "three", { thread_id: "busy" }));
    const again = await compact("busy", "plain");
    const rewound = await server.post("/chat/rewind", { thread_id: "busy", event_id: during.transcript[0].id });
    const aborted = await server.post("/chat/abort", { thread_id: "busy" });
    const ended = await compacting;

    assert.equal(during.phase, "compaction");
    for (const answer of [refused, again, rewound]) {
      assert.equal(answer.status, 409);
      assert.match(answer.json.error, /^run_in_progress/);
    }
    assert.equal(aborted.json.aborted, true);
    assert.deepEqual([ended.status, ended.json.compacted], [200, false]);
    assert.deepEqual(await compactionsOf("busy"), []);
    assert.equal((await say("plain", "busy", "three")).final.content, "The answer.");
    held.open();
  });

  test("SESS-007 /chat/compact is 404 for unknown names and leaves a single message as it is", async () => {
    await say("plain", "little", "one");
    const nothing = await compact("little", "plain");
    const short = await server.post("/chat/compact", { thread_id: "little" });

    assert.deepEqual([nothing.status, nothing.json.compacted, nothing.json.event_id], [200, false, null]);
    assert.deepEqual(short.json.compacted, false, "the manifest that the thread last ran under");
    const unknown = await compact("little", "nobody");
    assert.deepEqual([unknown.status, unknown.json.error], [404, "unknown_manifest:nobody"]);
    assert.deepEqual((await compact("nowhere", "plain")).json.error, "unknown_thread");
    assert.equal((await snapshot("nowhere")).createdAt, null, "nothing was made");
    assert.equal((await compact("a:b", "plain")).json.error, "invalid_thread_id");
    assert.equal((await compact("little", "plain", { more: 1 })).status, 422);
    const failed = await compact("little2", "plain").then(async () => {
      for (const word of ["one", "two"]) await say("plain", "failed", word);
      await server.request("PUT", "/manifests/breaks", {
        body: { manifest: { metadata: { name: "breaks" }, spec: { model: { id: "failing" } } } },
      });
      return compact("failed", "breaks");
    });
    assert.deepEqual([failed.status, failed.json.error], [502, "model_provider_error"]);
  });

  for (const model of ["openai-over", "anthropic-over", "together-over", "too-large"])
    for (const manifest of ["plain", "windowed"])
      test(`SESS-026 STREAM-025 a prompt that ${model} refuses as too long is compacted and sent again, under ${manifest}`, async () => {
        const thread = `${model}-${manifest}`;
        for (const word of ["one", "two", "three"]) await say(manifest, thread, "x".repeat(700) + word);

        const frames = await stream(manifest, thread, "x".repeat(700), { model });

        const reasons = frames.flatMap(({ json }) => (json?.data?.phase === "compaction" ? [json.data.reason] : []));
        assert.deepEqual(reasons, ["overflow"]);
        assert.equal(frames.find(({ name }) => name === "done")?.json.data.final.content, "The answer.");
        assert.equal((await compactionsOf(thread)).length, 1);
      });

  test("SESS-026 a second refusal fails the turn, as does one that compaction cannot cure", async () => {
    for (const word of ["one", "two", "three", "four", "five", "six"]) await say("plain", "over", word);

    const twice = await server.post("/chat", turn("plain", "three", { thread_id: "over", model: "always-over" }));
    const alone = await server.post("/chat", turn("plain", "one", { model: "always-over" }));
    const off = await server.post("/chat", turn("never", "one", { thread_id: "off-over", model: "always-over" }));
    for (const word of ["one", "two"]) await say("plain", "other", word);
    const other = await server.post("/chat", turn("plain", "three", { thread_id: "other", model: "odd" }));

    for (const answer of [twice, alone, off, other])
      assert.deepEqual([answer.status, answer.json.error], [502, "model_provider_error"]);
    assert.equal((await compactionsOf("over")).length, 1);
    assert.deepEqual(await compactionsOf("other"), [], "another refusal is none of length");
    assert.deepEqual((await itemsOf("over")).at(-1)?.kind, "compaction");
  });

  test("SESS-026 a request without a thread is compacted in memory", async () => {
    const said = ["one", "two", "three", "four"].flatMap((word) => [
      { role: "user", content: "x".repeat(700) + word },
      { role: "assistant", content: "Yes." },
    ]);
    const body = { manifest: "plain", model: "openai-over", messages: [...said, { role: "user", content: "five" }] };

    const { status, json } = await server.post("/chat", body);

    assert.equal(status, 200);
    assert.equal(json.final.content, "The answer.");
    assert.ok(json.messages[0].content.startsWith(summary));
  });

  test("SESS-009 SESS-010 SESS-007 a fork keeps the compaction, and a rewind to before it undoes it", async () => {
    for (const word of ["one", "two", "three"]) await say("plain", "tree", word);
    await compact("tree", "plain");
    await server.post("/chat/fork", { thread_id: "tree", new_thread_id: "copied" });

    await say("plain", "tree", "four");
    const original = lastAsked();
    await say("plain", "copied", "four");
    const copied = lastAsked();
    const before = (await itemsOf("tree"))[3] as Item;
    await server.post("/chat/rewind", { thread_id: "tree", event_id: before.id, summarize: false });
    await say("plain", "tree", "five");

    assert.deepEqual(copied, original);
    assert.ok(original[0]?.content.startsWith(summary));
    assert.deepEqual(words(lastAsked()), ["one", "The", "two", "The", "five"]);
  });

  test("SESS-007 SESS-026 STREAM-025 a first question that fills most of its thread is shortened too", async () => {
    const bulk = `Look: ${"x".repeat(66_000)}`;
    for (const thread of ["bulk", "bulk-over"]) {
      await say("never", thread, bulk, { model: "plain" });
      await say("never", thread, "short", { model: "plain" });
    }

    const { json: asked } = await compact("bulk", "eight");
    await say("eight", "bulk", "go on", { model: "narrow" });
    const shortened = lastAsked();
    await server.restart();
    const again = await say("eight", "bulk", "and on", { model: "narrow" });
    const over = await say("eight", "bulk-over", "go on", { model: "narrow" });

    assert.equal(asked.compacted, true);
    assert.ok(asked.tokens_after < asked.tokens_before / 4, `${asked.tokens_before} to ${asked.tokens_after}`);
    assert.ok(shortened[0]?.content.startsWith(summary), shortened[0]?.content.slice(0, 100));
    assert.deepEqual([again.final.content, over.final.content], ["The answer.", "The answer."]);
    assert.equal((await itemsOf("bulk"))[0]?.content, bulk, "the log has all of it");
  });

  test("SESS-026 images of a first question are compacted with its older part", async () => {
    const url = `data:image/gif;base64,${gif.toString("base64")}`;
    const content = [
      { type: "text", text: "Which dots?" },
      ...Array.from({ length: 16 }, () => ({ type: "image_url", image_url: { url } })),
    ];
    const first = await server.post("/chat", {
      manifest: "sees",
      thread_id: "dots",
      messages: [{ role: "user", content }],
    });
    assert.equal(first.status, 200, first.text);
    await say("sees", "dots", "Sure?");

    const { final } = await say("sees", "dots", "Really?", { model: "sees-few" });

    assert.equal(final.content, "Dots.");
    assert.ok(lastAsked()[0]?.content.startsWith(summary));
  });

  test("SESS-026 results longer than the window are cut with a note, and the log has all of them", async () => {
    const { final } = await say("reads", "reads-many", `Read them. ${"x".repeat(19_000)}`);

    assert.equal(final.content, "Read.");
    const opening = lastAsked().find(({ content }) => content.startsWith("Read them."))?.content ?? "";
    assert.ok(opening.endsWith(" […]") && opening.length < 12_000, `${opening.length}`);
    const results = lastAsked().filter(({ role }) => role === "tool");
    assert.equal(results.length, 6);
    for (const { content } of results) assert.match(content, /more characters of this result are left out/);
    const logged = (await itemsOf("reads-many")).filter(({ kind }) => kind === "tool_result");
    for (const { content } of logged) assert.ok(content.length > 50_000, `${content.length}`);
  });

  test("SESS-026 a durable run does not retry a prompt that cannot fit", async () => {
    const from = mock.requests.length;
    const { status, json } = await server.post("/chat", turn("lasting", "one", { thread_id: "lasting" }));
    assert.equal(status, 202);

    const run = await eventually("the end of the run", async () => {
      const { json: told } = await server.get(`/chat/runs/${json.resume_token}`);
      return ["failed", "dead", "completed"].includes(told.status) ? told : undefined;
    });

    assert.equal(run.status, "failed", JSON.stringify(run));
    assert.equal(mock.requests.slice(from).filter(({ body }) => !isSummary(body)).length, 1);
  });
});
