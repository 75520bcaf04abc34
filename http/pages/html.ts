import type { Headers } from "../exchange/reply.ts";

// Helpers for HTML pages. A page loads styles, scripts and images from this server only, and contains no inline script or style. Injected
// text can therefore never run.

/** Swagger UI sets styles on elements by script, which this policy allows; its icons are data URLs in its style sheet. */
export const pageHeaders: Headers = {
  "content-security-policy":
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  // The same address has another answer for programs.
  vary: "Accept",
};

export const pageType = "text/html; charset=utf-8";

/** True if the Accept header names text/html, which browsers send and programs do not. */
export function wantsPage(accept: string | undefined): boolean {
  return (accept ?? "").split(",").some((range) => {
    const [type = "", ...parameters] = range.split(";").map((part) => part.trim().toLowerCase());
    return type === "text/html" && !parameters.some((parameter) => /^q=0(?:\.0*)?$/.test(parameter));
  });
}

/** Returns the text escaped for an element or a quoted attribute. */
export function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (sign) => `&#${sign.charCodeAt(0)};`);
}
