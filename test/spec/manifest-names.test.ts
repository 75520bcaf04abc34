// A manifest with only a name, and the places in which its name appears.
import assert from "node:assert/strict";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { before, describe, test } from "node:test";
import OpenAI from "openai";
import { eventually } from "../support/eventually.ts";
import { type MockModel, startMockModel } from "../support/mock-model.ts";
import { apiKeys, modelEnv, startServer, type TestServer } from "../support/server.ts";
import { cleanup, tempDir } from "../support/temp.ts";

const { env: keyed, keys } = apiKeys({
  alice: { scopes: ["admin"] },
  stranger: { tenant_id: "globex", scopes: ["admin"] },
});

/** Names of every kind that the pattern allows. Each is used unescaped as a segment of keys and paths. */
const names = [
  "a",
  "Agent.v2_x-1",
  "0",
  "-",
  "_",
  "...",
  ".hidden",
  "a.",
  "-x",
  "a..b",
  "A",
  "x.json",
  "n".repeat(128),
];

describe("manifests and their names", () => {
  const atEnd = cleanup();
  let server: TestServer;
  let mock: MockModel;
  let objects: string;
  let directory: string;
  before(async () => {
    mock = await startMockModel();
    atEnd.after(() => mock.close());
    mock.answer("default-model", { text: "hello" });
    directory = tempDir(atEnd);
    objects = tempDir(atEnd);
    writeFileSync(join(directory, "filed.yaml"), "metadata: {name: filed}\n");
    writeFileSync(join(directory, "nameless.yaml"), "spec: {}\n");
    for (const name of [...names, "objected"]) place(name, name);
    server = await startServer({
      atEnd,
      env: {
        ...keyed,
        ...modelEnv(mock, ["default-model"]),
        SVC_MANIFEST_DIR: directory,
        SVC_OBJECT_STORE_PATH: objects,
      },
    });
  });

  /** Writes a manifest of tenant acme to its place in the object store, under `segment`. */
  function place(segment: string, name: string): void {
    const folder = join(objects, "manifests", "acme");
    mkdirSync(folder, { recursive: true });
    writeFileSync(join(folder, `${segment}.json`), JSON.stringify({ metadata: { name } }));
  }

  const at = (name: string) => `/manifests/${encodeURIComponent(name)}`;
  const chat = (manifest: string, key = keys.alice) =>
    server.post("/chat", { manifest, messages: [{ role: "user", content: "hi" }] }, { key });
  const client = (key = keys.alice) => new OpenAI({ baseURL: `${server.url}/v1`, apiKey: key, maxRetries: 0 });

  for (const name of ["stored", "filed", "objected"]) {
    test(`SPEC-003 a manifest with only metadata.name answers a chat, ${name}`, async () => {
      if (name === "stored") {
        const { status, json } = await server.request("PUT", at(name), {
          key: keys.alice,
          body: { manifest: { metadata: { name } } },
        });
        assert.deepEqual([status, json.manifest], [200, { metadata: { name } }]);
      }
      const from = mock.requests.length;

      const whole = await chat(name);
      const stream = await server.stream(
        "/chat/stream",
        { manifest: name, thread_id: `only-${name}`, messages: [{ role: "user", content: "hi" }] },
        { key: keys.alice },
      );
      const done = await stream.until("done");
      const more = await server.post(
        "/chat",
        { manifest: name, thread_id: `only-${name}`, messages: [{ role: "user", content: "again" }] },
        { key: keys.alice },
      );

      // The defaults: a react agent with the default model and memory, without tools or prompt.
      assert.deepEqual([whole.status, whole.json.final.content, whole.json.model], [200, "hello", "default-model"]);
      assert.equal(done.json.data.final.content, "hello");
      assert.equal(more.json.messages.length, 4);
      for (const { body } of mock.requests.slice(from)) {
        assert.equal(body.tools, undefined);
        assert.ok((body.messages as { role: string }[]).every(({ role }) => role !== "system"));
      }
      const { json } = await server.get(at(name), { key: keys.alice });
      assert.equal(json.manifest.metadata.name, name);
    });
  }

  test("SPEC-003 a manifest needs metadata with a name", async () => {
    for (const [manifest, loc] of [
      [{}, ["metadata"]],
      [{ spec: {} }, ["metadata"]],
      [{ metadata: null }, ["metadata"]],
      [{ metadata: "stored-never" }, ["metadata"]],
      [{ metadata: {} }, ["metadata", "name"]],
      [{ metadata: { version: "1" } }, ["metadata", "name"]],
      [{ metadata: { name: "stored-never" }, spec: null }, ["spec"]],
    ] as const) {
      const { status, json } = await server.request("PUT", at("stored-never"), { key: keys.alice, body: { manifest } });

      assert.deepEqual([status, json.error], [422, "invalid_manifest"], JSON.stringify(manifest));
      assert.deepEqual(json.detail[0].loc, loc, JSON.stringify(json));
    }
    const filed = await chat("nameless");
    const never = await chat("stored-never");

    assert.deepEqual([filed.status, filed.json.error], [422, "invalid_manifest"]);
    assert.deepEqual([never.status, never.json.error], [404, "unknown_manifest:stored-never"]);
  });

  for (const name of names) {
    test(`SPEC-005 ${name.slice(0, 20)} is one name in all four places`, async () => {
      const turn = await chat(name);
      const completion = await client().chat.completions.create({
        model: name,
        user: `named-${names.indexOf(name)}`,
        messages: [{ role: "user", content: "hi" }],
      });
      const listed = await server.get("/manifests", { key: keys.alice });
      const got = await server.get(at(name), { key: keys.alice });
      const models = await Array.fromAsync(client().models.list());
      const audit = await untilAudited(name);
      const foreign = await chat(name, keys.stranger);

      // The object manifests/acme/{name}.json is the manifest with this id.
      assert.equal(turn.status, 200, turn.text);
      assert.equal(got.json.manifest.metadata.name, name);
      const { items } = listed.json as { items: { name: string; source: string }[] };
      assert.deepEqual(
        items.filter((item) => item.name === name).map(({ source }) => source),
        ["object"],
      );
      // The name is the model id in the OpenAI protocol.
      assert.equal(completion.model, name);
      assert.equal(models.filter(({ id }) => id === name).length, 1);
      // Both turns have audit rows.
      assert.ok(audit.some(({ payload }) => JSON.stringify(payload).includes("hi")));
      // Other tenants do not see the manifest, because its object lies in the tenant's own folder.
      assert.deepEqual([foreign.status, foreign.json.error], [404, `unknown_manifest:${name}`]);
    });
  }

  /** The audit rows of a manifest, once both turns are there. */
  function untilAudited(name: string): Promise<{ manifest_id: string; event_type: string; payload: object }[]> {
    return eventually("two turns in the audit", async () => {
      const { json } = await server.get(`/audit?manifest_id=${encodeURIComponent(name)}`, { key: keys.alice });
      const rows = json.items as { manifest_id: string; event_type: string; payload: object }[];
      for (const row of rows) assert.equal(row.manifest_id, name);
      return rows.filter(({ event_type }) => event_type === "user_input").length === 2 ? rows : undefined;
    });
  }

  test("SPEC-005 an object under another name than its own is refused and stored nowhere", async () => {
    place("segment", "other");

    const bySegment = await chat("segment");
    const byName = await chat("other");

    assert.deepEqual([bySegment.status, bySegment.json.error], [422, "invalid_manifest"]);
    assert.match(bySegment.json.detail[0].msg, /manifests\/acme\/segment\.json/);
    assert.deepEqual([byName.status, byName.json.error], [404, "unknown_manifest:other"]);
    const stored = await server.request("PUT", at("segment-2"), {
      key: keys.alice,
      body: { manifest: { metadata: { name: "other" } } },
    });
    assert.deepEqual([stored.status, stored.json.error], [400, "name_mismatch"]);
  });

  test("SPEC-005 an invalid name is refused in all four places", async () => {
    for (const name of ["", ".", "..", "a/b", "a b", "é", "a\\b", "a:b", "n".repeat(129), "a%2Fb", "a\n"]) {
      const turn = await chat(name);
      const completion = await server.post(
        "/v1/chat/completions",
        { model: name, messages: [{ role: "user", content: "hi" }] },
        { key: keys.alice },
      );
      const stored = await server.request("PUT", at(name), {
        key: keys.alice,
        body: { manifest: { metadata: { name } } },
      });

      assert.ok([400, 404].includes(turn.status), `${name}: ${turn.text}`);
      assert.ok([400, 404].includes(completion.status), `${name}: ${completion.text}`);
      assert.ok([400, 404, 405, 422].includes(stored.status), `${name}: ${stored.text}`);
    }
  });
});
