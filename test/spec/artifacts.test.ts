// spec.artifacts: long tool results that are stored separately, the tool read_artifact, and GET /artifacts.
import assert from "node:assert/strict";
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { before, describe, test } from "node:test";
import { calls, gate, says, startChat, turn } from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
import type { MockModel } from "../support/mock-model.ts";
import { onOneHost } from "../support/on-two-hosts.ts";
import { reportText } from "../support/reports-plugin.ts";
import { changeIn } from "../support/rows-in.ts";
import { sqliteIn } from "../support/seed.ts";
import { apiKeys, type TestServer } from "../support/server.ts";
import { cleanup } from "../support/temp.ts";

const { env, keys } = apiKeys({
  ann: { scopes: ["*"] },
  reader: { scopes: ["artifacts:read"] },
  chatter: { scopes: ["chat:write", "files:read"] },
  stranger: { tenant_id: "globex", scopes: ["*"] },
  unlucky: { tenant_id: "initech", scopes: ["*"] },
});
const plugin = { SVC_PLUGINS: "./test/support/reports-plugin.ts" };
const dayMs = 86_400_000;
const marker =
  /\[artifact ([0-9a-f-]{36}): (\d+) chars; preview above; read_artifact\(artifact_id, offset, length\)\]$/;
const uuid = "01234567-89ab-4cde-8f01-23456789abcd";

const manifests = {
  keeper: { tools: ["report"], artifacts: { enabled: true } },
  small: {
    tools: ["report"],
    artifacts: { enabled: true, threshold_chars: 10, preview_chars: 0, default_window_chars: 7, max_window_chars: 9 },
  },
  plain: { tools: ["report"] },
  gated: {
    tools: ["report"],
    artifacts: { enabled: true },
    execution: { mode: "durable" },
    approvals: [{ id: "reads", tools: ["read_artifact"], ttl_seconds: 600 }],
  },
};

/** The id in the marker of a result. */
function idIn(text: string): string {
  const [, id] = marker.exec(text) ?? [];
  assert.ok(id, text.slice(-300));
  return id;
}

interface Message {
  readonly role: string;
  readonly content: string;
  readonly metadata?: Readonly<Record<string, unknown>>;
}

