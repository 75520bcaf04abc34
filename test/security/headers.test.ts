// Threat 8: headers of a client change neither its identity nor the route of its request.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { startChatProcess, turn } from "../support/chat.ts";
import type { Answer, RequestOptions } from "../support/http-client.ts";
import { type RawAnswer, RawConnection, rawRequest } from "../support/raw-http.ts";
import { apiKeys, httpEngine, type ProcessServer } from "../support/server.ts";
import { cleanup } from "../support/temp.ts";
import { assertUnharmed } from "./support.ts";

const { env, keys } = apiKeys({
  reader: { tenant_id: "acme", scopes: ["audit:read"] },
  admin: { tenant_id: "globex", scopes: ["admin"] },
});

/** Headers by which some proxies and services convey the caller, its address or the target. */
const trusting: Readonly<Record<string, string>> = {
  "x-forwarded-for": "127.0.0.1",
  "x-forwarded-host": "localhost",
  "x-forwarded-proto": "https",
  "x-forwarded-port": "443",
  "x-forwarded-prefix": "/chat",
  "x-forwarded-user": "root",
  "x-forwarded-email": "root@globex.example",
  "x-forwarded-client-cert": "By=spiffe://globex;Subject=admin",
  "x-real-ip": "127.0.0.1",
  "x-client-ip": "127.0.0.1",
  "true-client-ip": "127.0.0.1",
  "cf-connecting-ip": "127.0.0.1",
  forwarded: 'for=127.0.0.1;host=localhost;proto=https;by="_globex"',
  "x-tenant": "globex",
  "x-tenant-id": "globex",
  "x-svc-tenant": "globex",
  "x-svc-tenant-id": "globex",
  "x-svc-principal": '{"tenant_id":"globex","sub":"admin","scopes":["*"]}',
  "x-svc-sub": "admin",
  "x-svc-scopes": "admin",
  "x-svc-internal": "true",
  "x-svc-role": "worker",
  "x-svc-consumer-secret": "",
  "x-svc-auth-mode": "none",
  "x-scopes": "*",
  "x-role": "admin",
  "x-user": "admin",
  "x-user-id": "admin",
  "x-remote-user": "admin",
  "remote-user": "admin",
  "x-authenticated-user": "admin",
  "x-authenticated-scope": "admin",
  "x-consumer-custom-id": "globex",
  "x-webauth-user": "admin",
  "x-ms-client-principal": "eyJ0ZW5hbnQiOiJnbG9iZXgifQ==",
  "x-original-url": "/health",
  "x-original-uri": "/health",
  "x-original-method": "GET",
  "x-rewrite-url": "/health",
  "x-override-url": "/health",
  "x-http-method-override": "DELETE",
  "x-http-method": "DELETE",
  "x-method-override": "DELETE",
  "x-manifest": "admin",
  "x-debug": "1",
  cookie: "session=admin; tenant=globex; Authorization=Bearer%20key-of-admin-0123456789",
  "proxy-authorization": `Bearer ${keys.admin}`,
  "www-authenticate": `Bearer ${keys.admin}`,
  "x-authorization": `Bearer ${keys.admin}`,
  "x-auth-token": keys.admin,
  "x-access-token": keys.admin,
  "api-key": keys.admin,
  "x-apikey": keys.admin,
  "openai-organization": "globex",
  "openai-project": "globex",
  via: "1.1 localhost",
  "x-envoy-internal": "true",
  "x-forwarded-authorization": `Bearer ${keys.admin}`,
};

/** Values of credential headers that are not credentials. */
const noCredentials: readonly string[] = [
  "",
  " ",
  "null",
  "undefined",
  "[]",
  "{}",
  "Bearer",
  "Bearer ",
  "Bearer null",
  "Bearer undefined",
  "Bearer []",
  'Bearer [""]',
  `Bearer ["${keys.admin}"]`,
  `Bearer ${keys.admin}, Bearer ${keys.admin}`,
  `Bearer ${keys.admin},`,
  `Bearer "${keys.admin}"`,
  `Bearer ${keys.admin} ${keys.admin}`,
  `Bearer ${keys.admin.toUpperCase()}`,
  `Bearer ${keys.admin.slice(0, -1)}`,
  `Bearer ${keys.admin}x`,
  `Bearer Bearer ${keys.admin}`,
  `Basic ${Buffer.from(`${keys.admin}:`).toString("base64")}`,
  `Token ${keys.admin}`,
  keys.admin,
  `Bearer:${keys.admin}`,
  `Bearer=${keys.admin}`,
  "Bearer *",
  "Bearer %00",
  "Bearer true",
  "Bearer __proto__",
  "Bearer constructor",
  "Bearer toString",
];

