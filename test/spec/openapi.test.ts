// The API reference: it is valid and complete, and the server's answers match it.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { before, describe, test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { Ajv2020 } from "ajv/dist/2020.js";
import { codeName, errorTable } from "../../bus/errors.ts";
import packageFile from "../../package.json" with { type: "json" };
import { nameOf, pathOf, routes } from "../http/support.ts";
import type { Answer } from "../support/http-client.ts";
import { apiKeys, startServer, type TestServer } from "../support/server.ts";
import { cleanup, tempDir } from "../support/temp.ts";

const { env, keys } = apiKeys({ all: { scopes: ["*"] }, none: { scopes: [] } });
const redocly = fileURLToPath(new URL("../../node_modules/@redocly/cli/bin/cli.js", import.meta.url));

interface Operation {
  readonly operationId: string;
  readonly tags: readonly string[];
  readonly security: readonly object[];
  readonly parameters?: readonly { readonly name: string; readonly in: string; readonly required: boolean }[];
  readonly requestBody?: {
    readonly content: Readonly<Record<string, { readonly schema: Readonly<Record<string, unknown>> }>>;
  };
  readonly responses: Readonly<
    Record<
      string,
      {
        readonly description: string;
        readonly content?: Readonly<Record<string, { readonly schema: object; readonly examples?: object }>>;
      }
    >
  >;
}
interface Reference {
  readonly openapi: string;
  readonly info: { readonly version: string };
  readonly tags: readonly { readonly name: string; readonly description: string }[];
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
}

