// GET /openapi.json has a megabyte: it is built once in slices, compressed on request, and answered with 304 to clients
// that have it.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { gunzipSync } from "node:zlib";
import { keepBody, keptReply } from "../../../http/exchange/kept-body.ts";
import { openApiText } from "../../../http/openapi/openapi.ts";
import { startServer } from "../../support/server.ts";
import { cleanup } from "../../support/temp.ts";
import { routes } from "../support.ts";

/** Max characters of a piece; a larger one would block the event loop for tens of milliseconds. */
const pieceCharsMax = 64 * 1024;

for (const engine of ["uws", "node"])
  describe(`/openapi.json on ${engine}`, () => {
    const atEnd = cleanup();

    test("is gzipped on request with equal content, and 304 if unchanged", async () => {
      const server = await startServer({ atEnd, env: { SVC_HTTP_ENGINE: engine } });
      const get = (headers: Readonly<Record<string, string>> = {}) => server.get("/openapi.json", { headers });

      // The first two answers are made of the same pieces.
      const [plain, packed] = await Promise.all([get(), get({ "accept-encoding": "br;q=1, GZIP;q=0.5" })]);
      const etag = String(plain.headers.etag);
      const held = [etag, etag.replace("W/", ""), `"other", ${etag}`, "*"];
      const again = await Promise.all(held.map((tag) => get({ "if-none-match": tag, "accept-encoding": "gzip" })));
      const other = await get({ "if-none-match": 'W/"other"' });
      const refusing = await Promise.all(
        ["gzip;q=0", "*;q=0", "br", "gzip;q=0, *"].map((accept) => get({ "accept-encoding": accept })),
      );
      const head = await server.request("HEAD", "/openapi.json", { headers: { "accept-encoding": "gzip" } });
      const after = await server.get("/health");

      assert.match(etag, /^W\/"[\w-]{22}"$/);
      assert.equal(JSON.parse(plain.text).openapi, "3.1.0");
      assert.deepEqual(
        [plain.headers["content-encoding"], plain.headers["content-type"], plain.headers["cache-control"]],
        [undefined, "application/json", "private, no-cache"],
      );
      assert.equal(packed.headers["content-encoding"], "gzip");
      assert.ok(packed.bytes.length < plain.bytes.length / 10);
      assert.ok(gunzipSync(packed.bytes).equals(plain.bytes));
      assert.match(String(plain.headers.vary), /Accept-Encoding/);
      for (const [index, { status, bytes, headers }] of again.entries())
        assert.deepEqual(
          [status, bytes.length, headers.etag, headers["content-length"]],
          [304, 0, etag, undefined],
          held[index],
        );
      assert.deepEqual([other.status, other.bytes.length], [200, plain.bytes.length]);
      for (const { headers, bytes } of refusing)
        assert.deepEqual([headers["content-encoding"], bytes.length], [undefined, plain.bytes.length]);
      assert.deepEqual(
        [head.status, head.headers["content-encoding"], head.headers["content-length"]],
        [200, "gzip", String(packed.bytes.length)],
      );
      assert.equal(after.status, 200, "the connection goes on behind a 304");
    });
  });

test("the document consists of short pieces that form one JSON text", () => {
  const pieces = [...openApiText(routes, "1.2.3")];

  assert.ok(Math.max(...pieces.map((piece) => piece.length)) <= pieceCharsMax);
  const { paths, info, components } = JSON.parse(pieces.join(""));
  assert.equal(info.version, "1.2.3");
  assert.deepEqual(Object.keys(paths), [...new Set(routes.map(({ path }) => path))]);
  const operations = Object.values(paths as Record<string, object>).flatMap((under) => Object.keys(under));
  assert.equal(operations.length, routes.length);
  assert.ok(Object.keys(components.schemas).length > 10);
});

test("others get their turn during its generation", async () => {
  let [now, turns] = [0, 0];
  const env = {
    monotonic: () => now,
    defer: (work: () => void) => {
      turns += 1;
      queueMicrotask(work);
    },
  };
  const pieces = function* () {
    for (let made = 0; made < 100; made += 1) {
      now += 3;
      yield "é";
    }
  };

  const body = await keepBody(pieces(), env);

  // 300 ms of work, two pieces a turn.
  assert.equal(turns, 50);
  assert.equal(Buffer.from(body.plain).toString(), "é".repeat(100));
  const reply = keptReply(body, "text/plain", { "accept-encoding": "gzip" });
  assert.ok(reply.kind === "text" && gunzipSync(reply.body).equals(body.plain));
});
