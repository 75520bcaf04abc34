import { frameProblem, withoutId } from "./frame-shapes.ts";
import type { Frame } from "./sse-frames.ts";

// The order of frames, as state machines that every recorded stream of the server must satisfy. The test client checks
// each stream that it reads with the machine of its kind.

/** Checks a stream frame by frame. Both methods throw on a violation. */
export interface FrameMachine {
  take(frame: Frame): void;
  /** The server has ended the stream; one that is cut off has no end. */
  end(): void;
}

/**
 * The machine for a stream: of a started turn, of a repeated request, or of a listener. `cursor` is the listener's own.
 */
export function frameMachine(
  stream:
    | { readonly kind: "turn"; readonly threaded: boolean }
    | { readonly kind: "replay" }
    | { readonly kind: "run" }
    | { readonly kind: "tail"; readonly cursor: number | null },
): FrameMachine {
  if (stream.kind === "run") return new RunMachine();
  if (stream.kind === "turn") return orOfRun(new TurnMachine(stream.threaded));
  return stream.kind === "replay" ? orOfRun(new ReplayMachine()) : new TailMachine(stream.cursor);
}

/** Frames that only come after the frame they belong to. */
const secondHalves = new Set(["text_delta", "thinking_delta", "tool_execution_update"]);

/** The rules that all streams share. */
abstract class Machine implements FrameMachine {
  #isOver = false;
  /** The only frame allowed next, with a check of its data; null for any. */
  #next: { readonly name: string; readonly fits: (data: Frame["json"]) => boolean } | null = null;
  /** The frame is the other half of the one before it. */
  protected isSecond = false;
  #names = "";

