import type { StopReason } from "../../../bus/protocol/model-reply.ts";
import type { ToolEffect } from "../../../manifests/registries.ts";
import type { LogEvent, ToolCall } from "../../../storage/tables/events.ts";
import type { WaitRow } from "../../../storage/tables/waits.ts";
import { messageOf } from "../../log/message.ts";
import { isOfSubAgent } from "../../log/sub-agent-events.ts";
import type { Foreseen } from "../../tools/tool.ts";
import { noteOf, type RunNote } from "../spec/notes.ts";
import type { BegunCall, GivenAnswer, PendingCall } from "../spec/run-spec.ts";

/**
 * The state of one agent as the log of its run shows it: its notes, its model calls since the last note, and its calls without a
 * result.
 */
export class Tail {
  /** Model calls since the last note that the step limit counts. */
  steps = 0;
  messages = 0;
  userMessages = 0;
  /** The first message of the caller; null for none. */
  userText: string | null = null;
  /** Ids of calls by the agent and its sub-agents. No id is used twice in a run. */
  readonly callIds: string[] = [];
  readonly notes: RunNote[] = [];
  /** Events of the sub-agents. */
  readonly ofSubAgents: LogEvent[] = [];
  #calls: readonly ToolCall[] = [];
  /** The last reply, if it was an answer; null if it was part of the agent's work. */
  answer: GivenAnswer | null = null;
  /** Status of the calls that have a result, by id. */
  readonly #ended = new Map<string | undefined, unknown>();
  /** Intents of calls, by id. */
  readonly #begun = new Map<string | undefined, BegunCall>();
  /** Ids of calls that were to change the same file concurrently. */
  readonly #concurrent = new Set<string | undefined>();
  /** Calls that were handed to a client, with their arguments at that time. */
  readonly #handed = new Map<string | undefined, ToolCall["args"]>();

  take(event: LogEvent): void {
    if (isOfSubAgent(event)) {
      this.ofSubAgents.push(event);
      const inner = event.extra?.metadata?.inner as { tool_calls?: readonly ToolCall[] } | undefined;
      this.callIds.push(...(inner?.tool_calls ?? []).map(({ id }) => id));
      return;
    }
    const { kind, role, extra } = event;
    if (messageOf(event) !== null) this.messages++;
    if (kind === "message" && role === "user") {
      this.userMessages++;
      this.userText ??= event.content;
    }
    if (kind === "tool_call" && extra?.metadata?.handed !== undefined)
      this.#handed.set(extra.tool_call_id, extra.metadata.args);
    else if (kind === "tool_call") this.#begin(extra?.tool_call_id, extra?.metadata);
    if (kind === "tool_result") this.#ended.set(extra?.tool_call_id, extra?.metadata?.status);
    const note = noteOf(event);
    if (note !== null) {
      this.notes.push(note);
      this.steps = 0;
      this.answer = null;
    }
    const { tool_calls: asked, metadata } = extra ?? {};
    if (kind !== "message") return;
    // A follow-up starts another turn of the same run.
    const isTurn = metadata?.type === "follow_up";
    if (isTurn) {
      this.steps = 0;
      this.#calls = [];
    }
    // After an answer, any new message starts the pattern again.
    if (isTurn || (role === "user" && this.answer !== null)) {
      this.notes.length = 0;
      this.ofSubAgents.length = 0;
    }
    const isAnswer = role === "assistant" && metadata?.stop_reason !== undefined && asked === undefined;
    const stop_reason = metadata?.stop_reason as StopReason;
    this.answer = isAnswer && metadata.status !== "subtask" ? { text: event.content, stop_reason } : null;
    // An answer counts as a step too: a later message may have followed it.
    if (role === "assistant" && metadata?.stop_reason !== undefined) this.steps++;
    if (role !== "assistant" || asked === undefined || metadata?.source === "client") return;
    this.#calls = asked;
    this.callIds.push(...asked.map(({ id }) => id));
  }

  /** Records the intent of a call. If concurrent calls change one file, its content does not show which of them has run. */
  #begin(id: string | undefined, metadata: Readonly<Record<string, unknown>> | undefined): void {
    const foreseen = (metadata?.foreseen as Foreseen | undefined) ?? null;
    this.#begun.set(id, {
      effect: metadata?.effect as ToolEffect,
      args: metadata?.args as ToolCall["args"] | undefined,
      isEdited: metadata?.edited === true,
      foreseen,
    });
    const others = [...this.#begun].filter(([other]) => other !== id && !this.#ended.has(other));
    for (const [other, begun] of others)
      if (foreseen !== null && begun.foreseen?.file === foreseen.file) this.#concurrent.add(other).add(id);
  }

  /** True if the last call of the last reply was denied; null if it has no result, or if there was no call. */
  get endedOnDenial(): boolean | null {
    const last = this.#calls.at(-1);
    return last === undefined || !this.#ended.has(last.id) ? null : this.#ended.get(last.id) === "denied";
  }

  /** Returns the calls of the last reply that have no result, with their waits. */
  open(waits: readonly WaitRow[]): PendingCall[] {
    return this.#calls.flatMap((call) => {
      if (this.#ended.has(call.id)) return [];
      const wait = waits.find(({ call: { tool_call_id } }) => tool_call_id === call.id) ?? null;
      const begun = wait === null ? this.#begun.get(call.id) : undefined;
      if (begun !== undefined)
        return [{ call, wait, begun: this.#concurrent.has(call.id) ? { ...begun, foreseen: null } : begun }];
      if (!this.#handed.has(call.id)) return [{ call, wait }];
      return [{ call: { ...call, args: this.#handed.get(call.id) ?? call.args }, wait, isHanded: true }];
    });
  }
}
