import { readFile } from "node:fs/promises";
import { SvcError } from "../../bus/errors.ts";
import { Type } from "../../bus/type.ts";
import { type KeptBody, keepBody, keptReply } from "../exchange/kept-body.ts";
import { bearerChallenge, text } from "../exchange/reply.ts";
import { openApiText } from "../openapi/openapi.ts";
import { docsPage } from "../pages/docs-page.ts";
import { pageHeaders, pageType } from "../pages/html.ts";
import { type Route, route } from "../route.ts";
import { OpenObject } from "../schemas/common.ts";
import { systemTag } from "../tags.ts";

// The API reference: the OpenAPI document, and Swagger UI to read it. All files come from this server, and the pages' policy forbids any
// other origin.

/** The files change only with a release. */
const fileHeaders = { "cache-control": "private, max-age=3600" };
const scriptType = "text/javascript; charset=utf-8";
const styleType = "text/css; charset=utf-8";

/** The public files of the pages, with their content type and a function that reads them. */
const files: ReadonlyMap<string, { readonly contentType: string; readonly bytes: () => Promise<Buffer> }> = new Map([
  ["docs.js", { contentType: scriptType, bytes: kept(() => new URL("../pages/docs.js", import.meta.url)) }],
  ["page.css", { contentType: styleType, bytes: kept(() => new URL("../pages/page.css", import.meta.url)) }],
  ["swagger-ui-bundle.js", { contentType: scriptType, bytes: distributed("swagger-ui-bundle.js") }],
  ["swagger-ui.css", { contentType: styleType, bytes: distributed("swagger-ui.css") }],
  ["favicon-32x32.png", { contentType: "image/png", bytes: distributed("favicon-32x32.png") }],
]);

/** Returns a reader of a file of Swagger UI. */
function distributed(name: string): () => Promise<Buffer> {
  return kept(() => new URL(import.meta.resolve(`swagger-ui-dist/${name}`)));
}

/** Returns a reader of a file that is read at the first request and cached. */
function kept(file: () => URL): () => Promise<Buffer> {
  let read: Promise<Buffer> | null = null;
  return () => {
    read ??= readFile(file()).catch((error: unknown) => {
      read = null;
      throw error;
    });
    return read;
  };
}

/** Returns the routes of the reference. `routes` is called at the first request, when the route table is complete. */
export function docsRoutes(routes: () => readonly Route[]): readonly Route[] {
  let document: Promise<KeptBody> | null = null;

  const openApi = route({
    method: "GET",
    path: "/openapi.json",
    summary: "This reference as an OpenAPI document.",
    tag: systemTag,
    access: "docs",
    headers: Type.Object({
      "If-None-Match": Type.Optional(Type.String({ description: "The ETag of the client's copy." })),
    }),
    reply: {
      description: "OpenAPI 3.1; 304 for a client with the current ETag.",
      schema: OpenObject,
      example: { openapi: "3.1.0", info: { title: "svc", version: "1.0.0" }, paths: {} },
    },
    async handle({ exchange }, { env, version }) {
      document ??= keepBody(openApiText(routes(), version), env).catch((error: unknown) => {
        document = null;
        throw error;
      });
      return keptReply(await document, "application/json", exchange.head.headers);
    },
  });

  const docs = route({
    method: "GET",
    path: "/docs",
    summary:
      "This reference as a page. A browser without credentials gets a page that asks for a key, with status 401.",
    tag: systemTag,
    access: "docs",
    reply: {
      description: "A page without external resources.",
      contentType: "text/html",
      example: docsPage(false),
    },
    challenge: () => text(docsPage(true), pageType, { ...pageHeaders, ...bearerChallenge }, 401),
    handle: () => text(docsPage(false), pageType, pageHeaders),
  });

  const file = route({
    method: "GET",
    path: "/docs/{file}",
    summary: "A file that a page of this server loads.",
    tag: systemTag,
    access: "public",
    tenancy: [{ of: "manifest" }],
    params: Type.Object({ file: Type.String({ description: "Its name.", examples: ["page.css"] }) }),
    reply: { description: "The file.", contentType: "application/octet-stream", example: "body { margin: 0 }" },
    fails: ["not_found"],
    async handle({ params }) {
      const found = files.get(params.file);
      if (!found) throw new SvcError("not_found");
      return text(await found.bytes(), found.contentType, fileHeaders);
    },
  });

  return [openApi, docs, file];
}
