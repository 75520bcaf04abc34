// The tenant's own manifests over HTTP: versions, canary, rollback, and the choice of a turn's manifest.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { before, describe, test } from "node:test";
import { fileURLToPath } from "node:url";
import { bundledNames } from "../support/bundled-manifests.ts";
import { startChat, systemOf, turn } from "../support/chat.ts";
import type { Answer } from "../support/http-client.ts";
import { type MockModel, startMockModel } from "../support/mock-model.ts";
import { apiKeys, modelEnv, startServer, type TestServer } from "../support/server.ts";
import { cleanup, tempDir } from "../support/temp.ts";

const { env: keyed, keys } = apiKeys({
  writer: { scopes: ["manifests:write", "chat:write"] },
  reader: { scopes: ["manifests:read"] },
  chatter: { scopes: ["chat:write"] },
  stranger: { tenant_id: "globex", scopes: ["*"] },
});
const planted = "planted-secret-value-0002";
const models = ["old-model", "new-model"];

function manifest(name: string, modelId = "old-model", rest: object = {}, metadata: object = {}) {
  return { metadata: { name, ...metadata }, spec: { model: { id: modelId }, ...rest } };
}

describe("stored manifests", () => {
  const atEnd = cleanup();
  let server: TestServer;
  let mock: MockModel;
  let environment: Record<string, string>;
  const manifestDir = tempDir(atEnd);
  before(async () => {
    mock = await startMockModel();
    atEnd.after(() => mock.close());
    for (const model of models) mock.answer(model, { text: `this is ${model}` });
    environment = { ...modelEnv(mock, models), SVC_MANIFEST_DIR: manifestDir };
    server = await startServer({ atEnd, env: { ...keyed, ...environment, SVC_SECRET_PLANTED: planted } });
  });

  const send = (method: string, path: string, body?: object, key = keys.writer) =>
    server.request(method, path, { key, ...(body && { body }) });
  const get = (path: string, key = keys.writer) => server.get(path, { key });
  const put = (name: string, body: object, more: object = {}) =>
    send("PUT", `/manifests/${name}`, { manifest: body, ...more });
  const turn = (name: string, thread_id: string | null = null, headers = {}) =>
    server.request("POST", "/chat", {
      key: keys.writer,
      headers,
      body: { manifest: name, thread_id, messages: [{ role: "user", content: "hi" }] },
    });
  const codes = ({ status, json }: Answer) => [status, json.error, json.detail];

  test("AUTH-015 manifests:read reads and manifests:write writes too", async () => {
    const write = { manifest: manifest("scoped") };

    const refused = await send("PUT", "/manifests/scoped", write, keys.reader);
    const stored = await send("PUT", "/manifests/scoped", write);

    assert.deepEqual([refused.status, refused.json], [403, { detail: "missing scopes: manifests:write" }]);
    assert.equal(stored.status, 200);
    for (const path of ["/manifests", "/manifests/scoped", "/manifests/scoped/versions"]) {
      assert.equal((await get(path, keys.reader)).status, 200, path);
      assert.equal((await get(path, keys.writer)).status, 200, path);
      assert.deepEqual((await get(path, keys.chatter)).json, { detail: "missing scopes: manifests:read" });
    }
  });

  test("MANI-004 PUT stores and activates a version, which the next turn runs without a restart", async () => {
    const first = await put("turned", manifest("turned", "old-model"), { comment: "the first" });
    const before = await turn("turned");
    const second = await put("turned", manifest("turned", "new-model"));
    const after = await turn("turned");

    assert.equal(first.status, 200);
    const { created_at, ...row } = first.json;
    assert.deepEqual(row, {
      tenant_id: "acme",
      name: "turned",
      version: 1,
      manifest: manifest("turned", "old-model"),
      created_by: "writer",
      comment: "the first",
    });
    assert.ok(Number.isSafeInteger(created_at));
    assert.deepEqual([second.json.version, second.json.comment], [2, ""]);
    assert.deepEqual([before.json.model, after.json.model], ["old-model", "new-model"]);
  });

  test("MANI-004 the same body again answers the stored version and stores none", async () => {
    await put("same", manifest("same"));

    const again = await put("same", manifest("same"), { comment: "again" });

    assert.deepEqual([again.status, again.json.version, again.json.comment], [200, 1, ""]);
    assert.equal((await get("/manifests/same/versions")).json.items.length, 1);
  });

  test("MANI-004 activate false stores a candidate, and turns run the active version", async () => {
    await put("candidate", manifest("candidate", "old-model"));

    const stored = await put("candidate", manifest("candidate", "new-model"), { activate: false });

    assert.equal(stored.json.version, 2);
    assert.equal((await turn("candidate")).json.model, "old-model");
    assert.equal((await get("/manifests/candidate")).json.version, 1);
  });

  test("MANI-004 another name than the path's, or an invalid manifest, is refused and not stored", async () => {
    const mismatch = await put("one", manifest("two"));
    const unknownField = await put("broken", manifest("broken", "old-model", { colour: "red" }));
    const unknownTool = await put("broken", manifest("broken", "old-model", { tools: ["no_such_tool"] }));
    const noObject = await send("PUT", "/manifests/broken", { manifest: "metadata: {name: broken}" });

    assert.deepEqual(codes(mismatch), [400, "name_mismatch", "name_mismatch"]);
    assert.deepEqual([unknownField.status, unknownField.json.error], [422, "invalid_manifest"]);
    assert.deepEqual(unknownField.json.detail[0].loc, ["spec", "colour"]);
    assert.equal(unknownField.json.detail[0].type, "extra_forbidden");
    assert.deepEqual([unknownTool.status, unknownTool.json.detail[0].loc], [422, ["spec", "tools", 0]]);
    assert.deepEqual([noObject.status, noObject.json.detail[0].loc], [422, ["body", "manifest"]]);
    for (const name of ["one", "two", "broken"]) assert.equal((await get(`/manifests/${name}`)).status, 404);
  });

  test("MANI-004 PUT, /chat and validate-manifest report the same problems of all stages", async () => {
    const spec = {
      pattern: "router",
      sub_agents: ["quick", "no one"],
      model: { id: "odl-model", temperature: 9 },
      tools: [5],
      session: { compact_after_turn: true },
      limit: {},
    };
    const body = { metadata: { name: "wrong" }, spec };
    const file = join(manifestDir, "wrong.json");
    writeFileSync(file, JSON.stringify(body));
    atEnd.after(() => rmSync(file));

    const stored = await put("wrong", body);
    const asked = await turn("wrong");
    const listed = (await get("/manifests")).json.items.find((item: { name: string }) => item.name === "wrong");
    const words = [fileURLToPath(new URL("../../svc.js", import.meta.url)), "validate-manifest", "--json", file];
    const checked = spawnSync(process.execPath, words, {
      encoding: "utf8",
      env: { ...environment, PATH: process.env.PATH },
    });

    assert.deepEqual(
      stored.json.detail.map(({ loc, type }: { loc: unknown[]; type: string }) => `${type} ${loc.join(".")}`),
      [
        "extra_forbidden spec.limit",
        "unresolved spec.sub_agents.1",
        "out_of_range spec.model.temperature",
        "unresolved spec.model.id",
        "type_error spec.tools.0",
        "conflict spec.session.compact_after_turn",
      ],
    );
    const named = stored.json.detail.map((problem: { msg: string }) => ({
      ...problem,
      msg: `wrong.json: ${problem.msg}`,
    }));
    assert.deepEqual([asked.status, asked.json.detail], [422, named]);
    assert.deepEqual([listed.valid, listed.problems.length], [false, 3]);
    assert.equal(checked.status, 1);
    assert.deepEqual(JSON.parse(checked.stdout).detail, named);
  });

  test("MANI-002 the list has bundled and stored manifests, under both keys", async () => {
    await put("listed", manifest("listed"));

    const { status, json } = await get("/manifests");

    assert.equal(status, 200);
    assert.deepEqual(json.manifests, json.items);
    const rowOf = (name: string) => json.items.find((row: { name: string }) => row.name === name);
    assert.deepEqual(rowOf("quick"), { name: "quick", version: null, source: "bundled" });
    const { updated_at, ...row } = rowOf("listed");
    assert.ok(Number.isSafeInteger(updated_at));
    assert.deepEqual(row, {
      tenant_id: "acme",
      name: "listed",
      version: 1,
      canary_version: null,
      canary_weight: 0,
      updated_by: "writer",
      source: "store",
    });
  });

  test("MANI-003 GET resolves like a request: the stored manifest, the bundled one, or none", async () => {
    await put("resolved", manifest("resolved"));

    const bundled = await get("/manifests/quick");
    const stored = await get("/manifests/resolved");
    const nothing = await get("/manifests/nothing");

    assert.deepEqual([bundled.json.name, bundled.json.version, bundled.json.variant], ["quick", null, "stable"]);
    assert.equal(bundled.json.manifest.metadata.name, "quick");
    assert.deepEqual([stored.json.name, stored.json.version, stored.json.variant], ["resolved", 1, "stable"]);
    assert.equal(stored.json.manifest.spec.model.id, "old-model");
    assert.deepEqual(codes(nothing), [404, "not_found", "not_found"]);
  });

  test("MANI-003 GET with version answers the stored version, and with a bad thread is refused", async () => {
    await put("versioned", manifest("versioned", "old-model"), { comment: "one" });
    await put("versioned", manifest("versioned", "new-model"));

    const first = await get("/manifests/versioned?version=1");
    const beyond = await get("/manifests/versioned?version=3");
    const badThread = await get("/manifests/versioned?thread_id=a%23b");

    assert.deepEqual(Object.keys(first.json).sort(), [
      "comment",
      "created_at",
      "created_by",
      "manifest",
      "name",
      "tenant_id",
      "version",
    ]);
    assert.deepEqual(
      [first.json.version, first.json.comment, first.json.manifest],
      [1, "one", manifest("versioned", "old-model")],
    );
    assert.equal(beyond.status, 404);
    assert.deepEqual(codes(badThread), [400, "invalid_thread_id", "invalid_thread_id"]);
    for (const version of ["0", "-1", "x"])
      assert.equal((await get(`/manifests/versioned?version=${version}`)).status, 422);
  });

  test("MANI-003 credentials in a stored manifest, and nothing else, are masked in every answer", async () => {
    const credential = `ghp_${"aB3".repeat(12)}`;
    const prompt = { inline: `The key is ${credential}, not ${planted}.` };
    const leaky = manifest("leaky", "old-model", { system_prompt: prompt });

    const answers = [
      await put("leaky", leaky),
      await get("/manifests/leaky"),
      await get("/manifests/leaky?version=1"),
      await put("leaky", leaky),
    ];

    for (const { status, text } of answers) {
      assert.equal(status, 200);
      // A known secret is stored unmasked: masking would confirm a correct guess to its author (decision 77).
      assert.ok(text.includes(`The key is [REDACTED], not ${planted}.`) && !text.includes(credential), text);
    }
  });

  test("MANI-005 versions are paged newest first, with the active one and the canary marked", async () => {
    for (const [at, model] of ["old-model", "new-model", "old-model"].entries())
      await put("paged", manifest("paged", model, {}, { description: String(at) }), { comment: `number ${at}` });
    await send("POST", "/manifests/paged/canary", { canary_version: 2, canary_weight: 5 });

    const all = (await get("/manifests/paged/versions")).json;
    const first = (await get("/manifests/paged/versions?limit=2")).json;
    const rest = (await get(`/manifests/paged/versions?limit=2&before=${first.next_before}`)).json;

    const told = all.items.map(({ version, comment, active, canary }: Record<string, unknown>) => [
      version,
      comment,
      active,
      canary,
    ]);
    assert.deepEqual(told, [
      [3, "number 2", true, false],
      [2, "number 1", false, true],
      [1, "number 0", false, false],
    ]);
    assert.ok(all.items.every((row: object) => !("manifest" in row)));
    assert.deepEqual([...first.items, ...rest.items], all.items);
    assert.deepEqual([all.next_before, first.next_before, rest.next_before], [null, 2, null]);
    assert.deepEqual((await get("/manifests/quick/versions")).json, { items: [], next_before: null });
    for (const limit of [0, 201]) assert.equal((await get(`/manifests/paged/versions?limit=${limit}`)).status, 422);
  });

  test("MANI-006 MANI-001 a canary splits threads by hash: each stays on its side, as GET reports", async () => {
    await put("split", manifest("split", "old-model"));
    await put("split", manifest("split", "new-model"), { activate: false });
    const pointer = await send("POST", "/manifests/split/canary", { canary_version: 2, canary_weight: 50 });
    const sideOf = async (thread: string) => (await get(`/manifests/split?thread_id=${thread}`)).json.variant;
    const threads = Array.from({ length: 50 }, (_, at) => `thread-${at}`);

    const sides = new Map<string, string>();
    for (const thread of threads) sides.set(thread, await sideOf(thread));

    const { updated_at: _at, ...row } = pointer.json;
    assert.deepEqual(row, {
      tenant_id: "acme",
      name: "split",
      version: 1,
      canary_version: 2,
      canary_weight: 50,
      updated_by: "writer",
      source: "store",
    });
    assert.deepEqual(new Set(sides.values()), new Set(["stable", "canary"]));
    for (const thread of threads) assert.equal(await sideOf(`acme:${thread}`), sides.get(thread));
    for (const thread of threads.slice(0, 10)) {
      const expected = sides.get(thread) === "canary" ? "new-model" : "old-model";
      for (const headers of [{}, { "x-svc-variant": "canary", "x-manifest-version": "2" }])
        assert.equal((await turn("split", thread, headers)).json.model, expected, thread);
    }
  });

  test("MANI-006 a request without a thread gets the active version; 100% is every thread", async () => {
    await put("whole", manifest("whole", "old-model"));
    await put("whole", manifest("whole", "new-model"), { activate: false });
    await send("POST", "/manifests/whole/canary", { canary_version: 2, canary_weight: 100 });

    const without = (await get("/manifests/whole")).json;
    const withThread = (await get("/manifests/whole?thread_id=any")).json;

    assert.deepEqual([without.variant, without.version], ["stable", 1]);
    assert.deepEqual([withThread.variant, withThread.version], ["canary", 2]);
    assert.equal((await turn("whole")).json.model, "old-model");
    assert.equal((await turn("whole", "any")).json.model, "new-model");
  });

  test("MANI-006 MANI-012 a canary of an unknown version, or with a weight above 100, is refused", async () => {
    await put("strict", manifest("strict"));

    const unknown = await send("POST", "/manifests/strict/canary", { canary_version: 9, canary_weight: 1 });
    const weight = await send("POST", "/manifests/strict/canary", { canary_version: 1, canary_weight: 101 });
    const nothing = await send("POST", "/manifests/nothing/canary", { canary_version: 1, canary_weight: 1 });
    const bundled = await send("POST", "/manifests/quick/canary", { canary_version: 1, canary_weight: 1 });

    assert.deepEqual([unknown.status, unknown.json.detail], [400, "Unknown canary version: strict@9"]);
    assert.deepEqual([weight.status, weight.json.detail[0].loc], [422, ["body", "canary_weight"]]);
    assert.deepEqual(
      [codes(nothing), codes(bundled)],
      [
        [404, "not_found", "not_found"],
        [404, "not_found", "not_found"],
      ],
    );
  });

  test("MANI-007 DELETE clears the canary: every thread is on the active version again", async () => {
    await put("cleared", manifest("cleared", "old-model"));
    await put("cleared", manifest("cleared", "new-model"), { activate: false });
    await send("POST", "/manifests/cleared/canary", { canary_version: 2, canary_weight: 100 });

    const cleared = await send("DELETE", "/manifests/cleared/canary");
    const again = await send("DELETE", "/manifests/cleared/canary");

    assert.deepEqual(
      [cleared.status, cleared.json.canary_version, cleared.json.canary_weight, cleared.json.version],
      [200, null, 0, 1],
    );
    assert.equal(again.status, 200);
    assert.equal((await turn("cleared", "t")).json.model, "old-model");
    assert.equal((await send("DELETE", "/manifests/nothing/canary")).status, 404);
  });

  test("MANI-006 a canary is cleared by activating another version", async () => {
    await put("moved", manifest("moved", "old-model"));
    await send("POST", "/manifests/moved/canary", { canary_version: 1, canary_weight: 50 });

    await put("moved", manifest("moved", "new-model"));

    const row = (await get("/manifests")).json.items.find(({ name }: { name: string }) => name === "moved");
    assert.deepEqual([row.version, row.canary_version, row.canary_weight], [2, null, 0]);
  });

  test("MANI-008 MANI-012 rollback activates an earlier version by the store's number", async () => {
    await put("rolled", manifest("rolled", "old-model"));
    await put("rolled", manifest("rolled", "new-model"));

    const rolled = await send("POST", "/manifests/rolled/rollback", { version: 1 });
    const after = await turn("rolled");
    const unknown = await send("POST", "/manifests/rolled/rollback", { version: 7 });

    assert.deepEqual([rolled.status, rolled.json.version, rolled.json.source], [200, 1, "store"]);
    assert.equal(after.json.model, "old-model");
    assert.deepEqual(codes(unknown), [404, "not_found", "not_found"]);
    assert.equal((await get("/manifests/rolled")).json.version, 1);
  });

  test("MANI-011 metadata.version is free text, independent of the store's numbers", async () => {
    const one = await put("free", manifest("free", "old-model", {}, { version: "2026-spring" }));
    const two = await put("free", manifest("free", "new-model", {}, { version: "2026-spring" }));

    assert.deepEqual([one.json.version, two.json.version], [1, 2]);
    assert.equal(two.json.manifest.metadata.version, "2026-spring");
  });

  test("MANI-004 parallel writes of one name all get versions of their own", async () => {
    const answers = await Promise.all(
      Array.from({ length: 12 }, (_, at) =>
        put("raced", manifest("raced", "old-model", {}, { description: `number ${at}` })),
      ),
    );

    const versions = answers.map(({ json }) => json.version).sort((a, b) => a - b);
    assert.deepEqual(
      versions,
      Array.from({ length: 12 }, (_, at) => at + 1),
    );
  });

  test("MANI-004 stored manifests survive a restart of the server", async () => {
    await put("kept", manifest("kept", "new-model"));

    await server.restart();

    assert.equal((await get("/manifests/kept")).json.version, 1);
    assert.equal((await turn("kept")).json.model, "new-model");
  });
});

