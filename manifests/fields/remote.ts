import type { Path } from "../problems.ts";
import { integer, jsonObject, nullable, optionalText, text, timeoutMsMax } from "./fields.ts";
import type { CompileContext } from "./section.ts";

// Fields that all kinds of remote tools share.

/** Description of the tool for the model. */
export function toldToTheModel() {
  return optionalText("Description for the model.");
}

/** The credential that is sent with calls. */
export function credential() {
  return nullable(text("Credential: a literal or secret:NAME.", { maxLength: 4096 }));
}

/**
 * Refuses a credential that names a secret which the operator has not granted to the tenant. Only stored manifests need the grant: a
 * tenant could otherwise send any secret of the deployment to its own server (decision 178).
 */
export function refuseSecret(
  auth: string | null,
  loc: Path,
  { isStored, tenantId, registries, refuse }: Pick<CompileContext, "isStored" | "tenantId" | "registries" | "refuse">,
): void {
  if (!isStored || auth === null || !auth.startsWith("secret:")) return;
  const name = auth.slice("secret:".length);
  if (registries.targets?.grantsSecret(name, tenantId)) return;
  refuse(loc, `names the secret ${name}, which is not granted to this tenant (secret_not_allowed)`, "unresolved");
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
