// The events of a response on the wire: in pieces, none of them empty except perhaps the last.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { RunResult } from "../../bus/frames/output.ts";
import { responseStream } from "../../bus/frames/responses.ts";

const head = {
  ...{ id: `resp_${"0".repeat(48)}`, created_at: 1, model: "m", options: null },
  asked: {} as Parameters<typeof responseStream>[1]["asked"],
};
const result = { stop_reason: "stop", usage: null, aborted: false, failure: null, handed: [] } as unknown as RunResult;

/** The events of a two-step turn sent to a client that has seen those up to one. */
function sentBehind(startingAfter: number): { text: string; last: boolean }[] {
  const sent: { text: string; last: boolean }[] = [];
  const send = (text: string, last: boolean) => void sent.push({ text, last });
  const output = responseStream({ writable: true, onWritable() {}, send }, head, "r", 0, startingAfter);
  output.started();
  output.frame("tool_start", {}, 1);
  output.text("One.");
  output.frame("usage", {}, 2);
  output.frame("tool_start", {}, 2);
  output.frame("tool_end", {}, 3);
  output.text("Two.");
  output.finished(result, 4);
  return sent;
}

const numbersIn = (text: string) => [...text.matchAll(/"sequence_number":(\d+)/g)].map(([, number]) => Number(number));

test("a frame without content sends nothing, wherever the reader is", () => {
  const whole = numbersIn(
    sentBehind(-1)
      .map(({ text }) => text)
      .join(""),
  );

  for (const startingAfter of [-1, ...whole]) {
    const sent = sentBehind(startingAfter);
    const told = sent.map(({ text }) => text).join("");
    assert.deepEqual(numbersIn(told), whole.slice(startingAfter + 1));
    assert.deepEqual(
      sent.slice(0, -1).filter(({ text }) => text === ""),
      [],
      `behind ${startingAfter}`,
    );
    assert.deepEqual(
      sent.map(({ last }) => last),
      sent.map((_, at) => at === sent.length - 1),
    );
  }
});
