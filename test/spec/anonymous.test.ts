// Callers without credentials (decision 78: a setting gives them one tenant and few scopes): what they reach and under
// which subject.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { databaseOf, skipPostgres } from "../faults/support.ts";
import { calls, framesUntil, inTurn, says, shown, startChatProcess, turn } from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
import type { RequestOptions } from "../support/http-client.ts";
import type { MockModel } from "../support/mock-model.ts";
import { apiKeys, type ProcessServer, startServerProcess } from "../support/server.ts";
import type { Frame } from "../support/sse-frames.ts";
import { gateDialects } from "../support/stores.ts";
import { cleanup, tempDir } from "../support/temp.ts";

const { env, keys } = apiKeys({
  public: { tenant_id: "public", scopes: ["*"] },
  acme: { tenant_id: "acme", scopes: ["*"] },
});
const unauthorized = [401, '{"error":"unauthorized","reason":"missing_credentials"}'];
const open = { auth: { inbound: { allow_anonymous: true } } };
const manifests = {
  open,
  planner: { ...open, model: { id: "planning" }, pattern: "deep" },
  asking: {
    ...open,
    ...{ model: { id: "asking" }, tools: ["ask_user", "calculator"], client_tools: [{ name: "click" }] },
    approvals: [{ id: "sums", tools: ["calculator"] }],
    delegation: { agents: [{ name: "asked" }] },
  },
  asked: { ...open, model: { id: "asked" }, tools: ["ask_user"], client_tools: [{ name: "click" }] },
  closed: {},
  scoped: { auth: { inbound: { allow_anonymous: true, required_scopes: ["chat:write"] } } },
  keyed: { auth: { inbound: { allow_anonymous: true, schemes: ["api_key"] } } },
  named: { auth: { inbound: { allow_anonymous: true, schemes: ["anonymous", "api_key"] } } },
};
type Wanted = readonly [tool: string, args: object];
const models = ["test-model", "planning", "asking", "asked"];
const idOf = (digit: string): string => `anon-${digit.repeat(32)}`;

