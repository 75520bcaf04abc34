import { threadAddress } from "../../bus/address.ts";
import { permissionModes } from "../../bus/protocol/permission-mode.ts";
import { thinkingLevels } from "../../bus/protocol/thinking.ts";
import { Type } from "../../bus/type.ts";
import { styleNameCharsMax } from "../../manifests/sections/output-styles.ts";
import { json } from "../exchange/reply.ts";
import { actorFails, route } from "../route.ts";
import { nullable } from "../schemas/common.ts";
import { chatTag } from "../tags.ts";
import { checkThreadSuffix } from "../thread-id.ts";

// Settings of a thread for its later turns: thinking level, output style and permission mode.

const chatThinking = route({
  method: "POST",
  path: "/chat/thinking",
  summary: "Sets the thinking level of a thread, from its next turn on.",
  tag: chatTag,
  access: "chat:write",
  tenancy: [
    // Another level than null would create a thread of the caller.
    { of: "thread", body: (id) => ({ thread_id: id, thinking_level: null }) },
  ],
  drives: "thread",
  body: Type.Object(
    {
      thread_id: Type.String({
        description: "The thread's suffix. A missing thread is created, and listed after its first turn.",
        examples: ["tour"],
      }),
      thinking_level: nullable(Type.Enum([...thinkingLevels], { description: "Null uses the manifest's level." })),
    },
    { additionalProperties: false },
  ),
  reply: {
    description: "The stored level.",
    schema: Type.Object({
      ok: Type.Boolean(),
      thread_id: Type.String({ examples: ["default:tour"] }),
      thinking_level: nullable(Type.Enum([...thinkingLevels])),
    }),
  },
  fails: ["invalid_thread_id", "conflict", ...actorFails],
  async handle({ body, principal }, { bus }) {
    const address = threadAddress(principal.tenant_id, checkThreadSuffix(body.thread_id));
    const { level } = await bus.ask(address, "think", { level: body.thinking_level });
    return json({ ok: true, thread_id: address.key, thinking_level: level });
  },
});

const chatStyle = route({
  method: "POST",
  path: "/chat/style",
  summary: "Selects an output style of the manifest for a thread, from its next turn on.",
  tag: chatTag,
  access: "chat:write",
  tenancy: [
    // A style that exists would create a thread of the caller.
    { of: "thread", body: (id) => ({ thread_id: id, style: null }) },
    { of: "thread", body: (id) => ({ thread_id: id, style: "terse" }) },
    { of: "manifest", body: (id) => ({ thread_id: "styled", style: "terse", manifest: id }) },
  ],
  drives: "thread",
  body: Type.Object(
    {
      thread_id: Type.String({
        description: "The thread's suffix. A missing thread is created, and listed after its first turn.",
        examples: ["tour"],
      }),
      style: nullable(
        Type.String({
          minLength: 1,
          maxLength: styleNameCharsMax,
          description: "Name of a style of spec.output_styles, in upper or lower case; null is the manifest's default.",
        }),
        { examples: [null] },
      ),
      manifest: Type.Optional(
        Type.String({
          description: "The manifest that declares the style. Default: the manifest of the thread's last run.",
        }),
      ),
    },
    { additionalProperties: false },
  ),
  reply: {
    description: "The stored style, spelled as in the manifest.",
    schema: Type.Object({
      ok: Type.Boolean(),
      thread_id: Type.String({ examples: ["default:tour"] }),
      outputStyle: nullable(Type.String(), { examples: [null] }),
    }),
  },
  fails: [
    "invalid_thread_id",
    "manifest_required",
    "unknown_manifest",
    "invalid_manifest",
    "auth_scheme_not_allowed",
    "missing_scopes",
    "unresolved_secret",
    "unknown_style",
    "conflict",
    ...actorFails,
  ],
  async handle({ body, principal }, { bus }) {
    const address = threadAddress(principal.tenant_id, checkThreadSuffix(body.thread_id));
    const asked = { style: body.style, manifest: body.manifest ?? null, principal };
    const { style } = await bus.ask(address, "style", asked);
    return json({ ok: true, thread_id: address.key, outputStyle: style });
  },
});

const chatMode = route({
  method: "POST",
  path: "/chat/mode",
  summary: "Sets the permission mode of a thread, from its next turn on.",
  tag: chatTag,
  access: "chat:write",
  tenancy: [
    // With an existing manifest the request would create a thread of the caller.
    { of: "thread", body: (id) => ({ thread_id: id, mode: "plan", manifest: "nobodys" }) },
    { of: "manifest", body: (id) => ({ thread_id: "moded", mode: "plan", manifest: id }) },
  ],
  drives: "thread",
  body: Type.Object(
    {
      thread_id: Type.String({
        description: "The thread's suffix. A missing thread is created, and listed after its first turn.",
        examples: ["tour"],
      }),
      mode: Type.Enum([...permissionModes], {
        description: "bypass needs the scope approvals:bypass.",
        examples: ["default"],
      }),
      manifest: Type.Optional(
        Type.String({
          description: "The manifest that allows the mode. Default: the manifest of the thread's last run.",
        }),
      ),
    },
    { additionalProperties: false },
  ),
  reply: {
    description: "The stored mode. A turn under a manifest that does not allow it uses that manifest's default mode.",
    schema: Type.Object({
      ok: Type.Boolean(),
      thread_id: Type.String({ examples: ["default:tour"] }),
      mode: Type.Enum([...permissionModes], { examples: ["default"] }),
    }),
  },
  fails: [
    "invalid_thread_id",
    "manifest_required",
    "unknown_manifest",
    "invalid_manifest",
    "auth_scheme_not_allowed",
    "missing_scopes",
    "unresolved_secret",
    "mode_not_allowed",
    "conflict",
    ...actorFails,
  ],
  async handle({ body, principal }, { bus }) {
    const address = threadAddress(principal.tenant_id, checkThreadSuffix(body.thread_id));
    const asked = { mode: body.mode, manifest: body.manifest ?? null, principal };
    const { mode } = await bus.ask(address, "mode", asked);
    return json({ ok: true, thread_id: address.key, mode });
  },
});

export const preferenceRoutes = [chatThinking, chatStyle, chatMode];
