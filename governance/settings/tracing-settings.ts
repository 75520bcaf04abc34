import { bool, oneOf, share, text, url } from "./setting.ts";

/** Settings of traces. */
export const tracingSettings = {
  otelEnabled: bool(
    "OTEL_ENABLED",
    false,
    "Sends traces. SVC_OTEL_ENDPOINT alone does the same; false switches them off.",
  ),
  otelEndpoint: url(
    "OTEL_ENDPOINT",
    "Address of the collector of OpenTelemetry; /v1/traces is added. Default with SVC_OTEL_ENABLED: http://localhost:4318.",
  ),
  otelProtocol: oneOf(
    "OTEL_PROTOCOL",
    ["http/protobuf"],
    "http/protobuf",
    "Protocol of the collector, which takes it on port 4318.",
    {
      unbuilt: ["grpc", "http/json"],
    },
  ),
  otelHeaders: text("OTEL_HEADERS", "", "Headers of requests to the collector, as name=value, separated by commas.", {
    secret: true,
  }),
  otelServiceName: text("OTEL_SERVICE_NAME", "svc", "The service.name of the traces."),
  otelSampleRatio: share(
    "OTEL_SAMPLE_RATIO",
    1,
    "Share of requests that are traced. The trace id decides, so that all services agree.",
  ),
  otelTrustParent: bool(
    "OTEL_TRUST_PARENT",
    false,
    "Continues the trace of a request with a traceparent, and traces it if its caller is traced.",
  ),
  otelCaptureContent: bool("OTEL_CAPTURE_CONTENT", false, "Adds the texts of models and tools to the spans."),
  otelCaptureIdentity: bool("OTEL_CAPTURE_IDENTITY", true, "Adds the tenant and the caller to the spans."),
};

/** The standard names of OpenTelemetry, and the settings that they fill if those are unset. */
const standardNames: readonly (readonly [standard: string, own: string])[] = [
  ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "SVC_OTEL_ENDPOINT"],
  ["OTEL_EXPORTER_OTLP_ENDPOINT", "SVC_OTEL_ENDPOINT"],
  ["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "SVC_OTEL_PROTOCOL"],
  ["OTEL_EXPORTER_OTLP_PROTOCOL", "SVC_OTEL_PROTOCOL"],
  ["OTEL_EXPORTER_OTLP_TRACES_HEADERS", "SVC_OTEL_HEADERS"],
  ["OTEL_EXPORTER_OTLP_HEADERS", "SVC_OTEL_HEADERS"],
  ["OTEL_SERVICE_NAME", "SVC_OTEL_SERVICE_NAME"],
  ["OTEL_TRACES_SAMPLER_ARG", "SVC_OTEL_SAMPLE_RATIO"],
];

/** Returns the environment with svc's own names for the standard variables of OpenTelemetry. */
export function withStandardNames(
  environment: Readonly<Record<string, string | undefined>>,
): Readonly<Record<string, string | undefined>> {
  const filled: Record<string, string | undefined> = { ...environment };
  for (const [standard, own] of standardNames) {
    const value = environment[standard]?.trim() ?? "";
    if (value !== "" && (filled[own]?.trim() ?? "") === "") filled[own] = value;
  }
  return filled;
}

/** The settings that name the collector. */
interface TracingValues {
  readonly otelEnabled: boolean;
  readonly otelEndpoint: string;
  readonly otelHeaders: string;
  readonly otelServiceName: string;
  readonly fromEnvironment: readonly string[];
}

/** The collector. */
export interface TracingConfig {
  /** With its path. */
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly serviceName: string;
}

/** Returns the collector; null if traces are off. */
export function tracingOf(settings: TracingValues): TracingConfig | null {
  const { otelEnabled, otelEndpoint, otelHeaders, otelServiceName, fromEnvironment } = settings;
  const isOn = fromEnvironment.includes("SVC_OTEL_ENABLED") ? otelEnabled : otelEndpoint !== "";
  if (!isOn) return null;
  const base = (otelEndpoint || "http://localhost:4318").replace(/\/+$/, "");
  const url = base.endsWith("/v1/traces") ? base : `${base}/v1/traces`;
  return { url, headers: Object.fromEntries(readHeaders(otelHeaders)), serviceName: otelServiceName };
}

/** Returns the names and values of SVC_OTEL_HEADERS. */
export function readHeaders(text: string): readonly (readonly [name: string, value: string])[] {
  return text.split(",").flatMap((pair): [string, string][] => {
    const at = pair.indexOf("=");
    return at < 1 ? [] : [[pair.slice(0, at).trim().toLowerCase(), decoded(pair.slice(at + 1).trim())]];
  });
}

/** The values are percent-encoded in the standard; a value that is not stays as it is. */
function decoded(value: string): string {
  try {
    return decodeURIComponent(value);
  } catch {
    return value;
  }
}
