import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { SvcError } from "../../bus/errors.ts";
import { Type } from "../../bus/type.ts";
import { jsonText, text } from "../exchange/reply.ts";
import { openApiDocument } from "../openapi.ts";
import { type Route, route } from "../route.ts";
import { OpenObject } from "../schemas/common.ts";

// The reference: the OpenAPI document, and Swagger UI to read it with. Everything comes from this server; the browser is told
// to take nothing from anywhere else.

const tag = "System";

/** The page and its own script. Paths are absolute, because the page is there with and without a slash at its end. */
const page = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>svc reference</title>
<link rel="icon" href="/docs/favicon-32x32.png">
<link rel="stylesheet" href="/docs/swagger-ui.css">
</head>
<body>
<div id="reference"></div>
<script src="/docs/swagger-ui-bundle.js"></script>
<script src="/docs/start.js"></script>
</body>
</html>
`;
// Without a validatorUrl of null, Swagger UI sends the address of the document to a service on the internet.
const startScript = `SwaggerUIBundle({
  url: "/openapi.json",
  dom_id: "#reference",
  deepLinking: true,
  validatorUrl: null,
});
`;

/** Styles are set on elements by Swagger UI's scripts, which is not inline style; its icons are data URLs in its style sheet. */
const pageHeaders = {
  "content-security-policy":
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
};
/** The files change only with the release. */
const fileHeaders = { "cache-control": "private, max-age=3600" };

/** What the page loads: its content type, and how its bytes are made. */
const files: ReadonlyMap<string, { readonly contentType: string; readonly bytes: () => Promise<Buffer> }> = new Map([
  ["start.js", { contentType: "text/javascript; charset=utf-8", bytes: async () => Buffer.from(startScript) }],
  [
    "swagger-ui-bundle.js",
    { contentType: "text/javascript; charset=utf-8", bytes: distributed("swagger-ui-bundle.js") },
  ],
  ["swagger-ui.css", { contentType: "text/css; charset=utf-8", bytes: distributed("swagger-ui.css") }],
  ["favicon-32x32.png", { contentType: "image/png", bytes: distributed("favicon-32x32.png") }],
]);

/** A file of Swagger UI, read when it is first asked for. */
function distributed(name: string): () => Promise<Buffer> {
  let read: Promise<Buffer> | null = null;
  return () => {
    read ??= readFile(fileURLToPath(import.meta.resolve(`swagger-ui-dist/${name}`))).catch((error: unknown) => {
      read = null;
      throw error;
    });
    return read;
  };
}

/**
 * The routes of the reference. `routes` is asked for at the first request, when the table is whole; `tags` describes those that the
 * reference does not know by itself.
 */
export function docsRoutes(routes: () => readonly Route[], tags: Readonly<Record<string, string>>): readonly Route[] {
  let document: string | null = null;

  const openApi = route({
    method: "GET",
    path: "/openapi.json",
    summary: "This reference as an OpenAPI document.",
    tag,
    access: "docs",
    reply: { description: "OpenAPI 3.1.", schema: OpenObject },
    handle(_request, { version }) {
      document ??= JSON.stringify(openApiDocument(routes(), version, tags));
      return jsonText(document);
    },
  });

  const docs = route({
    method: "GET",
    path: "/docs",
    summary: "This reference as a page.",
    tag,
    access: "docs",
    reply: { description: "A page that loads nothing from elsewhere.", contentType: "text/html" },
    handle: () => text(page, "text/html; charset=utf-8", pageHeaders),
  });

  const file = route({
    method: "GET",
    path: "/docs/{file}",
    summary: "A file that the page of the reference loads.",
    tag,
    access: "docs",
    params: Type.Object({ file: Type.String({ description: "Its name." }) }),
    reply: { description: "The file.", contentType: "application/octet-stream" },
    fails: ["not_found"],
    async handle({ params }) {
      const found = files.get(params.file);
      if (!found) throw new SvcError("not_found");
      return text(await found.bytes(), found.contentType, fileHeaders);
    },
  });

  return [openApi, docs, file];
}
