// A process of its own: it counts the connections of a server's processes, and kills one.
// SVC_WORKERS: several processes that share a port under one parent.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { kill } from "node:process";
import { describe, test } from "node:test";
import { Client } from "pg";
import { startMock, turn } from "../support/chat.ts";
import { hasRedis, testCluster } from "../support/cluster.ts";
import { eventually } from "../support/eventually.ts";
import { apiKeys } from "../support/server.ts";
import { cleanup } from "../support/temp.ts";

const skip = (await hasRedis()) ? false : "needs a Redis";

/** The processes that a process has started. */
function childrenOf(pid: number): number[] {
  return readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").split(" ").filter(Boolean).map(Number);
}

describe("worker processes", { skip }, () => {
  const atEnd = cleanup();

  test("SIGUSR2 replaces the processes one after the other, and no turn is lost", async () => {
    const { env: keyEnv, keys } = apiKeys({ one: { tenant_id: "one", scopes: ["*"] } });
    const as = { key: keys.one };
    const { mock, env } = await startMock(atEnd, {
      models: ["plain"],
      manifests: { plain: { model: { id: "plain" } } },
      env: keyEnv,
    });
    mock.answer("plain", { text: "Blue." });
    const cluster = await testCluster(atEnd, { env });
    const server = await cluster.host({ SVC_WORKERS: "2" });
    const before = childrenOf(server.pid);
    let isOver = false;
    let accepted = 0;
    const talk = async (): Promise<void> => {
      while (!isOver) {
        const headers = { "idempotency-key": `turn-${accepted}` };
        const body = turn("plain", `message ${accepted}`, { thread_id: "talk" });
        // A connection to a process that has closed its port breaks, and the client repeats the request.
        const answer = await server.post("/chat", body, { ...as, headers }).catch(() => null);
        if (answer?.status === 200) accepted++;
        else if (answer !== null) assert.ok([409, 503].includes(answer.status), `${answer.status} ${answer.text}`);
      }
    };
    const talking = talk();

    kill(server.pid, "SIGUSR2");
    await eventually("the end of the replacement", async () =>
      server.logs.some(({ msg }) => msg === "all worker processes were replaced"),
    );
    isOver = true;
    await talking;
    const after = childrenOf(server.pid);
    const { transcript } = (await server.get("/chat/sessions/talk", as)).json as { transcript: { content: string }[] };
    const { code } = await server.stop();

    assert.equal(after.length, 2);
    assert.ok(!after.some((pid) => before.includes(pid)), "each is a new process");
    assert.deepEqual(
      transcript.map(({ content }) => content),
      Array.from({ length: accepted }, (_, n) => [`message ${n}`, "Blue."]).flat(),
    );
    assert.equal(code, 0);
  });

  test("LIM-009 two processes share a port within their connections, and an ended one is started again", async () => {
    const { env: keyEnv, keys } = apiKeys({ one: { tenant_id: "one", scopes: ["*"] } });
    const as = { key: keys.one };
    const { mock, env } = await startMock(atEnd, {
      models: ["plain"],
      manifests: { plain: { model: { id: "plain" } } },
      env: keyEnv,
    });
    mock.answer("plain", { text: "Blue." });
    const cluster = await testCluster(atEnd, { env });
    const server = await cluster.host({ SVC_WORKERS: "2", SVC_DB_POOL_SIZE: "2", SVC_DB_MAX_OVERFLOW: "2" });
    const hosts = async (): Promise<Record<string, string>> => {
      const { items } = (await server.get("/hosts", as)).json as { items: { id: string; name: string }[] };
      return items.length === 2 ? Object.fromEntries(items.map(({ id, name }) => [name.slice(-2), id])) : {};
    };
    const before = await eventually("both hosts", async () => {
      const found = await hosts();
      return Object.keys(found).sort().join() === "-1,-2" && found;
    });

    const database = new Client({ connectionString: cluster.env.SVC_DATABASE_URL });
    await database.connect();
    const answers = await Promise.all(Array.from({ length: 60 }, () => server.post("/chat", turn("plain", "go"), as)));
    const { rows } = await database.query(
      "SELECT count(*)::int AS open FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()",
    );
    await database.end();
    const metrics = await server.get("/metrics", as);
    const [first] = childrenOf(server.pid);
    kill(first ?? 0, "SIGKILL");
    await eventually("its successor", async () => {
      // A connection to the killed process breaks.
      const found = await hosts().catch(() => ({}) as Record<string, string>);
      return Object.keys(found).length === 2 && Object.values(found).some((id) => !Object.values(before).includes(id));
    });
    // The table of hosts is right before the placement of each host is: until then turns for the killed process are refused.
    const refusals: string[] = [];
    await eventually("a turn after it", async () => {
      const { status, text } = await server.post("/chat", turn("plain", "go"), as);
      if (status !== 200) refusals.push(`${status} ${text}`);
      return status === 200;
    });
    const children = childrenOf(server.pid);
    const { code } = await server.stop();

    assert.ok(answers.every(({ status }) => status === 200));
    assert.ok(rows[0].open <= 2 * (2 + 2), `${rows[0].open} connections`);
    const requests = [...metrics.text.matchAll(/^svc_http_requests_total\{route="POST \/chat",status="200"\} (\d+)/gm)];
    assert.deepEqual(
      requests.map(([, count]) => Number(count)),
      [60],
      "the metrics of both",
    );
    for (const refusal of refusals) assert.match(refusal, /^503 .*"actor_lost"/);
    assert.equal(children.length, 2);
    assert.equal(code, 0);
    for (const pid of children) assert.throws(() => kill(pid, 0), /ESRCH/);
  });
});
