// Threat 24: requests with more of something than anybody needs are refused before each of it is looked at.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { startServer, type TestServer } from "../support/server.ts";
import { cleanup } from "../support/temp.ts";
import { assertUnharmed } from "./support.ts";

const message = { role: "user", content: "hi" };
const many = 450_000;

describe("crowds in a body", () => {
  const atEnd = cleanup();
  let server: TestServer;
  before(async () => {
    server = await startServer({ atEnd });
  });

  const lists: Readonly<Record<string, { path: string; body: object; field: string; most: number }>> = {
    "messages of a turn": { path: "/chat", body: { manifest: "quick" }, field: "messages", most: 10_000 },
    "messages of a stream": { path: "/chat/stream", body: { manifest: "quick" }, field: "messages", most: 10_000 },
    "arguments of a template": {
      path: "/chat",
      body: { manifest: "quick", messages: [message] },
      field: "template_args",
      most: 1_000,
    },
  };
  for (const [what, { path, body, field, most }] of Object.entries(lists)) {
    test(`too many ${what} are one mistake, and not one each`, async () => {
      const { status, json } = await server.post(path, { ...body, [field]: Array(many).fill(1) });

      assert.deepEqual(
        [status, json.detail],
        [422, [{ loc: ["body", field], msg: `${field} must NOT have more than ${most} items`, type: "maxItems" }]],
      );
    });
  }

  test("too many messages of the OpenAI protocol are one mistake as well", async () => {
    const { status, json } = await server.post("/v1/chat/completions", {
      model: "quick",
      messages: Array(many).fill(1),
    });

    assert.equal(status, 400);
    assert.equal(json.error.message, "messages: messages must NOT have more than 10000 items");
  });

  test("as many as there may be are looked at", async () => {
    const { status, json } = await server.post("/chat", { manifest: "quick", messages: Array(10_000).fill(1) });

    assert.equal(status, 422);
    assert.deepEqual([json.detail.length, json.detail[0].loc], [20, ["body", "messages", 0]]);
  });

  test("fields by the thousand are one mistake; a list that is named like what every object has is none", async () => {
    const fields = Object.fromEntries(Array.from({ length: 80_000 }, (_, at) => [`k${at}`, 1]));

    const refused = await server.post("/chat", { ...fields, manifest: "quick" });
    const few = await server.post("/chat", { manifest: "quick", messages: [message], toString: [1], a: 1 });

    assert.deepEqual(refused.json.detail, [
      { loc: ["body"], msg: "body must NOT have more than 1000 fields", type: "maxProperties" },
    ]);
    assert.deepEqual(
      few.json.detail.map(({ type }: { type: string }) => type),
      ["extra_forbidden", "extra_forbidden"],
    );
  });

  test("a manifest of more values than a person writes is refused for that alone", async () => {
    for (const spec of [{ policies: Array(30_000).fill({}) }, { extensions: { list: Array(30_000).fill(1) } }]) {
      const manifest = { metadata: { name: "crowd" }, spec };

      const { status, json } = await server.request("PUT", "/manifests/crowd", { body: { manifest } });

      assert.deepEqual([status, json.detail.length, json.detail[0].type], [422, 1, "too_long"]);
    }
  });

  test("a list of many long manifests lets turns through, and one without models does not compile them", async () => {
    const inline = "x".repeat(150_000);
    for (let number = 0; number < 200; number++) {
      const manifest = {
        metadata: { name: `many-${number}` },
        spec: { system_prompt: { inline: `${number} ${inline}` } },
      };
      const put = await server.request("PUT", `/manifests/many-${number}`, { body: { manifest } });
      assert.equal(put.status, 200, put.text);
    }

    let listed = false;
    const lists = Promise.all([1, 2, 3].map(() => server.get("/v1/models"))).then((answers) => {
      listed = true;
      return answers;
    });
    let turns = 0;
    for (; !listed; turns++) {
      const { status, text } = await server.post("/chat", { manifest: "quick", messages: [message] });
      assert.equal(status, 200, text);
    }
    const models = await lists;
    const { json } = await server.get("/manifests");

    // Made in one go, the lists would let none through, or the one that came before them.
    assert.ok(turns >= 4, `${turns} turns`);
    for (const answer of models) assert.equal(answer.json.data.filter(isMany).length, 200);
    assert.equal(json.items.filter(({ name }: { name: string }) => isMany({ id: name })).length, 200);
  });

  test("a window of a long thread has at most 16 MiB, and says that there is more", async () => {
    const content = "y".repeat(1_000_000);
    for (let number = 0; number < 20; number++) {
      const turn = { manifest: "quick", thread_id: "long", messages: [{ role: "user", content }] };
      assert.equal((await server.post("/chat", turn)).status, 200);
    }

    const newest = (await server.get("/chat/history/long")).json;
    const older = (await server.get(`/chat/history/long?before_seq=${newest.oldest_seq}`)).json;

    const ofUser = ({ messages }: { messages: { role: string }[] }) => messages.filter(({ role }) => role === "user");
    assert.deepEqual([newest.has_more, ofUser(newest).length], [true, 16]);
    assert.deepEqual([older.has_more, older.oldest_seq, ofUser(older).length], [false, 0, 4]);
  });

  test("after all that the server is as it was", async () => {
    await assertUnharmed(server);
  });
});

function isMany({ id }: { id: string }): boolean {
  return id.startsWith("many-");
}
