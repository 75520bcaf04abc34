// Bodies that arrive too slowly get an answer while the client is still connected.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { assertUnharmed } from "../security/support.ts";
import { RawConnection, rawRequest } from "../support/raw-http.ts";
import { type ProcessServer, startServerProcess } from "../support/server.ts";
import { cleanup } from "../support/temp.ts";
import { assertCommonHeaders } from "./support.ts";

const refusal = { error: "request_timeout", detail: "request_timeout" };

/** Sends a byte at intervals until the connection closes. */
function drip(connection: RawConnection): void {
  const timer = setInterval(() => (connection.over ? clearInterval(timer) : void connection.send(" ")), 200);
}

describe("a request body that arrives too slowly", { concurrency: true }, () => {
  const atEnd = cleanup();
  let server: ProcessServer;
  before(async () => {
    server = await startServerProcess({ atEnd });
  });

  for (const [what, framing, begin, drips] of [
    ["declared, and nothing more comes", "content-length: 500", "{", false],
    ["declared, a byte at a time", "content-length: 5000", "{", true],
    ["in chunks, and nothing more comes", "transfer-encoding: chunked", "5\r\n{", false],
    ["in chunks, in the form of the OpenAI protocol", "transfer-encoding: chunked", "5\r\n{", false],
  ] as const) {
    test(`${what}: the answer is 408, and the connection ends`, async () => {
      const path = what.includes("OpenAI") ? "/v1/chat/completions" : "/chat";
      const connection = new RawConnection(server.url);
      await connection.send(rawRequest("POST", path, [framing, "x-request-id: slow"], begin));
      if (drips) drip(connection);
      const answer = await connection.answer();
      await connection.closed;

      assert.ok(answer);
      assert.equal(answer.status, 408);
      const { error } = JSON.parse(answer.body);
      if (path === "/chat") assert.deepEqual(JSON.parse(answer.body), refusal);
      else assert.equal(error.code, "request_timeout");
      assertCommonHeaders(answer, "slow");
      assert.equal(answer.headers.connection, "close");
      await assertUnharmed(server);
    });
  }
});
