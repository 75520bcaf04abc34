import { parentPort, workerData } from "node:worker_threads";
import { ProtobufTraceSerializer } from "@opentelemetry/otlp-transformer";
import { systemEnv } from "../../bus/env.ts";
import { Outgoing } from "../egress/outgoing.ts";
import type { Settings } from "../settings/settings.ts";
import { tracingOf } from "../settings/tracing-settings.ts";
import { schemaUrl, scopeName, spanKinds } from "./conventions.ts";
import type { SpanRecord } from "./tracer.ts";

// The thread that encodes spans and sends them to the collector.

/** A batch to send, by its number. */
export interface SpansToSend {
  readonly number: number;
  readonly spans: readonly SpanRecord[];
}

/** The outcome of a batch. */
export interface SpansSent {
  readonly number: number;
  /** Null if the collector took the batch; otherwise the reason. */
  readonly failure: string | null;
}

interface WorkerConfig {
  readonly settings: Settings;
  readonly version: string;
  readonly instance: string;
}

type ReadableSpan = Parameters<typeof ProtobufTraceSerializer.serializeRequest>[0][number];

const timeoutMs = 10_000;
const answerBytesMax = 64 * 1024;
/** Pauses before the second and the third try. */
const pausesMs = [500, 2_000];

const { settings, version, instance } = workerData as WorkerConfig;
const config = tracingOf(settings);
const none = {
  resolve: () => Promise.reject(new Error("requests to the collector carry no credentials of the egress")),
};
const env = systemEnv();
const outgoing = new Outgoing({ settings, secrets: none, env });
const rules = { tenantId: "", policy: "operator" as const, allowHosts: [], credentials: [], onEvent() {} };
const resource = {
  attributes: {
    "service.name": config?.serviceName ?? scopeName,
    "service.version": version,
    "service.instance.id": instance,
  },
  asyncAttributesPending: false,
  schemaUrl,
  merge: () => resource,
  getRawAttributes: () => [],
};
const instrumentationScope = { name: scopeName, version, schemaUrl };

parentPort?.on("message", ({ number, spans }: SpansToSend) => {
  void send(spans).then((failure) => parentPort?.postMessage({ number, failure } satisfies SpansSent));
});

/** Sends spans, again after a failure that may pass. Returns the reason of the last failure. */
async function send(spans: readonly SpanRecord[]): Promise<string | null> {
  const body = ProtobufTraceSerializer.serializeRequest(spans.map(readable));
  if (config === null || body === undefined) return "the spans could not be encoded";
  const headers = { ...config.headers, "content-type": "application/x-protobuf" };
  for (let tries = 0; ; tries++) {
    const failure = await outgoing
      .whole(rules, { url: config.url, method: "POST", headers, body, timeoutMs, follows: false }, answerBytesMax)
      .then(
        ({ status }) => (status < 300 ? null : `the collector answered ${status}`),
        (error: unknown) => (error instanceof Error ? error.message : String(error)),
      );
    const isFinal = failure === null || / 4(?!29|08)\d\d$/.test(failure);
    const pauseMs = pausesMs[tries];
    if (isFinal || pauseMs === undefined) return failure;
    await new Promise<void>((resolve) => void env.timer(pauseMs, resolve));
  }
}

function readable(span: SpanRecord): ReadableSpan {
  const { trace_id, span_id, parent_span_id, name, kind, start, end, attributes, error } = span;
  const contextOf = (spanId: string) => ({ traceId: trace_id, spanId, traceFlags: 1 });
  return {
    name,
    kind: spanKinds[kind],
    spanContext: () => contextOf(span_id),
    ...(parent_span_id !== null && { parentSpanContext: contextOf(parent_span_id) }),
    startTime: timeOf(start),
    endTime: timeOf(end),
    duration: timeOf(end - start),
    ended: true,
    status: error === null ? { code: 0 } : { code: 2, message: error },
    attributes: { ...attributes } as ReadableSpan["attributes"],
    links: [],
    events: [],
    resource,
    instrumentationScope,
    droppedAttributesCount: 0,
    droppedEventsCount: 0,
    droppedLinksCount: 0,
  } as ReadableSpan;
}

/** Returns seconds and nanoseconds. */
function timeOf(ms: number): [number, number] {
  const seconds = Math.floor(ms / 1000);
  return [seconds, Math.round((ms - seconds * 1000) * 1e6)];
}
