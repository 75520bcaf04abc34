// Threat 6: JSON that parsers read differently, or that has a meaning in JavaScript. test/http/intake.test.ts tests
// whole bodies on every route; this file tests nested values and their effects.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { gzipSync } from "node:zlib";
import fc from "fast-check";
import { nameOf, pathOf, routes } from "../http/support.ts";
import { startChatProcess, turn } from "../support/chat.ts";
import type { Answer } from "../support/http-client.ts";
import type { ProcessServer } from "../support/server.ts";
import { cleanup } from "../support/temp.ts";
import { assertUnharmed } from "./support.ts";

/** Members that every JavaScript object inherits. */
const inherited = [
  "constructor",
  "prototype",
  "toString",
  "valueOf",
  "hasOwnProperty",
  "isPrototypeOf",
  "toJSON",
  "then",
  "__defineGetter__",
  "__lookupSetter__",
  "__proto",
  "proto__",
];

const withBody = routes.filter(({ body }) => body !== null);

describe("threat 6: JSON", () => {
  const atEnd = cleanup();
  let server: ProcessServer;
  before(async () => {
    ({ server } = await startChatProcess(atEnd, { models: ["mock-text"] }));
  });

  const assertInvalidJson = ({ status, json }: Answer, what: string): void => {
    const code = typeof json.error === "object" ? json.error.code : json.error;
    assert.deepEqual([status, code], [400, "invalid_json"], what);
  };

  for (const route of withBody) {
    test(`${nameOf(route)} treats inherited member names like any unknown name`, async () => {
      const strange = await server.request(route.method, pathOf(route, "x"), { body: { no_such_name: {} } });
      for (const name of inherited) {
        for (const value of [1, {}, { polluted: true }, "x", null, []]) {
          const answer = await server.request(route.method, pathOf(route, "x"), { body: { [name]: value } });

          assert.equal(answer.status, strange.status, name);
          // One of them may resemble a field's name.
          const told = answer.text.replace(/ Did you mean \w+\?/, "");
          assert.equal(told, strange.text.replaceAll("no_such_name", name), name);
        }
      }
    });
  }

  test("inherited names inside messages, arguments and manifests have no effect", async () => {
    for (const name of inherited) {
      const message = { role: "user", content: "hi", [name]: { polluted: true } };
      const part = { type: "text", text: "hi", [name]: { polluted: true } };
      const chat = await server.post("/chat", {
        manifest: "agent",
        messages: [message, { role: "user", content: [part] }],
      });
      const openAi = await server.post("/v1/chat/completions", {
        model: "agent",
        messages: [message],
        [name]: {},
        metadata: { [name]: {} },
      });
      const asName = await server.post("/chat", turn(name, "hi"));
      const asTemplate = await server.post("/chat", turn("agent", "hi", { template: name }));
      const asCommand = await server.post("/chat", turn("agent", `/${name} x`));
      const asModel = await server.post("/chat", turn("agent", "hi", { model: name }));

      assert.deepEqual([chat.status, openAi.status, asCommand.status], [200, 200, 200], name);
      assert.deepEqual([asName.status, asName.json.error], [404, `unknown_manifest:${name}`]);
      assert.deepEqual([asTemplate.status, asTemplate.json.error], [404, `unknown_prompt:${name}`]);
      assert.deepEqual([asModel.status, asModel.json.error], [400, `model_not_allowlisted:${name}`]);
      for (const { text } of [chat, openAi]) assert.ok(!text.includes("polluted"), text);
    }
  });

  test("inherited names in the maps of a manifest are refused or used literally", async () => {
    for (const name of [...inherited, "calculator"]) {
      const put = async (spec: object) =>
        server.request("PUT", "/manifests/maps", { body: { manifest: { metadata: { name: "maps" }, spec } } });
      const answers = [
        await put({ tools: [name] }),
        await put({ tools: ["calculator"], tool_guidance: { [name]: "be careful" } }),
        await put({ model: { id: name } }),
        await put({ prompts: [{ name, body: "x" }] }),
        await put({ [name]: {} }),
      ];

      for (const { status, text } of answers) assert.ok(status === 200 || status === 422, `${name}: ${status} ${text}`);
    }
    const listed = await server.get("/manifests");
    assert.ok(!listed.text.includes("polluted"));
  });

  test("dangerous keys and values are found at any depth", async () => {
    const tricks = [
      '{"a":1,"a":2}',
      '{"__proto__":1}',
      '{"\\u005f\\u005fproto__":1}',
      '"\\u0000"',
      '"\\ud800"',
      '{"\\udfff":1}',
      "9007199254740993",
      "1e999",
      "-9007199254740993",
    ];
    const places: readonly ((trick: string) => [string, string, string])[] = [
      (trick) => [
        "POST",
        "/chat",
        `{"manifest":"agent","messages":[{"role":"user","content":"hi","extra":[[{"x":${trick}}]]}]}`,
      ],
      (trick) => [
        "POST",
        "/chat/stream",
        `{"manifest":"agent","messages":[{"role":"user","content":[{"type":"text","text":"hi","x":${trick}}]}]}`,
      ],
      (trick) => [
        "POST",
        "/v1/chat/completions",
        `{"model":"agent","messages":[{"role":"user","content":"hi"}],"metadata":{"x":${trick}}}`,
      ],
      (trick) => [
        "PUT",
        "/manifests/deep",
        `{"manifest":{"metadata":{"name":"deep"},"spec":{"tools":[],"tool_guidance":{"x":${trick}}}}}`,
      ],
      (trick) => ["POST", "/manifests/deep/rollback", `{"version":1,"comment":${trick}}`],
    ];
    for (const trick of tricks) {
      for (const place of places) {
        const [method, path, body] = place(trick);
        assertInvalidJson(await server.request(method, path, { body }), `${path} ${trick}`);
      }
    }
  });

  test("64 levels are accepted and 65 are refused", async () => {
    const nested = (levels: number) =>
      `{"model":"agent","messages":[{"role":"user","content":"hi"}],"metadata":${"[".repeat(levels)}${"]".repeat(levels)}}`;

    assert.equal((await server.post("/v1/chat/completions", nested(63))).status, 200);
    assertInvalidJson(await server.post("/v1/chat/completions", nested(64)), "65");
    assertInvalidJson(await server.post("/v1/chat/completions", "[".repeat(500_000)), "half a million");
    assertInvalidJson(await server.post("/v1/chat/completions", '{"a":'.repeat(150_000)), "objects");
  });

  test("invalid or irregular UTF-8 is refused", async () => {
    const good = JSON.stringify(turn("agent", "hi"));
    const utf32 = Buffer.concat([...good].map((character) => Buffer.from([character.charCodeAt(0), 0, 0, 0])));
    const bodies: Readonly<Record<string, Buffer>> = {
      "a byte order mark": Buffer.concat([Buffer.from([0xef, 0xbb, 0xbf]), Buffer.from(good)]),
      "UTF-16": Buffer.from(good, "utf16le"),
      "UTF-16 with a mark": Buffer.from(`\ufeff${good}`, "utf16le"),
      "UTF-32": utf32,
      "a quote in two bytes": Buffer.concat([
        Buffer.from(good.slice(0, -3)),
        Buffer.from([0xc0, 0xa2]),
        Buffer.from("}]}"),
      ]),
      "half a surrogate pair as bytes": Buffer.from(good.replace("hi", "\u00ed"), "latin1"),
      "a letter of Latin-1": Buffer.from(good.replace("hi", "caf\u00e9"), "latin1"),
      "a character that is cut off": Buffer.concat([Buffer.from(good.slice(0, -5)), Buffer.from([0xf0, 0x9f])]),
      "bytes beyond Unicode": Buffer.concat([Buffer.from(good.slice(0, -5)), Buffer.from([0xf5, 0x80, 0x80, 0x80])]),
      "a NUL behind the end": Buffer.from(`${good}\0`),
      "a second value behind the end": Buffer.from(`${good}${good}`),
      "a form feed between": Buffer.from(`\f${good}`),
      "a no-break space between": Buffer.from(`\u00a0${good}`),
    };
    for (const [what, body] of Object.entries(bodies)) assertInvalidJson(await server.post("/chat", body), what);
  });

  test("a compressed body is refused, and so is one that claims to be compressed", async () => {
    const good = JSON.stringify(turn("agent", "hi"));
    for (const coding of ["gzip", "deflate", "br", "gzip, gzip", "x-gzip", "*"]) {
      for (const body of [good, gzipSync(good)]) {
        const { status, json } = await server.post("/chat", body, { headers: { "content-encoding": coding } });

        assert.deepEqual([status, json.error], [415, "unsupported_media_type"], coding);
      }
    }
    const packed = await server.post("/chat", gzipSync(good));
    const plain = await server.post("/chat", good, { headers: { "content-encoding": "identity" } });
    assertInvalidJson(packed, "packed and not said to be");
    assert.equal(plain.status, 200);
  });

  test("a text of any characters is stored as it was sent", async () => {
    const text = fc
      .string({ unit: "binary", minLength: 1, maxLength: 200 })
      .map((value) => `:${value.toWellFormed().replaceAll("\0", "")}`);
    let thread = 0;
    await fc.assert(
      fc.asyncProperty(text, async (content) => {
        const thread_id = `kept-${thread++}`;
        const { status } = await server.post("/chat", turn("agent", content, { thread_id }));
        const history = await server.get(`/chat/history/${thread_id}`);
        const session = await server.get(`/chat/sessions/${thread_id}`);

        assert.equal(status, 200);
        assert.equal(history.json.messages[0].content, content);
        assert.equal(session.json.transcript[0].content, content);
      }),
      { numRuns: 60 },
    );
  });

  test("the server is unharmed afterwards", async () => {
    const { json } = await server.post("/chat", {});

    assert.deepEqual(json, {
      error: "invalid_request",
      detail: [{ loc: ["body", "manifest"], msg: "manifest is required", type: "missing" }],
    });
    await assertUnharmed(server);
  });
});
