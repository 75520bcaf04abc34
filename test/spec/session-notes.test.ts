// Annotations of conversations and events: names, labels, ratings, and events of clients.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { calls, gate, inTurn, says, shown, startChat, turn } from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
import type { MockModel } from "../support/mock-model.ts";
import type { TestServer } from "../support/server.ts";
import { cleanup } from "../support/temp.ts";

describe("annotations of a conversation", () => {
  const atEnd = cleanup();
  let server: TestServer;
  let mock: MockModel;
  before(async () => {
    ({ server, mock } = await startChat(atEnd, {
      models: ["plain", "slow", "tools"],
      manifests: { agent: { tools: ["calculator"] } },
      env: { SVC_AUDIT_FLUSH_SECONDS: "1" },
    }));
    mock.answer("plain", { text: "The answer." });
  });

  const say = (thread_id: string, text = "go", fields: object = {}) =>
    server.post("/chat", turn("agent", text, { thread_id, ...fields }));
  const snapshot = async (thread: string) => (await server.get(`/chat/sessions/${thread}`)).json;
  const post = (what: string, body: object) => server.post(`/chat/sessions/${what}`, body);

  test("SESS-024 a name is in list and snapshot, also after a restart, and keeps the list's order", async () => {
    await say("named");
    await say("newer");
    const { updatedAt } = await snapshot("named");

    const { status, json } = await post("name", { thread_id: "named", name: "Tea" });
    await server.restart();

    const meta = { session_name: "Tea" };
    assert.deepEqual([status, json], [200, { ok: true, thread_id: "default:named", name: "Tea", meta }]);
    const { items } = (await server.get("/chat/sessions")).json;
    assert.deepEqual(
      items.slice(0, 2).map(({ id, sessionName }: Record<string, unknown>) => [id, sessionName]),
      [
        ["default:newer", null],
        ["default:named", "Tea"],
      ],
    );
    const session = await snapshot("named");
    const last = session.transcript.at(-1);
    assert.deepEqual([session.name, session.updatedAt, last.kind], ["Tea", updatedAt, "session_info"]);
    assert.deepEqual([last.metadata, session.leafId], [{ type: "session_info", name: "Tea" }, last.id]);
  });

  test("SESS-023 a label is on its event until null removes it", async () => {
    const { leaf_id } = (await say("labelled")).json;

    const set = await post("label", { thread_id: "labelled", event_id: leaf_id, label: "good" });
    const during = (await snapshot("labelled")).labels;
    const cleared = await post("label", { thread_id: "labelled", event_id: leaf_id });

    const told = { ok: true, thread_id: "default:labelled", event_id: leaf_id };
    assert.deepEqual(
      [set.json, cleared.json],
      [
        { ...told, label: "good" },
        { ...told, label: null },
      ],
    );
    assert.deepEqual([during, (await snapshot("labelled")).labels], [{ [leaf_id]: "good" }, {}]);
    const { transcript } = await snapshot("labelled");
    assert.deepEqual(transcript.at(-1).metadata, { type: "label", targetId: leaf_id, label: null });
  });

  test("SESS-022 a rating is on the snapshot and in the audit until null; the log stays the same", async () => {
    const { leaf_id } = (await say("rated")).json;
    const event = { thread_id: "rated", event_id: leaf_id };
    const before = await snapshot("rated");

    const up = await post("feedback", { ...event, rating: "up" });
    const down = await post("feedback", { ...event, rating: "down", note: "too long" });
    const during = await snapshot("rated");
    const cleared = await post("feedback", { ...event, rating: null });

    const { at } = down.json.feedback;
    assert.deepEqual([up.json.feedback.rating, up.json.feedback.note], ["up", ""]);
    assert.deepEqual(during.feedback, { [leaf_id]: { rating: "down", note: "too long", at } });
    assert.deepEqual([during.transcript, during.revision], [before.transcript, before.revision + 2]);
    assert.deepEqual([cleared.json.feedback, (await snapshot("rated")).feedback], [null, {}]);
    const rows = await eventually("the audit", async () => {
      const { items } = (await server.get("/audit?event_type=turn_feedback")).json;
      return items.length === 3 ? items : undefined;
    });
    assert.deepEqual(
      rows.map(({ status }: { status: string }) => status),
      ["cleared", "down", "up"],
    );
    const { thread_id, event_id, rating, note, model_id } = rows[1].payload;
    assert.deepEqual(
      { thread_id, event_id, rating, note, model_id },
      { thread_id: "default:rated", event_id: leaf_id, rating: "down", note: "too long", model_id: "plain" },
    );
  });

  test("SESS-021 a custom entry is logged; one in context reaches the model as the client's words", async () => {
    await say("custom");
    const metadata = { page: 7, origin_request: "forged", usage: { input: 1 } };

    const aside = await post("custom", { thread_id: "custom", content: "aside", metadata });
    const system = await post("custom", { thread_id: "custom", content: "obey me", in_context: true });
    await post("custom", { thread_id: "custom", content: "as said", in_context: true, role: "assistant" });
    await say("custom", "next");

    assert.deepEqual([aside.status, aside.json.in_context, system.json.in_context], [200, false, true]);
    const { transcript } = await snapshot("custom");
    assert.deepEqual(
      [transcript[2].id, transcript[2].kind, transcript[2].role, transcript[2].metadata],
      [aside.json.event_id, "custom", "system", { page: 7, in_context: false, type: "custom" }],
    );
    assert.deepEqual(
      shown(mock.requests.at(-1)).map(({ role, content }) => [role, content]),
      [
        ["user", "go"],
        ["assistant", "The answer."],
        ["user", "[The client supplied this entry.]\nobey me"],
        ["assistant", "as said"],
        ["user", "next"],
      ],
    );
    assert.ok(!JSON.stringify(mock.requests.at(-1)?.body.messages).includes("aside"));
  });

  test("SESS-021 SESS-023 SESS-024 all annotations work during a run, and separate no call from its result", async () => {
    const more = gate();
    const first = calls(["calculator", { expression: "6*7" }]);
    mock.answer("slow", inTurn(says("So far", more.opened, ".")));
    const asked = say("live", "go", { model: "slow" });
    const listener = await server.listen("/chat/stream/live");
    await listener.until("text_delta");

    const named = await post("name", { thread_id: "live", name: "Under way" });
    const custom = await post("custom", { thread_id: "live", content: "by the way", in_context: true });
    more.open();
    const { json } = await asked;
    listener.close();
    mock.answer("tools", inTurn(first, { text: "42." }));
    await say("live", "calculate", { model: "tools" });

    assert.deepEqual([named.status, custom.status], [200, 200]);
    const { transcript, leafId, name } = await snapshot("live");
    assert.equal(name, "Under way");
    assert.deepEqual(
      transcript.slice(0, 4).map(({ kind, content }: Record<string, unknown>) => [kind, content]),
      [
        ["message", "go"],
        ["session_info", ""],
        ["custom", "by the way"],
        ["message", "So far."],
      ],
    );
    assert.equal(json.leaf_id, transcript[3].id);
    assert.equal(leafId, transcript.at(-1).id);
    assert.deepEqual(
      transcript.map(({ parentId }: { parentId: string | null }) => parentId),
      [null, ...transcript.slice(0, -1).map(({ id }: { id: string }) => id)],
    );
  });

  test("SESS-021 SESS-022 SESS-023 SESS-024 a bad request names its invalid field, and unknown ids are 404", async () => {
    const { leaf_id } = (await say("bad")).json;
    const [user] = (await snapshot("bad")).transcript;
    const at = (event_id: string) => ({ thread_id: "bad", event_id });
    const refused = async (what: string, body: object) => {
      const { status, json } = await post(what, body);
      return [status, status === 422 ? json.detail[0].loc.join(".") : json.error];
    };

    for (const what of ["name", "label", "feedback", "custom"]) {
      const body = { name: "x", event_id: leaf_id, label: "x", rating: "up" };
      const fields = {
        name: { name: body.name },
        label: { event_id: body.event_id, label: body.label },
        feedback: { event_id: body.event_id, rating: body.rating },
        custom: {},
      }[what];
      assert.deepEqual(await refused(what, { thread_id: "nobody", ...fields }), [404, "unknown_thread"], what);
      assert.deepEqual(await refused(what, { thread_id: "a:b", ...fields }), [400, "invalid_thread_id"], what);
      assert.deepEqual(await refused(what, { thread_id: "bad", ...fields, more: 1 }), [422, "body.more"], what);
    }
    assert.deepEqual(await refused("name", { thread_id: "bad", name: "" }), [422, "body.name"]);
    assert.deepEqual(await refused("name", { thread_id: "bad", name: "x".repeat(257) }), [422, "body.name"]);
    assert.deepEqual(await refused("label", { ...at("f".repeat(32)), label: "x" }), [404, "unknown_event_id"]);
    assert.deepEqual(await refused("feedback", { ...at("f".repeat(32)), rating: "up" }), [404, "unknown_event_id"]);
    assert.deepEqual(await refused("feedback", { ...at(user.id), rating: "up" }), [400, "not_an_assistant_message"]);
    assert.deepEqual((await refused("feedback", { ...at(leaf_id), rating: "sideways" }))[0], 422);
    assert.deepEqual(await refused("feedback", at(leaf_id)), [422, "body.rating"]);
    const long = { ...at(leaf_id), rating: "up", note: "x".repeat(1001) };
    assert.deepEqual(await refused("feedback", long), [422, "body.note"]);
    assert.deepEqual((await refused("custom", { thread_id: "bad", role: "tool" }))[0], 422);
    assert.deepEqual(await refused("custom", { thread_id: "bad", metadata: [] }), [422, "body.metadata"]);
    assert.equal((await snapshot("bad")).transcript.length, 2);
  });
});
