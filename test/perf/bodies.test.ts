import assert from "node:assert/strict";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import { JsonFault, parseStrictJson } from "../../bus/strict-json.ts";
import { bodyOfKeys } from "../../perf/bodies-scenario.ts";
import { startRepeating } from "../../perf/repeat-load.ts";

test("the body has the maximum size, and the maximum number of keys", () => {
  const body = bodyOfKeys("perf-burst");

  assert.equal(Buffer.byteLength(body), 1024 * 1024);
  assert.equal((parseStrictJson(body) as { manifest: string }).manifest, "perf-burst");
  const more = body.replace('"rest":', `"more":{${Array.from({ length: 1000 }, (_, n) => `"${n}":0`)}},"rest":`);
  assert.throws(() => parseStrictJson(more), JsonFault);
});

test("a repeated request reuses its connection after an answer, and not after a close", async () => {
  const bodies: string[] = [];
  const sockets = new Set<unknown>();
  const enough = Promise.withResolvers<void>();
  const server = createServer((request, response) => {
    let body = "";
    request.setEncoding("utf8");
    request.on("data", (text) => {
      body += text;
    });
    request.on("end", () => {
      bodies.push(body);
      sockets.add(request.socket);
      assert.equal(request.headers["x-test"], "yes");
      const closes = bodies.length === 3;
      response
        .writeHead(closes ? 413 : 200, { "content-length": 9, ...(closes && { connection: "close" }) })
        .end("an answer");
      if (bodies.length === 6) enough.resolve();
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;

  const repeated = startRepeating({
    kind: "repeat",
    port,
    path: "/chat",
    headers: { "x-test": "yes" },
    body: "x".repeat(100_000),
    connections: 1,
  });
  await enough.promise;
  const { answers } = repeated.stop();
  await new Promise((resolve) => server.close(resolve));

  assert.ok(bodies.every((body) => body.length === 100_000));
  assert.equal(sockets.size, 2);
  assert.equal(answers["413"], 1);
  assert.ok((answers["200"] ?? 0) >= 4, JSON.stringify(answers));
});
