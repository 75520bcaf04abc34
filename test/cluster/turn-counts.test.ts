// A process of its own: a proxy counts the traffic of its hosts.
// Bounds the round trips to the database and the messages between hosts of a plain turn.
import assert from "node:assert/strict";
import { once } from "node:events";
import { connect } from "node:net";
import { createInterface } from "node:readline";
import { before, describe, test } from "node:test";
import { framesUntil, gate, says, startMock, turn } from "../support/chat.ts";
import { hasRedis, hostIdOf, testCluster, threadsOn } from "../support/cluster.ts";
import type { TestStream } from "../support/http-client.ts";
import type { MockModel } from "../support/mock-model.ts";
import { migratedDatabase } from "../support/postgres.ts";
import { apiKeys, type ProcessServer } from "../support/server.ts";
import { type TcpProxy, tcpProxy } from "../support/tcp-proxy.ts";
import { type Cleanup, cleanup } from "../support/temp.ts";

const localRedis = process.env.SVC_TEST_REDIS_URL ?? "redis://127.0.0.1:6379";
const skip = (await hasRedis()) ? false : "needs a Redis";
/** Renewals of leases and periodic tasks add to a count, so the smallest of several turns counts. */
const tries = 12;

describe("the counted cost of a turn on two hosts", { skip }, () => {
  const atEnd = cleanup();
  const { env: keyEnv, keys } = apiKeys({ one: { tenant_id: "one", scopes: ["*"] } });
  const as = { key: keys.one };
  let mock: MockModel;
  let database: TcpProxy;
  let left: ProcessServer;
  let right: ProcessServer;
  /** Messages to other hosts since the last reset, by the inbox. */
  const messages = new Map<string, number>();
  /** Commands of the deployment that Redis has executed since the last reset. */
  const commands: string[] = [];
  let ids: { left: string; right: string };
  before(async () => {
    const { mock: made, env } = await startMock(atEnd, {
      models: ["plain"],
      manifests: { plain: { model: { id: "plain" } } },
      env: keyEnv,
    });
    mock = made;
    const { url } = await migratedDatabase(atEnd);
    database = await tcpProxy(url, atEnd);
    const urls = { databaseUrl: url, redisUrl: localRedis };
    const cluster = await testCluster(atEnd, { env, proxies: urls });
    const prefix = cluster.env.SVC_REDIS_PREFIX as string;
    await watchRedis(atEnd, (command, words) => {
      const key = words.find((word) => word.startsWith(prefix));
      if (key === undefined) return;
      commands.push(command);
      if (/^xadd$/i.test(command)) messages.set(key, (messages.get(key) ?? 0) + 1);
    });
    left = await cluster.host({ SVC_DATABASE_URL: database.url(url) });
    right = await cluster.host();
    ids = { left: await hostIdOf(left, keys.one), right: await hostIdOf(right, keys.one) };
  });

  const threadOn = (side: "left" | "right", prefix: string): string =>
    threadsOn(ids[side], Object.values(ids), "one", prefix).next().value as string;
  const sentTo = (id: string): number =>
    [...messages].filter(([key]) => key.includes(id)).reduce((sum, [, count]) => sum + count, 0);

  test("a plain turn on its own host needs few round trips and Redis commands, and no message", async () => {
    const thread_id = threadOn("left", "own");
    mock.answer("plain", { text: "Blue." });
    await left.post("/chat", turn("plain", "go", { thread_id }), as);
    const whole: number[] = [];
    const sent: number[] = [];
    const asked: string[][] = [];
    for (let n = 0; n < tries; n++) {
      database.turns();
      messages.clear();
      commands.length = 0;
      await left.post("/chat", turn("plain", "go", { thread_id }), as);
      whole.push(database.turns() / 2);
      sent.push(sentTo(ids.right));
      asked.push([...commands]);
    }

    assert.ok(Math.min(...whole) >= 1, "the proxy counts");
    assert.ok(Math.min(...whole) <= 4, `round trips of each turn: ${whole.join()}`);
    assert.equal(Math.min(...sent), 0, `messages of each turn: ${sent.join()}`);
    // The aim is four at most. The renewals of other work add some to a turn.
    const listed = asked.map((each) => each.join(" ")).join("; ");
    assert.equal(Math.min(...asked.map(({ length }) => length)), 0, `commands of each turn: ${listed}`);
  });

  test("a plain turn needs one round trip before the first token, two if its thread is not in memory", async () => {
    const firstOf = async (thread_id: string): Promise<number> => {
      const held = gate();
      mock.answer("plain", says("Blue.", held.opened));
      database.turns();
      const stream = await left.stream("/chat/stream", turn("plain", "go", { thread_id }), as);
      await framesUntil(stream, ({ name }) => name === "text_delta");
      const trips = database.turns() / 2;
      held.open();
      await stream.rest();
      return trips;
    };
    const fresh: number[] = [];
    const loaded: number[] = [];
    for (let n = 0; n < tries; n++) {
      const thread_id = threadOn("left", `first-${n}`);
      fresh.push(await firstOf(thread_id));
      loaded.push(await firstOf(thread_id));
    }

    assert.ok(Math.min(...fresh) <= 2, `new threads: ${fresh.join()}`);
    assert.ok(Math.min(...loaded) <= 1, `threads in memory: ${loaded.join()}`);
  });

  /** Opens streams of a thread that the right host has: the first is the one that counts, the last is of the turn. */
  type Open = (thread_id: string) => Promise<TestStream[]>;
  const sendsOf: Record<string, Open> = {
    "a turn": async (thread_id) => [await left.stream("/chat/stream", turn("plain", "go", { thread_id }), as)],
    "an attached client": async (thread_id) => {
      const stream = await right.stream("/chat/stream", turn("plain", "go", { thread_id }), as);
      const attached = await left.listen(`/chat/stream/${thread_id}`, as);
      await framesUntil(attached, ({ json }) => JSON.stringify(json).includes("begun. "));
      return [attached, stream];
    },
  };
  for (const [what, open] of Object.entries(sendsOf))
    test(`the stream of ${what} on another host costs one message for each piece of text`, async () => {
      const pieces = 12;
      const counts: number[] = [];
      for (let n = 0; n < 3; n++) {
        const gates = Array.from({ length: pieces }, () => gate());
        mock.answer("plain", says("begun. ", ...gates.flatMap(({ opened }, at) => [opened, `piece ${at}. `])));
        const streams = await open(threadOn("right", `${what.at(-1)}-${n}`));
        const [stream] = streams as [TestStream];
        messages.clear();
        for (const [at, each] of gates.entries()) {
          each.open();
          await framesUntil(stream, ({ json }) => JSON.stringify(json).includes(`piece ${at}. `));
        }
        counts.push(sentTo(ids.left));
        await streams.at(-1)?.rest();
        stream.close();
      }

      assert.ok(Math.min(...counts) >= 1, "the monitor counts");
      // The beats of the connections add some.
      assert.ok(Math.min(...counts) <= pieces + 3, `messages of each stream: ${counts.join()}`);
    });
});

/** Calls `seen` with each command that Redis executes, and its arguments. ioredis cannot begin to monitor while commands arrive. */
async function watchRedis(atEnd: Cleanup, seen: (command: string, words: readonly string[]) => void): Promise<void> {
  const { hostname, port, password } = new URL(localRedis);
  const socket = connect(Number(port || 6379), hostname);
  atEnd.after(() => void socket.destroy());
  await once(socket, "connect");
  if (password !== "") socket.write(`AUTH ${password}\r\n`);
  socket.write("MONITOR\r\n");
  createInterface({ input: socket }).on("line", (line) => {
    const words = [...line.matchAll(/"((?:[^"\\]|\\.)*)"/g)].map(([, text]) => text as string);
    const [command] = words;
    if (command !== undefined) seen(command, words.slice(1));
  });
}