describe("the source of a manifest", () => {
  const atEnd = cleanup();

  test("MANI-010 is the stored version, the tenant's object, the shared object, then the bundle", async () => {
    const dataDir = tempDir(atEnd);
    const place = (key: string, description: string) => {
      const file = join(dataDir, "objects", key);
      mkdirSync(dirname(file), { recursive: true });
      writeFileSync(file, JSON.stringify({ metadata: { name: "quick", description } }));
    };
    const bare = await startServer({ atEnd, env: keyed });
    place("manifests/quick.json", "everybody's object");
    place("manifests/acme/quick.json", "the tenant's object");
    const server = await startServer({ atEnd, dataDir, env: keyed });
    const described = async (from: TestServer, key: string) => {
      const { json } = await from.get("/manifests/quick", { key });
      return [json.source, json.manifest.metadata.description];
    };

    const bundled = await described(bare, keys.writer);
    const everybodys = await described(server, keys.stranger);
    const tenants = await described(server, keys.writer);
    const body = { manifest: { metadata: { name: "quick", description: "stored" } } };
    await server.request("PUT", "/manifests/quick", { key: keys.writer, body });
    const stored = await described(server, keys.writer);

    assert.equal(bundled[0], "bundled");
    assert.deepEqual(everybodys, ["object", "everybody's object"]);
    assert.deepEqual(tenants, ["object", "the tenant's object"]);
    assert.deepEqual(stored, ["store", "stored"]);
    assert.deepEqual(await described(server, keys.stranger), everybodys);
  });

  test("MANI-009 has no write routes when it is bundled, not even in the reference", async () => {
    const server = await startServer({ atEnd, env: { ...keyed, SVC_MANIFEST_SOURCE: "bundled" } });
    const as = { key: keys.writer };

    const put = await server.request("PUT", "/manifests/quick", { ...as, body: { manifest: {} } });
    const others = [
      await server.request("POST", "/manifests/quick/canary", { ...as, body: {} }),
      await server.request("DELETE", "/manifests/quick/canary", as),
      await server.request("POST", "/manifests/quick/rollback", { ...as, body: {} }),
    ];
    const { paths } = (await server.get("/openapi.json", as)).json;

    assert.deepEqual([put.status, put.headers.allow], [405, "GET, HEAD, OPTIONS"]);
    for (const { status, json } of others)
      assert.deepEqual([status, json.error, json.detail], [404, "not_found", "not_found"]);
    assert.deepEqual(Object.keys(paths["/manifests/{name}"]), ["get"]);
    assert.ok(!("/manifests/{name}/canary" in paths) && !("/manifests/{name}/rollback" in paths));
    assert.deepEqual(
      (await server.get("/manifests", as)).json.items,
      bundledNames.map((name) => ({ name, version: null, source: "bundled" })),
    );
    assert.equal((await server.get("/manifests/quick?version=1", as)).status, 404);
  });
});

describe("manifests of SVC_MANIFEST_DIR", () => {
  const atEnd = cleanup();

  test("MANI-003 a turn right after a change of the file runs the new text", async () => {
    const directory = tempDir(atEnd);
    const write = (prompt: string) =>
      writeFileSync(
        join(directory, "changing.json"),
        JSON.stringify({ metadata: { name: "changing" }, spec: { system_prompt: { inline: prompt } } }),
      );
    write("text 00");
    const { server, mock } = await startChat(atEnd, { models: ["plain"], env: { SVC_MANIFEST_DIR: directory } });

    mock.answer("plain", { text: "Done." });

    for (let at = 1; at <= 40; at++) {
      const text = `text ${String(at).padStart(2, "0")}`;
      write(text);
      const answer = await server.post("/chat", turn("changing", "hi"));

      assert.equal(answer.status, 200, answer.text);
      assert.ok(systemOf(mock.requests.at(-1))?.includes(text), text);
    }
  });
});
