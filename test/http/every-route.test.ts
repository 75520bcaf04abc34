// Rules that hold for every route, over real sockets. The tests are generated from the route table, so a new route is
// tested at once.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import type { Access, Route } from "../../http/route.ts";
import { apiKeys, startServer, type TestServer } from "../support/server.ts";
import { cleanup } from "../support/temp.ts";
import { assertCommonHeaders, nameOf, pathOf, protectedRoutes, routes } from "./support.ts";

const methods = ["GET", "POST", "PUT", "PATCH", "DELETE"];
const paths = [...new Set(routes.map(({ path }) => path))];

const { env, keys } = apiKeys({
  all: { scopes: ["*"] },
  admin: { scopes: ["admin"] },
  none: { scopes: [] },
  other: { scopes: ["other:read"] },
  audit: { scopes: ["audit:read"] },
  usage: { scopes: ["usage:read"] },
  manifestsRead: { scopes: ["manifests:read"] },
  manifestsWrite: { scopes: ["manifests:write"] },
  chatRead: { scopes: ["chat:read"] },
  chatWrite: { scopes: ["chat:write"] },
});
type KeyName = keyof typeof keys;
const scopesOf: Readonly<Record<KeyName, readonly string[]>> = {
  all: ["*"],
  admin: ["admin"],
  none: [],
  other: ["other:read"],
  audit: ["audit:read"],
  usage: ["usage:read"],
  manifestsRead: ["manifests:read"],
  manifestsWrite: ["manifests:write"],
  chatRead: ["chat:read"],
  chatWrite: ["chat:write"],
};

/** The scope that a key lacks, by an independent copy of document 2's rules; null if the key may pass. */
function missing(access: Access, scopes: readonly string[], strict: boolean): string | null {
  if (access === "public" || access === "authenticated") return null;
  if (typeof access === "string") {
    if (scopes.length === 0) return "chat";
    if (!strict || access === "docs") return null;
  }
  const wanted = typeof access === "string" ? [access] : access;
  const held = (scope: string) =>
    scopes.some((own) => own === "*" || own === "admin" || own === scope || own === scope.replace(/:read$/, ":write"));
  const lacking = wanted.filter((scope) => !held(scope));
  return lacking.length === 0 ? null : lacking.join(" ");
}

/** True if a path without parameters also matches a pattern with parameters. */
function names(pattern: string, path: string): boolean {
  return !path.includes("{") && new RegExp(`^${pattern.replace(/\{\w+\}/g, "[^/]+")}$`).test(path);
}

/** Sends a request with an empty body to a route; closes streams at once. */
async function knock(server: TestServer, route: Route, key?: string) {
  const options = { ...(key !== undefined && { key }), ...(route.body && { body: {} }) };
  if (route.reply.contentType !== "text/event-stream")
    return server.request(route.method, pathOf(route, "nobody-1"), options);
  const stream = await server.stream(pathOf(route, "nobody-1"), route.body ? {} : undefined, {
    ...options,
    method: route.method,
  });
  const { status, headers } = stream;
  if (status === 200) {
    stream.close();
    return { status, headers, text: "", json: null };
  }
  let text = "";
  for await (const chunk of stream.bytes()) text += chunk;
  return { status, headers, text, json: JSON.parse(text) };
}

