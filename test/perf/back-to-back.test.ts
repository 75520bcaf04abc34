import assert from "node:assert/strict";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { type TestContext, test } from "node:test";
import { runBackToBack } from "../../perf/back-to-back.ts";

type Answer = (response: ServerResponse, request: IncomingMessage, number: number) => void;

async function served(t: TestContext, answer: Answer) {
  const bodies: { manifest: string; thread_id: string }[] = [];
  const sockets = new Set<unknown>();
  const server = createServer((request, response) => {
    let body = "";
    request.setEncoding("utf8").on("data", (text) => {
      body += text;
    });
    request.on("end", () => {
      sockets.add(request.socket);
      bodies.push(JSON.parse(body));
      answer(response, request, bodies.length);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  const run = (streams: number, turnsMax: number) =>
    runBackToBack({
      ...{ port, head: "x-key: one\r\n", manifest: "some", prefix: "d1" },
      ...{ streams, turnsMax, secondsMax: 20 },
    });
  return { run, bodies, sockets };
}

function stream(...pieces: readonly string[]): Answer {
  return (response) => {
    response.writeHead(200, { "content-type": "text/event-stream" });
    for (const piece of pieces) response.write(piece);
    response.end();
  };
}

const done = 'data: {"event":"done","data":{}}\n\n';
const final = 'data: {"event":"final","data":{"status":"completed"}}\n\n';

test("turns and durable runs are read to their ends, in sequence on each connection", async (t) => {
  for (const frame of [done, final]) {
    const cut = Math.floor(frame.length / 3);
    const keys = new Set<unknown>();
    const { run, bodies, sockets } = await served(t, (response, request, number) => {
      keys.add(request.headers["x-key"]);
      stream("data: {}\n\n", frame.slice(0, cut), frame.slice(cut), "data: [DO", "NE]\n\n")(response, request, number);
    });

    const { turns, errors, turn, windowMs } = await run(2, 7);

    assert.deepEqual([turns, turn.count, errors], [7, 7, {}]);
    assert.ok(windowMs > 0);
    assert.deepEqual([...keys], ["one"]);
    assert.equal(sockets.size, 2);
    assert.deepEqual(new Set(bodies.map(({ manifest }) => manifest)), new Set(["some"]));
    assert.equal(new Set(bodies.map(({ thread_id }) => thread_id)).size, 7);
  }
});

test("a wrong ending is counted by its cause, and the next turn has a new connection", async (t) => {
  const { run, sockets } = await served(t, (response, request, number) => {
    if (number === 1) response.writeHead(503, { "content-length": 2 }).end("{}");
    else if (number === 2) stream("data: {}\n\n", "data: [DONE]\n\n")(response, request, number);
    else if (number === 3) response.destroy();
    else stream(done, "data: [DONE]\n\n")(response, request, number);
  });

  const { turns, errors } = await run(1, 5);

  assert.deepEqual(errors, { "status 503": 1, "no end": 1, "connection closed": 1 });
  assert.equal(turns, 2);
  assert.equal(sockets.size, 4);
});

test("a server that fails repeatedly is dropped", async (t) => {
  const { run, bodies } = await served(t, (response) => void response.writeHead(500).end("{}"));

  const { turns, errors } = await run(4, 100_000);

  assert.equal(turns, 0);
  assert.ok(bodies.length >= 100 && bodies.length < 110);
  assert.deepEqual(Object.keys(errors), ["status 500"]);
});
