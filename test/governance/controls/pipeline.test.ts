import assert from "node:assert/strict";
import { describe, test } from "node:test";
import type { Control } from "../../../governance/controls/control.ts";
import { auditedAs, type ControlName, callOrder, resultOrder } from "../../../governance/controls/order.ts";
import { pass } from "../../../governance/controls/verdicts.ts";
import { call, pipeline, reply, wait } from "./support.ts";

/** A control for each position that records its calls, given in a random order; half of them are asynchronous. */
function recording(passed: string[]): Control[] {
  const soon = <T>(at: number, verdict: T) => (at % 2 === 0 ? verdict : Promise.resolve(verdict));
  return callOrder.toReversed().map((name, at) => ({
    name,
    before() {
      passed.push(`before ${name}`);
      return soon(at, pass);
    },
    ...(isOf(resultOrder, name) && {
      after(_call, result) {
        passed.push(`after ${name}`);
        return soon(at, { verdict: "replace", result: { ...result, text: `${result.text}>${name}` } });
      },
      reply({ text }) {
        passed.push(`reply ${name}`);
        return soon(at, { verdict: "replace", text: `${text}>${name}` });
      },
    }),
  })) as Control[];
}

interface Args {
  readonly n: unknown;
}

const isOf = (order: readonly ControlName[], name: ControlName): boolean => order.includes(name);
const names = (passed: readonly string[]) => passed.map((entry) => entry.split(" ")[1]);
const passesOf = (order: readonly ControlName[]) => order.map((control) => ({ control, verdict: "pass" }));
const before = (name: ControlName) => callOrder.slice(0, callOrder.indexOf(name));
const behind = (name: ControlName) => callOrder.slice(callOrder.indexOf(name) + 1);

describe("the order", () => {
  test("a call passes every position, hooks after policies, in any order of the controls", async () => {
    const passed: string[] = [];

    const admission = await pipeline(recording(passed)).admit(call);

    assert.deepEqual(admission, { kind: "pass", args: { n: 1 }, spoken: passesOf(callOrder) });
    assert.deepEqual(names(passed), [
      ...["secret_masking", "limits", "policy", "hook", "permission_mode", "command"],
      ...["screening", "guardrails", "judges", "artifacts", "approvals"],
    ]);
  });

  test("a result passes screening, guardrails, judges, masking and artifacts", async () => {
    const passed: string[] = [];

    const { shown, denial } = await pipeline(recording(passed)).release(call, { text: "42", error: "internal" });

    const order = ["hook", "screening", "guardrails", "judges", "secret_masking", "artifacts"];
    assert.deepEqual(names(passed), order);
    assert.deepEqual([shown, denial], [{ text: ["42", ...order].join(">"), error: "internal" }, null]);
  });

  test("the model's text passes the same positions as results", async () => {
    const passed: string[] = [];

    const { shown, denial } = await pipeline(recording(passed)).releaseReply(reply);

    assert.deepEqual([names(passed), denial], [resultOrder, null]);
    assert.equal(shown, ["Hello.", ...resultOrder].join(">"));
  });

  test("a pipeline without controls passes everything unchanged, and buffers no reply", async () => {
    const empty = pipeline([]);

    assert.deepEqual(await empty.admit(call), { kind: "pass", args: { n: 1 }, spoken: [] });
    assert.deepEqual(await empty.release(call, { text: "42" }), { shown: { text: "42" }, denial: null, spoken: [] });
    assert.deepEqual(await empty.releaseReply(reply), { shown: "Hello.", denial: null, spoken: [] });
    assert.equal(empty.holdsReplies, false);
    assert.equal(pipeline([{ name: "judges", reply: () => pass }]).holdsReplies, true);
  });

  test("controls that share a position are asked in the given order", async () => {
    const hooks = ["a", "b"].map((mark): Control => {
      return {
        name: "hook",
        before: ({ args }) => ({ verdict: "replace", args: { n: `${(args as Args).n}${mark}` } }),
      };
    });

    const { args } = await pipeline(hooks).admit(call);

    assert.deepEqual(args, { n: "1ab" });
  });

  test("a wait in a shared position, and a control in no position, are defects", async () => {
    const waits: Control = { name: "hook", before: () => ({ verdict: "wait", rule: "r", wait }) };
    const passes: Control = { name: "hook", before: () => pass };
    await assert.rejects(pipeline([waits, passes]).admit(call), /several of the name hook/);
    const deaf: Control = { name: "limits", after: () => pass };
    await assert.rejects(pipeline([deaf]).admit(call), /limits has the method "after"/);
  });
});

