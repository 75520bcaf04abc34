import assert from "node:assert/strict";
import { describe, test } from "node:test";
import {
  type Control,
  type ControlName,
  controlOrder,
  denyText,
  type GovernedCall,
  Pipeline,
} from "../../../governance/controls/pipeline.ts";

/** The controls below look at no more of a call than this. */
const call = { tool: "calculator", tool_call_id: "call_1", args: {}, now: 0 } as GovernedCall;

/** A control for each place that writes down when it is passed, given in an order of no meaning. */
function controls(passed: string[], denies: readonly ControlName[] = []): Control[] {
  return controlOrder.toReversed().map((name, at) => ({
    name,
    before() {
      passed.push(`before ${name}`);
      const denial = denies.includes(name) ? { control: name, rule: "r", detail: "no" } : null;
      return at % 2 === 0 ? denial : Promise.resolve(denial);
    },
    after(_call, text) {
      passed.push(`after ${name}`);
      const next = `${text}>${name}`;
      return at % 2 === 0 ? next : Promise.resolve(next);
    },
  }));
}

describe("Pipeline", () => {
  test("controls stand in the declared order, whatever order they are given in", async () => {
    const passed: string[] = [];

    const denial = await new Pipeline(controls(passed)).admit(call);

    assert.equal(denial, null);
    assert.deepEqual(
      passed,
      controlOrder.map((name) => `before ${name}`),
    );
    assert.equal(controlOrder[0], "secret_masking", "nothing is outside of the masking of secrets");
    assert.equal(controlOrder.at(-1), "approvals", "nobody is asked about a call that is denied anyway");
  });

  test("what one denies, those after it never see; the outermost denial is told", async () => {
    const passed: string[] = [];

    const denial = await new Pipeline(controls(passed, ["approvals", "policy", "screening"])).admit(call);

    assert.deepEqual(denial, { control: "policy", rule: "r", detail: "no" });
    assert.deepEqual(passed.at(-1), "before policy");
    assert.equal(passed.length, controlOrder.indexOf("policy") + 1);
  });

  test("results come back from inside out, each control on what the one before has made of them", async () => {
    const passed: string[] = [];

    const released = await new Pipeline(controls(passed)).release(call, "42");

    assert.equal(released, ["42", ...controlOrder.toReversed()].join(">"));
  });

  test("a pipeline without controls admits, and changes nothing", async () => {
    const pipeline = new Pipeline([]);

    assert.equal(await pipeline.admit(call), null);
    assert.equal(await pipeline.release(call, "42"), "42");
  });

  test("a denial is one line with the control in front", () => {
    const text = denyText({ control: "policy", rule: "pol-1", detail: "pol-1 requires scope payments:write" });

    assert.equal(text, "denied by policy: pol-1 requires scope payments:write");
  });
});
