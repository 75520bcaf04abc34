import type { SvcError } from "../errors.ts";
import type { Channel } from "../protocol/channel.ts";
import type { AguiRun } from "../protocol/run.ts";
import { failureText } from "./native-stream.ts";
import type { RunOutput, RunResult } from "./output.ts";

// Output of POST /agui/{manifest}: the events of the protocol AG-UI 1.0. Facts of svc that the protocol has no event for are CUSTOM events with
// the name and the data of the native frame.

/** Native frames that are CUSTOM events. */
const customFrames: ReadonlySet<string> = new Set([
  ...["approval_required", "ui_request", "tool_request", "todo_updated", "steer", "follow_up", "workspace_note"],
  ...["subagent_start", "subagent_end", "permission_mode_changed", "max_turns", "run_status"],
]);

/** The output of a turn as AG-UI events. */
export class AguiStream implements RunOutput {
  readonly #channel: Channel;
  readonly #run: AguiRun;
  readonly #requestId: string;
  readonly #runKey: string;
  /** The message that is being written. */
  #open: { readonly kind: "text" | "reasoning"; readonly id: string } | null = null;
  #messages = 0;
  /** Calls that were announced. */
  readonly #calls = new Set<string>();

  /** `runKey` makes the ids of messages unique. */
  constructor(channel: Channel, run: AguiRun, runKey: string, requestId: string) {
    this.#channel = channel;
    this.#run = run;
    this.#runKey = runKey;
    this.#requestId = requestId;
  }

  get writable(): boolean {
    return this.#channel.writable;
  }

  onWritable(work: () => void): void {
    this.#channel.onWritable(work);
  }

  started(): void {
    this.#send(event("RUN_STARTED", this.#run));
  }

  text(delta: string): void {
    this.#write("text", delta);
  }

  thinking(delta: string): void {
    this.#write("reasoning", delta);
  }

  frame(name: string, data: unknown): void {
    if (name === "tool_start") {
      const { id, name: tool, input } = data as { id?: string; name: string; input: unknown };
      // The output of a followed durable run marks the steps of the model, and has no calls.
      if (id === undefined) {
        this.#send(this.#close());
        return;
      }
      this.#send(this.#close() + this.#call(id, tool, input));
    } else if (name === "tool_end") {
      const { id: toolCallId, output } = data as { id: string; output: string };
      const messageId = this.#nextId();
      this.#send(this.#close() + event("TOOL_CALL_RESULT", { messageId, toolCallId, content: output, role: "tool" }));
    } else if (customFrames.has(name)) this.#send(this.#close() + event("CUSTOM", { name, value: data }));
  }

  finished({ failure, failedCall, handed, stop_reason, aborted }: RunResult): void {
    let text = this.#close();
    if (failure !== null) {
      text += event("RUN_ERROR", { message: failure, code: failedCall?.code ?? "model_provider_error" });
    } else {
      for (const { id, name, args } of handed) text += this.#call(id, name, args);
      const outcome = { type: aborted ? "cancelled" : "success" };
      text += event("RUN_FINISHED", { ...this.#run, result: { stop_reason }, outcome });
    }
    this.#channel.send(text, true);
  }

  failed(error: SvcError): void {
    const message = failureText(error, this.#requestId).slice(0, 200);
    this.#channel.send(this.#close() + event("RUN_ERROR", { message, code: error.code }), true);
  }

  #send(text: string): void {
    if (text !== "") this.#channel.send(text, false);
  }

  #write(kind: "text" | "reasoning", delta: string): void {
    if (delta === "") return;
    let text = "";
    if (this.#open?.kind !== kind) {
      text = this.#close();
      this.#open = { kind, id: this.#nextId() };
      const messageId = this.#open.id;
      if (kind === "reasoning") text += event("REASONING_START", { messageId });
      const role = kind === "text" ? "assistant" : "reasoning";
      text += event(`${prefixes[kind]}_START`, { messageId, role });
    }
    this.#send(text + event(`${prefixes[kind]}_CONTENT`, { messageId: this.#open.id, delta }));
  }

  /** Ends the message that is being written. */
  #close(): string {
    if (this.#open === null) return "";
    const { kind, id: messageId } = this.#open;
    this.#open = null;
    const end = event(`${prefixes[kind]}_END`, { messageId });
    return kind === "reasoning" ? end + event("REASONING_END", { messageId }) : end;
  }

  #call(toolCallId: string, toolCallName: string, input: unknown): string {
    if (this.#calls.has(toolCallId)) return "";
    this.#calls.add(toolCallId);
    return (
      event("TOOL_CALL_START", { toolCallId, toolCallName }) +
      event("TOOL_CALL_ARGS", { toolCallId, delta: JSON.stringify(input ?? {}) }) +
      event("TOOL_CALL_END", { toolCallId })
    );
  }

  #nextId(): string {
    return `msg_${this.#runKey}_${this.#messages++}`;
  }
}

const prefixes = { text: "TEXT_MESSAGE", reasoning: "REASONING_MESSAGE" } as const;

function event(type: string, fields: object): string {
  return `data: ${JSON.stringify({ type, ...fields })}\n\n`;
}
