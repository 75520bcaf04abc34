// Threat 1 and decision 4, generated from the route table: an object of another tenant is answered like an unknown id.
import assert from "node:assert/strict";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { before, describe, test } from "node:test";
import Database from "better-sqlite3";
import type { Route } from "../../http/route.ts";
import { gif } from "../support/image-bytes.ts";
import { apiKeys, startServer, type TestServer } from "../support/server.ts";
import { cleanup, tempDir } from "../support/temp.ts";
import { nameOf, routes } from "./support.ts";

const { env, keys } = apiKeys({
  owner: { tenant_id: "acme", scopes: ["*"] },
  stranger: { tenant_id: "globex", scopes: ["*"] },
});

// Names of equal length, so that the lengths of answers can be compared.
const ownersThread = "thread-of-acme-1";
const ownersManifest = "agent-of-acme-01";
const ownersDurable = "a-durable-of-acme";
const ownersPlan = "a-plan-of-acme-1";
const ownersJob = "a-job-of-acme-01";
const ownersArtifact = "01234567-89ab-4cde-8f01-23456789abcd";
const nobodys = ["nobodys-thing-01", "nobodys-thing-02"] as const;
/** Ids of responses contain their position. */
const nobodysResponses = [
  `resp_${"a".repeat(32)}${"0".repeat(16)}`,
  `resp_${"b".repeat(32)}${"0".repeat(16)}`,
] as const;

/** A request with an id in its path, query or body. */
interface Sample {
  readonly route: string;
  /** The owner's object of this kind. */
  readonly theirs: string;
  readonly query?: (id: string) => string;
  readonly body?: (id: string) => object;
}

const messages = [{ role: "user", content: "hi" }];
const thread = (route: string, rest: Omit<Sample, "route" | "theirs"> = {}) => ({
  route,
  theirs: ownersThread,
  ...rest,
});
const manifest = (route: string, rest: Omit<Sample, "route" | "theirs"> = {}) => ({
  route,
  theirs: ownersManifest,
  ...rest,
});

const anEvent = "0".repeat(32);

