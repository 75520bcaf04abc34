import { type DestinationStream, destination, type Logger, pino, stdSerializers } from "pino";
import { SvcError } from "../bus/errors.ts";
import type { SecretMask } from "./secret-mask.ts";
import type { Settings } from "./settings/settings.ts";

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
      serializers: { err: causeOf },
      hooks: { streamWrite: (line) => `${mask.recorded.jsonText(line.trimEnd())}\n` },
    },
    words ? wordsTo(output) : output,
  );
}

/** Of a refusal what it says and what was behind it; of a defect all there is, with its stack. */
function causeOf(error: unknown): unknown {
  if (!(error instanceof SvcError) || error.code === "internal_error") return stdSerializers.err(error as Error);
  const { name: type, message, cause } = error;
  return { type, message, ...(cause instanceof Error && { cause: cause.message }) };
}

/** What would begin a line of its own, move the cursor, or turn the order of what follows. */
const unruly = /[\p{Cc}\p{Cf}\u2028\u2029]/u;

/** A value as JSON on one line, with nothing in it that a terminal obeys. */
function harmless(value: unknown): string {
  return ruled(JSON.stringify(value));
}

function ruled(text: string): string {
  return text.replaceAll(new RegExp(unruly, "gu"), (character) =>
    character
      .split("")
      .map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`)
      .join(""),
  );
}

/** Lines for people: time, level, message, and the rest as `name=value`. */
function wordsTo(output: DestinationStream): DestinationStream {
  return {
    write(line) {
      const { time, level, msg, node: _node, err, ...rest } = JSON.parse(line) as Record<string, unknown>;
      const facts = Object.entries(rest).map(
        ([name, value]) => `${name}=${typeof value === "string" && !unruly.test(value) ? value : harmless(value)}`,
      );
      const stack = (err as { stack?: string } | undefined)?.stack;
      const cause = err === undefined ? "" : `\n${stack?.split("\n").map(ruled).join("\n") ?? harmless(err)}`;
      output.write(
        `${String(time).slice(11, 23)} ${String(level).toUpperCase().padEnd(5)} ${[msg, ...facts].join(" ")}${cause}\n`,
      );
    },
  };
}
