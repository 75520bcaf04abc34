import { workspaceAddress } from "../../bus/address.ts";
import { Type } from "../../bus/type.ts";
import { json } from "../exchange/reply.ts";
import { repoRefusalReply } from "../repos/refusal.ts";
import { actorFails, route } from "../route.ts";
import { EpochMs, nullable } from "../schemas/common.ts";
import { ThreadId } from "../schemas/session.ts";
import type { Tag } from "../tags.ts";
import { checkThreadSuffix } from "../thread-id.ts";

// Routes for the repository that a thread works in.

const tag: Tag = { name: "Repositories", description: "The repository that a thread works in." };
const path = "/chat/sessions/{thread_id}/workspace/repo";
/** Time for git to read a large work tree. */
const readMs = 120_000;
const params = Type.Object({ thread_id: ThreadId });
const manifestFails = ["invalid_thread_id", "unknown_manifest", "invalid_manifest", "auth_scheme_not_allowed"] as const;
const fails = [...manifestFails, "missing_scopes", "unresolved_secret", ...actorFails] as const;

const Checkout = Type.Object({
  state: Type.Union(
    ["cloning", "ready", "failed", "expired"].map((word) => Type.Literal(word)),
    { description: "`error` says why it failed or expired." },
  ),
  repo: Type.String({ examples: ["acme/site"] }),
  base: Type.String({ description: "The branch that was cloned.", examples: ["main"] }),
  private: Type.Boolean({ examples: [false] }),
  opened_by: Type.String({ examples: ["github:1234567"] }),
  created_at: EpochMs,
  error: nullable(Type.String({ examples: ["the repository has no branch next, or is empty"] })),
  branch: nullable(Type.String({ description: "The branch that was published last, or `base`.", examples: ["main"] })),
  ahead: nullable(Type.Integer({ description: "Commits since the clone.", examples: [0] })),
  dirty: nullable(Type.Boolean({ description: "True if files differ from the last commit.", examples: [false] })),
});

const open = route({
  method: "POST",
  path,
  summary: "Clones a repository into the thread's own checkout.",
  tag,
  access: "chat:write",
  drives: "thread",
  params,
  // A branch that no repository has: nothing is cloned for another tenant's sample.
  tenancy: [{ of: "thread", body: () => ({ full_name: "acme/..", ref: "none" }) }],
  body: Type.Object(
    {
      full_name: Type.String({
        minLength: 3,
        maxLength: 200,
        pattern: "^[A-Za-z0-9_.-]+/(?!\\.{1,2}$)[A-Za-z0-9_.-]+$",
        description: "owner/name at the code host, without an address or credentials.",
        examples: ["acme/site"],
      }),
      ref: Type.Optional(
        Type.String({
          minLength: 1,
          maxLength: 255,
          pattern: "^(?!-)(?!.*(?:\\.\\.|//|@\\{|/\\.))[^\\x00-\\x20~^:?*\\[\\\\\\x7f]+$",
          description: "A branch; the default branch if it is left out.",
          examples: ["main"],
        }),
      ),
    },
    { additionalProperties: false },
  ),
  refusal: repoRefusalReply,
  reply: { status: 202, description: "It is being cloned; GET tells when it is ready.", schema: Checkout },
  fails: [
    ...["thread_has_repository", "checkout_busy", "checkouts_misconfigured", "github_not_connected"],
    ...["github_connection_revoked", "repository_unreachable", "repository_too_large", "github_unavailable"],
    ...fails,
  ] as never,
  async handle({ params: { thread_id }, body, principal }, { bus }) {
    const address = workspaceAddress(principal.tenant_id, checkThreadSuffix(thread_id));
    const asked = { full_name: body.full_name, ref: body.ref ?? null, manifest: null, principal };
    return json(await bus.ask(address, "repo_open", asked, { deadlineMs: readMs }), 202);
  },
});

const state = route({
  method: "GET",
  path,
  summary: "The state of the thread's repository.",
  tag,
  access: "chat:read",
  params,
  tenancy: [{ of: "thread" }],
  refusal: repoRefusalReply,
  reply: { description: "`branch`, `ahead` and `dirty` are null unless it is ready.", schema: Checkout },
  fails: ["no_repository", ...fails],
  async handle({ params: { thread_id }, principal }, { bus }) {
    const address = workspaceAddress(principal.tenant_id, checkThreadSuffix(thread_id));
    return json(await bus.ask(address, "repo_state", { manifest: null, principal }, { deadlineMs: readMs }));
  },
});

const files = route({
  method: "GET",
  path: `${path}/files`,
  summary: "The files of the thread's repository, and how they differ from the last commit.",
  tag,
  access: "chat:read",
  params,
  tenancy: [{ of: "thread" }],
  query: Type.Object({
    prefix: Type.String({ maxLength: 1024, default: "", description: "The beginning of the paths, as in src/." }),
    limit: Type.Integer({ minimum: 1, maximum: 10_000, default: 2_000 }),
  }),
  refusal: repoRefusalReply,
  reply: {
    description: "Sorted by path, without ignored files. `truncated`: there are more than the limit.",
    schema: Type.Object({
      state: Type.Union(["ready", "failed", "expired"].map((word) => Type.Literal(word))),
      files: Type.Array(
        Type.Object({
          path: Type.String({ examples: ["src/main.ts"] }),
          kind: Type.Union(["file", "symlink", "missing"].map((word) => Type.Literal(word))),
          size: nullable(Type.Integer({ examples: [120] })),
          status: Type.Union(
            ["clean", "modified", "added", "deleted", "untracked", "conflicted"].map((word) => Type.Literal(word)),
          ),
        }),
      ),
      truncated: Type.Boolean({ examples: [false] }),
    }),
  },
  fails: ["no_repository", "invalid_prefix", "checkout_cloning", "listing_failed", ...fails],
  async handle({ params: { thread_id }, query, principal }, { bus }) {
    const address = workspaceAddress(principal.tenant_id, checkThreadSuffix(thread_id));
    const asked = { ...query, manifest: null, principal };
    return json(await bus.ask(address, "repo_files", asked, { deadlineMs: readMs }));
  },
});

const remove = route({
  method: "DELETE",
  path,
  summary: "Removes the thread's checkout with all changes that were not published.",
  tag,
  access: "chat:write",
  drives: "thread",
  params,
  tenancy: [{ of: "thread" }],
  refusal: repoRefusalReply,
  reply: { status: 204, contentType: "", description: "The thread has no repository now." },
  fails: ["no_repository", "checkout_busy", "workspace_io_error", ...fails],
  async handle({ params: { thread_id }, principal }, { bus }) {
    const address = workspaceAddress(principal.tenant_id, checkThreadSuffix(thread_id));
    await bus.ask(address, "repo_remove", { manifest: null, principal }, { deadlineMs: readMs });
    return { kind: "text", status: 204, contentType: "text/plain", body: "" };
  },
});

export const repoRoutes = [open, state, files, remove];
