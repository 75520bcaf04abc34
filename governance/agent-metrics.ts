import type { CompiledAgent } from "../manifests/compile/compiled.ts";
import type { CounterName, HistogramName, LabelsOf, MetricName, Metrics } from "./metrics.ts";

/** The labels that the caller gives; the manifest's label is added here. */
type OtherLabels<N extends MetricName> = Omit<LabelsOf<N>, "manifest_id">;

/**
 * Counts metrics of one agent. The label `manifest_id` is the name of an operator's manifest, and `custom` for a manifest that a
 * tenant stored. A non-empty spec.observability.metrics limits which metrics are counted. Tools of the client get the label
 * `client`, because their names are unbounded.
 */
export class AgentMetrics {
  readonly #manifest: { readonly manifest_id: string };
  readonly #metrics: Metrics;
  readonly #allowed: ReadonlySet<string> | null;
  readonly #requestTools: ReadonlySet<string> | undefined;

  constructor(metrics: Metrics, agent: CompiledAgent) {
    this.#metrics = metrics;
    this.#manifest = { manifest_id: agent.version === null ? agent.name : "custom" };
    this.#requestTools = agent.requestTools;
    this.#allowed = agent.metrics.length === 0 ? null : new Set(agent.metrics.map(bareName));
  }

  count<N extends CounterName>(name: N, labels: OtherLabels<N>, amount = 1): void {
    if (this.#counts(name)) this.#metrics.count(name, this.#withManifest<N>(labels), amount);
  }

  /** Adds to a counter without labels that a plugin has declared. */
  countOwn(name: string): void {
    this.#metrics.countOwn(name, {});
  }

  observe<N extends HistogramName>(name: N, labels: OtherLabels<N>, seconds: number): void {
    if (this.#counts(name)) this.#metrics.observe(name, this.#withManifest<N>(labels), seconds);
  }

  #withManifest<N extends MetricName>(labels: OtherLabels<N>): LabelsOf<N> {
    const { tool } = labels as { readonly tool?: string };
    const isClients = tool !== undefined && this.#requestTools?.has(tool);
    return { ...labels, ...(isClients && { tool: "client" }), ...this.#manifest } as unknown as LabelsOf<N>;
  }

  #counts(name: MetricName): boolean {
    return this.#allowed === null || this.#allowed.has(bareName(name));
  }
}

/** Counts tool calls of this agent that were stopped, or found without a result after a crash. */
export function countInterrupted(deps: { readonly metrics: Metrics }, agent: CompiledAgent, calls: number): void {
  if (calls === 0) return;
  const metrics = new AgentMetrics(deps.metrics, agent);
  metrics.count("svc_interrupted_tool_calls_total", {}, calls);
}

function bareName(name: string): string {
  return name.replace(/_total$/, "");
}
