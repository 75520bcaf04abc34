// Runs in the report page: draws the charts from the page's data.
/* global uPlot, document, matchMedia */
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const ink = dark ? "#c9ccd1" : "#333";
  const grid = dark ? "#3a3d42" : "#e3e5e8";
  const colors = {
    direct: "#8a8f98",
    relay: "#2f6fde",
    svc: "#d9622b",
    "svc-node": "#3a9a5b",
    "svc-against": "#8a5bc9",
  };
  const axis = { stroke: ink, grid: { stroke: grid, width: 1 }, ticks: { stroke: grid, width: 1 } };

  /** Scale in which each further nine takes the same space: 0.9 is 1, 0.99 is 2, 0.999 is 3. */
  const nines = (share) => -Math.log10(1 - share);
  const marks = [0.5, 0.9, 0.99, 0.999];

  for (const { element, shares, lines } of data.latency) {
    const target = document.getElementById(element);
    const finite = lines.flatMap((line) => line.milliseconds).filter((value) => value > 0);
    if (finite.length === 0) continue;
    new uPlot(
      {
        title: element,
        width: Math.max(320, target.clientWidth),
        height: 240,
        scales: { x: { time: false }, y: { distr: 3 } },
        axes: [
          {
            ...axis,
            splits: () => marks.map(nines),
            values: () => marks.map((share) => `p${share * 100}`),
          },
          { ...axis, size: 80, values: (_, ticks) => ticks.map((tick) => (tick === null ? "" : `${tick} ms`)) },
        ],
        series: [
          { value: (_, at) => (at === null ? "" : `p${(100 * (1 - 10 ** -at)).toFixed(1)}`) },
          ...lines.map((line) => ({
            label: line.target,
            stroke: colors[line.target],
            width: 2,
            value: (_, ms) => (ms === null ? "" : `${ms.toFixed(2)} ms`),
          })),
        ],
      },
      [shares.map(nines), ...lines.map((line) => line.milliseconds)],
      target,
    );
  }

  const memory = document.getElementById("memory");
  const tables = data.memory.filter((series) => series.seconds.length > 0);
  if (tables.length > 0) {
    new uPlot(
      {
        title: "resident memory over the run, MiB",
        width: Math.max(320, memory.clientWidth),
        height: 320,
        scales: { x: { time: false } },
        axes: [{ ...axis, values: (_, ticks) => ticks.map((tick) => `${tick} s`) }, axis],
        series: [
          { value: (_, at) => (at === null ? "" : `${at} s`) },
          ...tables.map((series, place) => ({
            label: series.label,
            stroke: series.label.startsWith("svc")
              ? `hsl(${(place * 47) % 360} 65% 50%)`
              : colors[series.label.split(",")[0]],
            width: 1.5,
          })),
        ],
      },
      uPlot.join(tables.map((series) => [series.seconds, series.mib])),
      memory,
    );
  }
})();
