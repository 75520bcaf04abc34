import type { CompiledAgent } from "../manifests/compile/compiled.ts";
import type { MetricName, Metrics } from "./metrics.ts";

/**
 * Counts for one manifest: under its name when it is the operator's, under `custom` when a tenant has stored it, and only what
 * spec.observability.metrics names, when it names any.
 */
export class AgentMetrics {
  readonly label: string;
  readonly #metrics: Metrics;
  readonly #allowed: ReadonlySet<string> | null;

  constructor(metrics: Metrics, agent: CompiledAgent) {
    this.#metrics = metrics;
    this.label = agent.version === null ? agent.name : "custom";
    this.#allowed = agent.metrics.length === 0 ? null : new Set(agent.metrics.map(bareName));
  }

  count(name: Parameters<Metrics["count"]>[0], labels: readonly string[], amount = 1): void {
    if (this.#counts(name)) this.#metrics.count(name, labels, amount);
  }

  observe(name: Parameters<Metrics["observe"]>[0], labels: readonly string[], seconds: number): void {
    if (this.#counts(name)) this.#metrics.observe(name, labels, seconds);
  }

  #counts(name: MetricName): boolean {
    return this.#allowed === null || this.#allowed.has(bareName(name));
  }
}

/** Counts calls of this agent that were stopped, or were found without a result. */
export function countInterrupted(deps: { readonly metrics: Metrics }, agent: CompiledAgent, calls: number): void {
  if (calls === 0) return;
  const metrics = new AgentMetrics(deps.metrics, agent);
  metrics.count("svc_interrupted_tool_calls_total", [metrics.label], calls);
}

function bareName(name: string): string {
  return name.replace(/_total$/, "");
}
