import {
  type ModelCall,
  type ModelEvents,
  ModelFailure,
  type ModelProvider,
  type ModelReply,
  type ModelRequest,
  type SignedThought,
} from "../../actors/models/provider.ts";
import { type RebuiltCall, rebuildCall } from "../../actors/run/replay/rebuilt-call.ts";
import type { FileStore } from "../../storage/files/file-store.ts";
import { stretchesOf } from "../../storage/frames/stretches.ts";
import type { TenantStore } from "../../storage/store/store.ts";
import type { ModelCallRow } from "../../storage/tables/model-calls.ts";
import type { Aliases } from "./aliases.ts";
import { type AskedNow, compareCall, isSameCall } from "./call-comparison.ts";
import type { Difference } from "./difference.ts";
import type { RecordedEvent } from "./recorded-log.ts";
import type { RecordedRun } from "./recorded-run.ts";

/** Told of the calls of a run that is made again. */
export interface CallReader {
  /** A call was found on record, with what is different in it. False when nothing is to go on. */
  asked(call: ModelCallRow, differences: readonly Difference[]): boolean;
  /** A model is asked once more than is on record. */
  beyond(request: ModelRequest): void;
  /** What was answered then is not to be had. */
  unanswered(call: ModelCallRow, why: string): void;
  /** Somebody has stopped the run while this call was under way. */
  stopped(): void;
}

/** What is on record of a call that is under way. */
interface Pending {
  readonly call: ModelCallRow;
  readonly rebuilt: RebuiltCall;
  /** How often a provider was asked for it by now. */
  tries: number;
}

/** What asks for no answer that the log lacks: controls ask it, which are not run again. */
const besides = ["question", "decider"];

/** Answers every request with what is on record of it. */
export class RecordedModel implements ModelProvider {
  readonly name = "the log";
  readonly #run: RecordedRun;
  readonly #store: TenantStore;
  readonly #files: FileStore;
  readonly #aliases: Aliases;
  readonly #reader: CallReader;
  readonly #left: ModelCallRow[];
  readonly #rebuilt = new Map<number, RebuiltCall>();
  /** Of which a try has failed, and another is to come. */
  #failing: Pending | null = null;
  #before: string | null = null;
  /** Requests are looked for one after the other. */
  #queue: Promise<unknown> = Promise.resolve();

  constructor(run: RecordedRun, store: TenantStore, files: FileStore, aliases: Aliases, reader: CallReader) {
    this.#run = run;
    this.#store = store;
    this.#files = files;
    this.#aliases = aliases;
    this.#reader = reader;
    this.#left = [...run.calls];
  }

  /** Calls on record that were not asked again. */
  get left(): readonly ModelCallRow[] {
    return this.#left;
  }

