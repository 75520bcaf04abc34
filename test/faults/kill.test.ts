// A server that is killed in the middle of turns, and the state that its successor finds.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { says, shown, turn } from "../support/chat.ts";
import type { Answer } from "../support/http-client.ts";
import { type MockModel, startMockModel } from "../support/mock-model.ts";
import { manifestEnv, modelEnv, type ProcessServer, startServerProcess } from "../support/server.ts";
import type { Frame } from "../support/sse-frames.ts";
import { dialects } from "../support/stores.ts";
import { cleanup } from "../support/temp.ts";
import {
  brief,
  type Database,
  databaseOf,
  durableUpTo,
  obedient,
  orLost,
  skipPostgres,
  snapshotOf,
  untilCut,
} from "./support.ts";

for (const dialect of dialects) {
  describe(`SIGKILL in mid-stream, on ${dialect}`, { skip: dialect === "postgres" && skipPostgres }, () => {
    const atEnd = cleanup();
    let server: ProcessServer;
    let mock: MockModel;
    let database: Database;
    let answered: Answer;
    let streamed: Frame[];
    let midway: Frame[];
    let calculated: Frame[];

    const keyed = (key: string) => ({ headers: { "idempotency-key": key } });
    const begin = (words: string, thread_id: string | null) => turn("agent", `begin ${words}`, { thread_id });

    before(async () => {
      mock = await startMockModel();
      atEnd.after(() => mock.close());
      mock.answer("obedient", obedient());
      mock.answer("willing", says("taken on"));
      database = await databaseOf(dialect, atEnd);
      server = await startServerProcess({
        atEnd,
        env: {
          ...modelEnv(mock, ["obedient", "willing"]),
          ...manifestEnv(atEnd, {
            agent: { tools: ["calculator"], model: { id: "obedient" } },
            successor: { tools: ["calculator"], model: { id: "willing" } },
          }),
          ...database.env,
        },
      });
      answered = await server.post("/chat", turn("agent", "say one", { thread_id: "answered" }));
      streamed = await (
        await server.stream("/chat/stream", turn("agent", "say two", { thread_id: "streamed" }))
      ).rest();
      await server.post("/chat", turn("agent", "say three", { thread_id: "midway" }));

      const waiting = [
        server.post("/chat", begin("json", "waiting")),
        server.post("/chat", begin("keyed json", "keyed-json"), keyed("k2")),
        server.post("/chat", begin("keyed stateless", null), keyed("k3")),
        server.post("/v1/chat/completions", {
          ...begin("openai", null),
          model: "agent",
          manifest: undefined,
          user: "openai",
        }),
      ].map(orLost);
      const live = await Promise.all([
        server.stream("/chat/stream", begin("four", "midway")),
        server.stream("/chat/stream", turn("agent", "calculate five", { thread_id: "calculated" })),
        server.stream("/chat/stream", begin("six", "keyed-stream"), keyed("k1")),
      ]);
      const frames = await Promise.all(
        live.map(async (stream) => {
          const seen: Frame[] = [];
          for (let name = ""; name !== "text_delta"; name = seen.at(-1)?.name ?? "")
            seen.push((await stream.next()) as Frame);
          return seen;
        }),
      );
      while (mock.requests.length < 3 + 7 + 1) await mock.next();

      const gone = Promise.all(live.map((stream) => untilCut(stream)));
      await server.kill();
      const rest = await gone;
      assert.deepEqual(await Promise.all(waiting), [undefined, undefined, undefined, undefined]);
      [midway = [], calculated = []] = frames.map((seen, at) => [...seen, ...(rest[at] ?? [])]);
      await server.restart();
    });

    test("every event that an answer or a frame has named is in the log, in its place", async () => {
      const one = await snapshotOf(server, "answered");
      const two = await snapshotOf(server, "streamed");
      const five = await snapshotOf(server, "calculated");

      assert.deepEqual(one.transcript.map(brief), ["user: say one", "assistant: one"]);
      assert.equal(one.leafId, answered.json.leaf_id);
      assert.equal(one.transcript.at(-1)?.id, answered.json.leaf_id);
      assert.deepEqual(two.transcript.map(brief), ["user: say two", "assistant: two"]);
      assert.equal(durableUpTo(streamed), two.transcript.length);
      const events = ["user: calculate five", "assistant: ", "tool_call", "tool_result", "run_interrupted"];
      assert.deepEqual(five.transcript.map(brief), events);
      assert.equal(durableUpTo(calculated), 4);
      assert.equal(five.transcript[3]?.content, "42");
    });

    test("an interrupted turn is marked once, with its run, and the thread is idle", async () => {
      for (const thread of ["midway", "waiting", "calculated", "keyed-stream", "keyed-json", "openai"]) {
        const { transcript, phase } = await snapshotOf(server, thread);

        const marks = transcript.filter(({ metadata }) => metadata.type === "run_interrupted");
        assert.equal(phase, "idle", thread);
        assert.deepEqual(marks, transcript.slice(-1), thread);
        assert.equal(marks[0]?.kind, "audit");
        assert.match(String(marks[0]?.metadata.run_id), /^[0-9a-f]{32}$/);
        assert.equal(marks[0]?.metadata.reason, "crash");
      }
    });

    test("a finished turn is not marked, and no live run or claimed key remains", async () => {
      const { transcript } = await snapshotOf(server, "answered");
      const runs = await database.rows("SELECT * FROM runs WHERE ended_at IS NULL", server.dataDir);
      const claims = await database.rows("SELECT * FROM idempotency WHERE state = 'in_progress'", server.dataDir);
      const hosts = await database.rows("SELECT id FROM hosts", server.dataDir);

      assert.equal(hosts.length, 1, "the host that was killed is gone");
      assert.ok(!transcript.map(brief).includes("run_interrupted"));
      assert.deepEqual([runs, claims], [[], []]);
    });

    test("the mark is in the log and in reattached streams, but not in the history", async () => {
      const history = await server.get("/chat/history/midway");
      const stream = await server.listen("/chat/stream/midway", { headers: { "last-event-id": "2" } });
      const events = [await stream.next(), await stream.next()];
      stream.close();

      assert.deepEqual(
        history.json.messages.map(({ role, content }: { role: string; content: string }) => `${role}: ${content}`),
        ["user: say three", "assistant: three", "user: begin four"],
      );
      assert.deepEqual(
        events.map((frame) => [frame?.name, frame?.id, frame?.json.data.kind]),
        [
          ["session_event", "3", "message"],
          ["session_event", "4", "audit"],
        ],
      );
      assert.ok(durableUpTo(midway) <= 4);
    });

    test("IDEM-008 a cut keyed stream is replayed with its events, an error frame and [DONE]", async () => {
      const asked = mock.requests.length;

      const again = await server.stream("/chat/stream", begin("six", "keyed-stream"), keyed("k1"));
      const frames = await again.rest();

      assert.deepEqual([again.status, again.headers["idempotent-replayed"]], [200, "true"]);
      assert.deepEqual(
        frames.map(({ name, event, id }) => [name, event, id]),
        [
          ["session_event", null, "1"],
          ["error", "error", null],
          ["[DONE]", null, null],
        ],
      );
      assert.equal(frames[0]?.json.data.content, "begin six");
      assert.deepEqual(frames[1]?.json, { error: { message: "the run was interrupted", type: "stream_error" } });
      assert.equal(mock.requests.length, asked);
    });

    test("IDEM-012 a cut keyed POST /chat runs again, with a thread and without", async () => {
      mock.answer("obedient", says("at last"));

      const onThread = await server.post("/chat", begin("keyed json", "keyed-json"), keyed("k2"));
      const stateless = await server.post("/chat", begin("keyed stateless", null), keyed("k3"));
      const resent = await server.post("/chat", begin("keyed json", "keyed-json"), keyed("k2"));
      mock.answer("obedient", obedient());

      for (const { status, headers, json } of [onThread, stateless]) {
        assert.deepEqual([status, headers["idempotent-replayed"]], [200, undefined]);
        assert.equal(json.final.content, "at last");
      }
      assert.deepEqual([resent.text, resent.headers["idempotent-replayed"]], [onThread.text, "true"]);
    });

    test("SESS-008 POST /chat/continue continues the thread without another user message", async () => {
      const { status, json } = await server.post("/chat/continue", { thread_id: "midway", manifest: "successor" });

      assert.deepEqual([status, json.final?.content], [200, "taken on"]);
      assert.deepEqual(
        shown(mock.requests.at(-1)).map(({ content }) => content),
        ["say three", "three", "begin four"],
      );
      assert.deepEqual((await snapshotOf(server, "midway")).transcript.slice(2).map(brief), [
        "user: begin four",
        "run_interrupted",
        "assistant: taken on",
      ]);
    });

    test("a new message continues the thread, also after a tool's last result", async () => {
      const waiting = await server.post("/chat", turn("successor", "and now?", { thread_id: "waiting" }));
      const calculated = await server.post("/chat", turn("successor", "and now?", { thread_id: "calculated" }));

      assert.deepEqual([waiting.status, calculated.status], [200, 200]);
      assert.deepEqual(
        shown(mock.requests.at(-1)).map(({ role }) => role),
        ["user", "assistant", "tool", "user"],
      );
      assert.deepEqual((await snapshotOf(server, "waiting")).transcript.map(brief), [
        "user: begin json",
        "run_interrupted",
        "user: and now?",
        "assistant: taken on",
      ]);
    });
  });
}