for (const dialect of gateDialects)
  describe(`callers without credentials, on ${dialect}`, { skip: dialect === "postgres" && skipPostgres }, () => {
    const atEnd = cleanup();
    let server: ProcessServer;
    let mock: MockModel;
    before(async () => {
      const database = await databaseOf(dialect, atEnd);
      const strict = { ...env, ...database.env, SVC_ANONYMOUS_TENANT: "public", SVC_CHAT_SCOPES: "strict" };
      ({ server, mock } = await startChatProcess(atEnd, { models, manifests, env: strict }));
      mock.answer("test-model", () => says("hello"));
    });

    const ask = (manifest: string, fields: object = {}, options: Omit<RequestOptions, "body"> = {}) =>
      server.post("/chat", turn(manifest, "hi", fields), options);
    const askOpenAi = (model: string, fields: object = {}, options: Omit<RequestOptions, "body"> = {}) =>
      server.post("/v1/chat/completions", { model, messages: [{ role: "user", content: "hi" }], ...fields }, options);

    test("AUTH-033 AUTH-008 they reach manifests that allow them as anonymous of the tenant, on every route", async () => {
      const thread_id = idOf("a");

      const chat = await ask("open", { thread_id });
      const stream = await server.stream("/chat/stream", turn("open", "again", { thread_id }));
      const frames = await stream.rest();
      const openAi = await askOpenAi("open", { user: thread_id });
      const stateless = await ask("open");

      assert.equal(chat.status, 200, chat.text);
      assert.equal(chat.json.thread_id, `public:${thread_id}`);
      assert.equal(frames.at(-1)?.name, "[DONE]");
      assert.deepEqual([openAi.status, stateless.status], [200, 200]);
      const { json } = await server.get(`/chat/sessions/${thread_id}`, { key: keys.public });
      assert.equal(json.transcript.filter(({ role }: { role: string | null }) => role === "user").length, 3);
    });

    test("AUTH-033 AUTH-008 manifests that forbid them are 401, and so are unknown names", async () => {
      for (const manifest of ["closed", "no-such-manifest"]) {
        const chat = await ask(manifest);
        const openAi = await askOpenAi(manifest);

        assert.deepEqual([chat.status, chat.text], unauthorized, manifest);
        assert.deepEqual([openAi.status, openAi.text], unauthorized, manifest);
      }
      assert.equal((await ask("no-such-manifest", {}, { key: keys.public })).status, 404);
    });

    test("AUTH-033 schemes and scopes that a manifest asks for apply to them too", async () => {
      const statuses = [];
      for (const manifest of ["scoped", "keyed", "named"]) statuses.push((await ask(manifest)).status);

      assert.deepEqual(statuses, [403, 403, 200]);
    });

    test("AUTH-033 invalid credentials are 401 and not anonymous", async () => {
      for (const headers of [
        { authorization: "Bearer key-of-nobody-0001" },
        { "x-api-key": "key-of-nobody-0001" },
        { authorization: "Basic dXNlcjpwYXNz" },
        { authorization: "Bearer two words" },
        { authorization: `Bearer ${keys.public}`, "x-api-key": "another-key-0000001" },
      ]) {
        const { status, json } = await ask("open", {}, { headers });

        assert.deepEqual([status, json.error, json.reason], [401, "unauthorized", "invalid_api_key"]);
      }
    });

    test("AUTH-033 threads of anonymous callers have unguessable names", async () => {
      const bad = [
        "t1",
        "anon-",
        idOf("a").slice(0, -1),
        `${idOf("a")}a`,
        idOf("g"),
        `x${idOf("a")}`,
        `${idOf("a")}\n`,
      ];
      for (const thread_id of bad) {
        const chat = await ask("open", { thread_id });
        const stream = await server.post("/chat/stream", turn("open", "hi", { thread_id }));
        const openAi = await askOpenAi("open", { user: thread_id });

        assert.deepEqual([chat.status, chat.json.error], [400, "invalid_thread_id"], thread_id);
        assert.deepEqual([stream.status, stream.json.error], [400, "invalid_thread_id"], thread_id);
        assert.deepEqual([openAi.status, openAi.json.error.code], [400, "invalid_user"], thread_id);
      }
      assert.equal((await ask("open", { thread_id: "t1" }, { key: keys.public })).status, 200);
    });

    test("AUTH-033 their Idempotency-Key is 400 on every route", async () => {
      const headers = { "idempotency-key": "once" };

      const chat = await ask("open", {}, { headers });
      const stream = await server.post("/chat/stream", turn("open", "hi", { thread_id: idOf("b") }), { headers });
      const openAi = await askOpenAi("open", {}, { headers });

      for (const { status, text } of [chat, stream, openAi]) {
        assert.equal(status, 400);
        assert.match(text, /invalid_idempotency_key/);
      }
      assert.equal((await ask("open", {}, { headers, key: keys.public })).status, 200);
    });

    test("AUTH-033 they reach no session, stream, abort, continuation, manifest, record or document", async () => {
      const thread_id = idOf("c");
      assert.equal((await ask("open", { thread_id })).status, 200);
      const tried: readonly (readonly [method: string, path: string, body?: object])[] = [
        ["GET", `/chat/sessions/${thread_id}`],
        ["GET", "/chat/sessions"],
        ["GET", "/chat/sessions/search?q=hello"],
        ["DELETE", `/chat/sessions/${thread_id}`],
        ["GET", `/chat/history/${thread_id}`],
        ["GET", `/chat/stream/${thread_id}`],
        ["POST", "/chat/abort", { thread_id }],
        ["POST", "/chat/continue", { thread_id, manifest: "open" }],
        ["GET", "/manifests"],
        ["GET", "/manifests/open"],
        ["PUT", "/manifests/open", { manifest: {} }],
        ["GET", "/audit"],
        ["GET", "/usage/summary"],
        ["GET", "/metrics"],
        ["GET", "/docs"],
        ["GET", "/openapi.json"],
        ["GET", "/chat"],
        ["POST", "/v1/models"],
        ["GET", "/no-such-path"],
      ];

      for (const [method, path, body] of tried) {
        const { status, text } = await server.request(method, path, body === undefined ? {} : { body });

        assert.deepEqual([status, text], unauthorized, `${method} ${path}`);
      }
      assert.equal((await server.get(`/chat/sessions/${thread_id}`, { key: keys.public })).status, 200);
    });

    test("AUTH-033 a thread name of one tenant is another thread for other tenants and anonymous", async () => {
      const thread_id = idOf("d");
      await server.post("/chat", turn("open", "a secret of acme", { thread_id }), { key: keys.acme });

      const chat = await ask("open", { thread_id });

      assert.equal(chat.status, 200);
      assert.deepEqual(
        shown(mock.requests.at(-1)).map(({ content }) => content),
        ["hi"],
      );
      assert.ok(!chat.text.includes("a secret of acme"));
    });

    test("AUTH-033 they reach plans of their own conversation only, and none that people made", async () => {
      const steps = [{ title: "Look" }];
      const owner = { key: keys.public };
      const plan = async (id: string) => (await server.get(`/plans/${id}`, owner)).json.plan;
      const results = async (wanted: readonly (readonly Wanted[])[], fields: object = {}, options = {}) => {
        mock.answer("planning", inTurn(...wanted.map((some) => calls(...some)), { text: "Done." }));
        const answer = await server.post("/chat", turn("planner", "go", fields), options);
        assert.equal(answer.status, 200, answer.text);
        return shown(mock.requests.at(-1)).flatMap(({ role, content }) => (role === "tool" ? [content] : []));
      };
      await server.request("PUT", "/plans/launch", { ...owner, body: { plan: { title: "Secret", steps } } });
      await results([[["plan_create", { plan_id: "of-a-turn", title: "Secret", steps }]]]);
      const reach = (id: string): Wanted[] => [
        ["plan_get", { plan_id: id }],
        ["plan_update_step", { plan_id: id, step_id: "s1" }],
        ["plan_create", { plan_id: id, title: "Mine", steps }],
      ];

      const refused = [];
      for (const fields of [{}, { thread_id: idOf("f") }])
        refused.push(...(await results([[...reach("launch"), ...reach("of-a-turn")]], fields)));
      const own = await results([
        [["plan_create", { plan_id: "own", title: "First", steps }]],
        [["plan_create", { plan_id: "own", title: "Second", steps }]],
        [["plan_update_step", { plan_id: "own", step_id: "s1" }]],
        [["plan_get", { plan_id: "own" }]],
      ]);
      const threaded = await results(
        [[["plan_create", { plan_id: "threaded", steps }]], [["plan_get", { plan_id: "threaded" }]]],
        { thread_id: idOf("0") },
      );
      const owners = await results([[["plan_get", { plan_id: "launch" }]]], {}, owner);

      const told = [
        "not_found\\] there is no plan",
        "not_found\\] there is no plan",
        "invalid_arguments\\] .* is taken",
      ];
      assert.equal(refused.length, 12);
      for (const [at, text] of refused.entries()) assert.match(text, new RegExp(`^\\[tool error/${told[at % 3]}`));
      assert.deepEqual([(await plan("launch")).title, (await plan("of-a-turn")).title], ["Secret", "Secret"]);
      assert.equal(JSON.parse(own[3] ?? "{}").plan.title, "Second");
      assert.equal(JSON.parse(own[3] ?? "{}").plan.steps[0].status, "done");
      assert.equal(JSON.parse(threaded[1] ?? "{}").plan_id, "threaded");
      assert.equal(JSON.parse(owners[0] ?? "{}").plan.title, "Secret");
    });

    test("AUTH-033 TOOL-015 anonymous callers get no unanswerable questions; approvals wait for deciders", async () => {
      const nobodys = [
        '{"answered":false,"reason":"no_one_watching"}',
        "[tool error/transport_unavailable] client tool click unavailable: no client connected",
      ];
      const questions: Wanted[] = [
        ["ask_user", { question: "Which?" }],
        ["click", { input: "x" }],
      ];
      const outputs = (frames: readonly Frame[]) =>
        frames.flatMap(({ name, json }) => (name === "tool_end" ? [json.data.output] : []));
      mock.answer("asking", inTurn(calls(...questions), { text: "Done." }));

      const told = [];
      for (const fields of [{}, { thread_id: idOf("1") }])
        told.push(await (await server.stream("/chat/stream", turn("asking", "go", fields))).rest());
      const owners = await server.stream("/chat/stream", turn("asking", "go", { thread_id: "t2" }), {
        key: keys.public,
      });
      const asked = await framesUntil(owners, ({ name }) => name === "ui_request" || name === "tool_request");
      owners.close();
      mock.answer("asked", inTurn(calls(...questions), { text: "Done." }));
      mock.answer("asking", inTurn(calls(["task", { agent: "asked", prompt: "Ask." }]), { text: "Done." }));
      await (await server.stream("/chat/stream", turn("asking", "go", { thread_id: idOf("2") }))).rest();
      const ofTask = shown(mock.requests.findLast(({ body }) => body.model === "asked"));
      mock.answer("asking", inTurn(calls(["calculator", { expression: "6*7" }]), { text: "Done." }));
      const gated = await server.stream("/chat/stream", turn("asking", "go", { thread_id: idOf("3") }));
      const { approval_id } = (await gated.until("approval_required")).json.data;
      const decided = await server.post(
        `/approvals/${approval_id}/decide`,
        { decision: "approved" },
        { key: keys.public },
      );
      const approved = await gated.rest();

      for (const frames of told) {
        assert.deepEqual(outputs(frames), nobodys);
        assert.ok(frames.every(({ name }) => name !== "ui_request" && name !== "tool_request"));
      }
      assert.ok(asked.length > 0);
      assert.deepEqual(
        ofTask.flatMap(({ role, content }) => (role === "tool" ? [content] : [])),
        nobodys,
      );
      assert.equal(decided.status, 200, decided.text);
      assert.deepEqual(outputs(approved), ["42"]);
    });

    test("AUTH-033 a manifest that another tenant has stored does not exist for them", async () => {
      const stored = { metadata: { name: "shop" }, spec: open };
      const put = await server.request("PUT", "/manifests/shop", { body: { manifest: stored }, key: keys.acme });
      assert.ok(put.status < 300, put.text);

      const before = await ask("shop");
      await server.request("PUT", "/manifests/shop", { body: { manifest: stored }, key: keys.public });
      const after = await ask("shop");

      assert.deepEqual([before.status, before.text], unauthorized);
      assert.equal(after.status, 200, after.text);
    });

    test("AUTH-033 /v1/models lists the manifests that allow them", async () => {
      const theirs = await server.get("/v1/models");
      const all = await server.get("/v1/models", { key: keys.public });

      const ids = (answer: typeof theirs) => answer.json.data.map(({ id }: { id: string }) => id);
      assert.equal(theirs.status, 200);
      assert.ok(ids(theirs).includes("open") && !ids(theirs).includes("closed"));
      assert.ok(ids(all).includes("closed"));
      assert.ok(!theirs.text.includes("allowAnonymous"));
    });

    test("AUTH-033 audit and usage record them as anonymous", async () => {
      await ask("open", { thread_id: idOf("e") });
      await server.restart();

      const { json } = await server.get("/audit?limit=100", { key: keys.public });

      assert.ok(JSON.stringify(json).includes("anonymous"), JSON.stringify(json).slice(0, 400));
      const continued = await ask("open", { thread_id: idOf("e") });
      assert.equal(continued.json.messages.filter(({ role }: { role: string }) => role === "user").length, 2);
    });
  });

