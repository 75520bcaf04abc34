// The session section of a manifest: which messages of a conversation the model receives.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { calls, inTurn, shown, startChat, turn } from "../support/chat.ts";
import type { MockModel } from "../support/mock-model.ts";
import type { TestServer } from "../support/server.ts";
import { cleanup } from "../support/temp.ts";

const long = "7".repeat(300);
const models = ["plain", "sums"];

describe("the messages that the model receives", () => {
  const atEnd = cleanup();
  let server: TestServer;
  let mock: MockModel;
  const summaries: string[] = [];
  before(async () => {
    ({ server, mock } = await startChat(atEnd, {
      models,
      manifests: {
        summing: { session: { strategy: "summarizing:4" } },
        similar: { session: { strategy: "semantic:2" } },
        clearing: { tools: ["calculator"], session: { clear_tool_results: { keep_turns: 2, min_chars: 100 } } },
      },
    }));
    mock.answer("plain", ({ body }) => {
      const [first] = body.messages as readonly { content: string }[];
      if (!first?.content.startsWith("You sum up")) return { text: "The answer." };
      summaries.push(JSON.stringify(body.messages));
      return { text: `Summary ${summaries.length}.` };
    });
    // The first result is short, and the second one is long.
    const short = ["calculator", { expression: "1+1" }] as const;
    const big = ["calculator", { expression: long }] as const;
    mock.answer("sums", inTurn(calls(short, big), { text: "Summed." }));
  });

  const say = async (manifest: string, thread_id: string, text: string, fields: object = {}) => {
    const { status, json, text: body } = await server.post("/chat", turn(manifest, text, { thread_id, ...fields }));
    assert.equal(status, 200, body);
    return json;
  };
  const snapshot = async (thread: string) => (await server.get(`/chat/sessions/${thread}`)).json;
  const lastAsked = () => shown(mock.requests.at(-1));

  test("SESS-029 SESS-030 old long tool results are stubs in the request, and whole in the log", async () => {
    await say("clearing", "cleared", "sum", { model: "sums" });
    await say("clearing", "cleared", "two");
    const stillKept = lastAsked();

    const { messages } = await say("clearing", "cleared", "three");

    const results = (list: readonly { role: string; content: string }[]) =>
      list.filter(({ role }) => role === "tool").map(({ content }) => content);
    const [short = "", whole = ""] = results(stillKept);
    assert.equal(short, "2");
    assert.ok(whole.length > 100, whole);
    const stub = `[This result was cleared: ${whole.length} characters.]`;
    assert.deepEqual(results(lastAsked()), [short, stub]);
    assert.deepEqual(results(messages), [short, stub], "what the last call was shown");
    assert.deepEqual(results((await snapshot("cleared")).transcript), [short, whole]);
    const { json } = await server.get("/chat/history/cleared");
    assert.deepEqual(results(json.messages), [short, whole]);
  });

  test("SESS-025 summarizing:N shows a summary of older messages and renews it at times", async () => {
    const shownIn: string[][] = [];
    for (let turnAt = 0; turnAt < 10; turnAt++) {
      if (turnAt === 6) await server.restart();
      await say("summing", "summed", `turn ${turnAt}`);
      shownIn.push(lastAsked().map(({ content }) => content));
    }

    assert.equal(summaries.length, 3, "in ten turns");
    for (const [turnAt, messages] of shownIn.entries()) {
      const [first = "", ...rest] = messages;
      assert.equal(messages.at(-1), `turn ${turnAt}`);
      assert.equal(first.startsWith("[Summary"), turnAt > 3, first);
      assert.ok(rest.length < 8, `${rest.length} messages behind it`);
    }
    for (const words of summaries.slice(1)) assert.match(words, /<summary_so_far>\\nSummary \d/);
    const all = summaries.join("");
    for (let turnAt = 0; turnAt < 6; turnAt++) assert.equal(all.split(`turn ${turnAt}`).length, 2, `turn ${turnAt}`);
    const kinds = (await snapshot("summed")).transcript.filter(({ kind }: { kind: string }) => kind === "message");
    assert.equal(kinds.length, 20, "the log has all of it");
  });

  test("SESS-025 semantic:N shows the newest messages, and the older ones nearest the question", async () => {
    const said = ["The zeppelin is red", "Tea at five", "A boat on the lake", "Bread and butter", "Rain again", "Snow"];
    for (const words of said) await say("similar", "like", words);

    await say("similar", "like", "Which colour had the zeppelin?");
    const red = lastAsked().map(({ content }) => content);
    await server.restart();
    await say("similar", "like", "When is the tea?");
    const five = lastAsked().map(({ content }) => content);

    assert.deepEqual(red.slice(-4), ["The answer.", "Snow", "The answer.", "Which colour had the zeppelin?"]);
    assert.ok(red.includes("The zeppelin is red") && !red.includes("Tea at five"), red.join());
    assert.ok(five.includes("Tea at five") && !five.includes("Bread and butter"), five.join());
    assert.ok(red.indexOf("The zeppelin is red") < red.indexOf("Snow"), "in their order");
  });
});
