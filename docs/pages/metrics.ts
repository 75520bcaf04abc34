import { metricTable } from "../../governance/metrics.ts";
import { code, table } from "./markdown.ts";

/** The text of docs/metrics.md. */
export function metricsPage(): string {
  const rows = Object.entries(metricTable).map(([name, { type, labels, help }]) => [
    code(name),
    type,
    labels.map(code).join(", "),
    help,
  ]);
  return `# Metrics

Generated from \`governance/metrics.ts\` by \`npm run generate\`. GET /metrics serves the metrics in the text format of Prometheus, summed over
all threads of the process, to any credential: give Prometheus its own key without scopes. No label names a tenant or a person. A metric has at
most 1,000 series; further ones are counted under \`other\`. Histograms are in seconds.

${table(["Metric", "Type", "Labels", "Meaning"], rows)}
`;
}
