// Threat 24: requests with too many parts are refused before each part is examined.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { type ProcessServer, startServerProcess } from "../support/server.ts";
import { cleanup } from "../support/temp.ts";
import { assertUnharmed } from "./support.ts";

const message = { role: "user", content: "hi" };
/** An object with `count` different members. */
const members = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, at) => [`k${at}`, 1]));

describe("too many parts in a body", () => {
  const atEnd = cleanup();
  let server: ProcessServer;
  before(async () => {
    server = await startServerProcess({ atEnd });
  });

  const tooMany: Readonly<Record<string, { json: object; says: string }>> = {
    "members at the top": { json: members(85_000), says: "has an object of more than 1000 members" },
    "members deep down": {
      json: { list: [{ deep: members(1_001) }] },
      says: "has an object of more than 1000 members",
    },
    "members in all": { json: { list: Array(61).fill(members(1_000)) }, says: "has more than 60000 members" },
    values: { json: { list: Array(450_000).fill(1) }, says: "has more than 100000 values" },
  };
  for (const [what, { json: body, says }] of Object.entries(tooMany)) {
    test(`too many ${what} are 400 invalid_json (decision 74)`, async () => {
      for (const path of ["/chat", "/chat/stream", "/chat/continue", "/chat/abort"]) {
        const { status, json } = await server.post(path, body);

        assert.deepEqual(
          [status, json],
          [400, { error: "invalid_json", detail: `the JSON of the body ${says}` }],
          path,
        );
      }
      const { status, json } = await server.post("/v1/chat/completions", body);

      assert.deepEqual([status, json.error.code], [400, "invalid_json"]);
    });
  }

  test("a manifest has at most 20,000 members", async () => {
    const spec = { extensions: { list: Array(20).fill(members(1_000)) } };
    const put = (manifest: object) => server.request("PUT", "/manifests/crowd", { body: { manifest } });

    const more = await put({ spec });
    const most = await put({ spec: { extensions: { list: [...Array(19).fill(members(1_000)), members(997)] } } });

    assert.deepEqual(
      [more.status, more.json],
      [400, { error: "invalid_json", detail: "the JSON of the body has more than 20001 members" }],
    );
    assert.deepEqual(
      [most.status, most.json.detail],
      [422, [{ loc: ["metadata"], msg: "metadata is required.", type: "missing" }]],
    );
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
    test(`too many ${what} are reported first, with at most 20 problems`, async () => {
      const { status, json } = await server.post(path, { ...body, [field]: Array(most + 1).fill(1) });

      assert.deepEqual(
        [status, json.detail.length, json.detail[0]],
        [422, 20, { loc: ["body", field], msg: `${field} must NOT have more than ${most} items`, type: "maxItems" }],
      );
    });
  }

  test("the largest allowed number of parts is examined", async () => {
    const { status, json } = await server.post("/chat", { manifest: "quick", messages: Array(10_000).fill(1) });

    assert.equal(status, 422);
    assert.deepEqual([json.detail.length, json.detail[0].loc], [20, ["body", "messages", 0]]);
  });

  test("a thousand unknown fields give 20 problems; a list named toString gives one", async () => {
    const many = await server.post("/chat", { ...members(999), manifest: "quick" });
    const few = await server.post("/chat", { manifest: "quick", messages: [message], toString: [1], a: 1 });

    assert.deepEqual([many.status, many.json.detail.length], [422, 20]);
    assert.deepEqual(
      few.json.detail.map(({ type }: { type: string }) => type),
      ["extra_forbidden", "extra_forbidden"],
    );
  });

  test("lists of many long manifests let turns run; one without models compiles none", async () => {
    const inline = "x".repeat(150_000);
    for (let number = 0; number < 200; number++) {
      const manifest = {
        metadata: { name: `many-${number}` },
        spec: { system_prompt: { inline: `${number} ${inline}` } },
      };
      const put = await server.request("PUT", `/manifests/many-${number}`, { body: { manifest } });
      assert.equal(put.status, 200, put.text);
    }
    // Model descriptions are cached when a PUT stores a manifest, and computed again after a start.
    await server.restart();

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

    // If one task computed the lists in a single step, no turn could run before its end.
    assert.ok(turns >= 2, `${turns} turns`);
    for (const answer of models) assert.equal(answer.json.data.filter(isMany).length, 200);
    assert.equal(json.items.filter(({ name }: { name: string }) => isMany({ id: name })).length, 200);
  });

  test("a page of a full thread has at most 16 MiB and says that more follows", async () => {
    const content = "y".repeat(1_000_000);
    const turn = { manifest: "quick", thread_id: "long", messages: [{ role: "user", content }] };
    const statuses: number[] = [];
    while (statuses.length < 20 && statuses.at(-1) !== 409) statuses.push((await server.post("/chat", turn)).status);

    const newest = (await server.get("/chat/history/long")).json;
    const older = (await server.get(`/chat/history/long?before_seq=${newest.oldest_seq}`)).json;

    const ofUser = ({ messages }: { messages: { role: string }[] }) => messages.filter(({ role }) => role === "user");
    assert.deepEqual([statuses.at(-1), statuses.length > 10], [409, true]);
    assert.deepEqual([newest.has_more, ofUser(newest).length], [true, 16]);
    assert.deepEqual([older.has_more, older.oldest_seq, ofUser(older).length], [false, 0, statuses.length - 17]);
  });

  test("the server is unharmed afterwards", async () => {
    await assertUnharmed(server);
  });
});

function isMany({ id }: { id: string }): boolean {
  return id.startsWith("many-");
}
