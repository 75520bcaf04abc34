import { trimBlanks } from "../../bus/blanks.ts";
import { isToken } from "../settings/key-token.ts";

/** The credential headers of a request, unparsed; undefined or empty if absent. */
export interface CredentialHeaders {
  readonly authorization: string | undefined;
  readonly x_api_key: string | undefined;
}

/** The credential of a request: a token, or why there is none. `bare`: a key without a scheme. `malformed`: any other form. */
export type Credential = { readonly token: string } | "missing" | "bare" | "malformed";

/** `<scheme> <token>`; RFC 9110 allows several spaces between them. */
const authorizationForm = /^([A-Za-z][A-Za-z0-9_-]{0,31})(?: +(\S+))?$/;

/** The credential headers that an authentication mode accepts. */
export interface CredentialForms {
  /** Schemes of the Authorization header, in lower case; the header is matched case-insensitively. */
  readonly schemes: readonly string[];
  /** True if X-Api-Key alone is accepted. */
  readonly keyHeader: boolean;
}

/** Reads the token of a request. If both headers are sent, they must carry the same token. */
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
  // Some clients without a token send the scheme alone.
  if (token === undefined) return "missing";
  return isToken(token) ? { token } : "malformed";
}
