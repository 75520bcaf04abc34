// A store that dies or cannot write: clients get an error, no acknowledged write is lost, and the log names the cause
// once.
import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { statSync } from "node:fs";
import { join } from "node:path";
import { before, describe, test } from "node:test";
import { gate, says, turn } from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
import { type MockModel, startMockModel } from "../support/mock-model.ts";
import { type Env, manifestEnv, modelEnv, type ProcessServer, startServerProcess } from "../support/server.ts";
import { tcpProxy } from "../support/tcp-proxy.ts";
import { type Cleanup, cleanup } from "../support/temp.ts";
import { brief, databaseOf, obedient, orLost, skipPostgres, snapshotOf, untilCut } from "./support.ts";

const unavailable = { error: "storage_unavailable", detail: "storage_unavailable" };

function envOf(mock: MockModel, atEnd: Cleanup): Env {
  return { ...modelEnv(mock, ["obedient"]), ...manifestEnv(atEnd, { agent: { model: { id: "obedient" } } }) };
}

/** The database's part of /ready. */
async function readiness(server: ProcessServer) {
  const { status, json } = await server.get("/ready");
  return { status, word: json.status, ok: json.checks.database.ok, detail: json.checks.database.detail };
}

async function untilReady(server: ProcessServer): Promise<void> {
  await eventually("a store that works again", async () => (await readiness(server)).status === 200);
}

/** The log lines about the store's health. */
function healthWords({ logs }: ProcessServer): string[] {
  return logs.map(({ msg }) => msg).filter((msg) => msg.startsWith("the store "));
}

/** Waits for the last line, and sends requests so that the server's output is read. */
async function untilTold(server: ProcessServer, word: string): Promise<void> {
  await eventually(word, async () => {
    await server.get("/live");
    return healthWords(server).at(-1) === word;
  });
}

describe("a store thread that dies", () => {
  /** The first worker of a server is its store thread. */
  const killOnSignal = 'process.once("worker", (store) => process.on("SIGUSR2", () => store.terminate()));';

  test("ends the process with exit 1, and its successor has all acknowledged data", async (t) => {
    const atEnd = cleanup(t);
    const mock = await startMockModel();
    atEnd.after(() => mock.close());
    mock.answer("obedient", obedient());
    const preload = `--import=data:text/javascript,${encodeURIComponent(killOnSignal)}`;
    const server = await startServerProcess({ atEnd, env: { ...envOf(mock, atEnd), NODE_OPTIONS: preload } });
    const { json } = await server.post("/chat", turn("agent", "say kept", { thread_id: "one" }));
    const stream = await server.stream("/chat/stream", turn("agent", "begin half", { thread_id: "two" }));
    await stream.until("text_delta");
    const waiting = orLost(server.post("/chat", turn("agent", "begin json", { thread_id: "three" })));
    for (const thread of ["two", "three"])
      await eventually(`the first event of ${thread}`, async () => {
        const { transcript } = await snapshotOf(server, thread);
        return transcript.length === 1;
      });

    process.kill(server.pid, "SIGUSR2");

    assert.deepEqual(await server.exited, { code: 1, signal: null });
    assert.match(server.output, /^the store thread ended with code \d+$/m);
    assert.deepEqual(
      server.logs.filter(({ level }) => level === "fatal").map(({ msg }) => msg),
      ["the server stops after a fatal error"],
    );
    const rest = await untilCut(stream);
    assert.ok(!rest.some(({ name }) => name === "done"));
    await waiting;

    await server.restart();

    const { transcript, leafId } = await snapshotOf(server, "one");
    assert.deepEqual(transcript.map(brief), ["user: say kept", "assistant: kept"]);
    assert.equal(leafId, json.leaf_id);
    for (const thread of ["two", "three"]) {
      const { transcript } = await snapshotOf(server, thread);
      assert.deepEqual(transcript.slice(1).map(brief), ["run_interrupted"], thread);
    }
  });
});

