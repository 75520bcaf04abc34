import { integer, jsonObject, nullable, optionalText, text, timeoutMsMax } from "./fields.ts";

// Fields that all kinds of remote tools share.

/** Description of the tool for the model. */
export function toldToTheModel() {
  return optionalText("Description for the model.");
}

/** The credential that is sent with calls. */
export function credential() {
  return nullable(text("Credential: a literal or secret:NAME.", { maxLength: 4096 }));
}

/** A URL; sections/network.ts has the rules that check it. */
export function urlText(description: string) {
  return text(description, { maxLength: 2048 });
}

/** Schema of the tool's arguments. */
export function argsSchema() {
  return jsonObject("JSON Schema of the arguments.");
}

/** Timeout of a remote tool; null for the default of its kind. */
export function timeoutMs(description: string) {
  return nullable(integer(`${description} Milliseconds.`, { minimum: 1, maximum: timeoutMsMax }));
}
