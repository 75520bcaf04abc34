// The parts of a thread that resemble the present question, found by a text search.
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { summaryMessage } from "../../../actors/log/compaction.ts";
import { type ContextMessage, contextMessage } from "../../../actors/log/message.ts";
import { type Compare, chooseSimilar } from "../../../actors/run/prompt/semantic.ts";
import { similarities } from "../../../actors/run/prompt/similar.ts";

const user = (content: string) => contextMessage({ role: "user", content });
const says = (content: string) => contextMessage({ role: "assistant", content });
const asks = (id: string) =>
  contextMessage({ role: "assistant", content: "", tool_calls: [{ id, name: "look", args: {} }] });
const result = (id: string, content: string) => contextMessage({ role: "tool", content, tool_call_id: id });
const noPause = async () => {};
const byWords: Compare = (messages, query) => similarities(messages, query, noPause);
const words = (messages: readonly ContextMessage[]) => messages.map(({ content }) => content);

test("SESS-025 rare words count more than frequent ones, and more of them more", async () => {
  const messages = ["the cat and the dog", "the cat sat", "the zebra", "the zebra met a zebra", "nothing"].map(user);

  const [dog = 0, cat = 0, zebra = 0, zebras = 0, none = 1] = await similarities(messages, "The ZEBRA, the", noPause);

  assert.ok(zebras > cat && zebra > dog && zebra > cat, `${[dog, cat, zebra, zebras]}`);
  assert.equal(none, 0);
});

test("SESS-025 words are found in scripts without spaces", async () => {
  const [tea = 0, boat = 1] = await similarities([user("我想喝绿茶"), user("船在湖上")], "绿茶在哪里", noPause);

  assert.ok(tea > boat, `${tea} ${boat}`);
});

test("SESS-025 whole groups are chosen, in order, after the summary", async () => {
  const branch = [
    summaryMessage({ content: "Before." }),
    ...[user("look at the zeppelin"), asks("a"), result("a", "a red zeppelin"), says("It is red.")],
    ...[user("tea"), says("At five."), user("bread"), says("Yes."), user("butter"), says("No.")],
    user("the zeppelin?"),
  ];

  const { earlier, from } = await chooseSimilar(branch, branch.length - 1, 3, byWords);

  assert.deepEqual(words(branch.slice(from)), ["Yes.", "butter", "No.", "the zeppelin?"]);
  assert.deepEqual(words(earlier).slice(1), ["look at the zeppelin", "", "a red zeppelin"]);
  assert.match(earlier[0]?.content ?? "", /Before\./);
});

test("SESS-025 no call is parted from its result, and the choice keeps its bound", async () => {
  const word = fc.constantFrom("tea", "boat", "red", "zeppelin");
  const step = fc.tuple(word, fc.nat(2), fc.boolean());
  await fc.assert(
    fc.asyncProperty(
      fc.array(step, { minLength: 1 }),
      fc.integer({ min: 1, max: 6 }),
      word,
      async (steps, count, q) => {
        const branch = steps.flatMap(([said, calls, isAnswered], at) => [
          user(said),
          ...Array.from({ length: calls }, (_, call) => [asks(`${at}-${call}`), result(`${at}-${call}`, said)]).flat(),
          ...(isAnswered ? [says(said)] : []),
        ]);
        branch.push(user(q));
        const turnStart = branch.length - 1;

        const { earlier, from } = await chooseSimilar(branch, turnStart, count, byWords);

        assert.ok(from <= turnStart && earlier.length <= count);
        const open = new Set<string>();
        for (const { tool_calls, tool_call_id } of [...earlier, ...branch.slice(from)]) {
          for (const { id } of tool_calls ?? []) open.add(id);
          if (tool_call_id !== null) assert.ok(open.delete(tool_call_id));
        }
        assert.equal(open.size, 0);
        const places = earlier.map((message) => branch.indexOf(message));
        assert.deepEqual(
          places,
          places.toSorted((a, b) => a - b),
        );
        assert.ok(places.every((place) => place < from));
      },
    ),
  );
});

test("SESS-025 a long thread is read in pieces, and its words once", async () => {
  const messages = Array.from({ length: 100 }, (_, at) => user(`${at} ${"word ".repeat(799)}`));
  let pauses = 0;
  const pause = async () => void pauses++;

  await similarities(messages, "word", pause);
  const first = pauses;
  await similarities(messages, "word", pause);

  assert.ok(first >= 10, `${first} pauses in 400,000 characters`);
  assert.equal(pauses, first);
});

test("SESS-025 a long question is compared in slices, with each term once", async () => {
  const han = (from: number, count: number) =>
    String.fromCodePoint(...Array.from({ length: count }, (_, at) => 0x4e00 + ((from + at * 7) % 20_000)));
  const messages = Array.from({ length: 1_000 }, (_, at) => user(han(at * 40, 40)));
  const question = `${han(0, 3_900)}${han(0, 40)}`;
  await similarities(messages, "", noPause);
  let pauses = 0;

  const scores = await similarities(messages, question, async () => void pauses++);

  assert.equal(Math.max(...scores), scores[0]);
  // Each message has 39 terms, and each of them is looked up at most twice.
  assert.ok(pauses >= 1 && pauses <= 3, String(pauses));
  const long = Array.from({ length: 100 }, () => user(han(0, 4_000)));
  await similarities(long, question, async () => void pauses++);
  assert.ok(pauses >= 30, String(pauses));
});
