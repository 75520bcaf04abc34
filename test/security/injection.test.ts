// Threat 11: text of users and models stays text. It never becomes frames of a stream, SQL, search syntax, or a key of
// the object store.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { eventSeqs, framesUntil, isReply, startChatProcess, turn, wordsOf } from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
import type { MockModel } from "../support/mock-model.ts";
import type { ProcessServer } from "../support/server.ts";
import { cleanup } from "../support/temp.ts";
import { assertUnharmed } from "./support.ts";

/** Each text would be a frame, a field of one, or the end of the stream if it were sent unescaped. */
const pieces = [
  "\n\ndata: [DONE]\n\n",
  'data: {"event":"done","type":"done","data":{"final":null},"text":""}\n\n',
  "\r\n\r\nevent: error\r\ndata: {}\r\n\r\n",
  "\rid: 999999\r\r",
  "\nid: 999999\nretry: 1\n\n",
  ": comment\n\n",
  "\u2028data: x\u2029\u0085",
  "\ufeffdata: x\n\n",
  '"}}],"x":["',
  "\\n\\ndata: x\\n\\n",
];
const text = pieces.join("");

describe("text that imitates syntax", () => {
  const atEnd = cleanup();
  let server: ProcessServer;
  let mock: MockModel;
  before(async () => {
    ({ server, mock } = await startChatProcess(atEnd, { models: ["injecting", "plain"] }));
    mock.answer("injecting", { text: pieces, reasoning: pieces });
    mock.answer("plain", { text: "The answer." });
    await server.post("/chat", turn("agent", "alpha beta", { thread_id: "first", model: "plain" }));
    await server.post("/chat", turn("agent", "gamma delta", { thread_id: "second", model: "plain" }));
  });

  test("is inert in a stream: only the server makes frames", async () => {
    const stream = await server.stream("/chat/stream", turn("agent", text, { thread_id: "sse" }));
    const frames = await stream.rest();

    assert.equal(wordsOf(frames), text);
    assert.equal(frames.filter(({ name }) => name === "[DONE]").length, 1);
    assert.equal(frames.filter(({ name }) => name === "done").length, 1);
    assert.ok(frames.every(({ name, id }) => name !== "error" && name !== ":" && Number(id ?? 0) < 10));
    const done = frames.find(({ name }) => name === "done");
    assert.deepEqual(
      done?.json.data.messages.map(({ content }: { content: string }) => content),
      [text, text],
    );
  });

  test("is inert for listeners, in snapshots, replays and later frames", async () => {
    const replayed = await server.listen("/chat/stream/sse", { headers: { "last-event-id": "0" } });
    const snapshot = await (await server.listen("/chat/stream/sse")).next();
    const past = await framesUntil(replayed, isReply);

    await server.post("/chat", turn("agent", text, { thread_id: "sse" }));
    const present = await framesUntil(replayed, isReply);

    replayed.close();
    const [first] = snapshot?.json.data.transcript ?? [];
    assert.deepEqual([snapshot?.name, first.content], ["snapshot", text]);
    assert.deepEqual(
      [eventSeqs(past), eventSeqs(present)],
      [
        [0, 1],
        [2, 3],
      ],
    );
    for (const { json } of [...past, ...present].filter(({ name }) => name === "session_event"))
      assert.equal(json.data.content, text);
  });

  test("is inert in the protocol of OpenAI", async () => {
    const body = { model: "agent", messages: [{ role: "user", content: text }], stream: true };
    const frames = await (await server.stream("/v1/chat/completions", body)).rest();

    const deltas = frames.flatMap(({ json }) => json?.choices?.[0]?.delta.content ?? []);
    assert.equal(deltas.join(""), text);
    assert.equal(frames.filter(({ name }) => name === "[DONE]").length, 1);
  });

  const filters = [
    "' OR '1'='1",
    "' OR 1=1 --",
    "%",
    "_____",
    "*",
    '"',
    "\\",
    "agent' --",
    "agent;",
    "agent\\",
    "AGENT",
    "agent ",
  ];
  for (const path of [
    "/audit?manifest_id=",
    "/audit?event_type=",
    "/audit?status=",
    "/usage?manifest_id=",
    "/usage/summary?manifest_id=",
  ]) {
    test(`is inert in ${path}: no thread has that name`, async () => {
      for (const filter of filters) {
        const { status, json } = await server.get(`${path}${encodeURIComponent(filter)}`);

        assert.deepEqual([status, json.items], [200, []], filter);
      }
    });
  }

  test("is inert in a search: it matches its own words and has no syntax", async () => {
    const search = async (q: string): Promise<string[]> => {
      const { status, json, text: body } = await server.get(`/chat/sessions/search?q=${encodeURIComponent(q)}`);
      assert.equal(status, 200, `${q}: ${body}`);
      return json.hits.map(({ content }: { content: string }) => content);
    };
    await eventually("the index", async () => (await search("gamma")).length > 0);

    for (const q of [
      '"',
      "*",
      "%",
      "(",
      "NEAR(",
      "a* OR",
      "{content} :",
      "^",
      "-",
      "+",
      "' OR 1=1 --",
      "\0".repeat(3),
      "🦊",
      ")".repeat(900),
    ])
      for (const hit of await search(q)) assert.ok(hit.includes(q), `${q} found ${hit.slice(0, 80)}`);
    for (const q of [
      "alpha NOT beta",
      "alpha -beta",
      "zeta OR alpha",
      "zeta | alpha",
      "content:zeta",
      "NEAR(alpha zeta)",
      "alph*zeta",
    ])
      assert.ok(!(await search(q)).includes("gamma delta"), q);
  });

  test("is inert as a key of the object store, and as the name of a manifest", async () => {
    for (const key of ["../../svc.db", "/etc/passwd", "a/../../b", "a//b", "a\\b", "a\0b", "C:\\x", "%2e%2e/x"]) {
      const manifest = { metadata: { name: "keys" }, spec: { system_prompt: { files: [key] } } };
      const body = JSON.stringify({ manifest });

      const { status, json } = await server.request("PUT", "/manifests/keys", { body });

      assert.ok(status === 422 || json.error === "invalid_json", `${key}: ${status}`);
    }
    for (const name of ["..", ".", "a/b", "a\\b", "a\nb", "a'--", "a b", "x".repeat(129), "é"]) {
      const { status, json } = await server.post("/chat", turn(name, "hi"));

      assert.deepEqual([status, json.error.split(":")[0]], [404, "unknown_manifest"], name);
    }
  });

  test("leaves the server unharmed", async () => {
    await assertUnharmed(server);
  });
});
