import assert from "node:assert/strict";
import { allDuties } from "../../governance/settings/duties.ts";
import type { Route } from "../../http/route.ts";
import { allRoutes } from "../../http/routes/all.ts";
import type { Answer } from "../support/http-client.ts";

/** Every route of a server with a manifest store: what the generated tests go over. */
export const routes: readonly Route[] = allRoutes({ manifestSource: "store", triggers: [], duties: allDuties });

/** `GET /audit`. */
export function nameOf({ method, path }: Pick<Route, "method" | "path">): string {
  return `${method} ${path}`;
}

/** The path with the same text in the place of each parameter. */
export function pathOf({ path }: Pick<Route, "path">, id: string): string {
  return path.replaceAll(/\{\w+\}/g, encodeURIComponent(id));
}

/** The routes that a caller needs credentials for. */
export const protectedRoutes = routes.filter((route) => route.access !== "public");

/** Fails unless the answer has what every answer has. */
export function assertCommonHeaders(answer: Pick<Answer, "headers">, requestId?: string): void {
  const { headers } = answer;
  assert.match(String(headers["x-request-id"]), /^[\x21-\x7e]{1,64}$/);
  if (requestId !== undefined) assert.equal(headers["x-request-id"], requestId);
  assert.equal(headers["x-content-type-options"], "nosniff");
  assert.equal(headers["x-frame-options"], "DENY");
  assert.equal(headers["referrer-policy"], "no-referrer");
  assert.ok(headers["cache-control"] !== undefined, "cache-control is missing");
}

/** Status and body of a refusal in the house's form; `message` of those that have one. */
export function refusal(status: number, code: string, message?: string) {
  return { status, body: { error: code, detail: code, ...(message !== undefined && { message }) } };
}

export function outcomeOf(answer: Answer) {
  return { status: answer.status, body: answer.json };
}
