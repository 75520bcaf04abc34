import { SvcError } from "../../bus/errors.ts";
import { Type } from "../../bus/type.ts";
import { fileBytesMax, isFileId } from "../../storage/files/file-store.ts";
import { imageTypes } from "../../storage/tables/files.ts";
import { json } from "../exchange/reply.ts";
import { bodyBytesDefault, type Route, route } from "../route.ts";
import type { Tag } from "../tags.ts";

const tag: Tag = { name: "Files", description: "Images for messages." };
/** Bytes of an upload's body in addition to the base64. */
const bodyRestBytes = 16 * 1024;

const FileParams = Type.Object({
  file_id: Type.String({
    description: "From the answer of POST /files.",
    examples: ["7d793037a0760186574b0282f2f435e7"],
  }),
});

/** Returns the route that stores files of at most `fileMax` bytes. */
const upload = (fileMax: number) =>
  route({
    method: "POST",
    path: "/files",
    summary: "Stores an image; messages refer to it by its id.",
    tag,
    access: ["files:write"],
    bodyBytesMax: Math.max(bodyBytesDefault, base64Chars(fileMax) + bodyRestBytes),
    body: Type.Object(
      {
        data: Type.String({
          description: `The bytes, at most ${fileMax / 1024} KiB, as padded base64.`,
          examples: ["R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7"],
        }),
        media_type: Type.String({
          maxLength: 127,
          description: `One of ${imageTypes.join(", ")}; the bytes must match it.`,
          examples: ["image/gif"],
        }),
        filename: Type.String({
          maxLength: 255,
          default: "",
          description: "For people; folders in it are removed.",
        }),
      },
      { additionalProperties: false },
    ),
    reply: {
      description: "Messages name it in a part of type file, or in attachments as `svc-file://{file_id}`.",
      schema: Type.Object({
        file_id: Type.String({ examples: ["7d793037a0760186574b0282f2f435e7"] }),
        media_type: Type.String({ examples: ["image/gif"] }),
        size_bytes: Type.Integer({ examples: [42] }),
        filename: Type.String({ examples: ["dot.gif"] }),
      }),
    },
    fails: [
      "invalid_base64",
      "empty_data",
      "media_type_not_allowed",
      "media_type_mismatch",
      "file_too_large",
      "attachment_quota_exceeded",
      "storage_quota_exceeded",
      "object_store_unavailable",
      "storage_unavailable",
    ],
    async handle({ body, principal }, { files, store }) {
      if (!imageTypes.some((type) => type === body.media_type)) throw new SvcError("media_type_not_allowed");
      const { file_id, media_type, size_bytes, filename } = await files.keep(store.tenant(principal.tenant_id), {
        bytes: bytesOf(body.data, base64Chars(fileMax)),
        declared: body.media_type,
        filename: body.filename,
        created_by: principal.sub,
        thread_key: null,
      });
      return json({ file_id, media_type, size_bytes, filename });
    },
  });

const download = route({
  method: "GET",
  path: "/files/{file_id}",
  summary: "A file with its bytes.",
  tag,
  access: ["files:read"],
  tenancy: [{ of: "file" }],
  params: FileParams,
  reply: {
    description: "`data` is the base64 that was sent.",
    schema: Type.Object({
      file_id: Type.String({ examples: ["7d793037a0760186574b0282f2f435e7"] }),
      size_bytes: Type.Integer({ examples: [42] }),
      data: Type.String({ examples: ["R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7"] }),
    }),
  },
  fails: ["not_found", "storage_unavailable"],
  async handle({ params, principal }, { files, store }) {
    const found = await files.read(store.tenant(principal.tenant_id), params.file_id);
    if (found === null) throw new SvcError("not_found");
    const { file_id, size_bytes } = found.file;
    const data = Buffer.from(found.bytes.buffer, found.bytes.byteOffset, found.bytes.byteLength).toString("base64");
    return json({ file_id, size_bytes, data });
  },
});

const remove = route({
  method: "DELETE",
  path: "/files/{file_id}",
  summary: "Deletes a file. Models then read messages without it.",
  tag,
  access: ["files:write"],
  tenancy: [{ of: "file" }],
  params: FileParams,
  reply: {
    description:
      "`deleted` is also true if there was no such file; false for an invalid id, and if the store is unavailable.",
    schema: Type.Object({
      file_id: Type.String({ examples: ["7d793037a0760186574b0282f2f435e7"] }),
      deleted: Type.Boolean(),
    }),
  },
  async handle({ params, principal }, { files, store, log }) {
    const { file_id } = params;
    if (!isFileId(file_id)) return json({ file_id, deleted: false });
    try {
      await files.remove(store.tenant(principal.tenant_id), file_id);
      return json({ file_id, deleted: true });
    } catch (error) {
      log.warn({ err: error, file_id }, "a file could not be deleted");
      return json({ file_id, deleted: false });
    }
  },
});

/** Refuses base64 that two decoders could decode differently. */
function bytesOf(data: string, base64CharsMax: number): Buffer {
  if (data === "") throw new SvcError("empty_data");
  if (data.length > base64CharsMax) throw new SvcError("file_too_large");
  const bytes = Buffer.from(data, "base64");
  if (bytes.toString("base64") !== data) throw new SvcError("invalid_base64");
  return bytes;
}

/** Returns the base64 length of a file with this many bytes; longer texts are refused before decoding. */
function base64Chars(bytes: number): number {
  return Math.ceil(bytes / 3) * 4;
}

/** Returns the routes of files; uploads have at most `fileMax` bytes. */
export function fileRoutes(fileMax = fileBytesMax): readonly Route[] {
  return [upload(fileMax), download, remove];
}
