// The text form of Prometheus: one sample on a line.

/** Returns the samples by name: `{labels, value}`. */
export function parseMetrics(text) {
  const samples = new Map();
  for (const line of text.split("\n")) {
    const [, name, labels = "", value] = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)/.exec(line) ?? [];
    if (name === undefined) continue;
    const list = samples.get(name) ?? [];
    list.push({ labels: labelsOf(labels), value: Number(value) });
    samples.set(name, list);
  }
  return samples;
}

/** Returns the sum of a metric's samples whose labels match. */
export function sumOf(samples, name, matches = () => true) {
  return (samples.get(name) ?? []).reduce(
    (sum, { labels, value }) => (matches(labels) && Number.isFinite(value) ? sum + value : sum),
    0,
  );
}

function labelsOf(text) {
  return Object.fromEntries([...text.matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)].map(([, name, value]) => [name, value]));
}
