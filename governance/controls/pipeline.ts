import type { Principal } from "../../bus/protocol/principal.ts";
import type { CompiledAgent } from "../../manifests/compiled.ts";

// Every tool call of every run goes through the controls below, in this order, outermost first. What a control refuses, those
// after it never see, and the tool does not run; results come back through them in the opposite order, so that nothing
// reaches the log or the model unmasked. A control joins by standing in its place in this list.

/** The places of all controls, outermost first. `control` of a policy_deny audit row is one of the first column's values. */
export const controlOrder = [
  "secret_masking",
  "hook",
  "limits",
  "policy",
  "permission_mode",
  "command",
  "screening",
  "guardrails",
  "judges",
  "artifacts",
  "approvals",
] as const;

/** A control of the pipeline, as audit rows name it. */
export type ControlName = (typeof controlOrder)[number];

/** A call that the model asked for, about to be made. */
export interface GovernedCall {
  readonly tool: string;
  readonly tool_call_id: string;
  readonly args: unknown;
  readonly agent: CompiledAgent;
  readonly principal: Principal;
  readonly now: number;
}

/** Why a call is not made. */
export interface Denial {
  readonly control: ControlName;
  /** The rule or limit, for metrics. */
  readonly rule: string;
  /** For the model and for people. */
  readonly detail: string;
}

/** One layer around tool calls. `before` may refuse, `after` may change what the model is shown. */
export interface Control {
  readonly name: ControlName;
  before?(call: GovernedCall): Denial | null | Promise<Denial | null>;
  after?(call: GovernedCall, text: string): string | Promise<string>;
}

/** The controls of one run, ready to be passed through. */
export class Pipeline {
  readonly #controls: readonly Control[];

  constructor(controls: readonly Control[]) {
    this.#controls = [...controls].sort((a, b) => controlOrder.indexOf(a.name) - controlOrder.indexOf(b.name));
  }

  /** The first denial from outside in, or null: then the call may be made. */
  async admit(call: GovernedCall): Promise<Denial | null> {
    for (const control of this.#controls) {
      const denial = await control.before?.(call);
      if (denial) return denial;
    }
    return null;
  }

  /** The result as the model and the log may see it. */
  async release(call: GovernedCall, text: string): Promise<string> {
    let released = text;
    for (const control of this.#controls.toReversed()) {
      if (control.after) released = await control.after(call, released);
    }
    return released;
  }
}

/** What the model is told of a call that was refused. */
export function denyText(denial: Denial): string {
  return `denied by ${denial.control}: ${denial.detail}`;
}
