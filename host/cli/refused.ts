import type { Outcome, ServerAnswer } from "../../plugins/command.ts";
import { failed } from "./command.ts";
import { inert } from "./terminal-text.ts";

/** Sentences for refusals by error code; `id` is the requested object, `subject` the text after the code. */
export type Sentences = Readonly<Record<string, (id: string, subject: string) => string>>;

/** Returns the failed outcome for a refusal of the server, as a sentence. */
export function refused({ status, body }: ServerAnswer, sentences: Sentences = {}, id = ""): Outcome {
  const { error, reason, detail, message } = readRefusal(body);
  const [code = "", subject = ""] = error.split(/:(.*)/s);
  const said = Object.hasOwn(sentences, code) ? sentences[code]?.(id, inert(subject)) : undefined;
  if (said !== undefined) return failed(1, code, said);
  if (status === 401) return failed(1, "unauthorized", unknownCaller(reason));
  if (status === 403) return failed(1, "forbidden", `The key lacks permission: ${inert(detail || error)}.`);
  if (message !== "") return failed(1, inert(code) || "refused", inert(message));
  if (code === "invalid_request") return failed(2, code, `The server refuses this: ${inert(detail)}`);
  const told = detail === "" ? body : `${error}. ${detail}`;
  return failed(1, inert(code) || "refused", `The server answered ${status}: ${inert(told.slice(0, 1000))}`);
}

function unknownCaller(reason: string): string {
  if (reason === "missing_credentials") return "The server needs an API key or a token: set SVC_KEY, or run svc login.";
  if (reason === "invalid_token")
    return "The server rejects the token in SVC_KEY: it has expired, or is signed for another audience.";
  return "The server does not know the key in SVC_KEY.";
}

function readRefusal(body: string): Readonly<Record<"error" | "reason" | "detail" | "message", string>> {
  try {
    const { error = "", reason = "", detail = "", message } = JSON.parse(body) as Readonly<Record<string, unknown>>;
    const words = typeof detail === "string" ? detail : wordsOf(detail);
    return {
      error: String(error),
      reason: String(reason),
      detail: words,
      message: typeof message === "string" ? message : "",
    };
  } catch {
    return { error: "", reason: "", detail: "", message: "" };
  }
}

/** Returns the problems of an invalid request as text. */
function wordsOf(detail: unknown): string {
  if (!Array.isArray(detail)) return JSON.stringify(detail);
  return detail.map((each: { readonly msg?: unknown }) => String(each?.msg ?? JSON.stringify(each))).join(" ");
}
