import { SvcError } from "../../bus/errors.ts";
import { Type } from "../../bus/type.ts";
import { text } from "../exchange/reply.ts";
import { guide, guideIndex } from "../pages/guide.ts";
import { route } from "../route.ts";
import { systemTag } from "../tags.ts";

// The documents of this release, for people and for programs that use the server.

const markdown = "text/markdown; charset=utf-8";
const plain = "text/plain; charset=utf-8";
const pageHeaders = { "cache-control": "private, max-age=3600" };

const index = route({
  method: "GET",
  path: "/llms.txt",
  summary: "The documents of this version, as a list with links.",
  tag: systemTag,
  access: "docs",
  reply: {
    description: "In the form of llmstxt.org.",
    contentType: "text/plain",
    example: "# svc\n\n- [Tools](/docs/pages/tools.md): Every tool.\n",
  },
  handle: async () => text(guideIndex(await guide()), plain, pageHeaders),
});

const page = route({
  method: "GET",
  path: "/docs/pages/{page}",
  summary: "A document as plain Markdown.",
  tag: systemTag,
  access: "docs",
  params: Type.Object({ page: Type.String({ description: "Its name in /llms.txt.", examples: ["tools.md"] }) }),
  reply: { description: "Its text.", contentType: "text/markdown", example: "# Tools\n" },
  fails: ["not_found"],
  async handle({ params }) {
    const found = (await guide()).get(params.page);
    if (!found) throw new SvcError("not_found");
    return text(found.text, markdown, pageHeaders);
  },
});

export const guideRoutes = [index, page];
