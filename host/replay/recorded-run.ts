import { SvcError } from "../../bus/errors.ts";
import type { TenantStore } from "../../storage/store/store.ts";
import { durableRowById } from "../../storage/tables/durable-rows.ts";
import { type LogEvent, readEvents, runOfEvent } from "../../storage/tables/events.ts";
import { countModelCalls, type ModelCallRow, modelCall } from "../../storage/tables/model-calls.ts";
import { type RunRow, runByKey, runNumber, runOfThread } from "../../storage/tables/runs.ts";
import { type ThreadRow, threadByKey } from "../../storage/tables/threads.ts";
import { isOutside, RecordedLog, saidIn } from "./recorded-log.ts";

/** A run as stored. */
export interface RecordedRun {
  readonly row: RunRow & { readonly thread_key: number };
  readonly thread: ThreadRow;
  /** In the order of their numbers. */
  readonly calls: readonly ModelCallRow[];
  /** Events that the run wrote after its start. */
  readonly log: RecordedLog;
  /** The sequence number after the messages that the run started with. */
  readonly begunSeq: number;
  /** The event before that number, on the branch of the run. */
  readonly leafSeq: number;
}

/** Why a run cannot be replayed. */
export class NotOnRecord extends Error {
  readonly code: "run_not_found" | "not_on_record";

  constructor(code: NotOnRecord["code"], message: string) {
    super(message);
    this.code = code;
  }
}

/**
 * Reads a run with its events and model calls. Refuses with NotOnRecord, also if records of model calls start after some of the
 * run's replies. Fails as the store does.
 */
export async function readRecordedRun(store: TenantStore, runId: string): Promise<RecordedRun> {
  const row = await rowOf(store, runId);
  const { thread_key } = row;
  if (thread_key === null || row.first_seq === null)
    throw new NotOnRecord("not_on_record", `${runId} had no conversation: nothing of what was said in it is kept.`);
  const thread = await threadByKey(store, thread_key);
  if (thread === undefined) throw new SvcError("run_not_found");
  const calls: ModelCallRow[] = [];
  const count = await countModelCalls(store, runId);
  for (let n = 1; n <= count; n++) {
    const call = await modelCall(store, runId, n);
    if (call !== undefined) calls.push(call);
  }
  const first = firstSeqOf(row);
  const events = await eventsOf(store, row, first, row.last_seq === null ? thread.next_seq : row.last_seq + 1);
  // A call is recorded with its first event. The start of the run ends before that event, and before the first note.
  const asked = calls[0]?.facts.at ?? thread.next_seq;
  const begunSeq = Math.min(asked, events.find(isNoted)?.seq ?? asked);
  const before = events.findLast(({ seq }) => seq < begunSeq);
  // A requeued run starts with events of its predecessor, which its own records do not cover.
  const isUnrecorded = (event: LogEvent): boolean =>
    isOfModel(event) && (count === 0 || (event.seq < begunSeq && row.asked.requeued === undefined));
  if (events.some(isUnrecorded)) throw new NotOnRecord("not_on_record", missingRecords(runId, count));
  return {
    row: { ...row, thread_key },
    thread,
    calls,
    log: new RecordedLog(events.filter(({ seq }) => seq >= begunSeq)),
    begunSeq,
    leafSeq: before?.seq ?? first - 1,
  };
}

/** The message for a run whose first model calls have no record. */
function missingRecords(runId: string, count: number): string {
  const which =
    count === 0
      ? "What its models were asked is not on record"
      : `What its models were asked first is not on record, only ${count === 1 ? "a later call" : `${count} later calls`}`;
  return `${runId} cannot be made again. ${which}. What it has said is in its conversation.`;
}

/** Returns the row of a run: durable runs are found by id, others by the thread of their model calls. */
async function rowOf(store: TenantStore, runId: string): Promise<RunRow> {
  const durableRun = await durableRowById(store, runId);
  if (durableRun !== undefined) {
    const row = await runByKey(store, durableRun.run_key);
    if (row !== undefined) return row;
  }
  const call = await modelCall(store, runId, 1);
  if (call?.thread_key === null)
    throw new NotOnRecord("not_on_record", `${runId} had no conversation: nothing of what was said in it is kept.`);
  const row = call === undefined ? undefined : await runOfThread(store, call.thread_key, runId);
  if (row === undefined)
    throw new NotOnRecord(
      "run_not_found",
      `The tenant ${store.tenantId} has no run ${runId} on record. One that is not durable is found by its model calls.`,
    );
  return row;
}

/** True if the event is a reply of a model in this run. */
function isOfModel(event: LogEvent): boolean {
  const { kind, role, metadata } = saidIn(event);
  return kind === "message" && role === "assistant" && metadata.source !== "client";
}

/** True if the event cannot come from a caller. */
function isNoted(event: LogEvent): boolean {
  return event.kind === "compaction" || (event.kind === "audit" && !isOutside(saidIn(event)));
}

/** Returns the first event of the run; a requeued run begins with that of its predecessor. */
function firstSeqOf({ asked: { requeued }, first_seq }: RunRow): number {
  return Math.min(requeued?.first_seq ?? Number.POSITIVE_INFINITY, first_seq ?? 0);
}

/** Returns the events of a run, without entries that other requests appended between them. */
async function eventsOf(store: TenantStore, row: RunRow, from: number, to: number): Promise<LogEvent[]> {
  const threadKey = row.thread_key as number;
  const found: LogEvent[] = [];
  for (let seq = from; seq < to; ) {
    const page = await readEvents(store, threadKey, seq, to);
    for (const event of page) {
      const mayBeOthers = event.kind === "custom" || event.kind.endsWith("_change") || event.kind === "label";
      const isOwn = !mayBeOthers || (await runOfEvent(store, threadKey, event.seq)) === runNumber(row.run_key);
      if (isOwn) found.push(event);
    }
    const last = page.at(-1);
    if (last === undefined) break;
    seq = last.seq + 1;
  }
  return found;
}
