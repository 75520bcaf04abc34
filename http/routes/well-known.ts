import { Type } from "../../bus/type.ts";
import { json } from "../exchange/reply.ts";
import { route } from "../route.ts";

// Public routes below /.well-known/. This version has no A2A protocol and therefore no agent card: its path answers 404, as for a manifest
// that hides its card.

const jwks = route({
  method: "GET",
  path: "/.well-known/jwks.json",
  summary: "The public keys that verify tokens.",
  tag: "System",
  access: "public",
  unlimited: true,
  reply: {
    description: "`error` is `not_configured` and `keys` empty if SVC_JWKS_PUBLIC is not set.",
    example: {
      keys: [
        {
          kty: "OKP",
          crv: "Ed25519",
          kid: "2026",
          alg: "EdDSA",
          use: "sig",
          x: "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo",
        },
      ],
    },
    schema: Type.Object({
      error: Type.Optional(Type.String()),
      keys: Type.Array(Type.Object({ kty: Type.String() }, { additionalProperties: true })),
    }),
  },
  handle: (_request, { settings }) =>
    json(settings.jwksPublic ? { keys: settings.jwksPublic.keys } : { error: "not_configured", keys: [] }),
});

export const wellKnownRoutes = [jwks];
