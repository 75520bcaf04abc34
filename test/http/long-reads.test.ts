// Reads in the compute pool, requested over HTTP, with one HTTP thread and with several that have a pool each.
import assert from "node:assert/strict";
import { test } from "node:test";
import { startChatProcess, turn } from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
import { cleanup } from "../support/temp.ts";

for (const threads of ["1", "3"]) {
  test(`with ${threads} http threads, turns run during searches, exports and sums`, async (t) => {
    const env = { SVC_HTTP_THREADS: threads };
    const { server, mock } = await startChatProcess(cleanup(t), { models: ["plain"], env });
    mock.answer("plain", { text: "The answer." });
    await server.post("/chat", turn("agent", "a needle", { thread_id: "found" }));
    await eventually("the audit rows of the turn", async () => {
      const { json } = await server.get("/audit");
      return json.items.length >= 2;
    });

    const round = (number: number) =>
      Promise.all([
        server.get("/chat/sessions/search?q=needle"),
        server.get("/audit/export?until=99999999999999"),
        server.get("/usage/summary"),
        server.get("/usage/threads"),
        server.get("/audit/metrics"),
        server.post("/chat", turn("agent", "another", { thread_id: `beside-${number}` })),
      ]);
    // There are as many connections as live requests, and the kernel spreads them over the threads.
    const rounds = await Promise.all(Array.from({ length: 8 }, (_, number) => round(number)));

    for (const [search, exported, summary, usage, metrics, answer] of rounds) {
      assert.deepEqual(
        search.json.hits.map(({ thread_id, content }: Record<string, string>) => `${thread_id}: ${content}`),
        ["default:found: a needle"],
      );
      const lines = exported.text.trimEnd().split("\n");
      assert.ok(lines.map((line) => JSON.parse(line).event_type).includes("user_input"));
      assert.ok(summary.json.totals.calls >= 1 && usage.json.totals.calls >= 1);
      assert.deepEqual(metrics.json.tools, []);
      assert.equal(answer.status, 200);
    }
    assert.deepEqual(
      server.logs.filter(({ level }) => level === "error"),
      [],
    );
  });
}
