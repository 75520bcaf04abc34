import { Type } from "../../bus/type.ts";
import { json } from "../exchange/reply.ts";
import { route } from "../route.ts";
import { systemTag } from "../tags.ts";

const whoami = route({
  method: "GET",
  path: "/auth/whoami",
  summary: "The caller, as its credential names it, and its scopes.",
  tag: systemTag,
  access: "authenticated",
  reply: {
    description: "`*` grants every scope, and is the answer without authentication.",
    schema: Type.Object({
      tenant_id: Type.String({ examples: ["default"] }),
      sub: Type.String({ examples: ["ada@example.com"] }),
      scheme: Type.String({ examples: ["api_key"] }),
      scopes: Type.Array(Type.String(), { examples: [["chat:write", "runs:read"]] }),
      version: Type.String({ description: "Of the server.", examples: ["0.2.0"] }),
    }),
  },
  handle: ({ principal: { tenant_id, sub, scheme, scopes } }, { version }) =>
    json({ tenant_id, sub, scheme, scopes: scheme === "none" ? ["*"] : scopes, version }),
});

export const whoamiRoutes = [whoami];
