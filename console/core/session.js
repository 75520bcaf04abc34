import { computed, signal } from "@preact/signals";
import { call, key, refused } from "./api.js";
import { failure, offer, redeem, takeEnd } from "./sign-in.js";

// Who uses this tab: the key in session storage, the caller behind it, and what its scopes allow.

const keyName = "svc.key";

/** The caller as GET /auth/whoami answers it; null while nobody is signed in. */
export const who = signal(null);

/** `starting`, `asking` for a key, `open`, or `expired`: the screen waits, with all that was typed, for another key of the same person. */
export const phase = signal("starting");

/** The reason why the tab asks for a key; empty on the first visit. */
export const problem = signal("");

/** The operations of /openapi.json with the scopes that each requires, by `METHOD /path`. */
const operations = signal(new Map());

const held = computed(() => new Set(who.value?.scopes ?? []));

/** Opens the tab with the token of a sign-in that has ended, with the remembered key, or without one where the server needs none. */
export async function start() {
  const end = takeEnd();
  const remembered = recall();
  const asked = call("GET /auth/methods").catch(() => null);
  if (end === null && remembered !== null) {
    void asked.then((methods) => methods && offer(methods));
    return signIn(remembered);
  }
  const methods = await asked;
  if (methods === null) return ask("The server does not answer. Reload the page when it runs.");
  offer(methods);
  // Any page can link to the end of a sign-in, so one that failed does not end the session of this tab.
  const token = end && methods.bearer_required ? await redeem(end) : null;
  if (token === null && remembered === null && methods.bearer_required) return ask("");
  await signIn(token ?? remembered ?? "");
}

/** Opens the tab with a key. Asks again if the server refuses it. */
export async function signIn(text) {
  if (!/^[\x21-\x7e]*$/.test(text)) return ask("A key has only visible ASCII characters, and no blanks.");
  key.value = text;
  refused.value = null;
  try {
    const [caller, document] = await Promise.all([call("GET /auth/whoami"), call("GET /openapi.json")]);
    operations.value = operationsOf(document);
    who.value = caller;
    keep(text);
    problem.value = "";
    failure.value = "";
    phase.value = "open";
  } catch (error) {
    key.value = null;
    if (error.status === 401) forget();
    ask(sentenceOf(error));
  }
}

/** Forgets the key and everything that was read with it. */
export function signOut(why = "") {
  forget();
  key.value = null;
  who.value = null;
  phase.value = "asking";
  ask(why);
}

refused.subscribe((error) => {
  if (error === null || phase.value !== "open") return;
  forget();
  key.value = null;
  phase.value = "expired";
  problem.value = sentenceOf(error);
});

/** The caller of this tab as one text. The screens of one person are never shown to another. */
export const person = computed(() => JSON.stringify([who.value?.tenant_id, who.value?.sub]));

/** True if this server has the route. */
export function has(route) {
  return operations.value.has(route);
}

/** True if this server has the route, and the caller's scopes allow it. */
export function may(route) {
  const required = operations.value.get(route);
  return required?.every(holds) ?? false;
}

/** Returns the scopes that the caller lacks for a route. */
export function missing(route) {
  return (operations.value.get(route) ?? []).filter((scope) => !holds(scope));
}

function holds(scope) {
  const scopes = held.value;
  if (scopes.has("*") || scopes.has("admin") || scopes.has(scope)) return true;
  return scope.endsWith(":read") && scopes.has(scope.replace(/:read$/, ":write"));
}

function operationsOf({ paths }) {
  const found = new Map();
  for (const [path, methods] of Object.entries(paths))
    for (const [method, { security = [] }] of Object.entries(methods))
      found.set(`${method.toUpperCase()} ${path}`, Object.values(security[0] ?? {}).flat());
  return found;
}

function ask(why) {
  problem.value = why;
  if (phase.value !== "expired") phase.value = "asking";
}

function sentenceOf(error) {
  if (error.status === 401)
    return "The server does not accept this key. Check that all of it was copied, and that it has not expired.";
  if (error.status === 403) return `This key may not use the console: ${error.message}`;
  if (error.status === 429) return "Too many tries. Wait a moment and try again.";
  return error.message;
}

// A browser may deny storage to pages; the tab then asks for the key at each visit.

function recall() {
  try {
    return sessionStorage.getItem(keyName);
  } catch {
    return null;
  }
}

function keep(text) {
  try {
    sessionStorage.setItem(keyName, text);
  } catch {}
}

function forget() {
  try {
    sessionStorage.removeItem(keyName);
  } catch {}
}
