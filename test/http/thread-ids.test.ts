// Ids of threads that only one path can name, and older ids from before that rule.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { appendOp } from "../../storage/tables/events.ts";
import { insertThreadOp } from "../../storage/tables/threads.ts";
import { turn } from "../support/chat.ts";
import { seed, sqliteIn } from "../support/seed.ts";
import { startServer, type TestServer } from "../support/server.ts";
import { cleanup, tempDir } from "../support/temp.ts";
import { outcomeOf, refusal } from "./support.ts";

/** Ids that older threads may have. */
const older = ["search", "50%", "a%41b", "%2e%2e", "a%2Fb", "%00", "%25", "%%%", "é%C3%A9"];
/** Above the keys of this server's own threads. */
const keysFrom = 1_000_000;
/** Ids that resemble these and are new. */
const near = ["Search", "search2", "SEARCH", "sea rch", "percent", "é", "a+b", "a?b", "a&b=c", "~"];

describe("ids of threads", () => {
  const atEnd = cleanup();
  let server: TestServer;
  before(async () => {
    const dataDir = tempDir(atEnd);
    await seed(sqliteIn(dataDir), "default", (tenant) =>
      older.flatMap((suffix, at) => [
        insertThreadOp(tenant, {
          thread_key: keysFrom + at,
          suffix,
          uid: String(at).padStart(20, "0"),
          created_at: 5,
          updated_at: 5,
          next_seq: 1,
          leaf_seq: 0,
          bytes: 0,
          revision: 1,
          epoch: 0,
          manifest: "quick",
          model_id: null,
          session_name: null,
          preview: suffix,
          parent_session_id: null,
          meta: {},
        }),
        appendOp(tenant, keysFrom + at, {
          seq: 0,
          parent_seq: -1,
          ts: 5,
          kind: "message",
          role: "user",
          content: `said in ${suffix}`,
          extra: null,
        }),
      ]),
    );
    server = await startServer({ atEnd, dataDir });
  });

  const at = (base: string, id: string) => `${base}/${encodeURIComponent(id)}`;
  /** The snapshot of `search` needs an escaped path, because its plain path is another route. */
  const snapshotAt = (id: string) => (id === "search" ? "/chat/sessions/%73earch" : at("/chat/sessions", id));

  for (const id of older) {
    test(`the thread ${id} from before is read, watched, continued and deleted`, async () => {
      const history = await server.get(at("/chat/history", id));
      const snapshot = await server.get(snapshotAt(id));
      const stream = await server.listen(at("/chat/stream", id));
      const heard = await stream.until("snapshot");
      stream.close();
      const abort = await server.post("/chat/abort", { thread_id: id });
      const more = await server.post("/chat", turn("quick", "and more", { thread_id: id }));
      const erased = await server.request("DELETE", at("/chat/history", id));
      const after = await server.get(at("/chat/history", id));

      assert.deepEqual(
        history.json.messages.map(({ content }: { content: string }) => content),
        [`said in ${id}`],
      );
      assert.equal(history.json.thread_id, `default:${id}`);
      for (const { transcript, threadId } of [snapshot.json, heard.json.data, abort.json.snapshot])
        assert.deepEqual([transcript.length, threadId], [1, snapshot.json.threadId]);
      assert.deepEqual([more.status, more.json.messages.length], [200, 3]);
      assert.deepEqual([erased.status, after.json.messages], [200, []]);
    });
  }

  for (const id of [...older, "100%", "b%41", "%2e", "a%2fb", "%", "%zz", "x%00", "%2525", "é%"]) {
    test(`SESS-002 no new thread may have the id ${id}`, async () => {
      const messages = [{ role: "user", content: "hi" }];

      const refusals = [
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
    test(`a new thread may have the id ${id}`, async () => {
      const { status, json } = await server.post("/chat", turn("quick", "hi", { thread_id: id }));
      const history = await server.get(at("/chat/history", id));
      const snapshot = await server.get(at("/chat/sessions", id));

      assert.deepEqual([status, json.thread_id], [200, `default:${id}`]);
      assert.deepEqual([history.json.messages.length, snapshot.json.transcript.length], [2, 2]);
    });
  }

  test("a path is decoded once: a doubly encoded id is another thread", async () => {
    for (const [path, id] of [
      ["/chat/history/%2570ercent", "%70ercent"],
      ["/chat/history/%252e%252e", "%2e%2e"],
      ["/chat/history/a%252Fb", "a%2Fb"],
    ]) {
      const { status, json } = await server.get(path as string);

      assert.deepEqual([status, json.thread_id, json.messages], [200, `default:${id}`, []]);
    }
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
