import { type Stretch, stretchesOf } from "../../storage/frames/stretches.ts";
import type { LogEvent, ToolCall } from "../../storage/tables/events.ts";
import type { RunRow } from "../../storage/tables/runs.ts";

// Parts of a stored run that a client may see: its failure, the calls it handed over and the text of its model steps.

/** Returns the reason of a run's failure as its stream reported it, or its code if the run was interrupted. Null if no failure is known. */
export function failureOf({ status, result }: Pick<RunRow, "status" | "result">): string | null {
  if (result?.failure !== undefined) return result.failure;
  const code = result?.error ?? (status === "expired" || status === "dead" ? status : null);
  return code === null ? null : `the turn has failed: ${code}`;
}

/** Collects the calls of the newest step that the client must run, with their sent arguments. */
export class HandedCalls {
  #asked: readonly ToolCall[] = [];
  readonly #args = new Map<string | undefined, unknown>();

  take({ kind, extra }: LogEvent): void {
    if (kind === "message" && extra?.tool_calls !== undefined) this.#asked = extra.tool_calls;
    if (kind === "tool_call" && extra?.metadata?.handed !== undefined)
      this.#args.set(extra.tool_call_id, extra.metadata.args);
  }

  get calls(): ToolCall[] {
    return this.#asked.flatMap((call) =>
      this.#args.has(call.id) ? [{ ...call, args: this.#args.get(call.id) ?? call.args }] : [],
    );
  }
}

/**
 * Returns the reasoning and text of the model in an event, in order. Null for events that are not the model's, and for work on a subtask,
 * which clients do not see.
 */
export function saidIn({
  kind,
  role,
  content,
  extra,
}: Pick<LogEvent, "kind" | "role" | "content" | "extra">): readonly Stretch[] | null {
  const metadata = extra?.metadata;
  const isShown = metadata?.source !== "client" && metadata?.subtask === undefined;
  if (kind !== "message" || role !== "assistant" || !isShown) return null;
  return stretchesOf(metadata?.thinking, content);
}
