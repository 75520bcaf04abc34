// Old tool results that the model sees as notes.
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { type ContextMessage, contextMessage } from "../../../actors/log/message.ts";
import { clearResults } from "../../../actors/run/prompt/cleared-results.ts";

const image = { url: "svc-file://a", media_type: "image/png" } as const;

/** `u` a user's message, `a` an answer, `c` a call, a number a result of so many characters, `i` one with an image. */
function branchOf(words: string): ContextMessage[] {
  return words.split(" ").map((word, at) => {
    if (word === "u") return contextMessage({ role: "user", content: word });
    if (word === "a") return contextMessage({ role: "assistant", content: word });
    if (word === "c")
      return contextMessage({ role: "assistant", content: "", tool_calls: [{ id: `${at}`, name: "t", args: {} }] });
    const content = word === "i" ? "" : "x".repeat(Number(word));
    return contextMessage({
      role: "tool",
      content,
      tool_call_id: `${at - 1}`,
      attachments: word === "i" ? [image] : null,
    });
  });
}
const cleared = (words: string, keep_turns: number, min_chars: number): string =>
  clearResults(branchOf(words), { keep_turns, min_chars })
    .map(({ content }, at) => (content.startsWith("[This result") ? "-" : words.split(" ")[at]))
    .join(" ");

const cases: readonly (readonly [branch: string, turns: number, chars: number, shown: string])[] = [
  ["u c 5 a u c 5 a u", 1, 4, "u c - a u c - a u"],
  ["u c 5 a u c 5 a u", 2, 4, "u c - a u c 5 a u"],
  ["u c 5 a u c 5 a u", 3, 4, "u c 5 a u c 5 a u"],
  ["u c 5 a u", 1, 5, "u c 5 a u"],
  ["u c i a u", 1, 1000, "u c - a u"],
  ["u c i c 9", 1, 0, "u c i c 9"],
  ["c 9 u", 2, 0, "c 9 u"],
];
for (const [branch, turns, chars, shown] of cases)
  test(`SESS-029 ${branch} with ${turns} turns kept and results above ${chars}: ${shown}`, () => {
    assert.equal(cleared(branch, turns, chars), shown);
  });

test("SESS-029 clearing again makes the same messages, and each call keeps its result", () => {
  const word = fc.oneof(fc.constantFrom("u", "a"), fc.constant("c 40"), fc.constant("c i"));
  fc.assert(
    fc.property(fc.array(word, { minLength: 1 }), fc.integer({ min: 1, max: 5 }), (words, keep_turns) => {
      const branch = branchOf(words.join(" "));
      const once = clearResults(branch, { keep_turns, min_chars: 10 });
      const again = clearResults(branch, { keep_turns, min_chars: 10 });

      assert.equal(once.length, branch.length);
      for (const [at, message] of once.entries()) {
        assert.equal(message, again[at]);
        assert.equal(message.tool_call_id, branch[at]?.tool_call_id);
        if (message.role !== "tool") assert.equal(message, branch[at]);
        else if (message !== branch[at]) assert.equal(message.attachments, null);
      }
    }),
  );
});
