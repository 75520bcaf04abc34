import type { Outcome } from "../../../plugins/command.ts";
import type { CommandIo } from "../command.ts";
import { refused, type Sentences } from "../refused.ts";
import { askServer } from "../server-call.ts";
import { type OpenStream, openFrames, type StreamEnd, type StreamFrame } from "../server-frames.ts";
import { harmlessJson, inert } from "../terminal-text.ts";
import type { Lines } from "./lines.ts";
import { Questions } from "./questions.ts";
import { TurnView } from "./turn-view.ts";

/** The outcome of a message. `mayPass`: a later or different message may be accepted. */
export type Spoken =
  | { readonly kind: "said" }
  | { readonly kind: "failed" }
  | { readonly kind: "interrupted" }
  | { readonly kind: "refused"; readonly outcome: Outcome; readonly mayPass: boolean }
  /** `message` is null if the connection was lost after frames had arrived. */
  | { readonly kind: "gone"; readonly message: string | null };

interface SessionOptions {
  readonly io: CommandIo;
  readonly url: string;
  /** Null for the thread's own manifest. */
  readonly manifest: string | null;
  /** The manifest of a new thread. */
  readonly usualManifest: string;
  readonly thread: string;
  /** True if the thread may already exist. */
  readonly isOld: boolean;
  readonly model: string | null;
  readonly withThoughts: boolean;
  /** Prints frames as JSON; shows and asks nothing. */
  readonly asJson: boolean;
}

/** The part of a thread's snapshot that the command uses. */
interface Snapshot {
  readonly manifest: string | null;
  readonly phase: string;
  readonly transcript: readonly { readonly seq: number; readonly role: string | null; readonly content: string }[];
}

/** Max earlier messages shown for an existing thread, and max characters of each. */
const pastMax = 6;
const pastCharactersMax = 2_000;

/** Interval at which the end of a silent turn is polled. */
const lookMs = 5_000;

/** The client side of a thread with an agent. */
export class ChatSession {
  readonly thread: string;
  /** True if the server has sent a frame. */
  hasSpoken = false;
  readonly #options: SessionOptions;
  #manifest: string;
  #isResumed = false;
  #stream: OpenStream | null = null;
  #isStopping = false;
  #view: TurnView;

  constructor(options: SessionOptions) {
    this.#options = options;
    this.thread = options.thread;
    this.#manifest = options.manifest ?? options.usualManifest;
    this.#view = this.#newView();
  }

  /** The manifest of the thread. */
  get manifest(): string {
    return this.#manifest;
  }

