// Idempotency-Key on POST /chat and POST /chat/stream: every row of the tables of document 1, and edge cases.
import assert from "node:assert/strict";
import { connect } from "node:net";
import { before, describe, test } from "node:test";
import { exportJWK, generateKeyPair, SignJWT } from "jose";
import { calls, eventSeqs, gate, inTurn, never, outline, says, startChat, turn } from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
import type { Answer } from "../support/http-client.ts";
import { failure } from "../support/mock-model/behaviours.ts";
import type { MockModel } from "../support/mock-model.ts";
import { apiKeys, type TestServer } from "../support/server.ts";
import { FrameReader } from "../support/sse-frames.ts";
import { cleanup } from "../support/temp.ts";

const models = [
  "plain",
  "tools",
  "held",
  "held-json",
  "held-left",
  "failing",
  "failing-once",
  "plain-2",
  "plain-3",
  "busy",
  "summing",
];
const routes = ["/chat", "/chat/stream"] as const;
type Route = (typeof routes)[number];
/** The route in a form that can be part of a name. */
const slug = (route: Route) => route.replaceAll("/", "-");

const { env: keyed, keys } = apiKeys({
  ann: { tenant_id: "acme", sub: "ann", scopes: ["chat:write"] },
  bo: { tenant_id: "acme", sub: "bo", scopes: ["chat:write"] },
  other: { tenant_id: "other", sub: "ann", scopes: ["chat:write"] },
});

