import type { MetricObjectWithValues, MetricValue, RegistryContentType } from "prom-client";
// Only this part of prom-client is imported: its index loads the process collectors in each thread, which takes 25 ms.
import AggregatorRegistry from "prom-client/lib/cluster.js";

// Declares every metric of the service. Each thread counts in plain maps, which are cheap on hot paths. GET /metrics adds up the
// threads and renders the sums with prom-client.

/** The declaration of a metric. */
export interface MetricEntry {
  readonly type: "counter" | "histogram" | "gauge";
  readonly help: string;
  readonly labels: readonly string[];
  /** True for a gauge of what all hosts share. One host has it. */
  readonly ofDeployment?: true;
  /** Upper bounds of the buckets of a histogram that has no durations. */
  readonly buckets?: readonly number[];
}

export const metricTable = {
  svc_http_requests_total: { type: "counter", help: "Requests by route and status.", labels: ["route", "status"] },
  svc_tool_calls_total: {
    type: "counter",
    help: "Tool calls by outcome.",
    labels: ["transport", "status", "manifest_id", "error_code"],
  },
  svc_tool_call_seconds: { type: "histogram", help: "Duration of tool calls.", labels: ["transport", "manifest_id"] },
  svc_interrupted_tool_calls_total: {
    type: "counter",
    help: "Tool calls that a crash or an abort left without a result.",
    labels: ["manifest_id"],
  },
  svc_policy_deny_total: {
    type: "counter",
    help: "Tool calls that a governance control refused.",
    labels: ["manifest_id", "policy", "tool"],
  },
  svc_hook_calls_total: {
    type: "counter",
    help: "Calls of hooks of manifests by outcome: allow, block or error.",
    labels: ["manifest_id", "event", "outcome"],
  },
  svc_inbound_screening_total: {
    type: "counter",
    help: "Texts of callers that a control refused, fenced or redacted.",
    labels: ["manifest_id", "surface", "action"],
  },
  svc_content_screening_total: {
    type: "counter",
    help: "Tool results, and descriptions of MCP tools, that content screening withheld.",
    labels: ["manifest_id", "tool", "action"],
  },
  svc_mcp_instructions_total: {
    type: "counter",
    help: "Instructions of MCP servers that were shown to a model (used) or withheld by content screening (flagged).",
    labels: ["manifest_id", "outcome"],
  },
  svc_control_unavailable_total: {
    type: "counter",
    help: "Times that a governance control could not check a call, a result or a text.",
    labels: ["control", "manifest_id"],
  },
  svc_approval_waived_total: {
    type: "counter",
    help: "Gated calls that ran without an approval, by the permission mode or by allow_unattended.",
    labels: ["manifest_id", "mode"],
  },
  svc_approval_required_total: {
    type: "counter",
    help: "Tool calls that waited for an approval.",
    labels: ["manifest_id", "tool", "rule"],
  },
  svc_approval_preview_failed_total: {
    type: "counter",
    help: "Approval requests without a preview, because the preview failed.",
    labels: ["manifest_id", "tool", "rule"],
  },
  svc_control_degraded_total: {
    type: "counter",
    help: "Times that a governance control failed and let a call or answer pass.",
    labels: ["control", "manifest_id", "reason"],
  },
  svc_tool_sources_missing_total: {
    type: "counter",
    help: "Tool sources that failed to open, or not within ten seconds. Runs continue without their tools.",
    labels: ["source"],
  },
  svc_decisions_total: {
    type: "counter",
    help: "Questions to deciders.",
    labels: ["decider", "purpose", "outcome"],
  },
  svc_skill_suggestion_total: {
    type: "counter",
    help: "Messages for which spec.skill_suggestion looked for a skill.",
    labels: ["outcome"],
  },
  svc_egress_blocked_total: {
    type: "counter",
    help: "Destinations of tools that were refused.",
    labels: ["manifest_id", "reason"],
  },
  svc_escalation_check_total: {
    type: "counter",
    help: "Answers checked for escalation to a stronger model.",
    labels: ["manifest_id", "method"],
  },
  svc_router_choice_total: {
    type: "counter",
    help: "Choices of a sub-agent by the pattern router.",
    labels: ["manifest_id", "method"],
  },
  svc_rule_targets_nothing_total: {
    type: "counter",
    help: "Rules of a manifest that select no bound tool, counted when it is compiled.",
    labels: ["manifest_id", "rule", "kind"],
  },
  svc_secret_masking_total: {
    type: "counter",
    help: "Tool results in which a secret was masked.",
    labels: ["manifest_id", "tool"],
  },
  svc_shell_denied_total: {
    type: "counter",
    help: "Commands that were refused, by reason: argv is not allowed, cwd is not in the workspace.",
    labels: ["tool", "reason"],
  },
  svc_artifacts_stored_total: {
    type: "counter",
    help: "Long tool results that were stored separately.",
    labels: ["manifest_id"],
  },
  svc_run_stop_reason_total: {
    type: "counter",
    help: "Runs that ended at a token limit, with a refusal, or at the step limit.",
    labels: ["manifest_id", "reason"],
  },
  svc_runs_total: { type: "counter", help: "Runs by outcome.", labels: ["manifest_id", "outcome"] },
  svc_job_firings_total: {
    type: "counter",
    help: "Job firings by outcome: started, refused, or skipped because the job was still running.",
    labels: ["trigger", "outcome"],
  },
  svc_tokens_total: {
    type: "counter",
    help: "Tokens by model and direction.",
    labels: ["manifest_id", "model", "kind"],
  },
  svc_model_unmetered_total: {
    type: "counter",
    help: "Model calls for which the provider reported no usage.",
    labels: ["manifest_id", "model"],
  },
  svc_model_unpriced_total: {
    type: "counter",
    help: "Model calls of a model without known rates.",
    labels: ["manifest_id", "model"],
  },
  svc_model_call_seconds: { type: "histogram", help: "Duration of model calls.", labels: ["model", "status"] },
  svc_model_retry_total: { type: "counter", help: "Model calls that were retried.", labels: ["provider", "status"] },
  svc_model_timeout_total: { type: "counter", help: "Model calls that timed out.", labels: ["provider"] },
  svc_model_switch_total: {
    type: "counter",
    help: "Turns that continued with another model.",
    labels: ["from", "to", "reason"],
  },
  svc_model_images_omitted_total: {
    type: "counter",
    help: "Images left out of a model call: the model accepts only text, or there are too many.",
    labels: ["model"],
  },
  svc_memory_captures_total: {
    type: "counter",
    help: "Turns whose facts were captured, by outcome: stored, nothing, dropped, lost or failed.",
    labels: ["outcome"],
  },
  svc_webhook_delivery_total: {
    type: "counter",
    help: "Webhook attempts, and dead deliveries, by outcome.",
    labels: ["kind", "endpoint", "outcome"],
  },
  svc_skill_update_notification_total: {
    type: "counter",
    help: "New versions of imported skills, by outcome: enqueued for the webhooks, or superseded by an import.",
    labels: ["outcome"],
  },
  svc_webhook_lost_claims_total: {
    type: "counter",
    help: "Webhook attempts whose outcome was not stored, because another worker had claimed the delivery.",
    labels: [],
  },
  svc_webhook_oldest_seconds: {
    type: "gauge",
    help: "Age of the oldest pending webhook delivery.",
    labels: [],
    ofDeployment: true,
  },
  svc_durable_queued: {
    type: "gauge",
    help: "Accepted durable runs before their first step.",
    labels: [],
    ofDeployment: true,
  },
  svc_durable_running: { type: "gauge", help: "Durable runs with a running step.", labels: [], ofDeployment: true },
  svc_durable_parked: {
    type: "gauge",
    help: "Suspended durable runs: waiting for an answer, a retry or a slot.",
    labels: [],
    ofDeployment: true,
  },
  svc_durable_oldest_run_seconds: {
    type: "gauge",
    help: "Age of the oldest durable run that has not ended.",
    labels: [],
    ofDeployment: true,
  },
  svc_durable_oldest_due_seconds: {
    type: "gauge",
    help: "Longest time that a due durable run has waited to be resumed.",
    labels: [],
    ofDeployment: true,
  },
  svc_oldest_wait_seconds: {
    type: "gauge",
    help: "Age of the oldest open question of a run.",
    labels: [],
    ofDeployment: true,
  },
  svc_durable_lost_claims_total: {
    type: "counter",
    help: "Durable runs whose process or thread crashed, suspended to be resumed.",
    labels: [],
  },
  svc_durable_start_seconds: {
    type: "histogram",
    help: "Time from the acceptance of a durable run to its first step.",
    labels: [],
  },
  svc_durable_claim_seconds: {
    type: "histogram",
    help: "Time from learning that a durable run is due, by a hint or by polling, to its resumption.",
    labels: ["by"],
  },
  svc_anomaly_detected_total: {
    type: "counter",
    help: "Manifests with unusually many failed runs, and canaries withdrawn for that reason.",
    labels: ["kind"],
  },
  svc_workflow_runs_total: {
    type: "counter",
    help: "Runs of workflows that ended: succeeded, failed or cancelled.",
    labels: ["outcome"],
  },
  svc_skill_jobs_total: {
    type: "counter",
    help: "Evaluations and rewrites of skills that ended.",
    labels: ["kind", "outcome"],
  },
  svc_eval_runs_total: {
    type: "counter",
    help: "Evaluations that ended: completed, failed or cancelled.",
    labels: ["outcome"],
  },
  svc_eval_items_total: {
    type: "counter",
    help: "Scored items of evaluations: pass, fail, or error if there is no answer.",
    labels: ["outcome"],
  },
  svc_eval_regressions_total: {
    type: "counter",
    help: "Continuous evaluations whose pass rate was below their floor.",
    labels: [],
  },
  svc_buffer_dropped_total: { type: "counter", help: "Rows dropped because a buffer was full.", labels: ["buffer"] },
  svc_actor_crashes_total: {
    type: "counter",
    help: "Actors that threw something other than a refusal.",
    labels: ["kind"],
  },
  svc_bus_dropped_total: { type: "counter", help: "Bus messages that had no receiver.", labels: ["kind"] },
  svc_cluster_refused_total: {
    type: "counter",
    help: "Entries from other hosts that were dropped: without a valid signature, or of no present connection.",
    labels: ["reason"],
  },
  svc_cluster_hosts: { type: "gauge", help: "Hosts of the deployment, as this one sees them.", labels: [] },
  svc_live_runs: { type: "gauge", help: "Live runs.", labels: [] },
  svc_actors: { type: "gauge", help: "Actors in memory.", labels: [] },
  svc_trace_spans_total: {
    type: "counter",
    help: "Spans of traces by outcome: sent, failed (the collector did not take them) or dropped (too many waited).",
    labels: ["outcome"],
  },
  svc_open_streams: { type: "gauge", help: "Open event streams.", labels: [] },
  svc_stream_waiting_bytes: {
    type: "gauge",
    help: "Bytes of event streams that clients have not read yet.",
    labels: [],
  },
  svc_history_readers_waiting: {
    type: "gauge",
    help: "Snapshots and replays of threads in the queue.",
    labels: [],
  },
  svc_history_pages_total: {
    type: "counter",
    help: "Pages of threads read for snapshots and replays.",
    labels: [],
  },
  svc_slow_streams_closed_total: {
    type: "counter",
    help: "Streams closed because their client did not read.",
    labels: [],
  },
} as const satisfies Record<string, MetricEntry>;

