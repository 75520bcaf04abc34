import { threadAddress, workspaceAddress } from "../../bus/address.ts";
import type { ErrorCode } from "../../bus/errors.ts";
import { type WorkspaceEdit, workspaceNote } from "../../bus/frames/workspace-note.ts";
import type { Principal } from "../../bus/protocol/principal.ts";
import { Type } from "../../bus/type.ts";
import type { HttpContext } from "../context.ts";
import { json } from "../exchange/reply.ts";
import { actorFails, route } from "../route.ts";
import { nullable } from "../schemas/common.ts";
import { digestExample, eventIdExample } from "../schemas/example-values.ts";
import { ThreadId } from "../schemas/session.ts";
import type { Tag } from "../tags.ts";
import { checkThreadSuffix } from "../thread-id.ts";

// Routes that let people read and change the workspace files of a thread, the same files as the agent's tools use.

const tag: Tag = { name: "Workspace", description: "Workspace files of a thread." };
/** Max time for a large folder, which is changed in steps and answered after the last one. */
const longMs = 600_000;
const fileMs = 30_000;

const pathRules = { minLength: 1, maxLength: 4096, description: "From the workspace's root, as in src/main.ts." };
const FilePath = Type.String({ ...pathRules, examples: ["notes/today.md"] });
const NewPath = Type.String({ ...pathRules, examples: ["notes/yesterday.md"] });
const Manifest = Type.Optional(
  Type.String({
    minLength: 1,
    maxLength: 256,
    description:
      "The manifest whose `spec.workspace` selects the folder, for a thread without runs. Otherwise the newest run's; without any the scope is `thread`.",
  }),
);
const Expected = Type.Optional(
  Type.String({
    pattern: "^[0-9a-fA-F]{64}$",
    description: "SHA-256 of the file that the client has read. Another version is 409 `workspace_changed`.",
  }),
);
const Sha256 = Type.String({ description: "Of the file's bytes.", examples: [digestExample] });
const ChangedFile = {
  status: nullable(
    Type.Union([Type.Literal("queued"), Type.Literal("recorded")], {
      description:
        "`queued`: the thread has a run, and its model reads a note before its next call. `recorded`: the note is in the thread's log. Null: the change is made, but the note failed.",
    }),
  ),
  event_id: nullable(Type.String({ description: "Of the note in the log.", examples: [eventIdExample] })),
  path: Type.String({ examples: ["notes/today.md"] }),
};

const placeFails: readonly ErrorCode[] = [
  "invalid_thread_id",
  "unknown_manifest",
  "invalid_manifest",
  "auth_scheme_not_allowed",
  "missing_scopes",
  "unresolved_secret",
  "workspace_not_configured",
  "workspace_unavailable",
  "workspace_io_error",
  ...actorFails,
];
const pathFails: readonly ErrorCode[] = ["invalid_path", "reserved_path", "not_found"];

const tree = route({
  method: "GET",
  path: "/chat/workspace/tree",
  summary: "The files and folders of a thread's workspace.",
  tag,
  access: "chat:read",
  tenancy: [
    { of: "thread", query: (id) => `thread_id=${id}` },
    { of: "manifest", query: (id) => `thread_id=a-workspace&manifest=${id}` },
  ],
  query: Type.Object({
    thread_id: ThreadId,
    limit: Type.Integer({ minimum: 1, maximum: 5000, default: 5000 }),
    manifest: Manifest,
  }),
  reply: {
    description:
      "Folders come before their content, sorted by name without regard to case. Links, `.git` and files of the service are left out. `truncated`: there are more than the limit.",
    schema: Type.Object({
      root_kind: Type.Union([Type.Literal("scoped"), Type.Literal("checkout")], {
        description: "`checkout`: the files are those of the thread's repository.",
      }),
      scope: nullable(Type.Union([Type.Literal("thread"), Type.Literal("tenant"), Type.Literal("deployment")])),
      manifest: nullable(Type.String({ examples: ["quick"] })),
      entries: Type.Array(
        Type.Object({
          path: Type.String({ examples: ["notes/today.md"] }),
          type: Type.Union([Type.Literal("file"), Type.Literal("dir")]),
          bytes: Type.Optional(Type.Integer({ description: "Of a file." })),
        }),
      ),
      truncated: Type.Boolean({ examples: [false] }),
    }),
  },
  fails: placeFails,
  async handle({ query, principal }, { bus }) {
    const { thread_id, limit } = query;
    const asked = { ...whose(query, principal), limit };
    const found = await bus.ask(addressOf(thread_id, principal), "tree", asked, { deadlineMs: fileMs });
    return json(found);
  },
});

