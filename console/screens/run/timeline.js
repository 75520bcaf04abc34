import { call } from "../../core/api.js";
import { may } from "../../core/session.js";

/** Steps of a run that are read; a longer run shows its first steps. */
const itemsMax = 10_000;

/** Returns the steps of a run, in order. */
export async function readTimeline(runId) {
  const items = [];
  let cursor;
  do {
    const page = await call("GET /runs/{run_id}/timeline", { run_id: runId, cursor, limit: 500 });
    items.push(...page.items);
    cursor = page.next_cursor ?? undefined;
  } while (cursor !== undefined && items.length < itemsMax);
  return items;
}

/** Returns the tokens and cost of a run: those of its thread's model calls in its time; null if the caller may not read them. */
export async function spentOf({ thread_id, accepted_at, ended_at }) {
  if (thread_id === null || !may("GET /usage")) return null;
  const { items } = await call("GET /usage", { thread_id, limit: 200 });
  const own = items.filter(({ ts }) => ts >= accepted_at && ts <= (ended_at ?? Date.now()) + 1000);
  return own.reduce(
    ({ tokens, cost }, { tokens_input, tokens_output, cost_usd }) => ({
      tokens: tokens + tokens_input + tokens_output,
      cost: cost + cost_usd,
    }),
    { tokens: 0, cost: 0 },
  );
}

const names = { accepted: "Accepted", begun: "Begun", input: "Message", note: "Note", retry: "Retry", ended: "Ended" };

/** Returns the rows of the time axis: `{key, kind, title, said, from, to, n}`. A call of a model begins where the step before it ended. */
export function rowsOf(items, end) {
  const rows = [];
  const calls = new Map();
  let last = items[0]?.at ?? 0;
  let n = 0;
  items.forEach((item, at) => {
    const key = `${at}`;
    if (item.kind === "model_call") {
      const { usage } = item;
      n++;
      rows.push({
        key,
        kind: "model",
        title: item.model ?? "model",
        said: usage ? `${usage.input + usage.output} tokens` : "",
        from: last,
        to: item.at,
        n,
        tools: item.tools,
        controls: item.controls,
        passed: item.passed,
        taint: item.taint,
      });
    } else if (item.kind === "tool_call") {
      const row = {
        key,
        kind: "tool",
        title: item.tool,
        said: item.effect ?? "",
        from: item.at,
        to: end ?? Date.now(),
        isOpen: true,
      };
      calls.set(item.tool_call_id, row);
      rows.push(row);
    } else if (item.kind === "tool_result") {
      const row = calls.get(item.tool_call_id) ?? {
        key,
        kind: "tool",
        title: item.tool,
        from: item.at - (item.ms ?? 0),
      };
      if (!calls.has(item.tool_call_id)) rows.push(row);
      Object.assign(row, { to: item.at, isOpen: false, said: item.status ?? "", isBad: item.status !== "ok" });
      Object.assign(row, { controls: item.controls, passed: item.passed, taint: item.taint });
    } else if (item.kind === "wait") {
      const next = items.slice(at + 1).find((each) => each.kind !== "wait")?.at;
      rows.push({
        key,
        kind: "wait",
        title: `waits for ${item.for}`,
        said: [item.tool, item.state].filter(Boolean).join(" "),
        from: item.at,
        to: next ?? end ?? Date.now(),
      });
    } else {
      const said =
        item.kind === "ended"
          ? [item.status, item.error].filter(Boolean).join(": ")
          : item.kind === "retry"
            ? `${item.attempts} failures`
            : (item.type ?? "");
      rows.push({
        key,
        kind: "mark",
        title: names[item.kind] ?? item.kind,
        said,
        from: item.at,
        to: item.at,
        isBad: item.kind === "retry" || (item.kind === "ended" && item.status !== "completed"),
      });
    }
    last = item.at;
  });
  return rows;
}

/** Returns the steps as lines without times, for a comparison of two runs. */
export function outlineOf(items) {
  return items
    .filter(({ kind }) => !["accepted", "begun"].includes(kind))
    .map(({ kind, model, tools = [], tool, status, type, error, for: waited }) => {
      if (kind === "model_call")
        return `model ${model}${tools.length > 0 ? ` asks for ${tools.join(", ")}` : " answers"}`;
      return [kind.replace("_", " "), tool, waited, type, status, error].filter(Boolean).join(" ");
    })
    .join("\n");
}
