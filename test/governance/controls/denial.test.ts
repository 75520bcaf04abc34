import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { denialOf, denialPayload, denyText } from "../../../governance/controls/denial.ts";
import { auditedAs, type ControlName, type Layer } from "../../../governance/controls/order.ts";

/** Document 2, "Audit": the allowed values of `control` in a policy_deny row. */
const documented = ["policy", "limits", "guardrails", "approvals", "command", "screening", "hook"];

const refusal = { rule: "rule-1", detail: "two\nlines" };

describe("a denial", () => {
  const texts: readonly [ControlName, Layer | undefined, string, string][] = [
    ["policy", undefined, "policy", "denied by policy: two lines"],
    ["limits", undefined, "limits", "denied by limits: two lines"],
    ["limits", "budgets", "limits", "denied by limits: two lines"],
    ["command", undefined, "command", "denied by command: two lines"],
    ["screening", undefined, "screening", "denied by screening: two lines"],
    ["guardrails", undefined, "guardrails", "denied by guardrails: two lines"],
    ["judges", undefined, "guardrails", "denied by guardrails: two lines"],
    ["permission_mode", undefined, "approvals", "denied by approvals: two lines"],
    ["approvals", undefined, "approvals", "[approval two lines] tool=write_file rule=rule-1"],
    ["approvals", "taint", "approvals", "[approval two lines] tool=write_file rule=rule-1"],
    ["hook", undefined, "hook", "[hook denied] rule-1"],
  ];
  for (const [place, part, control, text] of texts)
    test(`of ${part ?? place} is audited as ${control}, and is one line`, () => {
      const denial = denialOf(place, part === undefined ? refusal : { ...refusal, layer: part });

      assert.deepEqual([denial.control, denial.layer], [control, part ?? place]);
      assert.equal(denyText(denial, "write_file"), text);
    });

  test("has one of the documented names, whatever the layer", () => {
    assert.deepEqual(new Set(Object.values(auditedAs)), new Set(documented));
  });

  test("names the hook, the call and the reason in its row", () => {
    const row = denialPayload(denialOf("hook", refusal), { tool: "calculator", tool_call_id: "call_1" });

    assert.deepEqual(row, {
      ...{ tool: "calculator", tool_call_id: "call_1" },
      ...{ control: "hook", layer: "hook", reason: "two\nlines", hook: "rule-1" },
    });
    const limits = denialPayload(denialOf("limits", refusal), null);
    assert.deepEqual(limits, { control: "limits", layer: "limits", reason: "two\nlines" });
  });
});
