import { soundText } from "../../bus/sound-text.ts";
import {
  type GovernedResult,
  type QuotedSource,
  recordedVerdicts,
  type Spoken,
} from "../../governance/controls/verdicts.ts";
import type { SecretMask } from "../../governance/secret-mask.ts";
import type { ToolCall } from "../../storage/tables/events.ts";
import { toolError } from "../tools/tool.ts";
import type { Attachment } from "./attachment.ts";
import type { LogEntry } from "./entry.ts";
import { type ContextMessage, contextMessage } from "./message.ts";

/** The result of one tool call. */
export interface ToolOutcome {
  readonly call: ToolCall;
  /** The text for the model and the log. */
  readonly text: string;
  readonly status: "ok" | "error" | "denied";
  /** Images that the tool made. */
  readonly attachments: readonly Attachment[];
  /** The parts of documents that the text quotes. */
  readonly sources: readonly QuotedSource[];
  readonly entry: LogEntry;
  /** True if only the client of the request failed to answer; a later result from the client takes precedence. */
  readonly isHanded?: true;
  /** True if a person edited the arguments that the client received. */
  readonly isEdited?: boolean;
}

/** The parts of a result besides its text. */
interface OfResult {
  /** Verdicts of controls. */
  readonly spoken?: readonly Spoken[];
  readonly attachments?: readonly Attachment[];
  /** The artifact with the whole result, if the text is only its beginning. */
  readonly artifact_id?: string;
  /** Untrusted sources of the text. */
  readonly taint?: readonly string[];
  /** The parts of documents that the text quotes. */
  readonly sources?: readonly QuotedSource[];
}

/** Returns the outcome of a call, with its log entry. */
export function toolOutcome(
  call: ToolCall,
  text: string,
  status: ToolOutcome["status"],
  { spoken = none, attachments = none, artifact_id, taint = none, sources = none }: OfResult = {},
): ToolOutcome {
  const sound = soundText(text);
  const metadata: Record<string, unknown> = { status, ...recordedVerdicts(spoken) };
  if (artifact_id !== undefined) metadata.artifact_id = artifact_id;
  if (attachments.length > 0) metadata.attachments = attachments;
  if (taint.length > 0) metadata.taint = taint;
  if (sources.length > 0) metadata.sources = sources;
  return {
    call,
    text: sound,
    status,
    attachments,
    sources,
    entry: {
      kind: "tool_result",
      role: "tool",
      content: sound,
      extra: { name: call.name, tool_call_id: call.id, metadata },
    },
  };
}

const none: readonly never[] = [];

/** Returns a result as text for the model. */
export function resultText(result: GovernedResult): string {
  return result.error === undefined ? result.text : `[tool error/${result.error}] ${result.text}`;
}

/** Max characters of edited arguments in a result. */
const editedCharsMax = 4_000;

/**
 * Returns the result of a call whose arguments a person edited. It repeats the new arguments, because the model's own message
 * has the original ones.
 */
export function editedText(args: unknown, text: string, { sent: mask }: SecretMask): string {
  const json = mask.jsonText(JSON.stringify(args));
  const shown = json.length <= editedCharsMax ? json : `${json.slice(0, editedCharsMax)} (cut)`;
  return `[run with arguments that a person has edited: ${shown}]\n${text}`;
}

/**
 * Returns the text for a call that began and whose end is unknown (decision 75: a call with an intent and no result may have
 * run).
 */
export function unknownOutcome(effect: string): string {
  return `outcome unknown: it may have run (${effect})`;
}

/** Returns the outcome of a call that will never run, so that every call in the log has a result. */
export function unrunTool(call: ToolCall, why: string): ToolOutcome {
  return toolOutcome(call, resultText(toolError("interrupted", `not run: ${why}`)), "error");
}

/** Returns the outcome of a call that was sent to the client and not answered. */
export function unansweredTool(call: ToolCall, isEdited = false): ToolOutcome {
  const words = resultText(toolError("interrupted", "not answered by the client"));
  return { ...toolOutcome(call, words, "error"), isHanded: true, isEdited };
}

/** Returns the outcome as the message for the model's next step. */
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
