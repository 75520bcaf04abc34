// Plugins with faults in them: what is wrong with one costs the request or the call that has met it, and nobody else.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { startChat } from "../support/chat.ts";
import { httpEngine, type TestServer } from "../support/server.ts";
import { cleanup } from "../support/temp.ts";
import { file } from "./support.ts";

const replies: Readonly<Record<string, string>> = {
  nothing: "undefined",
  text: '"hello"',
  kind: '({ kind: "html", status: 200, body: "" })',
  status: "json({}, 99)",
  "no-body": "json(undefined)",
  "object-body": '({ kind: "json", status: 200, body: {} })',
  "number-body": '({ kind: "text", status: 200, contentType: "text/plain", body: 5 })',
  "header-value": 'json({}, 200, { "x-name": 5 })',
  "header-list": 'json({}, 200, [["x-name", "a"]])',
  "header-lines": 'json({}, 200, { "x-name": "a\\r\\nset-cookie: b=c" })',
  "header-name": 'json({}, 200, { "x name": "a" })',
  "content-type": '({ kind: "text", status: 200, contentType: "text/plain\\r\\nx-a: b", body: "" })',
  pieces: '({ kind: "pieces", contentType: "text/plain", pieces: [] })',
  stream: '({ kind: "stream" })',
  circle: "{ const a = {}; a.a = a; return json(a); }",
  null: "{ throw null; }",
};

const faulty = file(`import { Type } from "typebox";
  import { json } from "svc/http/exchange/reply.ts";
  import { route } from "svc/http/route.ts";
  const get = (path, handle) => route({ method: "GET", path: "/faulty/" + path, summary: "x", tag: "faulty", access: "public",
    reply: { description: "x" }, handle });
  export const plugin = { name: "faulty", description: "x", routes: [
    ${Object.entries(replies)
      .map(([path, reply]) => `get("${path}", () => ${reply})`)
      .join(",\n")},
    get("opened", () => ({ kind: "stream", open() { throw new Error("nothing to open"); } })),
    get("sound", () => json({ fine: true }, 201, { "x-name": "a" })),
  ] };`);

describe(`a plugin with faults, on ${httpEngine}`, () => {
  const atEnd = cleanup();
  let server: TestServer;
  before(async () => {
    ({ server } = await startChat(atEnd, { models: ["scripted"], env: { SVC_PLUGINS: faulty } }));
  });

  test("a handler that answers no reply is a 500, and the server goes on", async () => {
    for (const path of Object.keys(replies)) {
      const { status, json } = await server.get(`/faulty/${path}`);

      assert.deepEqual([status, json.error], [500, "internal_error"], path);
    }

    const { status, json, headers } = await server.get("/faulty/sound");
    assert.deepEqual([status, json, headers["x-name"]], [201, { fine: true }, "a"]);
  });

  test("a stream that cannot be opened ends, and the server goes on", async () => {
    const { status, text } = await server.get("/faulty/opened");

    assert.deepEqual([status, text], [200, ""]);
    assert.equal((await server.get("/faulty/sound")).status, 201);
  });
});
