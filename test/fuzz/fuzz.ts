import assert from "node:assert/strict";
import { before, type TestContext } from "node:test";
import { Ajv2020 } from "ajv/dist/2020.js";
import fc from "fast-check";
import { nameOf, routes } from "../http/support.ts";
import { assertRssBelow, assertUnharmed } from "../security/support.ts";
import { calls, turn } from "../support/chat.ts";
import type { Answer } from "../support/mock-model/answer.ts";
import { startMockModel } from "../support/mock-model.ts";
import { type RawAnswer, RawConnection, rawRequest } from "../support/raw-http.ts";
import { apiKeys, manifestEnv, modelEnv, type ProcessServer, startServerProcess } from "../support/server.ts";
import { FrameReader } from "../support/sse-frames.ts";
import { cleanup, tempDir } from "../support/temp.ts";
import { manifestOf } from "./manifests.ts";
import { anyThreadId, type FuzzRequest, type Operation, operationsOf, type Reference, requestOf } from "./requests.ts";
import { trickyTexts } from "./values.ts";

// Random requests against a running server, made from its own reference. For any request the answer must have a status
// and form of the reference, and the server must stay healthy.

/**
 * Operations that need an id of an earlier answer, the bytes of an image, an interrupted turn, or a setting. Random requests
 * reach only their refusals.
 */
const withToldIds: readonly string[] = [
  "POST /chat/continue",
  "POST /chat/sessions/label",
  "POST /chat/sessions/feedback",
  "POST /chat/rewind",
  "GET /chat/workspace/file",
  "POST /chat/workspace/delete_folder",
  "POST /chat/workspace/rename_folder",
  "GET /v1/responses/{response_id}",
  "GET /v1/responses/{response_id}/input_items",
  "DELETE /v1/responses/{response_id}",
  "POST /v1/responses/{response_id}/cancel",
  "POST /files",
  "GET /files/{file_id}",
  "POST /approvals/{approval_id}/decide",
  // They need a key of push notifications, and a point of a curve.
  "GET /push/vapid-public-key",
  "POST /push/subscriptions",
  // They need a code host, or answer 202 or 204.
  "POST /chat/sessions/{thread_id}/workspace/repo",
  "GET /chat/sessions/{thread_id}/workspace/repo",
  "GET /chat/sessions/{thread_id}/workspace/repo/files",
  "DELETE /chat/sessions/{thread_id}/workspace/repo",
  "DELETE /github/connection",
  "DELETE /github/connections/{github_user_id}",
  "GET /github/repos",
  // They need SVC_RUNTIME_KEYS, or a whole definition; test/spec/ sends valid ones.
  "GET /keys",
  "POST /keys",
  "DELETE /keys/{key_id}",
  "PUT /workflows/{workflow_id}",
  "GET /chat/runs/{resume_token}",
  "GET /chat/runs/{resume_token}/stream",
  "POST /chat/runs/{resume_token}/abort",
  "GET /runs/{run_id}",
  "GET /runs/{run_id}/timeline",
  "GET /runs/{run_id}/requests/{n}",
  "POST /runs/{run_id}/cancel",
  "POST /runs/{run_id}/retry",
  "POST /runs/{run_id}/requeue",
  "GET /plans/{plan_id}",
  "DELETE /plans/{plan_id}",
  "GET /documents/{doc_id}/file",
  "DELETE /documents/{doc_id}",
  "DELETE /memory/{memory_id}",
  "POST /memory/{memory_id}/restore",
  "GET /jobs/{name}",
  "GET /jobs/{name}/runs",
  "DELETE /jobs/{name}",
  "POST /jobs/{name}/run",
  "GET /eval/datasets/{name}",
  "DELETE /eval/datasets/{name}",
  "POST /eval/datasets/{name}/items",
  "POST /eval/datasets/{name}/run",
  "POST /eval/runs",
  "POST /eval/runs/compare",
  "GET /eval/runs/{run_id}",
  "GET /workflows/{workflow_id}",
  "DELETE /workflows/{workflow_id}",
  "GET /workflows/{workflow_id}/runs",
  "POST /workflows/{workflow_id}/runs",
  "GET /workflows/{workflow_id}/runs/{run_id}",
  "POST /workflows/{workflow_id}/runs/{run_id}/cancel",
  "GET /workflows/{workflow_id}/runs/{run_id}/steps/{step_id}/thread",
  "GET /workflows/{workflow_id}/runs/{run_id}/stream",
  "POST /eval/runs/{run_id}/cancel",
  "POST /tasks/{name}/run",
  "GET /docs/pages/{page}",
  "GET /artifacts/{manifest_id}/{artifact_id}",
  "GET /quarantine/{quarantine_id}",
  "GET /.well-known/oauth-protected-resource",
  "POST /manifests/{name}/tools/approve",
  "POST /manifests/{name}/plan",
  "POST /mcp",
  "GET /.well-known/oauth-protected-resource/mcp",
  "POST /internal/sessions/{session_id}/events",
  "POST /agui/{manifest}",
  "GET /memory/as-of/{turn_seq}",
  "GET /skills/{manifest_name}",
  "GET /skills/{manifest_name}/{skill_name}",
  "GET /skills/{manifest_name}/activations/recent",
  "GET /console/{build}/{folder}/{name}",
  "GET /console/{build}/{folder}/{name}/{part}",
  "GET /console/{build}/{folder}/{name}/{part}/{file}",
  // These need a provider.
  "POST /auth/github/device",
  "POST /auth/github/token",
  "POST /auth/github/actions",
  ...["github", "google"].flatMap((provider) => [
    `GET /auth/${provider}/authorize`,
    `GET /auth/${provider}/callback`,
    `POST /auth/${provider}/exchange`,
  ]),
];

