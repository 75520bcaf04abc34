// A runner of commands that hangs, dies or breaks its protocol: no start, no command and no socket stays open.
import assert from "node:assert/strict";
import type { ServerResponse } from "node:http";
import { before, describe, test } from "node:test";
import { systemEnv } from "../../../bus/env.ts";
import { Outgoing } from "../../../governance/egress/outgoing.ts";
import { RunnerClient, RunnerRefusal } from "../../../governance/processes/runner-client.ts";
import type { OnOutput } from "../../../governance/processes/spawner.ts";
import { eventually } from "../../support/eventually.ts";
import { flood } from "../../support/fault-site.ts";
import { cleanup } from "../../support/temp.ts";
import { startWebSite, type WebSite } from "../../support/web-site.ts";

const keepBytes = 64 * 1024;
const event = (value: unknown): string => `data: ${JSON.stringify(value)}\n\n`;
const output = (bytes: number, stream = "stdout"): string =>
  event({ stream, data: Buffer.alloc(bytes, "x").toString("base64") });
const head = { "content-type": "text/event-stream" };

describe("a runner of commands", () => {
  const atEnd = cleanup();
  let site: WebSite;
  let client: RunnerClient;
  /** How much faster the limits pass. */
  let pace = 1;
  /** How the runner answers the start of a command. */
  let answer: (response: ServerResponse) => void;
  const started: ServerResponse[] = [];
  before(async () => {
    site = await startWebSite(atEnd);
    site.on("/commands", (_, response) => {
      started.push(response);
      response.on("error", () => {});
      answer(response);
    });
    for (const path of ["/commands/c1", "/commands/c1/input"]) site.on(path, (_, response) => response.end("{}"));
    const env = systemEnv();
    const settings = { egressCredentials: {}, egressPrivate: [], egressProxy: "", egressCaFile: null, testResolve: {} };
    const outgoing = new Outgoing({ settings, secrets: { resolve: async (text) => text }, env });
    atEnd.after(() => outgoing.close());
    const clock = { timer: (ms: number, work: () => void) => env.timer(ms / pace, work) };
    client = new RunnerClient(outgoing, { url: `http://127.0.0.1:${site.port}`, token: "t" }, clock);
  });

  function start(signal?: AbortSignal, onOutput: OnOutput = () => {}) {
    return client.start({
      ...{ argv: ["go"], folder: null, tenantId: "acme", keepBytes, onOutput },
      ...(signal && { signal }),
    });
  }
  const areClosed = () =>
    eventually("every stream is closed", async () => started.every(({ destroyed, closed }) => destroyed || closed));

  for (const [what, breaks] of [
    ["hangs", () => {}],
    ["hangs after its head", (response) => response.writeHead(200, head).flushHeaders()],
    ["beats and starts nothing", (response) => response.writeHead(200, head).write(":\n\n")],
    ["sends a number", (response) => response.writeHead(200, head).write(event(7))],
    ["sends null", (response) => response.writeHead(200, head).write(event(null))],
    ["sends output before the start", (response) => response.writeHead(200, head).write(output(1))],
    ["names no id", (response) => response.writeHead(200, head).write(event({ id: 7 }))],
  ] as readonly (readonly [string, (response: ServerResponse) => unknown])[])
    test(`a runner that ${what} has refused the command, and its answer is closed`, async () => {
      answer = breaks;
      pace = 100;

      await assert.rejects(start(), RunnerRefusal);

      pace = 1;
      await areClosed();
    });

  test("an abort gives up a start that hangs", async () => {
    const stop = new AbortController();
    answer = () => void stop.abort();

    await assert.rejects(start(stop.signal), RunnerRefusal);
    await assert.rejects(start(stop.signal), RunnerRefusal);

    await areClosed();
  });

  for (const [what, breaks] of [
    ["dies", (response) => response.socket?.destroy()],
    ["ends its stream", (response) => response.end()],
    ["writes more than it was asked for", (response) => flood(response, Buffer.from(output(10_000)))],
    ["writes a line without an end", (response) => flood(response)],
    ["names an unknown stream", (response) => response.write(output(1, "up"))],
    ["writes output that is no text", (response) => response.write(event({ stream: "stdout", data: 7 }))],
    ["writes no JSON", (response) => response.write("data: {\n\n")],
    ["ends with no exit", (response) => response.write(event({ exit: null }))],
    ["ends with a text as its code", (response) => response.write(event({ exit: { code: "0", signal: null } }))],
    [
      "ends with an unknown failure",
      (response) => response.write(event({ exit: { code: 0, signal: null, failure: "x" } })),
    ],
  ] as readonly (readonly [string, (response: ServerResponse) => unknown])[])
    test(`a command whose runner ${what} is lost, and its stream is closed`, async () => {
      answer = (response) => {
        response.writeHead(200, head).write(event({ id: "c1" }), () => void breaks(response));
      };
      let bytes = 0;

      const command = await start(undefined, (_, part) => {
        bytes += part.length;
      });

      assert.deepEqual(await command.exit, { code: null, signal: null, failure: "lost" });
      assert.ok(bytes <= keepBytes, String(bytes));
      await areClosed();
    });

  test("a command that is ended is lost if its runner never says so", async () => {
    answer = (response) => void response.writeHead(200, head).write(event({ id: "c1" }));
    const command = await start();

    pace = 100;
    command.kill();
    pace = 1;

    assert.equal((await command.exit).failure, "lost");
    await areClosed();
    assert.ok(site.requests.some(({ method, url }) => method === "DELETE" && url === "/commands/c1"));
  });

  test("a command passes on its output and its end", async () => {
    answer = (response) => {
      const exit = { code: null, signal: "SIGKILL", failure: "too_many_processes", skipped: { stdout: 7, stderr: 0 } };
      response.writeHead(200, head).end([event({ id: "c1" }), output(keepBytes), event({ exit })].join(""));
    };
    let bytes = 0;

    const command = await start(undefined, (_, part) => {
      bytes += part.length;
    });

    assert.deepEqual(await command.exit, {
      ...{ code: null, signal: "SIGKILL", failure: "too_many_processes" },
      skipped: { stdout: 7, stderr: 0 },
    });
    assert.equal(bytes, keepBytes);
  });
});
