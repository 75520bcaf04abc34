import { Type } from "../../bus/type.ts";
import { jsonText } from "../exchange/reply.ts";
import { actorFails, route } from "../route.ts";
import { nullable } from "../schemas/common.ts";
import { eventIdExample, snapshotExample } from "../schemas/example-values.ts";
import { ThreadId } from "../schemas/session.ts";
import { currentSnapshot } from "../snapshot.ts";
import { endOfTurn } from "../streams/turns.ts";
import { chatTag } from "../tags.ts";
import { checkThreadSuffix } from "../thread-id.ts";

/** Max characters of the instructions for a summary. */
const instructionsMax = 4_000;

const compact = route({
  method: "POST",
  path: "/chat/compact",
  summary: "Replaces the older part of a thread by a summary in the model's context. The log keeps all events.",
  tag: chatTag,
  drives: "turn",
  access: "chat:write",
  tenancy: [
    { of: "thread", body: (id) => ({ thread_id: id, manifest: "agent" }) },
    { of: "manifest", body: (id) => ({ thread_id: "compacted", manifest: id }) },
  ],
  body: Type.Object(
    {
      thread_id: ThreadId,
      manifest: Type.Optional(
        nullable(
          Type.String({ description: "Its model writes the summary. Default: the manifest of the thread's last run." }),
        ),
      ),
      instructions: Type.Optional(
        nullable(Type.String({ maxLength: instructionsMax, description: "Instructions for the summary." })),
      ),
    },
    { additionalProperties: false },
  ),
  reply: {
    description: "`compacted` is false if there was nothing to summarise, or the request was aborted.",
    schema: Type.Object({
      ok: Type.Boolean(),
      compacted: Type.Boolean(),
      event_id: nullable(Type.String({ description: "The event of the compaction.", examples: [eventIdExample] })),
      tokens_before: Type.Integer({
        description: "Estimated tokens of the messages in the model's context.",
        examples: [24_310],
      }),
      tokens_after: Type.Integer({ examples: [812] }),
      thread_id: Type.String({ examples: ["default:tour"] }),
      snapshot: Type.Object({}, { additionalProperties: true, examples: [snapshotExample] }),
    }),
  },
  fails: [
    "invalid_thread_id",
    "manifest_required",
    "unknown_manifest",
    "invalid_manifest",
    "auth_scheme_not_allowed",
    "missing_scopes",
    "run_in_progress",
    "unknown_thread",
    "compaction_disabled",
    "unresolved_secret",
    "model_not_configured",
    "model_provider_error",
    ...actorFails,
  ],
  async handle(request, context) {
    const { body, principal } = request;
    const suffix = checkThreadSuffix(body.thread_id);
    const wish = body.instructions ?? "";
    const fields = {
      surface: "compact" as const,
      manifest: body.manifest ?? "",
      messages: wish === "" ? [] : [{ role: "user", content: wish }],
      thread_suffix: suffix,
      model: null,
      template: null,
      template_args: [],
      max_tokens: null,
      temperature: null,
      include_usage: false,
      response: null,
    };
    const ended = await endOfTurn(request, fields, context);
    if (ended.status !== 200) return jsonText(ended.body, ended.status);
    const around = { before: `${ended.body.slice(0, -1)},"snapshot":`, after: "}" };
    const pieces = currentSnapshot(context, principal, suffix, around);
    return { kind: "pieces", contentType: "application/json", pieces };
  },
});

export const compactRoutes = [compact];
