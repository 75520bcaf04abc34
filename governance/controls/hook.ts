import type { Env } from "../../bus/env.ts";
import type { GovernedCall, MakeControl } from "./control.ts";
import { pass } from "./verdicts.ts";

/** What somebody else's code says of tool calls. */
export interface ToolHook {
  /** The model is told it, and audit rows name it. */
  readonly name: string;
  /** Why the call is not made, in words for the audit; null lets it pass. */
  beforeTool?(call: GovernedCall): string | null | Promise<string | null>;
  /** The text of the result as it may be shown. */
  afterTool?(call: GovernedCall, text: string): string | Promise<string>;
}

/** How long a hook may take. */
export const hookMs = 5_000;

/**
 * The control of a hook. One that throws, takes too long or answers something else has not judged: a call of a tool that only
 * reads, and its result, pass and are counted; any other is refused, and its result withheld.
 */
export function hookControl(hook: ToolHook, env: Env, failed: (hook: string, error: unknown) => void): MakeControl {
  const { name } = hook;
  const refusal = { rule: name, detail: `${name} failed` };
  const answer = async <T>(ask: () => T | Promise<T>, isAnswer: (value: unknown) => boolean): Promise<T | Unjudged> => {
    try {
      const value = await within(env, ask);
      if (!isAnswer(value)) throw new Error("the answer of the hook is of another type");
      return value;
    } catch (error) {
      failed(name, error);
      return unjudged;
    }
  };

  return ({ metrics }) => {
    const passes = ({ agent, tool }: GovernedCall): boolean => {
      const isReader = agent.tools.find((bound) => bound.name === tool)?.risk === "reads";
      if (isReader) metrics.count("svc_control_degraded_total", { control: "hook", reason: name });
      return isReader;
    };
    const { beforeTool, afterTool } = hook;
    return {
      name: "hook",
      ...(beforeTool && {
        async before(call) {
          const reason = await answer(
            () => beforeTool(call),
            (value) => value === null || typeof value === "string",
          );
          if (reason === null || (reason === unjudged && passes(call))) return pass;
          return { verdict: "deny", ...refusal, ...(reason !== unjudged && { detail: reason }) };
        },
      }),
      ...(afterTool && {
        async after(call, result) {
          const text = await answer(
            () => afterTool(call, result.text),
            (value) => typeof value === "string",
          );
          if (text === unjudged) return passes(call) ? pass : { verdict: "block", ...refusal };
          return text === result.text ? pass : { verdict: "replace", result: { ...result, text }, rule: name };
        },
      }),
    };
  };
}

/** A hook has not said anything that counts. */
const unjudged = Symbol("unjudged");
type Unjudged = typeof unjudged;

function within<T>(env: Env, ask: () => T | Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = env.timer(hookMs, () => reject(new Error(`the hook did not answer within ${hookMs} ms`)));
    const asked = async (): Promise<void> => {
      try {
        resolve(await ask());
      } catch (error) {
        reject(error as Error);
      } finally {
        timer.cancel();
      }
    };
    void asked();
  });
}
