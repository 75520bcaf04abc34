import type { Env } from "../../bus/env.ts";
import type { GovernedCall, MakeControl } from "./control.ts";
import { pass } from "./verdicts.ts";

/** A hook of a plugin around tool calls. */
export interface ToolHook {
  /** Shown to the model and in audit rows. */
  readonly name: string;
  /** Returns the reason to refuse the call, for the audit; null lets it pass. */
  beforeTool?(call: GovernedCall): string | null | Promise<string | null>;
  /** Returns the text of the result that the model may see. */
  afterTool?(call: GovernedCall, text: string): string | Promise<string>;
}

/** Max time of one hook call. */
export const hookMs = 5_000;

/**
 * Wraps a hook as a control. A hook fails if it throws, times out or returns another type. Then calls of read-only tools and
 * their results pass and are counted; all other calls are refused, and their results are withheld.
 */
export function hookControl(hook: ToolHook, env: Env, failed: (hook: string, error: unknown) => void): MakeControl {
  const { name } = hook;
  const refusal = { rule: name, detail: `${name} failed` };
  const answer = async <T>(ask: () => T | Promise<T>, isAnswer: (value: unknown) => boolean): Promise<T | Unjudged> => {
    try {
      const value = await within(env, ask);
      if (!isAnswer(value)) throw new Error("the hook returned a value of another type");
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

/** Marks a failed hook. */
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
