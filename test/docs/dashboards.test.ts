// The dashboard and the alerts in deploy/ parse, and name only metrics and labels that exist.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { parse } from "yaml";
import { metricTable } from "../../governance/metrics.ts";
import { root } from "../support/source.ts";

interface Rules {
  readonly groups: readonly {
    readonly rules: readonly { alert: string; expr: string; for: string; annotations: object }[];
  }[];
}
interface Dashboard {
  readonly panels: readonly { readonly title: string; readonly targets: readonly { readonly expr: string }[] }[];
}

const read = (path: string) => readFileSync(`${root}deploy/${path}`, "utf8");

/** The metrics and labels of an expression that do not exist. */
function unknownIn(expr: string): string[] {
  const names = [...expr.matchAll(/\bsvc_\w+/g)].map(([name]) => name);
  const metrics = names.map((name) => {
    const base = name.replace(/_bucket$/, "");
    const metric = metricTable[base as keyof typeof metricTable];
    return { name, metric: (metric?.type === "histogram") === name.endsWith("_bucket") ? metric : undefined };
  });
  const labels: readonly string[] = metrics.flatMap(({ metric }) => metric?.labels ?? []);
  const used = [
    ...[...expr.matchAll(/\bby \(([^)]*)\)/g)].flatMap(([, list = ""]) => list.split(",")),
    ...[...expr.matchAll(/[{,]\s*(\w+)(?==|!)/g)].map(([, label = ""]) => label),
  ].map((label) => label.trim());
  return [
    ...metrics.filter(({ metric }) => metric === undefined).map(({ name }) => name),
    ...used.filter((label) => label !== "le" && !labels.includes(label)),
    ...(names.length === 0 ? [`no metric in ${expr}`] : []),
  ];
}

test("the dashboard for Grafana parses and names only metrics that exist", () => {
  const { panels }: Dashboard = JSON.parse(read("grafana/svc.json"));

  assert.ok(panels.length > 10);
  assert.equal(new Set(panels.map(({ title }) => title)).size, panels.length);
  assert.deepEqual(
    panels.flatMap(({ targets }) => targets.flatMap(({ expr }) => unknownIn(expr))),
    [],
  );
});

test("the alerts for Prometheus parse and name only metrics that exist", () => {
  const rules = (parse(read("prometheus/rules.yaml")) as Rules).groups.flatMap((group) => group.rules);

  assert.ok(rules.length > 5);
  for (const { expr, annotations, for: during } of rules) {
    assert.deepEqual(unknownIn(expr), []);
    assert.deepEqual(Object.keys(annotations), ["summary", "description"]);
    assert.match(during, /^\d+m$/);
  }
  assert.deepEqual(unknownIn("sum by (nothing) (rate(svc_none_total[5m]))"), ["svc_none_total", "nothing"]);
});
