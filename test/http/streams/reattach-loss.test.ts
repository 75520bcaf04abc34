// A slow listener whose thread's node dies: every event arrives once, in order.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { turn } from "../../support/chat.ts";
import { eventually } from "../../support/eventually.ts";
import type { TestStream } from "../../support/http-client.ts";
import { startMockModel } from "../../support/mock-model.ts";
import { type LocalServer, manifestEnv, modelEnv, startInProcess } from "../../support/server.ts";
import { cleanup } from "../../support/temp.ts";

/** The first node with actors if one thread speaks HTTP. */
const actorNode = 1;
/** Together more than any connection buffers. */
const backlogTurns = 30;
const longText = "y".repeat(400_000);

describe("a listener that is behind when its actor's thread dies", () => {
  const atEnd = cleanup();
  let server: LocalServer;
  before(async () => {
    const mock = await startMockModel({ record: false });
    atEnd.after(() => mock.close());
    mock.answer("plain", { text: ["The", " answer."] });
    // The model receives a short window, so that a long thread costs nothing.
    const manifests = manifestEnv(atEnd, { agent: { session: { strategy: "windowed:1" } } });
    // A bound for tests whose frame never comes.
    const env = { ...modelEnv(mock, ["plain"]), ...manifests, SVC_STREAM_RESUME_IDLE_SECONDS: "20" };
    server = await startInProcess({ atEnd, env });
  });

  async function say(thread_id: string, text: string): Promise<void> {
    const { status, text: answer } = await server.post("/chat", turn("agent", text, { thread_id }));
    assert.equal(status, 200, answer);
  }

  /** A stream with a long backlog that has read its first bytes and then stalls until the test reads. */
  async function openStalled(thread: string, headers: Record<string, string>): Promise<TestStream> {
    for (let number = 0; number < backlogTurns; number++) await say(thread, longText);
    const stream = await server.listen(`/chat/stream/${thread}`, { headers });
    atEnd.after(() => stream.close());
    await eventually("a stream that is behind", async () => {
      const { text } = await server.get("/metrics");
      return Number(/^svc_stream_waiting_bytes (\d+)$/m.exec(text)?.[1]) > 0 || undefined;
    });
    return stream;
  }

  /** Kills the actor thread. Resolves when its successor answers. */
  async function killThread(thread: string): Promise<void> {
    await server.system.kill(actorNode);
    await eventually("a successor", async () => {
      const { status } = await server.get(`/chat/sessions/${thread}`);
      return status === 200 || undefined;
    });
  }

  /** Reads until the event with this number. Returns the numbers of all events read. */
  async function seqsUntil(stream: TestStream, last: number): Promise<number[]> {
    const seqs: number[] = [];
    for await (const { name, json } of stream) {
      if (name === "snapshot") seqs.push(...json.data.transcript.map(({ seq }: { seq: number }) => seq));
      if (name === "session_event") seqs.push(json.data.seq);
      if ((seqs.at(-1) ?? 0) >= last) return seqs;
    }
    return seqs;
  }

  const upTo = (end: number): number[] => Array.from({ length: end }, (_, at) => at);
  const backlogEvents = backlogTurns * 2;

  for (const [how, headers] of [
    ["with a cursor", { "last-event-id": "0" }],
    ["without a cursor", {}],
  ] as const) {
    const slug = how.replaceAll(" ", "-");

    test(`${how}: frames heard during the backlog are not repeated after the loss`, async () => {
      const stream = await openStalled(`held-${slug}`, headers);
      await say(`held-${slug}`, "heard meanwhile");
      const before = await seqsUntil(stream, backlogEvents + 1);

      await killThread(`held-${slug}`);
      await say(`held-${slug}`, "after the loss");
      const after = await seqsUntil(stream, backlogEvents + 3);

      assert.deepEqual([...before, ...after], upTo(backlogEvents + 4));
    });

    test(`${how}: a loss during the backlog drops none of the buffered frames`, async () => {
      const stream = await openStalled(`lost-${slug}`, headers);
      await say(`lost-${slug}`, "heard meanwhile");

      await killThread(`lost-${slug}`);
      await say(`lost-${slug}`, "after the loss");
      const seqs = await seqsUntil(stream, backlogEvents + 3);

      assert.deepEqual(seqs, upTo(backlogEvents + 4));
    });
  }
});
