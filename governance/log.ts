import { type DestinationStream, destination, type Logger, pino, stdSerializers } from "pino";
import { SvcError } from "../bus/errors.ts";
import type { SecretMask } from "./secret-mask.ts";
import type { Settings } from "./settings/settings.ts";

/** Creates the logger for standard output: one JSON object per line, or text on a terminal. Masks secrets in every line. */
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

/** Serializes an error: a refusal as its message and cause, any other error with its stack. */
function causeOf(error: unknown): unknown {
  if (!(error instanceof SvcError) || error.code === "internal_error") return stdSerializers.err(error as Error);
  const { name: type, message, cause } = error;
  return { type, message, ...(cause instanceof Error && { cause: cause.message }) };
}

/** Characters that break the line, move the cursor or change the text direction. */
const unruly = /[\p{Cc}\p{Cf}\u2028\u2029]/u;

/** Returns a value as JSON on one line, without terminal control characters. */
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

/** Formats lines for people: time, level, message, then the other fields as `name=value`. */
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
