// Plugins with faults: a fault costs only the request or call that meets it.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { calls, inTurn, startChatProcess, turn } from "../support/chat.ts";
import type { MockModel } from "../support/mock-model.ts";
import { httpEngine, type ProcessServer } from "../support/server.ts";
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
  code: '{ throw new SvcError("made_up"); }',
};

const results: Readonly<Record<string, string>> = {
  nothing: "undefined",
  null: "null",
  text: '"hello"',
  number: "({ text: 5 })",
  error: '({ text: "x", error: 5 })',
  images: '({ text: "x", images: "none" })',
  wait: "({ wait: null })",
  kind: '({ wait: { kind: "question" } })',
  promise: "Promise.resolve({})",
  getter: '({ get text() { throw new Error("no text today"); } })',
  rejection: 'Promise.reject(new Error("not today"))',
  "late-getter": 'Promise.resolve({ get text() { throw new Error("no text today"); } })',
};

const faulty = file(`import { Type } from "typebox";
  import { SvcError } from "svc/bus/errors.ts";
  import { json } from "svc/http/exchange/reply.ts";
  import { route } from "svc/http/route.ts";
  import { defineTool } from "svc/actors/tools/tool.ts";
  const tool = (name, execute) => defineTool({ name, description: "x", parameters: Type.Object({}), effect: "read", risk: "reads", execute });
  const get = (path, handle) => route({ method: "GET", path: "/faulty/" + path, summary: "x", tag: "faulty", access: "public",
    reply: { description: "x" }, handle });
  export const plugin = { name: "faulty", description: "x", routes: [
    ${Object.entries(replies)
      .map(([path, reply]) => `get("${path}", () => ${reply})`)
      .join(",\n")},
    get("opened", () => ({ kind: "stream", open() { throw new Error("nothing to open"); } })),
    get("named/{id}/{other}", ({ params }) => json(params)),
    get("sound", () => json({ fine: true }, 201, { "x-name": "a" })),
  ], tools: [
    ${Object.entries(results)
      .map(([name, result]) => `tool("faulty_${name}", () => ${result})`)
      .join(",\n")},
    tool("faulty_endless", () => ({ text: "é".repeat(30_000_000) })),
  ] };`);

describe(`a plugin with faults, on ${httpEngine}`, () => {
  const atEnd = cleanup();
  let server: ProcessServer;
  let mock: MockModel;
  const tools = Object.keys(results).map((name) => `faulty_${name}`);
  before(async () => {
    ({ server, mock } = await startChatProcess(atEnd, {
      models: ["scripted"],
      manifests: { agent: { tools }, endless: { tools: ["faulty_endless"] } },
      env: { SVC_PLUGINS: faulty },
    }));
  });

  test("path parameters without a schema are texts, and are shown in the reference", async () => {
    const { json } = await server.get("/faulty/named/7/a%20b");
    const { json: reference } = await server.get("/openapi.json");

    assert.deepEqual(json, { id: "7", other: "a b" });
    const { parameters } = reference.paths["/faulty/named/{id}/{other}"].get;
    assert.deepEqual(
      parameters.map(({ name, in: place }: Record<string, string>) => [name, place]),
      [
        ["id", "path"],
        ["other", "path"],
      ],
    );
  });

  test("a handler without a reply is a 500, and the server continues", async () => {
    for (const path of Object.keys(replies)) {
      const { status, json } = await server.get(`/faulty/${path}`);

      assert.deepEqual([status, json.error], [500, "internal_error"], path);
    }

    const { status, json, headers } = await server.get("/faulty/sound");
    assert.deepEqual([status, json, headers["x-name"]], [201, { fine: true }, "a"]);
  });

  test("a stream that cannot be opened ends, and the server continues", async () => {
    const { status, text } = await server.get("/faulty/opened");

    assert.deepEqual([status, text], [200, ""]);
    assert.equal((await server.get("/faulty/sound")).status, 201);
  });

  test("a tool without a result fails like one that throws, and its run continues", async () => {
    mock.answer("scripted", inTurn(calls(...tools.map((name) => [name, {}] as const)), { text: "So be it." }));

    const { json } = await server.post("/chat", turn("agent", "Go on."));

    const outputs = json.messages.filter(({ role }: { role: string }) => role === "tool");
    assert.equal(json.final?.content, "So be it.");
    assert.deepEqual(
      outputs.map(({ content }: { content: string }) => content),
      tools.map(() => "[tool error/internal] the tool failed"),
    );
  });

  test("a result that is too long is cut, and states its length", async () => {
    mock.answer("scripted", inTurn(calls(["faulty_endless", {}]), { text: "So be it." }));

    const { json } = await server.post("/chat", turn("endless", "Go on."));

    const { content } = json.messages.find(({ role }: { role: string }) => role === "tool");
    const end = "\n[cut: it had 30000000 characters]";
    assert.equal(json.final?.content, "So be it.");
    assert.equal(content.length, 1024 * 1024 + end.length);
    assert.ok(content.endsWith(`é${end}`));
  });
});