describe("a Postgres server that stops and returns", { skip: skipPostgres }, () => {
  const atEnd = cleanup();
  let server: ProcessServer;
  let mock: MockModel;
  let cut: () => void;
  let restore: () => void;
  before(async () => {
    mock = await startMockModel();
    atEnd.after(() => mock.close());
    mock.answer("obedient", obedient());
    const database = await databaseOf("postgres", atEnd);
    const url = String(database.env.SVC_DATABASE_URL);
    const proxy = await tcpProxy(url, atEnd);
    ({ cut, restore } = proxy);
    server = await startServerProcess({
      atEnd,
      env: {
        ...envOf(mock, atEnd),
        ...database.env,
        SVC_DATABASE_URL: proxy.url(url),
        SVC_DB_POOL_TIMEOUT_SECONDS: "1",
      },
    });
  });

  test("requests are 503 storage_unavailable and /ready is red until it is back", async () => {
    const { json } = await server.post("/chat", turn("agent", "say before", { thread_id: "pg" }));
    const more = gate();
    mock.answer("obedient", says("half ", more.opened, "whole"));
    const stream = await server.stream("/chat/stream", turn("agent", "go on", { thread_id: "live" }));
    await stream.until("text_delta");
    mock.answer("obedient", obedient());

    cut();
    const chat = await server.post("/chat", turn("agent", "say lost", { thread_id: "pg" }));
    const fresh = await server.post("/chat", turn("agent", "say lost", { thread_id: "never" }));
    const history = await server.get("/chat/history/pg");
    const search = await server.get("/chat/sessions/search?q=before");
    const ready = await readiness(server);
    const live = await server.get("/live");
    more.open();
    const frames = await stream.rest();

    for (const { status, json } of [chat, fresh, history, search]) assert.deepEqual([status, json], [503, unavailable]);
    assert.deepEqual(ready, { status: 503, word: "not_ready", ok: false, detail: "storage_unavailable" });
    assert.equal(live.status, 200);
    // A turn that could not be stored does not end with done.
    assert.deepEqual(
      frames.slice(-2).map(({ name }) => name),
      ["error", "[DONE]"],
    );

    restore();
    await untilReady(server);

    const next = await server.post("/chat", turn("agent", "say after", { thread_id: "pg" }));
    assert.deepEqual([next.status, next.json.final.content], [200, "after"]);
    const { transcript } = await snapshotOf(server, "pg");
    assert.deepEqual(transcript.map(brief), [
      "user: say before",
      "assistant: before",
      "user: say after",
      "assistant: after",
    ]);
    assert.equal(transcript[1]?.id, json.leaf_id);
    const taken = await server.post("/chat", turn("agent", "say on", { thread_id: "live" }));
    assert.equal(taken.status, 200);
    await untilTold(server, "the store accepts writes again");
    assert.deepEqual(healthWords(server), ["the store does not accept writes", "the store accepts writes again"]);
    const reason = server.logs.find(({ msg }) => msg === "the store does not accept writes")?.reason;
    assert.ok(typeof reason === "string" && reason !== "" && reason !== "storage_unavailable", String(reason));
  });
});

describe("a connected Postgres that does not answer", { skip: skipPostgres }, () => {
  test("OPS-007 /ready is red by its own deadline and requests are 503, until it answers", async (t) => {
    const atEnd = cleanup(t);
    const mock = await startMockModel();
    atEnd.after(() => mock.close());
    mock.answer("obedient", obedient());
    const database = await databaseOf("postgres", atEnd);
    const url = String(database.env.SVC_DATABASE_URL);
    const proxy = await tcpProxy(url, atEnd);
    const env = { ...envOf(mock, atEnd), ...database.env, SVC_DATABASE_URL: proxy.url(url) };
    const server = await startServerProcess({ atEnd, env });
    await server.post("/chat", turn("agent", "say before", { thread_id: "loaded" }));

    proxy.hush();
    const silent = {
      ready: server.get("/ready"),
      "a turn of a thread in memory": server.post("/chat", turn("agent", "say lost", { thread_id: "loaded" })),
      "a stream of a new thread": server.post("/chat/stream", turn("agent", "say lost", { thread_id: "never" })),
      "a keyed turn without a thread": server.post("/chat", turn("agent", "say lost"), {
        headers: { "idempotency-key": "k" },
      }),
      history: server.get("/chat/history/loaded"),
      session: server.get("/chat/sessions/loaded"),
      sessions: server.get("/chat/sessions"),
      versions: server.get("/manifests/stored/versions"),
      "a manifest to store": server.request("PUT", "/manifests/stored", {
        body: { manifest: { metadata: { name: "stored" }, spec: {} } },
      }),
      usage: server.get("/usage"),
    };
    const { ready, ...requests } = silent;
    const first = await Promise.race(Object.entries(silent).map(async ([what, answer]) => (await answer) && what));
    const red = await ready;
    const live = await server.get("/live");

    assert.equal(first, "ready");
    assert.deepEqual([red.status, red.json.status], [503, "not_ready"]);
    const { database: dead, object_store } = red.json.checks;
    assert.deepEqual([dead.ok, object_store.ok], [false, true]);
    // The store drops its connection after the same time.
    assert.ok(["deadline_exceeded", "storage_unavailable"].includes(dead.detail), dead.detail);
    assert.equal(live.status, 200);
    for (const [what, answer] of Object.entries(requests)) {
      const { status, json } = await answer;
      // The actor's deadline is two seconds later than the store's; a process without processor time for that long sees
      // both as passed.
      assert.equal(status, 503, what);
      assert.ok(["deadline_exceeded", "storage_unavailable"].includes(json.error), `${what}: ${json.error}`);
    }

    proxy.restore();
    await untilReady(server);

    const next = await server.post("/chat", turn("agent", "say after", { thread_id: "fresh" }));
    assert.deepEqual([next.status, next.json.final.content], [200, "after"]);
  });
});

