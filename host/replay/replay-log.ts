import { type LogEntry, numberEntries } from "../../actors/log/entry.ts";
import type { AtEnd, TakeInputs, TakenInputs } from "../../actors/log/messages.ts";
import type { EventLog } from "../../actors/run/event-log/event-log.ts";
import { eventId } from "../../storage/tables/events.ts";
import type { RunEnding } from "../../storage/tables/runs.ts";
import type { Aliases } from "./aliases.ts";
import { compareValues, type Difference } from "./difference.ts";
import { inputKind, isOutside, type RecordedEvent, type Said, saidIn } from "./recorded-log.ts";
import type { RecordedRun } from "./recorded-run.ts";

/** Told of what is written. */
export interface ReplayLogReader {
  /** Something is not what the log has. */
  differs(difference: Difference, seq: number | null): void;
  /** The log has no more: a run that is not over has come this far. */
  exhausted(): void;
  /** Something was said to the run here; `interrupts` when it kept calls from being made. */
  hint(interrupts: boolean): void;
  /** The run is over. */
  ended(ending: RunEnding): void;
}

/** The log of a run that is made again: nothing is written, and each entry is held against the event that is on record. */
export class ReplayLog implements EventLog {
  readonly threadId: string;
  readonly #run: RecordedRun;
  readonly #aliases: Aliases;
  readonly #reader: ReplayLogReader;
  #leafSeq: number;
  #hints = 0;

  constructor(run: RecordedRun, threadId: string, aliases: Aliases, reader: ReplayLogReader) {
    this.threadId = threadId;
    this.#run = run;
    this.#aliases = aliases;
    this.#reader = reader;
    this.#leafSeq = run.leafSeq;
  }

  get nextSeq(): number {
    return this.durableSeq;
  }

  get durableSeq(): number {
    return this.#leafSeq + 1;
  }

  leafIdAfter(count: number): string {
    return eventId(this.#run.thread.uid, this.#leafSeq + count);
  }

  async append(entries: readonly LogEntry[]): Promise<number> {
    for (const entry of entries) this.#take(entry);
    this.hintIfDue();
    return this.durableSeq;
  }

  hold(entries: readonly LogEntry[]): Promise<number> {
    return this.append(entries);
  }

  /** The number of the last hint. */
  get hints(): number {
    return this.#hints;
  }

  /** Tells the run that something was said to it, when it stands where that was. */
  hintIfDue(): void {
    if (this.#run.log.inputs(["steer", "note"]).length === 0) return;
    this.#hints++;
    this.#reader.hint(this.#run.log.isSuperseded);
  }

  async takeInputs({ moment }: Omit<TakeInputs, "run_id">): Promise<TakenInputs> {
    const isAtEnd = moment === "end" || moment === "end_of_steps";
    const taken = this.#run.log.inputs(isAtEnd ? ["follow_up", "note"] : ["steer", "note"]);
    for (const event of taken) this.#found(event);
    const inputs = taken.map((event) => ({
      kind: inputKind(event) ?? "note",
      content: event.content,
      sender: "",
      frame: null,
    }));
    return {
      inputs,
      durable_seq: this.durableSeq,
      seen: this.#hints,
      steers: isAtEnd ? this.#run.log.inputs(["steer"]).length : 0,
    };
  }

  async end(entries: readonly LogEntry[], _ops: unknown, ending: RunEnding, unless: AtEnd | null): Promise<boolean> {
    const next = this.#run.log.next("", entries.length);
    const kind = next === undefined ? null : inputKind(next);
    // It went on since somebody had said something; what it ended with is written then.
    if (unless !== null && (kind === "follow_up" || (kind === "steer" && unless === "end"))) return false;
    for (const entry of entries) this.#take(entry);
    const { left } = this.#run.log;
    if (left !== undefined)
      this.#reader.differs({ what: "the end of the run", expected: shown(left), found: null }, left.seq);
    this.#reader.ended(ending);
    return true;
  }

  async suspend(): Promise<void> {
    throw new Error("what a run waits for is on record");
  }

  publish(): void {}

  /** Finds the event that an entry is. */
  #take(entry: LogEntry): void {
    const said = this.#aliases.said(saidIn(entry));
    const { kind, agentPlace, tool_call_id } = said;
    const isCall = kind === "tool_call" || kind === "tool_result";
    const { log } = this.#run;
    const event = isCall
      ? log.ofCall(kind, agentPlace, tool_call_id ?? "")
      : isOutside(said)
        ? undefined
        : log.next(agentPlace);
    if (event !== undefined) {
      for (const difference of this.#compared(event, said)) this.#reader.differs(difference, event.seq);
      this.#found(event, entry);
      return;
    }
    // A call that was refused, or asked about, has no intent there, or has it elsewhere.
    numberEntries([entry], this.durableSeq);
    if (kind === "tool_call" || isOutside(said)) return;
    if (this.#run.row.ended_at === null) this.#reader.exhausted();
    else this.#reader.differs({ what: "the end of the log", expected: null, found: shown(said) }, null);
  }

  #found(event: RecordedEvent, entry?: LogEntry): void {
    this.#run.log.take(event);
    if (entry !== undefined) numberEntries([entry], event.seq);
    this.#leafSeq = Math.max(this.#leafSeq, event.seq);
  }

  #compared(event: RecordedEvent, said: Said): Difference[] {
    const called = this.#aliases.learn(event, said);
    const different = ["kind", "role", "content", "name", "tool_calls"].flatMap((field) =>
      compareValues(field, event[field as keyof Said], called[field as keyof Said]),
    );
    if (different.length > 0) return different;
    // What controls and clocks have added to calls and results is not made again.
    if (event.kind === "tool_call" || event.kind === "tool_result") return [];
    return compareValues("metadata", comparable(event), comparable(called));
  }
}

/** Without what only controls say. */
function comparable({ metadata: { controls: _controls, ...rest } }: Said): unknown {
  return rest;
}

/** An event, for whoever reads of it. */
function shown({ kind, role, content, name, tool_calls, metadata }: Said): unknown {
  return { kind, role, content, ...(name !== null && { name }), ...(tool_calls !== null && { tool_calls }), metadata };
}
