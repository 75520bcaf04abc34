import { SvcError } from "../../../bus/errors.ts";
import { Type } from "../../../bus/type.ts";
import type { HttpContext } from "../../../http/context.ts";
import { keptReply } from "../../../http/exchange/kept-body.ts";
import { type Reply, text } from "../../../http/exchange/reply.ts";
import { route } from "../../../http/route.ts";
import { domainsOf } from "../brands/brand-table.ts";
import { storefrontNotFound, storefrontUnavailable } from "../core/shop-errors.ts";
import { openBrandOfRequest, type RequestHead, storefrontParam } from "./storefront-brand.ts";
import { loaderPath, scriptPath, stylePath, widgetFiles } from "./widget-files.ts";

// The chat for the pages of brands: a script that adds a frame, and the frame.

const hour = "public, max-age=3600";

async function fileReply(name: string, head: RequestHead["headers"], context: HttpContext): Promise<Reply> {
  const file = (await widgetFiles(context.env)).get(name);
  if (file === undefined) throw new SvcError("not_found");
  return keptReply(file, file.contentType, head, { "cache-control": hour });
}

const loader = route({
  method: "GET",
  path: "/widget/loader.js",
  summary: "The script that adds the chat of a storefront to a page.",
  tag: "commerce",
  access: "public",
  anyHost: true,
  crossSite: "script",
  reply: {
    description: "A script. Its tag names the storefront in data-storefront.",
    contentType: "text/javascript",
    example: "",
  },
  otherReplies: [{ status: 304, description: "The client has this version.", contentType: "" }],
  handle: ({ exchange: { head } }, context) => fileReply(loaderPath, head.headers, context),
});

const file = route({
  method: "GET",
  path: "/widget/files/{file}",
  summary: "A file of the chat's frame.",
  tag: "commerce",
  access: "public",
  anyHost: true,
  isRest: true,
  params: Type.Object({ file: Type.String({ maxLength: 100, description: "Its path.", examples: [scriptPath] }) }),
  reply: { description: "A module or a style sheet.", contentType: "text/javascript", example: "" },
  otherReplies: [
    { description: "A style sheet.", contentType: "text/css", example: "" },
    { status: 304, description: "The client has this version.", contentType: "" },
  ],
  fails: ["not_found"],
  handle: ({ params, exchange: { head } }, context) => fileReply(params.file, head.headers, context),
});

const page = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Chat</title>
<link rel="stylesheet" href="/widget/files/${stylePath}">
<script type="module" src="/widget/files/${scriptPath}"></script>
</head>
<body>
<button id="launcher" type="button" aria-label="Open the chat">Chat</button>
<main id="panel" hidden>
<header><h1 id="title">Chat</h1><button id="close" type="button" aria-label="Close the chat">×</button></header>
<div id="log" role="log" aria-label="Conversation" tabindex="0"></div>
<div id="starters"></div>
<div id="cart" role="status" hidden></div>
<div id="approvals"></div>
<form id="form"><label for="input" hidden>Message</label><input id="input" aria-label="Message" autocomplete="off" maxlength="4000"><button type="submit">Send</button></form>
</main>
</body>
</html>
`;

const frame = route({
  method: "GET",
  path: "/widget/frame",
  summary: "The frame with the chat of a storefront.",
  tag: "commerce",
  access: "public",
  anyHost: true,
  crossSite: "frame",
  query: Type.Object({
    storefront: storefrontParam,
    parent: Type.Optional(Type.String({ maxLength: 300, description: "The origin of the page, for its messages." })),
  }),
  reply: {
    description: "A page. Only pages of the brand's domains may show it, once the brand has any.",
    contentType: "text/html",
    example: "<!doctype html>",
  },
  fails: [storefrontNotFound, storefrontUnavailable, "storage_unavailable"],
  async handle({ query, exchange: { head } }, context) {
    const brand = await openBrandOfRequest(query.storefront, head, context);
    const domains = await domainsOf(context.store.tenant(brand.operator_tenant), brand.id);
    const ancestors = domains.length === 0 ? "*" : domains.map((domain) => `https://${domain}`).join(" ");
    const policy = [
      ...["default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'", "img-src 'self' https:"],
      ...["base-uri 'none'", "form-action 'none'", `frame-ancestors ${ancestors}`],
    ].join("; ");
    return text(page, "text/html; charset=utf-8", {
      "content-security-policy": policy,
      "cache-control": "private, max-age=60",
    });
  },
});

/** The routes of the widget. */
export const widgetRoutes = [loader, file, frame];
