// Bodies that every route accepts and refuses (decision 3: only strict JSON is parsed; threat 6), and bodies that are
// too long.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import fc from "fast-check";
import type { Route } from "../../http/route.ts";
import { bodyBytesDefault } from "../../http/route.ts";
import type { Answer, RequestOptions } from "../support/http-client.ts";
import { type RawAnswer, RawConnection, rawRequest } from "../support/raw-http.ts";
import { apiKeys, startServer, type TestServer } from "../support/server.ts";
import { cleanup } from "../support/temp.ts";
import { assertCommonHeaders, nameOf, pathOf, routes } from "./support.ts";

// POST /a2a answers every error of a call with 200: see spec/a2a-server.test.ts.
// `{}` freezes the tenant, and tests the policy of a manifest that these requests do not name.
const others = ["/a2a", "/controls/freeze", "/manifests/{name}/policy-test"];
const withBody = routes.filter(({ body, path }) => body !== null && !others.includes(path));
const { env, keys } = apiKeys({ all: { scopes: ["*"] } });
/** The header that the one route without an API key requires. */
const consumer = { "x-svc-consumer-secret": "consumer-secret-0123456789" };

/** True if a route accepts `{}`. */
function asksForNothing({ body }: Route): boolean {
  return ((body as { required?: readonly string[] } | null)?.required ?? []).length === 0;
}

/** True if an empty object is a valid body: each field that is required has a default. */
function acceptsEmpty(route: Route): boolean {
  const { required = [], properties = {} } = (route.body ?? {}) as {
    required?: readonly string[];
    properties?: Readonly<Record<string, { default?: unknown }>>;
  };
  return required.every((name) => properties[name]?.default !== undefined);
}

/** The code of a refusal, in the form of either protocol. */
function codeOf(answer: Answer): unknown {
  const { error } = answer.json;
  return typeof error === "object" ? (error.data?.code ?? error.code) : error;
}

/** True for protocols with errors of their own, in which an invalid field is a 400. */
function hasOwnErrors({ path }: Route): boolean {
  return path.startsWith("/v1") || path === "/mcp";
}

/** JSON texts with a value that parsers read differently or that later code would mishandle. */
const tricks: Readonly<Record<string, fc.Arbitrary<string>>> = {
  "a key twice in one object": fc.constantFrom('{"a":1,"a":2}', '{"a":{},"b":1,"\\u0061":2}', '{"":1,"":1}'),
  "the key __proto__": fc.constantFrom(
    '{"__proto__":{"admin":true}}',
    '{"a":{"__proto__":1}}',
    '{"\\u005f_proto__":1}',
  ),
  "a NUL character": fc.constantFrom('"\\u0000"', '{"a\\u0000b":1}', '"\0"'),
  "half of a surrogate pair": fc.constantFrom('"\\ud800"', '"\\udc00x"', '{"\\ud83d":1}'),
  "an integer beyond 2^53-1": fc.bigInt({ min: 2n ** 53n, max: 2n ** 80n }).map((value) => String(value)),
  "an integer below -(2^53-1)": fc.bigInt({ min: 2n ** 53n, max: 2n ** 80n }).map((value) => `-${value}`),
  "a number that is not finite": fc.constantFrom("1e999", "-1e400", "NaN", "Infinity", "-Infinity"),
  "nesting deeper than 64": fc.integer({ min: 65, max: 2000 }).map((depth) => "[".repeat(depth) + "]".repeat(depth)),
  "an object of more than 1,000 members": fc.constant(
    `{${Array.from({ length: 1_001 }, (_, at) => `"k${at}":1`).join(",")}}`,
  ),
  "more than 100,000 values": fc.constant(`[${Array(100_001).fill("1").join(",")}]`),
  "no JSON": fc.constantFrom(
    "",
    "{",
    '{"a":1,}',
    "{'a':1}",
    "[1 2]",
    "01",
    "+1",
    ".5",
    "0x10",
    "nul",
    '"\n"',
    "{}{}",
    "//x\n{}",
  ),
};

