import { SvcError } from "../../bus/errors.ts";
import { Type } from "../../bus/type.ts";
import { documentTypes } from "../../governance/documents/extract-work.ts";
import type { DocumentExtractor } from "../../governance/documents/extractor.ts";
import { ingest } from "../../governance/documents/ingest.ts";
import { filesOfDocuments } from "../../storage/tables/document-files.ts";
import { searchDocuments } from "../../storage/tables/document-search.ts";
import { embeddedChunks } from "../../storage/tables/document-vectors.ts";
import { documentPage, removeDocument, storedDocument } from "../../storage/tables/documents.ts";
import { untilFirst } from "../../storage/tables/until-first.ts";
import { json, jsonText, text } from "../exchange/reply.ts";
import { bodyBytesDefault, route } from "../route.ts";
import { EpochMs } from "../schemas/common.ts";
import type { Tag } from "../tags.ts";

const tag: Tag = { name: "Documents", description: "Texts of the operator that agents search." };
const readScopes = ["documents:read"];
const writeScopes = ["documents:write"];
const textCharsMax = 750_000;
const metadataBytesMax = 16_384;
/** The metadata of a file is a parameter of the query. */
const fileMetadataCharsMax = 4_096;
const fileBytesMax = 20 * 1024 * 1024;
/** A character may take 6 bytes as an escape. */
const bodyBytesMax = Math.max(bodyBytesDefault, 6 * textCharsMax + 64 * 1024);

const docId = Type.String({
  description: "Derived from source and title.",
  examples: ["4f53cda18c2baa0c0354bb5f9a3ecbe5"],
});
const shownFields = {
  title: Type.String({ examples: ["Returns"] }),
  source: Type.String({
    description: "Where the text is from, often its URL.",
    examples: ["https://docs.example/returns"],
  }),
  metadata: Type.Object({}, { additionalProperties: true, examples: [{ team: "support" }] }),
};
const Document = Type.Object({
  doc_id: docId,
  ...shownFields,
  chunks: Type.Integer({ examples: [3] }),
  embedded: Type.Integer({
    description: "Chunks with a vector of the present embedder; 0 if searches compare words only.",
    examples: [3],
  }),
  chars: Type.Integer({ examples: [3_200] }),
  created_at: EpochMs,
  updated_at: EpochMs,
  file: Type.Union(
    [
      Type.Object({
        media_type: Type.String({ examples: ["application/pdf"] }),
        size_bytes: Type.Integer({ examples: [48_211] }),
      }),
      Type.Null(),
    ],
    { description: "The file from which it was made; null for a text.", examples: [null] },
  ),
});
const Hit = Type.Object({
  doc_id: docId,
  ...shownFields,
  content: Type.String({ description: "The chunk.", examples: ["Goods may be returned within 30 days."] }),
  chunk_index: Type.Integer({ description: "Its number in the document, from 0.", examples: [0] }),
  score: Type.Number({ description: "The sum over the channels of 1 / (5 + rank).", examples: [0.1667] }),
  channels: Type.Array(Type.String(), {
    description: "What found it: lexical for its words, vector for its meaning.",
    examples: [["lexical", "vector"]],
  }),
});
const DocumentParams = Type.Object({ doc_id: docId });