/** Bytes that are not whitespace, although some parsers treat them so. */
const strangers: Readonly<Record<string, string>> = {
  "é in UTF-8": "\u00c3\u00a9",
  "é in Latin-1": "\u00e9",
  "a no-break space in UTF-8": "\u00c2\u00a0",
  "a no-break space in Latin-1": "\u00a0",
  "a byte order mark": "\u00ef\u00bb\u00bf",
  "an em space": "\u00e2\u0080\u0083",
  "the end of a line as Unicode has it": "\u00e2\u0080\u00a8",
};

describe("threat 8: headers", () => {
  const atEnd = cleanup();
  let server: ProcessServer;
  before(async () => {
    ({ server } = await startChatProcess(atEnd, { models: ["mock-echo"], env }));
  });

  /** The parts of an answer that are equal for equal requests. */
  function told({ status, headers, text }: Answer) {
    const { "x-request-id": _id, date: _date, ...rest } = headers;
    return { status, headers: rest, text };
  }

  /** The answers to a fixed list of requests with additional headers. */
  async function answers(headers: Readonly<Record<string, string>>): Promise<unknown[]> {
    const requests: readonly [string, string, RequestOptions][] = [
      ["GET", "/audit?event_type=nothing", {}],
      ["GET", "/audit?event_type=nothing", { key: keys.reader }],
      ["GET", "/usage", { key: keys.reader }],
      ["GET", "/chat/history/t", { key: keys.reader }],
      ["POST", "/chat/abort", { key: keys.reader, body: { thread_id: "t" } }],
      ["PUT", "/manifests/x", { key: keys.reader, body: { manifest: {} } }],
      ["GET", "/no/such/path", { key: keys.reader }],
      ["POST", "/chat", {}],
    ];
    const all: unknown[] = [];
    for (const [method, path, options] of requests)
      all.push(told(await server.request(method, path, { ...options, headers })));
    return all;
  }

  test("no header changes the caller, its address or the target", async () => {
    const plain = await answers({});

    for (const [name, value] of Object.entries(trusting))
      assert.deepEqual(await answers({ [name]: value }), plain, name);
    assert.deepEqual(await answers(trusting), plain);
    assert.deepEqual(
      plain.map((answer) => (answer as { status: number }).status),
      [401, 200, 403, 200, 200, 403, 404, 401],
    );
  });

  test("no such header reaches the model, the thread's log or the audit", async () => {
    const { status, text, json } = await server.post("/chat", turn("agent", "who am I?", { thread_id: "told" }), {
      key: keys.reader,
      headers: trusting,
    });
    const session = await server.get("/chat/sessions/told", { key: keys.reader });

    assert.equal(status, 200);
    assert.equal(json.thread_id, "acme:told");
    for (const seen of [text, session.text]) assert.ok(!/globex|root|_globex|worker/.test(seen), seen);
  });

  for (const header of ["authorization", "x-api-key"]) {
    test(`${header} twice is refused, even if one of the two is valid`, async () => {
      const good = header === "authorization" ? `Bearer ${keys.reader}` : keys.reader;
      const other = header === "authorization" ? `Bearer ${keys.admin}` : keys.admin;
      for (const pair of [
        [good, other],
        [other, good],
        [good, good],
        [good, "none"],
        ["none", good],
        [good, ""],
        ["", good],
      ]) {
        const connection = new RawConnection(server.url);
        await connection.send(
          rawRequest("GET", "/audit", [...pair.map((value) => `${header}: ${value}`), "connection: close"]),
        );
        const answer = await connection.answer();
        connection.close();

        assert.equal(answer?.status, 400, pair.join(" | "));
        assert.equal(answer?.body, `{"error":"invalid_header","detail":"${header} is there more than once"}`);
      }
    });
  }

  test("two headers with two callers are not a credential", async () => {
    for (const headers of [
      { authorization: `Bearer ${keys.reader}`, "x-api-key": keys.admin },
      { authorization: `Bearer ${keys.admin}`, "x-api-key": keys.reader },
      { authorization: `ApiKey ${keys.reader}`, "x-api-key": "key-of-nobody-0123456789" },
    ]) {
      const { status, json } = await server.get("/audit", { headers });

      assert.deepEqual([status, json], [401, { error: "unauthorized", reason: "invalid_api_key" }]);
    }
    const alike = await server.get("/audit", {
      headers: { authorization: `Bearer ${keys.reader}`, "x-api-key": keys.reader },
    });
    assert.equal(alike.status, 200);
  });

  for (const value of noCredentials) {
    test(`Authorization: ${JSON.stringify(value)} authenticates no caller`, async () => {
      const connection = new RawConnection(server.url);
      await connection.send(rawRequest("GET", "/audit", [`authorization: ${value}`, "connection: close"]));
      const answer = await connection.answer();
      connection.close();

      assert.equal(answer?.status, 401);
      assert.match(
        answer?.body ?? "",
        /^\{"error":"unauthorized","reason":"(missing_credentials|invalid_api_key)"[,}]/,
      );
    });
  }

  test("credentials in the query, the path or the body authenticate no caller", async () => {
    for (const path of [
      `/audit?api_key=${keys.admin}`,
      `/audit?access_token=${keys.admin}`,
      `/audit?authorization=Bearer%20${keys.admin}`,
      `/audit?key=${keys.admin}&tenant_id=globex`,
    ])
      assert.equal((await server.get(path)).status, 401, path);
    const body = { ...turn("agent", "hi"), api_key: keys.admin, tenant_id: "globex", principal: { scopes: ["*"] } };
    assert.equal((await server.post("/chat", body)).status, 401);
    assert.equal((await server.post("/chat", body, { key: keys.reader })).status, 422);
  });

  test("AUTH-001 a tenant, a subject or scopes in a request have no effect", async () => {
    for (const field of [
      "tenant_id",
      "tenant",
      "principal",
      "sub",
      "scopes",
      "run_id",
      "surface",
      "request_id",
      "channel",
    ]) {
      const body = { ...turn("agent", "hi"), [field]: "globex" };
      const refused = await server.post("/chat", body, { key: keys.reader });
      // On this entry point unknown fields have no effect (decision 31: clients of OpenAI send fields that svc does not
      // know).
      const openAi = { model: "agent", messages: [{ role: "user", content: "hi" }], user: "field", [field]: "globex" };
      const ignored = await server.post("/v1/chat/completions", openAi, { key: keys.reader });

      assert.deepEqual([refused.status, refused.json.detail[0].loc], [422, ["body", field]]);
      assert.equal(ignored.status, 200, ignored.text);
    }
    const theirs = await server.get("/chat/sessions", { key: keys.admin });
    const own = await server.get("/chat/sessions", { key: keys.reader });
    assert.deepEqual(theirs.json.items, []);
    assert.ok(own.json.items.some(({ id }: { id: string }) => id === "acme:field"));
    for (const parameter of ["tenant_id=globex", "tenant=globex", "principal_subj=admin", "scope=admin"]) {
      const { json } = await server.get(`/chat/sessions?${parameter}`, { key: keys.reader });
      assert.deepEqual(json, own.json);
    }
  });

  for (const host of [
    "localhost:80:80",
    "localhost/",
    "localhost#",
    "localhost?x",
    "local host",
    "localhost,evil",
    "localhost\t",
    "@localhost",
    "localhost%00",
    "",
  ]) {
    test(`the host ${JSON.stringify(host)} is refused`, async () => {
      const connection = new RawConnection(server.url);
      await connection.send(`GET /health HTTP/1.1\r\nhost: ${host}\r\nconnection: close\r\n\r\n`);
      const answer = await connection.answer();
      connection.close();

      if (host === "localhost\t") assert.equal(answer?.status, 200);
      else assert.ok(answer?.status === 403 || answer?.status === 400, answer?.head);
    });
  }

  /** Sends a head with these lines, one byte for each Latin-1 character. Returns the answer. */
  async function askBytes(lines: readonly string[], body = ""): Promise<RawAnswer> {
    const connection = new RawConnection(server.url);
    const length = body === "" ? [] : [`content-length: ${body.length}`];
    await connection.send(
      Buffer.from(`${[...lines, ...length, "connection: close"].join("\r\n")}\r\n\r\n${body}`, "latin1"),
    );
    const answer = await connection.answer();
    connection.close();
    assert.ok(answer, `${lines.join(" | ")} was not answered`);
    return answer;
  }

  for (const [what, bytes] of Object.entries(strangers)) {
    test(`a header name with ${what} inside differs from the name without`, async () => {
      const audit = ["GET /audit HTTP/1.1", "host: localhost"];
      const chat = ["POST /chat HTTP/1.1", "host: localhost", `authorization: Bearer ${keys.reader}`];
      const cut = `${keys.reader.slice(0, 5)}${bytes}${keys.reader.slice(5)}`;
      const body = JSON.stringify(turn("agent", "hi", { thread_id: "ordered" }));

      const credentials = [
        await askBytes([...audit, `x-api-key: ${cut}`]),
        await askBytes([...audit, `authorization: Bearer ${cut}`]),
        await askBytes([...audit, `authorization: Bearer ${bytes}${keys.reader}`]),
        await askBytes([...audit, `authorization: Bearer${bytes} ${keys.reader}`]),
      ];
      const order = await askBytes(
        [...chat, "content-type: application/json", `idempotency-key: order${bytes}-1`],
        body,
      );
      const types = [
        await askBytes([...chat, `content-type: application/json${bytes};charset=utf-8`], body),
        await askBytes([...chat, `content-type: application/json;${bytes}charset=utf-16`], body),
        await askBytes([...chat, `content-type: application/json; charset=utf-8${bytes};x=y`], body),
      ];
      const host = await askBytes(["GET /health HTTP/1.1", `host: local${bytes}host`]);
      const coding = await askBytes(["GET /health HTTP/1.1", "host: localhost", `transfer-encoding: chun${bytes}ked`]);

      for (const { status } of credentials) assert.equal(status, 401);
      assert.equal(order.status, 400);
      assert.match(order.body, /^\{"error":"invalid_idempotency_key"/);
      assert.deepEqual(
        types.map(({ status }) => status),
        [415, 200, 400],
      );
      assert.deepEqual([host.status, coding.status], [403, 400]);
    });
  }

  test("the Kelvin sign is not k, and the long s is not s", async () => {
    const kelvin = Buffer.from("\u212a").toString("latin1");
    const longS = Buffer.from("\u017f").toString("latin1");

    const coding = await askBytes(["GET /health HTTP/1.1", "host: localhost", `transfer-encoding: chun${kelvin}ed`]);
    const host = await askBytes(["GET /health HTTP/1.1", `host: localho${longS}t`]);
    const scheme = await askBytes([
      "GET /audit HTTP/1.1",
      "host: localhost",
      `authorization: to${kelvin}en ${keys.reader}`,
    ]);

    assert.deepEqual([coding.status, host.status, scheme.status], [400, 403, 401]);
  });

  test("a DEL in a header that the server reads is refused", async () => {
    for (const line of [
      `x-api-key: ${keys.reader}\x7f`,
      "idempotency-key: a\x7fb",
      "x-request-id: a\x7fb",
      "accept: \x7f",
    ]) {
      const { status } = await askBytes(["GET /health HTTP/1.1", "host: localhost", line]);

      assert.equal(status, 400, line);
    }
  });

  // uWebSockets.js trims characters below 33, compared as a signed char on some processors (docs/operations.md).
  const takesThemForBlanks = httpEngine === "uws" && (process.arch !== "arm64" || process.platform === "darwin");
  test("non-ASCII bytes at a header's ends are kept where uWebSockets.js does so", async () => {
    const chat = ["POST /chat HTTP/1.1", "host: localhost", `authorization: Bearer ${keys.reader}`];
    const type = "content-type: application/json";
    const body = JSON.stringify(turn("agent", "hi", { thread_id: "trailing" }));
    for (const bytes of Object.values(strangers)) {
      for (const value of [`${bytes}${keys.reader}`, `${keys.reader}${bytes}`]) {
        const answer = await askBytes(["GET /audit HTTP/1.1", "host: localhost", `x-api-key: ${value}`]);

        assert.equal(answer.status, takesThemForBlanks ? 200 : 401);
      }
      const bearer = await askBytes([
        "GET /audit HTTP/1.1",
        "host: localhost",
        `authorization: Bearer ${keys.reader}${bytes}`,
      ]);
      const order = await askBytes([...chat, type, `idempotency-key: order-1${bytes}`], body);

      assert.equal(bearer.status, takesThemForBlanks ? 200 : 401);
      assert.equal(order.status, takesThemForBlanks ? 200 : 400);
      if (!takesThemForBlanks) assert.equal(JSON.parse(order.body).error, "invalid_idempotency_key");
    }
  });

  test("random header values leave the server unharmed", async () => {
    await assertUnharmed(server);
  });
});
