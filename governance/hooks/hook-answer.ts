import { cutText } from "../../bus/cut-text.ts";
import { soundText } from "../../bus/sound-text.ts";

/** The answer of a hook. It can only allow or block; it cannot approve, or change arguments. */
export interface HookAnswer {
  readonly decision: "allow" | "block";
  readonly reason: string;
  /** Text for the model. */
  readonly context: string;
}

const reasonMax = 500;
const contextMax = 8_000;

/** Reads the body of an answer; an empty one allows. Null if it is malformed. */
export function readHookAnswer(body: string): HookAnswer | null {
  if (body.trim() === "") return { decision: "allow", reason: "", context: "" };
  let value: unknown;
  try {
    value = JSON.parse(body);
  } catch {
    return null;
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) return null;
  const { decision = "allow", reason, additional_context: context } = value as Record<string, unknown>;
  if (decision !== "allow" && decision !== "block") return null;
  if (!isTextOrNone(reason) || !isTextOrNone(context)) return null;
  if ((reason ?? "").length > reasonMax || (context ?? "").length > contextMax) return null;
  const line = soundText(reason ?? "").replace(/\s+/g, " ");
  return { decision, reason: cutText(line, reasonMax), context: soundText(context ?? "") };
}

function isTextOrNone(value: unknown): value is string | null | undefined {
  return typeof value === "string" || value === null || value === undefined;
}