const listDocuments = route({
  method: "GET",
  path: "/documents",
  summary: "Documents, the last ingested first.",
  tag,
  access: readScopes,
  query: Type.Object({
    limit: Type.Integer({ minimum: 1, maximum: 500, default: 100, description: "Documents per page." }),
    cursor: Type.Optional(Type.String({ description: "`next_cursor` of the previous page." })),
  }),
  reply: {
    description: "`count` is the number of items; next_cursor is set if there are more.",
    schema: Type.Object({
      items: Type.Array(Document),
      count: Type.Integer({ examples: [1] }),
      next_cursor: Type.Union([Type.String(), Type.Null()], { examples: [null] }),
    }),
  },
  fails: ["invalid_cursor", "storage_unavailable"],
  async handle({ query: { limit, cursor = null }, principal }, { store, mask, textVectors: { embedder } }) {
    const tenant = store.tenant(principal.tenant_id);
    const { rows, next_cursor } = await documentPage(tenant, {}, cursor, limit);
    const keys = rows.map(({ document_key }) => document_key);
    const embedded = embedder === null ? null : await embeddedChunks(tenant, keys, embedder);
    const files = await filesOfDocuments(
      tenant,
      rows.map(({ id }) => id),
    );
    const fileOf = (id: string) => {
      const file = files.get(id);
      return file === undefined ? null : { media_type: file.media_type, size_bytes: file.size_bytes };
    };
    const items = rows.map(({ id, ts, document_key, title, source, metadata, chunks, chars, created_at }) => ({
      ...{ doc_id: id, title, source, metadata, chunks, embedded: embedded?.get(document_key) ?? 0, chars },
      ...{ created_at, updated_at: ts, file: fileOf(id) },
    }));
    return jsonText(mask.forms.jsonText(JSON.stringify({ items, count: items.length, next_cursor })));
  },
});

const findDocuments = route({
  method: "GET",
  path: "/documents/search",
  summary: "The chunks of documents that match a question, best first.",
  tag,
  access: readScopes,
  query: Type.Object({
    q: Type.String({
      minLength: 1,
      maxLength: 1000,
      description: "Words of the question.",
      examples: ["return goods"],
    }),
    limit: Type.Integer({ minimum: 1, maximum: 50, default: 5, description: "Most hits." }),
  }),
  reply: {
    description:
      "A chunk with one of the words is a hit. With an embedder the nearest chunks are hits too, once they have a vector.",
    schema: Type.Object({ items: Type.Array(Hit), count: Type.Integer({ examples: [1] }) }),
  },
  fails: ["storage_unavailable"],
  async handle({ query: { q, limit }, principal: { tenant_id } }, { store, mask, textVectors }) {
    const vector = await textVectors.ofQuery(tenant_id, q);
    const items = await searchDocuments(store.tenant(tenant_id), q, vector, limit);
    return jsonText(mask.forms.jsonText(JSON.stringify({ items, count: items.length })));
  },
});

const postDocument = route({
  method: "POST",
  path: "/documents",
  summary: "Stores a document, or replaces the one with the same source and title.",
  tag,
  access: writeScopes,
  bodyBytesMax,
  body: Type.Object(
    {
      title: Type.String({ minLength: 1, maxLength: 400, description: "One line.", examples: ["Returns"] }),
      source: Type.String({
        maxLength: 2000,
        default: "",
        description: "One line that says where the text is from.",
        examples: ["https://docs.example/returns"],
      }),
      text: Type.String({
        minLength: 1,
        maxLength: textCharsMax,
        description: "Plain text or Markdown.",
        examples: ["# Returns\n\nGoods may be returned within 30 days."],
      }),
      metadata: Type.Object(
        {},
        { additionalProperties: true, default: {}, description: `At most ${metadataBytesMax} bytes as JSON.` },
      ),
      max_chars: Type.Integer({
        minimum: 128,
        maximum: 20_000,
        default: 1500,
        description: "Most characters of a chunk.",
      }),
      overlap_chars: Type.Integer({
        minimum: 0,
        maximum: 4000,
        default: 150,
        description: "Characters that a chunk repeats from the previous one, at most half of max_chars.",
      }),
    },
    { additionalProperties: false },
  ),
  reply: {
    description: "The document is searchable.",
    schema: Type.Object({ doc_id: docId, chunks: Type.Integer({ examples: [1] }) }),
  },
  fails: [
    "document_too_long",
    "documents_full",
    "storage_quota_exceeded",
    "conflict",
    "deadline_exceeded",
    "storage_unavailable",
  ],
  async handle({ body, principal }, context) {
    const { title, source, text, max_chars: charsMax, overlap_chars: overlapChars } = body;
    const metadata = body.metadata as Readonly<Record<string, unknown>>;
    for (const [field, value] of Object.entries({ title, source }))
      if (/[\p{Cc}\u2028\u2029]/u.test(value)) throw misfit(field, "has a control character or a line break");
    if (/[^\P{Cc}\t\n\r]/u.test(text)) throw misfit("text", "has a control character");
    if (text.trim() === "") throw misfit("text", "has no words");
    if (Buffer.byteLength(JSON.stringify(metadata)) > metadataBytesMax)
      throw misfit("metadata", `is over ${metadataBytesMax} bytes as JSON`);
    return json(await ingest(principal.tenant_id, { title, source, metadata, text, charsMax, overlapChars }, context));
  },
});