describe("Idempotency-Key", () => {
  const atEnd = cleanup();
  let server: TestServer;
  let mock: MockModel;
  before(async () => {
    ({ server, mock } = await startChat(atEnd, {
      models,
      manifests: {
        short: { session: { strategy: "compacting", context_window_tokens: 1024 } },
        agent: { tools: ["calculator"], prompts: [{ name: "nothing", body: "$1" }] },
      },
      routes: { secretive: { provider: "groq", model: "x" } },
      providers: { groq: { api_key: "secret:NOT_THERE" } },
      env: keyed,
    }));
    for (const model of ["plain", "plain-2", "plain-3"]) mock.answer(model, { text: "The answer." });
    mock.answer("tools", inTurn(calls(["calculator", { expression: "6*7" }]), { text: "42." }));
  });

  interface Sending {
    readonly as?: string;
    readonly text?: string;
    readonly thread?: string | null;
    readonly model?: string;
  }
  const bodyOf = ({ text = "go", thread = null, model = "plain" }: Sending) =>
    turn("agent", text, { thread_id: thread, model });
  function send(route: Route, idempotencyKey: string, sending: Sending = {}): Promise<Answer> {
    const headers = { "idempotency-key": idempotencyKey };
    return server.post(route, bodyOf(sending), { key: sending.as ?? keys.ann, headers });
  }
  const framesIn = ({ text }: Answer) => new FrameReader().push(text);
  const replayed = ({ headers }: Answer) => headers["idempotent-replayed"];
  const code = ({ status, json }: Answer) => [status, json.error];
  const userMessages = async (thread: string, key = keys.ann): Promise<number> => {
    const { json } = await server.get(`/chat/history/${thread}`, { key });
    return json.messages.filter(({ role }: { role: string }) => role === "user").length;
  };
  const asked = (model: string) => mock.requests.filter((request) => request.model === model).length;

  test("IDEM-001 a key has 1 to 255 visible ASCII characters without braces, else 400", async () => {
    const bad = ["x".repeat(256), "{", "a}b", "with space", "tab\tbed", "é", "\u0080", ""];
    const literal = '{"error":"invalid_idempotency_key","detail":"invalid_idempotency_key"}';

    for (const route of routes) {
      for (const key of bad) {
        const { status, text } = await send(route, key, { thread: "format" });
        assert.deepEqual([status, text], [400, literal], JSON.stringify(key));
      }
      const longest = await send(route, "k".repeat(255), {
        thread: `format${slug(route)}`,
      });
      const odd = await send(route, "!\"#$%&'()*+,-./:;<=>?@[\\]^_`|~", { thread: `odd${slug(route)}` });
      assert.deepEqual([longest.status, odd.status], [200, 200]);
    }
    assert.equal(await userMessages("format"), 0);
  });

  test("IDEM-002 a keyed stream without thread_id is 400 idempotency_key_requires_thread_id", async () => {
    const answer = await send("/chat/stream", "no-thread");

    const literal = "idempotency_key_requires_thread_id";
    assert.deepEqual([answer.status, answer.text], [400, `{"error":"${literal}","detail":"${literal}"}`]);
  });

  test("IDEM-008 a resent stream is replayed with its events, ids and [DONE], and nothing runs", async () => {
    await send("/chat/stream", "before", { thread: "replay" });
    const first = await send("/chat/stream", "again", { thread: "replay", model: "tools" });
    await send("/chat/stream", "after", { thread: "replay" });
    const calledBefore = mock.requests.length;

    const second = await send("/chat/stream", "again", { thread: "replay", model: "tools" });
    const third = await send("/chat/stream", "again", { thread: "replay", model: "tools" });

    const { json } = await server.get("/chat/sessions/replay", { key: keys.ann });
    assert.equal(replayed(first), undefined);
    assert.deepEqual(
      [second.status, replayed(second), second.headers["content-type"]],
      [200, "true", "text/event-stream"],
    );
    const frames = framesIn(second);
    assert.deepEqual(outline(frames), [...new Array<string>(5).fill("session_event"), "[DONE]"]);
    assert.deepEqual(eventSeqs(frames), [2, 3, 4, 5, 6]);
    for (const frame of frames.slice(0, -1)) {
      assert.equal(frame.id, String(frame.json.data.seq + 1));
      assert.equal(frame.json.data.id, json.transcript[frame.json.data.seq].id);
    }
    assert.equal(third.text, second.text);
    assert.equal(mock.requests.length, calledBefore);
    assert.equal(await userMessages("replay"), 3);
  });

  test("IDEM-008 a replay has the events of a compaction that its turn made", async () => {
    mock.answer("summing", { text: "Words. ".repeat(200) });
    const sent = (text: string, key: string) =>
      server.post("/chat/stream", turn("short", text, { thread_id: "summed", model: "summing" }), {
        key: keys.ann,
        headers: { "idempotency-key": key },
      });
    for (const word of ["first", "second", "third"]) await sent(`${word} ${"x".repeat(1200)}`, word);

    const again = await sent(`third ${"x".repeat(1200)}`, "third");

    const { transcript } = (await server.get("/chat/sessions/summed", { key: keys.ann })).json;
    const own = transcript.slice(transcript.findLastIndex(({ role }: { role: string }) => role === "user"));
    assert.ok(own.some(({ kind }: { kind: string }) => kind === "compaction"));
    assert.deepEqual(
      eventSeqs(framesIn(again)),
      own.map(({ seq }: { seq: number }) => seq),
    );
  });

  test("IDEM-012 a resent POST /chat gets the first answer, byte for byte, and nothing runs", async () => {
    const first = await send("/chat", "json", { thread: "json", model: "plain-2" });

    const second = await send("/chat", "json", { thread: "json", model: "plain-2" });

    assert.deepEqual([first.status, replayed(first), second.status, replayed(second)], [200, undefined, 200, "true"]);
    assert.equal(second.text, first.text);
    assert.equal(second.headers["content-type"], first.headers["content-type"]);
    assert.notEqual(second.headers["x-request-id"], first.headers["x-request-id"]);
    assert.deepEqual([asked("plain-2"), await userMessages("json")], [1, 1]);
  });

  test("IDEM-012 a resent stateless POST /chat gets the first answer too", async () => {
    const first = await send("/chat", "stateless", { model: "plain-3" });
    const second = await send("/chat", "stateless", { model: "plain-3" });

    assert.deepEqual([second.text, replayed(second), asked("plain-3")], [first.text, "true", 1]);
  });

  test("IDEM-003 the key of a stream belongs to the thread: on another thread it is another key", async () => {
    const first = await send("/chat/stream", "per-thread", { thread: "per-thread-1" });
    const second = await send("/chat/stream", "per-thread", { thread: "per-thread-2", text: "something else" });

    assert.deepEqual([first.status, second.status, replayed(second)], [200, 200, undefined]);
    assert.deepEqual([await userMessages("per-thread-1"), await userMessages("per-thread-2")], [1, 1]);
  });

  test("IDEM-004 the key of POST /chat belongs to the principal: another thread is another body", async () => {
    const first = await send("/chat", "per-principal", { thread: "per-principal-1" });
    const elsewhere = await send("/chat", "per-principal", { thread: "per-principal-2" });

    assert.equal(first.status, 200);
    assert.deepEqual(code(elsewhere), [422, "idempotency_key_reused"]);
    assert.equal(await userMessages("per-principal-2"), 0);
  });

  test("IDEM-003 IDEM-004 keys of another principal, or another tenant's namesake, are other keys", async () => {
    for (const route of routes) {
      const key = `shared${slug(route)}`;
      const sending = { thread: key };

      const answers = [
        await send(route, key, { ...sending, as: keys.ann }),
        await send(route, key, { ...sending, as: keys.bo }),
        await send(route, key, { ...sending, as: keys.other }),
      ];

      for (const answer of answers) assert.deepEqual([answer.status, replayed(answer)], [200, undefined]);
      assert.equal(await userMessages(key), 2, "two principals of one tenant share its thread");
      assert.equal(await userMessages(key, keys.other), 1);
      assert.equal(replayed(await send(route, key, { ...sending, as: keys.bo })), "true");
    }
  });

  test("IDEM-003 the same key on another route is another key", async () => {
    const headers = { "idempotency-key": "both" };
    const completion = { model: "agent", user: "both", messages: [{ role: "user", content: "go" }] };
    const answers = [
      await send("/chat", "both", { thread: "both" }),
      await send("/chat/stream", "both", { thread: "both" }),
      await server.post("/v1/chat/completions", completion, { key: keys.ann, headers }),
    ];

    for (const answer of answers) assert.deepEqual([answer.status, replayed(answer)], [200, undefined]);
    assert.equal(await userMessages("both"), 3);
  });

  test("IDEM-005 the same key with a different body is 422 idempotency_key_reused on both routes", async () => {
    const literal = '{"error":"idempotency_key_reused","detail":"idempotency_key_reused"}';
    for (const route of routes) {
      const thread = `reused${slug(route)}`;
      await send(route, "reused", { thread });

      const changed = await send(route, "reused", { thread, text: "something else" });
      const same = await send(route, "reused", { thread });

      assert.deepEqual([changed.status, changed.text], [422, literal]);
      assert.deepEqual([replayed(same), await userMessages(thread)], ["true", 1]);
    }
  });

  test("IDEM-006 IDEM-010 a refused request is never the key's answer, and the key stays free", async () => {
    for (const route of routes) {
      const thread = `refused${slug(route)}`;
      const refusals = [
        await send(route, thread, { thread, model: "nope" }),
        await send(route, thread, { thread, text: "/nothing" }),
        await send(route, thread, { thread, text: "" }),
      ];

      const accepted = await send(route, thread, { thread });

      assert.deepEqual(
        refusals.map(({ status }) => status),
        [400, 404, 400],
      );
      assert.deepEqual([accepted.status, replayed(accepted), await userMessages(thread)], [200, undefined, 1]);
    }
  });

  test("IDEM-006 a request that is refused because the thread is busy leaves its key free", async () => {
    const more = gate();
    mock.answer("busy", says(more.opened, "Done."));
    const live = await server.stream("/chat/stream", bodyOf({ thread: "busy", model: "busy" }), { key: keys.ann });
    await live.until("session_progress");

    const refusals = [
      await send("/chat", "busy", { thread: "busy" }),
      await send("/chat/stream", "busy", { thread: "busy" }),
    ];
    more.open();
    await live.rest();
    const accepted = [
      await send("/chat", "busy", { thread: "busy" }),
      await send("/chat/stream", "busy", { thread: "busy" }),
    ];

    for (const { status, json } of refusals) {
      assert.equal(status, 409);
      assert.match(json.error, /^run_in_progress:[0-9a-f]{32}$/);
    }
    for (const answer of accepted) assert.deepEqual([answer.status, replayed(answer)], [200, undefined]);
    assert.equal(await userMessages("busy"), 3);
  });

  test("IDEM-007 a stream resent while it runs is 409 idempotency_in_progress; nothing reruns", async () => {
    const more = gate();
    mock.answer("held", says("So ", more.opened, "far."));
    const first = await server.stream("/chat/stream", bodyOf({ thread: "running", model: "held" }), {
      key: keys.ann,
      headers: { "idempotency-key": "running" },
    });
    await first.until("text_delta");

    const second = await send("/chat/stream", "running", { thread: "running", model: "held" });
    const changed = await send("/chat/stream", "running", { thread: "running", text: "else", model: "held" });
    more.open();
    const rest = await first.rest();
    const third = await send("/chat/stream", "running", { thread: "running", model: "held" });

    const literal = '{"error":"idempotency_in_progress","detail":"idempotency_in_progress"}';
    assert.deepEqual([second.status, second.text], [409, literal]);
    assert.deepEqual(code(changed), [422, "idempotency_key_reused"]);
    assert.equal(rest.at(-1)?.name, "[DONE]");
    assert.deepEqual([asked("held"), await userMessages("running")], [1, 1]);
    assert.deepEqual([replayed(third), eventSeqs(framesIn(third))], ["true", [0, 1]]);
  });

  test("IDEM-013 a POST /chat resent while it runs is 409 idempotency_in_progress", async () => {
    for (const thread of ["running-json", null]) {
      const more = gate();
      mock.answer("held-json", says(more.opened, "Said."));
      const key = `running-json-${thread}`;
      const calledBefore = asked("held-json");
      const first = send("/chat", key, { thread, model: "held-json" });
      await eventually("the model call", async () => {
        await server.get("/live");
        return asked("held-json") > calledBefore || undefined;
      });

      const second = await send("/chat", key, { thread, model: "held-json" });
      more.open();
      const answer = await first;
      const third = await send("/chat", key, { thread, model: "held-json" });

      assert.deepEqual(code(second), [409, "idempotency_in_progress"]);
      assert.deepEqual([answer.status, answer.json.final.content], [200, "Said."]);
      assert.deepEqual([third.text, replayed(third)], [answer.text, "true"]);
      assert.equal(asked("held-json"), calledBefore + 1);
    }
  });

  test("IDEM-007 IDEM-013 of many simultaneous requests with one key, one runs", async () => {
    const cases: [Route, Sending][] = [
      ["/chat/stream", { thread: "crowd-stream" }],
      ["/chat", { thread: "crowd-json" }],
      ["/chat", { thread: null }],
    ];
    for (const [at, [route, sending]] of cases.entries()) {
      const calledBefore = asked("plain");

      const answers = await Promise.all(Array.from({ length: 12 }, () => send(route, `crowd-${at}`, sending)));

      const ran = answers.filter((answer) => answer.status === 200 && replayed(answer) === undefined);
      const others = answers.filter((answer) => !ran.includes(answer));
      assert.equal(ran.length, 1);
      for (const answer of others) {
        if (answer.status === 200) assert.equal(replayed(answer), "true");
        else assert.deepEqual(code(answer), [409, "idempotency_in_progress"]);
      }
      assert.equal(asked("plain"), calledBefore + 1);
    }
    assert.deepEqual([await userMessages("crowd-stream"), await userMessages("crowd-json")], [1, 1]);
  });

  test("IDEM-009 a turn whose model failed is replayed with user message, on_error and [DONE]", async () => {
    mock.answer("failing", failure(400));
    const first = await send("/chat/stream", "failed", { thread: "failed", model: "failing" });

    const second = await send("/chat/stream", "failed", { thread: "failed", model: "failing" });

    const frames = framesIn(second);
    assert.deepEqual(outline(frames), ["session_event", "on_error", "[DONE]"]);
    assert.equal(frames[0]?.json.data.content, "go");
    assert.equal(frames[1]?.raw, framesIn(first).find(({ name }) => name === "on_error")?.raw);
    assert.deepEqual([replayed(second), asked("failing")], ["true", 1]);
  });

  test("IDEM-009 a stream that ended in event: error is replayed up to that frame, to the letter", async () => {
    const first = await send("/chat/stream", "refused-late", { thread: "refused-late", model: "secretive" });

    const second = await send("/chat/stream", "refused-late", { thread: "refused-late", model: "secretive" });

    const error = framesIn(first).find(({ event }) => event === "error");
    const frames = framesIn(second);
    assert.deepEqual(outline(frames), ["session_event", "error", "[DONE]"]);
    assert.equal(frames[0]?.json.data.content, "go");
    assert.equal(frames.at(-2)?.raw, error?.raw);
    assert.equal(replayed(second), "true");
  });

  test("IDEM-010 a POST /chat that failed releases its key, and the resend runs", async () => {
    mock.answer("failing-once", failure(400), { text: "Now." });
    const first = await send("/chat", "failed-json", { thread: "failed-json", model: "failing-once" });

    const second = await send("/chat", "failed-json", { thread: "failed-json", model: "failing-once" });

    assert.deepEqual([first.status, second.status, replayed(second)], [502, 200, undefined]);
    assert.equal(second.json.final.content, "Now.");
  });

  test("IDEM-010 a client that leaves before its request is complete has claimed no key", async () => {
    const body = JSON.stringify(bodyOf({ thread: "half-sent" }));
    const head = `POST /chat/stream HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer ${keys.ann}\r\nidempotency-key: half-sent\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n`;
    const { port } = new URL(server.url);
    await new Promise<void>((resolve) => {
      const socket = connect(Number(port), "127.0.0.1", () =>
        socket.write(head + body.slice(0, 20), () => socket.destroy()),
      );
      socket.on("close", () => resolve());
    });

    const answer = await send("/chat/stream", "half-sent", { thread: "half-sent" });

    assert.deepEqual([answer.status, replayed(answer), await userMessages("half-sent")], [200, undefined, 1]);
  });

  test("IDEM-008 a run continues after its client disconnects, and a resend gets all frames", async () => {
    const more = gate();
    mock.answer("held-left", says("So ", more.opened, "far."));
    const first = await server.stream("/chat/stream", bodyOf({ thread: "left", model: "held-left" }), {
      key: keys.ann,
      headers: { "idempotency-key": "left" },
    });
    await first.until("text_delta");
    first.close();

    const during = await send("/chat/stream", "left", { thread: "left", model: "held-left" });
    more.open();
    const after = await eventually("the end of the run", async () => {
      const answer = await send("/chat/stream", "left", { thread: "left", model: "held-left" });
      return answer.status === 200 ? answer : undefined;
    });

    assert.deepEqual(code(during), [409, "idempotency_in_progress"]);
    const frames = framesIn(after);
    assert.deepEqual([replayed(after), eventSeqs(frames)], ["true", [0, 1]]);
    assert.equal(frames[1]?.json.data.content, "So far.");
    assert.equal(asked("held-left"), 1);
  });

  test("IDEM-008 nothing is replayed from a deleted thread", async () => {
    await send("/chat/stream", "deleted", { thread: "deleted" });
    await server.request("DELETE", "/chat/history/deleted", { key: keys.ann });

    const { status, text } = await send("/chat/stream", "deleted", { thread: "deleted" });

    assert.deepEqual([status, text], [200, "data: [DONE]\n\n"]);
  });

  test("IDEM-008 IDEM-012 keys are remembered across a restart", async () => {
    const json = await send("/chat", "restart", { thread: "restart-json" });
    await send("/chat/stream", "restart", { thread: "restart-stream", model: "tools" });
    const before = await send("/chat/stream", "restart", { thread: "restart-stream", model: "tools" });

    await server.restart();
    const again = await send("/chat", "restart", { thread: "restart-json" });
    const stream = await send("/chat/stream", "restart", { thread: "restart-stream", model: "tools" });
    const changed = await send("/chat", "restart", { thread: "restart-json", text: "else" });

    assert.deepEqual([again.text, replayed(again)], [json.text, "true"]);
    assert.deepEqual([stream.text, replayed(stream)], [before.text, "true"]);
    assert.deepEqual(code(changed), [422, "idempotency_key_reused"]);
  });
});

