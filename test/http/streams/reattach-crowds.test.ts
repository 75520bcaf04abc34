// Crowds that reconnect at once, over real sockets: their backlog is encoded once, none is refused, and other clients
// are not delayed.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { appendOp, type LogEvent } from "../../../storage/tables/events.ts";
import { insertThreadOp } from "../../../storage/tables/threads.ts";
import { assertNoErrorLogged, assertRssBelow, metric, untilMetric } from "../../security/support.ts";
import { eventSeqs, framesUntil, isReply, startChatProcess, turn } from "../../support/chat.ts";
import { RawConnection, rawRequest } from "../../support/raw-http.ts";
import { threadRow } from "../../support/rows.ts";
import { seed, sqliteIn } from "../../support/seed.ts";
import { apiKeys, type ProcessServer } from "../../support/server.ts";
import { cleanup } from "../../support/temp.ts";
import { StalledReaders } from "../stalled-readers.ts";

const scopes = ["chat:read", "chat:write", "metrics:read"];
const { env: keyEnv, keys } = apiKeys({
  crowd: { tenant_id: "crowd", scopes },
  single: { tenant_id: "single", scopes },
});
const crowd = { key: keys.crowd };
const single = { key: keys.single };
const asCrowd = [`authorization: Bearer ${keys.crowd}`];
const manifests = { agent: { session: { strategy: "windowed:1" } } };

/** Threads with one message longer than a piece. */
const longThreads = 4;
const longText = "Ein längerer Satz. ".repeat(20_000);
/** A thread larger than the buffers of any connection. */
const endlessEvents = 40;
const endlessText = "x".repeat(400_000);

const rows = (suffix: string, key: number, events: number, content: string) => ({
  thread: threadRow(key, suffix, { uid: key.toString(16).padStart(20, "0"), next_seq: events, leaf_seq: events - 1 }),
  events: Array.from({ length: events }, (_, seq): LogEvent => {
    return { seq, parent_seq: seq - 1, ts: 1, kind: "message", role: "user", content, extra: null };
  }),
});

