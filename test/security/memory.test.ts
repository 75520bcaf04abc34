// Requests that make a server hold many times their own size. A server with a small heap answers all of them and still
// serves other tenants.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { calls, inTurn, says, startChatProcess, turn } from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
import type { MockModel } from "../support/mock-model.ts";
import { apiKeys, type ProcessServer } from "../support/server.ts";
import { cleanup } from "../support/temp.ts";

/** Heap of each thread in mebibytes. */
const heapMiB = 512;
const { env: keyed, keys } = apiKeys({ ann: { scopes: ["*"] }, bob: { tenant_id: "globex", scopes: ["*"] } });
const as = (key: string) => ({ key });
const limits = { max_input_tokens: 9_000_000 };

describe("a server with a small heap", () => {
  const atEnd = cleanup();
  let server: ProcessServer;
  let mock: MockModel;
  before(async () => {
    ({ server, mock } = await startChatProcess(atEnd, {
      models: ["wordy", "brief", "gated"],
      manifests: {
        wordy: { model: { id: "wordy" }, limits },
        brief: { model: { id: "brief" }, limits, session: { strategy: "full_replay" } },
        gated: {
          model: { id: "gated" },
          tools: ["calculator"],
          approvals: [{ id: "sums", tools: ["calculator"], ttl_seconds: 600 }],
          execution: { mode: "durable" },
        },
        compacts: { model: { id: "brief" }, limits, session: { strategy: "compacting", context_window_tokens: 8_192 } },
      },
      env: { ...keyed, NODE_OPTIONS: `--max-old-space-size=${heapMiB}` },
    }));
    mock.answer("wordy", { text: ["word ".repeat(100_000)] });
    mock.answer("gated", inTurn(calls(["calculator", { expression: "6*7" }]), says("It is 42.")));
    mock.answer("brief", { text: ["Yes."] });
  });

  async function isThere(): Promise<void> {
    const { status, text } = await server.post("/chat", turn("brief", "hi"), as(keys.bob));
    assert.equal(status, 200, text);
    assert.ok(server.isRunning);
  }

  test("refuses thousands of references to one large item", async () => {
    const asked = { model: "wordy", input: "Go on." };
    const { json } = await server.post("/v1/responses", asked, as(keys.ann));
    const reference = { type: "item_reference", id: json.output[0].id };
    const input = [{ role: "user", content: "go" }, ...Array(5_000).fill(reference)];
    const attacks = Array.from({ length: 4 }, () =>
      server.post("/v1/responses", { model: "brief", input }, as(keys.ann)),
    );

    const statuses = (await Promise.all(attacks)).map(({ status }) => status);

    assert.deepEqual(statuses, [413, 413, 413, 413]);
    await isThere();
  });

  test("runs a dozen turns of threads that have the largest loadable size", async () => {
    const question = "x".repeat(900_000);
    const say = (thread_id: string, content: string, manifest = "brief") =>
      server.post("/chat", turn(manifest, content, { thread_id }), as(keys.ann));
    let last = await say("long", question);
    let from_event_id = "";
    for (let at = 0; at < 20 && last.status !== 409; at++) {
      from_event_id = last.json.leaf_id ?? from_event_id;
      last = await say("long", question);
    }
    const forks = Array.from({ length: 12 }, (_, at) => `fork-${at}`);
    for (const new_thread_id of forks) {
      const asked = { thread_id: "long", new_thread_id, from_event_id };
      assert.equal((await server.post("/chat/fork", asked, as(keys.ann))).status, 200);
    }

    const turns = await Promise.all(forks.map((thread) => say(thread, "And now?")));
    const compacted = await server.post("/chat/compact", { thread_id: "long", manifest: "compacts" }, as(keys.ann));
    const goesOn = await say("long", "And now?", "compacts");

    assert.deepEqual([last.status, last.json.error], [409, "thread_too_large"]);
    assert.match(last.text, /POST \/chat\/compact/);
    for (const { status, text } of turns) assert.ok(status === 200 || status === 503, text.slice(0, 300));
    assert.ok(turns.some(({ status }) => status === 200));
    assert.deepEqual([compacted.status, compacted.json.compacted], [200, true]);
    assert.ok(compacted.json.tokens_before > 4_000_000, String(compacted.json.tokens_before));
    assert.equal(goesOn.status, 200, goesOn.text.slice(0, 300));
    await isThere();
  });

  test("ends a durable run whose thread outgrew the loadable size while the run waited", async () => {
    const thread_id = "outgrown";
    const { json } = await server.post("/chat", turn("gated", "sum", { thread_id }), as(keys.ann));
    const runOf = async () => (await server.get(`/runs/${json.resume_token}`, as(keys.ann))).json;
    const { waiting_on } = await eventually("a run that waits", async () => {
      const run = await runOf();
      return run.status === "waiting" && run.waiting_on?.kind === "approval" ? run : undefined;
    });
    const entry = { thread_id, role: "user", in_context: true, content: "x".repeat(900_000) };
    for (let at = 0; at < 20; at++)
      assert.equal((await server.post("/chat/sessions/custom", entry, as(keys.ann))).status, 200);

    await server.post(`/approvals/${waiting_on.id}/decide`, { decision: "approved" }, as(keys.ann));

    const ended = await eventually("its end", async () => {
      const run = await runOf();
      return ["running", "waiting"].includes(run.status) && run.waiting_on?.kind !== "retry" ? undefined : run;
    });
    assert.deepEqual([ended.status, ended.error], ["failed", "thread_too_large"], JSON.stringify(ended));
    await isThere();
  });
});
