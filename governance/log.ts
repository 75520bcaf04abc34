import { type DestinationStream, destination, type Logger, pino } from "pino";
import type { SecretMask } from "./secrets.ts";
import type { Settings } from "./settings.ts";

/** Writes log lines to standard output, one JSON object each, or words on a terminal. Secrets are masked in every line. */
export function createLogger(
  settings: Pick<Settings, "logLevel" | "logFormat">,
  mask: SecretMask,
  bindings: Readonly<Record<string, unknown>>,
  terminal = false,
): Logger {
  const words = settings.logFormat === "text" || (settings.logFormat === "auto" && terminal);
  const output = destination({ fd: 1, sync: true });
  return pino(
    {
      level: settings.logLevel,
      base: { ...bindings },
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
      hooks: { streamWrite: (line) => `${mask.jsonText(line.trimEnd())}\n` },
    },
    words ? wordsTo(output) : output,
  );
}

/** Lines for people: time, level, message, and the rest as `name=value`. */
function wordsTo(output: DestinationStream): DestinationStream {
  return {
    write(line) {
      const { time, level, msg, node: _node, err, ...rest } = JSON.parse(line) as Record<string, unknown>;
      const facts = Object.entries(rest).map(
        ([name, value]) => `${name}=${typeof value === "string" ? value : JSON.stringify(value)}`,
      );
      const cause = err === undefined ? "" : `\n${(err as { stack?: string }).stack ?? JSON.stringify(err)}`;
      output.write(
        `${String(time).slice(11, 23)} ${String(level).toUpperCase().padEnd(5)} ${[msg, ...facts].join(" ")}${cause}\n`,
      );
    },
  };
}
