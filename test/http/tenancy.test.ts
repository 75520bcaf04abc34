// Threat 1 and decision 4, generated from the route table: an object of another tenant is answered like an unknown id.
import assert from "node:assert/strict";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { before, describe, test } from "node:test";
import Database from "better-sqlite3";
import type { OwnedKind, Route, TenancySample } from "../../http/route.ts";
import { gif } from "../support/image-bytes.ts";
import { apiKeys, startServer, type TestServer } from "../support/server.ts";
import { skillText } from "../support/skills.ts";
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
const ownersDataset = "a-dataset-of-acme-01";
const ownersWorkflow = "workflow-acme-01";
const ownersSkill = "skill-of-acme-01";
const ownersArtifact = "01234567-89ab-4cde-8f01-23456789abcd";
const ownersQuarantined = "a-text-of-acme-01";
const ownersNames = {
  thread: ownersThread,
  manifest: ownersManifest,
  plan: ownersPlan,
  job: ownersJob,
  eval_dataset: ownersDataset,
  artifact: ownersArtifact,
  quarantined: ownersQuarantined,
  skill: ownersSkill,
  workflow: ownersWorkflow,
};
const messages = [{ role: "user", content: "hi" }];
const nobodys = ["nobodys-thing-01", "nobodys-thing-02"] as const;
/** Ids of responses contain their position. */
const nobodysResponses = [
  `resp_${"a".repeat(32)}${"0".repeat(16)}`,
  `resp_${"b".repeat(32)}${"0".repeat(16)}`,
] as const;

/** The samples that the routes declare. */
const samples: readonly Sample[] = routes.flatMap((route) =>
  route.tenancy.map((sample) => ({ route: nameOf(route), ...sample })),
);
interface Sample extends TenancySample {
  readonly route: string;
}

/** Ids of files and of runs are random. */
const nobodysIds = ["0".repeat(32), "f".repeat(32)] as const;
const idFields =
  /^(thread_id|response_id|previous_response_id|name|manifest|manifest_id|model|file|file_id|plan_id|resume_token|run_id|quarantine_id|doc_id|memory_id|dataset_name|workflow_id|key_id)$/;

/** Stores an artifact of the owner, whose manifest has the name of its id. */
function storeArtifact(dataDir: string): void {
  const folder = join(dataDir, "objects/artifacts/acme", ownersArtifact);
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, `${ownersArtifact}.txt`), "the owner's secret");
  const db = new Database(join(dataDir, "svc.db"), { timeout: 10_000 });
  db.prepare("INSERT INTO artifacts VALUES ('acme', ?, ?, 'report', '[]', 18, 18, 5, 'kept', NULL)").run(
    ownersArtifact,
    ownersArtifact,
  );
  db.close();
}

/** Stores a quarantined text of the owner. */
function storeQuarantined(dataDir: string): void {
  const db = new Database(join(dataDir, "svc.db"), { timeout: 10_000 });
  db.prepare(
    "INSERT INTO quarantine VALUES ('acme', ?, 5, NULL, NULL, '', 'm', 'fetch', 'c', '[]', 'the owner''s secret', 18)",
  ).run(ownersQuarantined);
  db.close();
}

