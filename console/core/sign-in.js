import { signal } from "@preact/signals";
import { call } from "./api.js";
import { go } from "./router.js";

// Sign-in in a browser. The server sends the browser back to this page with a fragment: `#svc_login=ok` or `#svc_login_error=CODE`.

const names = { github: "GitHub", google: "Google" };

/** The providers at which people can sign in, as `{ id, name }`. */
export const providers = signal([]);

/** Why the last sign-in failed; empty if none did. */
export const failure = signal("");

/** True if a sign-in failed because the person must name a tenant, or named a wrong one. */
export const needsTenant = signal(false);

/** Takes the providers from the answer of GET /auth/methods. */
export function offer(methods) {
  providers.value = Object.entries(names)
    .filter(([id]) => methods[`${id}_redirect`])
    .map(([id, name]) => ({ id, name }));
}

/** Returns the address that starts a sign-in and leads back to this page. */
export function startOf(provider, tenant) {
  const query = new URLSearchParams({ return_to: `${location.origin}/console`, ...(tenant !== "" && { tenant }) });
  return `/auth/${provider}/authorize?${query}`;
}

/** Returns how a sign-in ended, and removes it from the address. Null if the page was not opened by the end of a sign-in. */
export function takeEnd() {
  if (!/^#svc_login(_error)?=/.test(location.hash)) return null;
  const words = new URLSearchParams(location.hash.slice(1));
  go("#/", { replace: true });
  return { error: words.get("svc_login_error"), login: words.get("login") ?? "" };
}

/** Returns the token of a sign-in that has ended. Null if it failed, with the reason in `failure`. */
export async function redeem({ error, login }) {
  let code = error;
  // The fragment does not name the provider. The server refuses the cookie at the wrong one, and keeps it for the right one.
  for (const { id } of error === null ? providers.value : []) {
    try {
      return (await call(`POST /auth/${id}/exchange`)).access_token;
    } catch (refusal) {
      code = refusal.code;
      if (code !== "invalid_login") break;
    }
  }
  failure.value = sentenceOf(code ?? "", login);
  needsTenant.value = code === "tenant_ambiguous" || code === "tenant_not_granted";
  return null;
}

const again = "Sign in again.";
const sentences = new Map([
  ["access_denied", "The sign-in was cancelled at the provider."],
  ["not_a_member", "No organisation of this server admits the account."],
  [
    "org_access_restricted",
    "The organisation does not let this server see its members. One of its owners must approve the app.",
  ],
  ["not_invited", "The account is not invited to this server."],
  ["tenant_ambiguous", "Several tenants admit the account. Enter one of them and sign in again."],
  ["tenant_not_granted", "The tenant does not admit the account."],
  ["invalid_login", `The sign-in is over or was completed in another tab. ${again}`],
  ["invalid_state", `The sign-in is over or began in another browser. ${again}`],
  ["github_unavailable", "GitHub does not answer. Try again in a moment."],
  ["google_unavailable", "Google does not answer. Try again in a moment."],
  ["github_config_error", "GitHub does not accept this server. Its operator must check the settings of the app."],
  ["connection_lost", "The server cannot be reached. Sign in again when it runs."],
]);

/** The fragment may come from any page, so it chooses a sentence and adds at most the name of an account. */
function sentenceOf(code, login) {
  const account = /^[\w.+-]{1,64}(@[\w.-]{1,255})?$/.test(login) ? ` Account: ${login}.` : "";
  return `${sentences.get(code) ?? `The sign-in failed. ${again}`}${account}`;
}