describe("anonymous callers and the rate limit", () => {
  const atEnd = cleanup();
  const limit = {
    SVC_RATE_LIMIT: "5",
    SVC_RATE_LIMIT_WINDOW_SECONDS: "86400",
    SVC_TRUSTED_CLIENT_IP_HEADER: "x-client",
  };

  test("LIM-002 count first by their address, and then together by the tenant", async () => {
    const { server } = await startChatProcess(atEnd, {
      models,
      manifests,
      env: { ...env, ...limit, SVC_ANONYMOUS_TENANT: "public" },
    });
    const from = async (address: string, path = "/v1/models") =>
      (await server.get(path, { headers: { "x-client": address } })).status;

    const first = [];
    for (let request = 0; request < 4; request++) first.push(await from("2001:db8::1"));
    // A forbidden request counts against the rate limit of the address only.
    first.push(await from("2001:db8::2", "/audit"), await from("2001:db8::3"));
    const second = [await from("192.0.2.2"), await from("192.0.2.2"), await from("192.0.2.3", "/audit")];
    const owner = await server.get("/v1/models", { key: keys.public });

    assert.deepEqual(first, [200, 200, 200, 200, 401, 429]);
    assert.deepEqual(second, [200, 429, 401]);
    assert.equal(owner.status, 429);
    assert.equal((await server.get("/v1/models", { key: keys.acme })).status, 200);
  });
});