describe("the body of every route", () => {
  const atEnd = cleanup();
  let server: TestServer;
  before(async () => {
    const secrets = JSON.stringify({ acme: consumer["x-svc-consumer-secret"] });
    server = await startServer({ env: { ...env, SVC_CONSUMER_SHARED_SECRET: secrets }, atEnd });
  });
  const send = (route: Route, options: RequestOptions) =>
    server.request(route.method, pathOf(route, "some-1"), {
      key: keys.all,
      ...options,
      headers: { ...consumer, ...options.headers },
    });

  for (const route of withBody) {
    const name = nameOf(route);

    for (const [what, text] of Object.entries(tricks)) {
      test(`${name} refuses ${what} with invalid_json`, async () => {
        const anywhere = fc.record({
          text,
          before: fc.jsonValue({ maxDepth: 1 }),
          place: fc.constantFrom("root", "list", "field"),
        });
        await fc.assert(
          fc.asyncProperty(anywhere, async ({ text: bad, before: good, place }) => {
            const neighbour = JSON.stringify(good);
            const body =
              place === "root" ? bad : place === "list" ? `[${neighbour},${bad}]` : `{"x":${neighbour},"y":${bad}}`;

            const answer = await send(route, { body });

            assert.deepEqual([answer.status, codeOf(answer)], [400, "invalid_json"], body.slice(0, 200));
          }),
          { numRuns: 12 },
        );
      });
    }

    test(`${name} finds no fault in valid JSON with other errors`, async () => {
      const anything = fc
        .jsonValue({ maxDepth: 3 })
        .map((value) => JSON.stringify(value))
        .filter((text) => !text.includes("__proto__") && !/\d{16}/.test(text))
        .filter((text) => text !== "{}" || !acceptsEmpty(route));
      await fc.assert(
        fc.asyncProperty(anything, async (body) => {
          const answer = await send(route, { body });

          // No random value is a valid request of this route, so it is refused for its fields.
          assert.deepEqual([answer.status, codeOf(answer)], [hasOwnErrors(route) ? 400 : 422, "invalid_request"]);
        }),
        { numRuns: 25 },
      );
    });

    test(`${name} accepts application/json in UTF-8 and nothing else`, async () => {
      for (const type of [
        "text/plain",
        "application/x-www-form-urlencoded",
        "application/json2",
        "text/json",
        "",
        "json",
      ]) {
        const answer = await send(route, { body: "{}", headers: { "content-type": type } });
        assert.deepEqual([answer.status, codeOf(answer)], [415, "unsupported_media_type"], type);
      }
      for (const type of [
        "application/json; charset=utf-16",
        "application/json;charset=latin1",
        'application/json; charset="ascii"',
      ]) {
        const answer = await send(route, { body: "{}", headers: { "content-type": type } });
        assert.deepEqual([answer.status, codeOf(answer)], [400, "invalid_json"], type);
      }
      for (const type of ["application/json", "Application/JSON; Charset=UTF-8", 'application/json;charset="utf8"']) {
        const answer = await send(route, { body: "{}", headers: { "content-type": type } });
        assert.notEqual(codeOf(answer), "invalid_json", type);
        assert.notEqual(answer.status, 415, type);
      }
      const latin = await send(route, { body: Buffer.from('{"caf\xe9":1}', "latin1") });
      assert.deepEqual([latin.status, codeOf(latin)], [400, "invalid_json"]);
    });

    test(`${name} refuses an unknown field, or accepts it on purpose`, async () => {
      const open = (route.body as { additionalProperties?: boolean }).additionalProperties === true;

      const { json } = await send(route, { body: { no_such_field: 1 } });

      if (open) return assert.ok(!JSON.stringify(json).includes("no_such_field"));
      const named = json.detail.find(({ type }: { type: string }) => type === "extra_forbidden");
      assert.deepEqual(named.loc, ["body", "no_such_field"]);
    });

    test(`LIM-001 ERR-004 ${name} refuses a body over its limit, declared or in chunks`, async () => {
      const tooLong = Buffer.alloc(route.bodyBytesMax + 1, " ");

      const declared = await sayTooMuch(server, route, `content-length: ${tooLong.length}`, Buffer.alloc(0));
      const chunked = await sayTooMuch(server, route, "transfer-encoding: chunked", inChunks(tooLong));

      for (const answer of [declared, chunked]) {
        assert.deepEqual([answer?.status, answer?.body], [413, '{"error":"payload_too_large"}']);
        assertCommonHeaders(answer as RawAnswer);
      }
    });

    test(`LIM-001 ${name} accepts a body of exactly its limit, declared or in chunks`, async () => {
      const body = Buffer.alloc(route.bodyBytesMax, " ");
      body.write("{}");

      const declared = await send(route, { body });
      const chunked = await send(route, { body, chunked: true });

      for (const answer of [declared, chunked]) {
        const isMissing = acceptsEmpty(route) && answer.status === 404;
        if (asksForNothing(route) || isMissing) assert.ok(answer.status < 300 || answer.status === 404, answer.text);
        else assert.deepEqual([answer.status, codeOf(answer)], [hasOwnErrors(route) ? 400 : 422, "invalid_request"]);
        assertCommonHeaders(answer);
      }
    });
  }

  test("LIM-001 the limit is 1 MiB on every route but those of documents and skills", () => {
    const longer = routes.filter(({ bodyBytesMax }) => bodyBytesMax !== 1024 * 1024);

    assert.deepEqual(
      longer.map(({ method, path }) => `${method} ${path}`).sort(),
      [
        "POST /documents",
        "POST /documents/files",
        ...["", "/~{library}"].flatMap((at) => [`POST /skill-library${at}`, `PUT /skill-library${at}/{name}/versions`]),
      ].sort(),
    );
    assert.equal(bodyBytesDefault, 1024 * 1024);
  });

  test("ERR-001 a body over the limit is refused before authentication, on any path", async () => {
    for (const path of ["/chat", "/audit", "/no/such/path"]) {
      const route = { method: "POST", path } as const;
      const answer = await sayTooMuch(server, route, `content-length: ${bodyBytesDefault + 1}`, Buffer.alloc(0));

      assert.equal(answer?.status, 413, path);
    }
  });

  test("an invalid content-length is refused without effect on other clients", async () => {
    for (const length of ["-1", "0x10", "1e3", "9".repeat(30)]) {
      const answer = await server.raw(`POST /chat HTTP/1.1\r\nhost: localhost\r\ncontent-length: ${length}\r\n\r\n{}`);
      assert.match(answer, /^HTTP\/1\.1 4\d\d /, length);
    }
    assert.equal((await server.get("/health")).status, 200);
  });
});

function inChunks(bytes: Buffer): Buffer {
  const chunkBytes = 64 * 1024;
  const pieces: Buffer[] = [];
  for (let at = 0; at < bytes.length; at += chunkBytes) {
    const chunk = bytes.subarray(at, at + chunkBytes);
    pieces.push(Buffer.from(`${chunk.length.toString(16)}\r\n`), chunk, Buffer.from("\r\n"));
  }
  return Buffer.concat([...pieces, Buffer.from("0\r\n\r\n")]);
}

/** The answer to a request that exceeds its declared size, which may come before all is sent. */
async function sayTooMuch(
  server: TestServer,
  route: Pick<Route, "method" | "path">,
  framing: string,
  body: Buffer,
): Promise<RawAnswer | undefined> {
  const connection = new RawConnection(server.url);
  const shown = Object.entries(consumer).map(([name, value]) => `${name}: ${value}`);
  const lines = [`authorization: Bearer ${keys.all}`, ...shown, "content-type: application/json", framing];
  void connection.send(Buffer.concat([Buffer.from(rawRequest(route.method, pathOf(route, "some-1"), lines)), body]));
  const answer = await connection.answer();
  connection.close();
  return answer;
}