const postDocumentFile = route({
  method: "POST",
  path: "/documents/files",
  summary: "Stores the text of a file as a document: plain text, Markdown, HTML, PDF or DOCX.",
  tag,
  access: writeScopes,
  bodyBytesMax: fileBytesMax,
  query: Type.Object({
    title: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 400,
        description: "One line; absent for the title of the file, else its first heading.",
      }),
    ),
    source: Type.String({
      maxLength: 2000,
      default: "",
      description: "One line that says where the file is from.",
    }),
    metadata: Type.String({
      maxLength: fileMetadataCharsMax,
      default: "{}",
      description: `An object as JSON, at most ${fileMetadataCharsMax} characters.`,
      examples: ['{"team": "support"}'],
    }),
    max_chars: Type.Integer({
      minimum: 128,
      maximum: 20_000,
      default: 1500,
      description: "Most characters of a chunk.",
    }),
    overlap_chars: Type.Integer({
      minimum: 0,
      maximum: 4000,
      default: 150,
      description: "Characters that a chunk repeats from the previous one, at most half of max_chars.",
    }),
  }),
  reply: {
    description: `The document is searchable. The body is the file itself, at most 20 MiB; its Content-Type is one of ${Object.keys(documentTypes).join(", ")}.`,
    schema: Type.Object({
      doc_id: docId,
      chunks: Type.Integer({ examples: [1] }),
      title: Type.String({ examples: ["Returns"] }),
      chars: Type.Integer({ examples: [3_200] }),
    }),
  },
  fails: [
    "empty_data",
    "document_unreadable",
    "document_too_long",
    "documents_full",
    "storage_quota_exceeded",
    "conflict",
    "deadline_exceeded",
    "mailbox_full",
    "object_store_unavailable",
    "storage_unavailable",
  ],
  async handle({ query, rawBody, principal, exchange }, context) {
    const { source, max_chars: charsMax, overlap_chars: overlapChars } = query;
    const { tenant_id } = principal;
    for (const [field, value] of Object.entries({ title: query.title ?? "", source }))
      if (/[\p{Cc}\u2028\u2029]/u.test(value)) throw misfit(field, "has a control character or a line break", "query");
    const metadata = readMetadata(query.metadata);
    if (rawBody.length === 0) throw new SvcError("empty_data");
    const media_type = typeOf(exchange.head.headers["content-type"] ?? "");
    const found = await textOf(tenant_id, media_type, rawBody, context.extractor);
    const [, heading = ""] = /^ {0,3}#{1,6}[ \t]+(.+)$/m.exec(found.text) ?? [];
    const title = query.title ?? (oneLine(found.title) || oneLine(heading) || "Untitled");
    const file = { media_type, bytes: rawBody };
    const given = { title, source, metadata, text: found.text, charsMax, overlapChars, file };
    return json({ ...(await ingest(tenant_id, given, context)), title, chars: found.text.length });
  },
});

function readMetadata(text: string): Readonly<Record<string, unknown>> {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    value = null;
  }
  if (typeof value !== "object" || value === null || Array.isArray(value))
    throw misfit("metadata", "is not an object as JSON", "query");
  return value as Readonly<Record<string, unknown>>;
}

/** Returns the media type without parameters. */
function typeOf(contentType: string): string {
  return (contentType.split(";")[0] ?? "").trim().toLowerCase();
}

