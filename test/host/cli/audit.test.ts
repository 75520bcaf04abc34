// The audit chain of a running server: its routes, `svc audit`, restarts and kills.
import assert from "node:assert/strict";
import { readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { before, describe, test } from "node:test";
import Database from "better-sqlite3";
import { auditCommand } from "../../../host/cli/audit.ts";
import { says, startChatProcess, turn } from "../../support/chat.ts";
import { eventually } from "../../support/eventually.ts";
import type { MockModel } from "../../support/mock-model.ts";
import { apiKeys, type ProcessServer } from "../../support/server.ts";
import { cleanup } from "../../support/temp.ts";
import { run, runJson } from "./support.ts";

const { env, keys } = apiKeys({
  operator: { scopes: ["*"] },
  stranger: { tenant_id: "globex", scopes: ["audit:read"] },
  nobody: { scopes: ["chat:write"] },
});

describe("the audit chain of a server", () => {
  const atEnd = cleanup();
  let server: ProcessServer;
  let mock: MockModel;
  before(async () => {
    ({ server, mock } = await startChatProcess(atEnd, { models: ["scripted"], env }));
    mock.answer("scripted", () => says("Yes."));
  });

  const key = keys.operator;
  const head = async () => (await server.get("/audit/head", { key })).json as { seq: number; hash: string };
  const verify = async (query = "") => (await server.get(`/audit/verify${query}`, { key })).json;

  /** Runs turns, and returns the head after their rows are sealed. */
  async function turns(count: number): Promise<{ seq: number; hash: string }> {
    const { seq } = await head();
    for (let at = 0; at < count; at++) await server.post("/chat", turn("agent", "hi"), { key });
    return eventually("the seals", async () => {
      await server.post("/tasks/audit_seal/run", {}, { key });
      const now = await head();
      return now.seq >= seq + 2 * count && now;
    });
  }

  /** Changes rows in the database directly. */
  function change(sql: string): void {
    const db = new Database(join(server.dataDir, "svc.db"));
    db.exec(sql);
    db.close();
  }

  test("the rows of turns are sealed, and only their tenant sees the chain", async () => {
    const sealed = await turns(3);

    const page = await verify();
    const noted = await verify(`?head=${sealed.seq}:${sealed.hash}`);
    const foreign = await server.get("/audit/head", { key: keys.stranger });
    const refused = await server.get("/audit/verify", { key: keys.nobody });
    const malformed = await server.get("/audit/verify?from=x", { key });

    assert.deepEqual([page.ok, page.next, page.first_changed, page.missing, page.foreign], [true, null, null, [], 0]);
    assert.equal(noted.ok, true);
    assert.equal(foreign.json.seq, 0);
    assert.equal(refused.status, 403);
    assert.deepEqual([malformed.status, malformed.json.error], [400, "invalid_cursor"]);
  });

  test("the key of the data directory is private and stays the same", async () => {
    const path = join(server.dataDir, "audit.key");
    const before = readFileSync(path, "utf8");
    await turns(1);
    await server.restart();

    assert.equal(statSync(path).mode & 0o777, 0o600);
    assert.equal(readFileSync(path, "utf8"), before);
    assert.equal((await verify()).ok, true);
  });

  test("a killed server loses no sealed row", async () => {
    const { seq, hash } = await turns(4);
    void server.post("/chat", turn("agent", "hi"), { key }).catch(() => {});
    await server.kill();
    await server.restart();

    const page = await verify(`?head=${seq}:${hash}`);
    const after = await turns(1);

    assert.equal(page.ok, true, JSON.stringify(page));
    assert.ok(page.head.seq >= seq);
    assert.ok(after.seq > seq);
  });

  test("a server that stops seals its last rows", async () => {
    await turns(1);
    await server.post("/chat", turn("agent", "hi"), { key });
    await server.restart();

    const page = await verify();

    assert.deepEqual([page.ok, page.unsealed], [true, 0]);
  });

  test("svc audit verify names a changed row, online and offline", async () => {
    const { seq, hash } = await turns(2);
    const online = ["verify", "--url", server.url, "--head", `${seq}:${hash}`];
    const offline = ["verify", "--offline", "--tenant", "acme"];
    const settings = { SVC_DATA_DIR: server.dataDir };
    const sound = await run(auditCommand, online, { SVC_KEY: key });
    const printed = await run(auditCommand, ["head", "--url", server.url], { SVC_KEY: key });
    const soundOffline = await runJson(auditCommand, offline, settings);
    change("UPDATE audit SET status = 'fine' WHERE event_type = 'final_response' AND ts = (SELECT MIN(ts) FROM audit)");
    change(
      "UPDATE audit SET principal_subj = 'eve' WHERE (ts, id) = (SELECT ts, id FROM audit ORDER BY ts, id LIMIT 1 OFFSET 4)",
    );

    const changed = await run(auditCommand, online, { SVC_KEY: key });
    const changedOffline = await runJson(auditCommand, offline, settings);
    const other = await runJson(auditCommand, ["verify", "--offline", "--tenant", "globex"], settings);
    const unkeyed = await run(auditCommand, offline, { ...settings, SVC_AUDIT_KEY: "x".repeat(32) });
    const usage = await run(auditCommand, ["verify", "--head", "1"], { SVC_KEY: key });

    assert.equal(sound.code, 0, sound.stdout);
    assert.match(sound.stdout, /^\d+ events compared.*\nThe audit log is as it was written\. Head: \d+:/);
    assert.match(printed.stdout, /^\d+:[\w-]{43}\n$/);
    assert.equal(soundOffline.code, 0);
    assert.equal(changed.code, 1);
    assert.match(changed.stdout, /\nChanged: event \d+ \(\w+\) is the first one\.\n/);
    assert.deepEqual([changedOffline.code, changedOffline.answer.ok, other.answer.ok], [1, false, true]);
    assert.match(unkeyed.stdout, /is not in SVC_AUDIT_KEY/);
    assert.equal(usage.code, 2);
  });
});