/** Samples for every route that takes an id. */
const samples: readonly Sample[] = [
  manifest("POST /chat", { body: (id) => ({ manifest: id, messages }) }),
  manifest("POST /chat/stream", { body: (id) => ({ manifest: id, messages }) }),
  thread("POST /chat/continue", { body: (id) => ({ thread_id: id }) }),
  thread("POST /chat/abort", { body: (id) => ({ thread_id: id }) }),
  // Setting a level would create a thread of the stranger.
  thread("POST /chat/thinking", { body: (id) => ({ thread_id: id, thinking_level: null }) }),
  // Setting a style would create a thread of the stranger.
  thread("POST /chat/style", { body: (id) => ({ thread_id: id, style: null }) }),
  thread("POST /chat/style", { body: (id) => ({ thread_id: id, style: "terse" }) }),
  manifest("POST /chat/style", { body: (id) => ({ thread_id: "styled", style: "terse", manifest: id }) }),
  thread("POST /chat/tool_result", { body: (id) => ({ thread_id: id, tool_call_id: "call" }) }),
  // Setting a mode would create a thread of the stranger.
  thread("POST /chat/mode", { body: (id) => ({ thread_id: id, mode: "plan", manifest: "nobodys" }) }),
  manifest("POST /chat/mode", { body: (id) => ({ thread_id: "moded", mode: "plan", manifest: id }) }),
  thread("POST /chat/ui", { body: (id) => ({ thread_id: id, request_id: "question" }) }),
  thread("GET /chat/stream/{thread_id}"),
  thread("GET /chat/history/{thread_id}"),
  thread("DELETE /chat/history/{thread_id}"),
  thread("GET /chat/sessions/{thread_id}"),
  thread("GET /chat/sessions/{thread_id}", { query: () => "branches=all" }),
  thread("GET /chat/sessions/{thread_id}/export"),
  thread("POST /chat/fork", { body: (id) => ({ thread_id: id, new_thread_id: "a-copy" }) }),
  thread("POST /chat/compact", { body: (id) => ({ thread_id: id, manifest: "agent" }) }),
  manifest("POST /chat/compact", { body: (id) => ({ thread_id: "compacted", manifest: id }) }),
  thread("POST /chat/rewind", { body: (id) => ({ thread_id: id, event_id: anEvent }) }),
  thread("POST /chat/sessions/name", { body: (id) => ({ thread_id: id, name: "mine" }) }),
  thread("POST /chat/sessions/label", { body: (id) => ({ thread_id: id, event_id: anEvent, label: "mine" }) }),
  thread("POST /chat/sessions/feedback", { body: (id) => ({ thread_id: id, event_id: anEvent, rating: "up" }) }),
  thread("POST /chat/sessions/custom", { body: (id) => ({ thread_id: id, content: "mine" }) }),
  // Taking a lease would create a thread of the stranger.
  thread("POST /chat/sessions/lease", { body: (id) => ({ thread_id: id, holder_id: "me", ttl_seconds: 1 }) }),
  thread("POST /chat/sessions/lease/release", { body: (id) => ({ thread_id: id }) }),
  thread("GET /chat/sessions/{thread_id}/lease"),
  thread("POST /chat/ask", { body: (id) => ({ thread_id: id, question: "what?" }) }),
  // A queued message creates a thread of the stranger, here and for an unknown id.
  thread("POST /chat/steer", { body: (id) => ({ thread_id: id, text: "mine", kind: "follow_up" }) }),
  // A note would create one too, with its own id.
  thread("POST /chat/workspace/edited", { body: (id) => ({ thread_id: id, path: "a", to_path: "b" }) }),
  thread("GET /chat/workspace/tree", { query: (id) => `thread_id=${id}` }),
  manifest("GET /chat/workspace/tree", { query: (id) => `thread_id=a-workspace&manifest=${id}` }),
  thread("GET /chat/workspace/file", { query: (id) => `thread_id=${id}&path=a` }),
  // The expected hash keeps the request from creating a file.
  thread("POST /chat/workspace/write", {
    body: (id) => ({ thread_id: id, path: "a", content: "mine", expected_sha256: "0".repeat(64) }),
  }),
  thread("POST /chat/workspace/delete", { body: (id) => ({ thread_id: id, path: "a" }) }),
  thread("POST /chat/workspace/delete_folder", { body: (id) => ({ thread_id: id, path: "b" }) }),
  thread("POST /chat/workspace/rename", { body: (id) => ({ thread_id: id, path: "a", to_path: "c" }) }),
  thread("POST /chat/workspace/rename_folder", { body: (id) => ({ thread_id: id, path: "b", to_path: "c" }) }),
  manifest("POST /v1/chat/completions", { body: (id) => ({ model: id, messages }) }),
  manifest("GET /v1/models/{name}"),
  manifest("POST /v1/embeddings", { body: (id) => ({ model: id, input: "hi" }) }),
  manifest("POST /v1/responses", { body: (id) => ({ model: id, input: "hi" }) }),
  {
    route: "POST /v1/responses",
    theirs: "response",
    body: (id) => ({ model: "quick", input: "hi", previous_response_id: id }),
  },
  { route: "GET /v1/responses/{response_id}", theirs: "response" },
  { route: "GET /v1/responses/{response_id}/input_items", theirs: "response" },
  { route: "DELETE /v1/responses/{response_id}", theirs: "response" },
  { route: "POST /v1/responses/{response_id}/cancel", theirs: "response" },
  manifest("GET /audit", { query: (id) => `manifest_id=${id}` }),
  manifest("GET /audit/export", { query: (id) => `manifest_id=${id}&until=9` }),
  thread("GET /approvals", { query: (id) => `thread_id=${id}` }),
  thread("GET /usage", { query: (id) => `thread_id=${id}` }),
  manifest("GET /usage", { query: (id) => `manifest_id=${id}` }),
  manifest("GET /usage/summary", { query: (id) => `manifest_id=${id}&since_ms=1&until_ms=9` }),
  manifest("GET /manifests/{name}"),
  manifest("GET /manifests/{name}", { query: () => "version=1" }),
  thread("GET /manifests/{name}", { query: () => "thread_id=t" }),
  manifest("GET /manifests/{name}/versions"),
  manifest("PUT /manifests/{name}", { body: (id) => ({ manifest: { metadata: { name: `${id}x` } } }) }),
  manifest("POST /manifests/{name}/canary", { body: () => ({ canary_version: 1, canary_weight: 100 }) }),
  manifest("DELETE /manifests/{name}/canary"),
  manifest("POST /manifests/{name}/rollback", { body: () => ({ version: 1 }) }),
  manifest("GET /docs/{file}"),
  thread("GET /plans", { query: (id) => `thread_id=${id}` }),
  { route: "GET /plans/{plan_id}", theirs: ownersPlan },
  // Without the expected time the request would create a plan.
  { route: "PUT /plans/{plan_id}", theirs: ownersPlan, body: () => ({ plan: {}, expected_updated_at: 1 }) },
  { route: "DELETE /plans/{plan_id}", theirs: ownersPlan },
  { route: "GET /chat/stream/{thread_id}", theirs: "run", query: (id) => `resume_token=${id}` },
  { route: "GET /chat/runs/{resume_token}", theirs: "run" },
  { route: "GET /chat/runs/{resume_token}/stream", theirs: "run" },
  { route: "POST /chat/runs/{resume_token}/abort", theirs: "run" },
  { route: "GET /runs/{run_id}", theirs: "run" },
  { route: "GET /runs/{run_id}/timeline", theirs: "run" },
  { route: "GET /runs/{run_id}/requests/{n}", theirs: "run" },
  { route: "POST /runs/{run_id}/cancel", theirs: "run" },
  { route: "POST /runs/{run_id}/retry", theirs: "run" },
  { route: "POST /runs/{run_id}/requeue", theirs: "run" },
  { route: "POST /runs/release", theirs: "run", body: (id) => ({ token: id }) },
  manifest("POST /runs/requeue", { body: (id) => ({ manifest: id }) }),
  { route: "GET /jobs/{name}", theirs: ownersJob },
  { route: "GET /jobs/{name}/runs", theirs: ownersJob },
  // The request would create a job of the stranger.
  {
    route: "PUT /jobs/{name}",
    theirs: ownersJob,
    body: () => ({ manifest_id: "nobodys", payload: { prompt: "mine" } }),
  },
  manifest("PUT /jobs/{name}", { body: (id) => ({ manifest_id: id, payload: { prompt: "mine" } }) }),
  { route: "POST /jobs/{name}/run", theirs: ownersJob },
  { route: "DELETE /jobs/{name}", theirs: ownersJob },
  { route: "POST /tasks/{name}/run", theirs: ownersJob },
  { route: "GET /files/{file_id}", theirs: "file" },
  { route: "DELETE /files/{file_id}", theirs: "file" },
  { route: "GET /artifacts/{manifest_id}/{artifact_id}", theirs: ownersArtifact },
];
/** Ids of files and of runs are random. */
const nobodysIds = ["0".repeat(32), "f".repeat(32)] as const;
const idFields =
  /^(thread_id|response_id|previous_response_id|name|manifest|manifest_id|model|file|file_id|plan_id|resume_token|run_id)$/;

