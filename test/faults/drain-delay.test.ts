// A server still serves for a while after SIGTERM, so that a load balancer can notice first (decision 44: drain before
// exit).
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { gate, never, turn } from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
import { HttpClient, type TestStream } from "../support/http-client.ts";
import { startMockModel } from "../support/mock-model.ts";
import { type Env, manifestEnv, modelEnv, type ProcessServer, startServerProcess } from "../support/server.ts";
import { type Cleanup, cleanup } from "../support/temp.ts";
import { obedient } from "./support.ts";

/** Signals closer together than this count as one. */
const sameSignalMs = 300;

/** A server with a live turn whose model continues after `release`. */
async function start(atEnd: Cleanup, release: Promise<unknown>, env: Env) {
  const mock = await startMockModel();
  atEnd.after(() => mock.close());
  mock.answer("obedient", obedient(release));
  const agent = manifestEnv(atEnd, { agent: { model: { id: "obedient" } } });
  const server = await startServerProcess({ atEnd, env: { ...modelEnv(mock, ["obedient"]), ...agent, ...env } });
  const stream = await server.stream("/chat/stream", turn("agent", "begin first", { thread_id: "live" }));
  await stream.until("text_delta");
  return { server, stream };
}

/** Sends a request over a new connection. */
async function afresh<T>(server: ProcessServer, ask: (client: HttpClient) => Promise<T>): Promise<T> {
  const client = new HttpClient(() => server.url);
  try {
    return await ask(client);
  } finally {
    client.close();
  }
}

function untilDraining(server: ProcessServer): Promise<number> {
  return eventually("/ready tells that the server is draining", () =>
    afresh(server, async (client) => {
      const { status, json } = await client.get("/ready");
      return json.status === "draining" ? status : undefined;
    }),
  );
}

async function namesAtEnd(stream: TestStream): Promise<string[]> {
  return (await stream.rest()).slice(-2).map(({ name }) => name);
}

for (const threads of ["1", "2"]) {
  describe(`SVC_DRAIN_DELAY_SECONDS with ${threads} http and actor threads`, () => {
    const threadsEnv = { SVC_HTTP_THREADS: threads, SVC_ACTOR_THREADS: threads };

    test("serves all with a red /ready until it is over, then closes and ends turns whole", async (t) => {
      const atEnd = cleanup(t);
      const held = gate();
      // The grace for live turns starts when the port closes: the delay alone is longer than it.
      const env = { SVC_DRAIN_DELAY_SECONDS: "4", SVC_GRACEFUL_SHUTDOWN_SECONDS: "3.5", ...threadsEnv };
      const { server, stream } = await start(atEnd, held.opened, env);

      process.kill(server.pid, "SIGTERM");
      const drainingStatus = await untilDraining(server);
      const served = await Promise.all(
        Array.from({ length: 8 }, (_, at) =>
          afresh(server, async (client) => [
            (await client.get("/ready")).json.status,
            (await client.post("/chat", turn("agent", "say hello", { thread_id: `t${at}` }))).status,
          ]),
        ),
      );
      const begun = await server.stream("/chat/stream", turn("agent", "begin late", { thread_id: "late" }));
      await begun.until("text_delta");
      const refusal = await eventually("nobody answers the port", () =>
        afresh(server, (client) =>
          client.get("/live").then(
            () => undefined,
            ({ code }) => code,
          ),
        ),
      );
      held.open();

      assert.equal(drainingStatus, 503);
      assert.deepEqual(served, Array(8).fill(["draining", 200]));
      assert.match(refusal, /ECONNREFUSED|ECONNRESET/);
      for (const each of [stream, begun]) assert.deepEqual(await namesAtEnd(each), ["done", "[DONE]"]);
      assert.deepEqual(await server.exited, { code: 0, signal: null });
      // Each thread that runs turns logs their number.
      const words = [...new Set(server.logs.map(({ msg }) => msg))].slice(-4);
      const waiting = "waiting for running turns; press Ctrl-C again to end them at once";
      assert.deepEqual(words, [
        "stop requested: still serving during the drain delay, /ready answers draining",
        "draining",
        waiting,
        "stopped",
      ]);
    });
  });
}

test("a second signal during the delay ends the server at once, in mid-turn too", async (t) => {
  const atEnd = cleanup(t);
  const { server } = await start(atEnd, never, { SVC_DRAIN_DELAY_SECONDS: "600" });

  process.kill(server.pid, "SIGINT");
  await untilDraining(server);
  const since = performance.now();
  await eventually("the first signal is some time ago", async () => {
    await server.get("/live");
    return performance.now() - since > sameSignalMs;
  });
  process.kill(server.pid, "SIGINT");

  assert.deepEqual(await server.exited, { code: 1, signal: null });
});

test("losing the store during the delay ends the server with a failure", async (t) => {
  const atEnd = cleanup(t);
  const killOnSignal = 'process.once("worker", (store) => process.on("SIGUSR2", () => store.terminate()));';
  const preload = `--import=data:text/javascript,${encodeURIComponent(killOnSignal)}`;
  const { server } = await start(atEnd, never, { SVC_DRAIN_DELAY_SECONDS: "600", NODE_OPTIONS: preload });

  process.kill(server.pid, "SIGTERM");
  await untilDraining(server);
  process.kill(server.pid, "SIGUSR2");

  assert.deepEqual(await server.exited, { code: 1, signal: null });
  assert.ok(server.logs.some(({ msg }) => msg === "the server stops after a fatal error"));
});
