import { threadAddress } from "../bus/address.ts";
import { SvcError } from "../bus/errors.ts";
import type { RunOutput } from "../bus/frames/output.ts";
import { responseStream } from "../bus/frames/responses.ts";
import type { TenantStore } from "../storage/store/store.ts";
import { readEvents } from "../storage/tables/events.ts";
import type { HttpContext } from "./context.ts";
import type { Reply } from "./exchange/reply.ts";
import type { EventStream } from "./exchange/sse.ts";
import { findResponse, HandedCalls, headOf, type StoredResponse, saidIn } from "./stored-response.ts";
import type { ThreadListener } from "./thread-hubs.ts";

// The stream of a response that nobody waits for. Its events are made from the log alone, a step of the model at a time, so that they
// have the same numbers whoever listens and whenever: a client that has lost its connection goes on behind the last that it has seen.

/** How long a hint may be lost before the store is looked at all the same. */
const againMs = 5_000;

/** The stream of a stored response, behind the event of this number. Refuses with unknown_response. */
export async function openResponseStream(
  context: HttpContext,
  tenantId: string,
  id: string,
  startingAfter: number,
): Promise<Reply & { kind: "stream" }> {
  const store = context.store.tenant(tenantId);
  const found = await findResponse(store, id);
  return { kind: "stream", open: (stream) => void new BackgroundStream(context, store, found, startingAfter, stream) };
}

/** What one client is told of one response. */
class BackgroundStream implements ThreadListener {
  readonly #context: HttpContext;
  readonly #store: TenantStore;
  readonly #id: string;
  readonly #stream: EventStream;
  readonly #address: ReturnType<typeof threadAddress>;
  readonly #output: RunOutput;
  readonly #handed = new HandedCalls();
  /** The sequence number of the next event of the log. */
  #seq: number;
  #hasBegun = false;
  #isLooking = false;
  #isStale = false;

  constructor(
    context: HttpContext,
    store: TenantStore,
    found: StoredResponse,
    startingAfter: number,
    stream: EventStream,
  ) {
    this.#context = context;
    this.#store = store;
    this.#id = found.id;
    this.#stream = stream;
    this.#seq = found.firstSeq;
    this.#address = threadAddress(store.tenantId, found.thread.suffix);
    let number = 0;
    const send = (text: string, last: boolean): void => {
      const isSeen = number++ <= startingAfter;
      if (last) stream.end(isSeen ? "" : text);
      else if (!isSeen) stream.write(text);
    };
    this.#output = responseStream({ writable: true, onWritable: (work) => work(), send }, headOf(found), "", 0);
    context.hubs.join(this.#address, this);
    stream.onClose(() => context.hubs.leave(this.#address, this));
    this.#output.started();
    this.#wake();
    this.#lookAgain();
  }

  frames(): void {
    this.#wake();
  }

  forget(): void {}

  rewound(): void {
    this.#wake();
  }

  lost(): void {
    if (this.#stream.closed) return;
    this.#context.hubs.join(this.#address, this);
    this.#wake();
  }

  #lookAgain(): void {
    this.#context.env.timer(againMs, () => {
      if (this.#stream.closed) return;
      this.#wake();
      this.#lookAgain();
    });
  }

  #wake(): void {
    this.#isStale = true;
    if (!this.#isLooking) void this.#look();
  }

  async #look(): Promise<void> {
    this.#isLooking = true;
    try {
      while (this.#isStale && !this.#stream.closed) {
        this.#isStale = false;
        await this.#tell(await findResponse(this.#store, this.#id));
      }
    } catch (error) {
      if (SvcError.from(error).code === "unknown_response") this.#stream.end("");
      // Another time: the store is away.
      this.#context.log.warn({ err: error }, "a response could not be looked at");
    } finally {
      this.#isLooking = false;
    }
  }

  /** Tells what is in the log and was not told, and the end. */
  async #tell(found: StoredResponse): Promise<void> {
    const { thread, run } = found;
    const isOver = run.ended_at !== null;
    if ((isOver || run.status !== "accepted") && !this.#hasBegun) {
      this.#hasBegun = true;
      this.#output.frame("turn_started", {}, -1);
    }
    const end = run.last_seq === null ? thread.next_seq : run.last_seq + 1;
    while (this.#seq < end) {
      const page = await readEvents(this.#store, thread.thread_key, this.#seq, end);
      if (this.#stream.closed || page.length === 0) break;
      for (const event of page) {
        this.#seq = event.seq + 1;
        this.#handed.take(event);
        const said = saidIn(event);
        if (said === null) continue;
        // What was said before is a step of its own.
        this.#output.frame("tool_start", {}, -1);
        if (said.thought !== "") this.#output.thinking(said.thought);
        if (said.text !== "") this.#output.text(said.text);
      }
    }
    if (isOver && !this.#stream.closed) this.#end(found);
  }

  #end({ run }: StoredResponse): void {
    const { stop_reason = null, usage = null } = run.result ?? {};
    const error = run.result?.error ?? (run.status === "completed" ? null : run.status);
    const aborted = error === "aborted";
    this.#output.finished(
      {
        ...{ final: null, messagesJson: "[]", model: "", thread_id: "", leaf_id: "", approvals: [] },
        stop_reason: stop_reason ?? "unknown",
        handed: run.status === "completed" && stop_reason === "tool_use" ? this.#handed.calls : [],
        usage,
        aborted,
        failure: error === null || aborted ? null : "the turn has failed",
      },
      -1,
    );
  }
}
