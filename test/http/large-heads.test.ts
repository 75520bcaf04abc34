// The size limit of request heads. uWebSockets.js reads it when it is loaded, for the whole process.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { type KeyPair, keyPair, sign } from "../governance/auth/support.ts";
import { assertUnharmed } from "../security/support.ts";
import { RawConnection, rawRequest } from "../support/raw-http.ts";
import { type Env, type ProcessServer, startServerProcess } from "../support/server.ts";
import { cleanup } from "../support/temp.ts";

/** The status of a GET whose request line and headers have this many bytes, sent whole or in pieces. */
async function statusOfHead(server: ProcessServer, bytes: number, pieceBytes = bytes): Promise<number | undefined> {
  const empty = rawRequest("GET", "/health", ["x-a: ", "connection: close"]);
  const head = empty.replace("x-a: ", `x-a: ${"a".repeat(bytes - empty.length)}`);
  assert.equal(head.length, bytes);
  const connection = new RawConnection(server.url);
  for (let at = 0; at < head.length; at += pieceBytes) await connection.send(head.slice(at, at + pieceBytes));
  const answer = await connection.answer();
  connection.close();
  return answer?.status;
}

describe("heads of requests", () => {
  const atEnd = cleanup();
  const start = (env: Env) => startServerProcess({ atEnd, env });
  let server: ProcessServer;
  let pair: KeyPair;
  before(async () => {
    pair = await keyPair("RS256", "rsa-1");
    server = await start({
      SVC_AUTH_MODE: "jwt",
      SVC_JWKS_PUBLIC: JSON.stringify({ keys: [pair.publicJwk] }),
      // Each worker thread has a copy of the environment.
      SVC_HTTP_THREADS: "2",
    });
  });

  test("AUTH-035 may have a token with 70 groups as a credential", async () => {
    const now = Math.floor(Date.now() / 1000);
    const groups = Array.from({ length: 70 }, (_, at) => `/departments/engineering/teams/group-number-${at}`);
    const token = await sign(pair, { sub: "alice", tenant: "acme", scope: "audit:read", exp: now + 600, groups });
    assert.ok(token.length > 4096 && token.length < 8192, `${token.length} characters`);

    const { status } = await server.get("/audit", { key: token });

    assert.equal(status, 200);
  });

  test("heads up to 16 KiB are accepted in any pieces, and longer ones are 431", async () => {
    // The kernel spreads connections over the threads.
    for (let connection = 0; connection < 16; connection++) assert.equal(await statusOfHead(server, 16_000), 200);
    assert.equal(await statusOfHead(server, 16_000, 1000), 200);
    for (const pieceBytes of [17_000, 1000]) assert.equal(await statusOfHead(server, 17_000, pieceBytes), 431);
    assert.equal(await statusOfHead(server, 400_000), 431);
    await assertUnharmed(server);
  });

  test("have the limit of SVC_HTTP_MAX_HEADER_BYTES", async () => {
    const small = await start({ SVC_HTTP_MAX_HEADER_BYTES: "4096", UWS_HTTP_MAX_HEADERS_SIZE: "65536" });
    const large = await start({ SVC_HTTP_MAX_HEADER_BYTES: "65536" });

    assert.deepEqual([await statusOfHead(small, 4000), await statusOfHead(small, 4200)], [200, 431]);
    assert.deepEqual([await statusOfHead(large, 60_000), await statusOfHead(large, 70_000)], [200, 431]);
  });
});
