import { cutText } from "../../../bus/cut-text.ts";
import { Type } from "../../../bus/type.ts";
import type { CompiledAgent } from "../../../manifests/compile/compiled.ts";
import type { DocumentTool } from "../../../manifests/sections/document-tools.ts";
import { type DocumentFilter, type DocumentHit, searchDocuments } from "../../../storage/tables/document-search.ts";
import type { ToolSource } from "../source.ts";
import { defineTool, type Tool, type ToolContext, type ToolResult } from "../tool.ts";

// Tools that search the documents of the tenant: search_documents, and those of spec.document_tools.

const hitsMax = 10;
const hitsDefault = 5;
/** Max characters of a chunk in a result; ten of the longest chunks would fill a window. */
const chunkCharsMax = 4_000;

/** The built-in tool. */
export const searchDocumentsTool: Tool = defineTool({
  name: "search_documents",
  description:
    "Searches the documents of the organization. Returns the parts that match best, with their title and source.",
  parameters: Type.Object(
    {
      query: Type.String({ minLength: 1, maxLength: 1000, description: "Words that the answer would contain." }),
      limit: Type.Optional(
        Type.Integer({ minimum: 1, maximum: hitsMax, description: `Most parts; ${hitsDefault} if absent.` }),
      ),
    },
    { additionalProperties: false },
  ),
  effect: "read",
  risk: "reads",
  execute: ({ query, limit = hitsDefault }, context: ToolContext) => search(query, limit, {}, context),
});

/** The tools of spec.document_tools. */
export const documentToolSource: ToolSource = {
  name: "spec.document_tools",
  offers: [],
  resolve(name: string, { documentTools }: CompiledAgent) {
    const declared = documentTools.get(name);
    return declared && documentTool(declared);
  },
};

function documentTool(declared: DocumentTool): Tool {
  return {
    ...declared,
    timeoutMs: 30_000,
    execute: ({ query }: { readonly query: string }, context) =>
      search(query, declared.hitsMax, declared.filter, context),
  };
}

async function search(
  query: string,
  limit: number,
  filter: DocumentFilter,
  { store, tenantId, services: { textVectors } }: ToolContext,
): Promise<ToolResult> {
  const vector = await textVectors.ofQuery(tenantId, query);
  const hits = await searchDocuments(store, query, vector, limit, filter);
  if (hits.length === 0) return { text: "No document matches." };
  const sources = hits.map(({ doc_id, title, source, chunk_index }) => ({ doc_id, title, source, chunk_index }));
  return { text: hits.map(shown).join("\n\n"), taint: ["document"], sources };
}

function shown({ title, source, chunk_index, content }: DocumentHit, at: number): string {
  const from = source === "" ? "" : `\nSource: ${source}`;
  return `[${at + 1}] ${title} (part ${chunk_index + 1})${from}\n${cutText(content, chunkCharsMax)}`;
}