/** Stores an artifact of the owner, whose manifest has the name of its id. */
function storeArtifact(dataDir: string): void {
  const folder = join(dataDir, "objects/artifacts/acme", ownersArtifact);
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, `${ownersArtifact}.txt`), "the owner's secret");
  const db = new Database(join(dataDir, "svc.db"), { timeout: 10_000 });
  db.prepare("INSERT INTO artifacts VALUES ('acme', ?, ?, 'report', 18, 18, 5, 'kept', NULL)").run(
    ownersArtifact,
    ownersArtifact,
  );
  db.close();
}

function takesId(route: Route): boolean {
  // Queue consumers get their tenant from their secret: see spec/queues.test.ts.
  if (route.admit !== null) return false;
  const fields = [route.params, route.query, route.body].flatMap((schema) =>
    Object.keys((schema as { properties?: object } | null)?.properties ?? {}),
  );
  return fields.some((field) => idFields.test(field));
}

describe("an id of another tenant", () => {
  const atEnd = cleanup();
  let server: TestServer;
  let ownersFile: string;
  let ownersRun: string;
  let ownersResponse: string;
  before(async () => {
    const root = tempDir(atEnd);
    const files = join(root, ".svc-scopes", "acme", "threads", ownersThread);
    mkdirSync(join(files, "b"), { recursive: true });
    writeFileSync(join(files, "a"), "the owner's file");
    server = await startServer({ env: { ...env, SVC_WORKSPACE_ROOT: root }, atEnd });
    const as = { key: keys.owner };
    for (const description of ["first", "second"]) {
      const manifest = { metadata: { name: ownersManifest, description } };
      await server.request("PUT", `/manifests/${ownersManifest}`, { ...as, body: { manifest } });
    }
    const secret = [{ role: "user", content: "the owner's secret" }];
    const turn = await server.request("POST", "/chat", {
      ...as,
      body: { manifest: ownersManifest, thread_id: ownersThread, messages: secret },
    });
    assert.equal(turn.status, 200, turn.text);
    const durable = { metadata: { name: ownersDurable }, spec: { execution: { mode: "durable" } } };
    await server.request("PUT", `/manifests/${ownersDurable}`, { ...as, body: { manifest: durable } });
    const run = { manifest: ownersDurable, messages: secret };
    ownersRun = (await server.request("POST", "/chat", { ...as, body: run })).json.resume_token;
    const file = { data: gif.toString("base64"), media_type: "image/gif" };
    const plan = { plan: { secret: "the owner's" } };
    await server.request("PUT", `/plans/${ownersPlan}`, { ...as, body: plan });
    const job = { manifest_id: ownersManifest, payload: { prompt: "the owner's secret" } };
    await server.request("PUT", `/jobs/${ownersJob}`, { ...as, body: job });
    const response = { model: ownersManifest, input: "the owner's secret" };
    ownersResponse = (await server.request("POST", "/v1/responses", { ...as, body: response })).json.id;
    storeArtifact(server.dataDir);
    ownersFile = (await server.request("POST", "/files", { ...as, body: file })).json.file_id;
  });

  /** An answer without the values that differ in every answer; the requested id reads ID. */
  async function ask({ route, query, body }: Sample, id: string) {
    const [method = "", template = ""] = route.split(" ");
    const path = template.replace("{n}", "1").replaceAll(/\{\w+\}/g, id) + (query === undefined ? "" : `?${query(id)}`);
    const stream = await server.stream(path, body?.(id), { method, key: keys.stranger });
    let text = "";
    if (stream.headers["content-type"] === "text/event-stream") {
      text = (await stream.next())?.raw ?? "";
      stream.close();
    } else for await (const piece of stream.bytes()) text += piece;
    const { "x-request-id": _id, date: _date, ...headers } = stream.headers;
    return {
      status: stream.status,
      headers: JSON.stringify(headers).replaceAll(id, "ID"),
      text: text.replaceAll(id, "ID"),
    };
  }

  test("is tested here on every route that takes an id", () => {
    const known = new Set(samples.map(({ route }) => route));

    assert.deepEqual(routes.filter(takesId).map(nameOf).sort(), [...known].sort());
  });

  for (const sample of samples) {
    const { route, query } = sample;
    const what = sample.theirs === "response" && sample.body ? " after a response" : "";
    test(`AUTH-010 ${route}${query ? `?${query("")}` : ""}${what} answers another tenant's id and an unknown id with the same bytes`, async () => {
      const told: Readonly<Record<string, string>> = { file: ownersFile, run: ownersRun, response: ownersResponse };
      const isResponse = sample.theirs === "response";
      const [nobodys1, nobodys2] = isResponse ? nobodysResponses : sample.theirs in told ? nobodysIds : nobodys;
      const nobodysAnswer = await ask(sample, nobodys1);
      const theirAnswer = await ask(sample, told[sample.theirs] ?? sample.theirs);
      const again = await ask(sample, nobodys2);

      assert.deepEqual(theirAnswer, nobodysAnswer);
      assert.deepEqual(again, nobodysAnswer);
      // The compared answers have content: a stream's first frame, a list, or a refusal.
      if (!route.endsWith("/export")) assert.notEqual(theirAnswer.text, "");
    });
  }

  test("AUTH-010 changes nothing of its owner's", async () => {
    const as = { key: keys.owner };

    const history = await server.get(`/chat/history/${ownersThread}`, as);
    const artifact = await server.get(`/artifacts/${ownersArtifact}/${ownersArtifact}`, as);
    assert.equal(artifact.json.content, "the owner's secret");
    const versions = await server.get(`/manifests/${ownersManifest}/versions`, as);

    const file = await server.get(`/files/${ownersFile}`, as);

    const response = await server.get(`/v1/responses/${ownersResponse}`, as);

    const plan = await server.get(`/plans/${ownersPlan}`, as);

    const run = await server.get(`/chat/runs/${ownersRun}`, as);

    assert.equal(run.json.manifest_id, ownersDurable);
    assert.notEqual(run.json.error, "aborted");
    const job = await server.get(`/jobs/${ownersJob}`, as);

    assert.deepEqual([job.json.payload.prompt, job.json.last_run_at], ["the owner's secret", null]);
    assert.equal(plan.json.plan.secret, "the owner's");
    assert.equal(response.status, 200, response.text);
    assert.equal(file.json.data, gif.toString("base64"));
    assert.equal(history.json.messages[0].content, "the owner's secret");
    const told = versions.json.items.map(({ version, active, canary }: Record<string, unknown>) => [
      version,
      active,
      canary,
    ]);
    assert.deepEqual(told, [
      [2, true, false],
      [1, false, false],
    ]);
  });

  test("AUTH-010 is in no list of the asking tenant", async () => {
    const as = { key: keys.stranger };
    for (const path of [
      "/audit",
      "/audit/export",
      "/usage",
      "/usage/threads",
      "/approvals",
      "/plans",
      "/jobs",
      "/chat/sessions",
      "/chat/sessions/search?q=secret",
      "/manifests",
      "/v1/models",
    ]) {
      const { status, text } = await server.get(path, as);

      assert.equal(status, 200, path);
      for (const word of ["acme", "owner", "secret"])
        assert.ok(!text.replace('"query":"secret"', "").includes(word), `${path}: ${text}`);
    }
  });

  test("AUTH-010 with the same suffix is another thread", async () => {
    const own = [{ role: "user", content: "the stranger's own" }];

    const turn = await server.request("POST", "/chat", {
      key: keys.stranger,
      body: { manifest: "quick", thread_id: ownersThread, messages: own },
    });
    const theirs = await server.get(`/chat/history/${ownersThread}`, { key: keys.owner });

    assert.equal(turn.json.thread_id, `globex:${ownersThread}`);
    assert.ok(!turn.text.includes("the owner's secret"));
    assert.ok(!theirs.text.includes("the stranger's own"));
  });

  test("AUTH-001 a request that names another tenant is refused or changes nothing", async () => {
    const own = { manifest: "quick", thread_id: "named-elsewhere", messages };
    const elsewhere = {
      key: keys.stranger,
      headers: { "x-tenant-id": "acme", "x-svc-tenant": "acme", tenant: "acme" },
    };

    const inBody = await server.request("POST", "/chat", { ...elsewhere, body: { ...own, tenant_id: "acme" } });
    const inHeader = await server.request("POST", "/chat?tenant_id=acme&tenant=acme", { ...elsewhere, body: own });
    const inOpenBody = await server.request("POST", "/v1/chat/completions", {
      ...elsewhere,
      body: { model: "quick", user: "named-in-v1", messages, tenant_id: "acme", metadata: { tenant_id: "acme" } },
    });

    assert.deepEqual([inBody.status, inBody.json.detail[0].loc], [422, ["body", "tenant_id"]]);
    assert.equal(inHeader.json.thread_id, "globex:named-elsewhere");
    assert.equal(inOpenBody.status, 200);
    const sessionsOf = async (key: string) => {
      const { json } = await server.get("/chat/sessions?tenant_id=acme", { key });
      return json.items.map(({ id }: { id: string }) => id);
    };
    assert.ok((await sessionsOf(keys.stranger)).includes("globex:named-in-v1"));
    const ofResponse = `acme:resp-${ownersResponse.slice(5, 37)}`;
    assert.deepEqual((await sessionsOf(keys.owner)).sort(), [ofResponse, `acme:${ownersThread}`]);
  });

  test("AUTH-010 is refused alike as a full id, whether the thread exists or not", async () => {
    for (const suffix of [ownersThread, ...nobodys]) {
      for (const path of [
        `/usage?thread_id=acme:${suffix}`,
        `/chat/history/acme:${suffix}`,
        `/manifests/quick?thread_id=acme:${suffix}`,
      ]) {
        const { status, text } = await server.get(path, { key: keys.stranger });

        const message = `Answers show a thread id as tenant, colon and suffix. Send only the suffix: ${suffix}.`;
        const body = { error: "invalid_thread_id", detail: "invalid_thread_id", message };
        assert.deepEqual([status, JSON.parse(text)], [400, body], path);
      }
    }
  });
});
