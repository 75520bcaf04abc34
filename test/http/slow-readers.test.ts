// Clients that open streams and do not read them, over real sockets. They are closed at the limits, lose no event, and
// delay no other client (decision 10, threat 24). test/long/stalled-readers.test.ts does the same with ten thousand.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { assertNoErrorLogged, assertRssBelow, metric, untilMetric } from "../security/support.ts";
import { eventSeqs, startChatProcess, turn } from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
import type { ProcessServer } from "../support/server.ts";
import { type Cleanup, cleanup } from "../support/temp.ts";
import { StalledReaders, talkUntil } from "./stalled-readers.ts";

const models = ["plain", "loud", "endless"];
const miB = 1024 * 1024;
/** The text of one turn of the loud model; it crosses a stream three times. */
const loudText = "x".repeat(200_000);
/** As much as a run may write; each character takes six bytes on the wire. */
const endlessPieces = Array.from({ length: 60 }, () => "\u0001".repeat(6_500));
/** The model receives a short window, so that long threads cost nothing. */
const manifests = { agent: { session: { strategy: "windowed:1" } } };

async function start(atEnd: Cleanup, env: Record<string, string> = {}): Promise<ProcessServer> {
  const { server, mock } = await startChatProcess(atEnd, { models, manifests, env });
  mock.answer("plain", { text: ["The", " answer."] });
  mock.answer("loud", { text: loudText });
  // Far more than a connection and the limit hold.
  mock.answer("endless", { text: endlessPieces });
  return server;
}

const closedCount = (server: ProcessServer) => metric(server, "svc_slow_streams_closed_total");
const say = (server: ProcessServer, thread_id: string, model: string) =>
  server.post("/chat", turn("agent", "go", { thread_id, model }));

describe("readers that read nothing", () => {
  test("are closed at 1 MiB each; other readers, and they on return, get everything", async (t) => {
    const atEnd = cleanup(t);
    const server = await start(atEnd);
    const readers = await StalledReaders.open(server, 10, () => "common", atEnd);
    const reading = await server.listen("/chat/stream/common");
    const read: number[] = [];
    const reads = (async () => {
      for await (const frame of reading) read.push(...eventSeqs([frame]));
    })().catch(() => {});

    const turns = await talkUntil(
      () => say(server, "common", "loud"),
      async () => (await closedCount(server)) === 10,
    );
    const waiting = await metric(server, "svc_stream_waiting_bytes");
    const again = await server.listen("/chat/stream/common", { headers: { "last-event-id": "0" } });
    const seqs: number[] = [];
    for await (const frame of again) {
      seqs.push(...eventSeqs([frame]));
      if (seqs.length === turns * 2) break;
    }

    await eventually("all frames", async () => {
      await server.get("/health");
      return read.length === turns * 2 || undefined;
    });

    assert.equal(await metric(server, "svc_open_streams"), 2);
    assert.ok(waiting <= miB, `${waiting} bytes wait`);
    assert.deepEqual(seqs, [...seqs.keys()]);
    assert.deepEqual(read, seqs);
    assertNoErrorLogged(server);
    again.close();
    reading.close();
    readers.close();
    await reads;
  });

  test("delay no conversation at two hundred, and the process limit holds", async (t) => {
    const atEnd = cleanup(t);
    const bound = miB;
    const server = await start(atEnd, {
      SVC_STREAM_BUFFER_BYTES: String(bound),
      SVC_HTTP_THREADS: "2",
      SVC_ACTOR_THREADS: "2",
    });
    const loud = await StalledReaders.open(server, 100, () => "loud", atEnd);
    const quiet = await StalledReaders.open(server, 100, (at) => `quiet-${at % 10}`, atEnd);
    let conversations = 0;
    let over = false;
    const talk = async (client: number): Promise<void> => {
      for (let number = 0; number < 20 || !over; number++) {
        const thread = number % 2 === 0 ? `quiet-${client}` : `own-${client}`;
        const { status, json, text } = await say(server, thread, "plain");
        assert.equal(status, 200, text);
        assert.equal(json.final.content, "The answer.");
        conversations++;
      }
    };
    const talking = Promise.all([0, 1, 2, 3].map(talk));

    await talkUntil(
      () => say(server, "loud", "loud"),
      async () => {
        const waiting = await metric(server, "svc_stream_waiting_bytes");
        assert.ok(waiting <= bound, `${waiting} bytes wait`);
        return (await closedCount(server)) === 100;
      },
    );
    over = true;
    await talking;

    assert.ok(conversations >= 80);
    assert.equal(await metric(server, "svc_open_streams"), 100);
    assertRssBelow(server, 700);
    assertNoErrorLogged(server);
    loud.close();
    quiet.close();
    await untilMetric(server, "svc_open_streams", (open) => open === 0);
  });

  test("get only as much of a long backlog as they read, and bounded live frames", async (t) => {
    const atEnd = cleanup(t);
    const server = await start(atEnd);
    // 40 turns of 400 KB exceed the buffers of any connection.
    const long = "y".repeat(400_000);
    for (let number = 0; number < 40; number++)
      await server.post("/chat", turn("agent", long, { thread_id: "past", model: "plain" }));
    const readers = await StalledReaders.open(server, 20, () => "past", atEnd, "id: ");

    await talkUntil(
      () => say(server, "past", "loud"),
      async () => (await closedCount(server)) === 20,
    );

    assertRssBelow(server, 700);
    readers.close();
    const { status, json } = await server.get("/chat/sessions/past");
    assert.equal(status, 200);
    assert.equal(json.transcript[0].content, long);
  });

  test("do not stop their own turn: it is committed in full, and the next turn starts", async (t) => {
    const atEnd = cleanup(t);
    const server = await start(atEnd);
    const own = await server.stream("/chat/stream", turn("agent", "go", { thread_id: "own", model: "endless" }));
    own.pause();

    const session = await eventually("the end of the run", async () => {
      const { json } = await server.get("/chat/sessions/own");
      return json.phase === "idle" && json.transcript.length === 2 ? json : undefined;
    });
    const next = await say(server, "own", "plain");

    assert.equal(session.transcript[1].content, endlessPieces.join(""));
    assert.equal(next.status, 200, next.text);
    assert.equal(await closedCount(server), 1);
    own.close();
  });

  test("of long answers without a stream keep at most one piece of them in memory", async (t) => {
    const atEnd = cleanup(t);
    const server = await start(atEnd);
    for (let number = 0; number < 30; number++)
      await server.post("/chat", turn("agent", "y".repeat(1_000_000), { thread_id: "long", model: "plain" }));

    const readers = await StalledReaders.openPath(server, 20, "/chat/sessions/long", '"seq":0', atEnd);

    // Each would need 30 MB.
    assertRssBelow(server, 700);
    assert.equal((await say(server, "other", "plain")).status, 200);
    readers.close();
  });
});
