import type { StopReason } from "../../../bus/protocol/model-reply.ts";
import type { ToolEffect } from "../../../manifests/registries.ts";
import type { LogEvent, ToolCall } from "../../../storage/tables/events.ts";
import type { WaitRow } from "../../../storage/tables/waits.ts";
import { messageOf } from "../../log/message.ts";
import { isOfSubAgent } from "../../log/sub-agent-events.ts";
import type { Foreseen } from "../../tools/tool.ts";
import { noteOf, type RunNote } from "../spec/notes.ts";
import type { BegunCall, GivenAnswer, PendingCall } from "../spec/run-spec.ts";

/** What an agent has in the log of its run: its notes, how often it has asked its model since, and which calls have no result. */
export class Tail {
  /** Model calls that have asked for tools, since the last note. */
  steps = 0;
  messages = 0;
  userMessages = 0;
  /** What its caller has said first; null when nothing. */
  userText: string | null = null;
  /** Of the agent and of its sub-agents: no id is used twice in a run. */
  readonly callIds: string[] = [];
  readonly notes: RunNote[] = [];
  /** Events of its sub-agents. */
  readonly ofSubAgents: LogEvent[] = [];
  #calls: readonly ToolCall[] = [];
  /** The last that it has said, where that was its answer and not a part of its work; null else. */
  answer: GivenAnswer | null = null;
  /** How calls have ended that have a result. */
  readonly #ended = new Map<string | undefined, unknown>();
  /** Calls that were begun. */
  readonly #begun = new Map<string | undefined, BegunCall>();
  /** Of these, those that were to change a file while another was. */
  readonly #beside = new Set<string | undefined>();
  /** Calls that were given to a client, with their arguments then. */
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
    // Another turn of the same run.
    const isTurn = metadata?.type === "follow_up";
    if (isTurn) {
      this.steps = 0;
      this.#calls = [];
    }
    // Whatever was said to an answer, its pattern has begun anew behind it.
    if (isTurn || (role === "user" && this.answer !== null)) {
      this.notes.length = 0;
      this.ofSubAgents.length = 0;
    }
    const isAnswer = role === "assistant" && metadata?.stop_reason !== undefined && asked === undefined;
    const stop_reason = metadata?.stop_reason as StopReason;
    this.answer = isAnswer && metadata.status !== "subtask" ? { text: event.content, stop_reason } : null;
    // An answer that something was said to before it was the last one.
    if (role === "assistant" && metadata?.stop_reason !== undefined) this.steps++;
    if (role !== "assistant" || asked === undefined || metadata?.source === "client") return;
    this.#calls = asked;
    this.callIds.push(...asked.map(({ id }) => id));
  }

  /** A call was begun. Of calls that change one file side by side, the file does not tell which of them has. */
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
      if (foreseen !== null && begun.foreseen?.file === foreseen.file) this.#beside.add(other).add(id);
  }

  /** Whether the last call of the last time was denied; null while it has no result, and where there was none. */
  get endedOnDenial(): boolean | null {
    const last = this.#calls.at(-1);
    return last === undefined || !this.#ended.has(last.id) ? null : this.#ended.get(last.id) === "denied";
  }

  /** The calls of the last time that have no result, with what they wait for. */
  open(waits: readonly WaitRow[]): PendingCall[] {
    return this.#calls.flatMap((call) => {
      if (this.#ended.has(call.id)) return [];
      const wait = waits.find(({ call: { tool_call_id } }) => tool_call_id === call.id) ?? null;
      const begun = wait === null ? this.#begun.get(call.id) : undefined;
      if (begun !== undefined)
        return [{ call, wait, begun: this.#beside.has(call.id) ? { ...begun, foreseen: null } : begun }];
      if (!this.#handed.has(call.id)) return [{ call, wait }];
      return [{ call: { ...call, args: this.#handed.get(call.id) ?? call.args }, wait, isHanded: true }];
    });
  }
}
