import { soundText } from "../../bus/sound-text.ts";
import type { GovernedResult, Spoken } from "../../governance/controls/verdicts.ts";
import type { SecretMask } from "../../governance/secret-mask.ts";
import type { ToolCall } from "../../storage/tables/events.ts";
import { toolError } from "../tools/tool.ts";
import type { Attachment } from "./attachment.ts";
import type { LogEntry } from "./entry.ts";
import { type ContextMessage, contextMessage } from "./message.ts";

/** What became of one tool call. */
export interface ToolOutcome {
  readonly call: ToolCall;
  /** As the model and the log see it. */
  readonly text: string;
  readonly status: "ok" | "error" | "denied";
  /** Images that it has made. */
  readonly attachments: readonly Attachment[];
  readonly entry: LogEntry;
  /** Only the client of the request has not answered it: what it brings as its result goes before this. */
  readonly isHanded?: true;
  /** A person has edited the arguments of the call that the client was handed. */
  readonly isEdited?: boolean;
}

/** The outcome of a call, with the entry that keeps it in the log and what controls have said of it. */
export function toolOutcome(
  call: ToolCall,
  text: string,
  status: ToolOutcome["status"],
  spoken: readonly Spoken[] = [],
  attachments: readonly Attachment[] = none,
): ToolOutcome {
  const sound = soundText(text);
  const metadata: Record<string, unknown> = { status };
  if (spoken.length > 0) metadata.controls = spoken;
  if (attachments.length > 0) metadata.attachments = attachments;
  return {
    call,
    text: sound,
    status,
    attachments,
    entry: {
      kind: "tool_result",
      role: "tool",
      content: sound,
      extra: { name: call.name, tool_call_id: call.id, metadata },
    },
  };
}

const none: readonly Attachment[] = [];

/** A result in words for the model. */
export function resultText(result: GovernedResult): string {
  return result.error === undefined ? result.text : `[tool error/${result.error}] ${result.text}`;
}

/** Characters of edited arguments that a result repeats. */
const editedCharsMax = 4_000;

/** The result of a call whose arguments a person has edited. It names them: the model's own message has those that it wrote. */
export function editedText(args: unknown, text: string, { told: mask }: SecretMask): string {
  const json = mask.jsonText(JSON.stringify(args));
  const told = json.length <= editedCharsMax ? json : `${json.slice(0, editedCharsMax)} (cut)`;
  return `[run with arguments that a person has edited: ${told}]\n${text}`;
}

/** What is said of a call that has begun and of whose end nothing is known (decision 75). */
export function unknownOutcome(effect: string): string {
  return `outcome unknown: it may have run (${effect})`;
}

/** A call that will never run, closed so that every call in the log has a result. */
export function unrunTool(call: ToolCall, why: string): ToolOutcome {
  return toolOutcome(call, resultText(toolError("interrupted", `not run: ${why}`)), "error");
}

/** A call that its client was handed and has brought no result of. */
export function unansweredTool(call: ToolCall, isEdited = false): ToolOutcome {
  const words = resultText(toolError("interrupted", "not answered by the client"));
  return { ...toolOutcome(call, words, "error"), isHanded: true, isEdited };
}

/** The outcome as the model reads it at its next step. */
export function toolMessage(outcome: ToolOutcome): ContextMessage {
  const { text, call, attachments, entry } = outcome;
  return contextMessage({
    role: "tool",
    content: text,
    tool_call_id: call.id,
    attachments: attachments.length === 0 ? null : attachments,
    entry,
  });
}
