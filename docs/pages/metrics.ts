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

Generated from \`governance/metrics.ts\`; \`npm run generate\` writes it again. GET /metrics serves them in the text format of Prometheus, all
threads added up, to any credential: give Prometheus a key of its own without scopes. No label names a tenant or a person. A metric
has at most 1,000 series; what comes beyond is counted under \`other\`. Histograms are in seconds.

${table(["Metric", "Type", "Labels", "What it counts"], rows)}
`;
}