/** The name of a declared metric. */
export type MetricName = keyof typeof metricTable;
type NamesOf<Type extends MetricEntry["type"]> = {
  [N in MetricName]: (typeof metricTable)[N]["type"] extends Type ? N : never;
}[MetricName];
/** The name of a counter. */
export type CounterName = NamesOf<"counter">;
/** The name of a histogram of durations. */
export type HistogramName = NamesOf<"histogram">;

/** The labels of a metric with their values. */
export type LabelsOf<N extends MetricName> = Readonly<Record<(typeof metricTable)[N]["labels"][number], string>>;

/** Max series of one metric; further ones are counted under `other`, so that no caller can grow the memory. */
const seriesMax = 1_000;
const separator = "\u0001";
/** Seconds, from a local tool to the longest run. */
const durations: readonly number[] = [0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 3600];

/** The counts of one thread, in prom-client's format for aggregation. */
export type MetricSnapshot = readonly MetricObjectWithValues<MetricValue<string>>[];

/** The metrics of one thread. */
export class Metrics {
  readonly #counters = new Map<string, Map<string, number>>();
  /** For each series: one count per bucket, then the sum. */
  readonly #histograms = new Map<string, Map<string, number[]>>();
  readonly #gauges = new Map<string, () => number | null>();
  readonly #table: Readonly<Record<string, MetricEntry>>;