  /** Returns the arguments of `svc chat` that resume the thread. */
  words(): string {
    const { url } = this.#options;
    const { SVC_PORT = "8080" } = this.#options.io.environment;
    const elsewhere = url === `http://127.0.0.1:${SVC_PORT}` ? "" : ` --url ${url}`;
    const quoted = (text: string) => (/^[\w.:-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);
    return `${quoted(this.#manifest)} --thread ${quoted(this.thread)}${elsewhere}`;
  }

  /** Prints the agent, the thread and the key bindings. */
  greet(): void {
    this.#view.tell(`${this.#manifest}, in the ${this.#isResumed ? "" : "new "}thread ${this.thread}`);
    this.#view.tell("Ctrl-C stops a turn, Ctrl-D quits; a backslash at the end of a line continues the message.");
  }

  /** Shows the history of an existing thread and follows its live turn. Null if there is none. */
  async open(lines: Lines | null): Promise<Spoken | null> {
    const snapshot = await this.#snapshot();
    if (snapshot === null) return null;
    this.#isResumed = snapshot.transcript.length > 0;
    this.#manifest = this.#options.manifest ?? snapshot.manifest ?? this.#manifest;
    if (lines?.isTyped && !this.#options.asJson) this.#showPast(snapshot);
    if (!isLive(snapshot)) return null;
    const last = snapshot.transcript.at(-1)?.seq ?? -1;
    const headers = ["last-event-id", String(last + 1)];
    return this.#follow(
      { method: "GET", path: `/chat/stream/${encodeURIComponent(this.thread)}`, body: null, headers },
      lines,
    );
  }

  /** Sends a message and shows the turn. */
  say(text: string, lines: Lines | null): Promise<Spoken> {
    const { model } = this.#options;
    const messages = [{ role: "user", content: text }];
    const body = { manifest: this.#manifest, thread_id: this.thread, messages, ...(model !== null && { model }) };
    return this.#follow({ method: "POST", path: "/chat/stream", body, headers: [] }, lines);
  }

  /** Asks the server to stop the turn. Returns false if there is no turn or it is already stopping. */
  interrupt(): boolean {
    if (this.#stream === null || this.#isStopping) return false;
    this.#isStopping = true;
    this.#view.tell("Stopping the turn; press Ctrl-C again to quit at once.");
    this.#send("/chat/abort", { thread_id: this.thread }).then(
      ({ status, body }) =>
        status < 300 || this.#view.tell(`The turn is still running: the server answered ${status}: ${inert(body)}`),
      (error: Error) => this.#view.tell(error.message),
    );
    return true;
  }

  /** Prints a sentence for the user. */
  tell(text: string): void {
    this.#view.tell(text);
  }

  /** Ends an open line, so that the next output starts a new one. */
  endLine(): void {
    this.#view.endLine();
  }

  async #follow(
    request: { method: "GET" | "POST"; path: string; body: object | null; headers: readonly string[] },
    lines: Lines | null,
  ): Promise<Spoken> {
    const { io, url, asJson } = this.#options;
    const key = io.environment.SVC_KEY;
    const view = this.#newView();
    this.#view = view;
    const questions = asJson ? null : new Questions((path, body) => this.#send(path, body), view, lines);
    const stream = openFrames({ ...request, url: url + request.path, key }, (frame) => {
      this.hasSpoken = true;
      if (asJson) this.#print(frame, view);
      else view.show(frame);
      questions?.hear(frame);
      if (request.method === "GET" && endsTurn(frame)) void this.#closeWhenOver(stream);
    });
    if (request.method === "GET") this.#lookAgain(stream);
    this.#stream = stream;
    const end = await stream.ended;
    view.endLine();
    await questions?.close();
    const wasStopped = this.#isStopping;
    this.#stream = null;
    this.#isStopping = false;
    return spokenOf(end, wasStopped, view.failure !== null, this);
  }

  /** A reattached stream may not carry the end of the turn, so read it from the snapshot. */
  async #closeWhenOver(stream: OpenStream): Promise<void> {
    const snapshot = await this.#snapshot().catch(() => null);
    if (snapshot !== null && !isLive(snapshot)) stream.close();
  }

  #lookAgain(stream: OpenStream): void {
    this.#options.io.env.timer(lookMs, () => {
      if (this.#stream !== stream) return;
      void this.#closeWhenOver(stream).then(() => this.#lookAgain(stream));
    });
  }

  #print({ name, data, id }: StreamFrame, view: TurnView): void {
    if (name === "on_error" || name === "error") view.failure = String(data.message);
    this.#options.io.talk.output.write(`${harmlessJson({ ...(id !== null && { id }), event: name, data })}\n`);
  }

  async #snapshot(): Promise<Snapshot | null> {
    const { io, url, isOld } = this.#options;
    if (!isOld) return null;
    const path = `/chat/sessions/${encodeURIComponent(this.thread)}`;
    const { status, body } = await askServer("GET", url + path, io.environment.SVC_KEY);
    // A key without the right to read can still continue the thread, without its history.
    return status === 200 ? (JSON.parse(body) as Snapshot) : null;
  }

  #showPast({ transcript }: Snapshot): void {
    const said = transcript.filter(({ role, content }) => (role === "user" || role === "assistant") && content !== "");
    for (const { role, content } of said.slice(-pastMax)) {
      const text = content.length > pastCharactersMax ? `${content.slice(0, pastCharactersMax)}…` : content;
      this.#view.say(`${role === "user" ? "> " : ""}${text}`);
      this.#view.endLine();
    }
  }

  #send(path: string, body: object) {
    const { io, url } = this.#options;
    return askServer("POST", url + path, io.environment.SVC_KEY, body);
  }

  #newView(): TurnView {
    const { io, withThoughts } = this.#options;
    return new TurnView(io.talk, withThoughts);
  }
}

function isLive({ phase }: Snapshot): boolean {
  return phase === "turn" || phase === "compaction" || phase === "retry";
}

/** True if the turn may be over after this frame. */
function endsTurn({ name, data }: StreamFrame): boolean {
  if (name === "session_event") return data.role === "assistant" && data.tool_calls === undefined;
  return name === "on_error" || name === "aborted" || name === "done";
}

function spokenOf(end: StreamEnd, wasStopped: boolean, hasFailed: boolean, { thread }: ChatSession): Spoken {
  if (wasStopped) return { kind: "interrupted" };
  if (end.kind === "no_answer") return { kind: "gone", message: end.message };
  if (end.kind === "lost") return { kind: "gone", message: null };
  if (end.kind !== "refused") return { kind: hasFailed ? "failed" : "said" };
  const { answer } = end;
  const outcome = refused(answer, sentences, thread);
  return { kind: "refused", outcome, mayPass: [400, 409, 413, 429, 503].includes(answer.status) };
}

const sentences: Sentences = {
  run_in_progress: (thread) => `A turn is running in ${thread}: wait until it ends, or follow it with --thread.`,
  invalid_thread_id: () => "--thread is not a valid thread id.",
};
