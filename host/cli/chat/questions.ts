import type { ServerAnswer } from "../../../plugins/command.ts";
import type { StreamFrame } from "../server-frames.ts";
import { harmless, inert } from "../terminal-text.ts";
import type { Lines } from "./lines.ts";
import type { TurnView } from "./turn-view.ts";

/** Sends a request to the server. */
export type Send = (path: string, body: object) => Promise<ServerAnswer>;

/** A question of a turn. */
interface Question {
  /** Id of the waiting call. */
  readonly callId: string;
  readonly frame: StreamFrame;
  readonly over: AbortController;
}

/** Max lines shown of arguments or a preview. */
const linesMax = 60;

/** Asks the user the questions of a turn, one at a time. A question ends when another client answers it. */
export class Questions {
  readonly #send: Send;
  readonly #view: TurnView;
  /** Null if there is no user to ask. */
  readonly #lines: Lines | null;
  readonly #open = new Set<Question>();
  #asking: Promise<void> = Promise.resolve();

  constructor(send: Send, view: TurnView, lines: Lines | null) {
    this.#send = send;
    this.#view = view;
    this.#lines = lines;
  }

  hear(frame: StreamFrame): void {
    const { name, data } = frame;
    const callId = callOf[name]?.(data);
    if (callId !== undefined) {
      const question = { callId, frame, over: new AbortController() };
      this.#open.add(question);
      this.#asking = this.#asking.then(() => this.#ask(question));
    } else if (name === "tool_end" || name === "tool_execution_update") {
      for (const question of this.#open) if (question.callId === data.id) question.over.abort();
    } else if (name === "done" || name === "final" || name === "aborted") void this.close();
  }

  /** Cancels all questions. Resolves when no prompt is open. */
  async close(): Promise<void> {
    for (const { over } of this.#open) over.abort();
    await this.#asking;
  }

  async #ask(question: Question): Promise<void> {
    if (!question.over.signal.aborted) {
      this.#lines?.forgetTyped();
      try {
        const { name, data } = question.frame;
        if (name === "approval_required") await this.#approval(data, question.over.signal);
        else if (name === "ui_request") await this.#question(data, question.over.signal);
        else await this.#call(data, question.over.signal);
      } catch (error) {
        this.#view.tell((error as Error).message);
      }
    }
    this.#open.delete(question);
  }

  async #approval(data: StreamFrame["data"], stop: AbortSignal): Promise<void> {
    const id = String(data.approval_id);
    this.#view.tell(`${inert(String(data.tool_name))} waits for approval: ${inert(String(data.reason))}`);
    const { preview, ...args } = data.args as Record<string, unknown>;
    this.#show(JSON.stringify(args, null, 2));
    if (typeof preview === "string") this.#show(preview);
    const by = `svc approvals approve ${inert(id)}`;
    if (this.#lines === null) return this.#view.tell(`There is no terminal to ask on: decide with ${by}, or deny.`);
    for (;;) {
      const said = (await this.#lines.next("Approve? y, n, n and a reason, or Enter to leave it open: ", stop))?.trim();
      if (said === undefined)
        return this.#view.tell(stop.aborted ? "Decided." : `Left open: decide with ${by}, or deny.`);
      if (said === "") return this.#view.tell(`Left open: decide with ${by}, or deny.`);
      const [, word = "", note = ""] = /^(y|yes|n|no)(?:\s+(.*))?$/is.exec(said) ?? [];
      if (word === "" || (/^y/i.test(word) && note !== "")) continue;
      const decision = /^y/i.test(word) ? "approved" : "denied";
      return this.#answer(`/approvals/${encodeURIComponent(id)}/decide`, { decision, note: note.slice(0, 2048) });
    }
  }

  async #question(data: StreamFrame["data"], stop: AbortSignal): Promise<void> {
    const { request_id, thread_id, kind, prompt } = data;
    const answer = (rest: object) => this.#answer("/chat/ui", { request_id, thread_id, ...rest });
    this.#view.tell(harmless(String(prompt)));
    if (this.#lines === null) return answer({ cancelled: true, note: "nobody can be asked" });
    const options = kind === "select" && Array.isArray(data.options) ? data.options.map(String) : [];
    for (const [at, option] of options.entries()) this.#view.tell(`  ${at + 1}  ${inert(option)}`);
    const usual = data.default === null || data.default === undefined ? "" : inert(String(data.default));
    const what = kind === "confirm" ? "y or n" : kind === "select" ? "number" : "answer";
    const prompted = `${what}${usual === "" ? ", or Enter for none" : `, or Enter for ${usual}`}: `;
    for (;;) {
      const said = (await this.#lines.next(prompted, stop))?.trim();
      if (said === undefined && stop.aborted) return this.#view.tell("Answered.");
      if (said === undefined || (said === "" && usual === "")) return answer({ cancelled: true });
      if (said === "") return answer({ value: data.default });
      const value = chosen(String(kind), said, options);
      if (value !== undefined) return answer({ value });
    }
  }

  async #call(data: StreamFrame["data"], stop: AbortSignal): Promise<void> {
    const { id, thread_id, name } = data;
    const answer = (rest: object) => this.#answer("/chat/tool_result", { tool_call_id: id, thread_id, ...rest });
    this.#view.tell(`${inert(String(name))} is a call for you to carry out:`);
    this.#show(JSON.stringify(data.args, null, 2));
    if (this.#lines === null) return answer({ error: true, content: "nobody is there to do it" });
    const said = (await this.#lines.next("Its result, or Enter if you did not do it: ", stop))?.trim();
    if (said === undefined && stop.aborted) return this.#view.tell("Answered.");
    return answer(said ? { content: said } : { error: true, content: "the user has not done it" });
  }

  async #answer(path: string, body: object): Promise<void> {
    const { status, body: text } = await this.#send(path, body);
    if (status === 403) this.#view.tell("The key may not answer this; use one with the scope.");
    else if (status === 409)
      this.#view.tell("It was already decided, or must be decided by another person than the one who asked.");
    else if (status >= 300) this.#view.tell(`The server answered ${status}: ${inert(text.slice(0, 500))}`);
  }

  /** Prints untrusted text with a bar at the left, so that it cannot imitate output of this command. */
  #show(text: string): void {
    const lines = harmless(text).split("\n");
    for (const line of lines.slice(0, linesMax)) this.#view.tell(`  │ ${line}`);
    if (lines.length > linesMax) this.#view.tell(`  │ … and ${lines.length - linesMax} more lines`);
  }
}

/** Returns the id of the waiting call for each frame that asks a question. */
const callOf: Readonly<Record<string, (data: StreamFrame["data"]) => string>> = {
  approval_required: ({ tool_call_id }) => String(tool_call_id),
  tool_request: ({ id }) => String(id),
  ui_request: ({ metadata }) => String((metadata as { tool_call_id?: unknown } | null)?.tool_call_id),
};

/** Converts an answer to the server's format; undefined if it does not match the question. */
function chosen(kind: string, said: string, options: readonly string[]): unknown {
  if (kind === "confirm") return /^(y|yes|n|no)$/i.test(said) ? /^y/i.test(said) : undefined;
  if (kind !== "select") return said;
  return options[Number(said) - 1] ?? options.find((option) => option === said);
}