  /** `own` declares the metrics of plugins. */
  constructor(own: Readonly<Record<string, MetricEntry>> = {}) {
    this.#table = { ...metricTable, ...own };
  }

  /** Adds to a counter of a plugin. Throws when no plugin has declared it. */
  countOwn(name: string, labels: Readonly<Record<string, string>>, amount = 1): void {
    this.#add(name, this.#labelNames(name, "counter"), labels, amount);
  }

  /** Adds a value to a histogram of a plugin. Throws when no plugin has declared it. */
  observeOwn(name: string, labels: Readonly<Record<string, string>>, value: number): void {
    this.#observe(name, this.#labelNames(name, "histogram"), labels, value);
  }

  count<N extends CounterName>(name: N, labels: LabelsOf<N>, amount = 1): void {
    this.#add(name, metricTable[name].labels, labels, amount);
  }

  observe<N extends HistogramName>(name: N, labels: LabelsOf<N>, seconds: number): void {
    this.#observe(name, metricTable[name].labels, labels, seconds);
  }

  #labelNames(name: string, type: "counter" | "histogram"): readonly string[] {
    const entry = this.#table[name];
    if (entry?.type !== type) throw new Error(`no ${type} with the name ${name} is declared`);
    return entry.labels;
  }

  #add(name: string, names: readonly string[], labels: Readonly<Record<string, string>>, amount: number): void {
    const series = seriesOf(this.#counters, name);
    const key = seriesKey(series, names, labels);
    series.set(key, (series.get(key) ?? 0) + amount);
  }

  #observe(name: string, names: readonly string[], labels: Readonly<Record<string, string>>, observed: number): void {
    const buckets = this.#table[name]?.buckets ?? durations;
    const series = seriesOf(this.#histograms, name);
    const key = seriesKey(series, names, labels);
    let values = series.get(key);
    if (!values) {
      values = new Array<number>(buckets.length + 2).fill(0);
      series.set(key, values);
    }
    let bucket = buckets.findIndex((bound) => observed <= bound);
    if (bucket < 0) bucket = buckets.length;
    values[bucket] = (values[bucket] ?? 0) + 1;
    values[buckets.length + 1] = (values[buckets.length + 1] ?? 0) + observed;
  }

  /** Registers a gauge, which is read at each scrape; null leaves it out. */
  gauge(name: NamesOf<"gauge">, read: () => number | null): void {
    this.#gauges.set(name, read);
  }

  snapshot(): MetricSnapshot {
    return Object.entries<MetricEntry>(this.#table).map(([name, entry]) => ({
      name,
      help: entry.help,
      type: entry.type,
      aggregator: "sum",
      values: this.#valuesOf(name, entry),
    })) as unknown as MetricSnapshot;
  }

  #valuesOf(name: string, entry: MetricEntry): MetricValue<string>[] {
    if (entry.type === "gauge") {
      const value = this.#gauges.get(name)?.() ?? (entry.ofDeployment ? null : 0);
      return value === null ? [] : [{ value, labels: {} }];
    }
    if (entry.type === "histogram")
      return [...(this.#histograms.get(name) ?? [])].flatMap(([key, values]) =>
        histogramValues(name, labelsOf(entry, key), values, entry.buckets ?? durations),
      );
    const series = this.#counters.get(name);
    if (!series && entry.labels.length === 0) return [{ value: 0, labels: {} }];
    return [...(series ?? [])].map(([key, value]) => ({ value, labels: labelsOf(entry, key) }));
  }
}

