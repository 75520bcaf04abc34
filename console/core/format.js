// Numbers, times and names as people read them.

const number = new Intl.NumberFormat(undefined);
const short = new Intl.NumberFormat(undefined, { notation: "compact", maximumFractionDigits: 1 });
const dateTime = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
const relative = new Intl.RelativeTimeFormat(undefined, { numeric: "auto", style: "short" });

export const count = (value) => number.format(value ?? 0);
export const compact = (value) => short.format(value ?? 0);
export const moment = (ms) => (ms ? dateTime.format(ms) : "never");

/** USD with as many digits as small sums need. */
export function money(usd) {
  if (usd === null || usd === undefined) return "no price";
  if (usd === 0) return "$0";
  const digits = Math.abs(usd) >= 1 ? 2 : Math.abs(usd) >= 0.01 ? 3 : 5;
  return `$${usd.toFixed(digits)}`;
}

export function duration(ms) {
  if (ms === null || ms === undefined) return "";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(1)} s`;
  const [whole, part, units] =
    ms < 3_600_000
      ? [Math.floor(ms / 60_000), Math.floor((ms % 60_000) / 1000), ["min", "s"]]
      : [Math.floor(ms / 3_600_000), Math.floor((ms % 3_600_000) / 60_000), ["h", "min"]];
  return part === 0 ? `${whole} ${units[0]}` : `${whole} ${units[0]} ${part} ${units[1]}`;
}

/** The time since or until a moment, such as "5 min. ago". */
export function ago(ms, now = Date.now()) {
  if (!ms) return "";
  const seconds = Math.round((ms - now) / 1000);
  const size = Math.abs(seconds);
  if (size < 60) return relative.format(seconds, "second");
  if (size < 3600) return relative.format(Math.round(seconds / 60), "minute");
  if (size < 86_400) return relative.format(Math.round(seconds / 3600), "hour");
  return relative.format(Math.round(seconds / 86_400), "day");
}

/** The suffix of a thread id, which requests use. */
export const suffixOf = (threadId) => (threadId ?? "").replace(/^[^:]*:/, "");

/** The first characters of a text on one line. */
export function line(text, max = 120) {
  const flat = String(text ?? "")
    .replace(/\s+/g, " ")
    .trim();
  return flat.length > max ? `${flat.slice(0, max)}…` : flat;
}