async function textOf(
  tenantId: string,
  type: string,
  bytes: Buffer,
  extractor: DocumentExtractor,
): Promise<{ title: string; text: string }> {
  const form = Object.hasOwn(documentTypes, type) ? documentTypes[type as keyof typeof documentTypes] : null;
  const refuse = (detail: string): SvcError => new SvcError("document_unreadable", { detail });
  if (form === null) throw refuse(`its Content-Type is none of ${Object.keys(documentTypes).join(", ")}`);
  if (form !== "text") return extractor.extract(tenantId, form, bytes);
  let decoded: string;
  try {
    decoded = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    throw refuse("it is not UTF-8");
  }
  if (decoded.length > textCharsMax) throw refuse(`its text has more than ${textCharsMax} characters`);
  if (/[^\P{Cc}\t\n\r]/u.test(decoded)) throw refuse("it has control characters");
  if (decoded.trim() === "") throw refuse("it has no text");
  return { title: "", text: decoded };
}

function oneLine(text: string): string {
  return text
    .replace(/[\p{Cc}\u2028\u2029\s]+/gu, " ")
    .trim()
    .slice(0, 400);
}

const readDocumentFile = route({
  method: "GET",
  path: "/documents/{doc_id}/file",
  summary: "The file from which a document was made, as a download.",
  tag,
  access: readScopes,
  tenancy: [{ of: "document" }],
  params: DocumentParams,
  reply: {
    description: "The bytes as they were sent. 404 for a document of POST /documents, which has no file.",
    contentType: "application/octet-stream",
    schema: Type.String({ examples: ["%PDF-1.7"] }),
  },
  fails: ["unknown_document", "not_found", "object_store_unavailable", "storage_unavailable"],
  async handle({ params: { doc_id }, principal }, { store, documentFiles }) {
    const tenant = store.tenant(principal.tenant_id);
    if ((await storedDocument(tenant, doc_id)) === undefined) throw new SvcError("unknown_document");
    const found = await documentFiles.read(tenant, doc_id);
    if (found === null) throw new SvcError("not_found");
    // No browser may show the file as a page of this origin, so its own media type is not sent.
    const extension = extensions[found.file.media_type as keyof typeof documentTypes] ?? "bin";
    return text(found.bytes, "application/octet-stream", {
      "content-disposition": `attachment; filename="${doc_id}.${extension}"`,
    });
  },
});

const extensions: Readonly<Record<keyof typeof documentTypes, string>> = {
  "text/plain": "txt",
  "text/markdown": "md",
  "text/html": "html",
  "application/pdf": "pdf",
  "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
};

const deleteDocument = route({
  method: "DELETE",
  path: "/documents/{doc_id}",
  summary: "Deletes a document with its chunks.",
  tag,
  access: writeScopes,
  tenancy: [{ of: "document" }],
  params: DocumentParams,
  reply: {
    description: "No search finds it any more.",
    schema: Type.Object({ doc_id: docId, removed_chunks: Type.Integer({ examples: [1] }) }),
  },
  fails: ["unknown_document", "conflict", "storage_unavailable"],
  async handle({ params: { doc_id }, principal }, { store, env, documentFiles }) {
    const tenant = store.tenant(principal.tenant_id);
    const removed_chunks = await untilFirst(env, async () => {
      const row = await storedDocument(tenant, doc_id);
      if (row === undefined) throw new SvcError("unknown_document");
      return (await removeDocument(tenant, row)) ? row.chunks : null;
    });
    if (removed_chunks === null) throw new SvcError("conflict");
    // The sweep deletes what stays.
    await documentFiles.removeGone(tenant).catch(() => {});
    return json({ doc_id, removed_chunks });
  },
});

function misfit(field: string, msg: string, place = "body"): SvcError {
  return new SvcError("invalid_request", { detail: [{ loc: [place, field], msg: `${field} ${msg}`, type: "value" }] });
}

export const documentRoutes = [
  listDocuments,
  findDocuments,
  postDocument,
  postDocumentFile,
  readDocumentFile,
  deleteDocument,
];
