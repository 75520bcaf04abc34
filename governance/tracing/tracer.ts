import { createHash } from "node:crypto";
import type { Env } from "../../bus/env.ts";
import type { TraceContext } from "../../bus/protocol/trace.ts";
import type { Settings } from "../settings/settings.ts";
import { tracingOf } from "../settings/tracing-settings.ts";
import type { SpanKind } from "./conventions.ts";

/** The value of an attribute. */
export type AttributeValue = string | number | boolean | readonly string[];

/** A span that has ended. Plain data, which is encoded in the thread that sends it. */
export interface SpanRecord extends TraceContext {
  readonly parent_span_id: string | null;
  readonly name: string;
  readonly kind: SpanKind;
  /** Epoch milliseconds. */
  readonly start: number;
  readonly end: number;
  readonly attributes: Readonly<Record<string, AttributeValue>>;
  /** The code of a failure; null without one. */
  readonly error: string | null;
}

/** A span that has not ended yet, with its parent. */
export interface OpenSpan extends TraceContext {
  readonly parent_span_id: string | null;
}

/** Spans that wait to be sent, and the number of those that found no room. */
export interface SpanBatch {
  readonly spans: readonly SpanRecord[];
  readonly dropped: number;
}

/** The spans of a thread that makes none. */
export const noSpans: SpanBatch = { spans: [], dropped: 0 };

/** Max spans of one thread that wait to be sent. */
const waitingMax = 2_048;
const traceparentPattern = /^[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(?:-|$)/;

/** Makes the spans of one thread. The main thread takes them once a second. */
export class Tracer {
  /** True if spans may have the texts of models and tools. */
  readonly capturesContent: boolean;
  /** True if spans may name the tenant and the caller. */
  readonly capturesIdentity: boolean;
  readonly #env: Env;
  /** Traces are sampled if the number of their last eight digits is below this one. */
  readonly #threshold: number;
  readonly #trustsParent: boolean;
  #spans: SpanRecord[] = [];
  #dropped = 0;

  constructor(settings: Settings, env: Env) {
    this.#env = env;
    this.#threshold = settings.otelSampleRatio * 2 ** 32;
    this.#trustsParent = settings.otelTrustParent;
    this.capturesContent = settings.otelCaptureContent;
    this.capturesIdentity = settings.otelCaptureIdentity;
  }

  /** Begins the span of a request, or of work without one, under a trusted caller's. Null if its trace is not sampled. */
  begin(traceparent?: string): OpenSpan | null {
    // A caller that is not trusted could choose a trace id that is always sampled.
    const trusted = this.#trustsParent ? (traceparent ?? "") : "";
    const [, given, parent, flags = "00"] = traceparentPattern.exec(trusted) ?? [];
    const isKnown = given !== undefined && parent !== undefined && !/^0+$/.test(given) && !/^0+$/.test(parent);
    const trace_id = isKnown ? given : this.#env.id();
    const isForced = isKnown && (Number.parseInt(flags, 16) & 1) === 1;
    if (!isForced && Number.parseInt(trace_id.slice(-8), 16) >= this.#threshold) return null;
    return { trace_id, span_id: this.#newSpanId(), parent_span_id: isKnown ? parent : null };
  }

  /** Begins a span under another one. */
  under({ trace_id, span_id }: TraceContext): OpenSpan {
    return { trace_id, span_id: this.#newSpanId(), parent_span_id: span_id };
  }

  /** Ends a span. */
  end(open: OpenSpan, { end = this.#env.now(), error = null, ...rest }: EndedSpan): void {
    if (this.#spans.length >= waitingMax) this.#dropped++;
    else this.#spans.push({ ...open, ...rest, end, error });
  }

  /** Epoch milliseconds, for the start of a span. */
  now(): number {
    return this.#env.now();
  }

  /** Returns the spans that have ended since the last call. */
  take(): SpanBatch {
    const batch = { spans: this.#spans, dropped: this.#dropped };
    this.#spans = [];
    this.#dropped = 0;
    return batch;
  }

  #newSpanId(): string {
    return this.#env.id().slice(0, 16);
  }
}

/** The facts about a span that has ended. */
export type EndedSpan = Pick<SpanRecord, "name" | "kind" | "start" | "attributes"> &
  Partial<Pick<SpanRecord, "end" | "error">>;

/** Returns the tracer of a thread; null if traces are off. */
export function tracerOf(settings: Settings, env: Env): Tracer | null {
  return tracingOf(settings) === null ? null : new Tracer(settings, env);
}

/** Returns the header by which a service continues the trace. */
export function traceparentOf({ trace_id, span_id }: TraceContext): string {
  return `00-${trace_id}-${span_id}-01`;
}

/** Max characters of a text in a span. */
const contentMax = 16_384;

/** Returns a text for a span, cut to a length that collectors take. */
export function contentText(content: unknown): string {
  const text = typeof content === "string" ? content : JSON.stringify(content);
  return text.length <= contentMax ? text : text.slice(0, contentMax);
}

/** Returns the fields of a log line of traced work. */
export function traceFields(trace: TraceContext | null | undefined): object {
  return trace ? { trace_id: trace.trace_id, span_id: trace.span_id } : {};
}

/** Returns a name of a run for spans. The id itself would let its reader resume the run. */
export function digestOfRun(runId: string): string {
  return createHash("sha256").update(runId).digest("hex").slice(0, 16);
}
