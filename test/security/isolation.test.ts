// Threats 1, 2, 4 and 5: many tenants use one server at once. Each puts its own canary word into all its requests, and
// the word must not reach any other tenant.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { gate, says, startChatProcess, turn } from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
import type { Answer, HttpClient, RequestOptions, TestStream } from "../support/http-client.ts";
import type { MockModel } from "../support/mock-model.ts";
import { apiKeys, type ProcessServer } from "../support/server.ts";
import { cleanup } from "../support/temp.ts";
import { assertNoErrorLogged } from "./support.ts";

const turnCount = 1_000;
/** Number of parallel turns. */
const sideBySide = 48;
const threadsOfEach = 10;

interface Tenant {
  readonly name: string;
  readonly key: string;
  /** A word that is unique to the tenant and that full text search treats as one word. */
  readonly canary: string;
  /** All answers to this tenant. */
  readonly heard: string[];
}

const names = ["acme", "globex", "initech", "umbrella", "hooli", "stark", "wayne", "tyrell"] as const;
const { env, keys } = apiKeys(
  Object.fromEntries(names.map((name) => [name, { tenant_id: name, sub: "same-subject", scopes: ["*"] }])),
);
const tenants: readonly Tenant[] = names.map((name, at) => ({
  name,
  key: keys[name] as string,
  canary: `canary${at}q${name.split("").reverse().join("")}`,
  heard: [],
}));

/** The tenants whose canaries are in a text. */
function ownersOf(text: string): string[] {
  return tenants.filter(({ canary }) => text.includes(canary)).map(({ name }) => name);
}

function assertOnly(owner: string, text: string): void {
  for (const name of ownersOf(text))
    assert.equal(name, owner, `a word of ${name} reached ${owner}: ${text.slice(0, 2000)}`);
}

/** One turn: its tenant, its thread and its entry point. */
interface Job {
  readonly tenant: Tenant;
  readonly thread: number;
  readonly number: number;
  readonly way: "chat" | "stream" | "openai" | "openai stream" | "stateless" | "stored" | "keyed";
}

