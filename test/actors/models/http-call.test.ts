// One call as the egress drives it, after the provider's last word and before the end of the answer.
import assert from "node:assert/strict";
import { test } from "node:test";
import { stdSerializers } from "pino";
import { AnthropicReader } from "../../../actors/models/anthropic-reader.ts";
import { HttpCall } from "../../../actors/models/http-call.ts";
import { refusedCall } from "../../../actors/models/http-failure.ts";
import { ResponseHead } from "../../../governance/egress/response-head.ts";
import { listen, stillEnv } from "./support.ts";

const head = ResponseHead.parse("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream");

/** All events of an answer. */
function answer(text: string, stop_reason: string): Buffer {
  const events = [
    { type: "message_start", message: { usage: { input_tokens: 1 } } },
    { type: "content_block_start", index: 0, content_block: { type: "text", text } },
    { type: "content_block_stop", index: 0 },
    { type: "message_delta", delta: { stop_reason }, usage: { output_tokens: 1 } },
    { type: "message_stop" },
  ];
  return Buffer.from(events.map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`).join(""));
}

/** A call with its request sent, in a world where timers wait. A paused answer continues in a second call. */
function begin() {
  const world = stillEnv({ holdTimers: true });
  const reader = new AnthropicReader(listen().events, "anthropic/claude");
  let [asked, aborted] = [1, 0];
  const call = new HttpCall({
    env: world.env,
    discretion: { conceal: (words) => words, addresses: /never/g },
    timeoutMs: 60_000,
    reader,
    sendDifferently: () => false,
    sendOn({ stop_reason }) {
      if (stop_reason !== "pause_turn") return false;
      reader.continueReply();
      asked++;
      return true;
    },
  });
  const controller = { pause() {}, resume() {}, abort: () => void aborted++ };
  call.onRequestStart(controller);
  call.onResponseStart(head);
  return {
    world,
    call,
    controller,
    get asked(): number {
      return asked;
    },
    get aborted(): number {
      return aborted;
    },
  };
}

test("an answer that ends late after its last word is not awaited, nor disconnected", async () => {
  const begun = begin();
  begun.call.onResponseData(answer("Hello.", "end_turn"));
  await Promise.resolve();
  const waiting = begun.world.waiting;

  begun.call.onResponseEnd();

  assert.equal((await begun.call.reply).text, "Hello.");
  assert.deepEqual([waiting, begun.world.waiting, begun.aborted], [1, 0, 0]);
});

test("an answer without an end after its last word is whole, and is disconnected", async () => {
  const begun = begin();
  begun.call.onResponseData(answer("Hello.", "end_turn"));
  await Promise.resolve();

  begun.world.fire();

  assert.equal((await begun.call.reply).text, "Hello.");
  assert.equal(begun.aborted, 1);
});

test("a call that is stopped after its last word stays stopped and is not continued", async () => {
  const begun = begin();
  begun.call.onResponseData(answer("One moment.", "pause_turn"));
  await Promise.resolve();

  begun.call.abort();

  await assert.rejects(begun.call.reply, { message: "aborted", partial: "One moment." });
  begun.world.fire();
  assert.deepEqual([begun.world.waiting, begun.asked, begun.aborted], [0, 1, 1]);
});

test("a call whose reader is paused is not silent, and five silent timeouts end it", async () => {
  const world = stillEnv({ holdTimers: true });
  let now = 0;
  const call = new HttpCall({
    env: { ...world.env, monotonic: () => now },
    discretion: { conceal: (words) => words, addresses: /never/g },
    timeoutMs: 1_000,
    reader: new AnthropicReader(listen().events, "anthropic/claude"),
    sendDifferently: () => false,
    sendOn: () => false,
  });
  const ping = Buffer.from('event: ping\ndata: {"type":"ping"}\n\n');
  const said = Buffer.from('data: {"type":"content_block_delta","delta":{"type":"text_delta","text":"a"}}\n\n');
  call.onRequestStart({ pause() {}, resume() {}, abort() {} });
  call.onResponseStart(head);
  const failed = call.reply.catch((error: unknown) => error as Error);
  let isOver = false;
  void failed.then(() => (isOver = true));
  const hear = async (at: number, bytes: Buffer): Promise<boolean> => {
    now = at;
    call.onResponseData(bytes);
    await Promise.resolve();
    await Promise.resolve();
    return isOver;
  };

  assert.equal(await hear(5_000, ping), false);
  assert.equal(await hear(5_000, said), false);
  assert.equal(await hear(10_000, ping), false);
  call.pause();
  now = 60_000;
  call.resume();
  assert.equal(await hear(65_000, ping), false);
  assert.equal(await hear(65_001, ping), true);

  assert.equal(String(await failed), "ModelFailure: the answer has said nothing for 5 seconds");
});

for (const isLate of [false, true])
  test(`a continued answer has the full timeout when the end of the paused one came ${isLate ? "late" : "at once"}`, async () => {
    const begun = begin();
    begun.call.onResponseData(answer("One moment.", "pause_turn"));
    if (isLate) await Promise.resolve();
    begun.call.onResponseEnd();
    await Promise.resolve();
    begun.call.onRequestStart(begun.controller);
    begun.call.onResponseStart(head);

    begun.world.fire();
    begun.call.onResponseData(answer(" Found.", "end_turn"));
    begun.call.onResponseEnd();

    assert.equal((await begun.call.reply).text, "One moment. Found.");
    assert.deepEqual([begun.asked, begun.aborted], [2, 0]);
  });

test("a log line of a refused call has no unmasked body of the provider", () => {
  const body = '{"error":{"message":"The key sk-secret is not known."}}';
  const discretion = { conceal: (words: string) => words.replaceAll("sk-secret", "***"), addresses: /never/g };

  const failure = refusedCall({ status: 401, retryAfterMs: null, partial: "" }, body, discretion);

  assert.equal(failure.refusal, body);
  assert.doesNotMatch(JSON.stringify(stdSerializers.err(failure)), /sk-secret/);
});