function takesId(route: Route): boolean {
  // Queue consumers get their tenant from their secret: see spec/queues.test.ts.
  if (route.admit !== null) return false;
  // The name of a new key is for people.
  if (nameOf(route) === "POST /keys") return false;
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
  let ownersDocument: string;
  let ownersMemory: string;
  let ownersEvalRun: string;
  let ownersWorkflowRun: string;
  let ownersKey: string;
  before(async () => {
    const root = tempDir(atEnd);
    const files = join(root, ".svc-scopes", "acme", "threads", ownersThread);
    mkdirSync(join(files, "b"), { recursive: true });
    writeFileSync(join(files, "a"), "the owner's file");
    server = await startServer({ env: { ...env, SVC_WORKSPACE_ROOT: root, SVC_RUNTIME_KEYS: "true" }, atEnd });
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
    const items = [{ user_input: "the owner's secret", rubric: { mock_answer: "the owner's secret" } }];
    await server.request("PUT", `/eval/datasets/${ownersDataset}`, { ...as, body: { items } });
    const evaluation = { dataset_name: ownersDataset, candidate_manifest: ownersManifest, mock: true };
    ownersEvalRun = (await server.request("POST", "/eval/runs", { ...as, body: evaluation })).json.id;
    const steps = [{ id: "a", kind: "template", config: { text: "the owner's secret" } }];
    const workflow = { name: "the owner's secret", definition: { steps, outputs: { text: "$steps.a.text" } } };
    await server.request("PUT", `/workflows/${ownersWorkflow}`, { ...as, body: workflow });
    const begun = await server.request("POST", `/workflows/${ownersWorkflow}/runs`, { ...as, body: {} });
    ownersWorkflowRun = begun.json.run_id;
    const response = { model: ownersManifest, input: "the owner's secret" };
    ownersResponse = (await server.request("POST", "/v1/responses", { ...as, body: response })).json.id;
    const document = { title: "the owner's secret", text: "the owner's secret" };
    ownersDocument = (await server.request("POST", "/documents", { ...as, body: document })).json.doc_id;
    const memory = { content: "the owner's secret", manifest_id: ownersManifest };
    ownersMemory = (await server.request("POST", "/memory", { ...as, body: memory })).json.id;
    ownersKey = (await server.request("POST", "/keys", { ...as, body: { scopes: [] } })).json.id;
    const skill = { files: { "SKILL.md": skillText(ownersSkill, "The owner's secret.") } };
    await server.request("POST", "/skill-library", { ...as, body: skill });
    storeArtifact(server.dataDir);
    storeQuarantined(server.dataDir);
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

  test("has a sample on every route that takes an id, and on no other", () => {
    const sampled = routes.filter(({ tenancy }) => tenancy.length > 0);

    assert.deepEqual(routes.filter(takesId).map(nameOf), sampled.map(nameOf));
  });

  for (const sample of samples) {
    const { route, query } = sample;
    const what = sample.of === "response" && sample.body ? " after a response" : "";
    test(`AUTH-010 ${route}${query ? `?${query("")}` : ""}${what} answers another tenant's id and an unknown id with the same bytes`, async () => {
      const made = {
        ...{ file: ownersFile, run: ownersRun, response: ownersResponse },
        ...{ document: ownersDocument, memory: ownersMemory },
        eval_run: ownersEvalRun,
        workflow_run: ownersWorkflowRun,
        key: ownersKey,
      };
      const theirs: Readonly<Record<OwnedKind, string>> = { ...ownersNames, ...made };
      const unknown = sample.of === "response" ? nobodysResponses : sample.of in made ? nobodysIds : nobodys;
      const [nobodys1, nobodys2] = unknown;
      const nobodysAnswer = await ask(sample, nobodys1);
      const theirAnswer = await ask(sample, theirs[sample.of]);
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
    const quarantined = await server.get(`/quarantine/${ownersQuarantined}`, as);
    assert.equal(quarantined.text, "the owner's secret");
    const artifact = await server.get(`/artifacts/${ownersArtifact}/${ownersArtifact}`, as);
    assert.equal(artifact.json.content, "the owner's secret");
    const versions = await server.get(`/manifests/${ownersManifest}/versions`, as);

    const file = await server.get(`/files/${ownersFile}`, as);

    const response = await server.get(`/v1/responses/${ownersResponse}`, as);

    const plan = await server.get(`/plans/${ownersPlan}`, as);

    const run = await server.get(`/chat/runs/${ownersRun}`, as);

    const documents = await server.get("/documents/search?q=secret", as);
    assert.equal(documents.json.items[0].content, "the owner's secret");
    const memories = await server.get("/memory", as);
    assert.equal(memories.json.items[0].content, "the owner's secret");
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
      "/eval/datasets",
      "/eval/runs",
      "/workflows",
      "/documents",
      "/documents/search?q=secret",
      "/memory",
      "/memory/search?q=secret",
      "/memory/as-of/9",
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