const file = route({
  method: "GET",
  path: "/chat/workspace/file",
  summary: "A file of a thread's workspace.",
  tag,
  access: "chat:read",
  tenancy: [{ of: "thread", query: (id) => `thread_id=${id}&path=a` }],
  query: Type.Object({ thread_id: ThreadId, path: FilePath, manifest: Manifest }),
  reply: {
    description: "Text, if the file is UTF-8 without NUL.",
    schema: Type.Object({
      path: Type.String({ examples: ["notes/today.md"] }),
      bytes: Type.Integer({ examples: [10] }),
      sha256: Sha256,
      encoding: Type.Union([Type.Literal("utf-8"), Type.Literal("base64")], { examples: ["utf-8"] }),
      content: Type.String({ examples: ["6 * 7 = 42"] }),
    }),
  },
  fails: [...placeFails, ...pathFails, "not_a_file", "too_large"],
  async handle({ query, principal }, { bus }) {
    const { thread_id, path } = query;
    const asked = { ...whose(query, principal), path };
    const found = await bus.ask(addressOf(thread_id, principal), "read", asked, { deadlineMs: fileMs });
    return json({ path, ...found });
  },
});

const write = route({
  method: "POST",
  path: "/chat/workspace/write",
  summary: "Creates or replaces a file of a thread's workspace, and its folders.",
  tag,
  access: "chat:write",
  tenancy: [
    // The expected hash keeps the request from creating a file.
    { of: "thread", body: (id) => ({ thread_id: id, path: "a", content: "mine", expected_sha256: "0".repeat(64) }) },
  ],
  drives: "thread",
  body: Type.Object(
    {
      thread_id: ThreadId,
      path: FilePath,
      content: Type.String({
        description: "The whole text, at most 512,000 bytes of UTF-8.",
        examples: ["6 * 7 = 42"],
      }),
      expected_sha256: Expected,
      manifest: Manifest,
    },
    { additionalProperties: false },
  ),
  reply: {
    description: "The file after the change.",
    schema: Type.Object({ ...ChangedFile, bytes: Type.Integer({ examples: [10] }), sha256: Sha256 }),
  },
  fails: [...placeFails, ...pathFails, "not_a_file", "too_large", "workspace_changed"],
  async handle({ body, principal, rawBody }, context) {
    const { bus } = context;
    const { thread_id, path, content } = body;
    const asked = { ...whose(body, principal), path, content, expected_sha256: hashIn(body) };
    const options = { deadlineMs: fileMs, bytes: rawBody.length };
    const { bytes, sha256 } = await bus.ask(addressOf(thread_id, principal), "write", asked, options);
    const told = await tell(context, principal, thread_id, { op: "write", path, bytes, to_path: null });
    return json({ ...told, path, bytes, sha256 });
  },
});

const erase = route({
  method: "POST",
  path: "/chat/workspace/delete",
  summary: "Deletes a file of a thread's workspace.",
  tag,
  access: "chat:write",
  tenancy: [{ of: "thread", body: (id) => ({ thread_id: id, path: "a" }) }],
  drives: "thread",
  body: Type.Object(
    { thread_id: ThreadId, path: FilePath, expected_sha256: Expected, manifest: Manifest },
    { additionalProperties: false },
  ),
  reply: { description: "It was deleted, or did not exist.", schema: Type.Object(ChangedFile) },
  fails: [...placeFails, ...pathFails, "not_a_file", "workspace_changed"],
  async handle({ body, principal }, context) {
    const { bus } = context;
    const { thread_id, path } = body;
    const asked = { ...whose(body, principal), path, expected_sha256: hashIn(body) };
    await bus.ask(addressOf(thread_id, principal), "delete", asked, { deadlineMs: fileMs });
    const told = await tell(context, principal, thread_id, { op: "delete", path, bytes: null, to_path: null });
    return json({ ...told, path });
  },
});