describe("a server without SVC_ANONYMOUS_TENANT", () => {
  const atEnd = cleanup();

  test("AUTH-033 refuses them whatever the manifest says, and warns of manifests that allow them", async () => {
    const { server } = await startChatProcess(atEnd, { models: ["test-model"], manifests: { open, closed: {} }, env });
    await server.request("PUT", "/manifests/shop", {
      body: { manifest: { metadata: { name: "shop" }, spec: open } },
      key: keys.acme,
    });

    const chat = await server.post("/chat", turn("open", "hi"));
    await server.restart();
    const warning = await eventually("a warning", async () =>
      server.logs.find(({ msg }) => msg.includes("SVC_ANONYMOUS_TENANT")),
    );

    assert.deepEqual([chat.status, chat.text], unauthorized);
    assert.equal(
      warning?.msg,
      "SVC_ANONYMOUS_TENANT is not set, so callers without credentials cannot use the manifests that set allow_anonymous: open, shop of acme.",
    );
  });

  test("AUTH-033 does not warn where no manifest allows them", async () => {
    const { server } = await startChatProcess(atEnd, { models: ["test-model"], manifests: { closed: {} }, env });
    await server.stop();

    assert.ok(!server.output.includes("SVC_ANONYMOUS_TENANT"));
  });

  test("an invalid SVC_ANONYMOUS_TENANT stops the server from starting", async () => {
    for (const [set, words] of [
      [{ ...env, SVC_ANONYMOUS_TENANT: "a:b" }, /SVC_ANONYMOUS_TENANT a tenant id has/],
      [{ SVC_AUTH_MODE: "none", SVC_ANONYMOUS_TENANT: "public" }, /SVC_ANONYMOUS_TENANT needs api_key or jwt/],
      [
        { ...env, SVC_ANONYMOUS_TENANT: "other", SVC_ALLOWED_TENANTS: "public,acme" },
        /SVC_ANONYMOUS_TENANT names a tenant that is not in SVC_ALLOWED_TENANTS/,
      ],
    ] as const) {
      const server = await startServerProcess({ atEnd, env: set, dataDir: tempDir(atEnd), waitForReady: false });
      server.ready.catch(() => {});

      const { code } = await server.exited;

      assert.equal(code, 1);
      assert.match(server.output, words);
    }
  });
});