describe("threat 5: a thousand parallel turns of eight tenants", () => {
  const atEnd = cleanup();
  let server: ProcessServer;
  let mock: MockModel;
  const ways: readonly Job["way"][] = ["chat", "stream", "openai", "openai stream", "stateless", "stored", "keyed"];
  const listeners: { readonly tenant: Tenant; readonly stream: TestStream; readonly done: Promise<void> }[] = [];

  before(async () => {
    ({ server, mock } = await startChatProcess(atEnd, {
      models: ["echo"],
      manifests: { agent: { tools: ["todo_write"] } },
      env: { ...env, SVC_LOG_LEVEL: "trace", SVC_HTTP_THREADS: "2", SVC_ACTOR_THREADS: "2" },
    }));
    mock.answer("echo", ({ body }) => {
      const messages = body.messages as { role: string; content: string }[];
      const last = messages.at(-1);
      const said = messages.findLast(({ role }) => role === "user")?.content ?? "";
      // Every third turn writes a todo list, so that tools and their results could be mixed up as well.
      if (last?.role === "user" && said.includes("list:")) {
        const todos = [{ id: "1", content: said.slice(0, 200), status: "pending" }];
        return { toolCalls: [{ id: "call_1", name: "todo_write", arguments: JSON.stringify({ todos }) }] };
      }
      const system = messages.find(({ role }) => role === "system")?.content ?? "";
      return { text: ["You said ", said.slice(0, 20), said.slice(20), ` under ${system.slice(-120)}`] };
    });
    for (const tenant of tenants) {
      const manifest = {
        metadata: { name: "helper", description: `of ${tenant.canary}` },
        spec: { system_prompt: { inline: `You belong to ${tenant.canary}` } },
      };
      const put = await as(tenant, "PUT", "/manifests/helper", { body: { manifest, comment: tenant.canary } });
      assert.equal(put.status, 200, put.text);
    }
  });

  async function as(tenant: Tenant, method: string, path: string, options: RequestOptions = {}): Promise<Answer> {
    const headers = { "x-request-id": `${tenant.canary}-r`, ...options.headers };
    const answer = await (server as HttpClient).request(method, path, { ...options, key: tenant.key, headers });
    tenant.heard.push(answer.text, JSON.stringify(answer.headers));
    return answer;
  }

  /** Runs a turn. Fails unless the answer belongs to it. */
  async function run({ tenant, thread, number, way }: Job): Promise<void> {
    const said = `${tenant.canary} says ${number % 3 === 0 ? "list:" : ""} number-${number}-`;
    const thread_id = `common-${thread}`;
    const streamed = way === "stream" || way === "openai stream";
    const openAi = way === "openai" || way === "openai stream";
    const path = openAi ? "/v1/chat/completions" : way === "stream" ? "/chat/stream" : "/chat";
    const body = openAi
      ? { model: "agent", messages: [{ role: "user", content: said }], user: thread_id, stream: streamed }
      : turn(way === "stored" ? "helper" : "agent", said, way === "stateless" ? {} : { thread_id });
    // All tenants use the same keys.
    const headers = way === "keyed" ? { "idempotency-key": `key-${number}` } : {};
    for (;;) {
      const answer = await as(tenant, "POST", path, { body, headers });
      // Several turns share a thread, one at a time.
      if (answer.status === 409) continue;
      assert.equal(answer.status, 200, answer.text);
      const told = streamed
        ? wordsIn(answer.text)
        : openAi
          ? answer.json.choices[0].message.content
          : answer.json.final.content;
      assert.ok(told.startsWith(`You said ${said}`), `${way}: ${told}`);
      return;
    }
  }

  test("no word of a tenant reaches another tenant on any route", async (t) => {
    for (const tenant of tenants) {
      for (let thread = 0; thread < 2; thread++) {
        const stream = await server.listen(`/chat/stream/common-${thread}`, { key: tenant.key });
        const done = (async () => {
          for await (const frame of stream) tenant.heard.push(frame.raw);
        })().catch(() => {});
        listeners.push({ tenant, stream, done });
      }
    }
    const jobs: Job[] = Array.from({ length: turnCount }, (_, number) => ({
      tenant: tenants[number % tenants.length] as Tenant,
      thread: Math.floor(number / tenants.length) % threadsOfEach,
      number,
      way: ways[Math.floor(number / 3) % ways.length] as Job["way"],
    }));
    let next = 0;
    const worker = async (): Promise<void> => {
      for (let job = jobs[next++]; job; job = jobs[next++]) await run(job);
    };

    await Promise.all(Array.from({ length: sideBySide }, worker));

    for (const { tenant, stream, done } of listeners) {
      stream.close();
      await done;
      assert.ok(stream.text.includes(tenant.canary));
    }
    for (const tenant of tenants) assertOnly(tenant.name, tenant.heard.join("\n"));
    assert.ok(mock.requests.length >= turnCount);
    for (const request of mock.requests) assert.equal(ownersOf(request.text).length, 1);
    t.diagnostic(
      `${mock.requests.length} model calls, ${tenants.reduce((sum, { heard }) => sum + heard.length, 0)} answers and frames`,
    );
  });

  test("an Idempotency-Key of one tenant differs from that of another", async () => {
    const keyed = (tenant: Tenant) => ({
      body: turn("agent", `${tenant.canary} keyed`),
      headers: { "idempotency-key": "one-for-all" },
    });
    for (const tenant of tenants) {
      const first = await as(tenant, "POST", "/chat", keyed(tenant));
      const again = await as(tenant, "POST", "/chat", keyed(tenant));

      assert.equal(first.headers["idempotent-replayed"], undefined, tenant.name);
      assert.equal(again.headers["idempotent-replayed"], "true");
      assert.equal(again.text, first.text);
      assertOnly(tenant.name, first.text);
    }
  });

  test("stored data of a tenant is shown to that tenant only", async () => {
    const kept = [
      "/audit?limit=500",
      "/audit/export",
      "/audit/metrics",
      "/usage?limit=200",
      "/usage/summary",
      "/usage/threads",
      "/chat/sessions?limit=500",
      "/chat/sessions/common-0",
      "/chat/history/common-1",
      "/manifests",
      "/manifests/helper",
      "/manifests/helper?version=1",
      "/manifests/helper/versions",
      "/v1/models",
    ];
    for (const tenant of tenants) {
      // Audit rows are written with a delay.
      await eventually("audit rows", async () => {
        const { json } = await as(tenant, "GET", "/audit?limit=500&event_type=final_response");
        return json.items.length > turnCount / tenants.length / 2 || undefined;
      });
      for (const path of kept) {
        const { status, text } = await as(tenant, "GET", path);

        assert.equal(status, 200, path);
        assertOnly(tenant.name, text);
        for (const other of names)
          if (other !== tenant.name) assert.ok(!text.includes(`"${other}`), `${path}: ${other}`);
      }
    }
  });

  test("a thread contains its own turns only", async () => {
    for (const tenant of tenants.slice(0, 3)) {
      for (let thread = 0; thread < threadsOfEach; thread++) {
        const { json } = await as(tenant, "GET", `/chat/history/common-${thread}`);
        const numbers = json.messages
          .filter(({ role }: { role: string }) => role === "user")
          .map(({ content }: { content: string }) => Number(/number-(\d+)-/.exec(content)?.[1]));

        assert.ok(numbers.length > 0);
        assert.equal(new Set(numbers).size, numbers.length);
        for (const number of numbers)
          assert.deepEqual(
            [tenants[number % tenants.length]?.name, Math.floor(number / tenants.length) % threadsOfEach],
            [tenant.name, thread],
          );
      }
    }
  });

  test("threat 2: search finds the tenant's own words only", async () => {
    for (const tenant of tenants) {
      for (const wanted of tenants) {
        const { json } = await as(tenant, "GET", `/chat/sessions/search?q=${wanted.canary}&limit=100`);

        if (wanted === tenant) assert.equal(json.hits.length, 100);
        else assert.deepEqual(json.hits, []);
      }
      for (const q of [
        "you said",
        `says OR ${tenants[0]?.canary}`,
        `"${tenants[1]?.canary}"*`,
        "tenant:acme says",
        "number",
      ]) {
        const { json } = await as(tenant, "GET", `/chat/sessions/search?q=${encodeURIComponent(q)}`);

        for (const hit of json.hits) {
          assert.equal(hit.tenant_id, tenant.name);
          assertOnly(tenant.name, JSON.stringify(hit));
        }
      }
    }
  });

  test("metrics name no tenant, and no log line has words of two tenants", async () => {
    const { text } = await server.get("/metrics", { key: keys.acme as string });

    assert.deepEqual(ownersOf(text), []);
    for (const name of names) assert.ok(!text.includes(name), name);
    assert.ok(server.logs.length > 0);
    for (const line of server.logs) assert.ok(ownersOf(JSON.stringify(line)).length <= 1, JSON.stringify(line));
    assertNoErrorLogged(server);
  });
});

