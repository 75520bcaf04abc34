import { type LogEntry, numberEntries } from "../../actors/log/entry.ts";
import type { AtEnd, TakeInputs, TakenInputs } from "../../actors/log/messages.ts";
import type { EventLog } from "../../actors/run/event-log/event-log.ts";
import { eventId } from "../../storage/tables/events.ts";
import type { RunEnding } from "../../storage/tables/runs.ts";
import type { Aliases } from "./aliases.ts";
import { compareValues, type Difference } from "./difference.ts";
import { inputKind, isOutside, type RecordedEvent, type Said, saidIn } from "./recorded-log.ts";
import type { RecordedRun } from "./recorded-run.ts";

/** Receives the results of comparing the replayed log. */
export interface ReplayLogReader {
  /** A value differs from the recorded log. */
  differs(difference: Difference, seq: number | null): void;
  /** The log ends here, because the recorded run is still open. */
  exhausted(): void;
  /** The run received an input here; `interrupts` if it skipped calls. */
  hint(interrupts: boolean): void;
  /** The replayed run ended. */
  ended(ending: RunEnding): void;
}

/** The event log of a replay: writes nothing, and compares each entry with the recorded event. */
export class ReplayLog implements EventLog {
  readonly threadId: string;
  readonly hasBegun = true;
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

  buffer(entries: readonly LogEntry[]): Promise<number> {
    return this.append(entries);
  }

  /** Number of the last hint. */
  get hints(): number {
    return this.#hints;
  }

  /** Notifies the run of an input, if the recorded input is next. */
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
    // The recorded run did not end here because an input was waiting; it ends later.
    if (unless !== null && (kind === "follow_up" || (kind === "steer" && unless === "end"))) return false;
    for (const entry of entries) this.#take(entry);
    const { left } = this.#run.log;
    if (left !== undefined)
      this.#reader.differs({ what: "the end of the run", expected: shown(left), found: null }, left.seq);
    this.#reader.ended(ending);
    return true;
  }

  /** A replay starts with the recorded messages, so its log is never opened. */
  async open(): Promise<never> {
    throw new Error("the log of a replay is open");
  }

  async begin(): Promise<never> {
    throw new Error("the log of a replay has begun");
  }

  async suspend(): Promise<void> {
    throw new Error("a replayed run has all its answers and cannot be suspended");
  }

  async writeUsage(): Promise<void> {}

  cutOff(): void {}

  release(): void {}

  publish(): void {}

  /** Matches an entry with its recorded event. */
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
    // A call that was refused or waited has no recorded intent, or has it elsewhere.
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
    // Controls and clocks add metadata to calls and results, which the replay does not reproduce.
    if (event.kind === "tool_call" || event.kind === "tool_result") return [];
    return compareValues("metadata", comparable(event), comparable(called));
  }
}

/** Returns the metadata without the verdicts of controls. */
function comparable({ metadata: { controls: _controls, ...rest } }: Said): unknown {
  return rest;
}

/** Returns the fields of an event for a report. */
function shown({ kind, role, content, name, tool_calls, metadata }: Said): unknown {
  return { kind, role, content, ...(name !== null && { name }), ...(tool_calls !== null && { tool_calls }), metadata };
}