/** Operations on whole skills, documents that are files, and files of the console. */
const needsFiles = / \/(skill-library|documents\/files$|console\/\{build\})/;

/** True for the operation that would refuse all later turns of the tenant: a freeze without selectors. */
function isFreeze({ method, path }: { readonly method: string; readonly path: string }): boolean {
  return method === "PUT" && path === "/controls/freeze";
}

/** The extent of a fuzz. The same seed makes the same requests. */
export interface FuzzExtent {
  readonly seed: number;
  /** Requests for each operation; the other fuzzes derive their counts from it. */
  readonly runs: number;
  /** Declares a test. Called from the test's own file, which then counts it as its own. */
  readonly test: (name: string, work: (t: TestContext) => void | Promise<void>) => void;
}

/** A request without an answer by then fails with its text, where the file would otherwise hang. */
const answerMsMax = 60_000;
/** The most that uWebSockets.js accepts of a head; above it the engine itself answers. */
const headBytesMax = 4096;
/** A server that keeps all requests in memory would be far above it. */
const rssMibMax = 1024;

const { env, keys } = apiKeys({
  all: { scopes: ["*"] },
  stranger: { tenant_id: "globex", scopes: ["*"] },
  none: { scopes: [] },
});

const consumerSecret = "consumer-secret-0123456789";

/** Refusals above 499 that concern a thing named in the request, and not the server. */
const namedFailures: ReadonlySet<string> = new Set([
  // The test server's code host is a closed port.
  "github_unavailable",
  "model_not_configured",
  "unresolved_secret",
  "model_provider_error",
  "model_unavailable",
  "push_not_configured",
]);

/** Answers of a model that is hostile or broken. */
const hostileAnswers: readonly Answer[] = [
  { text: trickyTexts.map((text) => text.toWellFormed()) },
  calls(["nobodys_tool", {}], ["__proto__", {}], ["constructor", "{}"]),
  calls(
    ["calculator", '{"__proto__":{"a":1}}'],
    ["calculator", "{broken"],
    ["calculator", "[]"],
    ["calculator", "null"],
  ),
  calls(
    ["read_file", { path: "../../../etc/passwd" }],
    ["read_file", { path: "/etc/passwd" }],
    ["read_file", { path: "a\0b" }],
  ),
  calls(["write_file", { path: ".git/config", content: "x" }], ["write_file", { path: "a/b.txt", content: "\ud800" }]),
  calls(["search_files", { query: "(a+)+$", regex: true }], ["glob", { pattern: "**/".repeat(60) }]),
  calls(["todo_write", { todos: [{ content: "\n\ndata: [DONE]\n\n", status: "pending" }] }]),
  calls(["list_dir", { path: "." }], ["list_dir", { path: 7 }], ["list_dir", '"x"']),
  { toolCalls: [{ id: "", name: "", arguments: "" }], reasoning: ["\n\nevent: x\n\n"] },
  { text: "x".repeat(50_000), finishReason: "length" },
  { text: [], usage: null, finishReason: null },
];