const eraseFolder = route({
  method: "POST",
  path: "/chat/workspace/delete_folder",
  summary: "Deletes a folder of a thread's workspace with everything in it.",
  tag,
  access: "chat:write",
  tenancy: [{ of: "thread", body: (id) => ({ thread_id: id, path: "b" }) }],
  drives: "thread",
  body: Type.Object({ thread_id: ThreadId, path: FilePath, manifest: Manifest }, { additionalProperties: false }),
  reply: {
    description: "Number of deleted files. After a failure, repeat the request.",
    schema: Type.Object({ ...ChangedFile, files: Type.Integer({ examples: [3] }) }),
  },
  fails: [...placeFails, ...pathFails, "not_a_folder", "workspace_changed"],
  async handle({ body, principal }, context) {
    const { bus } = context;
    const { thread_id, path } = body;
    const asked = { ...whose(body, principal), path };
    const { files } = await bus.ask(addressOf(thread_id, principal), "delete_folder", asked, { deadlineMs: longMs });
    const told = await tell(context, principal, thread_id, { op: "delete", path, bytes: null, to_path: null });
    return json({ ...told, path, files });
  },
});

const rename = route({
  method: "POST",
  path: "/chat/workspace/rename",
  summary: "Moves a file of a thread's workspace to a free path.",
  tag,
  access: "chat:write",
  tenancy: [{ of: "thread", body: (id) => ({ thread_id: id, path: "a", to_path: "c" }) }],
  drives: "thread",
  body: Type.Object(
    { thread_id: ThreadId, path: FilePath, to_path: NewPath, expected_sha256: Expected, manifest: Manifest },
    { additionalProperties: false },
  ),
  reply: {
    description: "`sha256` is null for a file of more than 512,000 bytes.",
    schema: Type.Object({
      ...ChangedFile,
      to_path: Type.String({ examples: ["notes/yesterday.md"] }),
      sha256: nullable(Sha256),
    }),
  },
  fails: [...placeFails, ...pathFails, "not_a_file", "target_exists", "workspace_changed"],
  async handle({ body, principal }, context) {
    const { bus } = context;
    const { thread_id, path, to_path } = body;
    const asked = { ...whose(body, principal), path, to_path, expected_sha256: hashIn(body) };
    const { sha256 } = await bus.ask(addressOf(thread_id, principal), "rename", asked, { deadlineMs: fileMs });
    const told = await tell(context, principal, thread_id, { op: "rename", path, bytes: null, to_path });
    return json({ ...told, path, to_path, sha256 });
  },
});

const renameFolder = route({
  method: "POST",
  path: "/chat/workspace/rename_folder",
  summary: "Moves a folder of a thread's workspace to a free path that is short enough for all its files.",
  tag,
  access: "chat:write",
  tenancy: [{ of: "thread", body: (id) => ({ thread_id: id, path: "b", to_path: "c" }) }],
  drives: "thread",
  body: Type.Object(
    { thread_id: ThreadId, path: FilePath, to_path: NewPath, manifest: Manifest },
    { additionalProperties: false },
  ),
  reply: {
    description: "It was moved.",
    schema: Type.Object({ ...ChangedFile, to_path: Type.String({ examples: ["notes/yesterday.md"] }) }),
  },
  fails: [...placeFails, ...pathFails, "not_a_folder", "target_exists", "workspace_changed"],
  async handle({ body, principal }, context) {
    const { bus } = context;
    const { thread_id, path, to_path } = body;
    const asked = { ...whose(body, principal), path, to_path };
    await bus.ask(addressOf(thread_id, principal), "rename_folder", asked, { deadlineMs: fileMs });
    const told = await tell(context, principal, thread_id, { op: "rename", path, bytes: null, to_path });
    return json({ ...told, path, to_path });
  },
});

function addressOf(threadId: string, { tenant_id }: Principal) {
  return workspaceAddress(tenant_id, checkThreadSuffix(threadId));
}

/** Sends a note about the change to the agent. The change stays valid if the note fails. */
async function tell({ bus, log }: HttpContext, { tenant_id }: Principal, threadId: string, edit: WorkspaceEdit) {
  const address = threadAddress(tenant_id, threadId);
  try {
    const { status, event_id } = await bus.ask(address, "note", workspaceNote(edit));
    return { status, event_id };
  } catch (error) {
    log.warn({ err: error, thread_id: address.key }, "the note about a changed file could not be queued for its agent");
    return { status: null, event_id: null };
  }
}

function whose({ manifest = null }: { readonly manifest?: string | null }, principal: Principal) {
  return { manifest, principal };
}

function hashIn({ expected_sha256 }: { readonly expected_sha256?: string }): string | null {
  return expected_sha256?.toLowerCase() ?? null;
}

export const workspaceRoutes = [tree, file, write, erase, eraseFolder, rename, renameFolder];