  take(frame: Frame): void {
    const { name } = frame;
    if (name === ":") {
      if (frame.raw !== ": keep-alive\n\n") this.fail(`the comment ${frame.raw}`);
      return;
    }
    this.#names = `${this.#names} ${name}`.slice(-400);
    if (this.#isOver) this.fail(`${name} behind the end`);
    if (name === "[DONE]") {
      if (frame.raw !== "data: [DONE]\n\n") this.fail("the end mark is another");
      if (this.#next !== null) this.fail(`the end in the place of ${this.#next.name}`);
      this.over();
      this.#isOver = true;
      return;
    }
    const problem = frameProblem(frame);
    if (problem !== null) this.fail(`${frame.raw.trim()}\n${name}: ${problem}`);
    const expected = this.#next;
    this.#next = null;
    if (expected !== null && name !== "error" && (expected.name !== name || !expected.fits(frame.json.data)))
      this.fail(`${frame.raw.trim()}\nin the place of ${expected.name}`);
    this.isSecond = expected !== null && name !== "error";
    const isProgress = name === "tool_execution_update" && frame.json.data.progress !== undefined;
    if (!this.isSecond && secondHalves.has(name) && !isProgress) this.fail(`${name} alone`);
    this.follow(frame);
  }

  end(): void {
    if (!this.#isOver) this.fail("the stream ends without [DONE]");
  }

  protected fail(what: string): never {
    throw new Error(`a stream breaks its rules: ${what}\nbehind ${this.#names}`);
  }

  protected expect(name: string, fits: (data: Frame["json"]) => boolean = () => true): void {
    this.#next = { name, fits };
  }

  protected abstract follow(frame: Frame): void;
  /** The end mark has come. */
  protected abstract over(): void;

  /** Text and thoughts are two frames each: progress and the delta. Returns the text; null for other frames. */
  protected spoken({ name, json }: Frame): string | null {
    if (name !== "session_progress" || json.data.progress === undefined) return null;
    const { kind, delta } = json.data.progress;
    if (delta === "") this.fail("a delta without a word");
    this.expect(`${kind}_delta`, (data) => data.delta === delta && data.chunk.content === delta);
    return kind === "text" ? delta : "";
  }
}

/** The stream of the client that started a turn. */
class TurnMachine extends Machine {
  readonly #threaded: boolean;
  #at: "start" | "turn" | "max_turns" | "aborted" | "on_error" | "on_chain_end" | "done" | "error" = "start";
  #lastId = 0;
  /** Names of the calls that are open, by their ids. */
  readonly #calls = new Map<string, string>();
  /** The latest input of each call at its start, by its id. */
  readonly #inputs = new Map<string, string>();
  #childrenOpen = 0;
  /** True while a background task runs during the turn. */
  #isBeside = false;
  readonly #questions = new Set<string>();
  /** Reported to-do lists whose calls have not ended. */
  #listsTold = 0;
  /** The name of the call that has ended last. */
  #lastEnded = "";
  #isOutOfSteps = false;
  #isAborted = false;
  /** The text since the end of the last call. */
  #words = "";

  constructor(threaded: boolean) {
    super();
    this.#threaded = threaded;
  }

  protected follow(frame: Frame): void {
    const { name, json } = frame;
    this.#checkId(frame);
    if (name === "error") {
      if (this.#at === "done") this.fail("a failure behind the end of the turn");
      this.#at = "error";
      return;
    }
    if (this.#at === "start") {
      if (name !== "session_progress" || json.data.phase !== "turn" || json.data.replay) this.fail(`${name} first`);
      this.#at = "turn";
      return;
    }
    if (name === "on_chain_end" || name === "done" || this.#at !== "turn") this.#ending(name, json.data);
    else this.#turn(frame);
  }

  protected over(): void {
    if (this.#at !== "done" && this.#at !== "error") this.fail(`the end behind ${this.#at}`);
  }

  #checkId({ name, id }: Frame): void {
    if (withoutId.has(name) || !this.#threaded) {
      if (id !== null) this.fail(`${name} has an id`);
      return;
    }
    const seq = Number(id);
    if (id === null || !Number.isSafeInteger(seq) || String(seq) !== id || seq < 1)
      this.fail(`${name} has the id ${id}`);
    if (seq < this.#lastId) this.fail(`${name} goes back from ${this.#lastId} to ${seq}`);
    this.#lastId = seq;
  }

  #turn(frame: Frame): void {
    const { name, json } = frame;
    const { data } = json;
    if (this.isSecond) return;
    const words = this.spoken(frame);
    if (words !== null) {
      if (this.#calls.size > 0) this.fail("words while a call is open");
      this.#words += words;
      return;
    }
    switch (name) {
      case "session_progress":
        if (data.phase === "turn") this.fail("a turn begins twice");
        this.#between(data.phase);
        return;
      case "tool_start":
        // A call starts again when a person has edited its arguments.
        if (this.#inputs.get(data.id) === JSON.stringify(data.input)) this.fail(`${data.id} begins twice`);
        this.#inputs.set(data.id, JSON.stringify(data.input));
        this.#calls.set(data.id, data.name);
        this.expect("tool_execution_update", (next) => isUpdate(next, data, "running"));
        return;
      case "tool_execution_update":
        if (this.#calls.get(data.id) !== data.name) this.fail(`progress of ${data.id}, which does not run`);
        return;
      case "tool_end":
        this.#ended(data);
        this.expect("tool_execution_update", (next) => isUpdate(next, data, "complete"));
        return;
      case "tool_request":
        if (!this.#hasChild && this.#open(data.id) !== data.name) this.fail(`${data.id} is another tool's`);
        this.#asked(name, [data.id]);
        return;
      case "approval_required":
        // The row of a turn without a thread names no call, as no request could find it.
        if (this.#threaded !== (data.tool_call_id !== "")) this.fail(`the call ${data.tool_call_id}`);
        if (!this.#hasChild && this.#threaded) this.#open(data.tool_call_id);
        this.#asked(name, [data.approval_id, data.tool_call_id]);
        return;
      case "ui_request":
        if (this.#calls.size === 0 && !this.#isBeside) this.fail("a question of no call");
        this.#asked(name, [data.request_id]);
        return;
      case "todo_updated":
        if (++this.#listsTold > this.#count("todo_write")) this.fail("a list that no call writes");
        return;
      case "subagent_start":
        if (this.#count("task") === 0) this.fail("a child of no call");
        if (data.background) this.#isBeside = true;
        else this.#childrenOpen++;
        return;
      case "subagent_end":
        if (this.#childrenOpen-- === 0) this.fail("a child ends that has not begun");
        return;
      case "permission_mode_changed":
        if (this.#lastEnded !== "exit_plan_mode") this.fail("a mode that no call has changed");
        return;
      case "steer":
      case "follow_up":
      case "workspace_note":
        this.#between(name);
        return;
      case "max_turns":
        this.#isOutOfSteps = true;
        this.#between(name);
        this.#at = "max_turns";
        return;
      case "aborted":
        this.#isAborted = true;
        this.#between(name);
        this.#at = "aborted";
        return;
      case "on_error":
        this.#between(name);
        this.#at = "on_error";
        return;
      default:
        this.fail(`${name} on the stream of a turn`);
    }
  }

  /** The order of frames after the last step: max_turns, aborted, on_error, on_chain_end, done. */
  #ending(name: string, data: Frame["json"]): void {
    const order = ["turn", "max_turns", "aborted", "on_error", "on_chain_end", "done"];
    const [from, to] = [order.indexOf(this.#at), order.indexOf(name)];
    if (from < 0 || to <= from || (to === 5 && from !== 4)) this.fail(`${name} behind ${this.#at}`);
    this.#between(name);
    this.#at = name as "done";
    if (name === "aborted") this.#isAborted = true;
    if (name !== "done") return;
    const isMaxTurns = data.stop_reason === "max_turns";
    if (isMaxTurns !== this.#isOutOfSteps) this.fail(`done says ${data.stop_reason}`);
    // No text is lost: the reply ends in the streamed text, or extends it where a limit ended the run.
    if (this.#words !== "" && data.final === null && !this.#isAborted) this.fail("words, and no reply");
  }

  /** True if a child run is active: its calls are not streamed, but its questions are. */
  get #hasChild(): boolean {
    return this.#childrenOpen > 0 || this.#isBeside;
  }

  #open(id: string): string {
    const name = this.#calls.get(id);
    if (name === undefined) this.fail(`${id} has not begun, or is over`);
    return name;
  }

  /** Calls of a tool that are open. */
  #count(name: string): number {
    return [...this.#calls.values()].filter((each) => each === name).length;
  }

  #ended({ id, name, output }: { readonly id: string; readonly name: string; readonly output: string }): void {
    if (this.#open(id) !== name) this.fail(`${id} ends as another tool's`);
    if (name === "todo_write" && output.startsWith("the list has") && this.#listsTold-- === 0)
      this.fail("a list that was not told");
    this.#calls.delete(id);
    this.#lastEnded = name;
    this.#words = "";
    // The end of a stopped task's call also ends its child.
    if (this.#count("task") === 0) this.#childrenOpen = 0;
    if (this.#count("todo_write") === 0) this.#listsTold = 0;
  }

  /** Between two steps no call is open. */
  #between(name: string): void {
    if (this.#calls.size > 0) this.fail(`${name} while ${[...this.#calls.keys()]} is open`);
  }

  #asked(name: string, ids: readonly string[]): void {
    const key = [name, ...ids].join(" ");
    if (this.#questions.has(key)) this.fail(`${key} is asked twice`);
    this.#questions.add(key);
  }
}

function isUpdate(next: Frame["json"], { id, name }: Frame["json"], status: string): boolean {
  return next.id === id && next.name === name && next.status === status;
}

/** The stream of a client that has repeated a request with the same key. */
class ReplayMachine extends Machine {
  #lastSeq = -1;
  #hasFailed = false;

  protected follow({ name, id, json }: Frame): void {
    if (this.#hasFailed) this.fail(`${name} behind the failure`);
    if (name === "error" || name === "on_error") {
      this.#hasFailed = true;
      return;
    }
    if (name !== "session_event") this.fail(`${name} in a replay`);
    const { seq } = json.data;
    if (seq <= this.#lastSeq) this.fail(`${seq} behind ${this.#lastSeq}`);
    if (id !== String(seq + 1)) this.fail(`${seq} has the id ${id}`);
    this.#lastSeq = seq;
  }

  protected over(): void {}
}

/**
 * Frames of a thread that only the client that started the turn receives (decision 7: listeners get session events).
 */
export const onlyStarters: ReadonlySet<string> = new Set(
  "tool_start tool_end tool_execution_update on_chain_end done on_error max_turns aborted error".split(" "),
);

/** The stream of a listener. */
class TailMachine extends Machine {
  /** The sequence number of the next event for the listener; null before the first event. */
  #next: number | null;
  #isFirst = true;
  /** Text since the newest answer; null unless all of it was received. */
  #words: string | null = null;
  #hasTurn = false;
  readonly #questions = new Set<string>();

  constructor(cursor: number | null) {
    super();
    this.#next = cursor;
  }

  protected follow(frame: Frame): void {
    const { name, id, json } = frame;
    const { data } = json;
    if (onlyStarters.has(name)) this.fail(`${name} for one who listens`);
    if (withoutId.has(name) !== (id === null)) this.fail(`${name} has the id ${id}`);
    if (this.#isFirst && this.#next === null && name !== "snapshot") this.fail(`${name} before the snapshot`);
    this.#isFirst = false;
    if (this.isSecond) return;
    const words = this.spoken(frame);
    if (words !== null) {
      if (!this.#hasTurn) this.fail("words before a turn");
      if (this.#words !== null) this.#words += words;
      return;
    }
    if (name === "snapshot") {
      this.#next = Number(id);
      this.#words = null;
      const last = data.transcript.at(-1)?.seq ?? -1;
      if (last >= this.#next) this.fail(`the snapshot has ${last}, and the id ${id}`);
    } else if (name === "session_event") this.#event(frame);
    else if (name === "session_progress") {
      if (data.phase !== "turn") return;
      this.#hasTurn = true;
      this.#words = data.truncated ? null : "";
    } else this.#other(frame);
  }

  protected over(): void {
    if (this.#isFirst && this.#next === null) this.fail("no snapshot");
  }

  #event({ id, json }: Frame): void {
    const { seq, kind, role, content } = json.data;
    if (id !== String(seq + 1)) this.fail(`${seq} has the id ${id}`);
    if (this.#next !== null && seq !== this.#next) this.fail(`the event ${seq} in the place of ${this.#next}`);
    this.#next = seq + 1;
    if (kind !== "message" || role !== "assistant") return;
    const said = this.#words ?? "";
    if (!content.startsWith(said) && !said.endsWith(content))
      this.fail(`heard ${JSON.stringify(said)}, and the log has ${JSON.stringify(content)}`);
    if (this.#words !== null) this.#words = "";
  }

  #other({ name, id, json }: Frame): void {
    if (this.#next !== null && Number(id) > this.#next) this.fail(`${name} has the id ${id} before ${this.#next}`);
    const { data } = json;
    const ids: Readonly<Record<string, readonly string[]>> = {
      approval_required: [data.approval_id, data.tool_call_id],
      ui_request: [data.request_id],
    };
    const asked = ids[name];
    if (asked === undefined) return;
    const key = [name, ...asked].join(" ");
    if (this.#questions.has(key)) this.fail(`${key} is told twice`);
    this.#questions.add(key);
  }
}

/** The same route streams a durable run when the manifest says so: its first frame decides. */
function orOfRun(otherwise: FrameMachine): FrameMachine {
  let machine: FrameMachine | null = null;
  return {
    take(frame) {
      if (frame.name !== ":") machine ??= frame.name === "run_accepted" ? new RunMachine() : otherwise;
      machine?.take(frame);
    },
    end: () => (machine ?? otherwise).end(),
  };
}

/** The stream of a durable run: its transcript, its state and its ending. */
class RunMachine extends Machine {
  #isFirst = true;
  #lastSeq: number | null = null;
  #status = "";
  #isEnded = false;
  readonly #questions = new Set<string>();

  protected follow(frame: Frame): void {
    const { name, id, json } = frame;
    if (this.#isEnded) this.fail(`${name} behind the end of the run`);
    if (name === "run_accepted" && !this.#isFirst) this.fail("accepted twice");
    this.#isFirst = false;
    if (withoutId.has(name) !== (id === null)) this.fail(`${name} has the id ${id}`);
    if (this.isSecond || this.spoken(frame) !== null) return;
    if (name === "final" || name === "error") this.#ended(name, json);
    else if (name === "run_status") this.#stands(json.data);
    else if (name === "session_event") this.#event(frame);
    else if (name === "approval_required" || name === "ui_request" || name === "tool_request") {
      const key = JSON.stringify([
        name,
        json.data.approval_id,
        json.data.tool_call_id,
        json.data.request_id,
        json.data.id,
      ]);
      if (this.#questions.has(key)) this.fail(`${key} is told twice`);
      this.#questions.add(key);
    }
  }

  protected over(): void {
    if (!this.#isEnded) this.fail("the stream of a run ends before the run");
  }

  #event({ id, json }: Frame): void {
    const { seq } = json.data;
    if (id !== String(seq + 1)) this.fail(`${seq} has the id ${id}`);
    if (this.#lastSeq !== null && seq !== this.#lastSeq + 1) this.fail(`the event ${seq} behind ${this.#lastSeq}`);
    this.#lastSeq = seq;
  }

  #stands({ status, attempt, step, waiting_on }: Frame["json"]): void {
    const told = JSON.stringify([status, attempt, step, waiting_on]);
    if (told === this.#status) this.fail("a status is told twice");
    if (["completed", "failed", "expired", "dead"].includes(JSON.parse(this.#status || '[""]')[0]))
      this.fail(`${status} behind the end`);
    this.#status = told;
  }

  #ended(name: string, json: Frame["json"]): void {
    const status = JSON.parse(this.#status || '[""]')[0];
    if ((name === "final") !== (status === "completed")) this.fail(`${name} of a run that is ${status}`);
    if (name === "error" && json.error.type !== "run_error") this.fail(`the failure ${json.error.type}`);
    this.#isEnded = true;
  }
}