/** Declares the fuzzes, each as a test. */
export function fuzz({ seed, runs, test }: FuzzExtent): void {
  const atEnd = cleanup();
  let server: ProcessServer;
  let operations: readonly Operation[];
  /** The count of each status, by operation. */
  const met = new Map<string, number>();
  const ajv = new Ajv2020({ strict: false, allErrors: true });
  const asFar = (share: number) => ({ seed, numRuns: Math.max(1, Math.round(runs * share)) });

  before(async () => {
    const workspace = ["read_file", "write_file", "list_dir", "search_files", "glob"];
    const mock = await startMockModel({ record: false });
    atEnd.after(() => mock.close());
    const manifests = {
      agent: { prompts: [{ name: "summarize", body: "Sum up $1 for $@." }] },
      tools: { model: { id: "hostile" }, tools: ["calculator"], recursion_limit: 3 },
      // Creates threads that can be continued.
      failing: { model: { id: "mock-status-400" } },
      hostile: { model: { id: "hostile" }, tools: ["calculator", "todo_write", ...workspace], recursion_limit: 4 },
    };
    const models = modelEnv(mock, ["plain", "hostile", "mock-status-400"]);
    // Under the model name of the requests.
    const vectors = { agent: { provider: "openai", model: "vectors", kind: "embedding" } };
    const routes = JSON.stringify({ ...JSON.parse(models.SVC_MODEL_ROUTES ?? "{}"), ...vectors });
    server = await startServerProcess({
      atEnd,
      env: {
        ...models,
        SVC_MODEL_ROUTES: routes,
        ...manifestEnv(atEnd, manifests),
        ...env,
        SVC_WORKSPACE_ROOT: tempDir(atEnd),
        SVC_CONSUMER_SHARED_SECRET: JSON.stringify({ acme: consumerSecret }),
      },
    });
    mock.answer("plain", { text: ["The", " answer."] });
    mock.answer("hostile", ({ earlier }) => hostileAnswers[earlier % hostileAnswers.length] as Answer);
    const { json: reference } = await server.get("/openapi.json", { key: keys.all });
    operations = operationsOf(reference as Reference).filter((operation) => !isFreeze(operation));
    ajv.addSchema(reference, "reference");
  });

  function operationOf({ method, template }: Pick<FuzzRequest, "method" | "template">): Operation {
    const found = operations.find((each) => each.method === method && each.path === template);
    assert.ok(found, `${method} ${template} is not told`);
    return found;
  }

  /** Sends a request over a connection of its own. The answer of an endless stream is its beginning. */
  async function send({ method, template, path, query, caller, headers, body }: FuzzRequest): Promise<RawAnswer> {
    const lines = headers.map(([name, value]) => `${name}: ${value}`);
    if (caller !== null) lines.push(`authorization: Bearer ${keys[caller]}`);
    if (caller !== null && template.startsWith("/internal/")) lines.push(`x-svc-consumer-secret: ${consumerSecret}`);
    const target = query === "" ? path : `${path}?${query}`;
    const named = headers.some(([name]) => name === "content-type");
    const bytes = rawRequest(method, target, lines, body);
    const connection = new RawConnection(server.url);
    try {
      // One content type: the drawn one.
      await connection.send(named ? bytes.replace("content-type: application/json\r\n", "") : bytes);
      if (method === "GET" && endless.has(template)) return await beginning(connection);
      const answer = await connection.answer();
      assert.ok(answer, "the connection was dropped without an answer");
      return answer;
    } finally {
      // A connection that closes in order keeps its port for a minute, and ports are few.
      connection.reset();
    }
  }

  /** Fails unless the answer is one of those that the reference has for the operation. */
  function check(request: FuzzRequest, answer: RawAnswer): void {
    const { status, headers, body } = answer;
    const seen = `${request.method} ${request.template} ${status}`;
    met.set(seen, (met.get(seen) ?? 0) + 1);
    if (headBytes(request) > headBytesMax - 500 && status === 431) return;
    assert.match(headers["x-request-id"] ?? "", /^[\x21-\x7e]{1,64}$/, "x-request-id");
    assert.equal(headers["x-content-type-options"], "nosniff");
    const type = (headers["content-type"] ?? "").split(";")[0] as string;
    const text = Buffer.from(body, "latin1").toString("utf8");
    assertDiscreet(text);
    const json: unknown = type === "application/json" ? JSON.parse(text) : undefined;
    if (status >= 500)
      assert.ok(namedFailures.has(codeOf(json).split(":")[0] as string), `${status} ${text.slice(0, 300)}`);
    if (status >= 400) assert.equal(type, "application/json");
    if (type === "text/event-stream") checkFrames(text);
    if (type === "application/x-ndjson") for (const line of text.split("\n")) if (line !== "") JSON.parse(line);
    if (!request.astray) assertTold(operationOf(request), status, type, text, json);
    else if (status >= 400) assertRefusal(json);
  }

  function assertTold(
    { method, path, responses }: Operation,
    status: number,
    type: string,
    text: string,
    json: unknown,
  ): void {
    const told = responses[status];
    // Builds the failure message only on a failure: the reference itself is among the answers.
    if (!told) assert.fail(`${status} is not told: ${JSON.stringify(json)?.slice(0, 300)}`);
    if (text === "" && told.content === undefined) return;
    // The reference describes files as bytes only.
    const media = told.content?.[type] ?? told.content?.["application/octet-stream"];
    assert.ok(media, `${status} ${type} is not told`);
    if (json === undefined) return;
    const steps = ["paths", path, method.toLowerCase(), "responses", String(status), "content", type, "schema"];
    assertFits(steps, json);
  }

  function assertRefusal(json: unknown): void {
    const forms = [
      "Refusal",
      "InvalidRequest",
      "Unauthorized",
      "MissingScopes",
      "BareRefusal",
      "SignInRefusal",
      "SkillRefusal",
      "OpenAiRefusal",
      "McpAnswer",
    ];
    const fits = forms.some((form) => validator(["components", "schemas", form])(json));
    if (!fits) assert.fail(JSON.stringify(json));
  }

  function assertFits(steps: readonly string[], json: unknown): void {
    const fits = validator(steps);
    if (!fits(json)) assert.fail(`${ajv.errorsText(fits.errors)} in ${JSON.stringify(json).slice(0, 300)}`);
  }

  function validator(steps: readonly string[]) {
    const pointer = steps.map((step) => encodeURIComponent(step.replaceAll("~", "~0").replaceAll("/", "~1")));
    const $id = `reference#/${pointer.join("/")}`;
    return ajv.getSchema($id) ?? ajv.compile({ $ref: $id });
  }

  /** No text of the server that shows its paths or its dependencies. */
  function assertDiscreet(text: string): void {
    for (const word of [
      server.dataDir,
      process.cwd(),
      "node_modules",
      "node:internal",
      "mock-provider-key",
      ...Object.values(keys),
    ])
      assert.ok(!text.includes(word), `${word} in ${text.slice(0, 500)}`);
    assert.doesNotMatch(text, /\.[tj]s:\d+:\d+|^\s+at [\w.<]+ \(/m);
  }

  for (const route of routes.filter((each) => !isFreeze(each))) {
    test(`${nameOf(route)}: every answer is one of the reference`, async () => {
      const operation = operationOf({ method: route.method, template: route.path });
      await fc.assert(
        fc.asyncProperty(requestOf(operation, manifestOf), async (request) => check(request, await send(request))),
        { ...asFar(weightOf(operation)), timeout: answerMsMax },
      );
    });
  }

  test("concurrent requests of all kinds get an answer of the reference", async () => {
    const any = fc.oneof(...operations.map((operation) => requestOf(operation, manifestOf)));
    await fc.assert(
      fc.asyncProperty(fc.array(any, { minLength: 2, maxLength: 12 }), async (requests) => {
        await Promise.all(requests.map(async (request) => check(request, await send(request))));
      }),
      { ...asFar(0.5), timeout: answerMsMax },
    );
  });

  test("an accepted manifest can be read again, and used or refused by name", async () => {
    await fc.assert(
      fc.asyncProperty(manifestOf("stored-3"), async (manifest) => {
        const as = { key: keys.all };
        const put = await server.request("PUT", "/manifests/stored-3", { ...as, body: { manifest } });
        assert.ok([200, 400, 422].includes(put.status), put.text);
        assertDiscreet(put.text);
        if (put.status !== 200) return assertFits(["components", "schemas", formOfRefusal(put.json)], put.json);

        const read = await server.get(`/manifests/stored-3?version=${put.json.version}`, as);
        const again = await server.request("PUT", "/manifests/stored-3", { ...as, body: { manifest } });
        const said = await server.post("/chat", turn("stored-3", "hi"), as);

        assert.deepEqual([read.status, read.json], [200, put.json]);
        assert.equal(again.json.version, put.json.version);
        assertDiscreet(said.text);
        const { error } = said.json;
        if (said.status >= 500) assert.ok(namedFailures.has(error.split(":")[0]), said.text);
        else assert.ok([200, 202, 403].includes(said.status), said.text);
      }),
      { ...asFar(1.5), timeout: answerMsMax },
    );
  });

  test("a thread id is the same everywhere, or refused everywhere", async () => {
    const as = { key: keys.all };
    await fc.assert(
      fc.asyncProperty(anyThreadId, async (id) => {
        const body = JSON.stringify(turn("agent", "hi", { thread_id: id }));
        const said = await server.post("/chat", body, as);
        if (!id.isWellFormed() || id.includes("\0")) {
          assert.equal(said.json.error, "invalid_json");
          return;
        }
        const segment = encodeURIComponent(id);
        const read = await server.get(`/chat/history/${segment}`, as);
        if (said.status === 200) assert.equal(said.json.thread_id, id === "" ? "" : `acme:${id}`);
        else assert.deepEqual([said.status, said.json.error], [400, "invalid_thread_id"]);
        // An id that was accepted in a body can be read by a path. New threads never have an old-style id.
        if (said.status === 200 && id !== "") assert.equal(read.status, 200, read.text);
        if (read.status === 200) {
          assert.ok(said.status === 200 || id === "search" || id.includes("%"));
          assert.equal(read.json.thread_id, `acme:${id}`);
          assert.equal(read.json.messages.at(-1)?.content, said.status === 200 ? "The answer." : undefined);
        } else assert.ok(["invalid_thread_id", "invalid_path", "not_found"].includes(read.json.error), read.text);
      }),
      { ...asFar(1.5), timeout: answerMsMax },
    );
  });

  test("every operation was met with success and with refusals", (t) => {
    const missed: string[] = [];
    for (const operation of operations) {
      const name = `${operation.method} ${operation.path}`;
      const count = (status: number): number => met.get(`${name} ${status}`) ?? 0;
      t.diagnostic(
        `${name}: ${Object.keys(operation.responses).map((status) => `${status} ${count(Number(status))}`)}`,
      );
      if (count(200) === 0) missed.push(name);
      if (operation.security.length > 0) assert.ok(count(401) + count(403) > 0, name);
      if (operation.requestBody) assert.ok(count(400) > 0 && count(413) + count(415) > 0, name);
    }
    assert.deepEqual(
      missed.filter((name) => !withToldIds.includes(name) && !needsFiles.test(name)),
      [],
    );
  });

  test("the server is healthy after all that", async () => {
    const { status, json } = await server.post("/chat", turn("agent", "hi"), { key: keys.all });

    assert.deepEqual([status, json.final.content], [200, "The answer."]);
    await assertUnharmed(server);
    assertRssBelow(server, rssMibMax);
    for (const { msg } of server.logs) assert.notEqual(msg, "request failed");
  });
}

/** Fewer requests for operations with fewer inputs. */
function weightOf({ parameters = [], requestBody }: Operation): number {
  return requestBody ? 1.5 : parameters.length > 0 ? 1 : 0.2;
}

/** Paths of streams that last as long as their client. */
const endless: ReadonlySet<string> = new Set(["/chat/stream/{thread_id}", "/events"]);

/** The beginning of an answer: with the first frame, if it is a stream. */
async function beginning(connection: RawConnection): Promise<RawAnswer> {
  await connection.until("\r\n\r\n");
  if (!/^content-type: text\/event-stream\r$/m.test(connection.unread)) {
    const answer = await connection.answer();
    assert.ok(answer, "the connection was dropped without an answer");
    return answer;
  }
  await connection.until("\n\n");
  const [head = ""] = connection.unread.split("\r\n\r\n", 1);
  const lines = head
    .split("\r\n")
    .slice(1)
    .map((line) => line.split(": ") as [string, string]);
  return { status: Number(head.slice(9, 12)), head, headers: Object.fromEntries(lines), body: "" };
}

function headBytes({ path, query, headers }: FuzzRequest): number {
  return headers.reduce((sum, [name, value]) => sum + Buffer.byteLength(name + value) + 4, path.length + query.length);
}

/** The code of a refusal, in any of their forms. */
function codeOf(json: unknown): string {
  const { error } = (json ?? {}) as { error?: unknown };
  return String(typeof error === "object" ? (error as { code?: unknown } | null)?.code : error);
}

function formOfRefusal({ detail }: { detail: unknown }): string {
  return Array.isArray(detail) ? "InvalidRequest" : detail === "workspace_changed" ? "ChangedFile" : "Refusal";
}

/** The end mark of a stream. Streams of /v1/responses have an event for it. */
const lastFrames: readonly string[] = ["[DONE]", "response.completed", "response.incomplete", "response.failed"];

/** The types of the last events of AG-UI. */
const lastTypes: readonly unknown[] = ["RUN_FINISHED", "RUN_ERROR"];

/** Fails unless the text is whole frames up to the end mark, without a failure of the server. */
function checkFrames(text: string): void {
  if (text === "") return;
  const frames = new FrameReader().push(text);
  const ends = frames.filter(({ name, json }) => lastFrames.includes(name) || lastTypes.includes(json?.type));
  assert.equal(ends.length, 1, `ends in ${ends.map(({ name }) => name)}`);
  assert.equal(frames.at(-1), ends[0]);
  assert.ok(!text.includes("internal error"), text.slice(-500));
}
