import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { connect, createServer as createTcpServer, type Socket } from "node:net";
import { join } from "node:path";
import { describe, test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { createServer, getCACertificates, setDefaultCACertificates } from "node:tls";
import { systemEnv } from "../../../bus/env.ts";
import { Redis } from "../../../governance/egress/redis.ts";
import { connectRedis } from "../../../governance/egress/redis-connection.ts";
import { readRedisUrl } from "../../../governance/settings/redis-place.ts";
import { readSettings } from "../../../governance/settings/settings.ts";
import { has } from "../../support/needs.ts";
import { startRedis } from "../../support/redis.ts";
import { tcpProxy } from "../../support/tcp-proxy.ts";
import { type Cleanup, cleanup, tempDir } from "../../support/temp.ts";

const password = "p4ss-kept-from-every-log";

function open(url: string, atEnd: Cleanup): { redis: Redis; said: string[] } {
  const said: string[] = [];
  const log = {
    info: (words: string) => void said.push(words),
    warn: (what: object, words: string) => void said.push(`${words}: ${JSON.stringify(what)}`),
  };
  const redis = new Redis(readRedisUrl(url), systemEnv(), log);
  atEnd.after(() => redis.close());
  return { redis, said };
}

/** Retries until there is an answer. */
async function answers(redis: Redis): Promise<unknown> {
  for (;;) {
    const answer = await redis.command("PING").catch(() => null);
    if (answer !== null) return answer;
    await pause(20);
  }
}

test("a sentinel that accepts a connection and says nothing fails the attempt", async (t) => {
  const atEnd = cleanup(t);
  const sockets: Socket[] = [];
  const silent = createTcpServer((socket) => void sockets.push(socket.on("error", () => {})));
  await new Promise<void>((resolve) => silent.listen(0, "127.0.0.1", resolve));
  atEnd.after(() => {
    for (const socket of sockets) socket.destroy();
    silent.close();
  });
  const { port } = silent.address() as { port: number };

  const failure = await new Promise<Error>((resolve) => {
    void connectRedis(readRedisUrl(`redis+sentinel://127.0.0.1:${port}/main/0`), {
      answerMs: null,
      pauseMs: () => null,
      onError: resolve,
    });
  });

  assert.match(failure.message, /sentinel/);
});

describe("the connection to Redis", () => {
  test("is refused while Redis is away, reconnects by itself, and logs once", async (context) => {
    const atEnd = cleanup(context);
    const server = await startRedis(atEnd);
    if (!has(context, server !== null, "needs redis-server") || server === null) return;
    const proxy = await tcpProxy(server.url, atEnd);
    const { redis, said } = open(proxy.url(server.url), atEnd);
    assert.equal(await redis.command("PING"), "PONG");

    proxy.cut();
    await assert.rejects(redis.command("PING"), { code: "storage_unavailable" });
    await assert.rejects(redis.command("LPUSH", "l", "x"), { code: "storage_unavailable", outcome: "not_sent" });
    await assert.rejects(redis.command("LPUSH", "l", "x"), { code: "storage_unavailable", outcome: "not_sent" });
    proxy.restore();

    assert.equal(await answers(redis), "PONG");
    assert.equal(await redis.command("LLEN", "l"), 0);
    assert.equal(said.filter((line) => line.startsWith("Redis cannot be reached")).length, 1);
    assert.equal(said.at(-1), "Redis answers again");
  });

  test("times out a command, reports that it may have run, and never resends it", async (context) => {
    const atEnd = cleanup(context);
    const server = await startRedis(atEnd);
    if (!has(context, server !== null, "needs redis-server") || server === null) return;
    const proxy = await tcpProxy(server.url, atEnd);
    const { redis } = open(proxy.url(server.url), atEnd);
    await redis.command("PING");

    proxy.loseNextAnswer();
    await assert.rejects(redis.command("LPUSH", "l", "x"), { code: "storage_unavailable", outcome: "unknown" });
    await answers(redis);

    assert.equal(await redis.command("LLEN", "l"), 1);

    proxy.swallow();
    await assert.rejects(redis.command("LPUSH", "l", "y"), { code: "storage_unavailable", outcome: "unknown" });
    await answers(redis);

    assert.equal(await redis.command("LLEN", "l"), 1);
  });

  test("counts a replica or a full Redis as away, did nothing, and reconnects", async (context) => {
    const atEnd = cleanup(context);
    const server = await startRedis(atEnd);
    if (!has(context, server !== null, "needs redis-server") || server === null) return;
    const { redis } = open(server.url, atEnd);
    const id = () => redis.command("CLIENT", "ID");
    const first = await id();

    await server.client.call("REPLICAOF", "127.0.0.1", "1");
    const pushes = await Promise.allSettled(["x", "y"].map((text) => redis.command("LPUSH", "l", text)));
    await server.client.call("REPLICAOF", "NO", "ONE");
    const second = await id();
    await server.client.config("SET", "maxmemory", "1");
    await assert.rejects(redis.command("LPUSH", "l", "z"), { code: "storage_unavailable", outcome: "not_sent" });
    await server.client.config("SET", "maxmemory", "0");

    for (const { status, ...rest } of pushes)
      assert.deepEqual([status, (rest as { reason?: { outcome?: string } }).reason?.outcome], ["rejected", "not_sent"]);
    assert.notEqual(second, first);
    assert.equal(await redis.command("LPUSH", "l", "z"), 1);
    assert.equal(await id(), second);
  });

  test("is checked by a write without effect, or by an answer for push accounts", async (context) => {
    const atEnd = cleanup(context);
    const server = await startRedis(atEnd);
    if (!has(context, server !== null, "needs redis-server") || server === null) return;
    await server.client.call("ACL", "SETUSER", "pusher", "on", `>${password}`, "~jobs:*", "+lpush", "+ping");
    const { redis } = open(server.url, atEnd);
    const pusher = open(server.url.replace("://", `://pusher:${password}@`), atEnd);

    await redis.check();
    await pusher.redis.check();
    await server.client.call("REPLICAOF", "127.0.0.1", "1");

    await assert.rejects(redis.check(), { code: "storage_unavailable", outcome: "not_sent" });
    await server.client.call("REPLICAOF", "NO", "ONE");
    assert.equal(await server.client.dbsize(), 0);
  });

  test("logs in, selects its database, and keeps a wrong password secret", async (context) => {
    const atEnd = cleanup(context);
    const server = await startRedis(atEnd, password);
    if (!has(context, server !== null, "needs redis-server") || server === null) return;
    const { redis } = open(`${server.url}/3`, atEnd);
    await redis.command("SET", "k", "v");
    await server.client.select(3);
    assert.equal(await server.client.get("k"), "v");

    const wrong = open(server.url.replace(password, `${password}x`), atEnd);
    const failure = await wrong.redis.command("SET", "k", "w").catch((error: Error) => error);
    const refusal = await redis.command("INCR", "k").catch((error: Error) => error);

    const told = [failure, refusal].map((error) =>
      JSON.stringify([error, String(error), String((error as Error).cause)]),
    );
    assert.match(told.join(), /WRONGPASS/);
    assert.match(told.join(), /not an integer/);
    assert.ok(!`${told}${wrong.said}`.includes("p4ss"));
  });

  test("by rediss:// uses TLS, only to the host that the certificate names", async (context) => {
    const atEnd = cleanup(context);
    const server = await startRedis(atEnd, password);
    if (!has(context, server !== null, "needs redis-server") || server === null) return;
    const directory = tempDir(atEnd);
    const [key, cert] = [join(directory, "key.pem"), join(directory, "cert.pem")];
    execFileSync(
      "openssl",
      `req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 1 -subj /CN=localhost -addext subjectAltName=DNS:localhost -keyout ${key} -out ${cert}`.split(
        " ",
      ),
      { stdio: "ignore" },
    );
    const to = Number(new URL(server.url).port);
    const front = createServer({ key: readFileSync(key), cert: readFileSync(cert) }, (client) => {
      const inner = connect(to, "127.0.0.1");
      client.on("error", () => {}).pipe(inner);
      inner.on("error", () => {}).pipe(client);
    });
    front.on("tlsClientError", () => {});
    await new Promise<void>((resolve) => front.listen(0, "127.0.0.1", resolve));
    atEnd.after(() => void front.close());
    const { port } = front.address() as { port: number };
    const trusted = getCACertificates("default");
    atEnd.after(() => setDefaultCACertificates(trusted));

    const stranger = open(`rediss://:${password}@localhost:${port}`, atEnd);
    await assert.rejects(stranger.redis.command("PING"), { code: "storage_unavailable", outcome: "not_sent" });
    setDefaultCACertificates([...trusted, readFileSync(cert, "utf8")]);
    const named = open(`rediss://:${password}@localhost:${port}`, atEnd);
    const another = open(`rediss://:${password}@127.0.0.1:${port}`, atEnd);

    assert.equal(await named.redis.command("PING"), "PONG");
    await assert.rejects(another.redis.command("PING"), { code: "storage_unavailable", outcome: "not_sent" });
    assert.match(stranger.said.join(), /certificate/);
    assert.ok(!stranger.said.join().includes("p4ss"));
  });

  test("is not made to the metadata addresses of a cloud", async (context) => {
    const { redis, said } = open("redis://169.254.169.254:6379", cleanup(context));

    await assert.rejects(redis.command("PING"), { code: "storage_unavailable", outcome: "not_sent" });

    assert.equal(said.length, 1);
  });
});

describe("SVC_REDIS_URL", () => {
  test("is a URL of Redis with the number of a database, and is never repeated", () => {
    for (const url of [
      "http://h",
      "redis://",
      "h:6379",
      "redis://h/x",
      "redis://h/1/2",
      "redis://h?db=1",
      "redis://h#1",
      `redis://:%p4ss@h`,
      "redis://:a/p4ss@h",
    ]) {
      const { issues } = readSettings({ SVC_REDIS_URL: url });
      assert.deepEqual(
        issues.map(({ name }) => name),
        ["SVC_REDIS_URL"],
        url,
      );
      assert.ok(!JSON.stringify(issues).includes("p4ss"));
    }
    assert.deepEqual(readRedisUrl("rediss://me:p%40ss@[::1]:7000/2"), {
      host: "::1",
      port: 7000,
      isTls: true,
      username: "me",
      password: "p@ss",
      db: 2,
    });
  });

  test("has its password masked, encoded and decoded", () => {
    const { settings } = readSettings({ SVC_REDIS_URL: "redis://:p%40ss-word-long@h" });

    for (const secret of ["p%40ss-word-long", "p@ss-word-long", "redis://:p%40ss-word-long@h"])
      assert.ok(settings.secretValues.includes(secret));
    assert.deepEqual(readSettings({ SVC_REDIS_URL: "redis://h" }).settings.secretValues, []);
  });
});
