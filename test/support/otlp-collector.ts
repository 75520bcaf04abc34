import { createServer, type IncomingHttpHeaders } from "node:http";
import type { AddressInfo } from "node:net";
import { fileURLToPath } from "node:url";
import protobuf from "protobufjs";
import type { Cleanup } from "./temp.ts";

// A collector of OpenTelemetry that decodes requests by the schema of the protocol (test/fixtures/otlp), and keeps the spans.

/** A span as it arrived. */
export interface ReceivedSpan {
  readonly trace_id: string;
  readonly span_id: string;
  readonly parent_span_id: string;
  readonly name: string;
  readonly kind: string;
  readonly startMs: number;
  readonly endMs: number;
  readonly attributes: Readonly<Record<string, unknown>>;
  /** The message of the status; null without an error. */
  readonly error: string | null;
  /** The attributes of the process that sent it. */
  readonly resource: Readonly<Record<string, unknown>>;
}

export interface OtlpCollector {
  readonly url: string;
  readonly spans: readonly ReceivedSpan[];
  /** The headers of the requests. */
  readonly requests: readonly IncomingHttpHeaders[];
  /** The status of answers; 200 at first. */
  status: number;
}

const folder = fileURLToPath(new URL("../fixtures/otlp/", import.meta.url));

/** Starts a collector. */
export async function startCollector(atEnd: Cleanup): Promise<OtlpCollector> {
  const root = new protobuf.Root();
  root.resolvePath = (_origin, target) => `${folder}${target}`;
  await root.load("opentelemetry/proto/collector/trace/v1/trace_service.proto");
  const Request = root.lookupType("opentelemetry.proto.collector.trace.v1.ExportTraceServiceRequest");
  const spans: ReceivedSpan[] = [];
  const requests: IncomingHttpHeaders[] = [];
  const collector = { url: "", spans, requests, status: 200 };
  const server = createServer((request, response) => {
    void request.toArray().then((chunks: Buffer[]) => {
      requests.push(request.headers);
      const isRight = request.url === "/v1/traces" && request.headers["content-type"] === "application/x-protobuf";
      if (isRight && collector.status === 200) spans.push(...spansIn(Request, Buffer.concat(chunks)));
      response.writeHead(isRight ? collector.status : 415).end();
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  atEnd.after(() => void server.close());
  collector.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return collector;
}

// biome-ignore lint/suspicious/noExplicitAny: the message has the form of the schema
type Message = any;

function spansIn(type: protobuf.Type, bytes: Uint8Array): ReceivedSpan[] {
  const decoded: Message = type.toObject(type.decode(bytes), { longs: String, enums: String, bytes: Buffer });
  return decoded.resourceSpans.flatMap(({ resource, scopeSpans }: Message) =>
    scopeSpans.flatMap(({ spans = [] }: Message) => spans.map((span: Message) => received(span, resource))),
  );
}

function received(span: Message, resource: Message): ReceivedSpan {
  return {
    trace_id: hex(span.traceId),
    span_id: hex(span.spanId),
    parent_span_id: hex(span.parentSpanId),
    name: span.name,
    kind: span.kind,
    startMs: Number(BigInt(span.startTimeUnixNano) / 1_000_000n),
    endMs: Number(BigInt(span.endTimeUnixNano) / 1_000_000n),
    attributes: valuesOf(span.attributes),
    error: span.status?.code === "STATUS_CODE_ERROR" ? (span.status.message ?? "") : null,
    resource: valuesOf(resource.attributes),
  };
}

function hex(bytes: Uint8Array | undefined): string {
  return bytes === undefined ? "" : Buffer.from(bytes).toString("hex");
}

function valuesOf(pairs: Message[] = []): Record<string, unknown> {
  return Object.fromEntries(pairs.map(({ key, value }) => [key, readValue(value)]));
}

function readValue(value: Message): unknown {
  if (value.arrayValue) return (value.arrayValue.values ?? []).map(readValue);
  if (value.intValue !== undefined) return Number(value.intValue);
  return value.stringValue ?? value.boolValue ?? value.doubleValue;
}
