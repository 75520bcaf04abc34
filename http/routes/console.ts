import { SvcError } from "../../bus/errors.ts";
import { Type } from "../../bus/type.ts";
import { keptReply } from "../exchange/kept-body.ts";
import { type ConsoleFiles, consoleFiles } from "../pages/console.ts";
import type { OwnedAddition } from "../pages/console-screens.ts";
import { pageType } from "../pages/html.ts";
import { type Route, route } from "../route.ts";
import { systemTag } from "../tags.ts";

// The console. Its files are public and contain no data: the page asks for a key and sends it with each request, as any client does.

/** The address of a file has the digest of all files, so it never changes. */
const forever = "public, max-age=31536000, immutable";
const Segment = (description: string, example: string) =>
  Type.String({ maxLength: 64, description, examples: [example] });

type ReadFiles = () => Promise<ConsoleFiles>;

const page = (files: ReadFiles): Route =>
  route({
    method: "GET",
    path: "/console",
    summary: "The console: a page to chat, decide approvals, and look at runs, usage and audit.",
    tag: systemTag,
    access: "public",
    reply: {
      description: "A page without data and without external resources.",
      contentType: "text/html",
      example: "<!doctype html>",
    },
    async handle({ exchange }) {
      const { page, pageHeaders } = await files();
      return keptReply(page, pageType, exchange.head.headers, pageHeaders);
    },
  });

const worker = (files: ReadFiles): Route =>
  route({
    method: "GET",
    path: "/console/worker.js",
    summary: "The worker of the console, which shows push notifications. Its address is the same in every release.",
    tag: systemTag,
    access: "public",
    reply: { description: "A script.", contentType: "text/javascript", example: "self.addEventListener()" },
    fails: ["not_found"],
    async handle({ exchange }) {
      const found = await (await files()).file("console/worker.js");
      if (found === undefined) throw new SvcError("not_found");
      return keptReply(found, found.contentType, exchange.head.headers, { "cache-control": "no-cache" });
    },
  });

const app = (files: ReadFiles): Route =>
  route({
    method: "GET",
    path: "/console/app.webmanifest",
    summary: "The description of the console as an app that a browser can install.",
    tag: systemTag,
    access: "public",
    reply: { description: "A web app manifest.", contentType: "application/manifest+json", example: '{"name":"svc"}' },
    async handle() {
      const { build } = await files();
      const body = JSON.stringify({
        ...{ name: "svc console", short_name: "svc", start_url: "/console", scope: "/console", display: "standalone" },
        icons: [{ src: `/console/${build}/console/icon.svg`, sizes: "any", type: "image/svg+xml" }],
      });
      const headers = { "cache-control": "no-cache" };
      return { kind: "text", status: 200, contentType: "application/manifest+json", body, headers };
    },
  });

const release = { build: Segment("The release of the console.", "0123456789abcdef") };

/** Returns the route of the files whose path has these segments. */
function filesAt(segments: readonly string[], read: ReadFiles): Route {
  return route({
    method: "GET",
    path: `/console/{build}/${segments.map((name) => `{${name}}`).join("/")}`,
    summary: "A file of the console. Its address changes with its release.",
    tag: systemTag,
    access: "public",
    // A page loads about 70 of them, all from memory.
    unlimited: true,
    tenancy: [{ of: "manifest" }],
    params: Type.Object({
      ...release,
      ...Object.fromEntries(segments.map((name) => [name, Segment("A segment of its path.", name)])),
    }),
    reply: { description: "The file.", contentType: "application/octet-stream", example: "body { margin: 0 }" },
    fails: ["not_found"],
    async handle({ params, exchange }) {
      const { build, file } = await read();
      const given = params as Readonly<Record<string, string>>;
      const found = given.build === build ? await file(segments.map((name) => given[name]).join("/")) : undefined;
      if (found === undefined) throw new SvcError("not_found");
      return keptReply(found, found.contentType, exchange.head.headers, { "cache-control": forever });
    },
  });
}

/** Returns the routes of the console with added screens. Its files are two to five levels deep. */
export function consoleRoutes(additions: readonly OwnedAddition[]): readonly Route[] {
  const files = () => consoleFiles(additions);
  return [
    ...[page(files), worker(files), app(files)],
    ...[
      ["folder", "name"],
      ["folder", "name", "part"],
      ["folder", "name", "part", "file"],
    ].map((segments) => filesAt(segments, files)),
    filesAt(["folder", "name", "part", "file", "leaf"], files),
  ];
}
