// Durable runs whose client returns with the key of its request or with the token of its run.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { framesUntil, gate, never, says, startChatProcess, turn } from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
import type { MockModel } from "../support/mock-model.ts";
import { apiKeys, type ProcessServer } from "../support/server.ts";
import type { Frame } from "../support/sse-frames.ts";
import { cleanup } from "../support/temp.ts";

const { env, keys } = apiKeys({
  alice: { scopes: ["chat:write"] },
  reader: { scopes: ["chat:read"] },
  stranger: { tenant_id: "globex", sub: "eve", scopes: ["*"] },
});

describe("a durable run whose client comes back", () => {
  const atEnd = cleanup();
  let server: ProcessServer;
  let mock: MockModel;
  const alice = { key: keys.alice };
  const keyed = (key: string) => ({ ...alice, headers: { "idempotency-key": key } });
  before(async () => {
    ({ server, mock } = await startChatProcess(atEnd, {
      models: ["scripted"],
      manifests: { agent: { execution: { mode: "durable" } } },
      env: { ...env, SVC_CHAT_SCOPES: "strict" },
    }));
  });

  const asked = () => mock.requests.length;
  const words = (frames: readonly Frame[]) =>
    frames.flatMap(({ name, json }) => (name === "session_event" ? [json.data.content] : []));
  const record = async (token: string) => (await server.get(`/chat/runs/${token}`, alice)).json;
  const until = (token: string, status: string) =>
    eventually(`${token} as ${status}`, async () => (await record(token)).status === status || undefined);
  const abort = (token: string, options: object = alice) =>
    server.post(`/chat/runs/${token}/abort`, undefined, options);

  test("IDEM-011 joins the live run and gets all its frames with the same key", async () => {
    const held = gate();
    mock.answer("scripted", says("Hello", held.opened, " there."));
    const body = turn("agent", "hi", { thread_id: "joined" });
    const before = asked();
    const first = await server.stream("/chat/stream", body, keyed("k1"));
    const begun = await framesUntil(first, ({ name }) => name === "text_delta");

    const second = await server.stream("/chat/stream", body, keyed("k1"));
    const joined = await framesUntil(second, ({ name }) => name === "text_delta");
    const reused = await server.post("/chat/stream", turn("agent", "other", { thread_id: "joined" }), keyed("k1"));
    held.open();
    const [one, two] = [
      [...begun, ...(await first.rest())],
      [...joined, ...(await second.rest())],
    ];

    assert.deepEqual([first.status, first.headers["idempotent-replayed"]], [200, undefined]);
    assert.deepEqual([second.status, second.headers["idempotent-replayed"]], [200, "true"]);
    assert.deepEqual([two[0]?.name, two[0]?.json], ["run_accepted", one[0]?.json]);
    assert.deepEqual(words(one), ["hi", "Hello there."]);
    assert.deepEqual(words(two), words(one));
    for (const frames of [one, two])
      assert.deepEqual(
        frames.slice(-2).map(({ name }) => name),
        ["final", "[DONE]"],
      );
    assert.deepEqual([reused.status, reused.json.error], [422, "idempotency_key_reused"]);
    assert.equal(asked() - before, 1);
  });

  test("IDEM-011 joins its run after a restart of the server", async () => {
    mock.answer("scripted", says("Hello", never));
    const body = turn("agent", "hi", { thread_id: "anew" });
    const first = await server.stream("/chat/stream", body, keyed("k2"));
    const [accepted] = await framesUntil(first, ({ name }) => name === "text_delta");

    await server.kill();
    mock.answer("scripted", says("Hello again."));
    await server.restart();
    const second = await server.stream("/chat/stream", body, keyed("k2"));
    const frames = await second.rest();

    assert.equal(second.headers["idempotent-replayed"], "true");
    assert.deepEqual(frames[0]?.json, accepted?.json);
    assert.deepEqual(words(frames), ["hi", "Hello again."]);
    assert.equal(frames.at(-2)?.json.data.run.resume_token, accepted?.json.data.resume_token);
  });

  test("DUR-006 can cancel a run without a thread once, by its token and with chat scope", async () => {
    mock.answer("scripted", says("Hello", never));
    const { json } = await server.post("/chat", turn("agent", "hi"), alice);
    const token = json.resume_token;
    await until(token, "running");

    const refused = [
      await abort(token, { key: keys.stranger }),
      await abort("unknown"),
      await abort(token, { key: keys.reader }),
    ];
    const still = await record(token);
    const stopped = await abort(token);
    const twice = await abort(token);

    assert.deepEqual(
      refused.map(({ status }) => status),
      [404, 404, 403],
    );
    assert.equal(still.status, "running");
    assert.deepEqual([stopped.status, stopped.json.ok, stopped.json.aborted], [200, true, true]);
    assert.deepEqual([stopped.json.run.status, stopped.json.run.error], ["failed", "aborted"]);
    assert.deepEqual([twice.status, twice.json.aborted, twice.json.run], [200, false, await record(token)]);
  });

  test("LEASE-003 cannot stop a run of a conversation that another client drives by its token", async () => {
    mock.answer("scripted", says("Hello", never));
    const { json } = await server.post("/chat", turn("agent", "hi", { thread_id: "driven" }), alice);
    const token = json.resume_token;
    await until(token, "running");
    const lease = await server.post("/chat/sessions/lease", { thread_id: "driven", holder_id: "alice" }, alice);

    const other = await abort(token, { ...alice, headers: { "x-svc-lease-token": "C".repeat(22) } });
    const still = await record(token);
    const own = await abort(token, { ...alice, headers: { "x-svc-lease-token": lease.json.token } });

    assert.deepEqual([other.status, other.json.error], [409, "lease_held"]);
    assert.equal(still.status, "running");
    assert.deepEqual([own.status, own.json.aborted], [200, true]);
  });
});
