// Forty thousand turns over two hundred threads: the memory grows with the stored rows only.
import assert from "node:assert/strict";
import { readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { readRssKib } from "../../perf/process-stats.ts";
import { databaseOf, snapshotOf } from "../faults/support.ts";
import { turn } from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
import { startMockModel } from "../support/mock-model.ts";
import { manifestEnv, modelEnv, type ProcessServer, startServerProcess } from "../support/server.ts";
import { cleanup } from "../support/temp.ts";

const turnsMax = 40_000;
const threads = 200;
const clients = 50;
const windowMessages = 24;

const mib = 1024 * 1024;
/**
 * The growth of the reachable heap of all threads, from a quarter of the turns to their end: less than 200 bytes a
 * turn.
 */
const heapGrowthBytesMax = 5 * mib;
/**
 * Between the medians of the first and the last third of the turns after that. The allocator takes memory in large
 * steps.
 */
const rssGrowthBytesMax = 80 * mib;
/** The size of the database's log on disk after a late checkpoint. */
const walBytesMax = 80 * mib;
/** Actors other than threads: limiters, the manifests', the nodes'. */
const otherActorsMax = 20;
/** Files that come and go: connections of the clients and to the model, and a few others. */
const openFilesGrowthMax = 2 * clients + 20;

/** One of twenty turns each: without a thread, with a key, with a client that leaves. */
const kinds = ["stateless", "keyed", "left"] as const;

class Soak {
  readonly #server: ProcessServer;
  #begun = 0;
  #until = 0;
  ended = 0;
  readonly count = { stateless: 0, keyed: 0, left: 0, plain: 0 };
  readonly rssKib: number[] = [];

  constructor(server: ProcessServer) {
    this.#server = server;
  }

  async run(turns: number): Promise<void> {
    this.#until += turns;
    await Promise.all(Array.from({ length: clients }, (_, client) => this.#talk(client)));
  }

  async #talk(client: number): Promise<void> {
    // Each client has threads of its own, so that turns do not collide.
    for (let number = 0; this.#begun < this.#until; number++) {
      const thread_id = `thread-${client + clients * (number % (threads / clients))}`;
      const kind = kinds[this.#begun % 20] ?? "plain";
      await this.#turn(kind, thread_id, `message-${this.#begun++}`);
      this.count[kind]++;
      this.ended++;
      if (this.ended % 100 === 0) this.rssKib.push(readRssKib([this.#server.pid]));
    }
  }

  async #turn(kind: keyof Soak["count"], thread_id: string, text: string): Promise<void> {
    const server = this.#server;
    const body = turn("agent", text, kind === "stateless" ? {} : { thread_id });
    if (kind === "left") {
      const stream = await server.stream("/chat/stream", body);
      assert.equal(stream.status, 200);
      await stream.until("session_progress");
      stream.close();
      await eventually(
        `the end of ${text}`,
        async () => (await server.get(`/chat/sessions/${thread_id}`)).json.phase === "idle",
      );
    } else if (kind === "keyed") {
      const { status } = await server.post("/chat", body, { headers: { "idempotency-key": text } });
      assert.equal(status, 200);
    } else {
      const stream = await server.stream("/chat/stream", body);
      assert.deepEqual([stream.status, (await stream.rest()).at(-2)?.name], [200, "done"]);
    }
  }
}

/** On SIGUSR2 the server prints the reachable bytes of its threads: a heap snapshot collects garbage first. */
const heapOnSignal = `
  import v8 from "node:v8";
  const threads = [];
  const drained = async (snapshot) => { for await (const _ of snapshot); };
  process.on("worker", (thread) => threads.push(thread));
  process.on("SIGUSR2", async () => {
    await drained(v8.getHeapSnapshot());
    let used = v8.getHeapStatistics().used_heap_size;
    for (const thread of threads.filter(({ threadId }) => threadId !== -1)) {
      await drained(await thread.getHeapSnapshot());
      used += (await thread.getHeapStatistics()).used_heap_size;
    }
    process.stdout.write(JSON.stringify({ level: "info", msg: "heap", used }) + "\\n");
  });`;

/** Waits until only threads are in memory: actors of turns without a thread stay for some seconds. */
function settled(server: ProcessServer): Promise<string> {
  return eventually("actors of conversations alone", async () => {
    const { text } = await server.get("/metrics");
    return gaugeOf(text, "svc_actors") <= threads + otherActorsMax ? text : undefined;
  });
}

async function reachableBytes(server: ProcessServer): Promise<number> {
  const told = (): unknown[] => server.logs.filter(({ msg }) => msg === "heap").map(({ used }) => used);
  const before = told().length;
  process.kill(server.pid, "SIGUSR2");
  return eventually("the size of the heaps", async () => {
    await server.get("/live");
    return told()[before] as number | undefined;
  });
}

function gaugeOf(metrics: string, name: string): number {
  return Number(metrics.match(new RegExp(`^${name} (\\d+)$`, "m"))?.[1]);
}

test("forty thousand turns leave rows, and no memory, files, actors or streams", {
  skip: process.platform === "linux" ? false : "needs /proc",
}, async (t) => {
  const atEnd = cleanup(t);
  const mock = await startMockModel({ record: false });
  atEnd.after(() => mock.close());
  let messagesSeen = 0;
  mock.answer("brief", ({ body }) => {
    messagesSeen = Math.max(messagesSeen, (body.messages as unknown[]).length);
    return { text: "one two three" };
  });
  const agent = { model: { id: "brief" }, session: { strategy: `windowed:${windowMessages}` } };
  const server = await startServerProcess({
    atEnd,
    env: {
      ...modelEnv(mock, ["brief"]),
      ...manifestEnv(atEnd, { agent }),
      SVC_AUDIT_FLUSH_SECONDS: "1",
      // Each thread's young generation would grow to 48 MiB at times, and hide a leak.
      NODE_OPTIONS: `--max-semi-space-size=2 --import=data:text/javascript,${encodeURIComponent(heapOnSignal)}`,
    },
  });
  const openFiles = (): number => readdirSync(`/proc/${server.pid}/fd`).length;
  const soak = new Soak(server);
  await soak.run(turnsMax / 4);
  await settled(server);
  const heapBefore = await reachableBytes(server);
  const openBefore = openFiles();
  soak.rssKib.length = 0;

  await soak.run((3 * turnsMax) / 4);

  // Live resources: none.
  const metrics = await settled(server);
  const gauge = (name: string): number => gaugeOf(metrics, name);
  assert.deepEqual([gauge("svc_live_runs"), gauge("svc_open_streams"), gauge("svc_stream_waiting_bytes")], [0, 0, 0]);
  assert.ok(openFiles() <= openBefore + openFilesGrowthMax, `${openFiles()} files, ${openBefore} before`);

  // The memory.
  const third = (number: number): number => {
    const size = soak.rssKib.length / 3;
    const sorted = soak.rssKib.slice(Math.floor(size * number), Math.floor(size * (number + 1))).sort((a, b) => a - b);
    return (sorted[Math.floor(sorted.length / 2)] as number) * 1024;
  };
  const rss = [0, 1, 2].map(third) as [number, number, number];
  const heap = await reachableBytes(server);
  t.diagnostic(`RSS by third: ${rss.map((bytes) => Math.round(bytes / mib)).join(", ")} MiB`);
  t.diagnostic(`reachable: ${(heapBefore / mib).toFixed(1)} MiB, then ${(heap / mib).toFixed(1)} MiB`);
  assert.ok(heap - heapBefore <= heapGrowthBytesMax, `${heap - heapBefore} bytes more are reachable`);
  assert.ok(rss[2] - rss[0] <= rssGrowthBytesMax, `${rss[2] - rss[0]} bytes more`);

  // The messages in the prompt, and the size of the database's log.
  assert.equal(messagesSeen, windowMessages);
  const walBytes = statSync(join(server.dataDir, "svc.db-wal")).size;
  assert.ok(walBytes <= walBytesMax, `${walBytes} bytes of log`);

  // The rows on disk, to the row.
  for (let number = 0; number < threads; number += 40)
    assert.equal((await snapshotOf(server, `thread-${number}`)).phase, "idle");
  await server.stop();
  const { rows } = await databaseOf("sqlite", atEnd);
  const tables = ["threads", "events", "runs", "idempotency", "usage", "audit"];
  const counted: Record<string, unknown> = {};
  for (const table of tables) {
    const [row] = await rows(`SELECT COUNT(*) AS number FROM ${table}`, server.dataDir);
    counted[table] = row?.number;
  }
  const { stateless, keyed, left, plain } = soak.count;
  const onThreads = keyed + left + plain;
  t.diagnostic(`${JSON.stringify(soak.count)} ${JSON.stringify(counted)}`);
  assert.equal(stateless + onThreads, soak.ended);
  assert.ok(soak.ended >= turnsMax && stateless > 0 && left > 0);
  assert.deepEqual(counted, {
    threads,
    events: 2 * onThreads,
    runs: soak.ended,
    idempotency: keyed,
    usage: soak.ended,
    audit: 2 * soak.ended,
  });
  assert.deepEqual(
    server.logs.filter(({ level }) => level === "error" || level === "warn").map(({ msg }) => msg),
    [],
  );
});