/**
 * Renders the counts of all threads, in one of the two formats (document 1; decision 26: both pass promtool).
 */
export async function renderMetrics(
  snapshots: readonly MetricSnapshot[],
  format: "text" | "openmetrics",
): Promise<{ contentType: string; body: string }> {
  const openMetrics = format === "openmetrics";
  // OpenMetrics declares a counter without the suffix `_total`, and prom-client adds that suffix to the samples.
  const named = openMetrics ? snapshots.map((snapshot) => snapshot.map(withoutTotal)) : snapshots;
  const registry = AggregatorRegistry.aggregate(named as object[]);
  if (openMetrics) registry.setContentType(AggregatorRegistry.OPENMETRICS_CONTENT_TYPE as RegistryContentType);
  return { contentType: registry.contentType, body: await registry.metrics() };
}

function withoutTotal(metric: MetricSnapshot[number]): MetricSnapshot[number] {
  return { ...metric, name: metric.name.replace(/_total$/, "") };
}

/** Returns the samples of one histogram series: cumulative buckets, sum and count. */
function histogramValues(
  name: string,
  labels: Record<string, string>,
  values: readonly number[],
  buckets: readonly number[],
) {
  const lines: { metricName: string; labels: Record<string, string | number>; value: number }[] = [];
  let count = 0;
  for (const [index, bound] of [...buckets, "+Inf"].entries()) {
    count += values[index] ?? 0;
    lines.push({ metricName: `${name}_bucket`, labels: { le: bound, ...labels }, value: count });
  }
  lines.push({ metricName: `${name}_sum`, labels, value: values[buckets.length + 1] ?? 0 });
  lines.push({ metricName: `${name}_count`, labels, value: count });
  return lines;
}

function seriesOf<V>(metrics: Map<string, Map<string, V>>, name: string): Map<string, V> {
  let series = metrics.get(name);
  if (!series) {
    series = new Map();
    metrics.set(name, series);
  }
  return series;
}

function seriesKey(
  series: ReadonlyMap<string, unknown>,
  names: readonly string[],
  labels: Readonly<Record<string, string>>,
): string {
  let key = "";
  for (let at = 0; at < names.length; at++) key += (at === 0 ? "" : separator) + labels[names[at] as string];
  // The last series is reserved for `other`.
  if (series.size < seriesMax - 1 || series.has(key)) return key;
  return names.map(() => "other").join(separator);
}

function labelsOf(entry: MetricEntry, key: string): Record<string, string> {
  if (entry.labels.length === 0) return {};
  const values = key.split(separator);
  return Object.fromEntries(entry.labels.map((label, index) => [label, values[index] ?? ""]));
}
