// Ten thousand clients that listen and never read, while others talk on the same threads (decision 10 closes a client
// that leaves over 1 MiB unread; threat 24 is the slow reader).
import assert from "node:assert/strict";
import { test } from "node:test";
import { readOpenFilesMax, readRssKib } from "../../perf/process-stats.ts";
import { StalledReaders, talkUntil } from "../http/stalled-readers.ts";
import { assertNoErrorLogged, metric, untilMetric } from "../security/support.ts";
import { startChatProcess, turn } from "../support/chat.ts";
import { cleanup } from "../support/temp.ts";

const miB = 1024 * 1024;
/** They listen to a quiet thread, whose bytes fit into the system's buffers. */
const quietCount = 9_900;
/** They listen to more than the system buffers, and are closed. */
const loudCount = 100;
const threadCount = 100;
const clientCount = 8;
const turnsOfEach = 100;
const boundBytes = 16 * miB;
/** The growth of the server, from all text sent to clients that do not read. */
const growthMibMax = 400;

const filesNeeded = quietCount + loudCount + 500;
const filesMax = readOpenFilesMax();

test("ten thousand readers that never read slow no thread, and stay within the bounds", {
  skip: filesMax !== undefined && filesMax < filesNeeded ? `needs ${filesNeeded} open files; see ulimit -n` : false,
}, async (t) => {
  const atEnd = cleanup(t);
  const { server, mock } = await startChatProcess(atEnd, {
    models: ["plain", "loud"],
    manifests: { agent: { session: { strategy: "windowed:1" } } },
    env: { SVC_STREAM_BUFFER_BYTES: String(boundBytes), SVC_HTTP_THREADS: "2", SVC_ACTOR_THREADS: "2" },
  });
  mock.answer("plain", { text: ["The", " answer."] });
  mock.answer("loud", { text: "x".repeat(200_000) });
  const say = (thread_id: string, model: string) => server.post("/chat", turn("agent", "go", { thread_id, model }));
  const quiet = await StalledReaders.open(server, quietCount, (at) => `thread-${at % threadCount}`, atEnd);
  const loud = await StalledReaders.open(server, loudCount, () => "loud", atEnd);
  const rssBefore = readRssKib([server.pid]) / 1024;
  assert.equal(await metric(server, "svc_open_streams"), quietCount + loudCount);

  const talk = async (client: number): Promise<void> => {
    for (let number = 0; number < turnsOfEach; number++) {
      // A client has its threads to itself, so that its turns do not collide.
      const thread = `thread-${client + clientCount * (number % Math.floor(threadCount / clientCount))}`;
      const { status, json, text } = await say(thread, "plain");
      assert.equal(status, 200, text);
      assert.equal(json.final.content, "The answer.");
    }
  };
  const talking = Promise.all(Array.from({ length: clientCount }, (_, client) => talk(client)));
  let most = 0;
  const turns = await talkUntil(
    () => say("loud", "loud"),
    async () => {
      const waiting = await metric(server, "svc_stream_waiting_bytes");
      most = Math.max(most, waiting);
      assert.ok(waiting <= boundBytes, `${waiting} bytes wait`);
      return (await metric(server, "svc_slow_streams_closed_total")) === loudCount;
    },
  );
  await talking;

  const growthMib = readRssKib([server.pid]) / 1024 - rssBefore;
  t.diagnostic(`${Math.round(rssBefore)} MiB resident with them, ${Math.round(growthMib)} more at the end`);
  t.diagnostic(`${turns} turns until the loud were closed; at most ${most} bytes were seen to wait`);
  assert.equal(await metric(server, "svc_open_streams"), quietCount);
  assert.ok(!(growthMib > growthMibMax), `${Math.round(growthMib)} MiB more`);
  assertNoErrorLogged(server);
  // The whole transcript is stored, for a client that returns to read it.
  const { json } = await server.get("/chat/sessions/loud");
  assert.equal(json.transcript.length, turns * 2);
  loud.close();
  quiet.close();
  await untilMetric(server, "svc_open_streams", (open) => open === 0);
});
