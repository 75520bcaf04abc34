// Hostile and broken requests to the MCP server, in both generations of the protocol.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { messageOf, olderHeaders, sendRpc } from "../support/mcp.ts";
import { apiKeys, startServer, type TestServer } from "../support/server.ts";
import { cleanup } from "../support/temp.ts";

const { env, keys } = apiKeys({
  owner: { scopes: ["chat:write", "manifests:write"] },
  stranger: { tenant_id: "globex", scopes: ["chat:write"] },
});

/** The fields by which a client of the newer generation says what it speaks. */
const envelope = {
  "io.modelcontextprotocol/protocolVersion": "2026-07-28",
  "io.modelcontextprotocol/clientInfo": { name: "hand", version: "1" },
  "io.modelcontextprotocol/clientCapabilities": {},
};
const newer = (method: string, name?: string) => ({
  ...olderHeaders,
  "mcp-protocol-version": "2026-07-28",
  "mcp-method": method,
  ...(name !== undefined && { "mcp-name": name }),
});

describe("the MCP server under attack", () => {
  const atEnd = cleanup();
  let server: TestServer;
  before(async () => {
    server = await startServer({ atEnd, env });
    const manifest = { metadata: { name: "secretive" }, spec: { tools: ["calculator"] } };
    const saved = await server.request("PUT", "/manifests/secretive", { key: keys.owner, body: { manifest } });
    assert.equal(saved.status, 200, saved.text);
  });
  const key = keys.owner;
  const post = (body: unknown, headers: Record<string, string> = olderHeaders) =>
    server.request("POST", "/mcp", { key, body, headers });
  const sum = { name: "calculator", arguments: { expression: "1 + 1" } };

  test("a batch is refused, whatever it holds", async () => {
    for (const batch of [
      [],
      [{ jsonrpc: "2.0", id: 1, method: "ping" }],
      Array(1_000).fill({ jsonrpc: "2.0", id: 1 }),
    ]) {
      const { status, json } = await post(batch);

      assert.deepEqual([status, json.error.code, json.id], [400, -32600, null]);
    }
  });

  test("text that is no JSON is -32700, and JSON that is no message is -32600", async () => {
    const broken = await post("{");
    const repeated = await post('{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}');
    const other = await post({ hello: 1 });

    assert.deepEqual([broken.status, broken.json.error.code], [400, -32700]);
    assert.deepEqual([repeated.status, repeated.json.error.code], [400, -32700]);
    assert.deepEqual([other.status, other.json.error.code], [400, -32600]);
  });

  test("another content type is 415", async () => {
    const { status, json } = await post("{}", { ...olderHeaders, "content-type": "text/plain" });

    assert.deepEqual([status, json.error.data], [415, { code: "unsupported_media_type" }]);
  });

  test("a missing Accept takes both forms, and an Accept that leaves one out is 406 for older clients", async () => {
    const message = { jsonrpc: "2.0", id: 1, method: "ping" };

    const without = await server.request("POST", "/mcp", { key, body: message });
    const any = await post(message, { accept: "*/*" });
    const json = await post(message, { accept: "application/json" });

    assert.deepEqual([without.status, any.status, json.status], [200, 200, 406]);
    assert.equal(json.json.error.code, -32000);
  });

  test("an id of half a megabyte comes back, and a body over the limit does not", async () => {
    const id = "x".repeat(500_000);

    const long = await sendRpc(server, "ping", {}, { key, id });
    const longer = await sendRpc(server, "ping", {}, { key, id: "x".repeat(1_100_000) });

    assert.equal(long.status, 200);
    assert.ok(long.text.includes(id));
    assert.equal(longer.status, 413);
  });

  test("an id that the protocol does not know is no request", async () => {
    for (const id of [null, {}, [1], true, 1.5]) {
      const { status } = await sendRpc(server, "tools/call", sum, { key, id });

      assert.ok(status === 400 || status === 202, `${JSON.stringify(id)}: ${status}`);
    }
  });

  test("unknown methods and methods of features that svc lacks are -32601", async () => {
    for (const method of [
      "nobody/knows",
      "resources/list",
      "prompts/get",
      "logging/setLevel",
      "sampling/createMessage",
    ]) {
      const { text } = await sendRpc(server, method, {}, { key });

      assert.match(text, /"code":-32601/, method);
    }
  });

  test("malformed params are -32602, and no tool runs", async () => {
    for (const params of [{}, { name: 7 }, { name: "calculator", arguments: "1 + 1" }, { name: ["calculator"] }]) {
      const { text } = await sendRpc(server, "tools/call", params, { key, path: "/mcp?manifest=secretive" });

      assert.match(text, /"code":-32602/, JSON.stringify(params));
    }
  });

  test("names of prototypes are tools like any other: unknown ones", async () => {
    for (const name of ["__proto__", "constructor", "toString", "calculator\u0000", "x".repeat(100_000)]) {
      const { text, status } = await sendRpc(
        server,
        "tools/call",
        { name, arguments: {} },
        { key, path: "/mcp?manifest=secretive" },
      );

      assert.ok(status === 400 || /"code":-32602/.test(text), `${name.slice(0, 20)}: ${status} ${text.slice(0, 200)}`);
      assert.ok(text.length < 2_000, name.slice(0, 20));
    }
  });

  test("a foreign Origin and a foreign Host are refused before the caller is known", async () => {
    const message = { jsonrpc: "2.0", id: 1, method: "tools/list" };

    const origin = await server.request("POST", "/mcp", { body: message, headers: { origin: "https://evil.example" } });
    const host = await server.request("POST", "/mcp", { body: message, headers: { host: "rebound.example" } });

    assert.deepEqual([origin.status, origin.json.error], [403, "origin_not_allowed"]);
    assert.deepEqual([host.status, host.json.error], [403, "host_not_allowed"]);
  });

  test("AUTH-028 a key that is missing or revoked is 401 with a challenge", async () => {
    const message = { jsonrpc: "2.0", id: 1, method: "tools/list" };
    const other = await startServer({ atEnd, env });
    const gone = apiKeys({ stranger: { tenant_id: "globex", scopes: ["chat:write"] } });
    const send = (key?: string) =>
      other.request("POST", "/mcp", { body: message, headers: olderHeaders, ...(key && { key }) });

    const good = await send(keys.owner);
    await other.restart(gone.env);
    const revoked = await send(keys.owner);
    const missing = await send();

    assert.equal(good.status, 200);
    assert.deepEqual(
      [revoked.status, revoked.headers["www-authenticate"]],
      [401, 'Bearer realm="svc", error="invalid_token"'],
    );
    assert.deepEqual([missing.status, missing.headers["www-authenticate"]], [401, 'Bearer realm="svc"']);
  });

  test("AUTH-010 another tenant's manifest is as unknown as one that does not exist", async () => {
    const ask = async (manifest: string, method: string, params: object) => {
      const { text } = await sendRpc(server, method, params, { key: keys.stranger, path: `/mcp?manifest=${manifest}` });
      return text.replaceAll(manifest, "NAME");
    };

    for (const [method, params] of [
      ["tools/list", {}],
      ["tools/call", sum],
      ["tools/call", { name: "chat", arguments: { message: "hi" } }],
    ] as const) {
      const theirs = await ask("secretive", method, params);

      assert.equal(theirs, await ask("no-such-1", method, params));
      assert.match(theirs, /unknown_manifest/);
    }
  });

  test("clients that choose the same id get their own results", async () => {
    const numbers = Array.from({ length: 40 }, (_, at) => at);

    const answers = await Promise.all(
      numbers.map(async (at) => {
        const call = { name: "calculator", arguments: { expression: `${at} * 1000` } };
        const owner = await sendRpc(server, "tools/call", call, { key, path: "/mcp?manifest=secretive" });
        return messageOf(owner).result.content[0].text;
      }),
    );

    assert.deepEqual(
      answers,
      numbers.map((at) => String(at * 1000)),
    );
  });

  test("a flood of notifications is taken and starts nothing", async () => {
    const before = (await server.get("/metrics", { key })).text.match(/^svc_runs_total.*$/gm) ?? [];

    const answers = await Promise.all(
      Array.from({ length: 200 }, () => post({ jsonrpc: "2.0", method: "notifications/tools/call", params: sum })),
    );

    const after = (await server.get("/metrics", { key })).text.match(/^svc_runs_total.*$/gm) ?? [];
    assert.ok(answers.every(({ status }) => status === 202));
    assert.deepEqual(after, before);
  });

  test("a message of the newer generation whose headers say something else is refused", async () => {
    const message = (method: string, params: object) => ({
      jsonrpc: "2.0",
      id: 1,
      method,
      params: { ...params, _meta: envelope },
    });

    const good = await post(message("tools/list", {}), newer("tools/list"));
    const otherMethod = await post(message("tools/call", sum), newer("tools/list"));
    const otherTool = await post(message("tools/call", sum), newer("tools/call", "read_file"));
    const noVersion = await post(message("tools/list", {}));
    const noEnvelope = await post({ jsonrpc: "2.0", id: 1, method: "tools/list", params: {} }, newer("tools/list"));
    const future = { ...envelope, "io.modelcontextprotocol/protocolVersion": "2099-01-01" };
    const unknown = await post(
      { jsonrpc: "2.0", id: 1, method: "tools/list", params: { _meta: future } },
      { ...newer("tools/list"), "mcp-protocol-version": "2099-01-01" },
    );

    assert.equal(good.status, 200);
    assert.equal(good.headers["content-type"], "application/json");
    for (const refused of [otherMethod, otherTool, noVersion, noEnvelope, unknown]) {
      assert.equal(refused.status, 400, refused.text);
      assert.ok(refused.json.error.code < -32000);
    }
    assert.equal(unknown.json.error.code, -32022);
  });

  test("a subscription of the newer generation ends at once, because nothing is announced", async () => {
    const params = { _meta: envelope, notifications: { toolsListChanged: true } };

    const { status, text } = await post(
      { jsonrpc: "2.0", id: 5, method: "subscriptions/listen", params },
      newer("subscriptions/listen"),
    );

    assert.equal(status, 200);
    assert.match(text, /"resultType":"complete"/);
  });

  test("a notification that cancels the call of another request is taken and has no effect", async () => {
    const { status, text } = await post({
      jsonrpc: "2.0",
      method: "notifications/cancelled",
      params: { requestId: 1 },
    });

    assert.deepEqual([status, text], [202, ""]);
  });

  test("DELETE is 405, because there is no session to end", async () => {
    const { status, headers } = await server.request("DELETE", "/mcp", { key });

    assert.deepEqual([status, headers.allow], [405, "GET, HEAD, OPTIONS, POST"]);
  });
});
