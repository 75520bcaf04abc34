// The latest warnings and errors of the test servers. A failed test shows them.

interface Said {
  readonly atMs: number;
  readonly line: string;
}

const keptMax = 200;
const said: Said[] = [];
const usual = /"level":"(?:trace|debug|info)"/;

/** Stores a log line of level warn or higher, and any other text. */
export function noteLine(line: string): void {
  if (usual.test(line)) return;
  said.push({ atMs: performance.now(), line });
  if (said.length > keptMax) said.shift();
}

/** Returns the lines of the last milliseconds. */
export function saidWithin(ms: number): string {
  const from = performance.now() - ms;
  return said
    .filter(({ atMs }) => atMs >= from)
    .map(({ line }) => line)
    .join("\n");
}
