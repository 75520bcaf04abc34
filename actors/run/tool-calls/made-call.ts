import type { Admission } from "../../../governance/controls/pipeline.ts";
import type { Spoken } from "../../../governance/controls/verdicts.ts";
import type { WriteOp } from "../../../storage/store/store.ts";
import type { ToolCall } from "../../../storage/tables/events.ts";
import type { LogEntry } from "../../log/entry.ts";
import type { ToolOutcome } from "../../log/tool-outcome.ts";
import { type ToolResult, toolError } from "../../tools/tool.ts";

/** What has come of a call: an outcome, or that the client of the request is to make it; null while it waits. */
export type Made = ToolOutcome | { readonly handed: ToolCall } | null;

/** How a call is made. */
export interface HowMade {
  readonly spoken: readonly Spoken[];
  /** The approval that it needs. */
  readonly grant: string | null;
  /** Whether its arguments are not those in the log. */
  readonly isReplaced: boolean;
  /** Whether a person has edited them. */
  readonly isEdited: boolean;
  /** Its effect, when it is made again: its intent is in the log from the time before. */
  readonly begun?: string | undefined;
  /** Written with its intent. */
  readonly entries?: readonly LogEntry[];
  readonly ops?: readonly WriteOp[];
}

/** How a call came to its result that is not being made here. */
export interface Came {
  readonly latencyMs: number;
  readonly spoken?: readonly Spoken[];
  /** Written with the result. */
  readonly entries?: readonly LogEntry[];
  readonly ops?: readonly WriteOp[];
}

/** What the model is told when a control has put arguments into its call that the tool would not take. */
export function misfit({ by, problem }: Extract<Admission, { kind: "misfit" }>): ToolResult {
  return toolError("invalid_arguments", `changed by ${by}: ${problem}`);
}

/** A model may ask for a tool that exists and is not this agent's; it is told no more than for one that does not exist. */
export const unbound = { ok: false, refusal: toolError("permission_denied", "no tool of this name is bound") } as const;
