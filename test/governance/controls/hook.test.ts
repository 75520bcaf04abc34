import assert from "node:assert/strict";
import { test } from "node:test";
import { AgentMetrics } from "../../../governance/agent-metrics.ts";
import { RunBudget } from "../../../governance/budget.ts";
import type { Control, GovernedCall, GovernedRun } from "../../../governance/controls/control.ts";
import { hookControl, hookMs, type ToolHook } from "../../../governance/controls/hook.ts";
import { pass } from "../../../governance/controls/verdicts.ts";
import { Metrics, renderMetrics } from "../../../governance/metrics.ts";
import { SecretMask } from "../../../governance/secret-mask.ts";
import { compileSpec } from "../../manifests/support.ts";
import { Sim } from "../../support/sim-env.ts";
import { call } from "./support.ts";

const agent = compileSpec(
  { tools: ["read_file", "write_file"] },
  { tools: new Map([tool("read_file"), tool("write_file")]) },
);

function tool(name: string) {
  const risk = name === "read_file" ? ("reads" as const) : ("writes" as const);
  const parameters = { type: "object", additionalProperties: false };
  return [name, { name, description: name, parameters, effect: "read" as const, risk, workspace: false }] as const;
}

/** A control of a hook, with its counters and failures. */
function hooked(hook: Omit<ToolHook, "name">) {
  const sim = new Sim(1);
  const env = sim.env();
  const failures: string[] = [];
  const make = hookControl({ name: "guard", ...hook }, env, (name, error) => {
    failures.push(`${name}: ${(error as Error).message}`);
  });
  const counts = new Metrics();
  const metrics = new AgentMetrics(counts, agent);
  const budget = new RunBudget(agent.limits, 0);
  const control = make({ agent, budget, mask: new SecretMask([]), metrics } as GovernedRun) as Control;
  const degraded = async () => (await renderMetrics([counts.snapshot()], "text")).body;
  return { sim, control, degraded, failures, planned: () => sim.planned(env) };
}

function callOf(name: string): GovernedCall {
  return { ...call, tool: name, agent };
}

const denied = (detail: string) => ({ verdict: "deny", rule: "guard", detail });

test("a hook denies with its reason, or passes, at once or later", async () => {
  const { control, failures } = hooked({
    beforeTool: ({ tool }) => (tool === "write_file" ? Promise.resolve("not on Sundays") : null),
  });

  assert.deepEqual(await control.before?.(callOf("write_file")), denied("not on Sundays"));
  assert.deepEqual(await control.before?.(callOf("read_file")), pass);
  assert.deepEqual([control.name, control.after, failures], ["hook", undefined, []]);
});

test("a hook that has answered or thrown has no open timer", async () => {
  const { control, planned } = hooked({
    beforeTool: () => null,
    afterTool() {
      throw new Error("not today");
    },
  });

  await control.before?.(callOf("read_file"));
  await control.after?.(callOf("read_file"), { text: "42" });

  assert.equal(planned(), 0);
});

test("a hook changes the shown part of a result, or leaves it", async () => {
  const { control } = hooked({ afterTool: ({ tool }, text) => (tool === "read_file" ? `read: ${text}` : text) });
  const result = { text: "42", error: "timeout" };

  const changed = await control.after?.(callOf("read_file"), result);
  const left = await control.after?.(callOf("write_file"), result);

  assert.deepEqual(changed, { verdict: "replace", result: { text: "read: 42", error: "timeout" }, rule: "guard" });
  assert.deepEqual([left, control.before], [pass, undefined]);
});

const never = new Promise<never>(() => {});
const failing: readonly (readonly [how: string, hook: () => never, failure: RegExp])[] = [
  [
    "throws",
    () => {
      throw new Error("no disk");
    },
    /^guard: no disk$/,
  ],
  ["rejects", (() => Promise.reject(new Error("no net"))) as () => never, /^guard: no net$/],
  ["answers something else", (() => 7) as () => never, /^guard: the hook returned a value of another type$/],
  ["does not answer", (() => never) as () => never, /^guard: the hook did not answer within 5000 ms$/],
];
for (const [how, hook, failure] of failing)
  test(`a hook that ${how} gives no verdict: reads pass and are counted, others fail`, async () => {
    const { sim, control, degraded, failures } = hooked({ beforeTool: hook, afterTool: hook });

    const verdicts = [
      control.before?.(callOf("read_file")),
      control.before?.(callOf("write_file")),
      control.before?.(callOf("no_such_tool")),
      control.after?.(callOf("read_file"), { text: "42" }),
      control.after?.(callOf("write_file"), { text: "written" }),
    ];
    await sim.advance(hookMs);

    assert.deepEqual(await Promise.all(verdicts), [
      pass,
      denied("guard failed"),
      denied("guard failed"),
      pass,
      { verdict: "block", rule: "guard", detail: "guard failed" },
    ]);
    assert.match(await degraded(), /^svc_control_degraded_total\{control="hook",manifest_id="x",reason="guard"\} 2$/m);
    assert.equal(failures.length, 5);
    for (const line of failures) assert.match(line, failure);
  });