describe("threat 1: a live thread of another tenant", () => {
  const atEnd = cleanup();
  const { env, keys } = apiKeys({
    owner: { tenant_id: "acme", scopes: ["*"] },
    stranger: { tenant_id: "globex", scopes: ["*"] },
  });

  test("AUTH-010 cannot be watched, aborted, continued or deleted", async () => {
    const { server, mock } = await startChatProcess(atEnd, { models: ["live", "plain"], env });
    const { opened, open } = gate();
    mock.answer("live", says("the owner's ", opened, "secret"));
    const owner = { key: keys.owner };
    const stranger = { key: keys.stranger };
    const running = await server.stream("/chat/stream", turn("agent", "mine", { thread_id: "t" }), owner);
    await running.until("text_delta");

    const heard = await server.listen("/chat/stream/t", stranger);
    const first = await heard.until("snapshot");
    const fromCursor = await server.listen("/chat/stream/t", { ...stranger, headers: { "last-event-id": "0" } });
    const abort = await server.request("POST", "/chat/abort", { ...stranger, body: { thread_id: "t" } });
    const goOn = await server.request("POST", "/chat/continue", { ...stranger, body: { thread_id: "t" } });
    const erased = await server.request("DELETE", "/chat/history/t", stranger);
    const ownAbort = await server.request("POST", "/chat/abort", { ...stranger, body: { thread_id: "acme:t" } });
    open();
    const rest = await running.rest();

    assert.deepEqual([first.json.data.transcript, first.json.data.phase], [[], "idle"]);
    assert.equal(abort.json.aborted, false);
    assert.deepEqual([goOn.status, goOn.json.error], [400, "manifest_required"]);
    assert.deepEqual(erased.json, { status: "deleted", thread_id: "globex:t" });
    assert.deepEqual([ownAbort.status, ownAbort.json.error], [400, "invalid_thread_id"]);
    const done = rest.find(({ name }) => name === "done");
    assert.equal(done?.json.data.final.content, "the owner's secret");
    // All earlier frames have arrived when the stranger's own frame does.
    mock.answer("live", { text: "the stranger's own" });
    await server.request("POST", "/chat", { ...stranger, body: turn("agent", "also mine", { thread_id: "t" }) });
    for (const stream of [heard, fromCursor]) {
      while (!stream.text.includes("the stranger's own")) await stream.next();
      assert.ok(!stream.text.includes("the owner's") && !stream.text.includes("acme"), stream.text);
      stream.close();
    }
    const history = await server.get("/chat/history/t", owner);
    assert.deepEqual(
      history.json.messages.map(({ content }: { content: string }) => content),
      ["mine", "the owner's secret"],
    );
  });
});

/** The text of a stream, on either entry point. */
function wordsIn(stream: string): string {
  let words = "";
  for (const line of stream.split("\n")) {
    if (!line.startsWith("data: {")) continue;
    const data = JSON.parse(line.slice("data: ".length));
    if (data.event === "text_delta") words += data.data.delta;
    else words += data.choices?.[0]?.delta.content ?? "";
  }
  return words;
}