  start(request: ModelRequest, events: ModelEvents): ModelCall {
    const { promise, reject, resolve } = Promise.withResolvers<ModelReply>();
    const found = this.#queue.then(() => this.#find(request));
    this.#queue = found.catch(() => {});
    let partial = "";
    const heard: ModelEvents = {
      ...events,
      text(delta) {
        partial += delta;
        events.text(delta);
      },
    };
    found.then((pending) => this.#answer(pending, heard)).then((reply) => reply && resolve(reply), reject);
    const abort = (): void => reject(new ModelFailure("the call was ended", { partial }));
    return { reply: promise, abort, pause() {}, resume() {} };
  }

  /** What is on record of a request; null when that is nothing, or not the same. */
  async #find(request: ModelRequest): Promise<Pending | null> {
    const asked: AskedNow = { request, messages: this.#aliases.text(request.messages) };
    const again = this.#failing;
    if (again !== null && isSameCall(asked, again.rebuilt, again.call.facts)) return again;
    const call = await this.#candidate(asked);
    if (call === undefined) {
      this.#reader.beyond(request);
      return null;
    }
    const rebuilt = await this.#rebuild(call);
    this.#left.splice(this.#left.indexOf(call), 1);
    this.#rebuilt.delete(call.n);
    const differences = compareCall(asked, rebuilt, call.facts, this.#before);
    this.#before = asked.messages;
    return this.#reader.asked(call, differences) ? { call, rebuilt, tries: 0 } : null;
  }

  /** The call on record that is this one; of none, the one that should come next. */
  async #candidate(asked: AskedNow): Promise<ModelCallRow | undefined> {
    let next: ModelCallRow | undefined;
    for (const call of this.#left) {
      // What is behind it, and has not begun before it was over, cannot be asked before it; but agents side by side take their own time.
      if (next !== undefined && call.facts.started >= next.facts.ended && !this.#run.log.hasMembers) break;
      if (isSameCall(asked, await this.#rebuild(call), call.facts)) return call;
      if (!besides.includes(call.facts.purpose)) next ??= call;
    }
    return next ?? this.#left[0];
  }

  async #rebuild(call: ModelCallRow): Promise<RebuiltCall> {
    const known = this.#rebuilt.get(call.n);
    if (known !== undefined) return known;
    const rebuilt = await rebuildCall(this.#store, this.#files, call);
    this.#rebuilt.set(call.n, rebuilt);
    return rebuilt;
  }

  /** Null where nothing goes on: whoever waits for it is not told. */
  async #answer(pending: Pending | null, events: ModelEvents): Promise<ModelReply | null> {
    if (pending === null) return null;
    const { call } = pending;
    const { tries } = call.facts;
    const at = pending.tries++;
    this.#failing = null;
    if (at < tries.length - 1) {
      this.#failing = pending;
      const isSameRoute = tries[at + 1]?.route === tries[at]?.route;
      throw new ModelFailure("failed then too", { status: 503, retryable: isSameRoute, retryAfterMs: 0 });
    }
    const { outcome } = call.facts;
    if (outcome === "ok") return this.#reply(pending, events);
    if (outcome === "limited") {
      this.#reader.unanswered(call, "a limit has ended it, and how far it came by then is not made again");
      return null;
    }
    // A durable run has tried its step again: it is the same call once more.
    const isRetried = this.#run.row.asked.durable !== undefined && outcome === "error" && this.#left.length > 0;
    const [next] = this.#left;
    const overflows = next?.facts.purpose === "summary" && next.facts.at === call.facts.at;
    if (isRetried && !overflows && next !== undefined) return this.#again(next, events);
    const said = this.#said(call);
    const partial = said?.content ?? "";
    for (const { kind, text } of stretchesOf(said?.metadata.thinking, partial))
      if (kind === "thought") events.reasoning(text);
      else events.text(text);
    if (outcome === "aborted" && call.facts.purpose !== "decider") this.#reader.stopped();
    throw new ModelFailure("failed then too", { partial, overflow: overflows });
  }

  /** Goes on with the next try of a durable run's step. */
  async #again(call: ModelCallRow, events: ModelEvents): Promise<ModelReply | null> {
    const rebuilt = await this.#rebuild(call);
    this.#left.splice(this.#left.indexOf(call), 1);
    this.#rebuilt.delete(call.n);
    const problems = rebuilt.problems.map((problem) => ({ what: "messages", expected: problem, found: null }));
    if (!this.#reader.asked(call, problems)) return null;
    return this.#answer({ call, rebuilt, tries: call.facts.tries.length - 1 }, events);
  }

  #reply({ call, rebuilt }: Pending, events: ModelEvents): ModelReply | null {
    const { stop_reason, usage, estimated } = call.facts;
    const event = this.#said(call);
    const isEvent = event !== undefined && (rebuilt.reply === null || isReleased(event, rebuilt.reply));
    if (!isEvent && rebuilt.reply === null) {
      this.#reader.unanswered(call, "what the model has said is in no event behind it");
      return null;
    }
    if (isEvent) this.#run.log.answeredBy(event);
    const text = isEvent ? event.content : (rebuilt.reply ?? "");
    if (text !== "") events.text(text);
    return {
      text,
      ...(isEvent ? thoughtsOf(event) : { reasoning: "" }),
      tool_calls: ((isEvent ? event.tool_calls : null) ?? []).map(({ id, name, args }) => ({
        id,
        name,
        arguments: typeof args === "string" ? args : JSON.stringify(args),
      })),
      stop_reason: stop_reason ?? "unknown",
      usage: estimated === true ? null : usage,
    };
  }

  /** The message that a call has led to. */
  #said({ facts }: ModelCallRow): RecordedEvent | undefined {
    const { name } = { name: this.#run.row.manifest };
    return this.#run.log.answer(facts.at, ({ metadata }) => {
      const by = metadata.agent ?? name;
      const isBy = by === facts.agent && metadata.model === facts.route;
      if (!isBy) return false;
      return facts.outcome === "ok" ? metadata.stop_reason === facts.stop_reason : metadata.status !== undefined;
    });
  }
}

/** Whether an event says what is kept of a reply, or what controls have made of it. */
function isReleased({ content, metadata }: RecordedEvent, reply: string): boolean {
  return content === reply || metadata.controls !== undefined;
}

function thoughtsOf({ metadata: { thinking } }: RecordedEvent): Pick<ModelReply, "reasoning" | "thoughts"> {
  if (!Array.isArray(thinking)) return { reasoning: "" };
  const thoughts = thinking as (SignedThought & { by?: string; thinking?: string })[];
  if (thoughts.some(({ by }) => by !== undefined)) return { reasoning: "", thoughts };
  return { reasoning: thoughts.map((thought) => thought.thinking ?? "").join("") };
}
