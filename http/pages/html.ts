import type { Headers } from "../exchange/reply.ts";

// Pages for people. A page takes styles, scripts and pictures from this server alone, and has no script or style in its text, so
// that whatever comes to stand in it is only text.

/** Styles are set on elements by Swagger UI's scripts, which is not inline style; its icons are data URLs in its style sheet. */
export const pageHeaders: Headers = {
  "content-security-policy":
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  // The same address has another answer for programs.
  vary: "Accept",
};

export const pageType = "text/html; charset=utf-8";

/** Whether who asks is a browser that wants a page: its Accept header names text/html, which programs do not. */
export function wantsPage(accept: string | undefined): boolean {
  return (accept ?? "").split(",").some((range) => {
    const [type = "", ...parameters] = range.split(";").map((part) => part.trim().toLowerCase());
    return type === "text/html" && !parameters.some((parameter) => /^q=0(?:\.0*)?$/.test(parameter));
  });
}

/** A text as it may stand in an element or in a quoted attribute. */
export function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (sign) => `&#${sign.charCodeAt(0)};`);
}
