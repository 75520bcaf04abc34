// Refusals that a person reads: the missing name, similar names, and alternatives that this caller may see.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import OpenAI, { APIError } from "openai";
import { offered } from "../../bus/nearest.ts";
import { meantPath } from "../../http/meant-path.ts";
import { withBundled } from "../support/bundled-manifests.ts";
import { apiKeys, manifestEnv, startServer, type TestServer } from "../support/server.ts";
import { cleanup } from "../support/temp.ts";

const { env, keys } = apiKeys({
  ann: { scopes: ["*"] },
  reader: { scopes: ["chat:read"] },
  rival: { tenant_id: "rival", scopes: ["*"] },
});
const messages = [{ role: "user", content: "hi" }];

describe("messages of refusals", () => {
  const atEnd = cleanup();
  let server: TestServer;
  before(async () => {
    const models = {
      "small-model": { provider: "openai", model: "a" },
      "large-model": { provider: "openai", model: "b" },
      keyless: { provider: "xai", model: "c" },
      vectors: { provider: "openai", model: "d", kind: "embedding" },
    };
    server = await startServer({
      atEnd,
      env: {
        ...env,
        ...manifestEnv(atEnd, { clerk: {} }),
        SVC_ANONYMOUS_TENANT: "visitors",
        SVC_MODEL_ROUTES: JSON.stringify(models),
        SVC_MODEL_PROVIDER_OPTIONS: JSON.stringify({
          openai: { base_url: "http://127.0.0.1:1", api_key: "k".repeat(20) },
        }),
        SVC_DEFAULT_MODEL_ID: "small-model",
      },
    });
    for (const [key, name] of [
      [keys.ann, "own-helper"],
      [keys.rival, "secret-plans"],
    ] as const) {
      const stored = await server.request("PUT", `/manifests/${name}`, {
        key,
        body: { manifest: { metadata: { name } } },
      });
      assert.equal(stored.status, 200);
    }
  });

  const ask = (fields: object, key: string = keys.ann) =>
    server.post("/chat", { manifest: "clerk", messages, ...fields }, { key });

  test("an unknown path names the nearest one, with the client's parameters", async () => {
    const said: [path: string, message: string][] = [
      ["/chatt", "No route has this path. Did you mean /chat?"],
      ["/Chat/Sesions", "No route has this path. Did you mean /chat/sessions?"],
      ["/chat/histori/tour", "No route has this path. Did you mean /chat/history/{thread_id}?"],
      ["/chat/history", "No route has this path. There is /chat/history/{thread_id}."],
      ["/nothing/like/it", "No route has this path."],
      [`/${"x".repeat(3_000)}`, "No route has this path."],
    ];

    for (const [path, message] of said) {
      const { status, json } = await server.get(path, { key: keys.ann });

      assert.deepEqual([status, json], [404, { error: "not_found", detail: "not_found", message }], path);
    }
  });

  test("a caller without credentials learns no path", async () => {
    const guarded = await server.get("/chatt");
    const open = await server.get("/.well-known/jwks.jso");
    const other = await server.get("/.well-known/chat");

    assert.deepEqual([guarded.status, guarded.json], [401, { error: "unauthorized", reason: "missing_credentials" }]);
    assert.equal(open.json.message, "No route has this path.");
    assert.equal(other.json.message, "No route has this path.");
  });

  test("unknown paths and methods below /v1 are answered in OpenAI's form", async () => {
    const client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: keys.ann, maxRetries: 0 });
    const refused = async (asked: Promise<unknown>): Promise<APIError> => {
      const error = await asked.then(
        () => assert.fail("it was answered"),
        (error: unknown) => error,
      );
      assert.ok(error instanceof APIError);
      return error;
    };

    const unknown = await refused(client.completions.create({ model: "clerk", prompt: "hi" }));
    const near = await server.get("/v1/chat/completion", { key: keys.ann });
    const method = await refused(client.delete("/models"));
    const [bare, beside] = [await server.get("/v1", { key: keys.ann }), await server.get("/v1beta", { key: keys.ann })];

    assert.deepEqual(
      [unknown.status, unknown.code, unknown.type, unknown.param],
      [404, "not_found", "invalid_request_error", null],
    );
    assert.match(unknown.message, /^404 not_found: No route has this path\./);
    assert.match(near.json.error.message, /Did you mean \/v1\/chat\/completions\?$/);
    assert.deepEqual([method.status, method.code], [405, "method_not_allowed"]);
    assert.deepEqual([bare.json.error.code, beside.json.error], ["not_found", "not_found"]);
    assert.match(method.message, /it accepts GET, HEAD, OPTIONS\.$/);
    assert.equal(method.headers?.get("allow"), "GET, HEAD, OPTIONS");
  });

  test("an unsupported method is answered with the supported ones", async () => {
    const { status, json, headers } = await server.request("DELETE", "/chat/sessions", { key: keys.ann });

    const message = "This path does not accept DELETE; it accepts GET, HEAD, OPTIONS.";
    assert.deepEqual([status, json], [405, { error: "method_not_allowed", detail: "method_not_allowed", message }]);
    assert.equal(headers.allow, "GET, HEAD, OPTIONS");
  });

  test("a body of another type is refused with both types", async () => {
    const send = async (headers: Record<string, string>) => {
      const { status, json } = await server.post("/chat", "{}", { key: keys.ann, headers });
      assert.deepEqual([status, json.error, json.detail], [415, "unsupported_media_type", "unsupported_media_type"]);
      return json.message;
    };
    const json = "Send it with Content-Type: application/json.";

    assert.equal(await send({ "content-type": "text/plain" }), `The body has the Content-Type text/plain. ${json}`);
    assert.equal(await send({ "content-type": "" }), `The body has no Content-Type. ${json}`);
    assert.equal(
      await send({ "content-type": `x/${"y".repeat(500)}` }),
      `The body has the Content-Type x/${"y".repeat(62)}…. ${json}`,
    );
    assert.equal(
      await send({ "content-type": "application/json", "content-encoding": "gzip" }),
      "The body has the Content-Encoding gzip, which is not supported. Send it uncompressed, without that header.",
    );
  });

  test("bad JSON is refused with its position, and a missing field with an example", async () => {
    const said = async (body: string) => (await server.post("/chat", body, { key: keys.ann })).json;

    assert.match(
      (await said("{'manifest': 'clerk'}")).detail,
      /^the JSON of the body does not parse at line 1 column 2: /,
    );
    assert.match(
      (await said('{"manifest": "clerk",\n "messages": [],}')).detail,
      / does not parse at line 2 column 17: /,
    );
    assert.equal((await said('{"manifest": clerk}')).detail, "the JSON of the body does not parse: unexpected 'c'");
    assert.equal((await said('{"manifest": "clerk"')).detail.includes("clerk"), false);
    const empty = await said('{"manifest": "clerk"}');
    assert.deepEqual([empty.error, empty.detail], Array(2).fill("messages_or_template_required"));
    assert.match(empty.message, /send messages, such as \[\{"role": "user", "content": "hi"\}\]\.$/);
  });

  test("a model without its provider's credential is refused with the setting for it", async () => {
    const { status, json } = await ask({ model: "keyless", manifest: "own-helper" });

    assert.deepEqual([status, json.error], [503, "model_not_configured:xai"]);
    assert.equal(
      json.message,
      "No credential is configured for xai: the operator of this server sets SVC_XAI_API_KEY.",
    );
  });

  test("a key without Bearer is refused with the scheme, in any case of letters", async () => {
    const message = "The Authorization header has no scheme before the key: send `Authorization: Bearer KEY`.";
    for (const authorization of [keys.ann, "sk-proj_0123456789.abc+/="]) {
      const { status, json } = await server.get("/v1/models", { headers: { authorization } });

      assert.deepEqual([status, json], [401, { error: "unauthorized", reason: "invalid_api_key", message }]);
    }
    for (const authorization of [`Basic ${keys.ann}`, "Bearer key-of-nobody-0123456789"]) {
      const { status, json } = await server.get("/v1/models", { headers: { authorization } });

      assert.deepEqual([status, json], [401, { error: "unauthorized", reason: "invalid_api_key" }]);
    }
  });

  for (const [base, advice] of [
    ["", "The base URL of an OpenAI client must end in /v1."],
    ["/v1/v1", "The path has /v1 twice: remove /v1 from the base URL or from the path."],
  ])
    test(`a client with the base URL ${JSON.stringify(base)} gets the right one`, async () => {
      const client = new OpenAI({ baseURL: server.url + base, apiKey: keys.ann, maxRetries: 0 });
      const asked = [
        () => client.chat.completions.create({ model: "quick", messages: [{ role: "user", content: "hi" }] }),
        () => client.responses.create({ model: "quick", input: "hi" }),
        () => client.embeddings.create({ model: "vectors", input: "hi" }),
        () => client.models.list(),
        () => client.models.retrieve("quick"),
      ];
      for (const ask of asked) {
        const error = await ask().then(
          () => assert.fail("was answered"),
          (reason: unknown) => reason,
        );

        assert.ok(error instanceof APIError);
        assert.deepEqual([error.status, error.code], [404, "not_found"]);
        assert.equal(error.message, `404 not_found: No route has this path. ${advice}`);
      }
    });

  test("an unknown host is named, and the served ones are not", async () => {
    const { status, json } = await server.get("/chat/sessions", { headers: { host: "svc.example.com:8080" } });

    const message =
      "This server does not answer to svc.example.com. To allow it, the operator adds the name to SVC_ALLOWED_HOSTS.";
    assert.deepEqual([status, json], [403, { error: "host_not_allowed", detail: "host_not_allowed", message }]);
  });

  test("an unknown manifest: the nearest and all of the tenant, none of another tenant", async () => {
    const own = `There are ${withBundled("clerk", "own-helper").join(", ")}.`;
    const near = await ask({ manifest: "own-helpr" });
    const foreign = await ask({ manifest: "secret-plans" });
    const almostForeign = await ask({ manifest: "secret-plan" });
    const rivals = await ask({ manifest: "own-helper" }, keys.rival);

    assert.equal(near.json.error, "unknown_manifest:own-helpr");
    assert.equal(near.json.message, `There is no manifest of this name. Did you mean own-helper? ${own}`);
    for (const { status, json } of [foreign, almostForeign])
      assert.deepEqual([status, json.message], [404, `There is no manifest of this name. ${own}`]);
    assert.equal(
      rivals.json.message,
      `There is no manifest of this name. There are ${withBundled("clerk", "secret-plans").join(", ")}.`,
    );
  });

  test("an unknown manifest is reported alike on every entry point", async () => {
    const told = "There is no manifest of this name. Did you mean quick?";
    const stream = await server.post("/chat/stream", { manifest: "quik", messages }, { key: keys.ann });
    const openai = await server.post("/v1/chat/completions", { model: "quik", messages }, { key: keys.ann });
    const model = await server.get("/v1/models/quik", { key: keys.reader });
    const shown = await server.get("/manifests/quik", { key: keys.ann });

    assert.ok(stream.json.message.startsWith(told), stream.text);
    assert.ok(openai.json.error.message.startsWith(`unknown_manifest:quik: ${told}`), openai.text);
    assert.equal(openai.json.error.code, "model_not_found");
    assert.ok(model.json.error.message.startsWith(`unknown_manifest:quik: ${told}`), model.text);
    assert.ok(shown.json.message.startsWith(told), shown.text);
    for (const { text } of [stream, openai, model, shown]) assert.ok(!text.includes("secret-plans"));
  });

  test("a caller without credentials learns of no manifest", async () => {
    const { status, text } = await server.post("/chat", { manifest: "quik", messages });

    assert.deepEqual([status, JSON.parse(text)], [401, { error: "unauthorized", reason: "missing_credentials" }]);
  });

  test("a refused model: the nearest, and all callable ones that the turn may use", async () => {
    const near = await ask({ model: "smal-model" });
    const far = await ask({ model: "gpt" });

    assert.deepEqual(
      [near.status, near.json],
      [
        400,
        {
          ...{ error: "model_not_allowlisted:smal-model", detail: "model_not_allowlisted:smal-model" },
          message: near.json.message,
        },
      ],
    );
    assert.match(near.json.message, /^This manifest may not use a model of this name\. Did you mean small-model\?/);
    assert.match(far.json.message, /^This manifest may not use a model of this name\.( There are .+)?$/);
    assert.ok(!far.json.message.includes("keyless"));
  });

  test("an embedding model that does not exist", async () => {
    const { status, json } = await server.post("/v1/embeddings", { model: "vector", input: "hi" }, { key: keys.ann });

    assert.equal(status, 404);
    assert.equal(
      json.error.message,
      "unknown_embedding_model:vector: There is no embedding model of this name. Did you mean vectors? There is vectors.",
    );
  });

  test("a failing model is 502 with its failure as text", async () => {
    const { status, json } = await ask({});

    assert.deepEqual([status, json.error, json.detail], [502, "model_provider_error", "model_provider_error"]);
    assert.match(json.message, /^model provider failed: \S/);
  });

  test("bodies that the specification prints have no further key", async () => {
    const unauthorized = await server.get("/audit");
    const scopeless = await server.get("/audit", { key: keys.reader });
    const large = await server.post("/chat", { pad: "x".repeat(1024 * 1024) }, { key: keys.ann });

    assert.deepEqual(Object.keys(unauthorized.json), ["error", "reason"]);
    assert.deepEqual(Object.keys(scopeless.json), ["detail"]);
    assert.deepEqual([large.status, large.json], [413, { error: "payload_too_large" }]);
  });
});

test("a refused name comes with the nearest one, or with all if they are few", () => {
  const many = Array.from({ length: 41 }, (_, at) => `name-${at}x`);

  assert.equal(offered("quik", ["quick", "router"]), " Did you mean quick? There are quick, router.");
  assert.equal(offered("other", ["quick"]), " There is quick.");
  assert.equal(offered("other", []), "");
  assert.equal(offered("other", many), "");
  assert.equal(offered("name-7", many), " Did you mean name-7x?");
});

test("similar paths are suggested", () => {
  const paths = ["/", "/chat", "/chat/history/{thread_id}", "/runs/{run_id}", "/runs/{run_id}/timeline"];

  assert.equal(meantPath("/run/abc", paths), " Did you mean /runs/{run_id}?");
  assert.equal(meantPath("/runs/abc/timelin", paths), " Did you mean /runs/{run_id}/timeline?");
  assert.equal(meantPath("/runs", paths), " There is /runs/{run_id}, /runs/{run_id}/timeline.");
  assert.equal(meantPath("/runs/", paths), " There is /runs/{run_id}, /runs/{run_id}/timeline.");
  assert.equal(meantPath("/nothing", paths), "");
});
