// A listener that connects after the text is logged and before the live run knows it reads the text from the log only.
import assert from "node:assert/strict";
import { test } from "node:test";
import { systemEnv } from "../../../bus/env.ts";
import { Backlogs } from "../../../http/backlog/backlogs.ts";
import { Reattachment } from "../../../http/streams/reattach.ts";
import { ThreadFanOut } from "../../../http/thread-fan-out.ts";

const nobody = { tenant_id: "acme", sub: "", scopes: [], scheme: "none", issuer: "" };

for (const [since_seq, told] of [
  [1, []],
  [2, ["Said."]],
] as const)
  test(`STREAM-032 words after event ${since_seq} of 2 are ${told.length === 0 ? "not " : ""}sent again`, async () => {
    const written: string[] = [];
    const { promise: over, resolve } = Promise.withResolvers<void>();
    const stream = {
      closed: false,
      drained: true,
      onClose() {},
      comment() {},
      hold() {},
      whenDrained: (work: () => void) => work(),
      writePart: (bytes: Uint8Array) => written.push(Buffer.from(bytes).toString()),
      write(text: string) {
        written.push(text);
        // The buffered frames come last, even if there are none.
        if (text === "") resolve();
      },
    };
    const answers: Record<string, unknown> = {
      attach: { next_seq: 2, run_id: "r" },
      status: { live: { text: "Said.", truncated: false }, since_seq },
    };
    const bus = {
      onLost() {},
      subscribe() {},
      async ask(_to: unknown, type: string, _body: unknown, { onReply }: { onReply: () => void }) {
        onReply();
        return answers[type];
      },
    };
    const store = { tenant: () => ({ read: async () => [] }) };
    const fanOut = new ThreadFanOut(bus as never);
    const backlogs = new Backlogs(systemEnv(), 2 ** 20);
    new Reattachment({ bus, store, fanOut, backlogs, reattached: new Set() } as never, nobody, "t", 2, stream as never);
    await over;

    const words = written.join("").match(/"delta":"Said\."(?=\},"text":"Said)/g) ?? [];
    assert.equal(words.length, told.length);
  });
