import type { Admission } from "../../../governance/controls/pipeline.ts";
import type { Spoken } from "../../../governance/controls/verdicts.ts";
import type { WriteOp } from "../../../storage/store/store.ts";
import type { ToolCall } from "../../../storage/tables/events.ts";
import type { LogEntry } from "../../log/entry.ts";
import type { ToolOutcome } from "../../log/tool-outcome.ts";
import { type ToolResult, toolError } from "../../tools/tool.ts";
import type { AskedBy } from "./call-waits.ts";

/** The outcome of a call; `handed` if the client of the request will make it; null while it waits. */
export type Made = ToolOutcome | { readonly handed: ToolCall } | null;

/** How a call is made. */
export interface HowMade {
  readonly spoken: readonly Spoken[];
  /** Id of the approval that the call uses; null for none. */
  readonly grant: string | null;
  /** True if the arguments differ from the logged ones. */
  readonly isReplaced: boolean;
  /** True if a person has edited the arguments. */
  readonly isEdited: boolean;
  /** The effect of a call that runs again. Its intent is already in the log. */
  readonly begun?: string | undefined;
  /** Written with the intent. */
  readonly entries?: readonly LogEntry[];
  readonly ops?: readonly WriteOp[];
}

/** How a call got its result without being run now. */
export interface Came {
  readonly latencyMs: number;
  readonly spoken?: readonly Spoken[];
  /** Written with the result. */
  readonly entries?: readonly LogEntry[];
  readonly ops?: readonly WriteOp[];
}

/** Returns the control that makes a call wait. */
export function askedBy({ after, rule }: Extract<Admission, { kind: "wait" }>): AskedBy {
  return { control: after, rule };
}

/** Returns the result for a call whose arguments a control replaced with invalid ones. */
export function misfit({ by, problem }: Extract<Admission, { kind: "misfit" }>): ToolResult {
  return toolError("invalid_arguments", `changed by ${by}: ${problem}`);
}

/** Result for an answered call whose tool is no longer there: its source does not answer, or has dropped the tool. */
export function unavailable(problems: readonly string[]): ToolResult {
  if (problems.length === 0) return unbound.refusal;
  return toolError(
    "transport_unavailable",
    `the call was not made, because its tool is missing now: ${problems.join("; ")}`,
  );
}

/** Result for an unknown tool name. A tool of another agent gets the same text, so that the model cannot probe for tools. */
export const unbound = { ok: false, refusal: toolError("permission_denied", "no tool of this name is bound") } as const;