describe("many readers that reattach", () => {
  const atEnd = cleanup();
  let server: ProcessServer;
  before(async () => {
    const started = await startChatProcess(atEnd, { models: ["plain"], manifests, env: keyEnv });
    server = started.server;
    started.mock.answer("plain", { text: ["The", " answer."] });
    await server.stop();
    const stored = (each: ReturnType<typeof rows>, tenant: Parameters<Parameters<typeof seed>[2]>[0]) => [
      insertThreadOp(tenant, each.thread),
      ...each.events.map((event) => appendOp(tenant, each.thread.thread_key, event)),
    ];
    await seed(sqliteIn(server.dataDir), "crowd", (tenant) =>
      [
        ...Array.from({ length: longThreads }, (_, at) => rows(`long-${at}`, 1_000_001 + at, 1, `${at} ${longText}`)),
        rows("endless", 1_000_100, endlessEvents, endlessText),
        rows("endless-too", 1_000_101, endlessEvents, endlessText),
      ].flatMap((each) => stored(each, tenant)),
    );
    await seed(sqliteIn(server.dataDir), "single", (tenant) => stored(rows("own", 1_000_200, 3, longText), tenant));
    await server.restart();
  });

  const pagesMade = () => metric(server, "svc_history_pages_total", crowd);

  test("STREAM-008 all get the whole snapshot of their thread, which is built once", async () => {
    let made = Number.POSITIVE_INFINITY;
    // Only simultaneous readers share pages, and a busy machine may spread them out, so retry.
    for (let crowds = 0; crowds < 5 && made >= 60; crowds++) {
      const madeBefore = await pagesMade();
      const streams = await Promise.all(
        Array.from({ length: 120 }, (_, at) => server.listen(`/chat/stream/long-${at % longThreads}`, crowd)),
      );
      const firsts = await Promise.all(
        streams.map(async (stream) => {
          const first = await stream.next();
          stream.close();
          return first;
        }),
      );
      made = (await pagesMade()) - madeBefore;

      for (const [at, first] of firsts.entries()) {
        const own = `${at % longThreads} ${longText}`;
        assert.deepEqual([first?.name, first?.id], ["snapshot", "1"]);
        // The test client may cut text between two bytes of a letter.
        assert.equal(first?.json.data.transcript[0].content.replaceAll(/\uFFFD+/g, "ä"), own);
      }
    }
    assert.ok(made < 60, `${made} pages were made for 120 streams`);
    assert.equal(await metric(server, "svc_history_readers_waiting", crowd), 0);
  });

  test("STREAM-009 with a cursor get the later events, encoded once for all", async () => {
    const headers = { "last-event-id": "36" };
    let made = Number.POSITIVE_INFINITY;
    // As above: retry until the readers coincide.
    for (let crowds = 0; crowds < 5 && made >= 40; crowds++) {
      const madeBefore = await pagesMade();
      const streams = await Promise.all(
        Array.from({ length: 20 }, () => server.listen("/chat/stream/endless", { ...crowd, headers })),
      );
      const all = await Promise.all(
        streams.map(async (stream) => {
          const frames = await framesUntil(stream, ({ id }) => id === String(endlessEvents));
          stream.close();
          return eventSeqs(frames);
        }),
      );
      made = (await pagesMade()) - madeBefore;

      for (const seqs of all) assert.deepEqual(seqs, [36, 37, 38, 39]);
    }
    assert.ok(made < 40, `${made} pages were made for 80 that were sent`);
  });

  test("GET /chat/sessions/{thread_id} sends the same bytes to all, even split letters", async () => {
    const answers = await Promise.all(Array.from({ length: 40 }, () => server.get("/chat/sessions/long-1", crowd)));

    for (const { status, text } of answers) assert.deepEqual([status, text === answers[0]?.text], [200, true]);
    assert.equal(answers[0]?.json.transcript[0].content, `1 ${longText}`);
  });

  test("are bounded and metered when they stall, and another tenant is served", async () => {
    const readers = await StalledReaders.open(server, 150, () => "endless", atEnd, "id: ", crowd.key);
    await untilMetric(server, "svc_stream_waiting_bytes", (bytes) => bytes > 0, crowd);

    const stream = await server.listen("/chat/stream/own", single);
    const snapshot = await stream.next();
    const said = await server.post("/chat", turn("agent", "go", { thread_id: "own-2" }), single);

    assert.equal(snapshot?.json.data.transcript.length, 3);
    assert.equal(said.status, 200, said.text);
    const waiting = await metric(server, "svc_stream_waiting_bytes", crowd);
    assert.ok(waiting < 150 * 64 * 1024 + 40 * 2 ** 20, `${waiting} bytes wait`);
    assertRssBelow(server, 700);
    assertNoErrorLogged(server);
    stream.close();
    readers.close();
    await untilMetric(server, "svc_stream_waiting_bytes", (bytes) => bytes === 0, crowd);
  });

  test("free their places when they leave, and nothing more is built for them", async () => {
    const connections = await Promise.all(
      Array.from({ length: 100 }, async () => {
        const connection = new RawConnection(server.url);
        atEnd.after(() => connection.reset());
        await connection.send(rawRequest("GET", "/chat/stream/endless-too", asCrowd));
        return connection;
      }),
    );
    for (const connection of connections) connection.reset();

    await untilMetric(server, "svc_open_streams", (open) => open === 0, crowd);
    await untilMetric(server, "svc_history_readers_waiting", (waiting) => waiting === 0, crowd);
    await untilMetric(server, "svc_stream_waiting_bytes", (bytes) => bytes === 0, crowd);
    const { status, json } = await server.get("/chat/sessions/endless-too", crowd);
    assert.deepEqual([status, json.transcript.length], [200, endlessEvents]);
  });

  test("a thread grows during its replay: slow readers get the rest, new ones get all", async () => {
    const slow = await server.listen("/chat/stream/endless-too", crowd);
    await untilMetric(server, "svc_stream_waiting_bytes", (bytes) => bytes > 0, crowd);
    const said = await server.post("/chat", turn("agent", "go", { thread_id: "endless-too" }), crowd);
    assert.equal(said.status, 200, said.text);

    const later = await server.listen("/chat/stream/endless-too", crowd);
    const [now, before] = await Promise.all([later.next(), slow.next()]);
    const rest = await framesUntil(slow, isReply);

    assert.deepEqual([before?.id, before?.json.data.transcript.length], ["40", 40]);
    assert.deepEqual(eventSeqs(rest), [40, 41]);
    assert.deepEqual([now?.id, now?.json.data.transcript.length], ["42", 42]);
    slow.close();
    later.close();
  });

  test("do not delay a server's end when slow, and get no broken frame", async () => {
    const connection = new RawConnection(server.url);
    await connection.send(rawRequest("GET", "/chat/stream/endless", asCrowd));
    await connection.until("id: ");
    connection.stall();
    await untilMetric(server, "svc_stream_waiting_bytes", (bytes) => bytes > 0, crowd);

    const ended = server.stop();
    connection.read();
    const { code } = await ended;
    await connection.closed;

    assert.equal(code, 0);
    assert.ok(!connection.unread.includes("[DONE]"), "the frame had not ended");
    assertNoErrorLogged(server);
  });
});
