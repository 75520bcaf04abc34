import { isArtifactId } from "../../storage/files/artifact-store.ts";
import { isFileId } from "../../storage/files/file-store.ts";
import type { TenantStore, WriteOp } from "../../storage/store/store.ts";
import { shareArtifactsOps } from "../../storage/tables/artifacts.ts";
import { labelOp } from "../../storage/tables/event-marks.ts";
import {
  appendOp,
  type EventExtra,
  type EventKind,
  eventBytes,
  eventId,
  eventSeq,
  isRecord,
  type LogEvent,
} from "../../storage/tables/events.ts";
import { shareFilesOps } from "../../storage/tables/files.ts";
import { attachmentsOf, fileIdOf } from "../log/attachment.ts";
import { firstKeptSeq, openingSeq } from "../log/compaction.ts";
import { FileCalls } from "../log/file-calls.ts";
import { refusesImages } from "../log/refused-images.ts";

/** Kinds of events that a copy contains: those that people and models read. Intents, run marks and settings are not copied. */
const copied: ReadonlySet<EventKind> = new Set([
  "message",
  "tool_result",
  "compaction",
  "branch_summary",
  "custom",
  "label",
] as const);

/** True if the event records that a call was sent to the client of its request; such a call may be copied open. */
export function isHandedOver(kind: EventKind, extra: EventExtra | null): boolean {
  return kind === "tool_call" && extra?.metadata?.handed !== undefined;
}

const filesLeft =
  "[Files that this conversation's workspace had before this point stayed with the conversation that it was forked from.]";

/** A thread as source or target of a copy. */
interface CopyPlace {
  readonly thread_key: number;
  readonly uid: string;
}

/** Copies the events of a branch in order, with new ids. */
export class BranchCopy {
  readonly into: CopyPlace;
  readonly files = new FileCalls();
  /** True after the first page is written. */
  isBegun = false;
  readonly #store: TenantStore;
  readonly #from: CopyPlace;
  readonly #keepsHanded: boolean;
  /** Source sequence numbers by the new ones. */
  readonly #seqs: number[] = [];
  #next = 0;
  #bytes = 0;
  #ops: WriteOp[] = [];
  #chars = 0;
  /** Files that the events in `#ops` refer to. */
  readonly #files = new Set<string>();
  /** Artifacts of the results in `#ops`. */
  readonly #artifacts = new Set<string>();

  /** With `keepsHanded` the copy includes the events for calls that were sent to a client. */
  constructor(store: TenantStore, into: CopyPlace, from: CopyPlace, keepsHanded: boolean) {
    this.#store = store;
    this.into = into;
    this.#from = from;
    this.#keepsHanded = keepsHanded;
  }

  /** Number of events copied from the branch. */
  get copied(): number {
    return this.#seqs.length;
  }

  /** The sequence number of the next event of the copy. */
  get next_seq(): number {
    return this.#next;
  }

  /** Bytes of all events of the copy. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Number of statements to write. */
  get waiting(): number {
    return this.#ops.length + this.#files.size + this.#artifacts.size;
  }

  /** Characters of the events in them. */
  get waitingChars(): number {
    return this.#chars;
  }

  takeOps(): WriteOp[] {
    const { thread_key } = this.into;
    const from = this.#from.thread_key;
    const ops = [
      ...this.#ops,
      ...shareFilesOps(this.#store, thread_key, from, [...this.#files]),
      ...shareArtifactsOps(this.#store, thread_key, from, [...this.#artifacts]),
    ];
    this.#ops = [];
    this.#files.clear();
    this.#artifacts.clear();
    this.#chars = 0;
    return ops;
  }

  take(event: LogEvent): void {
    const { kind, extra } = event;
    if (
      !copied.has(kind) &&
      !refusesImages(event) &&
      !isRecord(event) &&
      !(this.#keepsHanded && isHandedOver(kind, extra))
    )
      return;
    const moved = this.#moved(event);
    if (moved === null) return;
    if (kind === "message") this.files.take(extra?.tool_calls ?? []);
    for (const { url } of attachmentsOf(extra) ?? []) {
      const id = fileIdOf(url);
      if (id !== null && isFileId(id)) this.#files.add(id);
    }
    const { artifact_id } = extra?.metadata ?? {};
    if (typeof artifact_id === "string" && isArtifactId(artifact_id)) this.#artifacts.add(artifact_id);
    const { origin_request: _origin, ...metadata } = { ...extra?.metadata, ...moved };
    this.#seqs.push(event.seq);
    this.#append({
      ...event,
      extra: { ...extra, metadata: { ...metadata, forked_from: eventId(this.#from.uid, event.seq) } },
    });
  }

  /** Adds an entry that tells the model that workspace files were not copied. */
  noteFilesLeft(ts: number): void {
    const extra: EventExtra = { metadata: { type: "workspace_note", in_context: true } };
    this.#append({ seq: 0, parent_seq: 0, ts, kind: "custom", role: "user", content: filesLeft, extra });
  }

  #append(event: LogEvent): void {
    const seq = this.#next++;
    const op = appendOp(this.#store, this.into.thread_key, { ...event, seq, parent_seq: seq - 1 });
    for (const param of op.params) if (typeof param === "string") this.#chars += param.length;
    this.#ops.push(op);
    this.#bytes += eventBytes(event);
  }

  /** Returns an event's metadata with references to the new events; null for a label of an event that was not copied. */
  #moved(event: LogEvent): Readonly<Record<string, unknown>> | null {
    if (event.kind === "compaction") {
      const opening = openingSeq(event);
      const first_kept_seq = this.#firstFrom(firstKeptSeq(event));
      return { first_kept_seq, ...(opening === null ? {} : { opening_seq: this.#firstFrom(opening) }) };
    }
    if (event.kind !== "label") return {};
    const { targetId, label } = event.extra?.metadata ?? {};
    const target = typeof targetId === "string" ? eventSeq(this.#from.uid, targetId) : -1;
    const seq = this.#firstFrom(target);
    if (target < 0 || this.#seqs[seq] !== target) return null;
    this.#ops.push(labelOp(this.#store, this.into.thread_key, seq, typeof label === "string" ? label : null));
    return { targetId: eventId(this.into.uid, seq) };
  }

  /** Returns the position in the copy of the first event at or after `seq` of the branch. */
  #firstFrom(seq: number): number {
    let low = 0;
    let high = this.#seqs.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#seqs[middle] as number) < seq) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}
