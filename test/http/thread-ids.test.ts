// Ids of threads that a path can name in one way, and ids that are refused.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { turn } from "../support/chat.ts";
import { startServer, type TestServer } from "../support/server.ts";
import { cleanup } from "../support/temp.ts";
import { outcomeOf, refusal } from "./support.ts";

/** Ids that no thread may have: a path could not name them in one way. */
const reserved = ["search", "50%", "a%41b", "%2e%2e", "a%2Fb", "%00", "%25", "%%%", "é%C3%A9"];
/** Ids that resemble these and are allowed. */
const near = ["Search", "search2", "SEARCH", "sea rch", "percent", "é", "a+b", "a?b", "a&b=c", "~"];

describe("ids of threads", () => {
  const atEnd = cleanup();
  let server: TestServer;
  before(async () => {
    server = await startServer({ atEnd });
  });

  const at = (base: string, id: string) => `${base}/${encodeURIComponent(id)}`;
  /** The snapshot of `search` needs an escaped path, because its plain path is another route. */
  const snapshotAt = (id: string) => (id === "search" ? "/chat/sessions/%73earch" : at("/chat/sessions", id));

  for (const id of [...reserved, "100%", "b%41", "%2e", "a%2fb", "%", "%zz", "x%00", "%2525", "é%"]) {
    test(`SESS-002 no thread may have the id ${id}`, async () => {
      const messages = [{ role: "user", content: "hi" }];

      const refusals = [
        await server.get(at("/chat/history", id)),
        await server.get(snapshotAt(id)),
        await server.request("DELETE", at("/chat/history", id)),
        await server.post("/chat", turn("quick", "hi", { thread_id: id })),
        await server.post("/chat/stream", turn("quick", "hi", { thread_id: id })),
        await server.post("/chat/continue", { thread_id: id, manifest: "quick" }),
        await server.post("/chat", turn("no-such-manifest", "hi", { thread_id: id })),
      ];
      const openAi = [
        await server.post("/v1/chat/completions", { model: "quick", user: id, messages }),
        await server.post("/v1/chat/completions", { model: "quick", user: id, messages, stream: true }),
      ];
      const { json } = await server.get("/chat/sessions");

      for (const answer of refusals) assert.deepEqual(outcomeOf(answer), refusal(400, "invalid_thread_id"));
      for (const { status, json } of openAi) assert.deepEqual([status, json.error.code], [400, "invalid_user"]);
      assert.ok(!json.items.some((item: { id: string }) => item.id === `default:${id}`));
    });
  }

  for (const id of near) {
    test(`a thread may have the id ${id}`, async () => {
      const { status, json } = await server.post("/chat", turn("quick", "hi", { thread_id: id }));
      const history = await server.get(at("/chat/history", id));
      const snapshot = await server.get(at("/chat/sessions", id));

      assert.deepEqual([status, json.thread_id], [200, `default:${id}`]);
      assert.deepEqual([history.json.messages.length, snapshot.json.transcript.length], [2, 2]);
    });
  }

  test("a path is decoded once: a doubly encoded id keeps its percent sign", async () => {
    for (const path of ["/chat/history/%2570ercent", "/chat/history/%252e%252e", "/chat/history/a%252Fb"])
      assert.deepEqual(outcomeOf(await server.get(path)), refusal(400, "invalid_thread_id"), path);
    for (const path of [
      "/manifests/a%2541",
      "/docs/a%252e",
      "/chat/history/a%2fb",
      "/chat/history/%2e%2e",
      "/chat/history/%",
    ])
      assert.deepEqual(outcomeOf(await server.get(path)), refusal(400, "invalid_path"), path);
  });
});
