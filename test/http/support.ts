import assert from "node:assert/strict";
import { allDuties } from "../../governance/settings/duties.ts";
import { readSettings } from "../../governance/settings/settings.ts";
import type { Route } from "../../http/route.ts";
import { allRoutes } from "../../http/routes/all.ts";
import type { Answer } from "../support/http-client.ts";

/** Every route of a server with a manifest store; generated tests loop over them. */
export const routes: readonly Route[] = allRoutes({
  ...{ manifestSource: "store", triggers: [], duties: allDuties },
  // The servers of tests have no identity provider.
  signIn: readSettings({}).settings,
});

/** Returns a name like `GET /audit`. */
export function nameOf({ method, path }: Pick<Route, "method" | "path">): string {
  return `${method} ${path}`;
}

/** The path with the same text for each parameter. */
export function pathOf({ path }: Pick<Route, "path">, id: string): string {
  return path.replaceAll(/\{\w+\}/g, encodeURIComponent(id));
}

/** The routes that need credentials. */
export const protectedRoutes = routes.filter((route) => route.access !== "public");

/** Fails unless the answer has the headers of every answer. */
export function assertCommonHeaders(answer: Pick<Answer, "headers">, requestId?: string): void {
  const { headers } = answer;
  assert.match(String(headers["x-request-id"]), /^[\x21-\x7e]{1,64}$/);
  if (requestId !== undefined) assert.equal(headers["x-request-id"], requestId);
  assert.equal(headers["x-content-type-options"], "nosniff");
  assert.equal(headers["x-frame-options"], "DENY");
  assert.equal(headers["referrer-policy"], "no-referrer");
  assert.ok(headers["cache-control"] !== undefined, "cache-control is missing");
}

/** Status and body of a refusal in svc's own form, with `message` if given. */
export function refusal(status: number, code: string, message?: string) {
  return { status, body: { error: code, detail: code, ...(message !== undefined && { message }) } };
}

export function outcomeOf(answer: Answer) {
  return { status: answer.status, body: answer.json };
}