describe("a process that exits while Postgres does not answer", { skip: skipPostgres }, () => {
  test("exits at once with code 0, and the log says which rows may be missing", async (t) => {
    const atEnd = cleanup(t);
    const mock = await startMockModel();
    atEnd.after(() => mock.close());
    mock.answer("obedient", obedient());
    const database = await databaseOf("postgres", atEnd);
    const url = String(database.env.SVC_DATABASE_URL);
    const proxy = await tcpProxy(url, atEnd);
    const more = {
      SVC_DATABASE_URL: proxy.url(url),
      SVC_GRACEFUL_SHUTDOWN_SECONDS: "1",
      SVC_AUDIT_FLUSH_SECONDS: "60",
    };
    const server = await startServerProcess({ atEnd, env: { ...envOf(mock, atEnd), ...database.env, ...more } });
    await server.post("/chat", turn("agent", "say before", { thread_id: "loaded" }));

    proxy.hush();

    // A killed process, as this one would be after thirty seconds, has no exit code.
    assert.deepEqual(await server.stop(), { code: 0, signal: null });
    assert.ok(server.logs.some(({ msg }) => msg.startsWith("the store does not answer: the last audit rows")));
  });
});

describe("a full disk", () => {
  const hasPrlimit = spawnSync("prlimit", ["--version"]).status === 0;

  test("refuses turns with 503, turns /ready red, loses nothing, and recovers", {
    skip: hasPrlimit ? false : "needs prlimit of util-linux",
  }, async (t) => {
    const atEnd = cleanup(t);
    const mock = await startMockModel({ record: false });
    atEnd.after(() => mock.close());
    mock.answer("obedient", obedient());
    const server = await startServerProcess({ atEnd, env: envOf(mock, atEnd) });
    const limit = (bytes: string): void =>
      void execFileSync("prlimit", ["--pid", String(server.pid), `--fsize=${bytes}:unlimited`]);
    const wal = join(server.dataDir, "svc.db-wal");
    const text = `say ${"words ".repeat(2000)}`;
    const acknowledged = new Map<string, string>();
    let refusal: { status: number; json: unknown } | undefined;

    // A file with a size limit imitates a full disk.
    limit(String(statSync(wal).size + 300_000));
    for (let number = 0; refusal === undefined; number++) {
      assert.ok(number < 200, "the limit was never met");
      const thread_id = `thread-${number}`;
      const answer = await server.post("/chat", turn("agent", text, { thread_id }));
      if (answer.status === 200) acknowledged.set(thread_id, answer.json.leaf_id);
      else refusal = answer;
    }
    // Smaller writes may still fit, so repeat until the rest of the disk is used.
    let red = await readiness(server);
    for (let number = 0; red.status === 200; number++) {
      assert.ok(number < 200, "it was never red");
      await server.post("/chat", turn("agent", text, { thread_id: "other" }));
      red = await readiness(server);
    }
    const again = await server.post("/chat", turn("agent", text, { thread_id: "other" }));
    const reads = await server.get("/chat/history/thread-0");

    assert.ok(acknowledged.size > 0);
    assert.deepEqual([refusal.status, refusal.json], [503, unavailable]);
    assert.deepEqual([again.status, again.json], [503, unavailable]);
    assert.deepEqual(red, { status: 503, word: "not_ready", ok: false, detail: "storage_unavailable" });
    assert.equal(reads.status, 200);
    assert.equal(reads.json.messages.length, 2);

    limit("unlimited");
    await untilReady(server);

    assert.equal((await server.post("/chat", turn("agent", text, { thread_id: "other" }))).status, 200);
    const check = async (): Promise<void> => {
      for (const [thread, leaf] of acknowledged) {
        const { transcript, leafId, phase } = await snapshotOf(server, thread);
        assert.deepEqual([transcript.length, leafId, phase], [2, leaf, "idle"], thread);
      }
    };
    await check();
    await untilTold(server, "the store accepts writes again");
    const words = healthWords(server);
    assert.equal(words[0], "the store does not accept writes");
    // The rest of the disk may suffice for one small write and not for the next.
    assert.ok(
      words.every((word, at) => word !== words[at - 1]),
      words.join(),
    );
    await server.kill();
    await server.restart();
    await check();
  });
});