describe("the reference", () => {
  const atEnd = cleanup();
  let server: TestServer;
  let reference: Reference;
  let text: string;
  before(async () => {
    server = await startServer({ atEnd, env });
    ({ text } = await server.get("/openapi.json", { key: keys.all }));
    reference = JSON.parse(text);
  });

  function operations(): [string, string, Operation][] {
    return Object.entries(reference.paths).flatMap(([path, byMethod]) =>
      Object.entries(byMethod).map(([method, operation]): [string, string, Operation] => [
        method.toUpperCase(),
        path,
        operation,
      ]),
    );
  }

  /** Fails unless the reference has the answer's status, content type and body schema for this operation. */
  function assertTold(method: string, path: string, answer: Answer): void {
    const where = `${method} ${path} ${answer.status}`;
    const response = reference.paths[path]?.[method.toLowerCase()]?.responses[answer.status];
    assert.ok(response, `${where} is not told: ${answer.text.slice(0, 200)}`);
    if (answer.status === 204) return;
    const type = String(answer.headers["content-type"]).split(";")[0] ?? "";
    const media = response.content?.[type];
    assert.ok(media, `${where} ${type} is not told`);
    if (type !== "application/json") return;
    const pointer = [
      "paths",
      path,
      method.toLowerCase(),
      "responses",
      String(answer.status),
      "content",
      type,
      "schema",
    ];
    const check = ajv.compile({
      $ref: `reference#/${pointer.map((part) => encodeURIComponent(part.replaceAll("~", "~0").replaceAll("/", "~1"))).join("/")}`,
    });
    assert.ok(check(answer.json), `${where}: ${ajv.errorsText(check.errors)} in ${answer.text.slice(0, 300)}`);
  }
  const ajv = new Ajv2020({ strict: false, allErrors: true });
  before(() => void ajv.addSchema(reference, "reference"));

  test("OPS-009 is OpenAPI 3.1 of the running release", () => {
    assert.match(reference.openapi, /^3\.1\./);
    assert.equal(reference.info.version, packageFile.version);
  });

  test("OPS-009 has every registered route and no other, with its parameters and its request", () => {
    assert.deepEqual(
      operations()
        .map(([method, path]) => `${method} ${path}`)
        .sort(),
      routes.map(nameOf).sort(),
    );
    for (const route of routes) {
      const operation = reference.paths[route.path]?.[route.method.toLowerCase()];
      const named = (place: string) =>
        (operation?.parameters ?? []).filter((each) => each.in === place).map(({ name }) => name);
      const declared = (schema: unknown) => Object.keys((schema as { properties?: object } | null)?.properties ?? {});

      assert.deepEqual(named("path"), declared(route.params), nameOf(route));
      assert.deepEqual(
        named("path"),
        [...route.path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name),
        nameOf(route),
      );
      assert.deepEqual(named("query"), declared(route.query), nameOf(route));
      assert.equal(operation?.requestBody !== undefined, route.body !== null, nameOf(route));
    }
  });

  test("OPS-012 has no path with a version but those of /v1", () => {
    const versioned = Object.keys(reference.paths).filter((path) => /^\/v\d/.test(path));

    assert.deepEqual(versioned, [
      "/v1/chat/completions",
      "/v1/models",
      "/v1/models/{name}",
      "/v1/responses",
      "/v1/responses/{response_id}",
      "/v1/responses/{response_id}/input_items",
      "/v1/responses/{response_id}/cancel",
      "/v1/embeddings",
    ]);
  });

  test("OPS-015 describes requests by their schemas, and answers as plain objects", () => {
    for (const [method, path, { requestBody, responses }] of operations()) {
      const schema = requestBody?.content["application/json"]?.schema;
      if (requestBody)
        assert.ok(
          schema?.type === "object" && Object.keys(schema.properties as object).length > 0,
          `${method} ${path}`,
        );
      for (const [status, { content = {} }] of Object.entries(responses)) {
        const told = content["application/json"]?.schema as
          | { type?: string; anyOf?: { type?: string; $ref?: string }[]; $ref?: string }
          | undefined;
        if (!told) continue;
        const forms = told.anyOf ?? [told];
        assert.ok(
          forms.every(({ type, $ref }) => type === "object" || $ref !== undefined),
          `${method} ${path} ${status}`,
        );
      }
    }
  });

  test("OPS-015 requires no field that has a default", () => {
    const schema = reference.paths["/chat"]?.post?.requestBody?.content["application/json"]?.schema;

    assert.deepEqual(schema?.required, ["manifest"]);
  });

  test("has distinct operation ids, and every tag is described", () => {
    const ids = operations().map(([, , { operationId }]) => operationId);
    const tags = operations().flatMap(([, , operation]) => operation.tags);

    assert.equal(new Set(ids).size, ids.length);
    assert.deepEqual([...new Set(tags)].sort(), reference.tags.map(({ name }) => name).sort());
    for (const { name, description } of reference.tags) assert.match(description, /\.$/, name);
  });

  test("has every code that a route declares as an example of an answer", () => {
    for (const route of routes) {
      const responses = reference.paths[route.path]?.[route.method.toLowerCase()]?.responses ?? {};
      const examples = Object.values(responses).flatMap(({ content }) =>
        Object.keys(content?.["application/json"]?.examples ?? {}),
      );
      for (const code of route.fails)
        assert.ok(examples.includes(codeName(code)), `${nameOf(route)}: ${codeName(code)}`);
    }
  });

  test("passes the recommended rules of redocly without an error or warning", async () => {
    const file = join(tempDir(atEnd), "openapi.json");
    writeFileSync(file, text);
    // Routes that send a browser away have no 2XX, and the specification names paths that only the router tells apart.
    const skipped = ["operation-2xx-response", "no-ambiguous-paths"].map((rule) => `--skip-rule=${rule}`);

    const { stdout } = await promisify(execFile)(
      process.execPath,
      [redocly, "lint", file, "--extends=recommended", "--format=json", ...skipped],
      {
        env: {
          PATH: process.env.PATH ?? "",
          HOME: tempDir(atEnd),
          REDOCLY_TELEMETRY: "off",
          REDOCLY_SUPPRESS_UPDATE_NOTICE: "true",
        },
      },
    ).catch((error: { stdout: string }) => error);

    const { totals, problems } = JSON.parse(stdout) as {
      totals: object;
      problems: { ruleId: string; message: string }[];
    };
    assert.deepEqual(
      problems.map(({ ruleId, message }) => `${ruleId}: ${message}`),
      [],
    );
    assert.deepEqual(totals, { errors: 0, warnings: 0, ignored: 0 });
  });

  for (const route of routes) {
    test(`${nameOf(route)} answers and refuses as described`, async () => {
      const path = pathOf(route, "some-1");
      const body = route.body ? { body: {} } : {};
      const isStream = route.method === "GET" && route.reply.contentType === "text/event-stream";

      if (!isStream)
        assertTold(route.method, route.path, await server.request(route.method, path, { key: keys.all, ...body }));
      if (route.access !== "public")
        assertTold(route.method, route.path, await server.request(route.method, path, body));
      if (route.access !== "public" && route.access !== "authenticated")
        assertTold(route.method, route.path, await server.request(route.method, path, { key: keys.none, ...body }));
      assertTold(
        route.method,
        route.path,
        await server.request(route.method, path, { headers: { host: "evil.example.com" }, ...body }),
      );
      if (route.body) {
        assertTold(route.method, route.path, await server.request(route.method, path, { key: keys.all, body: "{" }));
        assertTold(
          route.method,
          route.path,
          await server.request(route.method, path, {
            key: keys.all,
            body: "{}",
            headers: { "content-type": "text/plain" },
          }),
        );
      }
    });
  }

  test("matches answers that are not empty", async () => {
    const as = { key: keys.all };
    const messages = [{ role: "user", content: "What is 6 * 7?" }];
    const put = { manifest: { metadata: { name: "told" } } };
    const requests: [string, string, string, object?][] = [
      ["PUT", "/manifests/{name}", "/manifests/told", put],
      ["POST", "/manifests/{name}/canary", "/manifests/told/canary", { canary_version: 1, canary_weight: 10 }],
      ["POST", "/manifests/{name}/canary", "/manifests/told/canary", { canary_version: 9, canary_weight: 10 }],
      ["GET", "/manifests", "/manifests"],
      ["GET", "/manifests/{name}", "/manifests/told"],
      ["GET", "/manifests/{name}", "/manifests/told?version=1"],
      ["GET", "/manifests/{name}", "/manifests/told?thread_id=a:b"],
      ["GET", "/manifests/{name}/versions", "/manifests/told/versions"],
      ["DELETE", "/manifests/{name}/canary", "/manifests/told/canary"],
      ["POST", "/manifests/{name}/rollback", "/manifests/told/rollback", { version: 1 }],
      ["PUT", "/manifests/{name}", "/manifests/other", put],
      [
        "PUT",
        "/manifests/{name}",
        "/manifests/told",
        { manifest: { metadata: { name: "told" }, spec: { colour: 1 } } },
      ],
      ["POST", "/chat", "/chat", { manifest: "told", thread_id: "t", messages }],
      ["POST", "/chat", "/chat", { manifest: "nobodys", messages }],
      ["POST", "/chat", "/chat", { manifest: "told", messages: [] }],
      ["POST", "/chat", "/chat", { manifest: "told", thread_id: "a:b", messages }],
      ["POST", "/chat/continue", "/chat/continue", { thread_id: "t" }],
      ["POST", "/chat/abort", "/chat/abort", { thread_id: "t" }],
      ["POST", "/v1/chat/completions", "/v1/chat/completions", { model: "told", messages }],
      ["POST", "/v1/chat/completions", "/v1/chat/completions", { model: "told", messages, n: 2 }],
      ["POST", "/v1/chat/completions", "/v1/chat/completions", { model: "nobodys", messages }],
      ["GET", "/v1/models", "/v1/models"],
      ["GET", "/chat/history/{thread_id}", "/chat/history/t"],
      ["GET", "/chat/sessions", "/chat/sessions"],
      ["GET", "/chat/sessions", "/chat/sessions?cursor=x"],
      ["GET", "/chat/sessions/{thread_id}", "/chat/sessions/t"],
      ["GET", "/chat/sessions/search", "/chat/sessions/search?q=calculate"],
      ["GET", "/usage", "/usage"],
      ["GET", "/usage/summary", "/usage/summary"],
      ["GET", "/usage/threads", "/usage/threads"],
      ["GET", "/usage/threads", "/usage/threads?since_ms=2&until_ms=1"],
      ["GET", "/audit", "/audit"],
      ["GET", "/audit", "/audit?since=2&until=1"],
      ["GET", "/audit/metrics", "/audit/metrics"],
      ["DELETE", "/chat/history/{thread_id}", "/chat/history/t"],
    ];

    for (const [method, path, target, body] of requests)
      assertTold(method, path, await server.request(method, target, { ...as, ...(body && { body }) }));
  });

  test("has a status and a line of help for every error", () => {
    for (const [code, { status, help }] of Object.entries(errorTable)) {
      assert.match(code, /^[a-z]+(_[a-z0-9]+)*$/);
      assert.ok(status >= 400 && status < 600, code);
      assert.match(help, /^\S.+\.$/s, code);
    }
  });
});