for (const name of callOrder)
  describe(`before, ${name}`, () => {
    /** All controls, with `verdict` as the answer of the one under test. */
    function speaking(verdict: ReturnType<NonNullable<Control["before"]>>, passed: string[] = []) {
      const others = recording(passed).filter((control) => control.name !== name);
      return pipeline([...others, { name, before: () => verdict }]);
    }

    test("deny: later controls are not asked, and the denial has both names", async () => {
      const passed: string[] = [];

      const admission = await speaking({ verdict: "deny", rule: "r", detail: "no" }, passed).admit(call);

      assert.deepEqual(admission, {
        kind: "deny",
        denial: { control: auditedAs[name], layer: name, rule: "r", detail: "no" },
        args: { n: 1 },
        spoken: [...passesOf(before(name)), { control: name, verdict: "deny", rule: "r", ms: 1.5 }],
      });
      assert.deepEqual(names(passed), before(name));
    });

    test("replace: later controls and the tool get the new arguments, the log the model's", async () => {
      const seen: unknown[] = [];
      const watching = behind(name).map((later): Control => {
        return {
          name: later,
          before({ args, asked }) {
            seen.push([args, asked]);
            return pass;
          },
        };
      });
      const replacing: Control = { name, before: () => ({ verdict: "replace", args: { n: 2 } }) };

      const admission = await pipeline([...watching, replacing]).admit(call);

      const spoken = [{ control: name, verdict: "replace", ms: 1.5 }, ...passesOf(behind(name))];
      assert.deepEqual(admission, { kind: "pass", args: { n: 2 }, spoken });
      assert.deepEqual(seen, Array(behind(name).length).fill([{ n: 2 }, { n: 1 }]));
    });

    test("replace by invalid arguments: no call is made, and the error names the control", async () => {
      const passed: string[] = [];

      const admission = await speaking({ verdict: "replace", args: { bad: 1 }, rule: "r" }, passed).admit(call);

      const { kind, spoken, ...facts } = admission;
      const own = { control: name, verdict: "replace", rule: "r", ms: 1.5 };
      assert.deepEqual([kind, spoken], ["misfit", [...passesOf(before(name)), own]]);
      assert.deepEqual(facts, { by: name, problem: "bad is not an argument of this tool", args: { bad: 1 } });
      assert.deepEqual(names(passed), before(name));
    });

    test("wait: the verdict has the position to continue at", async () => {
      const passed: string[] = [];

      const admission = await speaking({ verdict: "wait", rule: "r", wait }, passed).admit(call);

      const spoken = [...passesOf(before(name)), { control: name, verdict: "wait", rule: "r", ms: 1.5 }];
      assert.deepEqual(admission, { kind: "wait", wait, rule: "r", after: name, args: { n: 1 }, spoken });
      assert.deepEqual(names(passed), before(name));
    });

    test("after a wait: the call continues, and of the earlier controls policies rerun", async () => {
      const passed: string[] = [];

      const admission = await pipeline(recording(passed)).admit(call, { after: name });

      assert.equal(admission.kind, "pass");
      const again = behind(name).includes("policy") ? [] : ["policy"];
      assert.deepEqual(names(passed), [...again, ...behind(name)]);
    });

    test("after a wait, with new arguments: the checks of arguments run again", async () => {
      const passed: string[] = [];

      const edited = { ...call, args: { n: 3 } };
      const admission = await pipeline(recording(passed)).admit(edited, { after: name, edited: true });

      assert.deepEqual([admission.kind, admission.args], ["pass", { n: 3 }]);
      const again = ["policy", "command", "screening", "guardrails", "judges"].filter(
        (place) => !behind(name).includes(place as ControlName),
      );
      assert.deepEqual(names(passed), [...again, ...behind(name)]);
    });

    test("after a wait, with invalid arguments: no control is asked", async () => {
      const passed: string[] = [];

      const edited = { ...call, args: { bad: 1 } };
      const admission = await pipeline(recording(passed)).admit(edited, { after: name, edited: true });

      assert.equal(admission.kind === "misfit" && admission.by, name);
      assert.deepEqual(passed, []);
    });
  });

