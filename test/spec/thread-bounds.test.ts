// Size limits over HTTP: of one thread, and of all threads and workspaces of a tenant.
import assert from "node:assert/strict";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { before, describe, test } from "node:test";
import { startChat, turn } from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
import { apiKeys, type TestServer } from "../support/server.ts";
import { cleanup, tempDir } from "../support/temp.ts";

const threadBytes = 20_000;
const tenantBytes = 60_000;
const { env: keyed, keys } = apiKeys({
  ann: { scopes: ["*"] },
  bob: { tenant_id: "globex", scopes: ["*"] },
  cat: { tenant_id: "initech", scopes: ["*"] },
});

describe("bounds of threads", () => {
  const atEnd = cleanup();
  const root = tempDir(atEnd);
  let server: TestServer;
  before(async () => {
    const made = await startChat(atEnd, {
      models: ["plain"],
      env: {
        ...keyed,
        SVC_THREAD_BYTES: String(threadBytes),
        SVC_TENANT_THREAD_BYTES: String(tenantBytes),
        SVC_WORKSPACE_ROOT: root,
      },
    });
    ({ server } = made);
    made.mock.answer("plain", { text: ["Yes."] });
  });
  const say = (thread_id: string, text: string, key = keys.ann) =>
    server.post("/chat", turn("agent", text, { thread_id }), { key });
  const eventsOf = async (thread: string, key = keys.ann) =>
    (await server.get(`/chat/history/${thread}`, { key })).json.events.length;

  test("each entry point refuses a message that would make the log too long", async () => {
    const text = "x".repeat(9_000);
    const first = await say("full", text);
    const second = await say("full", text);
    const events = await eventsOf("full");
    const third = await say("full", text);
    const small = await say("full", "x");
    const fields = { thread_id: "full" };
    const ways = [
      server.post("/chat/steer", { ...fields, text }, { key: keys.ann }),
      server.post("/chat/steer", { ...fields, text, kind: "follow_up" }, { key: keys.ann }),
      server.post("/chat/sessions/custom", { ...fields, content: text }, { key: keys.ann }),
    ];

    assert.deepEqual([first.status, second.status, small.status], [200, 200, 200]);
    assert.deepEqual([third.status, third.json.error], [409, "thread_too_large"]);
    assert.match(third.text, /SVC_THREAD_BYTES/);
    for (const refused of await Promise.all(ways))
      assert.deepEqual([refused.status, refused.json.error], [409, "thread_too_large"], refused.text);
    assert.equal(await eventsOf("full"), events + 2);
    assert.equal((await say("another", text)).status, 200);
  });

  test("a stream of a full thread is refused with a status, and starts no run", async () => {
    await say("streamed", "x".repeat(19_000));
    const answer = await server.post("/chat/stream", turn("agent", "x".repeat(900), { thread_id: "streamed" }), {
      key: keys.ann,
    });

    assert.deepEqual([answer.status, answer.json.error], [409, "thread_too_large"]);
  });

  test("threads, forks and workspaces share a quota, which each tenant has for itself", async () => {
    const text = "x".repeat(15_000);
    for (const thread of ["a", "b"]) assert.equal((await say(thread, text, keys.bob)).status, 200);
    const own = join(root, ".svc-scopes", "globex", "threads", "a");
    mkdirSync(own, { recursive: true });
    writeFileSync(join(own, "notes.txt"), "x".repeat(20_000));
    await server.restart();
    // The quota is checked before the thread's own limit, which would refuse the message in any case.
    await eventually("the sums", async () => {
      const { json } = await say("a", "x".repeat(19_500), keys.bob);
      return json.error === "storage_quota_exceeded" ? true : undefined;
    });
    const fork = (thread_id: string, new_thread_id: string, key: string) =>
      server.post("/chat/fork", { thread_id, new_thread_id }, { key });
    const refusedFork = await fork("a", "c", keys.bob);
    const refusedTurn = await say("d", "x".repeat(19_500), keys.bob);
    const ofOthers = await say("a", text, keys.cat);

    assert.equal(refusedFork.status, 409, refusedFork.text);
    assert.equal(refusedFork.json.detail.quota, "SVC_TENANT_THREAD_BYTES");
    assert.equal(refusedTurn.status, 409);
    assert.ok(refusedFork.json.detail.used_bytes > 50_000, refusedFork.text);
    assert.equal(ofOthers.status, 200, ofOthers.text);
  });

  test("forks count at once", async () => {
    await say("root", "x".repeat(15_000), keys.cat);
    const statuses: number[] = [];
    for (let at = 0; at < 6; at++) {
      const asked = { thread_id: "root", new_thread_id: `fork-${at}` };
      statuses.push((await server.post("/chat/fork", asked, { key: keys.cat })).status);
    }

    assert.ok(statuses.filter((status) => status === 200).length <= 4, String(statuses));
    assert.equal(statuses.at(-1), 409);
    assert.equal(await eventsOf("fork-5", keys.cat), 0);
  });
});