describe("Idempotency-Key with a short lifetime and clients that end their runs", () => {
  const atEnd = cleanup();
  let server: TestServer;
  let mock: MockModel;
  before(async () => {
    const env = { SVC_IDEMPOTENCY_TTL_SECONDS: "1", SVC_DETACHED_RUN_SECONDS: "0" };
    const manifests = { agent: {}, lasting: { execution: { mode: "durable" } } };
    ({ server, mock } = await startChat(atEnd, { models, manifests, env }));
    mock.answer("plain", { text: "The answer." });
    mock.answer("held", says(never));
  });

  test("IDEM-003 a key expires after SVC_IDEMPOTENCY_TTL_SECONDS, and the request runs again", async () => {
    for (const route of routes) {
      const thread_id = `ttl${slug(route)}`;
      const send = () =>
        server.post(route, turn("agent", "go", { thread_id }), { headers: { "idempotency-key": "ttl" } });
      await send();

      const anew = await eventually("a run anew", async () => {
        const answer = await send();
        assert.equal(answer.status, 200);
        return answer.headers["idempotent-replayed"] === undefined ? answer : undefined;
      });

      const { json } = await server.get(`/chat/history/${thread_id}`);
      assert.deepEqual([anew.status, json.messages.length], [200, 4]);
    }
  });

  test("IDEM-003 IDEM-011 the key of a durable run expires that long after the end of the run", async () => {
    const send = async () => {
      const headers = { "idempotency-key": "lasting" };
      return (await server.post("/chat", turn("lasting", "go"), { headers })).json.resume_token;
    };
    const first = await send();

    const anew = await eventually("a run anew", async () => {
      const token = await send();
      return token !== first ? token : undefined;
    });

    assert.match(anew, /^[0-9a-f]{32}$/);
  });

  test("IDEM-008 a client that leaves mid-turn keeps the key; the resend has its message only", async () => {
    const headers = { "idempotency-key": "gone" };
    const body = turn("agent", "go", { thread_id: "gone", model: "held" });
    const first = await server.stream("/chat/stream", body, { headers });
    await first.until("session_progress");
    first.close();

    const again = await eventually("the end of the run", async () => {
      const answer = await server.post("/chat/stream", body, { headers });
      return answer.status === 200 ? answer : undefined;
    });

    assert.equal(again.headers["idempotent-replayed"], "true");
    const frames = new FrameReader().push(again.text);
    assert.deepEqual(outline(frames), ["session_event", "[DONE]"]);
    assert.equal(frames[0]?.json.data.content, "go");
  });
});

