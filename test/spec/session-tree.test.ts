// Conversations as trees: forks, rewinds with their summaries, exports, and complete deletion.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import Database from "better-sqlite3";
import { calls, gate, inTurn, says, shown, startChat, turn } from "../support/chat.ts";
import type { MockModel } from "../support/mock-model.ts";
import { callsOf } from "../support/model-calls.ts";
import { onOneHost } from "../support/on-two-hosts.ts";
import { sqliteIn } from "../support/seed.ts";
import type { TestServer } from "../support/server.ts";
import { cleanup, tempDir } from "../support/temp.ts";

const models = ["plain", "sums", "works", "lists", "parting", "slow", "broken", "mock-reasoning"];

interface Item {
  readonly id: string;
  readonly seq: number;
  readonly kind: string;
  readonly role: string | null;
  readonly content: string;
  readonly parentId: string | null;
  readonly metadata: Readonly<Record<string, unknown>>;
}

describe("the tree of a conversation", () => {
  const atEnd = cleanup();
  let server: TestServer;
  let mock: MockModel;
  before(async () => {
    ({ server, mock } = await startChat(atEnd, {
      models,
      manifests: {
        agent: { tools: ["calculator", "todo_write", "write_file", "read_file"] },
        quiet: { session: { branch_summary: false } },
        breaking: { model: { id: "broken" } },
        capped: { limits: { max_input_tokens: 1 } },
        closed: { auth: { inbound: { required_scopes: ["rare"] } } },
      },
      env: { SVC_WORKSPACE_ROOT: tempDir(atEnd) },
    }));
    mock.answer("plain", ({ body }) => {
      const messages = body.messages as readonly { role: string; content: string }[];
      return messages[0]?.content.startsWith("You sum up") ? { text: "They tried tea." } : { text: "The answer." };
    });
    mock.answer("broken", { status: 400, headers: { "content-type": "application/json" }, steps: [{ send: "{}" }] });
    const files = calls(["write_file", { path: "a.txt", content: "1" }], ["read_file", { path: "b.txt" }]);
    mock.answer("works", inTurn(files, { text: "Worked." }));
    const todo = (content: string) => calls(["todo_write", { todos: [{ content, status: "pending" }] }]);
    mock.answer("lists", ({ body }) => {
      const words = JSON.stringify(body.messages);
      const last = (body.messages as readonly { role: string }[]).at(-1)?.role;
      return last === "tool" ? { text: "Listed." } : todo(words.includes("two") ? "second" : "first");
    });
  });

  const say = async (thread_id: string, text: string, fields: object = {}) => {
    const { status, json, text: body } = await server.post("/chat", turn("agent", text, { thread_id, ...fields }));
    assert.equal(status, 200, body);
    return json;
  };
  const snapshot = async (thread: string, query = "") => (await server.get(`/chat/sessions/${thread}${query}`)).json;
  const itemsOf = async (thread: string): Promise<Item[]> => (await snapshot(thread)).transcript;
  const wordsIn = (items: readonly Item[]) => items.map(({ content }) => content);
  const rewind = (thread_id: string, event_id: string, fields: object = {}) =>
    server.post("/chat/rewind", { thread_id, event_id, ...fields });
  const fork = (thread_id: string, new_thread_id: string, fields: object = {}) =>
    server.post("/chat/fork", { thread_id, new_thread_id, ...fields });
  const historyOf = async (thread: string, query = "") => (await server.get(`/chat/history/${thread}${query}`)).json;

  test("SESS-010 rewind moves the leaf back, and later turns and reads ignore the left branch", async () => {
    for (const words of ["one", "two", "three"]) await say("back", words);
    const all = await itemsOf("back");

    const { status, json } = await rewind("back", all[1]?.id as string, { summarize: false });
    const rewound = await snapshot("back");
    await say("back", "four");
    const after = await snapshot("back");

    assert.deepEqual([status, json], [200, { ok: true, leaf_id: all[1]?.id, thread_id: "default:back" }]);
    assert.deepEqual([wordsIn(rewound.transcript), rewound.leafId], [["one", "The answer."], all[1]?.id]);
    assert.ok(rewound.revision < after.revision);
    assert.deepEqual(wordsIn(shown(mock.requests.at(-1)) as unknown as Item[]), ["one", "The answer.", "four"]);
    assert.deepEqual(wordsIn(after.transcript), ["one", "The answer.", "four", "The answer."]);
    assert.equal(after.transcript[2].parentId, all[1]?.id);
    const { messages, oldest_seq, has_more } = await historyOf("back");
    assert.deepEqual([wordsIn(messages), oldest_seq, has_more], [wordsIn(after.transcript), 0, false]);
    const newest = await historyOf("back", "?limit=3");
    assert.deepEqual([newest.messages.map(({ seq }: Item) => seq), newest.has_more], [[1, 6, 7], true]);
    const rest = await historyOf("back", `?limit=3&before_seq=${newest.oldest_seq}`);
    assert.deepEqual([rest.messages.map(({ seq }: Item) => seq), rest.has_more], [[0], false]);
  });

  test("SESS-010 ?branches=all has the whole tree, and any branch can be a rewind's target", async () => {
    for (const words of ["one", "two"]) await say("tree", words);
    const first = await itemsOf("tree");
    await rewind("tree", first[1]?.id as string, { summarize: false });
    await say("tree", "three");
    await server.restart();

    const tree: Item[] = (await snapshot("tree", "?branches=all")).transcript;
    const other = await rewind("tree", first[3]?.id as string, { summarize: false });
    await say("tree", "four");

    assert.deepEqual(
      tree.map(({ seq, parentId }) => [seq, tree.findIndex(({ id }) => id === parentId)]),
      [
        [0, -1],
        [1, 0],
        [2, 1],
        [3, 2],
        [4, 1],
        [5, 4],
      ],
    );
    assert.equal(other.status, 200);
    assert.deepEqual(
      wordsIn(await itemsOf("tree")).filter((words) => words !== "The answer."),
      ["one", "two", "four"],
    );
    assert.equal((await server.get("/chat/sessions/tree?branches=some")).status, 422);
  });

  test("SESS-028 SESS-010 the manifest's model summarizes a left branch, recorded, after the target", async () => {
    await say("summed", "one");
    await say("summed", "work", { model: "works" });
    const all = await itemsOf("summed");

    const { json } = await rewind("summed", all[1]?.id as string, { instructions: "Be brief." });

    const { branch_summary, leaf_id } = json;
    const fromId = all.at(-1)?.id;
    const details = { readFiles: ["b.txt"], modifiedFiles: ["a.txt"] };
    assert.deepEqual(branch_summary, { ok: true, summary: "They tried tea.", event_id: leaf_id, fromId, details });
    const after = await snapshot("summed");
    const last = after.transcript.at(-1);
    assert.deepEqual([after.leafId, last.id, last.kind, last.role], [leaf_id, leaf_id, "branch_summary", "system"]);
    assert.deepEqual(
      [last.parentId, last.content, last.metadata.fromId, last.metadata.details],
      [all[1]?.id, "They tried tea.", fromId, details],
    );
    const asked = JSON.stringify(mock.requests.at(-1)?.body);
    for (const words of ["work", "Worked.", "a.txt", "Be brief."]) assert.ok(asked.includes(words), words);
    assert.ok(!asked.includes('"tools"'));
    const usage = (await server.get("/usage?thread_id=summed")).json.items;
    const purposes = usage.map(({ meta_json }: { meta_json: string }) => JSON.parse(meta_json).purpose);
    assert.equal(purposes.filter((purpose: unknown) => purpose === "branch_summary").length, 1);
    // The summary is for people; the model does not receive it.
    await say("summed", "two");
    assert.deepEqual(wordsIn(shown(mock.requests.at(-1)) as unknown as Item[]), ["one", "The answer.", "two"]);
  });

  test("SESS-028 branch_summary false skips the summary, unless the request asks for it", async () => {
    for (const words of ["one", "two"]) await say("quiet", words, { manifest: "quiet" });
    const [, first, , last] = await itemsOf("quiet");

    const without = await rewind("quiet", first?.id as string);
    await rewind("quiet", last?.id as string);
    const asked = await rewind("quiet", first?.id as string, { summarize: true });

    assert.equal(without.json.branch_summary, undefined);
    assert.equal(asked.json.branch_summary.summary, "They tried tea.");
  });

  test("SESS-028 a failed or unaffordable summary does not stop a rewind: it quotes the branch", async () => {
    for (const manifest of ["breaking", "capped"]) {
      for (const words of ["one", "two"]) await say(manifest, words);
      const [, target] = await itemsOf(manifest);

      const { status, json } = await rewind(manifest, target?.id as string, { manifest });

      const summary = "A branch of 2 messages was left.\nIt began: two\nIt ended: The answer.";
      assert.deepEqual([status, json.branch_summary.ok, json.branch_summary.summary], [200, false, summary]);
      assert.equal((await snapshot(manifest)).leafId, json.branch_summary.event_id);
    }
  });

  test("SESS-010 a rewind is refused for unknown events and manifests, and during a run", async () => {
    await say("refused", "one");
    await say("refused", "two");
    const before = await snapshot("refused");
    const target = before.transcript[0].id;
    const more = gate();
    mock.answer("slow", says("So far", more.opened, "."));

    const unknown = await rewind("refused", "f".repeat(32));
    const nobody = await rewind("nobody", target);
    const manifest = await rewind("refused", target, { manifest: "nobody" });
    const fields = await server.post("/chat/rewind", { thread_id: "refused", event_id: target, summarize: "yes" });
    const suffix = await rewind("a:b", target);
    const unchanged = await snapshot("refused");
    const stream = await server.stream("/chat/stream", turn("agent", "go", { thread_id: "refused", model: "slow" }));
    await stream.until("text_delta");
    const busy = await rewind("refused", target);
    more.open();
    await stream.rest();

    assert.deepEqual([unknown.status, unknown.json.error], [404, "unknown_event_id"]);
    assert.deepEqual([nobody.status, nobody.json.error], [404, "unknown_event_id"]);
    assert.deepEqual([manifest.status, manifest.json.error], [404, "unknown_manifest:nobody"]);
    assert.deepEqual([fields.status, fields.json.detail[0].loc], [422, ["body", "summarize"]]);
    assert.deepEqual([suffix.status, suffix.json.error], [400, "invalid_thread_id"]);
    assert.deepEqual(unchanged, before);
    assert.equal(busy.status, 409);
    assert.match(busy.json.error, /^run_in_progress:[0-9a-f]{32}$/);
  });

  test("SESS-010 listeners get a snapshot frame, and an old cursor its events and the snapshot", async () => {
    for (const words of ["one", "two"]) await say("watched", words);
    const [, target] = await itemsOf("watched");
    const listener = await server.listen("/chat/stream/watched?last_event_id=4");
    await listener.next();

    await rewind("watched", target?.id as string, { summarize: false });
    const told = await listener.until("snapshot");
    await say("watched", "three");
    const heard = await listener.until("session_event");
    listener.close();
    const late = await server.listen("/chat/stream/watched?last_event_id=2");
    const frames = [await late.next(), await late.next(), await late.next(), await late.next(), await late.next()];
    late.close();
    const current = await server.listen("/chat/stream/watched?last_event_id=6");
    const nothing = await current.next();
    current.close();

    assert.deepEqual([told.id, wordsIn(told.json.data.transcript)], ["4", ["one", "The answer."]]);
    assert.deepEqual([heard.json.data.seq, heard.json.data.content], [4, "three"]);
    assert.deepEqual(
      frames.map((frame) => [frame?.name, frame?.id]),
      [
        ["session_event", "3"],
        ["session_event", "4"],
        ["session_event", "5"],
        ["session_event", "6"],
        ["snapshot", "6"],
      ],
    );
    assert.equal(nothing?.name, ":");
  });

  test("SESS-018 todos revert when a rewind leaves the event that wrote them", async () => {
    await say("todos", "one", { model: "lists" });
    const before = await snapshot("todos");
    await say("todos", "two", { model: "lists" });
    const later = await snapshot("todos");

    await rewind("todos", before.leafId, { summarize: false });

    const listed = ({ todos }: { todos: { content: string }[] }) => todos.map(({ content }) => content);
    assert.deepEqual([listed(before), listed(later)], [["first"], ["second"]]);
    assert.deepEqual(listed(await snapshot("todos")), ["first"]);
  });

  test("SESS-009 fork copies the active branch under new ids and records its parent", async () => {
    for (const words of ["one", "left"]) await say("origin", words);
    const [, kept] = await itemsOf("origin");
    await rewind("origin", kept?.id as string, { summarize: false });
    await say("origin", "two");
    const source = await snapshot("origin");
    await server.post("/chat/sessions/label", { thread_id: "origin", event_id: kept?.id, label: "here" });

    const { status, json } = await fork("origin", "copy");
    const again = await fork("copy", "copy-of-copy", { from_event_id: (await itemsOf("copy"))[1]?.id });
    await say("copy", "three");

    const copy = await snapshot("copy");
    assert.equal(status, 200);
    assert.deepEqual(json, {
      ok: true,
      source_thread_id: "default:origin",
      thread_id: "default:copy",
      copied: 5,
      leaf_id: copy.transcript[4].id,
    });
    const words = ["one", "The answer.", "two", "The answer."];
    assert.deepEqual(wordsIn(copy.transcript), [...words, "", "three", "The answer."]);
    assert.equal(copy.parentSessionId, "default:origin");
    assert.deepEqual(copy.labels, { [copy.transcript[1].id]: "here" });
    assert.deepEqual(
      copy.transcript.slice(0, 4).map(({ metadata }: Item) => metadata.forked_from),
      source.transcript.map(({ id }: Item) => id),
    );
    assert.deepEqual(wordsIn((await itemsOf("origin")).slice(0, 4)), words);
    assert.deepEqual([again.json.copied, wordsIn(await itemsOf("copy-of-copy"))], [2, ["one", "The answer."]]);
    assert.deepEqual((await server.get("/usage?thread_id=copy")).json.items.length, 1, "what was copied is not billed");
    const listed = (await server.get("/chat/sessions?limit=500")).json.items;
    assert.equal(listed.find(({ id }: { id: string }) => id === "default:copy").parentSessionId, "default:origin");
    assert.ok((await server.get("/chat/sessions/search?q=one&limit=100")).text.includes("default:copy"));
  });

  test("SESS-009 fork during a run ends before open calls, and lists the files that it lacks", async () => {
    await say("busy", "one", { model: "works" });
    const more = gate();
    mock.answer("parting", inTurn(calls(["calculator", { expression: "1+1" }]), says("So far", more.opened, ".")));
    const stream = await server.stream("/chat/stream", turn("agent", "two", { thread_id: "busy", model: "parting" }));
    await stream.until("text_delta");
    const [, asking] = (await itemsOf("busy")).filter(({ kind, role }) => kind === "message" && role === "assistant");

    const live = await fork("busy", "busy-fork");
    const open = (await itemsOf("busy")).findLast(({ kind, content }) => kind === "message" && content === "");
    const cut = await fork("busy", "busy-cut", { from_event_id: open?.id });
    more.open();
    await stream.rest();

    assert.deepEqual([live.status, cut.status, asking?.content], [200, 200, "Worked."]);
    const kinds = (await itemsOf("busy-fork")).map(({ kind }) => kind);
    const worked = ["message", "message", "tool_result", "tool_result", "message"];
    assert.deepEqual(kinds, [...worked, "message", "message", "tool_result", "custom"]);
    const last = (await itemsOf("busy-cut")).slice(-2);
    assert.equal(last[0]?.content, "two");
    assert.match(last[1]?.content ?? "", /^\[Files that .* stayed with the conversation that it was forked from.\]$/);
    await say("busy-cut", "go on");
    const told = shown(mock.requests.at(-1)).map(({ content }) => content);
    assert.ok(told.some((content) => content.startsWith("[Files that")));
  });

  test("SESS-009 fork is refused for ids that are taken, missing or malformed", async () => {
    await say("taken", "one");
    const more = gate();
    mock.answer("slow", says("So far", more.opened, "."));
    const stream = await server.stream("/chat/stream", turn("agent", "go", { thread_id: "young", model: "slow" }));
    await stream.until("text_delta");

    const answers = [
      await fork("taken", "taken"),
      await fork("taken", "young"),
      await fork("nobody", "anybody"),
      await fork("taken", "a:b"),
      await fork("taken", "search"),
      await fork("taken", "a%2fb"),
      await server.post("/chat/fork", { thread_id: "taken" }),
    ].map(({ status, json }) => [status, json.error]);
    more.open();
    await stream.rest();

    assert.deepEqual(answers, [
      [409, "thread_exists"],
      [409, "thread_exists"],
      [404, "unknown_thread"],
      [400, "invalid_thread_id"],
      [400, "invalid_thread_id"],
      [400, "invalid_thread_id"],
      [422, "invalid_request"],
    ]);
    assert.equal((await snapshot("anybody")).leafId, null);
  });

  test("SESS-019 export is the active branch, an event on each line, and has no signatures", async () => {
    await say("out.put é", "one", { model: "mock-reasoning" });
    await say("out.put é", "left");
    const [, target] = await itemsOf("out.put%20%C3%A9".replaceAll("%20", "%20"));
    await rewind("out.put é", target?.id as string, { summarize: false });
    await say("out.put é", "work", { model: "works" });

    const { status, headers, text } = await server.get("/chat/sessions/out.put%20%C3%A9/export");
    const nobody = await server.get("/chat/sessions/nobody/export");

    assert.equal(status, 200);
    assert.equal(headers["content-type"], "application/x-ndjson");
    assert.equal(headers["content-disposition"], 'attachment; filename="out.put__.jsonl"');
    assert.ok(text.endsWith("\n"));
    const lines = text.trimEnd().split("\n");
    const events = lines.map((line) => JSON.parse(line));
    assert.deepEqual(
      events.map(({ seq }) => seq),
      [0, 1, 4, 5, 6, 7, 8, 9, 10],
    );
    assert.deepEqual(
      events.map(({ parent_id }, at) => parent_id === (events[at - 1]?.event_id ?? null)),
      events.map(() => true),
    );
    assert.deepEqual(Object.keys(events[0]), ["seq", "ts", "kind", "role", "content", "event_id", "parent_id"]);
    assert.ok(events[0].ts > 1_700_000_000 && events[0].ts < 100_000_000_000);
    assert.equal(events[3].tool_calls[0].name, "write_file");
    assert.ok(events.some(({ tool_call_id, name }) => tool_call_id === "call_2" && name === "read_file"));
    assert.deepEqual([nobody.status, nobody.text], [200, ""]);
  });

  const reads = onOneHost("it reads the file of SQLite");
  test("SESS-015 DELETE removes every word of the thread, its runs and its answers", { skip: reads }, async () => {
    const word = "zyxwvplanted";
    const headers = { "idempotency-key": "planted-key" };
    const body = turn("agent", `remember ${word}`, { thread_id: "doomed" });
    await server.post("/chat", body, { headers });
    await say("doomed", `again ${word}`);
    const [, reply] = await itemsOf("doomed");
    const event = { thread_id: "doomed", event_id: reply?.id };
    await server.post("/chat/sessions/label", { ...event, label: word });
    await server.post("/chat/sessions/feedback", { ...event, rating: "up", note: word });
    await server.post("/chat/sessions/name", { thread_id: "doomed", name: word });
    await server.post("/chat/sessions/custom", { thread_id: "doomed", metadata: { word } });
    assert.equal((await server.get(`/chat/sessions/search?q=${word}`)).json.hits.length, 2);
    // The summary's model call has a context record with the words of the thread.
    await server.post("/chat/compact", { thread_id: "doomed", manifest: "agent" });
    assert.ok((await callsOf(server.dataDir, "doomed")).some(({ bodies }) => JSON.stringify(bodies).includes(word)));
    const listener = await server.listen("/chat/stream/doomed?last_event_id=99");
    await listener.until("snapshot");

    const deleted = await server.request("DELETE", "/chat/history/doomed");
    const told = await listener.until("snapshot");
    listener.close();

    assert.equal(deleted.status, 200);
    assert.deepEqual([told.id, told.json.data.transcript], ["0", []]);
    const config = sqliteIn(server.dataDir);
    assert.ok(config.engine === "sqlite");
    const db = new Database(config.path, { readonly: true });
    const found: string[] = [];
    const tables = db.prepare("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'event_search%'");
    for (const { name } of tables.all() as { name: string }[]) {
      // The audit keeps its rows after a deletion (decision 67: a deletion removes content, not the record of actions).
      if (name === "audit") continue;
      const rows = db.prepare(`SELECT * FROM ${name}`).all();
      if (JSON.stringify(rows).includes(word)) found.push(name);
    }
    const indexed = db.prepare("SELECT rowid FROM event_search WHERE event_search MATCH ?").all(word);
    db.close();
    assert.deepEqual([found, indexed], [[], []]);
    // The key was deleted with its answer, so the request runs again.
    const anew = await server.post("/chat", body, { headers });
    assert.deepEqual([anew.status, anew.headers["idempotent-replayed"]], [200, undefined]);
  });
});