describe("after a wait", () => {
  const denies: Control = { name: "policy", before: () => ({ verdict: "deny", rule: "r", detail: "no longer" }) };

  test("a policy that changed during the wait denies the call", async () => {
    const admission = await pipeline([denies]).admit(call, { after: "approvals" });

    assert.equal(admission.kind === "deny" && admission.denial.layer, "policy");
  });

  test("a person's new arguments do not make the same control wait again, others may", async () => {
    const command: Control = { name: "command", before: () => ({ verdict: "wait", rule: "r", wait }) };
    const edited = { after: "command", edited: true } as const;

    const answered = await pipeline([command]).admit(call, edited);
    const other = await pipeline([command]).admit(call, { after: "approvals", edited: true });

    assert.equal(answered.kind, "pass");
    assert.equal(other.kind === "wait" && other.after, "command");
  });

  test("a control's replacement before the wait stays, and a later denial counts", async () => {
    const waits: Control = { name: "command", before: () => ({ verdict: "wait", rule: "r", wait }) };
    const replaces: Control = { name: "hook", before: () => ({ verdict: "replace", args: { n: 2 } }) };
    const screens: Control = {
      name: "screening",
      before: ({ args }) => (Number((args as Args).n) > 2 ? { verdict: "deny", rule: "r", detail: "high" } : pass),
    };
    const three = pipeline([waits, replaces, screens]);

    const waiting = await three.admit(call);
    const went = await three.admit({ ...call, args: waiting.args }, { after: "command" });
    const edited = await three.admit({ ...call, args: { n: 9 } }, { after: "command", edited: true });

    assert.deepEqual([waiting.kind, waiting.args], ["wait", { n: 2 }]);
    assert.deepEqual([went.kind, went.args], ["pass", { n: 2 }]);
    assert.equal(edited.kind, "deny");
  });
});

for (const name of resultOrder)
  describe(`after and reply, ${name}`, () => {
    const later = resultOrder.slice(resultOrder.indexOf(name) + 1);
    const refusal = { verdict: "block", rule: "r", detail: "not this" } as const;

    test("block: the text names the refusing control, and only masking sees it", async () => {
      const passed: string[] = [];
      const others = recording(passed).filter((control) => control.name !== name);

      const released = await pipeline([...others, { name, after: () => refusal }]).release(call, { text: "42" });

      assert.deepEqual(released.denial, { control: auditedAs[name], layer: name, rule: "r", detail: "not this" });
      const spoken = released.spoken.filter(({ verdict }) => verdict === "block");
      assert.deepEqual(spoken, [{ control: name, verdict: "block", rule: "r", ms: 1.5 }]);
      const words = name === "hook" ? "[hook denied] r" : `denied by ${auditedAs[name]}: not this`;
      const isMasked = later.includes("secret_masking");
      assert.deepEqual(released.shown, { text: isMasked ? `${words}>secret_masking` : words });
      assert.deepEqual(names(passed), [
        ...resultOrder.slice(0, resultOrder.indexOf(name)),
        ...(isMasked ? ["secret_masking"] : []),
      ]);
    });

    test("replace: the whole result is new, with its error flag", async () => {
      const replacing: Control = {
        name,
        after: (_call, { error }) => ({ verdict: "replace", result: { text: `was ${error}` }, rule: "r" }),
      };

      const released = await pipeline([replacing]).release(call, { text: "gone", error: "not_found" });

      const spoken = [{ control: name, verdict: "replace", rule: "r", ms: 1.5 }];
      assert.deepEqual(released, { shown: { text: "was not_found" }, denial: null, spoken });
    });

    test("reply: refused text is withheld, and later controls do not see it", async () => {
      const passed: string[] = [];
      const others = recording(passed).filter((control) => control.name !== name);

      const released = await pipeline([...others, { name, reply: () => refusal }]).releaseReply(reply);

      const words = name === "judges" ? "[withheld: judge r]" : `[blocked by ${auditedAs[name]}]`;
      assert.deepEqual([released.shown, released.denial?.layer], [words, name]);
      assert.deepEqual(names(passed), resultOrder.slice(0, resultOrder.indexOf(name)));
    });
  });
