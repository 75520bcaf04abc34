import { integer, jsonObject, nullable, optionalText, text, timeoutMsMax } from "./fields.ts";

// Fields that remote tools of every kind have.

/** What the model is told that the tool is for. */
export function toldToTheModel() {
  return optionalText("Description for the model.");
}

/** The credential that is sent along. */
export function credential() {
  return nullable(text("Credential: a literal or secret:NAME.", { maxLength: 4096 }));
}

/** A URL; the rules of sections/network.ts look into it. */
export function urlText(description: string) {
  return text(description, { maxLength: 2048 });
}

/** What the tool takes. */
export function argsSchema() {
  return jsonObject("JSON Schema of the arguments.");
}

/** How long a remote tool may take; null is its kind's own default. */
export function timeoutMs(description: string) {
  return nullable(integer(`${description} Milliseconds.`, { minimum: 1, maximum: timeoutMsMax }));
}