describe("every route", () => {
  const atEnd = cleanup();
  let server: TestServer;
  before(async () => {
    server = await startServer({ env, atEnd });
  });

  for (const route of protectedRoutes) {
    test(`AUTH-028 ${nameOf(route)} is 401 without credentials and with bad ones`, async () => {
      const without = await knock(server, route);
      const bad = await knock(server, route, "key-of-nobody-0123456789");

      assert.deepEqual([without.status, without.json], [401, { error: "unauthorized", reason: "missing_credentials" }]);
      assert.deepEqual([bad.status, bad.json], [401, { error: "unauthorized", reason: "invalid_api_key" }]);
      assertCommonHeaders(without);
      assert.equal(without.headers["www-authenticate"], 'Bearer realm="svc"');
      assert.equal(bad.headers["www-authenticate"], 'Bearer realm="svc", error="invalid_token"');
    });
  }

  // Routes with credentials of their own have separate tests.
  for (const route of routes.filter(({ access, admit }) => access === "public" && admit === null)) {
    test(`AUTH-006 ${nameOf(route)} needs no credentials, and ignores bad ones`, async () => {
      const without = await knock(server, route);
      const bad = await knock(server, route, "key-of-nobody-0123456789");

      const isPresent = ["/.well-known/agent-card.json", "/console/worker.js"].includes(route.path);
      const isAbsent = route.params !== null || (route.fails.includes("not_found") && !isPresent);
      const status = isAbsent ? 404 : 200;
      assert.deepEqual([without.status, bad.status], [status, status]);
    });
  }

  for (const strict of [false, true]) {
    describe(strict ? "with SVC_CHAT_SCOPES=strict" : "with SVC_CHAT_SCOPES=any", () => {
      let scoped: TestServer;
      before(async () => {
        scoped = strict ? await startServer({ env: { ...env, SVC_CHAT_SCOPES: "strict" }, atEnd }) : server;
      });

      for (const route of routes) {
        test(`AUTH-025 AUTH-026 AUTH-028 ${nameOf(route)} requires its scope and no other`, async () => {
          for (const name of Object.keys(keys) as KeyName[]) {
            const lacking = missing(route.access, scopesOf[name], strict);

            const answer = await knock(scoped, route, keys[name]);

            if (lacking === null)
              assert.ok(answer.status !== 401 && answer.status !== 403, `${name}: ${answer.status}`);
            else
              assert.deepEqual(
                [name, answer.status, answer.json],
                [name, 403, { detail: `missing scopes: ${lacking}` }],
              );
          }
        });
      }
    });
  }

  test("OPS-008 a key without scopes reads /metrics, itself and public routes only", async () => {
    const read: string[] = [];
    for (const route of routes) {
      const { status } = await knock(server, route, keys.none);
      // Without an identity provider they are routes for any caller, and answer that nothing is configured.
      const isSignIn = /^\/auth\/(github|google)\//.test(route.path);
      if (status !== 403 && !isSignIn) read.push(nameOf(route));
    }

    const open = routes.filter(({ access }) => access === "public").map(nameOf);
    assert.deepEqual(read.sort(), ["GET /auth/whoami", "GET /metrics", ...open].sort());
  });

  for (const path of paths) {
    const here = routes.filter((route) => route.path === path || names(route.path, path));
    const allow = [
      ...new Set(here.map(({ method }) => method)),
      ...(here.some(({ method }) => method === "GET") ? ["HEAD"] : []),
      "OPTIONS",
    ]
      .sort()
      .join(", ");

    test(`${path} is 405 with Allow for every other method, and OPTIONS lists the same`, async () => {
      for (const method of methods.filter((name) => !here.some((route) => route.method === name))) {
        const answer = await server.request(method, pathOf({ path }, "x"), {
          key: keys.all,
          ...(method !== "GET" && { body: {} }),
        });

        assert.equal(answer.status, 405, method);
        const message = `This path does not accept ${method}; it accepts ${allow}.`;
        const code = "method_not_allowed";
        const openAi = { message: `${code}: ${message}`, type: "invalid_request_error", param: null, code };
        const isOpenAi = path.startsWith("/v1/");
        assert.deepEqual(answer.json, isOpenAi ? { error: openAi } : { error: code, detail: code, message });
        assert.equal(answer.headers.allow, allow);
        assertCommonHeaders(answer);
      }
      const options = await server.request("OPTIONS", pathOf({ path }, "x"), { key: keys.all });
      assert.deepEqual([options.status, options.headers.allow, options.text], [204, allow, ""]);
      assert.equal(options.headers["content-length"], undefined);
      assertCommonHeaders(options);
    });
  }

  for (const route of routes.filter(({ method }) => method === "GET")) {
    test(`HEAD ${route.path} has the head of GET and no body`, async () => {
      const path = pathOf(route, "nobody-1");

      const head = await server.request("HEAD", path, { key: keys.all });
      const isStream = route.reply.contentType === "text/event-stream";
      const get = isStream ? await server.listen(path, { key: keys.all }) : await server.get(path, { key: keys.all });

      if ("close" in get) get.close();
      assert.equal(head.text, "");
      assert.equal(head.status, get.status);
      assert.equal(head.headers["content-type"], get.headers["content-type"]);
      assert.equal(head.headers["cache-control"], get.headers["cache-control"]);
      assertCommonHeaders(head);
    });
  }

  for (const route of routes) {
    test(`ERR-002 ERR-003 ${nameOf(route)} echoes the client's request id and has the security headers`, async () => {
      const requestId = `mine-${"x".repeat(40)}`;
      const options = { key: keys.all, headers: { "x-request-id": requestId }, ...(route.body && { body: {} }) };
      const isStream = route.method === "GET" && route.reply.contentType === "text/event-stream";
      const path = pathOf(route, "nobody-1");

      const answer = isStream ? await server.listen(path, options) : await server.request(route.method, path, options);

      if ("close" in answer) answer.close();
      assertCommonHeaders(answer, requestId);
    });
  }
});
