// GET /events: news of a tenant for its open consoles, by the scopes of each.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import type { News } from "../../bus/protocol/news.ts";
import { calls, inTurn, startChat, turn } from "../support/chat.ts";
import type { TestStream } from "../support/http-client.ts";
import type { MockModel } from "../support/mock-model.ts";
import { apiKeys, type TestServer } from "../support/server.ts";
import { cleanup } from "../support/temp.ts";

const { env, keys } = apiKeys({
  ann: { scopes: ["*"] },
  chatter: { scopes: ["chat:read", "chat:write"] },
  none: { scopes: [] },
  other: { tenant_id: "umbra", scopes: ["*"] },
});

describe("news of a tenant", () => {
  const atEnd = cleanup();
  let server: TestServer;
  let mock: MockModel;
  before(async () => {
    ({ server, mock } = await startChat(atEnd, {
      models: ["plain"],
      manifests: {
        plain: {},
        sums: { tools: ["calculator"], approvals: [{ id: "sums", tools: ["calculator"] }] },
        durable: { execution: { mode: "durable" } },
      },
      env: { ...env, SVC_MANIFEST_SOURCE: "store" },
    }));
    mock.answer("plain", { text: ["Hello."] });
  });

  const listen = (key: string, cursor?: string) =>
    server.listen("/events", { key, ...(cursor !== undefined && { headers: { "last-event-id": cursor } }) });

  /** Reads news until one fits; returns all of them. */
  async function newsUntil(stream: TestStream, isLast: (news: News) => boolean): Promise<News[]> {
    const all: News[] = [];
    for await (const { name, json } of stream) {
      if (name !== "news") continue;
      all.push(...json.data.news);
      if (all.some(isLast)) return all;
    }
    throw new Error(`the stream ended:\n${stream.text}`);
  }

  const say = (manifest: string, thread_id: string) =>
    server.post("/chat", turn(manifest, "Hi", { thread_id }), { key: keys.ann });

  test("a new listener is reset, then hears of runs and threads as far as its scopes allow", async () => {
    const [ann, chatter, other] = await Promise.all([keys.ann, keys.chatter, keys.other].map((key) => listen(key)));
    for (const stream of [ann, chatter, other]) await stream?.until("reset");

    await say("plain", "one");
    const seen = await newsUntil(
      ann as TestStream,
      (news) => news.kind === "run_status" && news.status === "completed",
    );
    const byChatter = await newsUntil(chatter as TestStream, ({ kind }) => kind === "thread");

    const run = seen.find(({ kind }) => kind === "run_status");
    assert.ok(run?.kind === "run_status");
    assert.deepEqual([run.thread_id, run.manifest], ["acme:one", "plain"]);
    assert.ok(byChatter.every(({ kind }) => kind === "thread"));
    await server.post("/chat", turn("plain", "Hi", { thread_id: "theirs" }), { key: keys.other });
    const theirs = await newsUntil(other as TestStream, ({ kind }) => kind === "thread");
    assert.ok(theirs.every((news) => !("thread_id" in news) || news.thread_id === "umbra:theirs"));
    for (const stream of [ann, chatter, other]) stream?.close();
    assert.equal((await listen(keys.none)).status, 403);
  });

  test("approvals, durable runs, manifests and deleted threads are announced without content", async () => {
    mock.answer("plain", inTurn(calls(["calculator", { expression: "41 + 1" }]), { text: "42" }));
    const stream = await listen(keys.ann);
    await stream.until("reset");

    const answer = say("sums", "gated");
    const asked = await newsUntil(stream, ({ kind }) => kind === "approval");
    const [approval] = asked.filter(({ kind }) => kind === "approval");
    assert.ok(approval?.kind === "approval" && approval.status === "pending");
    await server.post(`/approvals/${approval.approval_id}/decide`, { decision: "approved" }, { key: keys.ann });
    await newsUntil(stream, (news) => news.kind === "approval" && news.status === "approved");
    await answer;
    mock.answer("plain", { text: ["Hello."] });
    await server.post("/chat", turn("durable", "Hi"), { key: keys.ann });
    await newsUntil(
      stream,
      (news) => news.kind === "run_status" && news.manifest === "durable" && news.status === "completed",
    );
    const manifest = { metadata: { name: "mine" }, spec: {} };
    const put = await server.request("PUT", "/manifests/mine", { key: keys.ann, body: { manifest } });
    assert.equal(put.status, 200, put.text);
    await newsUntil(stream, (news) => news.kind === "manifest" && news.name === "mine");
    await server.request("DELETE", "/chat/history/gated", { key: keys.ann });
    await newsUntil(stream, (news) => news.kind === "thread" && news.change === "deleted");
    stream.close();

    assert.doesNotMatch(stream.text, /41 \+ 1|Hello/);
  });

  test("a listener that reconnects gets the news that it missed, and an unknown cursor a reset", async () => {
    const stream = await listen(keys.ann);
    await stream.until("reset");
    await say("plain", "before");
    await newsUntil(stream, (news) => news.kind === "run_status" && news.status === "completed");
    const cursor = [...stream.text.matchAll(/^id: (.*)$/gm)].at(-1)?.[1] ?? "";
    stream.close();

    await say("plain", "missed");
    const again = await listen(keys.ann, cursor);
    const missed = await newsUntil(again, (news) => news.kind === "run_status" && news.status === "completed");
    again.close();

    assert.ok(
      missed.every((news) => !("thread_id" in news) || news.thread_id === "acme:missed"),
      JSON.stringify(missed),
    );
    assert.doesNotMatch(again.text, /"reset"/);
    for (const unknown of ["0", "x-1", `${cursor}9`, "-1", "a-b-c"]) {
      const strange = await listen(keys.ann, unknown);
      assert.equal((await strange.next())?.name, "reset");
      strange.close();
    }
  });

  test("fifty listeners get one frame for all turns of a second", async () => {
    const streams = await Promise.all(Array.from({ length: 50 }, () => listen(keys.ann)));
    for (const stream of streams) await stream.until("reset");

    await Promise.all(Array.from({ length: 30 }, (_, at) => say("plain", `burst-${at}`)));
    const last = (news: News) => news.kind === "thread" && news.thread_id === "acme:last";
    const startedAt = performance.now();
    await say("plain", "last");
    await Promise.all(streams.map((stream) => newsUntil(stream, last)));
    const seconds = (performance.now() - startedAt) / 1000;

    const texts = new Set(streams.map((stream) => stream.text.replaceAll(/^:.*\n\n/gm, "")));
    for (const text of texts) assert.ok((text.match(/"event":"news"/g) ?? []).length <= 4 + seconds);
    for (const stream of streams) stream.close();
  });
});
