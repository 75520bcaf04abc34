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

/** Receives the model calls of a replay. */
export interface CallReader {
  /** A call matched a recorded one, with these differences. Returns false to end the replay. */
  asked(call: ModelCallRow, differences: readonly Difference[]): boolean;
  /** The replay made one call more than is recorded. */
  beyond(request: ModelRequest): void;
  /** The recorded reply of a call is not available. */
  unanswered(call: ModelCallRow, why: string): void;
  /** The recorded run was stopped during this call. */
  stopped(): void;
}

/** A recorded call in progress. */
interface Pending {
  readonly call: ModelCallRow;
  readonly rebuilt: RebuiltCall;
  /** Number of attempts so far. */
  tries: number;
}

/** Purposes of calls that controls make; controls do not run in a replay. */
const besides = ["question", "decider"];

/** A model provider that replies with the recorded replies. */
export class RecordedModel implements ModelProvider {
  readonly name = "the log";
  readonly #run: RecordedRun;
  readonly #store: TenantStore;
  readonly #files: FileStore;
  readonly #aliases: Aliases;
  readonly #reader: CallReader;
  readonly #left: ModelCallRow[];
  readonly #rebuilt = new Map<number, RebuiltCall>();
  /** A call whose last attempt failed and that has another recorded attempt. */
  #failing: Pending | null = null;
  #before: string | null = null;
  /** Serializes the matching of requests. */
  #queue: Promise<unknown> = Promise.resolve();

  constructor(run: RecordedRun, store: TenantStore, files: FileStore, aliases: Aliases, reader: CallReader) {
    this.#run = run;
    this.#store = store;
    this.#files = files;
    this.#aliases = aliases;
    this.#reader = reader;
    this.#left = [...run.calls];
  }

  /** Recorded calls that were not replayed. */
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

  /** Returns the recorded call of a request; null if there is none or it differs. */
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

  /** Returns the recorded call that equals the request; otherwise the one that should come next. */
  async #candidate(asked: AskedNow): Promise<ModelCallRow | undefined> {
    let next: ModelCallRow | undefined;
    for (const call of this.#left) {
      // A call that started after `next` ended cannot come before it, except between parallel agents.
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

  /** Returns the recorded reply; null if the replay ends here, so that the caller's promise stays pending. */
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
    // A durable run retried its step; the retry is the next recorded call.
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

  /** Continues with the next recorded attempt of a durable run's step. */
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

  /** Returns the message that a call produced. */
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

/** True if the event holds the stored reply, or what controls made of it. */
function isReleased({ content, metadata }: RecordedEvent, reply: string): boolean {
  return content === reply || metadata.controls !== undefined;
}

function thoughtsOf({ metadata: { thinking } }: RecordedEvent): Pick<ModelReply, "reasoning" | "thoughts"> {
  if (!Array.isArray(thinking)) return { reasoning: "" };
  const thoughts = thinking as (SignedThought & { by?: string; thinking?: string })[];
  if (thoughts.some(({ by }) => by !== undefined)) return { reasoning: "", thoughts };
  return { reasoning: thoughts.map((thought) => thought.thinking ?? "").join("") };
}
