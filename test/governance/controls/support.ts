import type { Control, GovernedCall, GovernedReply } from "../../../governance/controls/control.ts";
import { Pipeline } from "../../../governance/controls/pipeline.ts";
import type { Wait } from "../../../governance/controls/verdicts.ts";

/** A call whose tool takes any arguments but `{bad: …}`. The controls of these tests read nothing else of it. */
export const call = {
  tool: "calculator",
  tool_call_id: "call_1",
  asked: { n: 1 },
  args: { n: 1 },
  misfit: async (args: unknown) =>
    Object.hasOwn(args as object, "bad") ? "bad is not an argument of this tool" : null,
  now: 0,
} as unknown as GovernedCall;

export const reply = { kind: "text", text: "Hello.", final: true, now: 0 } as unknown as GovernedReply;

export const wait: Wait = {
  kind: "approval",
  subject: "May it?",
  deadline: 1_000,
  may_answer: { scopes: ["approvals:write"], principal: null, not_principal: "alice" },
};

/** A pipeline whose clock advances by 1.5 ms at each reading. */
export function pipeline(controls: readonly Control[]): Pipeline {
  let now = 0;
  return new Pipeline(controls, () => (now += 1.5));
}
