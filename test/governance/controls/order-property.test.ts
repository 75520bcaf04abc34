// The order of controls, over random sets of controls with random verdicts.
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import type { Control } from "../../../governance/controls/control.ts";
import { type ControlName, callOrder, resultOrder } from "../../../governance/controls/order.ts";
import type { CallVerdict, ResultVerdict } from "../../../governance/controls/verdicts.ts";
import { runs } from "../../support/effort.ts";
import { call, pipeline } from "./support.ts";

type CallWord = "pass" | "deny" | "replace" | "misfit";
type ResultWord = "pass" | "block" | "replace";

/** One control for each chosen position, in any order. */
const controlsOf = <Word extends string>(names: readonly ControlName[], words: readonly Word[]) =>
  fc
    .uniqueArray(fc.tuple(fc.constantFrom(...names), fc.constantFrom(...words)), {
      selector: ([name]) => name,
      maxLength: names.length,
    })
    .chain((chosen) => fc.shuffledSubarray(chosen, { minLength: chosen.length, maxLength: chosen.length }));

const ruleOf = (name: ControlName) => ({ rule: name, detail: `${name} refuses` });

function callVerdict(name: ControlName, word: CallWord): CallVerdict {
  if (word === "deny") return { verdict: "deny", ...ruleOf(name) };
  if (word === "replace") return { verdict: "replace", args: { by: name } };
  return word === "misfit" ? { verdict: "replace", args: { bad: true } } : { verdict: "pass" };
}

test("a denial ends the sequence, whatever the other controls say and however they are listed", async () => {
  await fc.assert(
    fc.asyncProperty(
      controlsOf(callOrder, ["pass", "deny", "replace", "misfit"] as readonly CallWord[]),
      async (chosen) => {
        const asked: ControlName[] = [];
        const seen: unknown[] = [];
        const controls = chosen.map(
          ([name, word]): Control => ({
            name,
            before({ args }) {
              asked.push(name);
              seen.push(args);
              return callVerdict(name, word);
            },
          }),
        );

        const admission = await pipeline(controls).admit(call);

        const sorted = chosen.toSorted(([a], [b]) => callOrder.indexOf(a as never) - callOrder.indexOf(b as never));
        const end = sorted.findIndex(([, word]) => word === "deny" || word === "misfit");
        const reached = end < 0 ? sorted : sorted.slice(0, end + 1);
        assert.deepEqual(
          asked,
          reached.map(([name]) => name),
        );
        assert.equal(admission.kind, end < 0 ? "pass" : sorted[end]?.[1]);
        if (admission.kind === "deny") assert.equal(admission.denial.rule, sorted[end]?.[0]);
        // Each control judges the arguments that the tool would get at that point.
        const replaced = reached.map(([name, word]) => (word === "replace" ? { by: name } : null));
        for (const [at, args] of seen.entries())
          assert.deepEqual(args, replaced.slice(0, at).findLast((one) => one !== null) ?? call.args);
      },
    ),
    { numRuns: runs(300) },
  );
});

test("a control never turns the denial of an earlier one into a pass", async () => {
  await fc.assert(
    fc.asyncProperty(controlsOf(callOrder, ["pass", "deny"] as readonly CallWord[]), async (chosen) => {
      const made = (ones: typeof chosen) =>
        pipeline(ones.map(([name, word]): Control => ({ name, before: () => callVerdict(name, word) }))).admit(call);
      const whole = await made(chosen);

      for (let at = 0; at < chosen.length; at++) {
        const fewer = await made(chosen.filter((_, other) => other !== at));
        // Without a control there are fewer denials, never more.
        if (whole.kind === "pass") assert.equal(fewer.kind, "pass");
      }
      assert.equal(whole.kind, chosen.some(([, word]) => word === "deny") ? "deny" : "pass");
    }),
    { numRuns: runs(200) },
  );
});

test("arguments that a person has edited pass all checks of arguments again", async () => {
  const again: readonly ControlName[] = ["policy", "command", "screening", "guardrails", "judges"];
  await fc.assert(
    fc.asyncProperty(controlsOf(again, ["pass", "deny"] as readonly CallWord[]), async (chosen) => {
      const controls = chosen.map(([name, word]): Control => ({ name, before: () => callVerdict(name, word) }));
      const gate: Control = { name: "approvals", before: () => assert.fail("a person is not asked twice") };

      const admission = await pipeline([...controls, gate])
        .admit(call, { after: "approvals", edited: true })
        .catch((error: unknown) => error as Error);

      if (admission instanceof Error) throw admission;
      assert.equal(admission.kind, chosen.some(([, word]) => word === "deny") ? "deny" : "pass");
    }),
    { numRuns: runs(100) },
  );
});

test("a blocked result reaches no later control but masking, and none brings it back", async () => {
  await fc.assert(
    fc.asyncProperty(controlsOf(resultOrder, ["pass", "block", "replace"] as readonly ResultWord[]), async (chosen) => {
      const verdictOf = (name: ControlName, word: ResultWord, text: string): ResultVerdict => {
        if (word === "block") return { verdict: "block", ...ruleOf(name) };
        return word === "replace" ? { verdict: "replace", result: { text: `${text}+` } } : { verdict: "pass" };
      };
      const seen = new Map<ControlName, string>();
      const controls = chosen.map(
        ([name, word]): Control => ({
          name,
          after(_call, { text }) {
            seen.set(name, text);
            return verdictOf(name, name === "secret_masking" && word === "block" ? "pass" : word, text);
          },
        }),
      );

      const { shown, denial } = await pipeline(controls).release(call, { text: "secret" });

      const blocks = chosen.filter(([name, word]) => word === "block" && name !== "secret_masking");
      assert.equal(denial !== null, blocks.length > 0);
      if (denial === null) return;
      assert.ok(!shown.text.includes("secret"));
      const first = resultOrder.indexOf(denial.layer as never);
      for (const [name, text] of seen)
        if (resultOrder.indexOf(name as never) > first)
          assert.ok(name === "secret_masking" && !text.includes("secret"));
    }),
    { numRuns: runs(300) },
  );
});