describe("Idempotency-Key of callers with a token", () => {
  const atEnd = cleanup();

  test("IDEM-004 IDEM-003 one subject at two issuers is two principals, each with keys of its own", async () => {
    const { publicKey, privateKey } = await generateKeyPair("ES256");
    const jwk = { ...(await exportJWK(publicKey)), kid: "one", alg: "ES256", use: "sig" };
    const { server, mock } = await startChat(atEnd, {
      models,
      env: { SVC_AUTH_MODE: "jwt", SVC_JWKS_PUBLIC: JSON.stringify({ keys: [jwk] }) },
    });
    mock.answer("plain", { text: "The answer." });
    const tokenOf = (issuer: string) =>
      new SignJWT({ tenant: "acme", scope: "chat:write" })
        .setProtectedHeader({ alg: "ES256", kid: "one" })
        .setSubject("ann")
        .setIssuer(issuer)
        .setExpirationTime("1h")
        .sign(privateKey);
    const tokens = [await tokenOf("https://one.example"), await tokenOf("https://two.example")];

    for (const route of routes) {
      for (const expected of [undefined, "true"]) {
        for (const key of tokens) {
          const headers = { "idempotency-key": "token" };
          const thread_id = `token${slug(route)}`;
          const { status, headers: got } = await server.post(route, turn("agent", "go", { thread_id }), {
            key,
            headers,
          });

          assert.deepEqual([status, got["idempotent-replayed"]], [200, expected]);
        }
      }
    }
  });
});
