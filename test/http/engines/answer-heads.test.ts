// No header value of an answer splits it or ends the process, in each engine.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { systemEnv } from "../../../bus/env.ts";
import { chooseEngine } from "../../../http/engines/choose.ts";
import type { Exchange } from "../../../http/engines/exchange.ts";
import type { Pieces, Reply } from "../../../http/exchange/reply.ts";
import { StreamRegistry } from "../../../http/exchange/sse.ts";
import { RawConnection, rawRequest } from "../../support/raw-http.ts";
import { cleanup } from "../../support/temp.ts";

const hostile = [
  "/\r\nx-injected: yes\r\n\r\nbody",
  "a\rb",
  "a\nb",
  "a\tb",
  "a\0b",
  "a\x1fb",
  "a\x7fb",
  "a\u010db",
  "\u010a",
];

for (const name of ["uws", "node"] as const)
  describe(`the heads of answers with ${name}`, () => {
    const atEnd = cleanup();
    let ended = 0;
    const some: () => Pieces = () => ({
      next: async () => ({ done: true, value: undefined }),
      return: async () => {
        ended++;
        return { done: true, value: undefined };
      },
    });
    const replies: Readonly<Record<string, (value: string) => Reply>> = {
      json: (value) => ({ kind: "json", status: 200, body: "{}", headers: { location: value } }),
      text: (value) => ({
        kind: "text",
        status: 302,
        contentType: "text/plain",
        body: "",
        headers: { location: value },
      }),
      "content type": (value) => ({ kind: "text", status: 200, contentType: value, body: "x" }),
      stream: (value) => ({ kind: "stream", headers: { "x-thread": value }, open: () => assert.fail("it is open") }),
      pieces: (value) => ({ kind: "pieces", contentType: "text/plain", headers: { etag: value }, pieces: some() }),
    };

    async function serve(onRequest: (exchange: Exchange) => void): Promise<RawConnection> {
      const env = systemEnv();
      const options = { host: "127.0.0.1", port: 0, shared: false, trustedHeader: "", headBytesMax: 16_384 };
      const registry = new StreamRegistry(1_000_000, () => env.monotonic());
      const listener = await (await chooseEngine(name)).listen(options, env, registry, onRequest);
      atEnd.after(() => listener.close());
      return new RawConnection(`http://127.0.0.1:${listener.port}`);
    }

    test("an answer with a hostile value is an internal error, and the connection serves on", async () => {
      let next: Reply = replies.json?.("") as Reply;
      const connection = await serve((exchange) => {
        exchange.requestId = "r1";
        // Node reads the end of a request after its head, and keeps the connection only then.
        setImmediate(() => exchange.reply(next));
      });

      for (const [kind, make] of Object.entries(replies))
        for (const value of hostile) {
          next = make(value);
          await connection.send(rawRequest("GET", "/"));
          const answer = await connection.answer();
          assert.equal(answer?.status, 500, `${kind} ${JSON.stringify(value)}`);
          assert.doesNotMatch(answer.head, /injected|[^\r\n\x20-\x7e]/);
          assert.deepEqual(JSON.parse(answer.body), { error: "internal_error", detail: "internal error (request r1)" });
        }
      assert.equal(ended, hostile.length, "the pieces are released");
      next = replies.text?.("/caf\xe9?a=b") as Reply;
      await connection.send(rawRequest("GET", "/"));
      assert.equal((await connection.answer())?.status, 302);
      assert.equal(connection.unread, "");
      connection.close();
    });

    test("a hostile value that all answers get is left out", async () => {
      const connection = await serve((exchange) => {
        exchange.requestId = "r1";
        exchange.extraHeaders.push(["x-bad", "a\r\nx-injected: yes"], ["x-good", "yes"]);
        exchange.reply({ kind: "json", status: 200, body: "{}" });
      });
      await connection.send(rawRequest("GET", "/"));
      const answer = await connection.answer();

      assert.deepEqual([answer?.status, answer?.headers["x-good"], answer?.headers["x-bad"]], [200, "yes", undefined]);
      assert.doesNotMatch(String(answer?.head), /injected/);
      connection.close();
    });
  });
