import { trimBlanks } from "../../bus/blanks.ts";
import { isToken } from "../settings/key-token.ts";

/** The credential headers of a request as they came, undefined or empty when absent. */
export interface CredentialHeaders {
  readonly authorization: string | undefined;
  readonly x_api_key: string | undefined;
}

/** What a request shows: one token, none, a word without a scheme before it, or something else that is not accepted whatever it is. */
export type Credential = { readonly token: string } | "missing" | "bare" | "malformed";

/** `<scheme> <token>`; RFC 9110 allows several spaces between them. */
const authorizationForm = /^([A-Za-z][A-Za-z0-9_-]{0,31})(?: +(\S+))?$/;

/** Where a mode looks for credentials. */
export interface CredentialForms {
  /** The words that Authorization may begin with, lower case; case does not matter in the header. */
  readonly schemes: readonly string[];
  /** Whether X-Api-Key alone is a credential. */
  readonly keyHeader: boolean;
}

/** The token of a request. Two headers are accepted when they say the same. */
export function readCredential(headers: CredentialHeaders, forms: CredentialForms): Credential {
  const authorization = trimBlanks(headers.authorization ?? "");
  const key = trimBlanks(headers.x_api_key ?? "");
  const shown: Credential = authorization === "" ? "missing" : readAuthorization(authorization, forms.schemes);
  if (key === "" || shown === "malformed" || shown === "bare") return shown;
  if (shown === "missing") return forms.keyHeader && isToken(key) ? { token: key } : "malformed";
  return shown.token === key ? shown : "malformed";
}

function readAuthorization(value: string, schemes: readonly string[]): Credential {
  const match = authorizationForm.exec(value);
  const scheme = match?.[1]?.toLowerCase();
  const token = match?.[2];
  if (scheme === undefined || !schemes.includes(scheme)) return isToken(value) ? "bare" : "malformed";
  // A scheme without a token is what clients send that have none.
  if (token === undefined) return "missing";
  return isToken(token) ? { token } : "malformed";
}