describe("artifacts", () => {
  const atEnd = cleanup();
  let server: TestServer;
  let mock: MockModel;
  before(async () => {
    ({ server, mock } = await startChat(atEnd, { models: ["scripted"], manifests, env: { ...env, ...plugin } }));
  });

  const report = (length: number, more: object = {}) => ["report", { length, ...more }] as const;
  const read = (artifact_id: string, more: object = {}) => ["read_artifact", { artifact_id, ...more }] as const;

  /** Runs a turn whose model makes these calls one after the other. Returns the results that the model was shown. */
  async function run(
    manifest: string,
    thread_id: string | null,
    wanted: readonly ((results: readonly string[]) => readonly [string, object])[],
    key: string = keys.ann,
  ): Promise<string[]> {
    const results: string[] = [];
    mock.answer("scripted", ({ body }) => {
      const messages = body.messages as readonly Message[];
      const ofTurn = messages.slice(messages.findLastIndex(({ content }) => content === "go"));
      results.splice(0, results.length, ...ofTurn.flatMap(({ role, content }) => (role === "tool" ? [content] : [])));
      const next = wanted[results.length];
      return next === undefined ? says("Done.") : calls(next(results));
    });
    const fields = thread_id === null ? {} : { thread_id };
    const { status, text } = await server.post("/chat", turn(manifest, "go", fields), { key });
    assert.equal(status, 200, text);
    return results;
  }
  const fetchArtifact = (manifest: string, id: string, key: string = keys.ann) =>
    server.get(`/artifacts/${manifest}/${id}`, { key });
  const objectsIn = (folder: string): string[] => {
    const path = join(server.dataDir, "objects/artifacts", folder);
    return existsSync(path) ? readdirSync(path) : [];
  };
  async function resultsOf(thread: string): Promise<Message[]> {
    const { json } = await server.get(`/chat/sessions/${thread}`, { key: keys.ann });
    return json.transcript.filter(({ kind }: { kind: string }) => kind === "tool_result");
  }
  async function counted(name: string): Promise<number> {
    const { text } = await server.get("/metrics", { key: keys.ann });
    const lines = text.split("\n").filter((line) => line.startsWith(name));
    return lines.reduce((sum, line) => sum + Number(line.split(" ").at(-1)), 0);
  }
  function write(sql: string, ...values: (string | number)[]): Promise<number> {
    return changeIn(sqliteIn(server.dataDir), sql, ...values);
  }

  test("ART-005 a result of 8,001 characters is stored and one of 8,000 is shown whole", async () => {
    const [shown = "", stored = ""] = await run("keeper", "limits", [() => report(8_000), () => report(8_001)]);

    assert.equal(shown, reportText(8_000));
    assert.ok(stored.startsWith(`${reportText(200)}\n[artifact `), stored);
    assert.equal(marker.exec(stored)?.[2], "8001");
  });

  test("ART-006 an object's key is tenant, manifest and id, and the marker ends the result", async () => {
    const [stored = "", failed = "", drawn = ""] = await run("keeper", "places", [
      () => report(9_000),
      () => report(9_001, { fails: true }),
      () => report(9_002, { draws: true }),
    ]);

    const key = join(server.dataDir, "objects/artifacts/acme/keeper", `${idIn(stored)}.txt`);
    assert.equal(readFileSync(key, "utf8"), reportText(9_000));
    assert.match(failed, /^\[tool error\/provider_error\] line-0 /);
    assert.ok(idIn(failed));
    assert.match(drawn, /^\[1 image omitted: no image by its bytes\]\nline-0 /);
    assert.ok(idIn(drawn));
    const [result] = await resultsOf("places");
    await run("keeper", "places", [() => read(idIn(stored))]);
    const page = (await resultsOf("places")).at(-1);
    assert.deepEqual(
      [result, page].map((one) => one?.metadata?.taint),
      [["web:reports.test"], ["web:reports.test"]],
    );
    assert.equal(result?.metadata?.artifact_id, idIn(stored));
    assert.equal(result?.content, stored, "the log has what the model was shown");
  });

  test("ART-005 an empty preview leaves the marker only, and no section stores nothing", async () => {
    const [stored = ""] = await run("small", "empty", [() => report(11)]);
    const before = objectsIn("acme/plain").length;
    const [whole = ""] = await run("plain", "empty-2", [() => report(20_000)]);

    assert.equal(
      stored,
      `[artifact ${idIn(stored)}: 11 chars; preview above; read_artifact(artifact_id, offset, length)]`,
    );
    assert.equal(whole, reportText(20_000));
    assert.equal(objectsIn("acme/plain").length, before);
    const tools = mock.requests.at(-1)?.body.tools as readonly { function: { name: string } }[];
    assert.deepEqual(
      tools.map((tool) => tool.function.name),
      ["report"],
    );
  });

  test("ART-001 ART-002 AUTH-020 a stored result is fetched with its scope, by its own tenant only", async () => {
    const [stored = ""] = await run("keeper", "fetched", [() => report(12_345)]);
    const id = idIn(stored);

    const { status, json } = await fetchArtifact("keeper", id, keys.reader);
    const unscoped = await fetchArtifact("keeper", id, keys.chatter);
    const others = await fetchArtifact("keeper", id, keys.stranger);
    const elsewhere = await fetchArtifact("plain", id);

    assert.equal(status, 200);
    assert.deepEqual(json, { artifact_id: id, manifest_id: "keeper", chars: 12_345, content: reportText(12_345) });
    assert.equal(unscoped.status, 403);
    assert.deepEqual([others.status, elsewhere.status], [404, 404]);
  });

  test("ART-004 a malformed reference is answered with 404", async () => {
    const [stored = ""] = await run("keeper", "malformed", [() => report(9_000)]);
    const id = idIn(stored);
    for (const path of [
      `keeper/${id.toUpperCase()}`,
      `keeper/${id}.txt`,
      `keeper/${id.replaceAll("-", "")}`,
      `keeper/..%2f${id}`,
      `..%2facme%2fkeeper/${id}`,
      `keeper%00/${id}`,
      `keeper/${uuid}`,
      "keeper/..",
      "keeper/%2e%2e%2f%2e%2e%2fsvc.db",
      `${"k".repeat(4_000)}/${id}`,
    ])
      assert.equal((await server.get(`/artifacts/${path}`, { key: keys.ann })).status, 404, path);
  });

  test("ART-007 read_artifact shows windows of its own conversation, and is never stored", async () => {
    const text = reportText(40_000);
    const results = await run("keeper", "windows", [
      () => report(40_000),
      ([stored = ""]) => read(idIn(stored)),
      ([stored = ""]) => read(idIn(stored), { offset: 36_500 }),
      ([stored = ""]) => read(idIn(stored), { length: 16_000 }),
      ([stored = ""]) => read(idIn(stored), { offset: 100, length: 50_000 }),
      ([stored = ""]) => read(idIn(stored), { offset: 40_000 }),
      ([stored = ""]) => read(idIn(stored), { length: 0 }),
      () => read(uuid),
      () => read("../../svc.db"),
    ]);

    const [, first, end, long, longer, behind, none, unknown, hostile] = results;
    assert.equal(first, `${text.slice(0, 4_000)}\n[characters 0 to 4000 of 40000; the next begins at offset 4000]`);
    assert.equal(end, `${text.slice(36_500)}\n[characters 36500 to 40000 of 40000; this is the end]`);
    assert.ok(long?.startsWith(text.slice(0, 16_000)), "a window longer than the threshold is shown whole");
    assert.match(longer ?? "", /\n\[characters 100 to 16100 of 40000; the next begins at offset 16100\]$/);
    assert.match(behind ?? "", /^\[tool error\/invalid_arguments\] offset 40000 is behind the end/);
    assert.match(none ?? "", /^\[tool error\/invalid_arguments\]/);
    assert.equal(unknown, "[tool error/not_found] artifact not found");
    assert.equal(hostile, unknown);
    const other = await run("keeper", "windows-2", [() => read(idIn(results[0] ?? ""))]);
    const theirs = await run("keeper", "windows", [() => read(idIn(results[0] ?? ""))], keys.stranger);
    assert.deepEqual([other, theirs], [[unknown], [unknown]]);
  });

  test("ART-007 windows in a text of surrogate pairs join to the whole text", async () => {
    const word = "😀";
    const text = reportText(60, word);
    const parts: string[] = [];
    let offset = 0;
    const [stored = ""] = await run("small", "pairs", [() => report(60, { word })]);
    while (offset < 60) {
      const [page = ""] = await run("small", "pairs", [() => read(idIn(stored), { offset, length: 1 })]);
      const [whole, part, end] = /^([\s\S]*)\n\[characters \d+ to (\d+) of 60; .*\]$/.exec(page) ?? [];
      assert.ok(whole, page);
      parts.push(part ?? "");
      offset = Number(end);
    }

    assert.equal(parts.join(""), text.toWellFormed());
  });

  test("ART-007 a fork reads the artifacts that it shows, also after its source is deleted", async () => {
    const [stored = ""] = await run("keeper", "forked", [() => report(9_000, { word: "planted" })]);
    const id = idIn(stored);
    const object = `${id}.txt`;
    const forks = ["fork", "fork-of-fork"];
    for (const [at, new_thread_id] of forks.entries()) {
      const thread_id = forks[at - 1] ?? "forked";
      const { status } = await server.post("/chat/fork", { thread_id, new_thread_id }, { key: keys.ann });
      assert.equal(status, 200);
    }
    const remove = (thread: string) => server.request("DELETE", `/chat/history/${thread}`, { key: keys.ann });

    await remove("forked");
    await remove("fork");
    const [page = ""] = await run("keeper", "fork-of-fork", [() => read(id, { length: 20 })]);
    const fetched = (await fetchArtifact("keeper", id)).status;
    assert.ok(objectsIn("acme/keeper").includes(object));
    await remove("fork-of-fork");

    assert.ok(page.startsWith(reportText(20, "planted")), page);
    assert.equal(fetched, 200);
    assert.equal((await fetchArtifact("keeper", id)).status, 404);
    assert.ok(!objectsIn("acme/keeper").includes(object), "no word of the thread is left");
  });

  test("ART-007 a rewind leaves the artifacts of the conversation", async () => {
    const [stored = ""] = await run("keeper", "rewound", [() => report(9_000)]);
    const { json } = await server.get("/chat/sessions/rewound", { key: keys.ann });
    const event_id = json.transcript[0].id;
    const { status, text } = await server.post("/chat/rewind", { thread_id: "rewound", event_id }, { key: keys.ann });
    assert.equal(status, 200, text);

    const [page = ""] = await run("keeper", "rewound", [() => read(idIn(stored), { length: 20 })]);

    assert.ok(page.startsWith(reportText(20)), page);
  });

  test("ART-007 artifacts of a turn without a thread end with it", async () => {
    const before = objectsIn("acme/keeper").length;
    const [stored = "", page = ""] = await run("keeper", null, [
      () => report(9_000),
      ([text = ""]) => read(idIn(text), { length: 20 }),
    ]);
    const id = idIn(stored);

    assert.ok(page.startsWith(reportText(20)), page);
    assert.equal((await fetchArtifact("keeper", id)).status, 404);
    await eventually("the object is deleted", async () => objectsIn("acme/keeper").length === before || undefined);
    assert.deepEqual(await run("keeper", null, [() => read(id)]), ["[tool error/not_found] artifact not found"]);
  });

  test("ART-005 a result is cut with a mark if the object store fails, and the run continues", async () => {
    writeFileSync(join(server.dataDir, "objects/artifacts/initech"), "a file instead of the tenant's folder");
    const degraded = 'svc_control_degraded_total{control="artifacts",manifest_id="keeper",reason="failure"}';
    const before = await counted(degraded);

    const [text = ""] = await run("keeper", "unlucky", [() => report(9_000)], keys.unlucky);

    assert.equal(text, `${reportText(8_000)}\n[cut: it had 9000 characters, and the rest could not be stored]`);
    assert.equal(await counted(degraded), before + 1);
  });

  test("ART-007 an aborted turn without a thread leaves no artifact", async () => {
    const before = objectsIn("acme/keeper").length;
    const held = gate();
    let calledAt = 0;
    mock.answer("scripted", () => (calledAt++ === 0 ? calls(report(9_000)) : says("Wait.", held.opened)));
    const stream = await server.stream("/chat/stream", turn("keeper", "go"), { key: keys.ann });
    await stream.until("tool_end");
    const during = objectsIn("acme/keeper").length;
    stream.close();

    await eventually("the object is deleted", async () => objectsIn("acme/keeper").length === before || undefined);
    held.open();
    assert.equal(during, before + 1);
  });

  test("ART-007 a single call over MCP returns its whole result, and read_artifact is not listed", async () => {
    const before = objectsIn("acme/keeper").length;
    const ask = async (method: string, params: object) => {
      const body = { jsonrpc: "2.0", id: 1, method, params };
      const { text } = await server.post("/mcp?manifest=keeper", body, { key: keys.ann });
      const [data] = /\{"(?:jsonrpc|result)".*\}/.exec(text) ?? [];
      return JSON.parse(data ?? text).result;
    };

    const listed = await ask("tools/list", {});
    const called = await ask("tools/call", { name: "report", arguments: { length: 9_000 } });

    assert.deepEqual(
      listed.tools.map(({ name }: { name: string }) => name).filter((name: string) => name !== "chat"),
      ["report"],
    );
    assert.equal(called.content[0].text, reportText(9_000));
    assert.equal(objectsIn("acme/keeper").length, before);
  });

  test("ART-002 ART-007 an artifact is read after a restart of the server, also by a durable run", async () => {
    let asked = 0;
    mock.answer("scripted", ({ body }) => {
      const { content = "" } = (body.messages as Message[]).find(({ role }) => role === "tool") ?? {};
      return (
        [() => calls(report(9_000)), () => calls(read(idIn(content), { offset: 8_980 }))][asked++]?.() ?? says("Done.")
      );
    });
    const { json } = await server.post("/chat", turn("gated", "go", { thread_id: "durable" }), { key: keys.ann });
    const record = async () => (await server.get(`/chat/runs/${json.resume_token}`, { key: keys.ann })).json;
    await eventually("a question", async () => (await record()).status === "waiting" || undefined);
    await server.restart();
    const pending = await eventually(
      "an approval",
      async () => (await server.get("/approvals?status=pending", { key: keys.ann })).json.items[0],
    );
    await server.post(`/approvals/${pending.id}/decide`, { decision: "approved", note: "" }, { key: keys.ann });

    await eventually("the end", async () => (await record()).status === "completed" || undefined);
    const [stored, page] = (await resultsOf("durable")).map(({ content }) => content);
    assert.equal((await fetchArtifact("gated", idIn(stored ?? ""))).json.content, reportText(9_000));
    assert.equal(page, `${reportText(9_000).slice(8_980)}\n[characters 8980 to 9000 of 9000; this is the end]`);
  });

  test("ART-003 TASK-012 retention_sweep deletes artifacts older than the setting, and their objects", async () => {
    const [old = ""] = await run("keeper", "aged", [() => report(9_000)]);
    const [young = ""] = await run("keeper", "aged", [() => report(9_000)]);
    const sweep = async () =>
      assert.equal((await server.post("/tasks/retention_sweep/run", undefined, { key: keys.ann })).status, 200);
    await server.stop();
    const aged = "UPDATE artifacts SET created_at = created_at - ? WHERE artifact_id = ?";
    assert.equal(await write(aged, 31 * dayMs, idIn(old)), 1);
    await server.restart({ SVC_ARTIFACT_RETENTION_DAYS: "0" });
    await sweep();
    const kept = (await fetchArtifact("keeper", idIn(old))).status;
    await server.restart({ SVC_ARTIFACT_RETENTION_DAYS: "30" });
    await sweep();

    assert.equal(kept, 200);
    assert.equal((await fetchArtifact("keeper", idIn(old))).status, 404);
    assert.equal((await fetchArtifact("keeper", idIn(young))).status, 200);
    assert.deepEqual(
      [old, young].map((text) => objectsIn("acme/keeper").includes(`${idIn(text)}.txt`)),
      [false, true],
    );
    assert.deepEqual(await run("keeper", "aged", [() => read(idIn(old))]), [
      "[tool error/not_found] artifact not found",
    ]);
  });

  test("ART-005 a tenant at its quota gets the result cut with a mark, and the metric counts it", async () => {
    await server.restart({ SVC_TENANT_STORED_BYTES: "10000" });
    const degraded = 'svc_control_degraded_total{control="artifacts",manifest_id="keeper",reason="quota"}';
    const before = await counted(degraded);

    const [first = "", second = ""] = await run(
      "keeper",
      "quota",
      [() => report(8_500), () => report(8_500)],
      keys.stranger,
    );
    const thread = await server.request("DELETE", "/chat/history/quota", { key: keys.stranger });
    const [third = ""] = await run("keeper", "quota", [() => report(8_500)], keys.stranger);
    const after = await counted(degraded);

    assert.ok(idIn(first));
    const note = "[cut: it had 8500 characters, and the quota of what is stored is used up]";
    assert.equal(second, `${reportText(8_000)}\n${note}`);
    assert.equal(after, before + 1);
    assert.equal(thread.status, 200);
    assert.ok(idIn(third), "the bytes of a deleted thread are free again");
  });

  test("ART-005 without an object store a long result is cut with a mark", {
    skip: onOneHost("hosts refuse SVC_OBJECT_STORE=memory"),
  }, async () => {
    await server.restart({ SVC_TENANT_STORED_BYTES: "0", SVC_OBJECT_STORE: "memory" });
    const degraded = 'svc_control_degraded_total{control="artifacts",manifest_id="keeper",reason="no_object_store"}';

    const [text = ""] = await run("keeper", "storeless", [() => report(9_000)]);
    const count = await counted(degraded);
    const fetched = await fetchArtifact("keeper", uuid);

    assert.equal(text, `${reportText(8_000)}\n[cut: it had 9000 characters, and there is no store for the rest]`);
    assert.equal(count, 1);
    assert.equal(fetched.status, 404);
  });
});
