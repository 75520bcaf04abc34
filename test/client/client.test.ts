// The client against a real server: calls, refusals, turns that survive a lost connection, and answers to waits.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { before, describe, test } from "node:test";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { createClient } from "../../client/client.js";
import { SvcError } from "../../client/error.js";
import type { TurnFrame } from "../../client/types.ts";
import { calls, gate, inTurn, says, startChat, turn } from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
import type { MockModel } from "../support/mock-model.ts";
import { apiKeys, type TestServer } from "../support/server.ts";
import { type TcpProxy, tcpProxy } from "../support/tcp-proxy.ts";
import { cleanup } from "../support/temp.ts";

const { env, keys } = apiKeys({
  ann: { scopes: ["*"] },
  reader: { scopes: ["chat:read"] },
  other: { tenant_id: "umbra", scopes: ["*"] },
});
const sums = { tools: ["calculator"], approvals: [{ id: "sums", tools: ["calculator"] }] };

type Client = ReturnType<typeof createClient>;

/** The text that a person saw: the pieces since the last request to discard uncommitted text. */
function readText(frames: readonly TurnFrame[]): string {
  let [committed, open] = ["", ""];
  for (const frame of frames) {
    if (frame.event === "text_delta") open += frame.text;
    else if (frame.event === "session_progress" && "replay" in frame.data && frame.data.replay) open = "";
    else if (frame.event === "tool_start" || frame.event === "session_event") {
      committed += open;
      open = "";
    }
  }
  return committed + open;
}

const all = async (frames: AsyncIterable<TurnFrame>): Promise<TurnFrame[]> => Array.fromAsync(frames);

describe("the client", () => {
  const atEnd = cleanup();
  let server: TestServer;
  let mock: MockModel;
  let proxy: TcpProxy;
  let client: Client;
  before(async () => {
    ({ server, mock } = await startChat(atEnd, {
      models: ["plain"],
      manifests: {
        plain: {},
        sums,
        asks: { tools: ["ask_user"] },
        clicks: { client_tools: [{ name: "click" }] },
        durable: { execution: { mode: "durable" } },
      },
      env,
    }));
    proxy = await tcpProxy(server.url, atEnd);
    client = createClient({ url: proxied(), key: keys.ann });
  });

  const proxied = () => proxy.url(server.url).replace(/\/$/, "");

  test("a call puts fields into path, query and body, and returns the typed reply", async () => {
    mock.answer("plain", { text: ["Hello."] });

    const reply = await client.call("POST /chat", turn("plain", "Hi", { thread_id: "calls" }));
    const history = await client.call("GET /chat/history/{thread_id}", { thread_id: "calls", limit: 1 });
    const health = await client.call("GET /health");

    assert.ok("final" in reply);
    assert.equal(reply.final?.content, "Hello.");
    assert.equal(history.messages.length, 1);
    assert.equal(health.status, "ok");
  });

  test("a refusal is an SvcError with its code, subject and request id", async () => {
    const refusals = [
      [() => createClient({ url: server.url }).call("GET /usage"), "unauthorized", 401],
      [() => createClient({ url: server.url, key: keys.reader }).call("GET /audit"), "missing_scopes", 403],
      [() => client.call("POST /chat", turn("nobody", "Hi")), "unknown_manifest", 404],
      [() => client.call("POST /chat", { manifest: 3 } as never), "invalid_request", 422],
      [() => client.call("POST /v1/embeddings", { model: "none", input: "a" }), "unknown_embedding_model", 404],
    ] as const;

    for (const [call, code, status] of refusals) {
      const error = await call().then(
        () => null,
        (refused: unknown) => refused,
      );
      assert.ok(error instanceof SvcError);
      assert.deepEqual([error.code, error.status, error.isTemporary], [code, status, false]);
      assert.ok(error.requestId);
    }
    const away = createClient({ url: "http://127.0.0.1:1" }).call("GET /health");
    await assert.rejects(away, { code: "connection_lost", isTemporary: true });
  });

  test("a stream yields the typed frames of a turn and ends with it", async () => {
    mock.answer("plain", { text: ["One ", "two."] });

    const frames = await all(client.stream(turn("plain", "Count", { thread_id: "whole" })));
    const stateless = await all(client.stream(turn("plain", "Count")));

    for (const read of [frames, stateless]) {
      const last = read.at(-1);
      assert.ok(last?.event === "done");
      assert.deepEqual([last.data.final?.content, readText(read)], ["One two.", "One two."]);
    }
  });

  test("a stream whose connection is lost twice continues without a gap or a repetition", async () => {
    const [first, second] = [gate(), gate()];
    mock.answer("plain", says("One ", first.opened, "two ", second.opened, "three."));
    const frames: TurnFrame[] = [];
    const states: string[] = [];

    const reading = (async () => {
      const stream = client.stream(turn("plain", "Count", { thread_id: "cut" }), {
        onState: (state) => states.push(state),
      });
      for await (const frame of stream) frames.push(frame);
    })();
    await eventually("the stream has come so far", async () => readText(frames) === "One ");
    proxy.cut();
    first.open();
    await eventually("the stream has come so far", async () => states.includes("lost"));
    proxy.restore();
    await eventually("the stream has come so far", async () => readText(frames) === "One two ");
    proxy.cut();
    second.open();
    await eventually("the stream has come so far", async () => states.filter((state) => state === "lost").length > 1);
    proxy.restore();
    await reading;

    assert.equal(readText(frames), "One two three.");
    const last = frames.at(-1);
    assert.ok(last?.event === "done");
    assert.equal(last.data.final?.content, "One two three.");
    const { messages } = await client.call("GET /chat/history/{thread_id}", { thread_id: "cut" });
    assert.equal(messages.length, 2);
  });

  test("a stream that loses its connection before the first frame runs its turn once", async () => {
    mock.answer("plain", { text: ["Once."] });
    proxy.loseNextAnswer();

    const failure = await all(
      client.stream(turn("plain", "Hi", { thread_id: "early" }), { idempotencyKey: "early-1" }),
    ).catch((error: unknown) => error);
    const frames = await all(client.stream(turn("plain", "Hi", { thread_id: "early" }), { idempotencyKey: "early-1" }));

    assert.ok(failure instanceof SvcError && failure.code === "connection_lost");
    assert.equal(readText(frames), "Once.");
    const { messages } = await client.call("GET /chat/history/{thread_id}", { thread_id: "early" });
    assert.equal(messages.length, 2);
  });

  test("a durable run is followed by its token across a lost connection", async () => {
    const held = gate();
    mock.answer("plain", says("Long ", held.opened, "work."));
    const frames: TurnFrame[] = [];

    const reading = (async () => {
      for await (const frame of client.stream(turn("durable", "Work"))) frames.push(frame);
    })();
    await eventually("the stream has come so far", async () => readText(frames) === "Long ");
    proxy.cut();
    proxy.restore();
    held.open();
    await reading;

    const last = frames.at(-1);
    assert.ok(last?.event === "final");
    assert.equal(last.data.final?.content, "Long work.");
    assert.equal(readText(frames), "Long work.");
    assert.equal(frames.filter(({ event }) => event === "run_accepted").length, 1);
  });

  test("callbacks decide approvals, answer questions and run tools of the client", async () => {
    const seen: unknown[] = [];
    const waits = {
      approval: ({ tool_name }: { tool_name: string }) => {
        seen.push(tool_name);
        return { status: "approved" as const };
      },
      question: async ({ prompt }: { prompt: string }) => {
        seen.push(prompt);
        return { value: "red" };
      },
      tool: ({ args }: { args: unknown }) => {
        seen.push(args);
        if ((args as { fail?: boolean }).fail) throw new Error("no such button");
        return { clicked: true };
      },
    };
    const outputs = async (manifest: string, ...wanted: (readonly [string, object])[]) => {
      mock.answer("plain", inTurn(calls(...wanted), { text: "Done." }));
      const thread_id = `waits-${manifest}`;
      const frames = await all(client.stream(turn(manifest, "Go", { thread_id }), { waits }));
      return frames.flatMap((frame) => (frame.event === "tool_end" ? [frame.data.output] : []));
    };

    assert.deepEqual(await outputs("sums", ["calculator", { expression: "6 * 7" }]), ["42"]);
    assert.match((await outputs("asks", ["ask_user", { question: "Which?" }]))[0] ?? "", /red/);
    const [good = "", bad = ""] = await outputs("clicks", ["click", { at: 1 }], ["click", { fail: true }]);
    assert.match(good, /clicked/);
    assert.match(bad, /no such button/);
    assert.deepEqual(seen, ["calculator", "Which?", { at: 1 }, { fail: true }]);
  });

  test("a failed answer to a wait ends the stream with its refusal", async () => {
    mock.answer("plain", inTurn(calls(["calculator", { expression: "1" }]), { text: "Done." }));
    const asReader = createClient({ url: server.url, key: keys.reader });
    const approval = () => ({ status: "approved" as const });

    const reading = all(asReader.stream(turn("sums", "Go", { thread_id: "unable" }), { waits: { approval } }));

    await assert.rejects(reading, (error) => error instanceof SvcError && error.code !== "connection_lost");
  });

  test("a thread is followed across a lost connection, until the signal aborts", async () => {
    const ending = new AbortController();
    const seen: string[] = [];
    mock.answer("plain", { text: ["Heard."] });
    const direct = createClient({ url: server.url, key: keys.ann });
    await direct.call("POST /chat", turn("plain", "one", { thread_id: "watched" }));

    const reading = (async () => {
      const { signal } = ending;
      for await (const frame of client.follow(
        "GET /chat/stream/{thread_id}",
        { thread_id: "watched" },
        { signal, cursor: "0" },
      ))
        if (frame.event === "session_event") seen.push(`${frame.data.role} ${frame.data.content}`);
    })();
    await eventually("the stream has come so far", async () => seen.length === 2);
    proxy.cut();
    await direct.call("POST /chat", turn("plain", "two", { thread_id: "watched" }));
    proxy.restore();
    await eventually("the stream has come so far", async () => seen.length === 4);
    ending.abort();
    await reading;

    assert.deepEqual(seen, ["user one", "assistant Heard.", "user two", "assistant Heard."]);
  });

  test("another tenant's client finds nothing, and a refusal ends a stream at once", async () => {
    const other = createClient({ url: server.url, key: keys.other });

    await assert.rejects(all(other.stream(turn("plain", "Hi", { thread_id: "a/b" }))), { code: "invalid_thread_id" });
    const { items } = await other.call("GET /chat/sessions");
    assert.deepEqual(items, []);
  });
});

test("the modules of the client import no package and take less than 8 KB gzipped", () => {
  const names = ["client", "error", "follow", "frames", "seen-frames", "turn", "waits"];
  const texts = names.map((name) =>
    readFileSync(fileURLToPath(new URL(`../../client/${name}.js`, import.meta.url)), "utf8"),
  );

  assert.deepEqual(
    texts.flatMap((text) => text.match(/(?:from|import) "[^.][^"]*"/g) ?? []),
    [],
  );
  assert.ok(gzipSync(texts.join("\n")).length < 8 * 1024);
});
